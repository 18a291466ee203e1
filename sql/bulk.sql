-- Statements that write many rows take no round trip per row, with locks and without; and rows
-- that wait to be written together are written as PostgreSQL's own tables would have them.
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
CREATE SERVER bulk FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'bulk');
CREATE SCHEMA ours;
CREATE SCHEMA native;
CREATE FOREIGN TABLE ours.t (id int OPTIONS (key 'true'), a int NOT NULL, b text, n bigint, CHECK (a < 100000)) SERVER bulk;
CREATE INDEX ON ours.t (a);
CREATE UNIQUE INDEX ON ours.t (b);
CREATE FOREIGN TABLE ours.s (id int OPTIONS (key 'true'), x int) SERVER bulk;
CREATE TABLE native.t (id int PRIMARY KEY, a int NOT NULL, b text, n bigint, CHECK (a < 100000));
CREATE UNIQUE INDEX ON native.t (b);
CREATE TABLE native.s (id int PRIMARY KEY, x int);
CREATE FUNCTION fill() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	DELETE FROM t; DELETE FROM s;
	INSERT INTO t SELECT i, i, 'row ' || i, i FROM generate_series(1, 3000) i;
	INSERT INTO s SELECT i, i % 900 FROM generate_series(1, 4000, 2) i;
END $$;

-- what a statement answers, here and there: the same rows, the same count, and no trip per row
CREATE FUNCTION try(command text, OUT count text, OUT trips bigint, OUT rows text) LANGUAGE plpgsql AS $$ BEGIN
	PERFORM fill();
	PERFORM count(*) FROM t JOIN s USING (id);
	SELECT value INTO trips FROM mosql_fdw_stats() WHERE name = 'round_trips';
	BEGIN
		EXECUTE command;
		GET DIAGNOSTICS count = ROW_COUNT;
	EXCEPTION WHEN unique_violation OR check_violation OR cardinality_violation THEN
		count := SQLERRM;
	END;
	SELECT value - trips INTO trips FROM mosql_fdw_stats() WHERE name = 'round_trips';
	SELECT md5(string_agg(t::text, ' ' ORDER BY id)) INTO rows FROM t;
END $$;
CREATE FUNCTION in_turn(command text, OUT locking text, OUT count text, OUT same bool, OUT trips text)
RETURNS SETOF record LANGUAGE plpgsql AS $$ DECLARE
	here record;
	there record;
BEGIN
	FOREACH locking IN ARRAY '{optimistic,pessimistic}'::text[] LOOP
		PERFORM set_config('mosql_fdw.locking', locking, true);
		PERFORM set_config('search_path', 'native,public', true);
		there := try(command);
		PERFORM set_config('search_path', 'ours,public', true);
		here := try(command);
		PERFORM set_config('search_path', 'public', true);
		count := here.count;
		same := (here.count, here.rows) = (there.count, there.rows);
		trips := CASE WHEN here.trips < 60 THEN 'few' ELSE here.trips::text END;
		RETURN NEXT;
	END LOOP;
END $$;

-- increments, and those that are none
SELECT * FROM in_turn('UPDATE t SET n = n + 1 WHERE id IN (' || (SELECT string_agg(i::text, ',') FROM generate_series(2, 4000, 3) i) || ')');
SELECT * FROM in_turn('UPDATE t SET n = n + NULL WHERE id IN (' || (SELECT string_agg(i::text, ',') FROM generate_series(2, 4000, 3) i) || ')');
SELECT * FROM in_turn('UPDATE t SET a = a + 1, n = -n WHERE id IN (' || (SELECT string_agg(i::text, ',') FROM generate_series(2, 4000, 3) i) || ')');

-- joins
SELECT * FROM in_turn('UPDATE t SET a = s.x, n = n + 1 FROM s WHERE s.id = t.id');
SELECT * FROM in_turn('UPDATE t SET n = n + 1 FROM (SELECT id FROM s UNION ALL SELECT id FROM s) s WHERE s.id = t.id');
SELECT * FROM in_turn('UPDATE t SET id = t.id + 10000, b = b || ''/'' || s.x FROM s WHERE s.id = t.id');
SELECT * FROM in_turn('UPDATE t SET b = s.x FROM s WHERE s.id = t.id');
SELECT * FROM in_turn('UPDATE t SET a = s.x + 99101 FROM s WHERE s.id = t.id');
SELECT * FROM in_turn('DELETE FROM t USING s WHERE s.id = t.id');
SELECT * FROM in_turn('DELETE FROM t USING (SELECT id FROM s UNION ALL SELECT id FROM s) s WHERE s.id = t.id');
SELECT * FROM in_turn('WITH d AS (DELETE FROM t USING s WHERE s.id = t.id AND s.x < 20) SELECT count(*) FROM t');

-- ON CONFLICT DO UPDATE, by the key and by another
SELECT * FROM in_turn('INSERT INTO t SELECT i, i, ''new '' || i, 0 FROM generate_series(4500, 1500, -1) i ON CONFLICT (id) DO UPDATE SET a = t.a + excluded.a, n = t.n + 1');
SELECT * FROM in_turn('INSERT INTO t SELECT i, i, ''row '' || i, 0 FROM generate_series(1500, 4500) i ON CONFLICT (b) DO UPDATE SET a = t.a + excluded.a, n = t.n + 1');
SELECT * FROM in_turn('INSERT INTO t SELECT i, i, ''row '' || i, 0 FROM generate_series(1500, 4500) i ON CONFLICT (b) DO UPDATE SET b = t.b || '' is old'' WHERE t.a % 2 = 0');
SELECT * FROM in_turn('INSERT INTO t SELECT i + 5000, i, CASE WHEN i % 5 > 0 THEN ''row '' || i END, 0 FROM generate_series(1500, 4500) i ON CONFLICT (b) DO UPDATE SET id = t.id + 20000');
-- what earlier rows of the batch have done counts
SELECT * FROM in_turn('INSERT INTO t VALUES (10, 1), (11, 1), (10011, 1) ON CONFLICT (id) DO UPDATE SET id = t.id + 10000');
SELECT * FROM in_turn('INSERT INTO t VALUES (10, 1), (10, 2) ON CONFLICT (id) DO UPDATE SET id = t.id + 10000');
SELECT * FROM in_turn('INSERT INTO t VALUES (10, 1), (10, 2), (10, 3) ON CONFLICT (id) DO UPDATE SET id = t.id + 10000');
SELECT * FROM in_turn('INSERT INTO t VALUES (5001, 1, ''row 7''), (5002, 1, ''row 7'') ON CONFLICT (b) DO UPDATE SET b = ''other''');
SELECT * FROM in_turn('INSERT INTO t VALUES (5001, 1, ''row 7''), (5002, 1, ''other'') ON CONFLICT (b) DO UPDATE SET b = ''other''');
SELECT * FROM in_turn('INSERT INTO t VALUES (5001, 1, ''some''), (5002, 1, ''some'') ON CONFLICT (b) DO UPDATE SET a = 5');
SELECT * FROM in_turn('INSERT INTO t VALUES (5001, 1, ''some''), (7, 1, ''others'') ON CONFLICT (b) DO UPDATE SET a = 5');
SELECT * FROM in_turn('INSERT INTO t VALUES (1, 1, ''row 7'', 1), (5001, 100000, ''row 8'', 1) ON CONFLICT (b) DO UPDATE SET a = excluded.a');

-- functions that look at the table see each row that is written
CREATE FUNCTION next_n() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT max(n) + 1 FROM t); END $$;
SELECT locking, count, same FROM in_turn('UPDATE t SET n = next_n() FROM s WHERE s.id = t.id AND s.id < 20');
SELECT locking, count, same FROM in_turn('UPDATE t SET n = (SELECT next_n() FROM s s2 WHERE s2.id = s.id) FROM s WHERE s.id = t.id AND s.id < 20');
SELECT locking, count, same FROM in_turn('INSERT INTO t SELECT i, i, i, next_n() FROM generate_series(2990, 3010) i ON CONFLICT (id) DO UPDATE SET n = excluded.n');
SELECT locking, count, same FROM in_turn('INSERT INTO t SELECT i, i, i, (SELECT next_n() WHERE i > 0) FROM generate_series(2990, 3010) i ON CONFLICT (id) DO NOTHING');

-- actions of foreign keys
SELECT mosql_fdw_enable('bulk');
SET search_path = ours, public;
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
CREATE INDEX ON c (p);
INSERT INTO p VALUES (1), (2), (3);
INSERT INTO c SELECT i, i % 3 + 1 FROM generate_series(1, 3000) i;
CREATE FUNCTION costs(command text) RETURNS text LANGUAGE plpgsql AS $$ DECLARE
	before bigint;
	after bigint;
BEGIN
	SELECT value INTO before FROM mosql_fdw_stats() WHERE name = 'round_trips';
	EXECUTE command;
	SELECT value INTO after FROM mosql_fdw_stats() WHERE name = 'round_trips';
	RETURN CASE WHEN after - before < 60 THEN 'few' ELSE (after - before)::text END;
END $$;
SET mosql_fdw.locking = pessimistic;
SELECT costs('DELETE FROM p WHERE id = 1');
SELECT costs('UPDATE p SET id = 4 WHERE id = 2');
SELECT p, count(*) FROM c GROUP BY p ORDER BY p;
SET mosql_fdw.locking = optimistic;
SELECT costs('DELETE FROM p WHERE id = 3');
SELECT costs('UPDATE p SET id = 5 WHERE id = 4');
SELECT p, count(*) FROM c GROUP BY p ORDER BY p;
SELECT mosql_fdw_disable();
SELECT name, severity, finding FROM (VALUES ('t'), ('p'), ('c')) v(name), mosql_fdw_check(name::regclass);
RESET search_path;
DROP SCHEMA ours, native CASCADE;
DROP FUNCTION fill, try, in_turn, next_n;
DROP SERVER bulk;
