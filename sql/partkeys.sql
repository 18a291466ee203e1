-- partitions of tables with keys and unique indexes: of ours, and of PostgreSQL's own
\set VERBOSITY terse
CREATE SCHEMA k;
SET search_path = k, public;
CREATE FUNCTION twice(command text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT public.outcome(format(replace(command, '%', '%1$'), 'ours')) UNION ALL
	SELECT public.outcome(format(replace(command, '%', '%1$'), 'theirs')) $$;
SELECT twice('CREATE TABLE %s (id int, name text COLLATE "C", a int DEFAULT 7, b int) PARTITION BY LIST (name)');
SELECT twice('ALTER TABLE %s ADD PRIMARY KEY (name, id)');
SELECT twice('CREATE UNIQUE INDEX %s_ab ON %s (a, name DESC) INCLUDE (b)');
SELECT twice('CREATE INDEX %s_b ON %s (b)');

-- as LIKE makes them in plain CREATE TABLE, with keys of their own, and without
CREATE FOREIGN TABLE ours_x (LIKE ours INCLUDING DEFAULTS) SERVER redis;
CREATE TABLE theirs_x (LIKE theirs INCLUDING DEFAULTS);
SELECT twice('ALTER TABLE %s_x ADD CONSTRAINT %s_mykey PRIMARY KEY (name, id)');
SELECT twice('CREATE UNIQUE INDEX %s_x_myab ON %s_x (a, name DESC) INCLUDE (b)');
CREATE FOREIGN TABLE ours_y (b int, name text COLLATE "C" NOT NULL, a int, id int NOT NULL) SERVER redis;
CREATE TABLE theirs_y (b int, name text COLLATE "C" NOT NULL, a int, id int NOT NULL);
INSERT INTO ours_y VALUES (1, 'y', 1, 1), (2, 'y', 2, 2), (3, 'y', 3, 3);
INSERT INTO theirs_y SELECT * FROM ours_y;
CREATE FOREIGN TABLE ours_z (LIKE ours) SERVER redis;
CREATE TABLE theirs_z (LIKE theirs);
INSERT INTO ours_z VALUES (1, 'z', 1, 1), (1, 'z', 2, 2);
INSERT INTO theirs_z SELECT * FROM ours_z;
CREATE FOREIGN TABLE ours_w (id int NOT NULL, name text COLLATE "C" NOT NULL, a int, b int, PRIMARY KEY (id)) SERVER redis;
CREATE TABLE theirs_w (id int NOT NULL, name text COLLATE "C" NOT NULL, a int, b int, PRIMARY KEY (id));
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_x FOR VALUES IN (''x'')');
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_y FOR VALUES IN (''y'')');
-- not these: rows of one key, another key, rows of other partitions
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_z FOR VALUES IN (''z'')');
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_w FOR VALUES IN (''w'')');
SELECT twice('DELETE FROM %s_z WHERE b = 2');
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_z FOR VALUES IN (''q'')');
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_z FOR VALUES IN (''x'')');
CREATE VIEW tree AS SELECT regexp_replace(i.inhparent::regclass::text, 'theirs|ours', 't') AS parent,
		regexp_replace(i.inhrelid::regclass::text, 'theirs|ours', 't') AS child, x.indisunique, x.indisprimary, x.indisvalid,
		p.indisunique AS p_unique, p.indisprimary AS p_primary, p.indisvalid AS p_valid,
		regexp_replace(c.conname, 'theirs|ours', 't') AS conname, c.coninhcount, c.conislocal, x.indrelid::regclass::text ~ 'ours' AS ours
	FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid JOIN pg_index p ON p.indexrelid = i.inhparent
	LEFT JOIN pg_constraint c ON c.conindid = i.inhrelid
	WHERE x.indrelid::regclass::text ~ '^(ours|theirs)_' AND x.indisunique;
CREATE VIEW differs AS
	(SELECT * FROM tree WHERE ours EXCEPT ALL SELECT (t).* FROM (SELECT (parent, child, indisunique, indisprimary, indisvalid, p_unique,
		p_primary, p_valid, conname, coninhcount, conislocal, true)::tree AS t FROM tree WHERE NOT ours) t)
	UNION ALL
	(SELECT * FROM tree WHERE NOT ours EXCEPT ALL SELECT (t).* FROM (SELECT (parent, child, indisunique, indisprimary, indisvalid, p_unique,
		p_primary, p_valid, conname, coninhcount, conislocal, false)::tree AS t FROM tree WHERE ours) t);
SELECT parent, child, conname, coninhcount, conislocal, p_unique, p_primary, p_valid FROM tree WHERE ours ORDER BY child COLLATE "C";
SELECT * FROM differs;

-- rows
SELECT twice('INSERT INTO %s (id, name, a) VALUES (1, ''x'', 10), (2, ''x'', 20), (4, ''y'', 40)');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (1, ''x'', 11)');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (3, ''x'', 10)');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (1, ''x'', 11), (3, ''x'', 20), (5, ''y'', 50) ON CONFLICT DO NOTHING');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (1, ''x'', 11), (5, ''y'', 51) ON CONFLICT (name, id) DO NOTHING');
SELECT twice('INSERT INTO %s (id, name, a) SELECT i, ''x'', i FROM generate_series(1, 30) i ON CONFLICT (name, id) DO NOTHING');
SELECT twice('WITH w AS (INSERT INTO %s (id, name, a) VALUES (1, ''x'', 12), (6, ''y'', 52) ON CONFLICT (name, id) DO NOTHING RETURNING id)
	INSERT INTO %s (id, name, a) SELECT id + 100, ''x'', 100 FROM w');
-- DO UPDATE: y has its columns in another order
SELECT twice('INSERT INTO %s (id, name, a) VALUES (1, ''x'', 12), (5, ''y'', 52), (7, ''y'', 53) ON CONFLICT (id, name) DO UPDATE SET b = excluded.a * 100 + %s.a');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (1, ''x'', 13), (5, ''y'', 53) ON CONFLICT (id, name) DO UPDATE SET (a, b) = (excluded.a + 500, %s.id)
	WHERE %s.name = ''y'' AND (excluded).a > (%s).a');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (70, ''y'', 53), (71, ''x'', 20) ON CONFLICT (a, name) DO UPDATE SET id = excluded.id');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (70, ''y'', 53) ON CONFLICT (id, name) DO UPDATE SET name = ''x''');
SELECT twice('INSERT INTO %s_x (id, name, a) VALUES (71, ''x'', 53) ON CONFLICT (id, name) DO UPDATE SET name = ''y''');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (80, ''y'', 80), (80, ''y'', 81) ON CONFLICT (id, name) DO UPDATE SET b = 1');
SELECT twice('INSERT INTO %s (id, name, a) VALUES (70, ''y'', 90) ON CONFLICT (id, name) DO UPDATE SET a = 1');
SELECT twice('INSERT INTO %s (id, name, a) SELECT i, CASE mod(i, 2) WHEN 0 THEN ''x'' ELSE ''y'' END, i + 1000 FROM generate_series(200, 2400) i
	ON CONFLICT (id, name) DO UPDATE SET b = 1');
SELECT twice('INSERT INTO %s (id, name, a) SELECT i, CASE mod(i, 2) WHEN 0 THEN ''x'' ELSE ''y'' END, i FROM generate_series(200, 2400) i
	ON CONFLICT (id, name) DO UPDATE SET b = (SELECT count(*) FROM generate_series(1, %s.id)) + excluded.a');
SELECT twice('DELETE FROM %s WHERE id BETWEEN 200 AND 2400 AND b = 2 * id');
SELECT twice('WITH w AS (INSERT INTO %s (id, name, a) VALUES (1, ''x'', 12), (6, ''y'', 60) ON CONFLICT (name, id) DO UPDATE SET b = 6 RETURNING id)
	INSERT INTO %s (id, name, a) SELECT id + 100, ''x'', 100 + id FROM w ON CONFLICT (name, id) DO UPDATE SET b = 7');
INSERT INTO ours (id, name, a) VALUES (1, 'x', 14), (5, 'y', 54) ON CONFLICT (id, name) DO UPDATE SET b = excluded.a RETURNING tableoid::regclass, *;
INSERT INTO theirs (id, name, a) VALUES (1, 'x', 14), (5, 'y', 54) ON CONFLICT (id, name) DO UPDATE SET b = excluded.a RETURNING tableoid::regclass, *;
EXPLAIN (COSTS OFF) INSERT INTO ours (id, name, a) VALUES (1, 'x', 14) ON CONFLICT (id, name) DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO ours (id, name, a) VALUES (1, 'x', 14), (8, 'y', 108) ON CONFLICT (id, name) DO UPDATE SET b = 5 WHERE excluded.a > 0;
CREATE FUNCTION counted(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$ DECLARE line text; BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Tuples' THEN RETURN NEXT line; END IF; END LOOP; END $$;
SELECT * FROM counted('INSERT INTO ours (id, name, a) VALUES (1, ''x'', 14), (9, ''y'', 109) ON CONFLICT (id, name) DO UPDATE SET b = 5');
SELECT * FROM counted('INSERT INTO theirs (id, name, a) VALUES (1, ''x'', 14), (9, ''y'', 109) ON CONFLICT (id, name) DO UPDATE SET b = 5');
SELECT * FROM counted('INSERT INTO ours (id, name, a) VALUES (1, ''x'', 14), (9, ''y'', 109), (10, ''y'', 110) ON CONFLICT DO NOTHING');
SELECT * FROM counted('INSERT INTO theirs (id, name, a) VALUES (1, ''x'', 14), (9, ''y'', 109), (10, ''y'', 110) ON CONFLICT DO NOTHING');
-- the parent's triggers for each statement of UPDATE are not fired: refused; cached plans learn of it
PREPARE upsert AS INSERT INTO ours (id, name, a) VALUES (1, 'x', 14) ON CONFLICT (id, name) DO UPDATE SET b = excluded.a;
EXECUTE upsert;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% % %', tg_when, tg_op, tg_level; RETURN new; END $$;
CREATE TRIGGER told AFTER UPDATE ON ours FOR EACH STATEMENT EXECUTE FUNCTION tell();
EXECUTE upsert;
DROP TRIGGER told ON ours;
EXECUTE upsert;
CREATE TRIGGER told BEFORE INSERT OR UPDATE ON ours_x FOR EACH ROW EXECUTE FUNCTION tell();
EXECUTE upsert;
DROP TRIGGER told ON ours_x;
SELECT twice('UPDATE %s SET b = 14 WHERE id = 1');
SELECT twice('INSERT INTO %s_x (id, name, a) VALUES (1, ''x'', 12) ON CONFLICT (id, name) DO UPDATE SET b = excluded.a + 1');
SELECT twice('DELETE FROM %s WHERE id = 4 RETURNING a');
TABLE ours ORDER BY name, id;
(TABLE ours EXCEPT ALL TABLE theirs) UNION ALL (TABLE theirs EXCEPT ALL TABLE ours);
EXPLAIN (COSTS OFF) SELECT * FROM ours WHERE name = 'x' AND id = 1;

-- what is generated is so in rows that are inserted, also if SET changes nothing of it
CREATE TABLE doubled (k int NOT NULL, id int NOT NULL, v int, two int GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (k, id)) PARTITION BY LIST (k);
CREATE FOREIGN TABLE doubled_1 (k int NOT NULL, id int NOT NULL, v int, two int GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (k, id)) SERVER redis;
ALTER TABLE doubled ATTACH PARTITION doubled_1 FOR VALUES IN (1);
INSERT INTO doubled VALUES (1, 1, 5) ON CONFLICT (k, id) DO UPDATE SET id = doubled.id RETURNING *;
INSERT INTO doubled VALUES (1, 1, 6), (1, 2, 7) ON CONFLICT (k, id) DO UPDATE SET id = doubled.id;
INSERT INTO doubled VALUES (1, 1, 8), (1, 3, 9) ON CONFLICT (k, id) DO UPDATE SET v = excluded.v RETURNING *;
SELECT * FROM doubled ORDER BY id;
DROP TABLE doubled;

-- what hangs together does not go alone
SELECT twice('ALTER TABLE %s_x DROP CONSTRAINT %s_mykey');
SELECT twice('DROP INDEX %s_x_myab');
SELECT twice('ALTER TABLE %s_x DROP COLUMN a');
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_x FOR VALUES IN (''x'')');
SELECT twice('ALTER TABLE %s_x ALTER b SET DEFAULT 3');
SELECT * FROM differs;
SELECT twice('DROP INDEX %s_ab');
SELECT * FROM differs;
SELECT count(*) FROM tree;
SELECT twice('ALTER TABLE %s DETACH PARTITION %s_y');
SELECT conname, coninhcount, conislocal FROM pg_constraint WHERE conrelid IN ('ours_y'::regclass, 'theirs_y'::regclass) AND contype = 'p';
SELECT twice('ALTER TABLE %s ATTACH PARTITION %s_y FOR VALUES IN (''y'')');
SELECT * FROM differs;

-- as pg_dump says it
CREATE TABLE dumped (id int NOT NULL, name text COLLATE "C" NOT NULL) PARTITION BY LIST (name);
CREATE FOREIGN TABLE dumped_x (id int NOT NULL, name text COLLATE "C" NOT NULL) SERVER redis;
CREATE FOREIGN TABLE dumped_y (id int NOT NULL, name text COLLATE "C" NOT NULL) SERVER redis;
ALTER TABLE ONLY dumped ATTACH PARTITION dumped_x FOR VALUES IN ('x');
ALTER TABLE ONLY dumped ATTACH PARTITION dumped_y FOR VALUES IN ('y');
ALTER TABLE ONLY dumped ADD CONSTRAINT dumped_pkey PRIMARY KEY (name, id);
ALTER TABLE ONLY dumped_x ADD CONSTRAINT dumped_x_pkey PRIMARY KEY (name, id);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'dumped_pkey'::regclass;
ALTER TABLE ONLY dumped_y ADD CONSTRAINT dumped_y_pkey PRIMARY KEY (name, id);
ALTER INDEX dumped_pkey ATTACH PARTITION dumped_x_pkey;
ALTER INDEX dumped_pkey ATTACH PARTITION dumped_y_pkey;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'dumped_pkey'::regclass;
SELECT conname, coninhcount FROM pg_constraint WHERE conrelid = 'dumped_y'::regclass AND contype = 'p';
INSERT INTO dumped VALUES (1, 'x'), (1, 'y') ON CONFLICT (name, id) DO NOTHING;
INSERT INTO dumped VALUES (1, 'x'), (2, 'y') ON CONFLICT (name, id) DO NOTHING;
TABLE dumped ORDER BY name, id;

-- not where foreign keys lead to the parent
CREATE TABLE wanted (id int PRIMARY KEY) PARTITION BY LIST (id);
CREATE TABLE wants (id int REFERENCES wanted);
CREATE FOREIGN TABLE wanted_1 (id int NOT NULL, PRIMARY KEY (id)) SERVER redis;
\set VERBOSITY default
ALTER TABLE wanted ATTACH PARTITION wanted_1 FOR VALUES IN (1);
\set VERBOSITY terse
DROP TABLE wants;
ALTER TABLE wanted ATTACH PARTITION wanted_1 FOR VALUES IN (1);

-- who owns one of both only
CREATE ROLE regress_part;
ALTER TABLE dumped OWNER TO regress_part;
GRANT ALL ON SCHEMA k TO regress_part;
CREATE FOREIGN TABLE dumped_z (id int NOT NULL, name text COLLATE "C" NOT NULL) SERVER redis;
SET ROLE regress_part;
ALTER TABLE dumped ATTACH PARTITION dumped_z FOR VALUES IN ('z');
RESET ROLE;
SELECT count(*) FROM pg_constraint WHERE conrelid = 'dumped_z'::regclass AND contype = 'p';

-- the parent's key goes with those of the partitions
SELECT twice('ALTER TABLE %s DROP CONSTRAINT %s_pkey');
SELECT count(*) FROM pg_constraint WHERE conrelid IN ('ours_x'::regclass, 'theirs_x'::regclass) AND contype = 'p';
SELECT twice('INSERT INTO %s (id, name, a) VALUES (1, ''x'', 11)');
SELECT tableoid::regclass, c.* FROM ours, mosql_fdw_check(tableoid) c;
SET client_min_messages = warning;
DROP SCHEMA k CASCADE;
DROP ROLE regress_part;
