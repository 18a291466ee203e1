-- joins whose look-ups are read ahead: the same rows as PostgreSQL's own tables, in few round trips
\getenv nodes MOSQL_NODES
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA joins;
SET search_path = joins, public;
CREATE SERVER joins FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'joins');
CREATE FOREIGN TABLE o (id int OPTIONS (key 'true') NOT NULL, c int, x int NOT NULL, name text) SERVER joins;
CREATE FOREIGN TABLE i (id int OPTIONS (key 'true') NOT NULL, mail text, grp int, v int NOT NULL) SERVER joins;
CREATE FOREIGN TABLE l (i int OPTIONS (key 'true') NOT NULL, n int OPTIONS (key 'true') NOT NULL, v int NOT NULL) SERVER joins;
CREATE TABLE ho (id int, c int, x int, name text) USING heap;
CREATE TABLE hi (id int, mail text, grp int, v int) USING heap;
CREATE TABLE hl (i int, n int, v int) USING heap;
-- c: of each inner row about one, of some none, of some several, and NULLs
INSERT INTO ho SELECT g, CASE WHEN g % 11 > 0 THEN g * 7919 % 3000 END, g % 10, 'o' || g FROM generate_series(1, 1000) g;
INSERT INTO hi SELECT g, 'm' || g, g % 500, g * 3 FROM generate_series(1, 2000) g WHERE g % 5 > 0;
INSERT INTO hl SELECT g, n, g * n FROM generate_series(1, 2000) g, generate_series(1, 3) n WHERE g % 3 > 0;
INSERT INTO o SELECT * FROM ho;
INSERT INTO i SELECT * FROM hi;
INSERT INTO l SELECT * FROM hl;
CREATE UNIQUE INDEX i_mail ON i (mail);
CREATE INDEX i_grp ON i (grp);
ANALYZE o;
ANALYZE i;
ANALYZE l;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
SET work_mem = '4MB';
CREATE FUNCTION counter(wanted text) RETURNS bigint LANGUAGE sql AS
	$$ SELECT value FROM mosql_fdw_stats() WHERE name = wanted $$;
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END $$;
/* The query over our tables and over PostgreSQL's; is a Key Batch in the plan; were there at most so
 * many round trips? */
CREATE FUNCTION same(query text, most int, OUT same boolean, OUT batch boolean, OUT trips text) LANGUAGE plpgsql AS $$
DECLARE
	ours text;
	theirs text;
	before bigint;
BEGIN
	batch := EXISTS (SELECT FROM plan(query) p WHERE p LIKE '%Key Batch%');
	before := counter('round_trips');
	EXECUTE 'SELECT md5(string_agg(t::text, '','' ORDER BY t::text)) || count(*) FROM (' || query || ') t' INTO ours;
	before := counter('round_trips') - before;
	EXECUTE 'SELECT md5(string_agg(t::text, '','' ORDER BY t::text)) || count(*) FROM ('
		|| regexp_replace(query, '\m(FROM|JOIN) (o|i|l)\M', '\1 h\2 AS \2', 'g') || ') t' INTO theirs;
	same := ours = theirs;
	trips := CASE WHEN before <= most THEN 'at most ' || most ELSE 'not ' || most || ' but ' || before END;
END $$;
SELECT count(*) FROM o;
SELECT count(*) FROM l;
SELECT count(*) FROM i WHERE mail > '';
SELECT count(*) FROM i WHERE grp > 0 AND v > 0;

SELECT plan('SELECT o.name, i.v FROM o LEFT JOIN i ON i.id = o.c');
-- by key, of each kind of join
SELECT * FROM same('SELECT o.id, i.v FROM o JOIN i ON i.id = o.c', 10);
SELECT * FROM same('SELECT o.id, i.v FROM o LEFT JOIN i ON i.id = o.c', 10);
SELECT * FROM same('SELECT o.id, i.v FROM o LEFT JOIN i ON i.id = o.c AND i.v > o.id * 3', 10);
SELECT * FROM same('SELECT o.id, o.name FROM o WHERE EXISTS (SELECT FROM i WHERE i.id = o.c AND i.v > o.x + 2000)', 10);
SELECT * FROM same('SELECT o.id, o.name FROM o WHERE NOT EXISTS (SELECT FROM i WHERE i.id = o.c)', 10);
SELECT * FROM same('SELECT o.id FROM o WHERE (o.c, o.x) IN (SELECT i.id, i.id % 9 FROM i)', 10);
-- by a prefix, by an index that is unique, by one that is not
SELECT * FROM same('SELECT o.id, l.n, l.v FROM o JOIN l ON l.i = o.c', 25);
SELECT * FROM same('SELECT o.id, l.n, l.v FROM o LEFT JOIN l ON l.i = o.c AND l.n > 1', 25);
SELECT * FROM same('SELECT o.id FROM o WHERE NOT EXISTS (SELECT FROM l WHERE l.i = o.c AND l.n = 2)', 10);
SELECT * FROM same('SELECT s.id, i.v FROM (SELECT o.id, ''m'' || o.c AS mail FROM o OFFSET 0) s JOIN i ON i.mail = s.mail', 20);
SELECT * FROM same('SELECT o.id, i.id AS other, i.v FROM o JOIN i ON i.grp = o.id', 60);
-- two of them, one above the other; the inner rows are found in the same memory
SELECT * FROM same('SELECT o.id, i.v, l.v AS w FROM o JOIN i ON i.id = o.c LEFT JOIN l ON l.i = i.grp AND l.n = 2', 20);
-- LIMIT reads no more than the first batches; a rescan, with a lateral parameter
SELECT * FROM same('SELECT o.id, i.v FROM o JOIN i ON i.id = o.c ORDER BY o.id LIMIT 10', 8);
SELECT * FROM same('SELECT x.n, s.* FROM generate_series(1, 20) x (n), LATERAL (SELECT o.id, i.v FROM o JOIN i ON i.id = o.c WHERE o.x = x.n % 10 ORDER BY o.id LIMIT 50) s', 60);

-- own writes lie over what was read ahead, savepoints take them away; what others see does not change
BEGIN;
UPDATE i SET v = -1 WHERE id BETWEEN 100 AND 199;
DELETE FROM i WHERE id BETWEEN 200 AND 299;
INSERT INTO i VALUES (300, 'new', 1, 1), (305, 'newer', 1, 1);
UPDATE hi SET v = -1 WHERE id BETWEEN 100 AND 199;
DELETE FROM hi WHERE id BETWEEN 200 AND 299;
INSERT INTO hi VALUES (300, 'new', 1, 1), (305, 'newer', 1, 1);
SELECT * FROM same('SELECT o.id, i.v FROM o LEFT JOIN i ON i.id = o.c', 10);
SAVEPOINT s;
UPDATE i SET v = -2 WHERE grp > 400;
UPDATE hi SET v = -2 WHERE grp > 400;
SELECT * FROM same('SELECT o.id, i.id AS other, i.v FROM o JOIN i ON i.grp = o.id', 60);
ROLLBACK TO s;
SELECT * FROM same('SELECT o.id, i.v FROM o LEFT JOIN i ON i.id = o.c', 10);
ROLLBACK;
-- what a transaction has seen it finds again; at SERIALIZABLE only what was looked for is certified
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM same('SELECT o.id, i.v FROM o JOIN i ON i.id = o.c', 10);
SELECT * FROM same('SELECT o.id, i.v FROM o JOIN i ON i.id = o.c', 0);
UPDATE o SET x = x WHERE id = 1;
COMMIT;
-- memory for little of it, of leaves that are packed; then for none
SET mosql_fdw.snapshot_cache = '8kB';
SELECT * FROM same('SELECT o.id, i.v FROM o LEFT JOIN i ON i.id = o.c', 300);
SELECT same, batch FROM same('SELECT o.id, l.n, l.v FROM o JOIN l ON l.i = o.c AND o.id < 300', 400);
SELECT same, batch FROM same('SELECT o.id, i.id AS other, i.v FROM o JOIN i ON i.grp = o.id AND o.id < 100', 400);
SET mosql_fdw.snapshot_cache = 0;
SELECT same, batch FROM same('SELECT o.id, i.v FROM o JOIN i ON i.id = o.c AND o.id < 50', 1000);
RESET mosql_fdw.snapshot_cache;
SET mosql_fdw.join_batch = 1;
SELECT same, batch FROM same('SELECT o.id, i.v FROM o JOIN i ON i.id = o.c AND o.id < 50', 1000);
RESET mosql_fdw.join_batch;
-- a generic plan; a cursor that stays what it was
PREPARE p (int) AS SELECT count(*), sum(i.v) FROM o JOIN i ON i.id = o.c WHERE o.id > $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE p (100);
EXECUTE p (900);
SELECT count(*), sum(hi.v) FROM ho JOIN hi ON hi.id = ho.c WHERE ho.id > 900;
BEGIN;
DECLARE c CURSOR FOR SELECT o.id, i.v FROM o JOIN i ON i.id = o.c WHERE i.v > 0 ORDER BY o.id;
FETCH 2 FROM c;
UPDATE i SET v = 0;
SELECT count(*) FROM o JOIN i ON i.id = o.c WHERE i.v > 0;
MOVE ALL FROM c;
ROLLBACK;
-- not where rows are locked, or values have to be computed
SELECT p FROM plan('SELECT o.id FROM o JOIN i ON i.id = o.c WHERE o.id < 300 FOR UPDATE OF i') p WHERE p LIKE '%Key Batch%';
SELECT p FROM plan('UPDATE i SET v = 0 FROM o WHERE i.id = o.c AND o.id < 300') p WHERE p LIKE '%Key Batch%';
SELECT p FROM plan('SELECT o.id FROM o JOIN i ON i.id = 1000 / o.x') p WHERE p LIKE '%Key Batch%';
-- not where somebody could tell that more is read than LIMIT wants: rows locked, or volatile functions called, on the way
SELECT p FROM plan('SELECT o.id FROM o JOIN i ON i.id = o.c WHERE (SELECT true FROM ho WHERE ho.id = o.id FOR UPDATE) LIMIT 2') p WHERE p LIKE '%Key Batch%';
SELECT p FROM plan('WITH x AS MATERIALIZED (SELECT * FROM ho FOR UPDATE) SELECT * FROM (SELECT x.id FROM x JOIN i ON i.id = x.c OFFSET 0) s LIMIT 2') p WHERE p LIKE '%Key Batch%';
SELECT p FROM plan('SELECT o.id FROM o JOIN i ON i.id = o.c WHERE pg_try_advisory_xact_lock(o.id) LIMIT 2') p WHERE p LIKE '%Key Batch%';
SELECT p FROM plan('SELECT s.id FROM (SELECT id, c, random() AS r FROM o OFFSET 0) s JOIN i ON i.id = s.c LIMIT 2') p WHERE p LIKE '%Key Batch%';
SELECT p FROM plan('SELECT o.id, random() FROM o JOIN i ON i.id = o.c WHERE o.id < 300') p WHERE p LIKE '%Key Batch%';
-- with the other joins it is a matter of costs: few outer rows, and many
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT plan('SELECT * FROM o JOIN i ON i.id = o.c WHERE o.id < 16');
SELECT p FROM plan('SELECT * FROM o JOIN i ON i.id = o.c') p WHERE p LIKE '%Key Batch%';
DROP SCHEMA joins CASCADE;
DROP SERVER joins;
