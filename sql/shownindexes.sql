-- what queries see of indexes: what was said of those of ours, as of PostgreSQL's own
\set VERBOSITY terse
CREATE SCHEMA shown;
SET search_path = shown, public;
SET mosql_fdw.present_as_table = on;
CREATE FUNCTION twice(command text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT public.outcome(format(replace(command, '%', '%1$'), 'ours')) UNION ALL
	SELECT public.outcome(format(replace(command, '%', '%1$'), 'theirs')) $$;
CREATE FOREIGN TABLE ours (id int PRIMARY KEY, a int, t text, v varchar(20), c char(5)) SERVER redis;
CREATE TABLE theirs (id int PRIMARY KEY, a int, t text, v varchar(20), c char(5));
SELECT twice('CREATE INDEX %s_h ON %s USING hash (a)');
SELECT twice('CREATE INDEX %s_ht ON %s USING hash (lower(t)) WHERE a > 0');
SELECT twice('CREATE INDEX %s_tp ON %s (t text_pattern_ops, v varchar_pattern_ops DESC, c bpchar_pattern_ops, a)');
SELECT twice('CREATE UNIQUE INDEX %s_tu ON %s (t text_pattern_ops)');
SELECT twice('CREATE INDEX %s_d ON %s (t text_ops, v varchar_ops, a int4_ops)');
SELECT twice('CREATE INDEX %s_e ON %s (lower(t) text_pattern_ops)');
SELECT twice('CREATE INDEX %s_co ON %s (v COLLATE "POSIX" DESC, (t COLLATE "C") text_pattern_ops, c, a) INCLUDE (t)');
SELECT twice('CREATE UNIQUE INDEX %s_cu ON %s (c COLLATE "C", id)');
CREATE FUNCTION said(what text) RETURNS TABLE (name text, def text, method name, options text) LANGUAGE sql AS $$
	SELECT replace(i.indexrelid::regclass::text, what, 't'), replace(pg_get_indexdef(i.indexrelid), what, 't'), m.amname, i.indoption::text
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam WHERE indrelid = what::regclass $$;
SELECT def, method FROM said('ours') ORDER BY name COLLATE "C";
CREATE VIEW differs AS (SELECT * FROM said('ours') EXCEPT SELECT * FROM said('theirs')) UNION ALL
	(SELECT * FROM said('theirs') EXCEPT SELECT * FROM said('ours'));
SELECT * FROM differs;

-- they are used as ever
INSERT INTO ours VALUES (1, 1, 'a', 'b', 'c'), (2, 2, 'ab', 'bc', 'cd');
INSERT INTO ours VALUES (3, 1, 'ab');
INSERT INTO ours VALUES (3, 1, 'ab') ON CONFLICT (t) DO NOTHING;
INSERT INTO ours VALUES (3, 1, 'ab') ON CONFLICT (t text_pattern_ops) DO UPDATE SET a = 7 RETURNING id, a;
INSERT INTO ours VALUES (1, 1, 'b', 'b', 'c') ON CONFLICT (c COLLATE "C", id) DO NOTHING;
EXPLAIN (COSTS OFF) SELECT id FROM ours WHERE a = 7;
EXPLAIN (COSTS OFF) SELECT v, t FROM ours WHERE v COLLATE "C" > 'b' ORDER BY v COLLATE "C" DESC LIMIT 1;
SELECT v, t FROM ours WHERE v COLLATE "C" > 'b' ORDER BY v COLLATE "C" DESC LIMIT 1;
SELECT id FROM ours WHERE a = 7;
SELECT id FROM ours WHERE t LIKE 'a%' ORDER BY id;
CREATE FOREIGN TABLE kid (id int PRIMARY KEY, t text REFERENCES ours (t)) SERVER redis;
INSERT INTO kid VALUES (1, 'ab');
INSERT INTO kid VALUES (2, 'no');
DROP FOREIGN TABLE kid;

-- and stay what they are when a column gets another type, or a table another name
SELECT twice('ALTER TABLE %s ALTER a TYPE bigint, ALTER t TYPE varchar, ALTER v TYPE text');
SELECT * FROM differs;
SELECT twice('ALTER TABLE %s ALTER c TYPE text COLLATE "C", ALTER id TYPE text USING id::text');
SELECT * FROM differs;
SELECT twice('ALTER INDEX %s_h RENAME TO %s_hh');
SELECT * FROM differs;
CREATE FOREIGN TABLE liked (LIKE ours INCLUDING ALL) SERVER redis;
SELECT def FROM said('liked') ORDER BY def COLLATE "C";
SELECT * FROM mosql_fdw_check('ours');
-- a query may have in its snapshot what has just been dropped
SELECT mosql_fdw_shown_method(0, oid) = 403 AS btree, mosql_fdw_shown_kind(0, 'f'), mosql_fdw_shown_ready(0, false),
	mosql_fdw_shown_indexdef(0) FROM pg_am WHERE amname = 'mosql';
SET client_min_messages = warning;
DROP SCHEMA shown CASCADE;
