-- Statements that write many rows of packed leaves write the leaves anew, instead of unpacking them: counted, and compared with a table of PostgreSQL's own.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
DO $$ BEGIN
	EXECUTE format('CREATE SERVER manyrows FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes %L, namespace %L)',
				   current_setting('mosql_test.nodes'), 'manyrows-' || extract(epoch FROM now())::bigint);
END $$;
CREATE SCHEMA native; CREATE SCHEMA ours;
CREATE TABLE native.t (id int PRIMARY KEY, a int, b text, n bigint);
CREATE FOREIGN TABLE ours.t (id int PRIMARY KEY, a int, b text, n bigint) SERVER manyrows;
CREATE INDEX ON native.t (a); CREATE INDEX ON ours.t (a);
CREATE FUNCTION stat(text) RETURNS bigint LANGUAGE sql AS $$ SELECT value FROM mosql_fdw_stats() WHERE name = $1 $$;
CREATE FUNCTION differ() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM native.t n FULL JOIN ours.t o USING (id) WHERE (n.a, n.b, n.n) IS DISTINCT FROM (o.a, o.b, o.n) OR n.n IS NULL OR o.n IS NULL $$;
\set load 'INSERT INTO t SELECT i, i % 97, $$row $$ || i, 0 FROM generate_series(1, 6000) i'
\set first 'DELETE FROM t WHERE id % 3 = 0; UPDATE t SET n = n + 1; UPDATE t SET n = n * 2, b = upper(b) WHERE id > 2000;'
\set second 'UPDATE t SET a = a + 1 WHERE id % 2 = 0; INSERT INTO t SELECT i, 1, $$again$$, i FROM generate_series(3, 3000, 3) i; INSERT INTO t SELECT i, i, $$upsert$$, 1 FROM generate_series(2990, 3600) i ON CONFLICT (id) DO UPDATE SET n = t.n + 5, b = excluded.b;'
SELECT count(stat(name)) > 0 FROM mosql_fdw_stats();

-- with locks, and without; nobody looks at what was before
SET mosql_fdw.locking = pessimistic;
SET search_path = native, public; :load; :first
SET search_path = ours, public; :load;
SELECT stat('leaves_unpacked') AS unpacked, stat('leaves_rewritten') AS anew, stat('bytes_sent') AS sent, stat('round_trips') AS trips \gset
:first
SELECT stat('leaves_unpacked') - :unpacked AS unpacked, stat('leaves_rewritten') - :anew > 250 AS anew, stat('bytes_sent') - :sent < 2200000 AS sent, stat('round_trips') - :trips < 90 AS trips;
SELECT differ();
SET mosql_fdw.locking = optimistic;
SET search_path = native, public; :second
SET search_path = ours, public; :second
SELECT differ();
SELECT * FROM mosql_fdw_check('ours.t');

-- of an indexed column: as many entries come to a leaf of the index as go there, mostly
SET search_path = native, public; TRUNCATE t; :load;
SET search_path = ours, public; TRUNCATE t; :load;
SELECT stat('leaves_unpacked') AS unpacked, stat('leaves_rewritten') AS anew, stat('bytes_sent') AS sent, stat('splits') AS splits \gset
UPDATE t SET a = a + 1; UPDATE native.t SET a = a + 1;
UPDATE t SET a = a * 7 % 97 WHERE id % 2 = 0; UPDATE native.t SET a = a * 7 % 97 WHERE id % 2 = 0;
SELECT stat('leaves_unpacked') - :unpacked < 20 AS unpacked, stat('leaves_rewritten') - :anew > 300 AS anew, stat('bytes_sent') - :sent < 600000 AS sent, stat('splits') - :splits < 20 AS splits;
SELECT differ(), (SELECT count(*) FROM t WHERE a BETWEEN 7 AND 23) = (SELECT count(*) FROM native.t WHERE a BETWEEN 7 AND 23) AS by_index;
SELECT * FROM mosql_fdw_check('ours.t');

-- below a snapshot, and a cursor; rolled back, in part and as a whole; deleted, and inserted again
SET search_path = native, public; TRUNCATE t; :load;
SET search_path = ours, public; TRUNCATE t; :load;
SELECT count(*), sum(n) FROM t;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT id, n FROM t WHERE id > 100 ORDER BY id;
FETCH 2 FROM c;
SELECT stat('leaves_rewritten') AS anew \gset
UPDATE t SET n = n + 7;
SELECT sum(n) FROM t;
SAVEPOINT s; DELETE FROM t; SELECT count(*) FROM t; ROLLBACK TO s;
FETCH 2 FROM c;
COMMIT;
UPDATE native.t SET n = n + 7;
SELECT stat('leaves_rewritten') - :anew > 80 AS anew, differ();
BEGIN; DELETE FROM t WHERE id < 4000; ROLLBACK;
SELECT count(*), differ() FROM t;
DELETE FROM t WHERE id BETWEEN 1000 AND 5000; DELETE FROM native.t WHERE id BETWEEN 1000 AND 5000;
INSERT INTO t SELECT i, 0, 'back', i FROM generate_series(1000, 2000) i; INSERT INTO native.t SELECT i, 0, 'back', i FROM generate_series(1000, 2000) i;
SELECT count(*), differ() FROM t;
SELECT count(*) FROM t WHERE a = 5;
SELECT count(*) FROM native.t WHERE a = 5;

-- maintenance leaves the rows as they are, and gives back leaves of which nothing is left
DELETE FROM t WHERE id > 500; DELETE FROM native.t WHERE id > 500;
ALTER SERVER manyrows OPTIONS (ADD pack_after '0');
SELECT count(*) > 0 AS maintained FROM mosql_fdw_maintain('manyrows');
SELECT count(*) > 0 AS maintained FROM mosql_fdw_maintain('manyrows');
SELECT count(*) > 0 AS maintained FROM mosql_fdw_maintain('manyrows');
SELECT differ(), (SELECT count(*) < 20 FROM mosql_fdw_dump('ours.t') WHERE level = 0 AND state IN ('normal', 'packed')) AS few_leaves;
SELECT * FROM mosql_fdw_check('ours.t');
DROP SERVER manyrows CASCADE;
DROP SCHEMA native, ours CASCADE;
DROP FUNCTION stat;
