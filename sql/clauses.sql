-- clauses of CREATE and ALTER TABLE, and statements on tables: done, ignored with a NOTICE, or
-- refused with a hint; docs/ddl.md lists them
SET client_min_messages = warning;
CREATE SCHEMA clauses;
SET search_path = clauses, public;
SET mosql_fdw.default_server = 'redis';
CREATE TABLE base (id int PRIMARY KEY, a text COLLATE "C" DEFAULT 'x', c int CONSTRAINT cc CHECK (c > 0));
INSERT INTO base VALUES (1, 'a', 5);

-- refused
SELECT outcome('ALTER TABLE base FORCE ROW LEVEL SECURITY');
SELECT outcome('CREATE POLICY p ON base USING (true)');
SELECT outcome('ALTER TABLE base REPLICA IDENTITY FULL');
SELECT outcome('ALTER TABLE base ENABLE RULE r');
SELECT outcome('CREATE RULE r AS ON INSERT TO base DO INSTEAD NOTHING');
SELECT outcome('ALTER TABLE base SET ACCESS METHOD heap');
CREATE TYPE ty AS (id int, a text);
SELECT outcome('ALTER TABLE base OF ty');
SELECT outcome('ALTER TABLE base NOT OF');
SELECT outcome('ALTER TABLE base ADD EXCLUDE USING gist (c WITH =)');
SELECT outcome('ALTER TABLE base ADD CONSTRAINT u UNIQUE USING INDEX base_pkey');
SELECT outcome('ALTER TABLE base ADD PRIMARY KEY (c)');
SELECT outcome('ALTER TABLE base ALTER c TYPE text USING c || a');
SELECT outcome('CREATE PUBLICATION pub FOR TABLE base');
CREATE TABLE local (id int) USING heap;
SET client_min_messages = error;
CREATE PUBLICATION pub FOR TABLE local;
SET client_min_messages = warning;
SELECT outcome('ALTER PUBLICATION pub ADD TABLE base');
DROP PUBLICATION pub;
SELECT outcome('CREATE CONSTRAINT TRIGGER t AFTER INSERT ON base FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()');
SELECT outcome('CREATE TRIGGER t AFTER INSERT ON base REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION suppress_redundant_updates_trigger()');
SELECT outcome('CREATE TRIGGER t BEFORE TRUNCATE ON base FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()');
-- TRUNCATE triggers
CREATE FUNCTION tell_fired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING '% % of % for each %: % rows', TG_WHEN, TG_OP, TG_TABLE_NAME, TG_LEVEL, (SELECT count(*) FROM cut);
	RETURN NULL;
END $$;
CREATE TABLE cut (id int PRIMARY KEY, v int);
CREATE TRIGGER before_cut BEFORE TRUNCATE ON cut EXECUTE FUNCTION tell_fired();
CREATE TRIGGER after_cut AFTER INSERT OR TRUNCATE ON cut EXECUTE FUNCTION tell_fired();
CREATE TRIGGER change_cut AFTER UPDATE OF v OR DELETE ON cut EXECUTE FUNCTION tell_fired();
CREATE OR REPLACE TRIGGER change_cut AFTER UPDATE OF v OR TRUNCATE ON cut WHEN (current_user <> 'nobody') EXECUTE FUNCTION tell_fired();
INSERT INTO cut VALUES (1, 1), (2, 2);
UPDATE cut SET v = 3;
DELETE FROM cut WHERE id = 1;
TRUNCATE cut;
ALTER TABLE cut DISABLE TRIGGER before_cut;
DROP TRIGGER after_cut ON cut;
INSERT INTO cut VALUES (1, 1);
BEGIN;
TRUNCATE cut;
ROLLBACK;
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'cut'::regclass ORDER BY tgname;
DROP TABLE cut;
DROP FUNCTION tell_fired;
SELECT outcome('CREATE TABLE x (r int4range, EXCLUDE USING gist (r WITH &&))');
SELECT outcome('CREATE TABLE x (id int PRIMARY KEY DEFERRABLE)');
SELECT outcome('CREATE TABLE x (id int UNIQUE DEFERRABLE)');
SELECT outcome('CREATE TABLE x (id int, v int, PRIMARY KEY (id) INCLUDE (v))');
SELECT outcome('CREATE INDEX ON base (c COLLATE "C")');
SELECT outcome('ALTER INDEX base_pkey SET (fillfactor = 10), RESET (fillfactor)'), outcome('ALTER INDEX base_pkey SET (nosuch = 10)'),
	outcome('ALTER INDEX base_pkey SET TABLESPACE nosuch'), outcome('ALTER INDEX base_pkey SET TABLESPACE pg_default');
-- of a local table they are core's
SELECT outcome('ALTER TABLE local ENABLE ROW LEVEL SECURITY');
SELECT outcome('CREATE RULE r AS ON INSERT TO local DO INSTEAD NOTHING');

-- nothing to do
ALTER TABLE base DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
-- foreign keys are deferred, and no longer
CREATE TABLE referring (id int PRIMARY KEY, base int REFERENCES base);
SELECT outcome('ALTER TABLE referring ALTER CONSTRAINT nosuch DEFERRABLE');
SELECT outcome('ALTER TABLE referring ALTER CONSTRAINT referring_pkey DEFERRABLE');
ALTER TABLE referring ALTER CONSTRAINT referring_base_fkey DEFERRABLE INITIALLY DEFERRED;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'referring_base_fkey';
BEGIN;
INSERT INTO referring VALUES (1, 2);
INSERT INTO base VALUES (2, 'b', 6);
COMMIT;
BEGIN;
SET CONSTRAINTS referring_base_fkey IMMEDIATE;
SELECT outcome('INSERT INTO referring VALUES (2, 3)');
ROLLBACK;
CREATE SCHEMA elsewhere;
IMPORT FOREIGN SCHEMA clauses LIMIT TO (base, referring) FROM SERVER redis INTO elsewhere;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'elsewhere.referring'::regclass AND contype = 'f';
ALTER TABLE referring ALTER CONSTRAINT referring_base_fkey NOT DEFERRABLE;
SELECT outcome('INSERT INTO referring VALUES (2, 3)');
SELECT outcome('INSERT INTO elsewhere.referring VALUES (2, 3)');
SELECT mosql_fdw_refresh('elsewhere.referring');
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'elsewhere.referring'::regclass AND contype = 'f';
SELECT outcome('INSERT INTO elsewhere.referring VALUES (2, 3)');
SET mosql_fdw.drop_data = off;
DROP SCHEMA elsewhere CASCADE;
RESET mosql_fdw.drop_data;
DROP TABLE referring;
DELETE FROM base WHERE id = 2;

-- what means nothing there
\c -
SET search_path = clauses, public;
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
CREATE TABLE stored (id int, v text COMPRESSION pglz);
ALTER TABLE base ALTER a SET STORAGE EXTERNAL;
VACUUM FULL base;
REINDEX TABLE base;
CLUSTER base USING base_pkey;
\c -
SET search_path = clauses, public;
ALTER TABLE base SET (fillfactor = 20);
ALTER TABLE base SET UNLOGGED;
SELECT attstorage FROM pg_attribute WHERE attrelid = 'base'::regclass AND attname = 'a';

-- local, as of any table
COMMENT ON INDEX base_pkey IS 'index';
COMMENT ON CONSTRAINT cc ON base IS 'constraint';
CREATE STATISTICS stat ON a, c FROM base;
ALTER TABLE base ALTER a SET STATISTICS 10, ALTER a SET (n_distinct = 5);
ALTER TABLE base DISABLE TRIGGER USER, ENABLE TRIGGER ALL;
GRANT SELECT (a) ON base TO PUBLIC;
CREATE TABLE parent (id int) USING heap;
ALTER TABLE base INHERIT parent;
SELECT id FROM parent;
ALTER TABLE base NO INHERIT parent;
ALTER TABLE base RENAME CONSTRAINT cc TO dd;
SELECT * FROM base;
SET client_min_messages = warning;
DROP SCHEMA clauses CASCADE;
