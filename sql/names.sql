-- names in Redis, and who gets them: tables, sequences and labels that were renamed
\getenv nodes MOSQL_NODES
SELECT current_database() AS here, current_database() || '_names' AS there,
	substring(array_to_string(srvoptions, ';') FROM 'namespace=([^;]*)') AS ns
	FROM pg_foreign_server WHERE srvname = 'redis' \gset
-- another database of the same namespace, as another server
SET client_min_messages = error;
DROP DATABASE IF EXISTS :"there";
CREATE DATABASE :"there";
\c :there
SET client_min_messages = warning;
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
\c :here
\set VERBOSITY default
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';

-- ---- a table that was renamed, and a new one under the name of before ----
CREATE TABLE acct (id int PRIMARY KEY, v text);
INSERT INTO acct VALUES (1, 'one'), (2, 'two');
CREATE TABLE acct_new (LIKE acct INCLUDING ALL);
INSERT INTO acct_new SELECT * FROM acct;
DROP TABLE acct;
ALTER TABLE acct_new RENAME TO acct;
-- the next migration does the same
CREATE TABLE acct_new (LIKE acct INCLUDING ALL);
SELECT count(*) FROM acct_new;
INSERT INTO acct_new VALUES (3, 'three');
SELECT * FROM acct ORDER BY id;
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'acct_new'::regclass;
DROP TABLE acct_new;
SELECT * FROM acct ORDER BY id;
-- to its end, and once more: the first name is free again
CREATE TABLE acct_new AS SELECT id, v || '!' AS v FROM acct;
SELECT * FROM acct_new ORDER BY id;
DROP TABLE acct;
ALTER TABLE acct_new RENAME TO acct;
CREATE TABLE acct_new (LIKE acct INCLUDING ALL);
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'acct_new'::regclass;
DROP TABLE acct_new, acct;
-- names at their longest
SELECT rpad('a', 63, 'a') AS long \gset
CREATE TABLE :"long" (i int);
ALTER TABLE :"long" RENAME TO short;
CREATE TABLE :"long" (i int);
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = :'long'::regclass;
DROP TABLE short, :"long";

-- ---- schemas ----
CREATE SCHEMA live;
CREATE TABLE live.t (id int PRIMARY KEY);
INSERT INTO live.t VALUES (1);
ALTER SCHEMA live RENAME TO live_old;
CREATE SCHEMA live;
CREATE TABLE live.t (id int PRIMARY KEY);
SELECT count(*) FROM live.t;
INSERT INTO live.t VALUES (2);
CREATE SCHEMA attic;
ALTER TABLE live.t SET SCHEMA attic;
CREATE FOREIGN TABLE live.t (id int OPTIONS (key 'true')) SERVER redis;
SELECT (SELECT array_agg(id) FROM live_old.t) AS old, (SELECT array_agg(id) FROM attic.t) AS attic,
	(SELECT array_agg(id) FROM live.t) AS live;
-- who says the name in Redis gets that table
CREATE FOREIGN TABLE live.same (id int OPTIONS (key 'true') NOT NULL) SERVER redis OPTIONS (table_name 't');
SELECT * FROM live.same;
SET mosql_fdw.drop_data = off;
DROP TABLE live.same;
RESET mosql_fdw.drop_data;

-- ---- another server: what it is told, and what it imports ----
CREATE TABLE job (id int PRIMARY KEY);
INSERT INTO job VALUES (1);
ALTER TABLE job RENAME TO job_old;
CREATE TABLE job (id int PRIMARY KEY);
INSERT INTO job VALUES (2);
\c :there
\set VERBOSITY default
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
CREATE TABLE job (id int PRIMARY KEY);
SELECT * FROM job;
ALTER TABLE job RENAME TO job_old;
CREATE TABLE job (id int PRIMARY KEY);
SELECT * FROM job;
INSERT INTO job VALUES (3);
-- imported, into a schema of another name
CREATE SCHEMA imported;
IMPORT FOREIGN SCHEMA public LIMIT TO (job, "job#2") FROM SERVER redis INTO imported;
SELECT * FROM imported.job;
SELECT * FROM imported."job#2" ORDER BY id;
\c :here
LOAD 'mosql_fdw';
SELECT * FROM job ORDER BY id;
SELECT * FROM job_old;
DROP SCHEMA live, live_old, attic CASCADE;
DROP TABLE job, job_old;

-- ---- labels: the same is said on one server, then on the other ----
CREATE TYPE letter AS ENUM ('x', 'y');
CREATE FOREIGN TABLE letters (id int OPTIONS (key 'true'), l letter) SERVER redis;
INSERT INTO letters VALUES (1, 'x'), (2, 'y');
\c :there
CREATE TYPE letter AS ENUM ('x', 'y');
IMPORT FOREIGN SCHEMA public LIMIT TO (letters) FROM SERVER redis INTO public;
\c :here
ALTER TYPE letter RENAME VALUE 'x' TO 'tmp';
ALTER TYPE letter RENAME VALUE 'y' TO 'x';
ALTER TYPE letter RENAME VALUE 'tmp' TO 'a';
ALTER TYPE letter RENAME VALUE 'a' TO 'c';
ALTER TYPE letter RENAME VALUE 'y' TO 'b';
ALTER TYPE letter RENAME VALUE 'b' TO 'tmp';
ALTER TYPE letter RENAME VALUE 'b' TO 'a';
SELECT * FROM letters ORDER BY id;
\c :there
ALTER TYPE letter RENAME VALUE 'x' TO 'tmp';
ALTER TYPE letter RENAME VALUE 'tmp' TO 'a';
ALTER TYPE letter RENAME VALUE 'a' TO 'c';
ALTER TYPE letter RENAME VALUE 'y' TO 'b';
SELECT * FROM letters ORDER BY id;
-- copied rows, and names of before
ALTER FOREIGN TABLE letters ALTER COLUMN l OPTIONS (ADD key 'true');
ALTER TYPE letter RENAME VALUE 'b' TO 'x';
\c :here
SELECT mosql_fdw_refresh('letters');
SELECT * FROM letters ORDER BY id;
ALTER TYPE letter RENAME VALUE 'b' TO 'y';
SELECT * FROM letters ORDER BY id;

-- ---- sequences that no column owns ----
CREATE SEQUENCE odd;
CREATE SEQUENCE even;
CREATE FOREIGN TABLE numbers (n int DEFAULT nextval('odd'), m int DEFAULT nextval('even')) SERVER redis;
ALTER SEQUENCE odd RENAME TO other;
ALTER SEQUENCE even RENAME TO odd;
ALTER SEQUENCE other RENAME TO odd;
ALTER SEQUENCE odd RENAME TO other;
DROP FOREIGN TABLE numbers;
DROP SEQUENCE other;
ALTER SEQUENCE even RENAME TO odd;
DROP SEQUENCE odd;
DROP FOREIGN TABLE letters;
DROP TYPE letter;

-- ---- columns whose values are names ----
SET mosql_fdw.default_server = 'redis';
CREATE TYPE place AS (t regclass[], n int);
CREATE DOMAIN kind AS regtype;
SELECT outcome(format('CREATE TABLE named (id int, v %s)', type)) FROM unnest('{regclass,regproc,regprocedure,regoper,
	regoperator,regtype,regrole,regnamespace,regconfig,regdictionary,regcollation,aclitem[],place,kind,kind[]}'::text[]) type;
SELECT outcome('CREATE TABLE named AS SELECT 1 AS id, pg_typeof(1) AS type');
CREATE TABLE named (id int PRIMARY KEY, o oid, x xid, s pg_snapshot);
SELECT outcome('ALTER TABLE named ADD COLUMN t regclass');
SELECT outcome('ALTER TABLE named ALTER COLUMN o TYPE regclass');
ALTER TYPE place RENAME ATTRIBUTE n TO m;
INSERT INTO named VALUES (1, 'named'::regclass);
ALTER TABLE named RENAME TO renamed;
SELECT id, o::regclass FROM renamed;
DROP TABLE renamed;
DROP TYPE place;
DROP DOMAIN kind;

-- ---- the end ----
DROP DATABASE :"there";
