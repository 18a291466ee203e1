-- a server whose catalog is behind: what it says acts on what it shows, or is refused
\getenv nodes MOSQL_NODES
SELECT current_database() AS here, current_database() || '_stale' AS there,
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
CREATE TABLE cols (id int PRIMARY KEY, v text, w int, x int, y int, k int CONSTRAINT k CHECK (k > -5),
	l int CONSTRAINT l CHECK (l > -5));
INSERT INTO cols (id) SELECT generate_series(1, 3);
CREATE TABLE idx (id int PRIMARY KEY, a int, b int NOT NULL);
ALTER TABLE idx ADD CONSTRAINT u1 UNIQUE (a);
ALTER TABLE idx ADD CONSTRAINT u2 UNIQUE (a);
CREATE UNIQUE INDEX i1 ON idx (a);
CREATE UNIQUE INDEX i2 ON idx (a);
CREATE UNIQUE INDEX i3 ON idx (a);
CREATE UNIQUE INDEX i4 ON idx (id);
CREATE UNIQUE INDEX i5 ON idx (a);
CREATE INDEX i6 ON idx (b) WHERE a > 3;
CREATE INDEX i7 ON idx (b) WHERE a > 3;
INSERT INTO idx SELECT i, i, i FROM generate_series(1, 5) i;
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE q (id int PRIMARY KEY);
CREATE TABLE c (id int PRIMARY KEY, p int, q int);
ALTER TABLE c ADD CONSTRAINT f1 FOREIGN KEY (p) REFERENCES p;
ALTER TABLE c ADD CONSTRAINT f2 FOREIGN KEY (p) REFERENCES p;
ALTER TABLE c ADD CONSTRAINT f3 FOREIGN KEY (p) REFERENCES p;
ALTER TABLE c ADD CONSTRAINT f4 FOREIGN KEY (p) REFERENCES p;
ALTER TABLE c ADD CONSTRAINT f5 FOREIGN KEY (p) REFERENCES p NOT VALID;
ALTER TABLE c ADD CONSTRAINT f6 FOREIGN KEY (p) REFERENCES p;
CREATE TABLE keyed (id int CONSTRAINT keyed_key PRIMARY KEY, v text, n int GENERATED ALWAYS AS IDENTITY,
	o int CONSTRAINT o CHECK (o > 0) NOT NULL DEFAULT 1);
\c :there
IMPORT FOREIGN SCHEMA public LIMIT TO (cols, idx, p, q, c, keyed) FROM SERVER redis INTO public;

-- ---- columns ----
\c :here
ALTER TABLE cols DROP COLUMN v;
ALTER TABLE cols ADD COLUMN v int DEFAULT 7;
UPDATE cols SET x = 1;
ALTER TABLE cols ALTER x SET NOT NULL;
\c :there
LOAD 'mosql_fdw';
ALTER TABLE cols DROP COLUMN v;
ALTER TABLE cols RENAME COLUMN v TO z;
ALTER TABLE cols ALTER v TYPE varchar;
ALTER TABLE cols ALTER v SET DEFAULT 'abc';
ALTER TABLE cols ALTER v SET NOT NULL;
-- the same as was done there: nothing is left to do, and the expression is not for what is there
ALTER TABLE cols ALTER v TYPE int USING length(v);
SELECT id, v FROM cols ORDER BY id;
-- what another server says of the column stays
ALTER TABLE cols ALTER x SET DEFAULT 5;
SELECT mosql_fdw_refresh('cols');
\c :here
ALTER TABLE cols DROP COLUMN w;
ALTER TABLE cols RENAME COLUMN y TO y2;
ALTER TABLE cols ADD COLUMN n int DEFAULT 3;
ALTER TABLE cols ADD COLUMN m int DEFAULT 3;
\c :there
ALTER TABLE cols ALTER w SET DEFAULT 5;
ALTER TABLE cols RENAME COLUMN y TO y3;
ALTER TABLE cols ADD COLUMN n text DEFAULT 'x';
SELECT mosql_fdw_refresh('cols');
ALTER TABLE cols DROP COLUMN m, DROP COLUMN n, ADD COLUMN n text DEFAULT 'x';
SELECT * FROM cols ORDER BY id;
\c :here
SELECT mosql_fdw_refresh('cols');
-- a table that is another one can be dropped, also by what drops its columns first
\c :there
CREATE TYPE mood AS ENUM ('sad');
\c :here
CREATE TYPE mood AS ENUM ('sad');
CREATE FOREIGN TABLE moody (id int OPTIONS (key 'true') NOT NULL, m mood) SERVER redis;
\c :there
IMPORT FOREIGN SCHEMA public LIMIT TO (moody) FROM SERVER redis INTO public;
\c :here
ALTER TABLE moody DROP COLUMN m;
ALTER TABLE moody ADD COLUMN m int DEFAULT 4;
INSERT INTO moody VALUES (1);
\c :there
LOAD 'mosql_fdw';
SET client_min_messages = warning;
DROP TYPE mood CASCADE;
DROP FOREIGN TABLE moody;
RESET client_min_messages;
\c :here
SELECT * FROM moody;
DROP FOREIGN TABLE moody;
DROP TYPE mood;

-- ---- CHECK constraints ----
ALTER TABLE cols DROP CONSTRAINT k, ADD CONSTRAINT k CHECK (k < 100);
ALTER TABLE cols ADD CONSTRAINT k2 CHECK (k < 1000);
\c :there
ALTER TABLE cols DROP CONSTRAINT k;
ALTER TABLE cols RENAME CONSTRAINT k TO kk;
ALTER TABLE cols ADD CONSTRAINT k2 CHECK (k > 0);
ALTER TABLE cols DROP CONSTRAINT IF EXISTS k2;
ALTER TABLE cols RENAME CONSTRAINT l TO ll;
SELECT mosql_fdw_refresh('cols');
ALTER TABLE cols DROP CONSTRAINT k;
\c :here
SELECT mosql_fdw_refresh('cols');

-- ---- indexes ----
DROP INDEX i1, i2, i3, i4, i5, i6;
CREATE UNIQUE INDEX i1 ON idx (b, a);
CREATE UNIQUE INDEX i2 ON idx (b, a);
CREATE UNIQUE INDEX i3 ON idx (b, a);
CREATE UNIQUE INDEX i4 ON idx (b, a);
CREATE INDEX i6 ON idx (b) WHERE a > 4;
ALTER TABLE idx DROP CONSTRAINT u1, DROP CONSTRAINT u2;
ALTER TABLE idx ADD CONSTRAINT u1 UNIQUE (b, a), ADD CONSTRAINT u2 UNIQUE (b, a);
\c :there
DROP INDEX i1;
ALTER INDEX i2 RENAME TO i2x;
ALTER TABLE idx ADD UNIQUE USING INDEX i3;
ALTER TABLE idx ADD PRIMARY KEY USING INDEX i4;
ALTER TABLE idx DROP CONSTRAINT u1;
ALTER TABLE idx RENAME CONSTRAINT u2 TO u2x;
ALTER TABLE idx ADD UNIQUE USING INDEX i5;
DROP INDEX i6;
-- with their column, too
ALTER TABLE idx DROP COLUMN a;
-- those that are the same are dropped, and of those that are gone nothing is left to drop
DROP INDEX i7;
DROP INDEX i5;
SELECT mosql_fdw_refresh('idx');
DROP INDEX i6;
\d idx
\c :here
SELECT mosql_fdw_refresh('idx');
\d idx

-- ---- foreign keys ----
ALTER TABLE c DROP CONSTRAINT f1, DROP CONSTRAINT f2, DROP CONSTRAINT f3;
ALTER TABLE c ADD CONSTRAINT f1 FOREIGN KEY (q) REFERENCES q;
ALTER TABLE c ADD CONSTRAINT f2 FOREIGN KEY (q) REFERENCES q;
ALTER TABLE c ADD CONSTRAINT f3 FOREIGN KEY (p) REFERENCES p ON DELETE CASCADE;
ALTER TABLE c ALTER CONSTRAINT f4 DEFERRABLE;
ALTER TABLE c VALIDATE CONSTRAINT f5;
ALTER TABLE c DROP CONSTRAINT f6;
ALTER TABLE c ADD CONSTRAINT f6 FOREIGN KEY (p) REFERENCES p NOT VALID;
\c :there
LOAD 'mosql_fdw';
ALTER TABLE c DROP CONSTRAINT f1;
ALTER TABLE c RENAME CONSTRAINT f2 TO f2x;
ALTER TABLE c RENAME CONSTRAINT f4 TO f3;
ALTER TABLE c DROP CONSTRAINT f3;
SET client_min_messages = warning;
DROP TABLE p CASCADE;
RESET client_min_messages;
-- altered, but the same
ALTER TABLE c DROP CONSTRAINT f4;
SELECT mosql_fdw_refresh('c');
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'c'::regclass AND contype <> 'n' ORDER BY 1;
INSERT INTO c VALUES (1, NULL, 5);

-- ---- sequences ----
\c :here
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
CREATE TABLE seqs (id int PRIMARY KEY, a int GENERATED ALWAYS AS IDENTITY, b int GENERATED ALWAYS AS IDENTITY,
	c int GENERATED ALWAYS AS IDENTITY, d int GENERATED ALWAYS AS IDENTITY, e serial);
CREATE TABLE gens (id int PRIMARY KEY, a int, b int, g int GENERATED ALWAYS AS (a + 1) STORED,
	h int GENERATED ALWAYS AS (a + b) STORED, i int GENERATED ALWAYS AS (b + 1) STORED);
CREATE INDEX gens_g ON gens (g);
INSERT INTO gens VALUES (1, 1, 1);
\c :there
IMPORT FOREIGN SCHEMA public LIMIT TO (seqs, gens) FROM SERVER redis INTO public;
\c :here
ALTER TABLE seqs ALTER a DROP IDENTITY, ALTER c DROP IDENTITY;
ALTER TABLE seqs ALTER a ADD GENERATED BY DEFAULT AS IDENTITY (START 100 INCREMENT 10);
ALTER TABLE seqs ALTER b SET GENERATED BY DEFAULT SET INCREMENT 10;
ALTER SEQUENCE seqs_e_seq INCREMENT 10 MINVALUE 3 MAXVALUE 5000 START 3 RESTART;
\c :there
ALTER TABLE seqs ALTER a DROP IDENTITY;
ALTER TABLE seqs ALTER c SET INCREMENT 5;
ALTER SEQUENCE seqs_c_seq CACHE 5;
-- what is gone is gone already, and what the command does not speak of stays as it is there
ALTER TABLE seqs ALTER c DROP IDENTITY;
ALTER TABLE seqs ALTER b SET CYCLE;
ALTER SEQUENCE seqs_e_seq CACHE 2;
ALTER SEQUENCE seqs_e_seq MINVALUE 6000 START 7000 RESTART WITH 7000;
SELECT mosql_fdw_refresh('seqs');
SELECT mosql_fdw_refresh('seqs');
ALTER TABLE seqs ALTER a SET INCREMENT 20, ALTER d DROP IDENTITY;
ALTER TABLE seqs ALTER b TYPE bigint;
INSERT INTO seqs (id, c, d) VALUES (1, 1, 1), (2, 2, 2);
\c :here
SELECT mosql_fdw_refresh('seqs');
INSERT INTO seqs (id, c, d) VALUES (3, 3, 3);
SELECT * FROM seqs ORDER BY id;
-- a column that has no numbers any more, and one that has others, which a stale DROP SEQUENCE leaves alone
CREATE FOREIGN TABLE nums (id int, s serial, t serial, u serial, PRIMARY KEY (id)) SERVER redis;
\c :there
IMPORT FOREIGN SCHEMA public LIMIT TO (nums) FROM SERVER redis INTO public;
\c :here
ALTER TABLE nums DROP s, DROP t, DROP u;
ALTER TABLE nums ADD s int, ADD t int GENERATED ALWAYS AS IDENTITY, ADD u int GENERATED ALWAYS AS IDENTITY;
INSERT INTO nums (id) VALUES (1) RETURNING t, u;
\c :there
DROP SEQUENCE nums_t_seq CASCADE;
SELECT mosql_fdw_refresh('nums');
SELECT mosql_fdw_refresh('nums');
INSERT INTO nums (id) VALUES (2) RETURNING s, t > 1, u > 1;
\c :here
INSERT INTO nums (id) VALUES (3) RETURNING s, t > 1, u > 1;

-- ---- generated columns ----
ALTER TABLE gens DROP COLUMN g, ALTER h DROP EXPRESSION, ALTER a TYPE bigint;
ALTER TABLE gens ADD COLUMN g bigint GENERATED ALWAYS AS (a + 2) STORED;
CREATE INDEX gens_g ON gens (g);
\c :there
SELECT mosql_fdw_refresh('gens');
SELECT mosql_fdw_refresh('gens');
INSERT INTO gens VALUES (2, 2, 2, 2);
SELECT id, a, b, g, h, i FROM gens ORDER BY id;
\d gens

-- ---- what mosql_fdw_refresh() compares ----
\c :here
ALTER TABLE keyed DROP CONSTRAINT keyed_key;
ALTER TABLE keyed ALTER id DROP NOT NULL, ADD PRIMARY KEY (v), ALTER n SET GENERATED BY DEFAULT;
\c :there
UPDATE pg_constraint SET convalidated = false WHERE conname = 'o' AND conrelid = 'keyed'::regclass;
SELECT mosql_fdw_refresh('keyed');
\d keyed
SELECT mosql_fdw_refresh('keyed');

-- ---- what rows must satisfy, where they are written anew ----
\c :here
CREATE FOREIGN TABLE ruled (id int PRIMARY KEY, a int, b varchar(9) GENERATED ALWAYS AS ('x'::text) STORED, n int,
	c int GENERATED ALWAYS AS (a + 1) STORED) SERVER redis;
INSERT INTO ruled (id, a, n) SELECT i, i, i FROM generate_series(1, 3) i;
\c :there
IMPORT FOREIGN SCHEMA public LIMIT TO (ruled) FROM SERVER redis INTO public;
\c :here
ALTER TABLE ruled ADD CONSTRAINT small CHECK (n < 10);
ALTER TABLE ruled ALTER b DROP EXPRESSION, ALTER a SET NOT NULL;
UPDATE ruled SET b = 'mine';
\c :there
LOAD 'mosql_fdw';
ALTER TABLE ruled ALTER n TYPE bigint USING n * 10;
ALTER TABLE ruled ADD COLUMN r float DEFAULT random();
ALTER TABLE ruled ALTER b TYPE text;
ALTER TABLE ruled DROP CONSTRAINT ruled_pkey;
ALTER TABLE ruled ALTER b DROP EXPRESSION, ADD COLUMN s int GENERATED ALWAYS AS (id + 2) STORED;
ALTER TABLE ruled DROP COLUMN c, ALTER n TYPE bigint USING n * 10;
BEGIN;
ALTER TABLE ruled ADD CONSTRAINT mine CHECK (n < 10) NOT VALID;
ALTER TABLE ruled DROP COLUMN c, ALTER n TYPE bigint USING n * 10;
ROLLBACK;
ALTER TABLE ruled DROP COLUMN c, ALTER a TYPE bigint USING nullif(a, 1);
-- nor are columns renamed that such rules name
ALTER TABLE ruled RENAME n TO m;
SELECT mosql_fdw_refresh('ruled');
ALTER TABLE ruled RENAME n TO m;
ALTER TABLE ruled RENAME m TO n;
ALTER TABLE ruled ALTER n TYPE bigint USING n * 10;
ALTER TABLE ruled ALTER n TYPE bigint USING n * 3;
\c :here
SELECT mosql_fdw_refresh('ruled');
SELECT * FROM ruled ORDER BY id;
INSERT INTO ruled VALUES (4, 4, 'other', 10);
\c :there
LOAD 'mosql_fdw';
SET client_min_messages = warning;
SET mosql_fdw.drop_data = off;
DROP EXTENSION mosql_fdw CASCADE;
\c :here
SET client_min_messages = warning;
DROP DATABASE :"there";
DROP TABLE cols, idx, c, p, q, keyed, seqs, nums, gens, ruled;

-- what is stored and compared does not depend on the session's settings
SET mosql_fdw.default_server = 'redis';
CREATE TABLE settings (id int PRIMARY KEY, ts timestamptz CONSTRAINT recent CHECK (ts > '2020-01-01 00:00+00'), b text);
CREATE INDEX settings_tab ON settings (id) WHERE b = E'a\\tb';
SET timezone = 'Asia/Kolkata';
ALTER TABLE settings RENAME CONSTRAINT recent TO recently;
ALTER TABLE settings RENAME ts TO since;
SET standard_conforming_strings = off;
SET escape_string_warning = off;
INSERT INTO settings VALUES (4, now(), E'a\\tb'), (5, now(), E'a\tb');
SET quote_all_identifiers = on;
ALTER TABLE settings ADD COLUMN d date;
SELECT mosql_fdw_refresh('settings');
ALTER TABLE settings DROP CONSTRAINT recently;
RESET ALL;
SELECT id FROM settings WHERE b = E'a\\tb' ORDER BY id;
SELECT count(*) FROM mosql_fdw_check('settings');
DROP TABLE settings;
