-- what a transaction wrote itself counts, when it plans and for ANALYZE
SET client_min_messages = warning;
SET mosql_fdw.default_server = 'redis';
CREATE FUNCTION planned(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Plan Rows')::bigint;
END $$;
BEGIN;
CREATE TABLE s AS SELECT i, i % 100 AS v FROM generate_series(1, 20000) i;
SELECT planned('SELECT * FROM s') BETWEEN 10000 AND 40000 AS before;
ANALYZE s;
SELECT reltuples FROM pg_class WHERE relname = 's';
SELECT attname, n_distinct FROM pg_stats WHERE tablename = 's' ORDER BY 1;
SELECT planned('SELECT * FROM s WHERE v = 7') BETWEEN 150 AND 250 AS some;
EXPLAIN (COSTS OFF) SELECT count(*) FROM s a JOIN s b USING (v);
COMMIT;
-- as the transaction sees it: without what it deleted, with what it changed
BEGIN;
DELETE FROM s WHERE v < 50;
UPDATE s SET v = -1 WHERE v >= 50;
SAVEPOINT a;
INSERT INTO s SELECT 0, 5 FROM generate_series(1, 500);
ROLLBACK TO a;
ANALYZE s;
SELECT reltuples FROM pg_class WHERE relname = 's';
SELECT attname, n_distinct, most_common_vals FROM pg_stats WHERE tablename = 's' AND attname = 'v';
ROLLBACK;
-- much more than ANALYZE knew of
CREATE TABLE few (i int PRIMARY KEY, v int);
INSERT INTO few VALUES (1, 1);
ANALYZE few;
BEGIN;
INSERT INTO few SELECT i, i FROM generate_series(2, 5000) i;
SELECT planned('SELECT * FROM few') >= 4999 AS many;
COMMIT;
DROP TABLE s, few;
DROP FUNCTION planned(text);
