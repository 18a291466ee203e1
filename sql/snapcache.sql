-- what a snapshot has read is not read again: round trips, counted
\getenv nodes MOSQL_NODES
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SERVER snapcache FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'snapcache');
CREATE FOREIGN TABLE parent (id int OPTIONS (key 'true') NOT NULL, grp int NOT NULL, name text NOT NULL) SERVER snapcache;
CREATE FOREIGN TABLE child (p int OPTIONS (key 'true') NOT NULL, n int OPTIONS (key 'true') NOT NULL, v int NOT NULL)
	SERVER snapcache;
INSERT INTO parent SELECT i, i % 7, 'p' || i FROM generate_series(1, 300) i;
INSERT INTO child SELECT i, j, i * j FROM generate_series(1, 300) i, generate_series(1, 3) j WHERE i % 3 > 0;
CREATE INDEX parent_grp ON parent (grp);
ANALYZE parent;
ANALYZE child;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
CREATE FUNCTION counter(wanted text) RETURNS bigint LANGUAGE sql AS
	$$ SELECT value FROM mosql_fdw_stats() WHERE name = wanted $$;
-- Its one value, and whether the query took at most so many round trips.
CREATE FUNCTION trips(query text, most int, OUT result text, OUT trips text) LANGUAGE plpgsql AS $$
DECLARE
	before bigint := counter('round_trips');
BEGIN
	EXECUTE query INTO result;
	before := counter('round_trips') - before;
	trips := CASE WHEN before <= most THEN 'at most ' || most ELSE 'not ' || most || ' but ' || before END;
END $$;
-- what the backend keeps of inner nodes is there
SELECT count(*) FROM parent JOIN child ON p = id;
SELECT count(*) FROM parent WHERE grp = 3 AND name > '';

-- by ranges: 300 correlated subqueries; nested loops
SELECT * FROM trips('SELECT sum((SELECT sum(v) FROM child WHERE p = id)) FROM parent', 20);
SELECT * FROM trips('SELECT sum(v) FROM parent JOIN child ON p = id AND n < 3 WHERE grp < 5', 20);
SELECT * FROM trips('SELECT sum(n) FROM (SELECT id, (SELECT n FROM child WHERE p >= id ORDER BY p, n LIMIT 1) n FROM parent) s', 20);
SELECT * FROM trips('SELECT sum(n) FROM (SELECT id, (SELECT n FROM child WHERE p <= id ORDER BY p DESC, n DESC LIMIT 1) n FROM parent) s', 20);
SELECT * FROM trips('SELECT count(*) FROM parent WHERE NOT EXISTS (SELECT FROM child WHERE p = id AND n IN (1, 3))', 25);
-- by key, with or without a row; by an index
SELECT * FROM trips('SELECT count(name) FROM generate_series(1, 600) i LEFT JOIN parent ON id = 601 - i', 20);
SELECT * FROM trips('SELECT sum((SELECT v FROM child WHERE p = id AND n = 2)) FROM parent', 25);
SELECT * FROM trips('SELECT count(name) FROM generate_series(1, 70) i JOIN parent ON grp = i % 7', 10);
-- the inner side is read as a whole for each outer row
SELECT * FROM trips('SELECT count(*) FROM generate_series(1, 20) i, parent WHERE grp <> i % 7', 5);
-- not kept, or no more than fits
SET mosql_fdw.snapshot_cache = 0;
SELECT result, trips LIKE 'not %' AS many
	FROM trips('SELECT sum((SELECT sum(v) FROM child WHERE p = id)) FROM parent', 200);
SET mosql_fdw.snapshot_cache = '8kB';
SELECT result, trips LIKE 'not %' AS many
	FROM trips('SELECT sum((SELECT sum(v) FROM child WHERE p = id)) FROM parent', 100);
RESET mosql_fdw.snapshot_cache;

-- READ COMMITTED: each statement its own; above: all statements of the transaction
BEGIN;
SELECT * FROM trips('SELECT sum(v) FROM child', 10);
SELECT trips LIKE 'not %' AS again FROM trips('SELECT sum(v) FROM child', 0);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM trips('SELECT sum(v) FROM child', 10);
SELECT * FROM trips('SELECT sum(v) FROM child', 0);
SELECT * FROM trips('SELECT sum(v) FROM child WHERE p BETWEEN 20 AND 40', 0);
SELECT * FROM trips('SELECT v FROM child WHERE p = 31 AND n = 2', 0);
SELECT * FROM trips('SELECT v FROM child WHERE p = 30 AND n = 2', 0);
SELECT * FROM trips('SELECT string_agg(p || ''/'' || n, '' '') FROM (SELECT * FROM child WHERE p < 6 ORDER BY p DESC, n DESC LIMIT 5) s', 0);
-- own writes lie over it, savepoints take them away
UPDATE child SET v = v + 1000 WHERE p = 31;
DELETE FROM child WHERE p = 32;
INSERT INTO child VALUES (33, 1, 5000);
SELECT * FROM trips('SELECT string_agg(p || '':'' || v, '' '' ORDER BY p, n) FROM child WHERE p BETWEEN 30 AND 34', 0);
SAVEPOINT s;
UPDATE child SET v = 0 WHERE p BETWEEN 31 AND 34;
SELECT * FROM trips('SELECT sum(v) FROM child WHERE p BETWEEN 30 AND 34', 0);
ROLLBACK TO s;
SELECT * FROM trips('SELECT sum(v) FROM child WHERE p BETWEEN 30 AND 34', 0);
COMMIT;

-- a cursor stays what it was; so does a statement whose functions write
BEGIN;
DECLARE c CURSOR FOR SELECT id, (SELECT sum(v) FROM child WHERE p = id) FROM parent WHERE id BETWEEN 40 AND 45 ORDER BY id;
FETCH 2 FROM c;
UPDATE child SET v = v * 100 WHERE p BETWEEN 40 AND 45;
FETCH 2 FROM c;
SELECT id, (SELECT sum(v) FROM child WHERE p = id) FROM parent WHERE id BETWEEN 40 AND 42 ORDER BY id;
FETCH ALL FROM c;
ROLLBACK;
CREATE FUNCTION write_child(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	seen int;
BEGIN
	UPDATE child SET v = v + 7 WHERE p = i + 1;
	SELECT sum(v) INTO seen FROM child WHERE p = i + 1;
	RETURN seen;
END $$;
BEGIN;
SELECT id, (SELECT sum(v) FROM child WHERE p = id) AS before, write_child(id) AS inside,
	   (SELECT sum(v) FROM child WHERE p = id + 1) AS after
	FROM parent WHERE id BETWEEN 50 AND 53 ORDER BY id;
SELECT p, sum(v) FROM child WHERE p BETWEEN 50 AND 54 GROUP BY p ORDER BY p;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT id, (SELECT sum(v) FROM child WHERE p = id) AS before, write_child(id) AS inside,
	   (SELECT sum(v) FROM child WHERE p = id + 1) AS after
	FROM parent WHERE id BETWEEN 50 AND 53 ORDER BY id;
SELECT p, sum(v) FROM child WHERE p BETWEEN 50 AND 54 GROUP BY p ORDER BY p;
COMMIT;
-- UPDATE and DELETE by a join, increments, ON CONFLICT
UPDATE child SET v = v + grp FROM parent WHERE p = id AND id BETWEEN 60 AND 70;
DELETE FROM child USING parent WHERE p = id AND name = 'p61';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(v) FROM child WHERE p BETWEEN 60 AND 70;
UPDATE child SET v = v + 1 WHERE p = 62 AND n = 1;
UPDATE child SET v = v + 1 WHERE p = 62 AND n = 1;
INSERT INTO child VALUES (62, 1, 0), (62, 9, 0) ON CONFLICT (p, n) DO UPDATE SET v = child.v + 1;
SELECT n, v FROM child WHERE p = 62 ORDER BY n;
COMMIT;
SELECT n, v FROM child WHERE p = 62 ORDER BY n;
-- a new index, and what is truncated, in one transaction
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM parent WHERE name = 'p2';
CREATE INDEX parent_name ON parent (name);
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM parent WHERE name = 'p2';
TRUNCATE child;
SELECT count(*) FROM child;
INSERT INTO child VALUES (1, 1, 1);
SELECT count(*) FROM child;
ROLLBACK;
SELECT count(*) FROM child;

SELECT counter('snapshot_hits') > 2000 AS hits;
SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE parent, child;
DROP FUNCTION counter, trips, write_child;
DROP SERVER snapcache;
