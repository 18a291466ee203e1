-- scans that a parallel query divides: the same answers as without workers, and when the leader reads alone
\getenv nodes MOSQL_NODES
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SERVER parallel FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'parallel');
CREATE FOREIGN TABLE big (id int OPTIONS (key 'true') NOT NULL, n int NOT NULL, s text) SERVER parallel;
CREATE FOREIGN TABLE other (id int OPTIONS (key 'true') NOT NULL, n int NOT NULL) SERVER parallel;
CREATE TABLE part (id int NOT NULL, n int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10000) SERVER parallel;
CREATE FOREIGN TABLE part2 PARTITION OF part FOR VALUES FROM (10000) TO (20000) SERVER parallel;
INSERT INTO big SELECT i, i % 100, 'row ' || i FROM generate_series(1, 30000) i;
INSERT INTO other SELECT i, i % 7 FROM generate_series(1, 20000) i;
INSERT INTO part SELECT i, i % 7 FROM generate_series(1, 19999) i;
CREATE INDEX big_n ON big (n);
ANALYZE big;
ANALYZE other;
ANALYZE part;

-- not for tables of this size
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM big;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 2;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM big;
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM big WHERE id > 1000 AND n < 50;

-- Did workers take part, where the plan has some?
CREATE FUNCTION took_part(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	workers text := 'no parallel plan';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Workers Launched: 0' THEN workers := 'alone';
		ELSIF line ~ 'Workers Launched' THEN workers := 'workers'; END IF;
	END LOOP;
	RETURN workers;
END $$;
-- The value of a query with workers, and whether it is the one without them.
CREATE FUNCTION both_ways(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	alone text;
	together text;
BEGIN
	EXECUTE query INTO together;
	SET LOCAL max_parallel_workers_per_gather = 0;
	EXECUTE query INTO alone;
	SET LOCAL max_parallel_workers_per_gather = 2;
	RETURN CASE WHEN alone IS NOT DISTINCT FROM together THEN alone ELSE together || ', not ' || alone END;
END $$;
SELECT took_part('SELECT count(*), sum(n) FROM big');
SELECT both_ways('SELECT count(*) || '' '' || sum(n) || '' '' || sum(id) || '' '' || max(s) FROM big');
SELECT both_ways('SELECT count(*) || '' '' || sum(n) FROM big WHERE id > 1000 AND n < 50');
SELECT both_ways('SELECT md5(string_agg(b::text, '','' ORDER BY id)) FROM big b');
SELECT both_ways('SELECT count(*) FROM big WHERE id BETWEEN 29990 AND 40000');
SELECT both_ways('SELECT count(*) FROM big WHERE id > 50000');
SELECT both_ways('SELECT count(*) FROM big WHERE id < (SELECT 20 * avg(n) FROM other)');
SET parallel_leader_participation = off;
SELECT took_part('SELECT count(*), sum(n) FROM big');
SELECT both_ways('SELECT count(*) || '' '' || sum(n) || '' '' || sum(id) FROM big');
RESET parallel_leader_participation;

-- joins, partitions, groups, an index that covers, DISTINCT, LIMIT
EXPLAIN (COSTS OFF) SELECT count(*) FROM big JOIN other USING (id) WHERE other.n = 3;
SELECT both_ways('SELECT count(*) || '' '' || sum(big.n) FROM big JOIN other USING (id) WHERE other.n = 3');
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM part;
SELECT both_ways('SELECT count(*) || '' '' || sum(n) FROM part');
SELECT both_ways('SELECT string_agg(n || '':'' || c, '' '' ORDER BY n) FROM (SELECT n % 5 AS n, count(*) AS c FROM big GROUP BY 1) g');
SET enable_indexscan = on;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM big WHERE n > 10;
SELECT both_ways('SELECT count(*) FROM big WHERE n > 10');
RESET enable_seqscan;
CREATE INDEX other_half ON other ((n / 2));
SELECT took_part('SELECT count(*), sum(n) FROM other');
SELECT both_ways('SELECT count(*), sum(n) FROM other');
SELECT both_ways('SELECT count(*) FROM other WHERE n / 2 = 2');
SELECT both_ways('SELECT count(*) FROM (SELECT DISTINCT s FROM big) d');
SELECT count(*) FROM (SELECT s FROM big WHERE s LIKE '%7%' LIMIT 5) l;

-- rescans: the Gather is below a nested loop
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT both_ways('SELECT string_agg(v.x || '':'' || b.c, '' '') FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN
	(SELECT n, count(*) AS c FROM big WHERE n < 4 GROUP BY n) b ON b.n = v.x');
SET enable_memoize = off;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN
	(SELECT n, count(*) AS c FROM big WHERE n < 4 GROUP BY n OFFSET 0) b ON b.n >= v.x;
SELECT both_ways('SELECT string_agg(x || '':'' || c, '' '' ORDER BY x, c) FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN
	(SELECT n, count(*) AS c FROM big WHERE n < 4 GROUP BY n OFFSET 0) b ON b.n >= v.x');
-- ... whose range is another query's: the second time the leader reads alone
SELECT both_ways('SELECT count(*) || '' '' || sum(c) FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN
	(SELECT n, count(*) AS c FROM big WHERE n < 4 AND id > (SELECT 2000 + max(n) FROM other) GROUP BY n OFFSET 0) b ON b.n >= v.x');
RESET enable_memoize;
RESET enable_indexonlyscan;
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- own writes: planned so, and by a plan that is older than they
PREPARE total AS SELECT count(*), sum(n) FROM big;
SET plan_cache_mode = force_generic_plan;
EXECUTE total;
BEGIN;
INSERT INTO big VALUES (0, 1000000, 'own');
SELECT took_part('SELECT count(*), sum(n) FROM big');
SELECT took_part('EXECUTE total');
EXECUTE total;
SET LOCAL parallel_leader_participation = off;
EXECUTE total;
ROLLBACK;
EXECUTE total;
BEGIN;
SAVEPOINT a;
UPDATE big SET n = n + 1000 WHERE id = 5;
DELETE FROM big WHERE id = 7;
EXECUTE total;
ROLLBACK TO a;
EXECUTE total;
SELECT id FROM big WHERE id = 9 FOR UPDATE;
SELECT took_part('EXECUTE total');
EXECUTE total;
COMMIT;
SELECT took_part('EXECUTE total');
-- levels above
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT took_part('EXECUTE total');
EXECUTE total;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT took_part('SELECT count(*) FROM big');
SELECT took_part('EXECUTE total');
EXECUTE total;
COMMIT;
RESET plan_cache_mode;

-- what locks, changes, or names rows of this backend alone
SELECT took_part('SELECT * FROM big FOR UPDATE LIMIT 1');
SELECT took_part('SELECT count(ctid), count(xmin) FROM big');
BEGIN;
SELECT took_part('UPDATE big SET n = n WHERE n < 0');
ROLLBACK;
-- cursors, and what is fetched in part
BEGIN;
DECLARE c CURSOR FOR SELECT count(*), sum(n) FROM big;
FETCH ALL FROM c;
COMMIT;
DO $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR r IN SELECT * FROM big WHERE s LIKE '%1%' LOOP
		n := n + 1;
		EXIT WHEN n = 10;
	END LOOP;
	IF n <> 10 THEN RAISE EXCEPTION '% rows', n; END IF;
END $$;
CREATE TABLE copy AS SELECT id, n FROM big WHERE n < 50;
SELECT count(*), sum(n) FROM copy;
-- functions that read tables of ours do not run in workers
CREATE FUNCTION half(i int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS
	$$ BEGIN RETURN (SELECT n FROM other WHERE id = i); END $$;
SET parallel_leader_participation = off;
SELECT count(*) FROM big WHERE id % 1000 = 1 AND half(id) = 1;
ALTER FUNCTION half PARALLEL RESTRICTED;
SELECT count(*) FROM big WHERE id % 1000 = 1 AND half(id) = 1;
RESET parallel_leader_participation;
-- a condition that fails does so in a worker, too
SELECT count(*) FROM big WHERE 1 / (id - 15000) = 5;
-- max_connections: a query does not wait for itself
ALTER SERVER parallel OPTIONS (ADD max_connections '1');
SELECT took_part('SELECT count(*) FROM big');
SELECT count(*) FROM big;
ALTER SERVER parallel OPTIONS (DROP max_connections);
-- who may not read may not
CREATE ROLE parallel_reader;
GRANT USAGE ON FOREIGN SERVER parallel TO parallel_reader;
SET ROLE parallel_reader;
SELECT count(*) FROM big;
RESET ROLE;
GRANT SELECT ON big TO parallel_reader;
SET ROLE parallel_reader;
SELECT count(*) FROM big;
RESET ROLE;

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP TABLE copy, part;
DROP FOREIGN TABLE big, other;
DROP OWNED BY parallel_reader;
DROP ROLE parallel_reader;
DROP FUNCTION took_part, both_ways, half;
DROP SERVER parallel;
