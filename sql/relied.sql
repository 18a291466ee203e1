-- what a transaction relied on before it changed a definition itself, and took that back
\getenv nodes MOSQL_NODES
SELECT current_database() AS here, current_database() || '_relied' AS there,
	substring(array_to_string(srvoptions, ';') FROM 'namespace=([^;]*)') AS ns
	FROM pg_foreign_server WHERE srvname = 'redis' \gset
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
CREATE TABLE relied (id int PRIMARY KEY, v int);
INSERT INTO relied VALUES (1, 1);
-- another database of the same namespace, as another server
SET client_min_messages = error;
DROP DATABASE IF EXISTS :"there";
CREATE DATABASE :"there";
\c :there
SET client_min_messages = warning;
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
IMPORT FOREIGN SCHEMA public LIMIT TO (relied) FROM SERVER redis INTO public;
\c :here
SET client_min_messages = warning;
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
CREATE EXTENSION IF NOT EXISTS dblink;
SELECT 'dbname=' || :'there' || ' host=' || split_part(current_setting('unix_socket_directories'), ',', 1) || ' port=' || current_setting('port') AS far \gset
SELECT dblink_connect('far', :'far');
\set VERBOSITY sqlstate

-- longer than a statement goes by definitions without asking
\set fresh 'SELECT pg_sleep(1.1);'

-- written before the savepoint; another server makes an index after it was rolled back to
:fresh
BEGIN;
INSERT INTO relied VALUES (2, 2);
SAVEPOINT s;
ALTER TABLE relied ADD COLUMN w int;
ROLLBACK TO s;
SELECT dblink_exec('far', 'CREATE INDEX relied_v ON relied (v)');
COMMIT;
SELECT * FROM mosql_fdw_check('relied');
SELECT dblink_exec('far', 'DROP INDEX relied_v');
-- the same, and the table is used once more
:fresh
BEGIN;
INSERT INTO relied VALUES (3, 2);
SAVEPOINT s;
ALTER TABLE relied ADD COLUMN w int;
ROLLBACK TO s;
SELECT dblink_exec('far', 'CREATE INDEX relied_v ON relied (v)');
INSERT INTO relied VALUES (4, 3);
COMMIT;
SELECT * FROM mosql_fdw_check('relied');
SELECT dblink_exec('far', 'DROP INDEX relied_v');
-- an own change builds on one of another server that what was written does not know
:fresh
BEGIN;
INSERT INTO relied VALUES (5, 2);
SELECT dblink_exec('far', 'CREATE INDEX relied_v ON relied (v)');
ALTER TABLE relied ADD COLUMN w int;
COMMIT;
SELECT * FROM mosql_fdw_check('relied');
SELECT dblink_exec('far', 'DROP INDEX relied_v');
-- and truncates
:fresh
BEGIN;
INSERT INTO relied VALUES (5, 2);
SAVEPOINT s;
TRUNCATE relied;
ROLLBACK TO s;
SELECT dblink_exec('far', 'TRUNCATE relied');
COMMIT;
SELECT * FROM relied;
SELECT mosql_fdw_refresh('relied');
ALTER TABLE relied DROP COLUMN IF EXISTS w;
-- savepoints within savepoints; what is kept is kept
:fresh
BEGIN;
SAVEPOINT a;
ALTER TABLE relied ADD COLUMN x int DEFAULT 5;
SAVEPOINT b;
ALTER TABLE relied ADD COLUMN y int DEFAULT 6;
ROLLBACK TO b;
INSERT INTO relied VALUES (4, 4);
RELEASE a;
COMMIT;
SELECT * FROM relied;
SELECT * FROM dblink('far', 'SELECT mosql_fdw_refresh(''relied'')::text') AS t(refreshed text);
CREATE TABLE relied_other (id int PRIMARY KEY);
-- serializable: what was read before the savepoint
:fresh
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) > 0 FROM relied;
SAVEPOINT s;
TRUNCATE relied;
ROLLBACK TO s;
SELECT dblink_exec('far', 'TRUNCATE relied');
INSERT INTO relied_other VALUES (1);
COMMIT;
SELECT dblink_disconnect('far');
SET client_min_messages = error;
DROP TABLE IF EXISTS relied, relied_other;
DROP EXTENSION dblink;
DROP DATABASE :"there";
