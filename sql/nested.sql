-- commands within commands: event triggers and functions that run DDL of their own
\getenv nodes MOSQL_NODES
SELECT current_database() AS here, current_database() || '_nested' AS there,
	substring(array_to_string(srvoptions, ';') FROM 'namespace=([^;]*)') AS ns
	FROM pg_foreign_server WHERE srvname = 'redis' \gset
-- another database of the same namespace, as another server: what it imports is what is in Redis
SET client_min_messages = error;
DROP DATABASE IF EXISTS :"there";
CREATE DATABASE :"there";
\c :there
SET client_min_messages = warning;
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
\c :here
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
CREATE TABLE nested (id int PRIMARY KEY, a int, b text, c text, d int, e int);
INSERT INTO nested VALUES (1, 1, '1', 'abc', 1, 1);
CREATE TABLE nested_log (id int PRIMARY KEY, n int DEFAULT 0);
CREATE TABLE nested_more (id int PRIMARY KEY);
INSERT INTO nested_more VALUES (1);

-- ---- triggers that come before ours, and after it ----
CREATE FUNCTION nested_audit() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('nested.running', true) IS DISTINCT FROM 'on' THEN
		SET LOCAL nested.running = on;
		EXECUTE current_setting('nested.command');
		SET LOCAL nested.running = off;
	END IF;
END $$;
-- a catalog as another server sees it
CREATE FUNCTION nested_seen(name text) RETURNS TABLE (seen text) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL nested.running = on;
	CREATE SCHEMA nested_seen;
	EXECUTE format('IMPORT FOREIGN SCHEMA public LIMIT TO (%I) FROM SERVER redis INTO nested_seen', name);
	RETURN QUERY SELECT concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'not null' END,
			pg_get_expr(adbin, adrelid))
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attrelid = format('nested_seen.%I', name)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
	SET LOCAL mosql_fdw.drop_data = off;
	DROP SCHEMA nested_seen CASCADE;
	SET LOCAL mosql_fdw.drop_data = on;
END $$;
SET client_min_messages = warning;
CREATE EVENT TRIGGER " audit" ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE FOREIGN TABLE')
	EXECUTE FUNCTION nested_audit();
SET nested.command = 'ALTER TABLE nested_log ALTER n SET DEFAULT 1';
ALTER TABLE nested ALTER a SET NOT NULL;
SET nested.command = 'ALTER TABLE nested_log ALTER n SET DEFAULT 2';
ALTER TABLE nested ALTER a SET DEFAULT 7;
SET nested.command = 'CREATE TABLE nested_one (id int PRIMARY KEY)';
ALTER TABLE nested ADD COLUMN f int DEFAULT 3;
SET nested.command = 'CREATE TABLE nested_two AS SELECT 1 AS id';
ALTER TABLE nested ALTER b TYPE int USING length(b) + 5;
SELECT * FROM nested;
SELECT * FROM nested_seen('nested');
SELECT * FROM nested_seen('nested_log');
-- a session's first command, before the library is loaded
\c :here
SET nested.command = 'ALTER TABLE nested_log ALTER n SET DEFAULT 3';
ALTER TABLE nested ALTER c SET NOT NULL, ALTER c SET DEFAULT 'first';
SELECT * FROM nested_seen('nested');
SELECT * FROM nested_seen('nested_log');
SET mosql_fdw.default_server = 'redis';
-- one that fails and is caught
SET nested.command = 'DO $do$ BEGIN ALTER TABLE nested_log ALTER n TYPE bigint; ALTER TABLE nested_more ADD COLUMN v int NOT NULL; EXCEPTION WHEN OTHERS THEN RAISE WARNING ''caught %'', SQLSTATE; END $do$';
ALTER TABLE nested ALTER d SET NOT NULL, ALTER d SET DEFAULT 4, ADD CONSTRAINT d CHECK (d > 0);
-- names of types, and owners of sequences
CREATE TYPE nested_mood AS ENUM ('sad', 'happy');
CREATE TYPE nested_other AS ENUM ('low', 'high');
SET nested.running = on;
CREATE TABLE nested_typed (id int PRIMARY KEY, m nested_mood, o nested_other, s int, u int);
CREATE SEQUENCE nested_s OWNED BY nested_typed.s;
CREATE SEQUENCE nested_u OWNED BY nested_typed.u;
SET nested.running = off;
ALTER EVENT TRIGGER " audit" DISABLE;
CREATE EVENT TRIGGER " audit all" ON ddl_command_end EXECUTE FUNCTION nested_audit();
SET nested.command = 'ALTER TYPE nested_other RENAME VALUE ''low'' TO ''lowest''';
ALTER TYPE nested_mood RENAME VALUE 'sad' TO 'gloomy';
SET nested.command = 'ALTER SEQUENCE nested_u OWNED BY NONE';
ALTER SEQUENCE nested_s OWNED BY NONE;
INSERT INTO nested_typed VALUES (1, 'gloomy', 'lowest', nextval('nested_s'), nextval('nested_u'));
SELECT * FROM nested_typed;
DROP EVENT TRIGGER " audit all";
-- the same table: with a usual name, after ours
ALTER EVENT TRIGGER " audit" DISABLE;
CREATE EVENT TRIGGER audit ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA')
	EXECUTE FUNCTION nested_audit();
SET nested.command = 'ALTER TABLE nested ADD COLUMN g int DEFAULT 8';
ALTER TABLE nested ALTER e TYPE text USING 'e' || e, ALTER e SET NOT NULL;
SET nested.command = 'CREATE INDEX nested_h ON nested (h)';
ALTER TABLE nested ADD COLUMN h int;
SET nested.command = 'INSERT INTO nested VALUES (2, DEFAULT, 2, DEFAULT, DEFAULT, ''e'')';
ALTER TABLE nested ADD COLUMN i int DEFAULT 9;
SET nested.command = 'ALTER TABLE nested_made ADD COLUMN audit text NOT NULL DEFAULT ''a''';
CREATE TABLE nested_made (id int PRIMARY KEY);
SET nested.command = 'ALTER TABLE nested_here.made ADD COLUMN audit text NOT NULL DEFAULT ''a''';
CREATE SCHEMA nested_here CREATE TABLE made (id int PRIMARY KEY) CREATE TABLE made_too (id int REFERENCES nested_here.made);
SET nested.command = 'ALTER TABLE nested_plain ADD COLUMN audit text NOT NULL DEFAULT ''a''';
CREATE FOREIGN TABLE nested_plain (id int) SERVER redis;
SELECT * FROM nested;
SELECT * FROM nested_seen('nested');
SELECT * FROM nested_seen('nested_made');
SELECT * FROM nested_seen('nested_plain');
INSERT INTO nested_here.made VALUES (1);
INSERT INTO nested_here.made_too VALUES (1);
DROP SCHEMA nested_here CASCADE;
DROP EVENT TRIGGER audit;
-- before ddl_command_end
CREATE EVENT TRIGGER audit ON sql_drop WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION nested_audit();
SET nested.command = 'ALTER TABLE nested_log ALTER n SET DEFAULT 5';
ALTER TABLE nested DROP COLUMN d, ALTER h SET DEFAULT 6, ADD COLUMN j int DEFAULT 10;
SELECT * FROM nested_seen('nested');
SELECT * FROM nested_seen('nested_log');
DROP EVENT TRIGGER audit;
-- at ddl_command_start, before and after ours
CREATE EVENT TRIGGER audit ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION nested_audit();
CREATE EVENT TRIGGER zaudit ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION nested_audit();
SET nested.command = 'ALTER TABLE nested_log ALTER n DROP DEFAULT';
ALTER TABLE nested ALTER h SET DEFAULT 11, ADD COLUMN k int DEFAULT 12;
ALTER EVENT TRIGGER audit DISABLE;
SET nested.command = 'ALTER TABLE nested_log ALTER n SET NOT NULL';
ALTER TABLE nested ALTER j SET DEFAULT 13, ADD COLUMN l int DEFAULT 14;
SELECT * FROM nested_seen('nested');
SELECT * FROM nested_seen('nested_log');
DROP EVENT TRIGGER audit;
DROP EVENT TRIGGER zaudit;

-- ---- functions ----
CREATE FUNCTION nested_f(command text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 20;
END $$;
ALTER TABLE nested ALTER l SET NOT NULL, ADD COLUMN m int DEFAULT nested_f('ALTER TABLE nested_log ALTER n SET DEFAULT 15');
CREATE TABLE nested_as AS SELECT nested_f('ALTER TABLE nested_log ADD COLUMN o int DEFAULT 16') AS v;
SELECT * FROM nested_as;
SELECT id, l, m FROM nested ORDER BY id;
SELECT * FROM nested_seen('nested') OFFSET 9;
SELECT * FROM nested_seen('nested_log');
-- three deep, the innermost fails, and is caught in the one between
CREATE FUNCTION nested_deep() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
	depth int := coalesce(nullif(current_setting('nested.depth', true), ''), '0')::int;
BEGIN
	PERFORM set_config('nested.depth', (depth + 1)::text, true);
	BEGIN
		CASE depth
		WHEN 0 THEN ALTER TABLE nested_log ALTER o TYPE text USING 'o' || o;
		WHEN 1 THEN ALTER TABLE nested_more ADD COLUMN v int DEFAULT 17;
		WHEN 2 THEN ALTER TABLE nested_more ADD COLUMN w int NOT NULL;
		ELSE NULL;
		END CASE;
	EXCEPTION WHEN OTHERS THEN
		RAISE WARNING 'caught % at %', SQLSTATE, depth;
	END;
END $$;
INSERT INTO nested_log VALUES (1, 1, 1);
CREATE EVENT TRIGGER " deep" ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION nested_deep();
ALTER TABLE nested ALTER m SET NOT NULL, ADD COLUMN n int DEFAULT 18;
DROP EVENT TRIGGER " deep";
SELECT * FROM nested_log;
SELECT * FROM nested_more;
SELECT * FROM nested_seen('nested') OFFSET 10;
SELECT * FROM nested_seen('nested_log');
SELECT * FROM nested_seen('nested_more');

-- ---- within mosql_fdw_refresh() ----
\c :there
SET client_min_messages = warning;
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
IMPORT FOREIGN SCHEMA public LIMIT TO (nested_more) FROM SERVER redis INTO public;
CREATE TABLE nested_there (id int PRIMARY KEY);
CREATE TABLE nested_gone (id int PRIMARY KEY);
CREATE FUNCTION nested_audit() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('nested.running', true) IS DISTINCT FROM 'on' THEN
		SET LOCAL nested.running = on;
		EXECUTE current_setting('nested.command');
	END IF;
END $$;
CREATE EVENT TRIGGER audit ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE') EXECUTE FUNCTION nested_audit();
\c :here
ALTER TABLE nested_more ADD COLUMN x int DEFAULT 19;
\c :there
SET client_min_messages = warning;
SET nested.command = 'DO $do$ BEGIN ALTER TABLE public.nested_there ADD COLUMN v int DEFAULT 3; DROP TABLE public.nested_gone; CREATE FOREIGN TABLE public.nested_new (id int OPTIONS (key ''true'') NOT NULL) SERVER redis; END $do$';
SELECT mosql_fdw_refresh('nested_more');
SELECT * FROM nested_more;
SELECT * FROM nested_there;
SELECT * FROM nested_new;
SELECT * FROM mosql_fdw_gc('redis') g WHERE g::text LIKE '%nested_gone%';
DROP EVENT TRIGGER audit;
DROP FOREIGN TABLE nested_there, nested_new;
\c :here
SET client_min_messages = warning;

-- ---- where event triggers do not fire ----
SET session_replication_role = replica;
ALTER TABLE nested_more ALTER x SET NOT NULL;
RESET session_replication_role;
SELECT * FROM nested_seen('nested_more');
BEGIN;
ALTER EVENT TRIGGER mosql_fdw_ddl_start DISABLE;
ALTER EVENT TRIGGER "!mosql_fdw_ddl_end" DISABLE;
ALTER TABLE nested_more ALTER x SET DEFAULT 20;
ALTER TABLE nested_more RENAME x TO y;
ROLLBACK;
DROP EVENT TRIGGER " audit";
DROP TABLE nested, nested_log, nested_more, nested_one, nested_two, nested_typed, nested_made, nested_plain, nested_as;
DROP SEQUENCE nested_s, nested_u;
DROP TYPE nested_mood, nested_other;
DROP FUNCTION nested_audit, nested_deep, nested_f, nested_seen;
DROP DATABASE :"there";
