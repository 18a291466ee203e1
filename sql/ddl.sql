-- definitions live in Redis, and follow the DDL of every server
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
SELECT ns, ns || '-b' AS ns_b FROM (SELECT substring(array_to_string(srvoptions, ';') FROM 'namespace=([^;]*)') AS ns
	FROM pg_foreign_server WHERE srvname = 'redis') x \gset
CREATE SERVER second FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
CREATE SERVER elsewhere FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns_b');

-- ---- the same table from two servers ----
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, name text COLLATE "C", n numeric(10,2)) SERVER redis;
CREATE SCHEMA two;
CREATE FOREIGN TABLE two.same (id int OPTIONS (key 'true') NOT NULL, name text COLLATE "C", n numeric(10,2))
	SERVER second OPTIONS (schema_name 'public', table_name 't');
CREATE FOREIGN TABLE two.other (id int OPTIONS (key 'true') NOT NULL, x bool) SERVER elsewhere
	OPTIONS (schema_name 'public', table_name 't');
INSERT INTO t VALUES (1, 'one', 1.5);
INSERT INTO two.same VALUES (2, 'two', 2.5);
INSERT INTO two.other VALUES (1, true);
SELECT * FROM t ORDER BY id;
SELECT * FROM two.same ORDER BY id DESC;
SELECT * FROM two.other;
SELECT outcome('INSERT INTO two.same VALUES (1)');

-- columns in another order are the same columns
CREATE FOREIGN TABLE two.shuffled (n numeric(10,2), name text COLLATE "C", id int OPTIONS (key 'true') NOT NULL)
	SERVER second OPTIONS (schema_name 'public', table_name 't');
INSERT INTO two.shuffled VALUES (3.5, 'three', 3);
SELECT * FROM t ORDER BY id;
SELECT * FROM two.shuffled ORDER BY id;

-- another definition is refused, and says where it differs
CREATE FUNCTION attach(columns text) RETURNS text LANGUAGE sql AS
	$$ SELECT outcome(format('CREATE FOREIGN TABLE two.t (%s) SERVER second OPTIONS (schema_name ''public'', table_name ''t'')', columns)) $$;
SELECT attach('id int OPTIONS (key ''true'') NOT NULL, name text COLLATE "C"');
SELECT attach('id int OPTIONS (key ''true'') NOT NULL, name text COLLATE "C", n numeric(10,2), more int');
SELECT attach('id bigint OPTIONS (key ''true'') NOT NULL, name text COLLATE "C", n numeric(10,2)');
SELECT attach('id int OPTIONS (key ''true'') NOT NULL, name text COLLATE "POSIX", n numeric(10,2)');
SELECT attach('id int OPTIONS (key ''true'') NOT NULL, name varchar COLLATE "C", n numeric(10,2)');
SELECT attach('id int OPTIONS (key ''true'') NOT NULL, name text COLLATE "C", n numeric(10,3)');
SELECT attach('id int NOT NULL, name text COLLATE "C", n numeric(10,2)');
-- without the key: it is to come, as in a dump; until then there is nothing to be done with it
SELECT outcome('SELECT * FROM two.t');
SELECT outcome('INSERT INTO two.t VALUES (1)');
SELECT outcome('ALTER FOREIGN TABLE two.t ADD more int');
SELECT outcome('ALTER FOREIGN TABLE two.t ALTER name OPTIONS (ADD key ''true'')');
BEGIN;
ALTER FOREIGN TABLE two.t OWNER TO CURRENT_USER;
ALTER FOREIGN TABLE two.t ALTER id OPTIONS (ADD key 'true');
SELECT count(*) FROM two.t;
ROLLBACK;
DROP FOREIGN TABLE two.t;
SELECT count(*) FROM public.t;
SELECT attach('id int NOT NULL, name text OPTIONS (key ''true'') COLLATE "C" NOT NULL, n numeric(10,2)');
SELECT attach('id int OPTIONS (key ''true'') NOT NULL, name text OPTIONS (key ''true'') COLLATE "C" NOT NULL, n numeric(10,2)');
CREATE FOREIGN TABLE pairs (a int OPTIONS (key 'true') NOT NULL, b int OPTIONS (key 'true') NOT NULL) SERVER redis;
CREATE FOREIGN TABLE two.pairs (b int OPTIONS (key 'true') NOT NULL, a int OPTIONS (key 'true') NOT NULL)
	SERVER second OPTIONS (schema_name 'public');
INSERT INTO pairs VALUES (1, 20), (2, 10);
INSERT INTO two.pairs VALUES (30, 1);
EXPLAIN (COSTS OFF) SELECT * FROM two.pairs WHERE a = 1 ORDER BY b;
SELECT * FROM two.pairs WHERE a = 1 ORDER BY b;
SELECT * FROM pairs ORDER BY a, b;
DROP FOREIGN TABLE pairs;
DROP FOREIGN TABLE two.pairs;

-- ---- a second database ----
SELECT current_database() AS here \gset
CREATE DATABASE mosql_second;
\c mosql_second
SET client_min_messages = warning;
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, name text COLLATE "C", n numeric(10,2)) SERVER redis;
SELECT * FROM t ORDER BY id;
UPDATE t SET n = n + 100 WHERE id = 1;
-- a temporary table over a permanent one goes without it; one of its own goes with its data
CREATE FOREIGN TABLE pg_temp.own (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
INSERT INTO own VALUES (1);
DROP FOREIGN TABLE own;
CREATE FOREIGN TABLE pg_temp.own (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
SELECT * FROM own;
-- nor is it another server's, of a session that has a schema of this name there
SELECT pg_my_temp_schema()::regnamespace AS temp \gset
CREATE FOREIGN TABLE another (id int OPTIONS (key 'true') NOT NULL) SERVER redis OPTIONS (schema_name :'temp', table_name 'same');
INSERT INTO another VALUES (1);
CREATE FOREIGN TABLE pg_temp.same (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
SELECT * FROM same;
DROP FOREIGN TABLE same;
CREATE FOREIGN TABLE pg_temp.mine (id int OPTIONS (key 'true') NOT NULL) SERVER redis OPTIONS (table_name 'same');
SELECT * FROM mine;
ALTER FOREIGN TABLE mine RENAME TO same;
CREATE FOREIGN TABLE pg_temp.mine (id int OPTIONS (key 'true') NOT NULL) SERVER redis OPTIONS (table_name 'same');
INSERT INTO mine VALUES (2);
SELECT * FROM same;
DROP FOREIGN TABLE mine, same;
SELECT * FROM another;
DROP FOREIGN TABLE another;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO pg_temp;
SELECT * FROM pg_temp.t ORDER BY id;
DROP FOREIGN TABLE pg_temp.t;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO pg_temp;
\c mosql_second
SET client_min_messages = warning;
SELECT count(*) FROM t;
CREATE SCHEMA imported;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO imported;
SELECT * FROM imported.t ORDER BY id;
SELECT attname, format_type(atttypid, atttypmod), attnotnull, attfdwoptions FROM pg_attribute
	WHERE attrelid = 'imported.t'::regclass AND attnum > 0 ORDER BY attnum;
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE imported.t;
RESET mosql_fdw.drop_data;
\c :here
SET client_min_messages = warning;
SELECT * FROM t WHERE id = 1;

-- ---- ALTER, as this and other servers see it ----
ALTER FOREIGN TABLE t ADD COLUMN extra int;
UPDATE t SET extra = id * 10 WHERE id < 3;
SELECT * FROM t ORDER BY id;
SELECT outcome('SELECT * FROM two.same');
SELECT outcome('INSERT INTO two.same VALUES (9)');
\c mosql_second
SELECT * FROM t;
-- catching up: the same change here, or dropping (which spares a table that differs) and importing
ALTER FOREIGN TABLE t ADD COLUMN extra int;
SELECT * FROM t ORDER BY id;
ALTER FOREIGN TABLE t ADD COLUMN extra2 int;
\c :here
SET client_min_messages = error;
DROP FOREIGN TABLE t;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO public;
SELECT * FROM t ORDER BY id;
ALTER FOREIGN TABLE t DROP COLUMN extra2;
\c :here
SET client_min_messages = warning;
ALTER FOREIGN TABLE t DROP COLUMN extra;
ALTER FOREIGN TABLE t ADD COLUMN extra int;
SELECT * FROM t ORDER BY id;
ALTER FOREIGN TABLE t DROP COLUMN extra;
SELECT * FROM two.same ORDER BY id;
ALTER FOREIGN TABLE t RENAME COLUMN name TO label;
SELECT id, label FROM t ORDER BY id;
ALTER FOREIGN TABLE t RENAME COLUMN label TO name;
BEGIN;
ALTER FOREIGN TABLE t ADD COLUMN gone int;
INSERT INTO t VALUES (4, 'four', 4, 44);
SELECT * FROM t ORDER BY id;
SAVEPOINT s;
ALTER FOREIGN TABLE t DROP COLUMN gone;
SELECT * FROM t ORDER BY id;
ROLLBACK TO s;
SELECT * FROM t ORDER BY id;
ROLLBACK;
SELECT * FROM t ORDER BY id;
ALTER FOREIGN TABLE t ALTER name SET NOT NULL;
SELECT outcome('INSERT INTO t VALUES (5)');
ALTER FOREIGN TABLE t ALTER name DROP NOT NULL, ALTER n SET DEFAULT 7, ADD CONSTRAINT positive CHECK (n > 0);
INSERT INTO t VALUES (5) RETURNING *;
SELECT outcome('INSERT INTO t VALUES (6, '''', -1)');
DELETE FROM t WHERE id = 5;
SELECT outcome('ALTER FOREIGN TABLE t ADD COLUMN d int NOT NULL');
SELECT outcome('ALTER FOREIGN TABLE t DROP COLUMN id');
SELECT outcome('ALTER FOREIGN TABLE t ADD COLUMN k2 int OPTIONS (key ''true'')');
SELECT * FROM t ORDER BY id;
-- a table without rows may change in any way
CREATE FOREIGN TABLE e (id int OPTIONS (key 'true') NOT NULL, a int) SERVER redis;
ALTER FOREIGN TABLE e ADD COLUMN b int NOT NULL DEFAULT 5, ALTER a TYPE text, ALTER id TYPE bigint;
ALTER FOREIGN TABLE e ADD COLUMN c int OPTIONS (key 'true') NOT NULL;
INSERT INTO e VALUES (5000000000, 'text', 1, 1), (5000000000, 'text', 1, 2);
SELECT * FROM e ORDER BY id DESC, c DESC;
EXPLAIN (COSTS OFF) SELECT * FROM e WHERE id = 1 AND c = 2;
DELETE FROM e;
ALTER FOREIGN TABLE e DROP COLUMN id;
INSERT INTO e VALUES ('x', 1, 1);
SELECT outcome('INSERT INTO e VALUES (''x'', 1, 1)');
TRUNCATE e;
ALTER FOREIGN TABLE e ALTER c OPTIONS (SET key 'false');
INSERT INTO e VALUES ('x', 1, 1), ('x', 1, 1);
SELECT * FROM e;
-- a parent's changes reach its children
CREATE TABLE parent (id int NOT NULL, v text);
CREATE FOREIGN TABLE child (id int OPTIONS (key 'true') NOT NULL, v text) INHERITS (parent) SERVER redis;
INSERT INTO child VALUES (1, 'one');
ALTER TABLE parent ADD COLUMN w int;
UPDATE parent SET w = 5;
SELECT tableoid::regclass, * FROM parent;
ALTER TABLE parent DROP COLUMN v;
ALTER TABLE parent RENAME COLUMN w TO x;
SELECT * FROM child;
SELECT * FROM mosql_fdw_check('child');
DROP TABLE parent CASCADE;

-- ---- names: of the local table, not of the data ----
ALTER FOREIGN TABLE t RENAME TO u;
CREATE SCHEMA three;
ALTER FOREIGN TABLE u SET SCHEMA three;
SELECT * FROM three.u ORDER BY id;
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'three.u'::regclass;
ALTER FOREIGN TABLE three.u SET SCHEMA public;
ALTER FOREIGN TABLE u RENAME TO t;
CREATE FOREIGN TABLE "Weird ""name""" ("a b" int OPTIONS (key 'true') NOT NULL, "select" text, "Ü" int) SERVER redis
	OPTIONS (schema_name 'sch.ema', table_name 'ta:{ble}');
INSERT INTO "Weird ""name""" VALUES (1, 'x', 2);
SELECT * FROM "Weird ""name""" WHERE "a b" = 1;
EXPLAIN (COSTS OFF) SELECT * FROM "Weird ""name""" WHERE "a b" = 1;
DROP FOREIGN TABLE "Weird ""name""";

-- ---- rollback and savepoints ----
BEGIN;
CREATE FOREIGN TABLE born (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
INSERT INTO born SELECT generate_series(1, 1000);
SELECT count(*), max(id) FROM born;
ROLLBACK;
BEGIN;
CREATE FOREIGN TABLE born (id int OPTIONS (key 'true') NOT NULL, v int) SERVER redis;
INSERT INTO born VALUES (1, 1);
SAVEPOINT s;
DROP FOREIGN TABLE born;
CREATE FOREIGN TABLE born (id int OPTIONS (key 'true') NOT NULL, other text) SERVER redis;
INSERT INTO born VALUES (1, 'text');
SELECT * FROM born;
ROLLBACK TO s;
SELECT * FROM born;
COMMIT;
SELECT * FROM born;
BEGIN;
DROP FOREIGN TABLE born;
CREATE FOREIGN TABLE born (id text OPTIONS (key 'true') NOT NULL) SERVER redis;
INSERT INTO born VALUES ('new');
COMMIT;
SELECT * FROM born;
BEGIN;
DROP FOREIGN TABLE born;
ROLLBACK;
SELECT * FROM born;
BEGIN;
TRUNCATE born;
INSERT INTO born VALUES ('other');
SELECT * FROM born;
SAVEPOINT s;
TRUNCATE born;
SELECT * FROM born;
ROLLBACK TO s;
SELECT * FROM born;
ROLLBACK;
SELECT * FROM born;
TRUNCATE born;
SELECT * FROM born;
SELECT * FROM mosql_fdw_check('born');
DROP FOREIGN TABLE born;
CREATE FOREIGN TABLE born (id text OPTIONS (key 'true') NOT NULL) SERVER redis;
SELECT * FROM born;

-- ---- drops of all kinds; a dropped table's name is free, its data gone ----
CREATE SCHEMA four;
CREATE FOREIGN TABLE four.a (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
CREATE FOREIGN TABLE four.b (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
INSERT INTO four.a VALUES (1);
DROP SCHEMA four CASCADE;
CREATE SCHEMA four;
CREATE FOREIGN TABLE four.a (id text OPTIONS (key 'true') NOT NULL) SERVER redis;
SELECT * FROM four.a;
CREATE SERVER third FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
CREATE FOREIGN TABLE four.c (id int OPTIONS (key 'true') NOT NULL) SERVER third;
INSERT INTO four.c VALUES (3);
SELECT outcome('DROP SERVER third');
DROP SERVER third CASCADE;
CREATE FOREIGN TABLE four.c (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
SELECT count(*) FROM four.c;
CREATE TYPE tint AS ENUM ('light', 'dark');
CREATE FOREIGN TABLE four.d (id int OPTIONS (key 'true') NOT NULL, tint tint) SERVER redis;
INSERT INTO four.d VALUES (1, 'dark');
DROP TYPE tint CASCADE;
SELECT * FROM four.d;
-- the table that differs stays: it is not what this one was made for
SET client_min_messages = notice;
DROP FOREIGN TABLE two.same;
SELECT outcome('SELECT * FROM t');
CREATE FOREIGN TABLE t2 (id int OPTIONS (key 'true') NOT NULL, a int) SERVER redis;
CREATE FOREIGN TABLE two.t2 (id int OPTIONS (key 'true') NOT NULL, a int) SERVER second OPTIONS (schema_name 'public', table_name 't2');
ALTER FOREIGN TABLE t2 ADD COLUMN b int;
DROP FOREIGN TABLE two.t2;
INSERT INTO t2 VALUES (1, 2, 3) RETURNING *;
-- only the local table
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE t2;
RESET mosql_fdw.drop_data;
CREATE FOREIGN TABLE t2 (id int OPTIONS (key 'true') NOT NULL, a int, b int) SERVER redis;
SELECT * FROM t2;
SET client_min_messages = warning;

-- ---- what is not possible, and what to do instead ----
SELECT outcome('CREATE INDEX ON t2 (a)');
SELECT outcome('ALTER FOREIGN TABLE t2 ADD PRIMARY KEY (id)');
SELECT outcome('CREATE FOREIGN TABLE x (id int PRIMARY KEY DEFERRABLE) SERVER redis');
SELECT outcome('CREATE FOREIGN TABLE x (id int, EXCLUDE (id WITH <>)) SERVER redis');
SELECT outcome('CREATE FOREIGN TABLE x (k jsonb OPTIONS (key ''true'') NOT NULL) SERVER redis');
SELECT outcome('CREATE FOREIGN TABLE x (k jsonb[] OPTIONS (key ''true'') NOT NULL) SERVER redis');
SELECT outcome('CREATE FOREIGN TABLE x (k point OPTIONS (key ''true'') NOT NULL) SERVER redis');
SELECT outcome(format('CREATE FOREIGN TABLE x (%s) SERVER redis',
	(SELECT string_agg(format('k%s int OPTIONS (key ''true'') NOT NULL', i), ', ') FROM generate_series(1, 33) i)));
SELECT outcome(format('CREATE FOREIGN TABLE x (%s) SERVER redis',
	(SELECT string_agg(format('k%s int OPTIONS (key ''true'') NOT NULL', i), ', ') FROM generate_series(1, 32) i)));
SELECT outcome('INSERT INTO x SELECT 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32');
SELECT k1 + k32 FROM x;

DROP FOREIGN TABLE t;
DROP FOREIGN TABLE two.shuffled;
SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP SCHEMA two, three, four CASCADE;
SET client_min_messages = error;
DROP FOREIGN TABLE IF EXISTS t2, e, born, x;
SET client_min_messages = warning;
DROP SERVER second;
DROP SERVER elsewhere;
DROP FUNCTION attach;
DROP DATABASE mosql_second;
