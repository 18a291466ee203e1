-- OR: the ranges of its arms together, by one key or by several.
\getenv nodes MOSQL_NODES
\set VERBOSITY terse
CREATE SERVER unions FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'unions');
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true'), a int, b int, c text COLLATE "C", d text) SERVER unions;
CREATE FOREIGN TABLE p (x int OPTIONS (key 'true'), y int OPTIONS (key 'true'), z int) SERVER unions;
CREATE FOREIGN TABLE k (a int, b int) SERVER unions;
INSERT INTO t SELECT i, nullif(i % 500, 0), i % 487, 'c' || i % 10, 'd' FROM generate_series(1, 5000) i;
INSERT INTO p SELECT i / 70, i % 70, i FROM generate_series(1, 5000) i;
INSERT INTO k SELECT i % 500, i % 487 FROM generate_series(1, 5000) i;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (b DESC, c);
CREATE UNIQUE INDEX p_z ON p (z);
CREATE INDEX k_a ON k (a);
CREATE INDEX k_b ON k (b);
ANALYZE t;
ANALYZE p;
ANALYZE k;

-- one key: the order is its
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE id BETWEEN 11 AND 13 OR id BETWEEN 12 AND 15 OR id = 20 ORDER BY id DESC;
SELECT id FROM t WHERE id BETWEEN 11 AND 13 OR id BETWEEN 12 AND 15 OR id = 20 ORDER BY id DESC;
EXPLAIN (COSTS OFF) SELECT * FROM p WHERE (x, y) IN ((1, 2), (3, 4), (1, 2), (3, NULL), (70, 70));
SELECT * FROM p WHERE (x, y) IN ((1, 2), (3, 4), (1, 2), (3, NULL), (70, 70));
EXPLAIN (COSTS OFF) SELECT x, y FROM p WHERE x = 5 AND (y < 2 OR y > 68 OR y IN (30, 1)) ORDER BY x, y;
SELECT x, y FROM p WHERE x = 5 AND (y < 2 OR y > 68 OR y IN (30, 1)) ORDER BY x, y;
EXPLAIN (COSTS OFF) SELECT a, count(*) FROM t WHERE a < 3 OR a IS NULL OR a BETWEEN 2 AND 4 GROUP BY a ORDER BY a;
SELECT a, count(*) FROM t WHERE a < 3 OR a IS NULL OR a BETWEEN 2 AND 4 GROUP BY a ORDER BY a;

-- several: each row once, in the order of the table's key
EXPLAIN (COSTS OFF) SELECT id, a, b FROM t WHERE a = 7 OR b = 7 OR id IN (7, 8, 9999) ORDER BY id;
SELECT id, a, b FROM t WHERE a = 7 OR b = 7 OR id IN (7, 8, 9999) ORDER BY id;
SELECT id FROM t WHERE a = 7 OR b = 7 ORDER BY id DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE a = 7 OR (b = 9 AND c = 'c3') OR id > 4995;
SELECT count(*), count(DISTINCT id) FROM t WHERE a = 7 OR (b = 9 AND c = 'c3') OR id > 4995;
SELECT id FROM t WHERE (a = 7 OR b = 9) AND (c = 'c3' OR id < 100) AND d = 'd' ORDER BY id;
EXPLAIN (COSTS OFF) SELECT * FROM p WHERE z = 77 OR (x = 1 AND y = 1);
SELECT * FROM p WHERE z = 77 OR (x = 1 AND y = 1);
EXPLAIN (COSTS OFF) SELECT count(*) FROM k WHERE a = 3 OR b = 4;
SELECT count(*) FROM k WHERE a = 3 OR b = 4;
-- an arm that nothing bounds, or that is too wide
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = 7 OR d = 'x';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a < 400 OR b = 7;

-- joins
EXPLAIN (COSTS OFF) SELECT count(*) FROM (VALUES (7, 8), (9, NULL), (7, 8)) v (x, y), t WHERE t.a = v.x OR t.b = v.y;
SELECT v.*, count(*) FROM (VALUES (7, 8), (9, NULL), (7, 8), (1, 1)) v (x, y), t WHERE t.a = v.x OR t.b = v.y GROUP BY v.x, v.y ORDER BY v.x;
SELECT v.*, t.id FROM (VALUES (7, 8), (NULL, NULL)) v (x, y) LEFT JOIN t ON (t.a = v.x OR t.b = v.y) AND t.id < 1000 ORDER BY t.id;
SELECT count(*) FROM t WHERE EXISTS (SELECT FROM t s WHERE (s.a = t.id OR s.b = t.id + 1) AND s.c = 'c3') AND t.id < 10;

-- parameters, also null
PREPARE q(int, int, int[]) AS SELECT count(*), sum(id) FROM t WHERE a = $1 OR b = $2 OR id = ANY ($3);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE q(1, 2, '{3,4}');
EXECUTE q(1, 2, '{3,4}');
EXECUTE q(NULL, 2, '{}');
EXECUTE q(1, 1, NULL);
EXECUTE q(NULL, NULL, NULL);
RESET plan_cache_mode;

-- own writes, changes, locks
BEGIN;
INSERT INTO t VALUES (10007, 7, 7, 'new', 'd'), (10008, 8, 8, 'new', 'd');
DELETE FROM t WHERE id = 507;
UPDATE t SET a = 7 WHERE id = 3;
UPDATE t SET b = 0 WHERE id = 1461 + 7;
SELECT id, a, b FROM t WHERE a = 7 OR b = 7 ORDER BY id;
ROLLBACK;
EXPLAIN (COSTS OFF) UPDATE t SET d = 'changed' WHERE a = 7 OR b = 7;
UPDATE t SET a = 8, d = 'changed' WHERE a = 7 OR b = 7;
SELECT count(*) FROM t WHERE d = 'changed' AND a = 8;
DELETE FROM t WHERE a = 9 OR b = 9 OR id = 1;
SELECT count(*) FROM t;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM (SELECT FROM t WHERE a = 10 OR b = 10 FOR UPDATE) s;
UPDATE t SET d = 'serial' WHERE a = 10 OR b = 10;
COMMIT;
SELECT count(*) FROM t WHERE d = 'serial';

-- many small ranges take few round trips
CREATE FUNCTION round_trips(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' -> 'Redis Round Trips';
END $$;
SELECT round_trips(format('SELECT * FROM t WHERE a IN (%s)', string_agg((20 * i)::text, ', '))) < 12 AS few
FROM generate_series(0, 24) i;
SELECT round_trips(format('SELECT * FROM t WHERE a IN (%s) OR b IN (5, 55, 155, 255)', string_agg((20 * i)::text, ', '))) < 16 AS few
FROM generate_series(0, 24) i;
SELECT count(*) FROM t WHERE a IN (20, 40, 60, 80, 100, 400) OR b IN (5, 55, 155, 255);
DROP FUNCTION round_trips;

-- more keys than work_mem holds
SET work_mem = 64;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM t WHERE a < 250 OR b < 250;
SELECT count(*), sum(id) FROM t WHERE a = 20 OR b = 21;
RESET work_mem;
SELECT count(*), sum(id) FROM t WHERE a < 250 OR b < 250;
SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM t WHERE a < 250 OR b < 250;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = 1 OR b = 2;
RESET enable_bitmapscan;
SELECT severity, finding FROM mosql_fdw_check('t');
DROP FOREIGN TABLE t, p, k;
DROP SERVER unions;
