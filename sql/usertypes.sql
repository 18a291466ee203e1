-- types that change while rows are there: enums, composite types, names of all kinds
\set VERBOSITY terse
CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN weather AS mood;
CREATE TYPE moods AS RANGE (subtype = mood);
CREATE SCHEMA away;
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true'), m mood DEFAULT 'ok' CHECK (m <> 'sad' OR id < 5),
						ms mood[], w weather, ws weather[]) SERVER redis;
CREATE FOREIGN TABLE k (m mood OPTIONS (key 'true'), n int) SERVER redis;
CREATE INDEX t_m ON t (m);
CREATE INDEX t_sad ON t (id) WHERE m = 'sad';
INSERT INTO t VALUES (1, 'sad', '{sad,NULL,ok}', 'sad', '{sad}'), (2, 'ok', '{{sad,ok},{glad,sad}}', 'ok', '{}'),
	(3, 'glad', '[0:1]={ok,sad}', 'glad', '{ok}'), (4, NULL, NULL, NULL, NULL);
INSERT INTO k VALUES ('sad', 1), ('ok', 2), ('glad', 3);
-- what others would import
CREATE FUNCTION import(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL mosql_fdw.drop_data = off;
	DROP SCHEMA IF EXISTS other CASCADE;
	CREATE SCHEMA other;
	EXECUTE format('IMPORT FOREIGN SCHEMA public LIMIT TO (%I) FROM SERVER redis INTO other', name);
END $$;
SET client_min_messages = warning;

-- RENAME VALUE: rows stay as they are, and so do keys and entries
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
SELECT * FROM t ORDER BY id;
SELECT * FROM k WHERE m = 'blue';
SELECT id FROM t WHERE m = 'blue';
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE m = 'blue' ORDER BY id;
SELECT id FROM t WHERE m = 'blue' ORDER BY id;
RESET enable_seqscan;
INSERT INTO t VALUES (5, 'blue');
INSERT INTO t VALUES (0, 'blue', '{blue}', 'blue', '{blue}');
INSERT INTO k VALUES ('blue', 4);
SELECT import('t');
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'other.t'::regclass;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'other.t'::regclass AND contype = 'c';
SELECT * FROM other.t WHERE id = 1;
SELECT * FROM mosql_fdw_check('t');
SELECT * FROM mosql_fdw_check('k');
-- a label with the former name is another one
ALTER TYPE mood ADD VALUE 'sad' BEFORE 'blue';
SELECT id, m FROM t WHERE m = 'sad';
INSERT INTO t VALUES (-1, 'sad', '{sad,blue}');
INSERT INTO k VALUES ('sad', 5);
SELECT id, m, ms FROM t WHERE m IN ('sad', 'blue') ORDER BY m, id;
SELECT * FROM k ORDER BY m;
SELECT m FROM k WHERE m < 'blue';
SELECT m FROM k WHERE m > 'blue' ORDER BY m DESC;
-- names do not change places: servers that follow would change them back
BEGIN;
ALTER TYPE mood RENAME VALUE 'sad' TO 'tmp';
SELECT outcome($$ALTER TYPE mood RENAME VALUE 'blue' TO 'sad'$$);
SELECT id, m, ms FROM t WHERE id < 2 ORDER BY id;
SELECT m, n FROM k ORDER BY m;
ROLLBACK;
SELECT id, m, ms FROM t WHERE id < 2 ORDER BY id;
ALTER TYPE mood RENAME VALUE 'sad' TO 'tmp';
ALTER TYPE mood RENAME VALUE 'blue' TO 'grey';
ALTER TYPE mood RENAME VALUE 'grey' TO 'blue';
SELECT outcome($$ALTER TYPE mood RENAME VALUE 'tmp' TO 'grey'$$);
SELECT m, n FROM k ORDER BY m;
SELECT id FROM t WHERE m = 'blue' ORDER BY id;
SELECT * FROM mosql_fdw_check('t');
-- ALTER on, and a column more
ALTER TABLE t ADD COLUMN more mood DEFAULT 'tmp';
UPDATE t SET more = 'blue' WHERE id = 1;
ALTER TYPE mood RENAME VALUE 'tmp' TO 'last';
SELECT id, more FROM t WHERE id < 2 ORDER BY id;
ALTER TABLE t ALTER COLUMN id TYPE bigint;
SELECT id, m, ms, more FROM t WHERE id < 2 ORDER BY id;
-- where labels stand by name
CREATE TYPE boxed AS (m mood);
CREATE FOREIGN TABLE n (id int OPTIONS (key 'true'), r moods, b boxed) SERVER redis;
INSERT INTO n VALUES (1, '[blue,glad]', ROW('glad')::boxed);
SELECT outcome($$ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'$$);
SELECT * FROM n;
ALTER FOREIGN TABLE n DROP COLUMN b, DROP COLUMN r, ADD COLUMN m mood;
CREATE INDEX n_i ON n ((coalesce(m, 'blue')));
SELECT outcome($$ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'$$);
DROP INDEX n_i;
ALTER TYPE mood RENAME VALUE 'glad' TO 'happy';
DROP FOREIGN TABLE n;

-- RENAME TO, SET SCHEMA: as migrations do it
ALTER TYPE mood RENAME TO mood_old;
CREATE TYPE mood AS ENUM ('sad', 'fine');
SELECT id, m, more FROM t WHERE id < 2 ORDER BY id;
SELECT mosql_fdw_refresh('t');
SELECT import('t');
\d other.t
ALTER TABLE t ADD COLUMN m2 mood;
UPDATE t SET m2 = (CASE m::text WHEN 'blue' THEN 'sad' ELSE 'fine' END)::mood;
ALTER TABLE t DROP COLUMN m;
ALTER TABLE t RENAME COLUMN m2 TO m;
SELECT id, m, more FROM t WHERE id < 2 ORDER BY id;
ALTER TYPE mood_old SET SCHEMA away;
ALTER SCHEMA away RENAME TO far;
SELECT id, m, ms, w, ws FROM t WHERE id < 2 ORDER BY id;
SELECT * FROM k WHERE m = 'happy';
CREATE INDEX t_more ON t (id) WHERE more = 'blue';
ALTER SCHEMA far RENAME TO away;
INSERT INTO t (id, more) VALUES (7, 'blue');
SELECT id FROM t WHERE more = 'blue' AND id > 0 ORDER BY id;
ALTER DOMAIN weather RENAME TO climate;
SELECT id, w, ws FROM t WHERE id = 1;
CREATE COLLATION public.mine FROM "C";
CREATE FOREIGN TABLE c (id text OPTIONS (key 'true') COLLATE mine, v text COLLATE mine) SERVER redis;
CREATE INDEX ON c (v);
INSERT INTO c VALUES ('a', 'b');
ALTER COLLATION mine RENAME TO yours;
SELECT * FROM c WHERE v = 'b';
ALTER COLLATION yours SET SCHEMA away;
SELECT * FROM c WHERE id > 'A';
ALTER SCHEMA away RENAME TO far;
SELECT * FROM c ORDER BY v;
SELECT import('c');
\d other.c

-- composite types: attributes may be renamed, and nothing else
CREATE TABLE lodging (x int, y text);
CREATE FOREIGN TABLE p (id int OPTIONS (key 'true'), p pair, ps pair[], r lodging) SERVER redis;
INSERT INTO p VALUES (1, (1, 'one'), ARRAY[(2, 'two')::pair], (3, 'three'));
SELECT outcome('ALTER TYPE pair ADD ATTRIBUTE c int');
SELECT outcome('ALTER TYPE pair DROP ATTRIBUTE a');
SELECT split_part(regexp_replace(outcome('ALTER TYPE pair ALTER ATTRIBUTE a TYPE text'), 'column "(\w+)\.\w+"', 'a column of "\1"'), E'\n', 1);	-- by core, or by us
SELECT outcome('ALTER TYPE pair DROP ATTRIBUTE a, ADD ATTRIBUTE a int');
SELECT outcome('ALTER TABLE lodging ADD COLUMN z int');
SELECT outcome('ALTER TABLE lodging DROP COLUMN x');
SELECT split_part(regexp_replace(outcome('ALTER TABLE lodging ALTER COLUMN y TYPE varchar(9)'), 'column "(\w+)\.\w+"', 'a column of "\1"'), E'\n', 1);	-- by core, or by us
ALTER TABLE lodging ADD CHECK (x > 0), ALTER COLUMN y SET DEFAULT 'x';
ALTER TYPE pair RENAME ATTRIBUTE a TO b2;
ALTER TYPE pair RENAME ATTRIBUTE b TO a;
ALTER TABLE lodging RENAME COLUMN x TO z;
ALTER TABLE lodging RENAME TO lodgings;
ALTER TYPE pair RENAME TO couple;
SELECT (p).b2, (p).a, ps, (r).z, r FROM p;
CREATE TYPE inner_type AS (v mood);
CREATE TYPE outer_type AS (i inner_type[]);
ALTER FOREIGN TABLE p ADD COLUMN o outer_type;
SELECT outcome('ALTER TYPE inner_type ADD ATTRIBUTE c int');
SELECT outcome('DROP TYPE mood CASCADE');
SELECT * FROM p;
-- views have row types, and get columns by CREATE OR REPLACE
CREATE VIEW sight AS SELECT 1 AS x;
CREATE FOREIGN TABLE q (id int OPTIONS (key 'true'), s sight[]) SERVER redis;
INSERT INTO q VALUES (1, ARRAY[ROW(7)::sight]);
SELECT outcome('CREATE OR REPLACE VIEW sight AS SELECT 1 AS x, 2 AS y');
SELECT outcome('CREATE OR REPLACE VIEW sight AS SELECT 3 AS x');
ALTER VIEW sight RENAME COLUMN x TO z;
SELECT s[1].z FROM q;
-- columns that another server has added to a table
CREATE FOREIGN TABLE house (id int) SERVER redis;
ALTER FOREIGN TABLE q ADD COLUMN h house;
UPDATE q SET h = ROW(8);
CREATE SCHEMA elsewhere;
CREATE FOREIGN TABLE elsewhere.house (id int) SERVER redis OPTIONS (schema_name 'public');
ALTER FOREIGN TABLE elsewhere.house ADD COLUMN more int;
SELECT outcome($$SELECT mosql_fdw_refresh('house')$$);
SELECT (h).id FROM q;
DROP FOREIGN TABLE q;
SELECT mosql_fdw_refresh('house');
CREATE OR REPLACE VIEW sight AS SELECT 1 AS z, 2 AS y;
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE elsewhere.house;
RESET mosql_fdw.drop_data;
DROP FOREIGN TABLE house;
DROP SCHEMA elsewhere;
DROP VIEW sight;
DROP FOREIGN TABLE p;
ALTER TYPE inner_type ADD ATTRIBUTE c int;
ALTER TYPE couple DROP ATTRIBUTE a;

-- what attaches to a table must have the same types
CREATE FOREIGN TABLE p (id int OPTIONS (key 'true'), p couple) SERVER redis;
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE p;
ALTER TYPE couple ADD ATTRIBUTE c int;
SELECT outcome('CREATE FOREIGN TABLE p (id int OPTIONS (key ''true''), p couple) SERVER redis');
DROP SCHEMA other CASCADE;
RESET mosql_fdw.drop_data;
ALTER TYPE couple DROP ATTRIBUTE c;
CREATE FOREIGN TABLE p (id int OPTIONS (key 'true'), p couple) SERVER redis;
DROP FOREIGN TABLE p;
DROP FOREIGN TABLE t, k, c;
DROP FUNCTION import;
DROP TABLE lodgings;
DROP TYPE outer_type, inner_type, couple, boxed, moods;
DROP DOMAIN climate;
DROP TYPE far.mood_old, mood;
DROP COLLATION far.yours;
DROP SCHEMA far;

-- a composite type that goes takes columns with it, when nothing is left of what it consists of
CREATE SCHEMA far;
CREATE TYPE far.pair AS (x text, y int);
CREATE FOREIGN TABLE p (id int OPTIONS (key 'true'), v text, p far.pair, ps far.pair[]) SERVER redis;
INSERT INTO p VALUES (1, 'stays', ROW('x', 1), ARRAY[ROW('y', 2)::far.pair]);
DROP TYPE far.pair CASCADE;
SELECT * FROM p;
CREATE FOREIGN TABLE far.older (id int OPTIONS (key 'true')) SERVER redis;
CREATE TYPE far.pair AS (x text, y int);
ALTER FOREIGN TABLE far.older ADD COLUMN p far.pair;
DROP SCHEMA far CASCADE;
DROP FOREIGN TABLE p;
