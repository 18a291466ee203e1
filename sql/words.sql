-- what applications say, beside PostgreSQL's own tables: each script is run on both
SET client_min_messages = warning;
\set VERBOSITY terse
CREATE SCHEMA words_own;
CREATE SCHEMA words_ours;
\set on_own 'RESET mosql_fdw.default_server; SET search_path = words_own;'
\set on_ours 'SET mosql_fdw.default_server = redis; SET search_path = words_ours;'

-- DROP TABLE of tables of both kinds, which depend on each other, is one statement
\set run 'CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b () INHERITS (a) USING heap; CREATE TABLE c (id int) USING heap; CREATE TABLE d () INHERITS (c); CREATE VIEW v AS SELECT * FROM d; DROP TABLE a, nosuch, b; DROP TABLE a, b, nosuch.t; DROP TABLE IF EXISTS a, nosuch, b; DROP TABLE d, c; DROP TABLE d, c CASCADE; SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace; CREATE TABLE a (id int); CREATE TABLE b (id int) USING heap; CREATE VIEW v AS SELECT 1; DROP TABLE a, b, v; SET ROLE pg_monitor; DROP TABLE a, b; RESET ROLE; BEGIN; DROP TABLE b, a; ROLLBACK; INSERT INTO a VALUES (1); SELECT * FROM a; DROP TABLE a, b; DROP VIEW v;'
:on_own
:run
:on_ours
:run

-- a foreign key to a partitioned table does not keep that from getting partitions
:on_ours
SET client_min_messages = notice;
CREATE TABLE parent (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE child (id int PRIMARY KEY, p int CONSTRAINT child_p REFERENCES parent);
SET client_min_messages = warning;
CREATE TABLE parent1 PARTITION OF parent FOR VALUES FROM (0) TO (10);
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1);
SELECT conname FROM pg_constraint WHERE conrelid = 'child'::regclass AND contype = 'f';
DROP TABLE child, parent;

RESET search_path;
RESET mosql_fdw.default_server;
DROP SCHEMA words_own, words_ours CASCADE;
