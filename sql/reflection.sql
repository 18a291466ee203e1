-- what tools find in the catalogs: nothing of the extension, and tables where tables are
\getenv nodes MOSQL_NODES
SELECT current_database() AS here, current_database() || '_reflection' AS there,
	'reflection-' || extract(epoch FROM now())::bigint AS ns \gset
SET client_min_messages = error;
DROP DATABASE IF EXISTS :"there";
CREATE DATABASE :"there";
\c :there
SET client_min_messages = warning;
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');

-- ---- the extension is in nobody's way ----
SELECT classid::regclass, count(*) > 0 AS any, count(*) FILTER (WHERE s.schema <> 'pg_catalog') AS elsewhere
	FROM pg_depend d, pg_identify_object(d.classid, d.objid, d.objsubid) s
	WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND s.schema IS NOT NULL GROUP BY 1 ORDER BY 1::text;
SELECT table_schema, table_name FROM information_schema.tables
	WHERE table_schema NOT IN ('pg_catalog', 'information_schema');
-- and is found by plain names
SET search_path = '';
SELECT count(*) FROM mosql_fdw_progress;
SELECT count(*) FROM mosql_fdw_locks;
SELECT count(*) > 0 FROM mosql_fdw_stats();
RESET search_path;
ALTER EXTENSION mosql_fdw SET SCHEMA public;
-- a schema that is reset takes its tables along, and no more
SELECT mosql_fdw_enable('redis');
CREATE TABLE t (id serial PRIMARY KEY, v text);
INSERT INTO t (v) VALUES ('a');
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
CREATE TABLE t (id serial PRIMARY KEY, w text);
INSERT INTO t (w) VALUES ('b') RETURNING *;

-- ---- the end ----
SET client_min_messages = error;
DROP SCHEMA public CASCADE;
\c :here
DROP DATABASE :"there";
