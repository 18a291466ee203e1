-- partial indexes that compare labels of enums by their order, as job queues have them
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE TYPE state AS ENUM ('created', 'active', 'done', 'failed');
CREATE FOREIGN TABLE job (id int OPTIONS (key 'true'), name text COLLATE "C", s state NOT NULL DEFAULT 'created')
	SERVER redis;
INSERT INTO job SELECT i, 'j' || i, (enum_range(NULL::state))[1 + i % 4] FROM generate_series(0, 39) i;
CREATE INDEX job_fetch ON job (name) WHERE s < 'active';
CREATE UNIQUE INDEX job_alone ON job (name) WHERE s <= 'active';
CREATE INDEX job_some ON job (id) WHERE s BETWEEN 'active' AND 'done' OR 'failed' <= s;
CREATE INDEX job_late ON job ((s > 'active'), name);
\d job
-- PostgreSQL 18 says when it does what is off
\set plan 'CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$ DECLARE line text; BEGIN FOR line IN EXECUTE ''EXPLAIN (COSTS OFF) '' || query LOOP CONTINUE WHEN line LIKE ''%Disabled: true''; RETURN NEXT line; END LOOP; END $$;'
:plan
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT name FROM job WHERE s < 'active' ORDER BY name;
SELECT array_agg(name) FROM (SELECT name FROM job WHERE s < 'active' ORDER BY name) t;
EXPLAIN (COSTS OFF) SELECT name FROM job WHERE s = 'created' ORDER BY name;
SELECT plan($$SELECT name FROM job WHERE s < 'done' ORDER BY name$$);
INSERT INTO job VALUES (100, 'j0');
INSERT INTO job VALUES (100, 'j0') ON CONFLICT (name) WHERE s <= 'active' DO UPDATE SET s = 'active' RETURNING *;
INSERT INTO job VALUES (100, 'j0', 'done');
UPDATE job SET s = 'active' WHERE id = 100;
UPDATE job SET s = 'failed' WHERE id = 0;
UPDATE job SET s = 'created' WHERE id = 100;
SELECT array_agg(name) FROM (SELECT name FROM job WHERE s < 'active' ORDER BY name) t;
SELECT * FROM mosql_fdw_check('job');

-- a label in between, and another name, change no row's place
ALTER TYPE state ADD VALUE 'retry' BEFORE 'active';
ALTER TYPE state ADD VALUE 'new' BEFORE 'created';
ALTER TYPE state RENAME VALUE 'active' TO 'running';
INSERT INTO job VALUES (101, 'k', 'retry'), (102, 'l', 'new');
INSERT INTO job VALUES (103, 'k', 'running');
SELECT array_agg(name) FROM (SELECT name FROM job WHERE s < 'running' ORDER BY name) t;
SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indexrelid = 'job_fetch'::regclass;
SELECT * FROM mosql_fdw_check('job');

-- on another server that says the same the index is used; on one that has another order it is not, and nothing is written
SELECT current_database() AS here \gset
\getenv nodes MOSQL_NODES
SELECT substring(o FROM '=(.*)') AS ns FROM pg_foreign_server, unnest(srvoptions) o
	WHERE srvname = 'redis' AND o LIKE 'namespace=%' \gset
CREATE DATABASE mosql_ordered;
\c mosql_ordered
SET client_min_messages = warning;
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
CREATE TYPE state AS ENUM ('new', 'created', 'retry', 'running', 'done', 'failed');
IMPORT FOREIGN SCHEMA public LIMIT TO (job) FROM SERVER redis INTO public;
:plan
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT name FROM job WHERE s < 'running' ORDER BY name;
SELECT array_agg(name) FROM (SELECT name FROM job WHERE s < 'running' ORDER BY name) t;
INSERT INTO job VALUES (104, 'k', 'running');
INSERT INTO job VALUES (104, 'm', 'running');
SELECT * FROM mosql_fdw_check('job');
\c :here
SET client_min_messages = warning;
ALTER TYPE state ADD VALUE 'waiting' BEFORE 'failed';
\c mosql_ordered
SET client_min_messages = warning;
SET enable_seqscan = off;
-- a label that lacks here is nobody's business but of who meets it
INSERT INTO job VALUES (105, 'n', 'created');
ALTER TYPE state ADD VALUE 'waiting' BEFORE 'retry';
SELECT plan($$SELECT name FROM job WHERE s < 'running' ORDER BY name$$);
SELECT array_agg(name) FROM (SELECT name FROM job WHERE s < 'running' ORDER BY name) t;
\set VERBOSITY default
INSERT INTO job VALUES (106, 'o', 'created');
CREATE INDEX ON job (s) WHERE s > 'created';
\set VERBOSITY terse
-- nor does it bring its order there by another column, which would keep all servers from writing
ALTER FOREIGN TABLE job ADD COLUMN before state;
ALTER FOREIGN TABLE job ADD COLUMN number int;
ALTER FOREIGN TABLE job ALTER COLUMN number TYPE state USING 'new';
ALTER FOREIGN TABLE job DROP COLUMN number;
\c :here
SELECT mosql_fdw_refresh('job');
INSERT INTO job VALUES (106, 'o', 'created');
DELETE FROM job WHERE id = 106;
ALTER FOREIGN TABLE job ADD COLUMN before state;
ALTER FOREIGN TABLE job DROP COLUMN before;
\c mosql_ordered
SET client_min_messages = warning;
SET enable_seqscan = off;
-- and not what it hashes to, nor without a column that says the order
\c :here
SELECT outcome('CREATE INDEX ON job (id) WHERE hashenum(s) > 0');
CREATE TYPE mood AS ENUM ('sad', 'glad');
SELECT outcome('CREATE INDEX ON job ((CASE WHEN id > 0 THEN ''sad''::mood ELSE ''glad'' END < ''glad''))');
-- the first of such indexes says what the order is
DROP INDEX job_fetch, job_alone, job_some, job_late;
\c mosql_ordered
INSERT INTO job VALUES (106, 'o', 'created');
CREATE INDEX job_first ON job (id) WHERE s > 'created';
INSERT INTO job VALUES (107, 'p', 'waiting');
SELECT * FROM mosql_fdw_check('job');
\c :here
INSERT INTO job VALUES (108, 'q', 'created');
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE job;
RESET mosql_fdw.drop_data;
\c mosql_ordered
-- the column's type
ALTER FOREIGN TABLE job ALTER COLUMN s DROP DEFAULT;
ALTER FOREIGN TABLE job ALTER COLUMN s TYPE text USING s::text;
DROP INDEX job_first;
ALTER FOREIGN TABLE job ALTER COLUMN s TYPE text USING s::text;
DROP FOREIGN TABLE job;
\c :here
DROP DATABASE mosql_ordered;
DROP TYPE state, mood;
DROP FUNCTION plan;
