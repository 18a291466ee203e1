-- keys of each type: what is equal, what is less and in which order they come is what PostgreSQL says
\set VERBOSITY terse
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT setseed(0.14);

-- a random one of the elements
CREATE FUNCTION one_of(VARIADIC elements text[]) RETURNS text LANGUAGE sql VOLATILE AS
	$$ SELECT elements[1 + floor(random() * cardinality(elements))::int] $$;

/*
 * Random values of the type, in a table of PostgreSQL's own and in ours: as the primary key, and as
 * keys of two indexes. What differs; and where an order is not that of the key.
 */
CREATE FUNCTION differences(type text, value text, key text DEFAULT 'PRIMARY KEY') RETURNS SETOF text LANGUAGE plpgsql
	SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
	asked text;
	ours text;
	theirs text;
	line text;
BEGIN
	EXECUTE format('CREATE TABLE own (n int, k %1$s, d %1$s);
		CREATE FOREIGN TABLE keyed (n int, k %1$s %2$s) SERVER redis;
		CREATE FOREIGN TABLE indexed (n int OPTIONS (key ''true''), k %1$s, d %1$s) SERVER redis
			OPTIONS (fdw_tuple_cost ''100'', fdw_startup_cost ''0'');
		CREATE TABLE pairs (a %1$s, b %1$s)', type, key);
	EXECUTE format('INSERT INTO own SELECT n, %1$s, CASE WHEN n %% 7 > 0 THEN %1$s END
		FROM generate_series(1, 120) n', value);
	INSERT INTO indexed SELECT * FROM own;
	CREATE INDEX ON indexed (k, n);
	CREATE INDEX ON indexed (d DESC NULLS LAST, k DESC);
	INSERT INTO keyed SELECT n, k FROM own ORDER BY n ON CONFLICT (k) DO NOTHING;
	INSERT INTO pairs SELECT x.k, y.k FROM own x, own y WHERE x.n <= 6 AND y.n BETWEEN 7 AND 12;

	IF (SELECT count(*) FROM keyed) <> (SELECT count(DISTINCT k) FROM own) THEN
		RETURN NEXT type || ': others are equal';
	END IF;
	FOREACH asked IN ARRAY ARRAY['k', 'k DESC'] LOOP
		EXECUTE format('SELECT string_agg(n || k::text, '';'') FROM (SELECT n, k FROM keyed ORDER BY %s) s', asked)
			INTO ours;
		EXECUTE format('SELECT string_agg(n || k::text, '';'' ORDER BY %s) FROM
			(SELECT DISTINCT ON (k) n, k FROM own ORDER BY k, n) s', asked) INTO theirs;
		IF ours <> theirs THEN
			RETURN NEXT format('%s: in another order: %s', type, asked);
		END IF;
	END LOOP;
	FOREACH asked IN ARRAY ARRAY['ORDER BY k, n', 'ORDER BY d DESC NULLS LAST, n', 'ORDER BY d NULLS FIRST, n'] LOOP
		asked := 'SELECT string_agg(n::text, '','') FROM (SELECT n FROM %s ' || asked || ') s';
		EXECUTE format(asked, 'indexed') INTO ours;
		EXECUTE format(asked, 'own') INTO theirs;
		IF ours <> theirs THEN
			RETURN NEXT format('%s: another answer: %s', type, asked);
		END IF;
	END LOOP;
	FOREACH asked IN ARRAY ARRAY['k = a', 'k < a', 'k BETWEEN a AND b', 'd >= b', 'd = a AND k > b', 'd IN (a, b)',
			'd IS NULL', '(d, k) < (a, b)'] LOOP
		asked := 'SELECT string_agg(concat((SELECT string_agg(concat(n, k, d), '','' ORDER BY n) FROM %s WHERE '
			|| asked || ')), '';'') FROM pairs';
		EXECUTE format(asked, 'indexed') INTO ours;
		EXECUTE format(asked, 'own') INTO theirs;
		IF ours <> theirs THEN
			RETURN NEXT format('%s: another answer: %s', type, asked);
		END IF;
	END LOOP;
	FOREACH asked IN ARRAY ARRAY['SELECT k FROM keyed ORDER BY k', 'SELECT k FROM keyed ORDER BY k DESC',
			'SELECT k FROM indexed ORDER BY k, n', 'SELECT d FROM indexed ORDER BY d DESC NULLS LAST'] LOOP
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || asked LOOP
			IF line LIKE '%Sort%' THEN
				RETURN NEXT type || ': sorted: ' || asked;
			END IF;
		END LOOP;
	END LOOP;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT * FROM keyed WHERE k > (SELECT a FROM pairs LIMIT 1)' LOOP
		IF line LIKE '%Filter%' THEN
			RETURN NEXT type || ': no range: ' || line;
		END IF;
	END LOOP;
	BEGIN
		INSERT INTO keyed SELECT 0, k FROM own WHERE n = 1;
		RETURN NEXT type || ': not unique';
	EXCEPTION WHEN unique_violation THEN
		NULL;
	END;
	IF EXISTS (SELECT FROM mosql_fdw_check('keyed')) OR EXISTS (SELECT FROM mosql_fdw_check('indexed')) THEN
		RETURN NEXT type || ': damaged';
	END IF;
	DROP FOREIGN TABLE keyed, indexed;
	DROP TABLE own, pairs;
END $$;

CREATE FUNCTION some_inet() RETURNS inet LANGUAGE sql VOLATILE AS $$
	SELECT CASE WHEN random() < 0.6 THEN
		set_masklen((one_of('10', '11', '138') || '.' || one_of('0', '128', '255') || '.0.' || one_of('0', '1', '3'))::inet,
			one_of('0', '1', '7', '8', '9', '16', '24', '31', '32', '32')::int)
	ELSE
		set_masklen((one_of('::', 'fe80::', '2001:db8:8000::') || one_of('0', '1', 'ffff:0', '8000'))::inet,
			one_of('0', '3', '10', '33', '64', '112', '127', '128', '128')::int)
	END $$;
SELECT differences(type, value) FROM (VALUES
	('inet', 'some_inet()'),
	('cidr', 'network(some_inet())'),
	('macaddr', $$('08:00:2b:' || one_of('00', '01', '80', 'ff') || ':' || one_of('00', '7f', 'ff') || ':0' || one_of('0', '1', '2'))::macaddr$$),
	('macaddr8', $$(one_of('00', 'ff', '08') || ':00:2b:01:02:' || one_of('00', '01', '80', 'ff') || ':' || one_of('00', '7f', 'ff') || ':0' || one_of('0', '1', '2'))::macaddr8$$),
	('pg_lsn', $$(one_of('0', '1', '7FFFFFFF', '80000000', 'FFFFFFFF') || '/' || one_of('0', '1', '80000000', 'FFFFFFFF'))::pg_lsn$$),
	('xid8', $$one_of('0', '1', '127', '128', '4294967296', '9223372036854775807', '9223372036854775808', '18446744073709551615')::xid8$$),
	('bit(9)', $$((random() * 511)::int::bit(9) & one_of('111111111', '100000001', '000000111')::bit(9))$$),
	('varbit', $$substring((one_of('00000000', '10000000', '11111111') || (random() * 3)::int::bit(2)::text || repeat('0', 12))::varbit
		from 1 for (random() * 20)::int)$$),
	('int[]', $$CASE WHEN random() < 0.8 THEN (ARRAY[-1, 0, NULL, 1, 256]::int[])[1 + (random() * 4)::int : (random() * 6)::int]
		|| one_of('{}', '{1}', '{NULL}', '{-1,2}')::int[] ELSE one_of('{}', '[0:1]={1,2}', '{1,2}', '{{1,2}}', '{{1},{2}}',
		'[2:3][1:1]={{1},{2}}', '{{1,2},{1,NULL}}', '[-1:-1]={1}')::int[] END$$),
	('text[] COLLATE "C"', $$ARRAY[one_of('', 'a', 'ab', 'ä', NULL), one_of('', 'b', 'B')] || one_of('{}', '{""}', '{a}')::text[]$$),
	('inet[]', $$ARRAY[some_inet(), one_of('10.0.0.0/8', '10.0.0.1', NULL)::inet]$$),
	('numeric[]', $$ARRAY[one_of('1', '1.0', '1.00', '-0.5', 'NaN', NULL), one_of('2', '2.0', 'Infinity')]::numeric[]$$),
	('char(3)[] COLLATE "C"', $$ARRAY[one_of('a', 'a ', 'b', 'A'), one_of('', ' ', NULL)]::char(3)[]$$),
	('int4range', $$int4range((one_of('-5', '0', '3', NULL))::int, one_of('3', '4', '1000', NULL)::int, one_of('[]', '[)', '()', '(]'))$$),
	('numrange', $$numrange(one_of('-0.50', '-0.5', '0', NULL)::numeric, one_of('0', '0.0', '4', NULL)::numeric, one_of('[]', '[)', '()', '(]'))$$),
	('daterange', $$daterange(one_of('-infinity', '2026-01-01', NULL)::date, one_of('2026-01-02', 'infinity', NULL)::date, one_of('[]', '[)', '()'))$$),
	('int8range[]', $$ARRAY[int8range(one_of('-5', NULL)::int, one_of('5', NULL)::int), one_of('empty', '[0,0]', '(,)')::int8range]$$)
	) types (type, value);

-- of a subnet all that is in it; foreign keys; a domain; values of the other type
CREATE DOMAIN address AS inet CHECK (family(VALUE) = 4);
CREATE FOREIGN TABLE hosts (ip address OPTIONS (key 'true'), net cidr, mac macaddr UNIQUE) SERVER redis;
CREATE FOREIGN TABLE seen (id int OPTIONS (key 'true'), ip inet REFERENCES hosts ON UPDATE CASCADE) SERVER redis;
CREATE INDEX ON hosts (net);
INSERT INTO hosts SELECT ('10.0.' || i || '.1')::inet, ('10.0.' || i / 4 * 4 || '.0/22')::cidr,
	('08:00:2b:01:02:' || to_hex(i))::macaddr FROM generate_series(1, 9) i;
INSERT INTO seen VALUES (1, '10.0.1.1'), (2, '10.0.9.1');
INSERT INTO seen VALUES (3, '10.0.1.0');
INSERT INTO seen VALUES (3, '10.0.1.1/24');
INSERT INTO hosts VALUES ('10.0.1.1/32', NULL, NULL);
INSERT INTO hosts VALUES ('::1', NULL, NULL);
INSERT INTO hosts VALUES ('10.0.1.1/24', '10.0.0.0/22', '08-00-2b-01-02-09') ON CONFLICT (mac) DO UPDATE SET net = excluded.net;
UPDATE hosts SET ip = '10.0.200.1' WHERE ip = '10.0.9.1';
DELETE FROM hosts WHERE ip <= '10.0.1.1';
SELECT * FROM seen ORDER BY id;
SET enable_seqscan = off;
SELECT ip FROM hosts WHERE net = '10.0.4.0/22' ORDER BY ip;
SELECT ip FROM hosts WHERE net > '10.0.4.1/22'::inet ORDER BY net, ip;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT * FROM hosts WHERE ip BETWEEN '10.0.4.0' AND '10.0.7.255' ORDER BY ip DESC;
SELECT * FROM mosql_fdw_check('hosts');
SELECT * FROM mosql_fdw_check('seen');

-- another type of such a column, and of a key of another
ALTER FOREIGN TABLE hosts ALTER net TYPE inet, ALTER mac TYPE macaddr8;
INSERT INTO hosts VALUES ('10.0.9.9', '10.0.8.1/22', '08:00:2b:ff:fe:01:02:05');
INSERT INTO hosts VALUES ('10.0.9.9', '10.0.8.1/22', '08:00:2b:ff:fe:01:02:15');
SELECT net FROM hosts ORDER BY net DESC LIMIT 2;
ALTER FOREIGN TABLE seen ALTER id TYPE bit(4) USING id::bit(4);
SELECT id FROM seen WHERE id >= B'0001' ORDER BY id;
SELECT * FROM mosql_fdw_check('hosts');
SELECT * FROM mosql_fdw_check('seen');
DROP FOREIGN TABLE seen, hosts;
DROP DOMAIN address;

-- arrays: of enums, and of texts whose order is not that of bytes, are found where they are equal
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE DOMAIN smalls AS int[] CHECK (cardinality(VALUE) < 3);
CREATE FOREIGN TABLE lists (tags text[] OPTIONS (key 'true'), moods mood[] UNIQUE, few smalls) SERVER redis;
CREATE INDEX ON lists (few DESC, tags);
INSERT INTO lists VALUES ('{a,b}', '{sad}', '{1,2}'), ('{b}', '{sad,ok}', '{1}'), ('{b,NULL}', '{}', '[2:2]={1}'), ('{}', NULL, NULL);
INSERT INTO lists VALUES ('{a,b}');
INSERT INTO lists VALUES ('{c}', '{sad,ok}');
INSERT INTO lists VALUES ('{c}', NULL, '{1,2,3}');
INSERT INTO lists SELECT array_agg(repeat('x', 100) || i) FROM generate_series(1, 100) i;
ALTER TYPE mood ADD VALUE 'bad' BEFORE 'sad';
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
INSERT INTO lists VALUES ('{c}', '{sad,fine}') ON CONFLICT (moods) DO UPDATE SET few = '{2}' RETURNING tags, moods;
UPDATE lists SET moods = '{bad,fine,NULL}' WHERE moods = '{}';
SET enable_seqscan = off;
SELECT tags, moods FROM lists WHERE moods = '{bad,fine,NULL}';
SELECT tags FROM lists WHERE tags > '{a}' ORDER BY tags COLLATE "C";
SELECT few FROM lists WHERE few > '{1}' ORDER BY few DESC;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT * FROM lists WHERE tags = '{a,b}';
EXPLAIN (COSTS OFF) SELECT * FROM lists WHERE tags > '{a,b}' COLLATE "C" ORDER BY tags COLLATE "C";
CREATE INDEX lists_known ON lists ((coalesce(moods, moods)));
ALTER TYPE mood RENAME VALUE 'sad' TO 'sorry';
DROP INDEX lists_known;
ALTER TYPE mood RENAME VALUE 'sad' TO 'sorry';
ALTER FOREIGN TABLE lists ALTER few TYPE bigint[], ALTER tags TYPE varchar[];
SELECT * FROM lists ORDER BY tags COLLATE "C";
SELECT * FROM mosql_fdw_check('lists');
-- each server has domains of its own
SELECT outcome('CREATE FOREIGN TABLE bad (k small[] OPTIONS (key ''true'')) SERVER redis');
CREATE INDEX ON lists ((ROW(1, 2)));
DROP FOREIGN TABLE lists;
DROP DOMAIN small, smalls;
DROP TYPE mood;

-- ranges, referenced
CREATE FOREIGN TABLE periods (during daterange OPTIONS (key 'true')) SERVER redis;
CREATE FOREIGN TABLE bookings (id int OPTIONS (key 'true'), during daterange REFERENCES periods ON DELETE CASCADE) SERVER redis;
INSERT INTO periods VALUES ('[2026-01-01,2026-02-01)'), ('empty'), ('(,)');
INSERT INTO bookings VALUES (1, '[2026-01-01,2026-01-31]'), (2, 'empty'), (3, '(,)');
INSERT INTO bookings VALUES (4, '[2026-01-01,2026-01-30]');
DELETE FROM periods WHERE during < '(,2000-01-01)';
SELECT * FROM bookings ORDER BY id;
DROP FOREIGN TABLE bookings, periods;

-- citext, where it is to be had: of indexes alone
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext') THEN
		CREATE SCHEMA ci;
		CREATE EXTENSION citext SCHEMA ci;
		SET search_path = public, ci;
	END IF;
END $$;
SELECT differences(type, value, 'UNIQUE NOT NULL') FROM (VALUES
	('ci.citext COLLATE "C"', $$(one_of('', 'a', 'A', 'b', 'B') || one_of('x', 'X', '_', 'Ä', 'ä', '') || one_of('', 'y', 'Y'))::ci.citext$$)) types (type, value)
	WHERE EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext');
DO $$
DECLARE
	found text;
BEGIN
	IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext') THEN
		RETURN;
	END IF;
	CREATE FOREIGN TABLE people (id int OPTIONS (key 'true'), mail citext UNIQUE, n int DEFAULT 0) SERVER redis;
	CREATE FOREIGN TABLE letters (id int OPTIONS (key 'true'), mail citext REFERENCES people (mail) ON UPDATE CASCADE) SERVER redis;
	INSERT INTO people VALUES (1, 'Ann@x.org'), (2, 'bob@x.org'), (3, NULL), (4, NULL);
	BEGIN
		INSERT INTO people VALUES (5, 'ANN@X.ORG');
		RAISE 'ANN is another';
	EXCEPTION WHEN unique_violation THEN NULL;
	END;
	INSERT INTO people VALUES (5, 'ANN@x.org') ON CONFLICT (mail) DO UPDATE SET n = people.n + 1;
	INSERT INTO letters VALUES (1, 'ann@X.org');
	BEGIN
		INSERT INTO letters VALUES (2, 'anna@X.org');
		RAISE 'nobody is called anna';
	EXCEPTION WHEN foreign_key_violation THEN NULL;
	END;
	UPDATE people SET mail = 'ANN@X.ORG' WHERE mail = 'ann@x.org';
	ASSERT (SELECT (mail::text, n) = ('ANN@X.ORG', 1) FROM people WHERE id = 1), 'the value is what was written';
	ASSERT (SELECT mail = 'ann@x.org' FROM letters), 'it refers to the same';
	SET LOCAL enable_seqscan = off;
	EXECUTE 'EXPLAIN (FORMAT JSON) SELECT mail FROM people WHERE mail = $q$BOB@x.org$q$' INTO found;
	ASSERT found LIKE '%people_mail_key%' AND found NOT LIKE '%Filter%', found;
	ASSERT (SELECT mail::text FROM people WHERE mail = 'BOB@x.org') = 'bob@x.org', 'found by equality';
	BEGIN
		ALTER FOREIGN TABLE people ALTER mail TYPE text;
		RAISE 'altered';
	EXCEPTION WHEN feature_not_supported THEN NULL;
	END;
	BEGIN
		CREATE FOREIGN TABLE bad (mail citext OPTIONS (key 'true')) SERVER redis;
		RAISE 'created';
	EXCEPTION WHEN feature_not_supported THEN
		GET STACKED DIAGNOSTICS found = PG_EXCEPTION_DETAIL;
		ASSERT found LIKE '%NOT NULL UNIQUE%', found;
	END;
	ASSERT NOT EXISTS (SELECT FROM mosql_fdw_check('people')), 'damaged';
	DROP FOREIGN TABLE letters, people;
	DROP EXTENSION citext;
	DROP SCHEMA ci;
	RESET search_path;
END $$;

-- what cannot be a key, and what can be instead
SET mosql_fdw.default_server = 'redis';
CREATE TYPE keypair AS (a int, b int);
CREATE TABLE texts (id int PRIMARY KEY, "J" jsonb, j json, p point, v tsvector, c keypair, a jsonb[]);
SELECT outcome(format('CREATE INDEX ON texts (%I)', name)) FROM unnest(ARRAY['J', 'j', 'p', 'v', 'c', 'a']) name;
SELECT outcome('CREATE INDEX ON texts (("J" -> ''a''))');
SELECT outcome('CREATE TABLE x (d jsonb PRIMARY KEY)');
CREATE UNIQUE INDEX ON texts (("J"::text));
CREATE INDEX ON texts ((j::text));
CREATE INDEX ON texts ((p::text));
CREATE INDEX ON texts ((v::text));
CREATE INDEX ON texts ((("J" -> 'a')::text));
INSERT INTO texts SELECT i, jsonb_build_object('a', i), json_build_object('a', i), point(i, i), format('x%s', i)::tsvector
	FROM generate_series(1, 2000) i;
ANALYZE texts;
EXPLAIN (COSTS OFF) SELECT id FROM texts WHERE "J"::text = '{"a": 7}';
EXPLAIN (COSTS OFF) SELECT id FROM texts WHERE ("J" -> 'a')::text = '7';
SELECT id FROM texts WHERE p::text = '(7,7)' AND j::text LIKE '%7%' AND v::text = '''x7''';
INSERT INTO texts VALUES (9999, '{"a":7}') ON CONFLICT (("J"::text)) DO UPDATE SET c = (1, 2) RETURNING id, c;
CREATE TABLE documents (d jsonb, k text GENERATED ALWAYS AS (d::text) STORED PRIMARY KEY);
INSERT INTO documents VALUES ('{"a":1}'), ('{"b":1}');
SELECT outcome('INSERT INTO documents VALUES (''{"b": 1}'')');
UPDATE documents SET d = '{"c":1}' WHERE k = '{"a": 1}';
SELECT * FROM documents ORDER BY k COLLATE "C";
DROP TABLE texts, documents;
DROP TYPE keypair;
RESET mosql_fdw.default_server;
