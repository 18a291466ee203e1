-- the same question to a foreign table and to a local one must have the same answer
SET client_min_messages = warning;
SELECT setseed(0.42);

-- Runs a query, in which @ stands for the table, on r_<name> and l_<name>;
-- with an ORDER BY the rows' order counts, too.  Returns what differs.
CREATE FUNCTION compare(query text, name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	wrapped text := CASE WHEN query ~ 'ORDER BY' THEN 'SELECT array_agg(x::text) FROM (%s) x'
		ELSE 'SELECT array_agg(x::text ORDER BY x::text COLLATE "C") FROM (%s) x' END;
	remote text[];
	local text[];
BEGIN
	EXECUTE format(wrapped, replace(query, '@', 'r_' || name)) INTO remote;
	EXECUTE format(wrapped, replace(query, '@', 'l_' || name)) INTO local;
	IF remote IS DISTINCT FROM local THEN
		RETURN format('%s: %s instead of %s', query, remote, local);
	END IF;
	RETURN NULL;
END $$;

-- ---- every key type: all operators with all its values, and those of related types ----

CREATE TYPE size AS ENUM ('small', 'medium', 'large');
CREATE TABLE key_types (type text, collation_of text, vals text[], others text[]);
INSERT INTO key_types VALUES
	('bool', '', '{true,false}', '{}'),
	('int2', '', '{-32768,-1,0,1,2,32767}', '{int4,int8}'),
	('int4', '', '{-2147483648,-32769,-1,0,1,2,255,256,65536,2147483647}', '{int2,int8}'),
	('int8', '', '{-9223372036854775808,-2147483649,-1,0,1,4294967296,9223372036854775807}', '{int2,int4}'),
	('oid', '', '{0,1,2147483648,4294967295}', '{}'),
	('float4', '', '{-Infinity,-3e38,-1.5,-1e-40,0,1e-40,0.1,1,1.5,16777216,3e38,Infinity,NaN}', '{float8}'),
	('float8', '', '{-Infinity,-1e300,-1.5,-1e-300,0,1e-300,0.1,0.10000000149011612,1,1e39,1e300,Infinity,NaN}', '{float4}'),
	('numeric', '', '{-Infinity,-1e50,-10000.5,-10000,-9999.9999,-1.5,-0.00001,0,0.00001,0.1,0.10001,1,1.5,9999,10000,12345678.9,1e50,Infinity,NaN}', '{}'),
	('numeric(8,2)', '', '{-999999.99,-1.5,0,0.01,0.1,1,100,999999.99}', '{}'),
	('money', '', '{-92233720368547758.08,-1,0,0.01,92233720368547758.07}', '{}'),
	('text', 'COLLATE "C"', E'{"",a,A,aa,ab,"a ",b,"a\\\\x",é,z,zz,~}', '{}'),
	('text', '', E'{"",a,A,aa,ab,"a ",b,é,z,zz,~}', '{}'),
	('varchar(5)', 'COLLATE "C"', '{"",a,A,aa,ab,"a ",b,z}', '{}'),
	('char(3)', 'COLLATE "C"', E'{"",a,A,aa,"a\\t",ab,b,z}', '{}'),
	('name', '', '{"",a,A,aa,ab,b,z}', '{}'),
	('bytea', '', E'{"",\\\\x00,\\\\x0000,\\\\x0001,\\\\x01,\\\\x01ff,\\\\xff,\\\\xff00,\\\\xffff}', '{}'),
	('uuid', '', '{00000000-0000-0000-0000-000000000000,7fffffff-ffff-ffff-ffff-ffffffffffff,80000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}', '{}'),
	('date', '', '{-infinity,"4713-01-01 BC",1999-12-31,2000-01-01,2026-11-21,5874897-12-31,infinity}', '{timestamp,timestamptz}'),
	('time', '', '{00:00,00:00:00.000001,12:00,23:59:59.999999,24:00}', '{}'),
	('timetz', '', '{00:00+00,12:00+02,12:00+01,11:00+00,10:00-01,24:00-15:59}', '{}'),
	('timestamp', '', '{-infinity,"4713-01-01 00:00 BC",1999-12-31 23:59:59.999999,2000-01-01,"2026-11-21 12:00",infinity}', '{date}'),
	('timestamptz', '', '{-infinity,"4713-01-02 00:00+00 BC",1999-12-31 23:59:59.999999+00,2000-01-01 00:00+00,"2026-11-21 12:00+05",infinity}', '{date}'),
	('interval', '', '{-1000 years,-1 day,0,00:00:01,1 day,1 month,1 mon 1 day,1000 years}', '{}'),
	('size', '', '{small,medium,large}', '{}');

CREATE FUNCTION check_type(type text, collation_of text, vals text[], others text[])
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	op text;
	val text;
	cast_to text;
	literal text;
BEGIN
	EXECUTE format('CREATE FOREIGN TABLE r_key (k %s OPTIONS (key ''true'') %s NOT NULL) SERVER redis',
				   type, collation_of);
	EXECUTE format('CREATE TABLE l_key (k %s %s PRIMARY KEY)', type, collation_of);
	EXECUTE format('INSERT INTO l_key SELECT DISTINCT v::%s FROM unnest($1) v', type) USING vals;
	INSERT INTO r_key SELECT * FROM l_key;
	FOREACH cast_to IN ARRAY type || others LOOP
		FOREACH val IN ARRAY vals LOOP
			BEGIN
				EXECUTE format('SELECT %L::%s::%s', val, type, cast_to);
				literal := format('%L::%s::%s', val, type, cast_to);
			EXCEPTION WHEN OTHERS THEN
				CONTINUE;
			END;
			FOREACH op IN ARRAY '{<,<=,=,>=,>,<>}'::text[] LOOP
				RETURN NEXT compare(format('SELECT k FROM @ WHERE k %s %s', op, literal), 'key');
				RETURN NEXT compare(format('SELECT k FROM @ WHERE %s %s k ORDER BY k DESC', literal, op), 'key');
			END LOOP;
			RETURN NEXT compare(format('SELECT k FROM @ WHERE k = ANY (ARRAY[%s, NULL, %s])', literal, literal), 'key');
			RETURN NEXT compare(format('SELECT k FROM @ WHERE k <> ALL (ARRAY[%s])', literal), 'key');
		END LOOP;
	END LOOP;
	RETURN NEXT compare('SELECT k FROM @ ORDER BY k', 'key');
	RETURN NEXT compare('SELECT k FROM @ ORDER BY k DESC LIMIT 2', 'key');
	RETURN NEXT compare('SELECT k FROM @ WHERE k IS NULL', 'key');
	RETURN NEXT compare('SELECT count(*) FROM @ WHERE k IS NOT NULL', 'key');
	RETURN QUERY SELECT format('%s %s: %s', c.severity, c.node, c.finding) FROM mosql_fdw_check('r_key') c;
	DROP FOREIGN TABLE r_key;
	DROP TABLE l_key;
END $$;
SELECT type, differs FROM key_types, check_type(type, collation_of, vals, others) differs
	WHERE differs IS NOT NULL;

-- constants that the column's type cannot hold
CREATE FOREIGN TABLE r_small (k int2 OPTIONS (key 'true') NOT NULL, v int) SERVER redis;
CREATE TABLE l_small (k int2 PRIMARY KEY, v int);
INSERT INTO l_small SELECT k, k * 2 FROM unnest('{-32768,-1,0,1,32767}'::int2[]) k;
INSERT INTO r_small SELECT * FROM l_small;
SELECT compare(format('SELECT * FROM @ WHERE k %s %s', op, coalesce(c, 'NULL')), 'small')
	FROM unnest('{<,<=,=,>=,>,<>}'::text[]) op,
		unnest('{32768,-32769,2147483648,-2147483649,9223372036854775807,-9223372036854775808,NULL,1.5,0.5,1.0,1e10}'::text[]) c
	WHERE compare(format('SELECT * FROM @ WHERE k %s %s', op, coalesce(c, 'NULL')), 'small') IS NOT NULL;
SELECT count(*) FROM r_small WHERE k IN (1, 70000, 1, NULL, -70000);
SELECT count(*) FROM r_small WHERE k = ANY ('{}');
SELECT count(*) FROM r_small WHERE k = ANY (NULL::int[]);
SELECT count(*) FROM r_small WHERE k BETWEEN 5 AND -5;
SELECT count(*) FROM r_small WHERE k > 0 AND k < 0;
SELECT count(*) FROM r_small WHERE k = 0 AND k = 1;
SELECT count(*) FROM r_small WHERE false;

-- ---- a composite key: random conditions ----

CREATE FOREIGN TABLE r_multi (a int OPTIONS (key 'true') NOT NULL, b text OPTIONS (key 'true') COLLATE "C" NOT NULL,
	c bigint OPTIONS (key 'true') NOT NULL, d bool OPTIONS (key 'true') NOT NULL, v int, w text) SERVER redis;
CREATE TABLE l_multi (a int, b text COLLATE "C", c bigint, d bool, v int, w text, PRIMARY KEY (a, b, c, d));
INSERT INTO l_multi SELECT (random() * 12)::int - 4, (ARRAY['', 'a', 'ab', 'abc', 'b', 'ba', 'a%', 'a_', 'Z'])[1 + floor(random() * 9)],
		(random() * 10)::int - 5, random() < 0.5, (random() * 5)::int, nullif((random() * 3)::int, 0)
	FROM generate_series(1, 4000) ON CONFLICT DO NOTHING;
INSERT INTO r_multi SELECT * FROM l_multi;
ANALYZE r_multi;
ANALYZE l_multi;

CREATE FUNCTION any_of(choices text[]) RETURNS text LANGUAGE sql VOLATILE AS
	$$ SELECT choices[1 + floor(random() * cardinality(choices))::int] $$;
CREATE FUNCTION number() RETURNS text LANGUAGE sql VOLATILE AS
	$$ SELECT any_of('{-5,-4,-3,-2,-1,0,1,2,3,4,5,6,7,8,9,9999999999,NULL,2.5,1.0}') $$;
CREATE FUNCTION word() RETURNS text LANGUAGE sql VOLATILE AS
	$$ SELECT any_of('{'''',''a'',''ab'',''abc'',''b'',''ba'',''a%'',''Z'',''zz'',NULL}') $$;
CREATE FUNCTION comparison() RETURNS text LANGUAGE sql VOLATILE AS
	$$ SELECT any_of('{=,=,=,<,<=,>,>=,<>}') $$;
CREATE FUNCTION condition() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	CASE floor(random() * 14)::int
	WHEN 0, 1 THEN RETURN format('a %s %s', comparison(), number());
	WHEN 2 THEN RETURN format('%s %s a', number(), comparison());
	WHEN 3, 4 THEN RETURN format('b %s %s', comparison(), word());
	WHEN 5 THEN RETURN format('c %s %s', comparison(), number());
	WHEN 6 THEN RETURN any_of('{d,"NOT d","d IS TRUE","d IS NOT TRUE","d IS FALSE","d = true","d IS NOT FALSE"}');
	WHEN 7 THEN RETURN format('a IN (%s, %s, %s)', number(), number(), number());
	WHEN 8 THEN RETURN format('b = ANY (ARRAY[%s, %s, %s])', word(), word(), word());
	WHEN 9 THEN RETURN format('(a, b) %s (%s, %s)', any_of('{<,<=,>,>=,=}'), number(), word());
	WHEN 10 THEN RETURN format('(a, b, c) %s (%s, %s, %s)', any_of('{<,<=,>,>=}'), number(), word(), number());
	WHEN 11 THEN RETURN format('b LIKE %L', any_of('{a%,ab%,a_%,a\\\\%,"",%b,a,ab_,%,b%a,_b%}'));
	WHEN 12 THEN RETURN format('v %s %s', comparison(), number());
	ELSE RETURN format('(a = %s OR a = %s)', number(), number());
	END CASE;
END $$;
CREATE FUNCTION question() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	q text := 'SELECT * FROM @ WHERE ' || condition();
	backward text := any_of('{""," DESC"}');
BEGIN
	FOR i IN 1 .. floor(random() * 4)::int LOOP
		q := q || any_of('{" AND "," AND "," AND "," OR "}') || condition();
	END LOOP;
	CASE floor(random() * 4)::int
	WHEN 0 THEN q := q || format(' ORDER BY a%1$s, b%1$s, c%1$s, d%1$s LIMIT %2$s', backward, (random() * 20)::int);
	WHEN 1 THEN q := q || format(' ORDER BY a%1$s, b%1$s, c%1$s, d%1$s OFFSET %2$s', backward, (random() * 9)::int);
	ELSE NULL;
	END CASE;
	RETURN q;
END $$;
SELECT compare('SELECT ''@''', 'multi') AS "difference found";
SELECT differs FROM generate_series(1, 1500), compare(question(), 'multi') differs WHERE differs IS NOT NULL;

-- ... and with parameters, in generic plans
CREATE FUNCTION with_parameters() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	conditions text[] := '{"a = $1","a > $1 AND a <= $1 + 3","a = $1 AND b = $2","a = $1 AND b = $2 AND c = $3 AND d",
		"a = $1 AND b > $2","(a, b) > ($1, $2)","(a, b, c) <= ($1, $2, $3)","a = $1 AND b LIKE $2 || ''%''",
		"b LIKE $2","a = ANY ($4)","a = ANY ($4) AND b = $2","a = ANY ($4) AND b = ANY (ARRAY[$2, ''a''])",
		"a = (SELECT $1 + 1)","a < $3","a >= $3 AND c = $1","a = $1 OR a = 2","a = ANY ($4) AND b = ''a'' AND c = $3"}';
	cond text;
	t text;
	args text[];
	remote text[];
	local text[];
BEGIN
	FOREACH cond IN ARRAY conditions LOOP
		FOREACH t IN ARRAY '{r_multi,l_multi}'::text[] LOOP
			EXECUTE format('PREPARE p_%s (int, text, bigint, int[]) AS SELECT array_agg(x::text) FROM (SELECT * FROM %s WHERE %s ORDER BY a, b, c, d) x',
						   t, t, cond);
		END LOOP;
		FOR i IN 1 .. 12 LOOP
			args := ARRAY[any_of('{-4,0,1,3,8,99,NULL}'), word(), any_of('{-5,0,2,9999999999,NULL}'),
				any_of(ARRAY['''{1,2,2,NULL}''', '''{}''', NULL, '''{-4,8,100}''', '''{3}'''])];
			EXECUTE format('EXECUTE p_r_multi (%s)', array_to_string(args, ', ', 'NULL')) INTO remote;
			EXECUTE format('EXECUTE p_l_multi (%s)', array_to_string(args, ', ', 'NULL')) INTO local;
			IF remote IS DISTINCT FROM local THEN
				RETURN NEXT format('%s with %s: %s instead of %s', cond, args, remote, local);
			END IF;
		END LOOP;
		DEALLOCATE p_r_multi;
		DEALLOCATE p_l_multi;
	END LOOP;
END $$;
SELECT * FROM with_parameters();
SET plan_cache_mode = force_generic_plan;
SELECT * FROM with_parameters();
SET plan_cache_mode = force_custom_plan;
SELECT * FROM with_parameters();
RESET plan_cache_mode;

-- ---- joins and sub-selects, whatever the plan ----

CREATE TABLE joins (query text);
INSERT INTO joins VALUES
	('SELECT x.a, y.b, count(*) FROM @ x JOIN @ y ON y.a = x.a AND y.b = x.b AND y.c = x.v WHERE x.a < 0 GROUP BY 1, 2'),
	('SELECT x.* FROM @ x JOIN (VALUES (1, ''a''), (2, ''b''), (2, ''b'')) v(i, j) ON x.a = v.i AND x.b = v.j WHERE c > 2'),
	('SELECT x.a, x.c FROM @ x WHERE EXISTS (SELECT FROM @ y WHERE y.a = x.v AND y.c = x.c AND NOT y.d)'),
	('SELECT x.a, x.c FROM @ x WHERE NOT EXISTS (SELECT FROM @ y WHERE y.a = x.v AND y.b = x.b AND y.c = x.c)'),
	('SELECT a, b FROM @ WHERE a IN (SELECT v FROM @ WHERE b = ''ab'') AND c NOT IN (SELECT v FROM @)'),
	('SELECT i, (SELECT max(c) FROM @ WHERE a = i) FROM generate_series(-6, 10) i'),
	('SELECT i, x.c FROM generate_series(-6, 10) i LEFT JOIN LATERAL (SELECT c FROM @ WHERE a = i AND b > ''a'' ORDER BY b, c, d LIMIT 2) x ON true'),
	('SELECT x.a, x.b, x.c, y.v FROM @ x FULL JOIN @ y USING (a, b, c, d) WHERE x.c > 3'),
	('SELECT DISTINCT a, b FROM @ ORDER BY a, b'),
	('SELECT DISTINCT ON (a) a, b, c FROM @ ORDER BY a, b DESC, c, d'),
	('SELECT min(a), max(a), min(b), max(b) FROM @'),
	('SELECT a, min(b), max(c), sum(v) FROM @ WHERE d GROUP BY a ORDER BY a'),
	('SELECT a, rank() OVER (PARTITION BY a ORDER BY b, c, d) FROM @ WHERE a > 5'),
	('WITH RECURSIVE n(i) AS (SELECT -4 UNION SELECT a FROM @, n WHERE a = i + 1) SELECT i FROM n'),
	('SELECT a FROM @ WHERE a > 3 UNION SELECT v FROM @ EXCEPT SELECT c FROM @ WHERE c < 2'),
	('SELECT x.a, y.i FROM @ x RIGHT JOIN generate_series(5, 12) y(i) ON x.a = y.i AND x.b = ''a'''),
	('SELECT @ FROM @ WHERE a = 1 AND b = ''a'''),
	('SELECT count(*), count(w), count(DISTINCT w) FROM @'),
	('SELECT 1 FROM @ WHERE a = 3 LIMIT 5'),
	('SELECT a, b, c, d FROM @ WHERE a >= (SELECT avg(a) FROM @) ORDER BY a DESC, b DESC, c DESC, d DESC LIMIT 7'),
	('SELECT x.a FROM @ x, @ y WHERE x.a = y.a AND x.b = y.b AND x.c = y.c AND x.d = y.d AND x.a < y.c ORDER BY x.a');
CREATE FUNCTION all_joins() RETURNS SETOF text LANGUAGE sql AS
	$$ SELECT d FROM joins, compare(query, 'multi') d WHERE d IS NOT NULL $$;
SELECT all_joins();
SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT all_joins();
SET enable_material = off; SET enable_memoize = off;
SELECT all_joins();
RESET enable_material; RESET enable_memoize; RESET enable_mergejoin;
SET enable_nestloop = off; SET enable_hashagg = off; SET enable_sort = off;
SELECT all_joins();
RESET enable_nestloop; RESET enable_hashagg; RESET enable_sort; RESET enable_hashjoin;

-- ---- the planner finds look-ups by itself ----

CREATE FOREIGN TABLE big (id int OPTIONS (key 'true') NOT NULL, part int NOT NULL, v text) SERVER redis;
CREATE FOREIGN TABLE parts (id int OPTIONS (key 'true') NOT NULL, name text) SERVER redis;
INSERT INTO big SELECT i, i % 100, 'v' || i FROM generate_series(1, 20000) i;
INSERT INTO parts SELECT i, 'part ' || i FROM generate_series(0, 99) i;
ANALYZE big, parts;
EXPLAIN (COSTS OFF) SELECT * FROM parts p JOIN big b ON b.id = p.id * 150 WHERE p.id < 5;
EXPLAIN (COSTS OFF) SELECT * FROM (VALUES (1), (2), (3)) x(i) JOIN big ON big.id = x.i;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE id > 100 AND id < 110 ORDER BY id DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM big ORDER BY id LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM big b JOIN parts p ON p.id = b.part;
EXPLAIN (COSTS OFF) UPDATE big SET v = 'x' WHERE id = 5;
EXPLAIN (COSTS OFF) UPDATE big SET part = part + 1 WHERE id = 5;
EXPLAIN (COSTS OFF) DELETE FROM big WHERE id IN (1, 2, 3);
PREPARE one(int) AS SELECT v FROM big WHERE id = $1;
EXECUTE one(1); EXECUTE one(2); EXECUTE one(3); EXECUTE one(4); EXECUTE one(5); EXECUTE one(6); EXECUTE one(7);
EXPLAIN (COSTS OFF) EXECUTE one(8);
PREPARE two(int) AS SELECT count(*) FROM parts JOIN big ON big.id = parts.id WHERE parts.id < $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE two(10); EXECUTE two(NULL); EXECUTE two(-1);
RESET plan_cache_mode;

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE r_small, r_multi, big, parts;
DROP TABLE l_small, l_multi, key_types, joins;
DROP FUNCTION compare, check_type, any_of, number, word, comparison, condition, question,
	with_parameters, all_joins;
DROP TYPE size;
