-- ADD CONSTRAINT ... USING INDEX, of ours and of PostgreSQL's own tables
\set VERBOSITY terse
CREATE SCHEMA u;
SET search_path = u, public;
CREATE FUNCTION twice(command text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT public.outcome(format(command, 'ours', 'ours')) UNION ALL SELECT public.outcome(format(command, 'theirs', 'theirs')) $$;
CREATE FOREIGN TABLE ours (id int, a int, b text COLLATE "C", c int) SERVER redis;
CREATE TABLE theirs (id int, a int, b text COLLATE "C", c int);
INSERT INTO ours SELECT i, 100 - i, 'b' || i, i % 3 FROM generate_series(1, 50) i;
INSERT INTO theirs SELECT * FROM ours;
SELECT twice('CREATE UNIQUE INDEX %s_id ON %s (id)');
SELECT twice('CREATE UNIQUE INDEX %s_ab ON %s (a, b) INCLUDE (c)');
SELECT twice('CREATE UNIQUE INDEX %s_part ON %s (a) WHERE c = 1');
SELECT twice('CREATE UNIQUE INDEX %s_expr ON %s ((a + 1))');
SELECT twice('CREATE UNIQUE INDEX %s_desc ON %s (a DESC)');
SELECT twice('CREATE UNIQUE INDEX %s_coll ON %s (b COLLATE "POSIX")');
SELECT twice('CREATE UNIQUE INDEX %s_class ON %s (a, b text_pattern_ops)');
SELECT twice('CREATE INDEX %s_more ON %s (a)');
COMMENT ON INDEX ours_ab IS 'stays';
-- not these
SELECT twice('ALTER TABLE %s ADD CONSTRAINT x UNIQUE USING INDEX %s_part');
SELECT twice('ALTER TABLE %s ADD CONSTRAINT x UNIQUE USING INDEX %s_expr');
SELECT twice('ALTER TABLE %s ADD CONSTRAINT x PRIMARY KEY USING INDEX %s_desc');
SELECT twice('ALTER TABLE %s ADD CONSTRAINT x UNIQUE USING INDEX %s_coll');
SELECT twice('ALTER TABLE %s ADD CONSTRAINT x PRIMARY KEY USING INDEX %s_class');
SELECT twice('ALTER TABLE %s ADD CONSTRAINT x UNIQUE USING INDEX %s_more');
SELECT twice('ALTER TABLE %s ADD UNIQUE USING INDEX nosuch');
SELECT public.outcome('ALTER TABLE ours ADD UNIQUE USING INDEX theirs_id');
SELECT public.outcome('ALTER TABLE theirs ADD UNIQUE USING INDEX ours_id');
SELECT twice('DROP INDEX %1$s_part, %1$s_expr, %1$s_desc, %1$s_coll, %1$s_class, %1$s_more');
-- these
ALTER TABLE ours ADD CONSTRAINT ours_pair UNIQUE USING INDEX ours_ab;
ALTER TABLE theirs ADD CONSTRAINT theirs_pair UNIQUE USING INDEX theirs_ab;
SELECT twice('ALTER TABLE %s ADD UNIQUE USING INDEX %s_pair');
SELECT obj_description('ours_pair'::regclass);
SELECT twice('ALTER TABLE %s ADD PRIMARY KEY USING INDEX %s_id');
SELECT twice('ALTER TABLE %s ADD PRIMARY KEY USING INDEX %s_id');
SELECT conrelid::regclass, conname, contype, pg_get_constraintdef(oid) FROM pg_constraint
	WHERE conrelid IN ('ours'::regclass, 'theirs'::regclass) AND contype IN ('p', 'u') ORDER BY 1, 2;
SELECT attrelid::regclass, attname, attnotnull FROM pg_attribute
	WHERE attrelid IN ('ours'::regclass, 'theirs'::regclass) AND attnum > 0 ORDER BY 1, attnum;
SELECT twice('INSERT INTO %s VALUES (1, 1, ''x'')');
SELECT twice('INSERT INTO %s VALUES (51, 99, ''b1'')');
SELECT twice('INSERT INTO %s VALUES (51, 99, ''b1'') ON CONFLICT ON CONSTRAINT %s_pair DO UPDATE SET c = 9');
SELECT (SELECT count(*) FROM ours WHERE c = 9), (SELECT count(*) FROM theirs WHERE c = 9);
EXPLAIN (COSTS OFF) SELECT * FROM ours WHERE id = 7;
SELECT * FROM mosql_fdw_check('ours');
-- other servers
SET mosql_fdw.drop_data = off;
CREATE SCHEMA other;
IMPORT FOREIGN SCHEMA u LIMIT TO (ours) FROM SERVER redis INTO other;
RESET mosql_fdw.drop_data;
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'other.ours'::regclass AND contype IN ('p', 'u') ORDER BY 1;
SELECT twice('ALTER TABLE %s DROP CONSTRAINT %s_pair');
SELECT * FROM mosql_fdw_refresh('other.ours');
SELECT conname FROM pg_constraint WHERE conrelid = 'other.ours'::regclass AND contype IN ('p', 'u');
SET mosql_fdw.drop_data = off;
DROP SCHEMA other CASCADE;
RESET mosql_fdw.drop_data;
SET client_min_messages = warning;
DROP SCHEMA u CASCADE;
