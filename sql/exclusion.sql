-- EXCLUDE by equality, of ours and of PostgreSQL's own tables
CREATE SCHEMA exclusion;
SET search_path = exclusion, public;
SET mosql_fdw.default_server = 'redis';
SET mosql_fdw.present_as_table = on;
SET client_min_messages = warning;
CREATE FUNCTION on_both(command text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	ours text = public.outcome(format(command, 'ours'));
	theirs text = replace(public.outcome(format(command, 'theirs')), 'theirs', 'ours');
BEGIN
	RETURN NEXT ours;
	IF ours <> theirs THEN
		RETURN NEXT 'PostgreSQL''s own: ' || theirs;
	END IF;
END $$;
CREATE VIEW said AS SELECT conrelid::regclass::text AS name, conname::text, contype, conkey::text, conexclop::regoperator[]::text, pg_get_constraintdef(c.oid) AS def,
	pg_get_constraintdef(c.oid, true) AS pretty, indisunique, indisexclusion, indimmediate, pg_get_indexdef(indexrelid)
	FROM pg_constraint c JOIN pg_index ON indexrelid = conindid WHERE connamespace = 'exclusion'::regnamespace AND contype = 'x';
CREATE VIEW differs AS
	(SELECT replace(said::text, 'ours', 't') FROM said WHERE name = 'ours' EXCEPT SELECT replace(said::text, 'theirs', 't') FROM said WHERE name = 'theirs') UNION ALL
	(SELECT replace(said::text, 'theirs', 't') FROM said WHERE name = 'theirs' EXCEPT SELECT replace(said::text, 'ours', 't') FROM said WHERE name = 'ours');

CREATE TABLE ours (id int PRIMARY KEY, a int, t text, v varchar(20), active bool, EXCLUDE (a WITH =), EXCLUDE USING hash (v WITH =));
CREATE TABLE theirs (id int PRIMARY KEY, a int, t text, v varchar(20), active bool, EXCLUDE (a WITH =), EXCLUDE USING hash (v WITH =)) USING heap;
SELECT on_both('ALTER TABLE %1$s ADD CONSTRAINT %1$s_t EXCLUDE (t WITH =, (coalesce(a, -1)) WITH =) WHERE (active)');
SELECT on_both('ALTER TABLE %s ADD EXCLUDE USING btree (lower(t) text_pattern_ops WITH =, id DESC WITH =) INCLUDE (v) WHERE (t <> '''')');
SELECT conname, def FROM said WHERE name = 'ours' ORDER BY conname COLLATE "C";
SELECT * FROM differs;
\d ours
SET mosql_fdw.present_as_table = off;
SELECT def FROM said WHERE name = 'ours' AND conname = 'ours_t';
SET mosql_fdw.present_as_table = on;

-- rows
SELECT on_both('INSERT INTO %s VALUES (1, 1, ''a'', ''b'', true)');
SELECT on_both('INSERT INTO %s VALUES (2, 1, ''b'', ''c'', true)');
SELECT on_both('INSERT INTO %s VALUES (2, 2, ''b'', ''b'', true)');
SELECT on_both('INSERT INTO %s VALUES (2, 2, ''a'', ''c'', true), (3, NULL, ''a'', NULL, true), (4, NULL, ''a'', NULL, false), (5, NULL, NULL, NULL, true)');
SELECT on_both('INSERT INTO %s VALUES (6, NULL, ''a'', NULL, true)');
SELECT on_both('UPDATE %s SET active = true WHERE id = 4');
SELECT on_both('UPDATE %s SET a = 2 WHERE id = 1');
SELECT on_both('UPDATE %s SET a = 3 WHERE id = 1');
SELECT on_both('INSERT INTO %s VALUES (7, 8), (8, 9), (9, 8)');
SELECT on_both('INSERT INTO %s VALUES (7, 2) ON CONFLICT DO NOTHING');
SELECT on_both('INSERT INTO %1$s VALUES (7, 2) ON CONFLICT ON CONSTRAINT %1$s_a_excl DO NOTHING');
SELECT on_both('INSERT INTO %1$s VALUES (7, 2) ON CONFLICT ON CONSTRAINT %1$s_a_excl DO UPDATE SET a = 5');
SELECT on_both('INSERT INTO %s VALUES (7, 2) ON CONFLICT (a) DO NOTHING');
SELECT on_both('INSERT INTO %s VALUES (7, 2) ON CONFLICT (id) DO NOTHING');
SELECT on_both('INSERT INTO %s VALUES (2, 3) ON CONFLICT (id) DO UPDATE SET a = excluded.a');
SELECT on_both('CREATE TABLE kid (a int REFERENCES %s (a))');
SELECT * FROM ours EXCEPT SELECT * FROM theirs;
SELECT count(*) FROM ours;
EXPLAIN (COSTS OFF) SELECT id FROM ours WHERE a = 2;
SELECT id FROM ours WHERE a = 2;

-- made of rows that are there
SELECT on_both('ALTER TABLE %s ADD EXCLUDE (active WITH =)');
ALTER TABLE ours ADD CONSTRAINT x EXCLUDE (active WITH =);
ALTER TABLE ours ADD CONSTRAINT x EXCLUDE (id WITH =);

-- the constraint goes with its table's changes
SELECT on_both('ALTER TABLE %s RENAME CONSTRAINT %1$s_a_excl TO %1$s_x');
SELECT on_both('ALTER TABLE %s ALTER a TYPE bigint');
SELECT on_both('ALTER TABLE %s ADD n int, ADD EXCLUDE (n WITH =)');
COMMENT ON CONSTRAINT ours_x ON ours IS 'stays';
SELECT on_both('ALTER TABLE %s ALTER t TYPE varchar(30), ALTER a TYPE int');
SELECT conname, def, obj_description(c.oid, 'pg_constraint') FROM said JOIN pg_constraint c USING (conname) WHERE name = 'ours' ORDER BY conname COLLATE "C";
ALTER TABLE ours DROP CONSTRAINT x;
SELECT * FROM differs;
SELECT on_both('INSERT INTO %s VALUES (7, 2)');
SELECT on_both('DROP INDEX %s_x');
SELECT on_both('ALTER TABLE %s DROP CONSTRAINT %1$s_x');
SELECT on_both('INSERT INTO %s VALUES (7, 2)');
SELECT on_both('ALTER TABLE %s DROP COLUMN v');
SELECT * FROM differs;
SELECT * FROM mosql_fdw_check('ours');
SELECT * FROM mosql_fdw_gc('redis') WHERE name LIKE 'exclusion.%';
CREATE TABLE ours2 (LIKE ours INCLUDING ALL);
CREATE TABLE theirs2 (LIKE theirs INCLUDING ALL) USING heap;
SELECT replace(def, 'ours', 'theirs') FROM said WHERE name = 'ours2' EXCEPT SELECT def FROM said WHERE name = 'theirs2';
SELECT count(*) FROM said WHERE name = 'ours2';

-- refused
SELECT on_both('ALTER TABLE %s ADD EXCLUDE (a WITH <)');
SELECT on_both('ALTER TABLE %s ADD EXCLUDE (a WITH =) DEFERRABLE');
SELECT outcome('ALTER TABLE ours ADD EXCLUDE (a WITH <>)');
SELECT outcome('ALTER TABLE ours ADD EXCLUDE USING gist (a WITH =)');
SELECT outcome('CREATE TABLE x (r int4range, EXCLUDE USING gist (r WITH &&))');
SELECT on_both('ALTER TABLE %s ADD CONSTRAINT %1$s_t EXCLUDE (a WITH =)');

-- to another server it is a unique index, which follows; made again there, as by a dump, it is what it is here
CREATE SCHEMA other;
CREATE FOREIGN TABLE other.ours (id int PRIMARY KEY, a int, t varchar(30), active bool, n int) SERVER redis OPTIONS (schema_name 'exclusion');
SELECT indexrelid::regclass, indisunique, indisexclusion FROM pg_index WHERE indrelid = 'other.ours'::regclass AND NOT indisprimary ORDER BY 1::text COLLATE "C";
SELECT outcome('INSERT INTO other.ours VALUES (20, 3, ''a'', true)');
SET client_min_messages = notice;
SELECT format('ALTER TABLE other.ours ADD CONSTRAINT ours_t %s', def) AS again FROM said WHERE name = 'ours' AND conname = 'ours_t' \gset
:again;
:again;
SET client_min_messages = warning;
SELECT outcome('INSERT INTO other.ours VALUES (20, 3, ''a'', true)');
SELECT mosql_fdw_refresh('other.ours');
SELECT outcome('INSERT INTO other.ours VALUES (20, 3, ''a'', true)');
ALTER TABLE other.ours DROP CONSTRAINT ours_t;
SELECT mosql_fdw_refresh('ours');
SELECT conname FROM said WHERE name = 'ours' ORDER BY conname COLLATE "C";
INSERT INTO other.ours VALUES (20, 3, 'a', true);
SELECT count(*) FROM ours WHERE t = 'a' AND a = 3;
SET client_min_messages = error;
DROP SCHEMA exclusion, other CASCADE;
