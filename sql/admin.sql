-- functions to look at things, and connections
SET client_min_messages = warning;
\getenv nodes MOSQL_NODES
\getenv plain MOSQL_PLAIN
SELECT mosql_fdw_version() = extversion AS same FROM pg_extension WHERE extname = 'mosql_fdw';
SELECT 'admin-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE SERVER own FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'plain', namespace :'ns');
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text) SERVER own;
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 1000) i;

-- connections
SELECT server_name, user_name, connected, in_transaction FROM mosql_fdw_get_connections()
	WHERE server_name = 'own' ORDER BY 1;
BEGIN;
SELECT v FROM t WHERE id = 1;
SELECT server_name, connected, in_transaction FROM mosql_fdw_get_connections() WHERE server_name = 'own';
SELECT mosql_fdw_disconnect('own');
SELECT v FROM t WHERE id = 2;
COMMIT;
SELECT mosql_fdw_disconnect('own');
SELECT mosql_fdw_disconnect('own');
SELECT count(*) FROM mosql_fdw_get_connections() WHERE server_name = 'own';
SELECT v FROM t WHERE id = 3;
SELECT mosql_fdw_disconnect_all();
SELECT count(*) FROM mosql_fdw_get_connections();
ALTER SERVER own OPTIONS (ADD keep_connections 'off');
SELECT v FROM t WHERE id = 4;
SELECT bool_or(connected) IS NOT TRUE AS closed FROM mosql_fdw_get_connections() WHERE server_name = 'own';
INSERT INTO t VALUES (-1, 'without keeping');
SELECT count(*) FROM t;
ALTER SERVER own OPTIONS (DROP keep_connections);

-- prepared statements outlive connections
PREPARE p (int) AS SELECT v FROM t WHERE id = $1;
EXECUTE p (5);
SELECT mosql_fdw_disconnect_all();
EXECUTE p (6);
DISCARD ALL;
SET client_min_messages = warning;
SELECT v FROM t WHERE id = 7;

-- mappings: one connection per Redis user
CREATE ROLE mosql_regress_one;
GRANT SELECT ON t TO mosql_regress_one;
CREATE USER MAPPING FOR mosql_regress_one SERVER own OPTIONS (username 'default', password 'any');
SET ROLE mosql_regress_one;
SELECT count(*) FROM t;
RESET ROLE;
SELECT user_name, connected FROM mosql_fdw_get_connections() WHERE server_name = 'own' ORDER BY 1;
DROP USER MAPPING FOR mosql_regress_one SERVER own;
SELECT user_name, connected FROM mosql_fdw_get_connections() WHERE server_name = 'own' ORDER BY 1;
-- a view reads as its owner
CREATE VIEW seen AS SELECT * FROM t WHERE id < 3 AND id > 0;
GRANT SELECT ON seen TO mosql_regress_one;
REVOKE SELECT ON t FROM mosql_regress_one;
SET ROLE mosql_regress_one;
SELECT * FROM seen ORDER BY id;
SELECT outcome('SELECT * FROM t');
RESET ROLE;
DROP VIEW seen;
DROP ROLE mosql_regress_one;

-- the tree
SELECT level, count(*) > 0 AS nodes, sum(entries) FILTER (WHERE level = 0) AS rows, bool_and(node ~ ':\{') AS named,
	count(*) FILTER (WHERE low IS NULL) AS lowest, count(*) FILTER (WHERE high IS NULL) AS highest
	FROM mosql_fdw_dump('t') GROUP BY level ORDER BY level;
SELECT * FROM mosql_fdw_check('t');
CREATE FOREIGN TABLE e (id int) SERVER own;
SELECT level, state, low, high, entries FROM mosql_fdw_dump('e') ORDER BY level DESC;
SELECT * FROM mosql_fdw_check('e');
BEGIN;
INSERT INTO e VALUES (1);
SELECT sum(entries) FROM mosql_fdw_dump('e') WHERE level = 0;
COMMIT;
SELECT sum(entries) FROM mosql_fdw_dump('e') WHERE level = 0;

-- the servers' settings: some advice, the same for each primary
SELECT DISTINCT setting, advised FROM mosql_fdw_server_check('redis') WHERE setting NOT IN
	('hash-max-listpack-entries', 'hash-max-listpack-value', 'maxmemory-policy', 'appendonly');

-- holding and letting go
SELECT mosql_fdw_debug_lock('a point');
SELECT locktype, mode, granted FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory';
SELECT mosql_fdw_debug_unlock('a point');
SELECT mosql_fdw_debug_unlock('a point');

-- estimates: counted in Redis, or by ANALYZE
CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
SELECT estimate('SELECT * FROM t') BETWEEN 800 AND 1250;
SELECT estimate('SELECT * FROM t WHERE id = 5');
ANALYZE t;
SELECT reltuples FROM pg_class WHERE relname = 't';
SELECT estimate('SELECT * FROM t') BETWEEN 800 AND 1250;
SELECT estimate('SELECT * FROM t WHERE id <= 100') BETWEEN 90 AND 110;
ANALYZE t (v);
SELECT attname, n_distinct, null_frac FROM pg_stats WHERE tablename = 't' ORDER BY 1;
VACUUM t;

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE t, e;
DROP SERVER own;
DROP FUNCTION estimate;
