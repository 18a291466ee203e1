-- row-level security without policies: the same of ours and of PostgreSQL's own tables
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE rs_owner;
CREATE ROLE rs_user;
CREATE ROLE rs_bypass BYPASSRLS;
GRANT USAGE ON FOREIGN SERVER redis TO rs_owner;
CREATE FOREIGN TABLE ours (id int OPTIONS (key 'true'), a int, b text) SERVER redis;
CREATE TABLE theirs (id int PRIMARY KEY, a int, b text);
CREATE FOREIGN TABLE child () INHERITS (ours) SERVER redis;
CREATE TABLE theirs_child () INHERITS (theirs);
ALTER FOREIGN TABLE ours OWNER TO rs_owner;
ALTER TABLE theirs OWNER TO rs_owner;
GRANT ALL ON ours, theirs, child, theirs_child TO rs_user, rs_bypass;
CREATE INDEX ON ours (a);
CREATE VIEW of_ours AS SELECT * FROM ours;
CREATE VIEW of_theirs AS SELECT * FROM theirs;
GRANT ALL ON of_ours, of_theirs TO rs_user;
INSERT INTO ours SELECT i, i % 10, 'b' || i FROM generate_series(1, 100) i;
INSERT INTO theirs SELECT * FROM ours;
ANALYZE ours, theirs;
CREATE FUNCTION rows_of(t regclass) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s WHERE a >= 0', t) INTO n;
	RETURN n;
END $$;
CREATE FUNCTION inlined() RETURNS SETOF int STABLE LANGUAGE sql AS 'SELECT id FROM ours WHERE a = 5';
CREATE FUNCTION tell(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'seen'; RETURN true; END $$;
CREATE OPERATOR === (FUNCTION = tell, LEFTARG = int, RIGHTARG = int, RESTRICT = eqsel);
PREPARE count_ours AS SELECT count(*) FROM ours WHERE id < $1;
PREPARE count_theirs AS SELECT count(*) FROM theirs WHERE id < $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE count_ours(11);
EXECUTE count_theirs(11);

-- who is not the owner
SET ROLE rs_user;
SELECT outcome('ALTER TABLE ours ENABLE ROW LEVEL SECURITY');
SET ROLE rs_owner;
ALTER TABLE ours ENABLE ROW LEVEL SECURITY;
ALTER TABLE theirs ENABLE ROW LEVEL SECURITY;
ALTER TABLE ours ENABLE ROW LEVEL SECURITY;
SELECT relname, relrowsecurity, relforcerowsecurity, row_security_active(oid) FROM pg_class
	WHERE relname IN ('ours', 'theirs') ORDER BY 1;
SELECT rows_of('ours'), rows_of('theirs');
EXECUTE count_ours(11);
EXECUTE count_theirs(11);

-- others
SET ROLE rs_user;
SELECT row_security_active('ours'), row_security_active('theirs');
SELECT rows_of('ours'), rows_of('theirs');
EXECUTE count_ours(11);
EXECUTE count_theirs(11);
SELECT count(*) FROM inlined();
SELECT (SELECT count(*) FROM of_ours), (SELECT count(*) FROM of_theirs);
-- as members of a UNION ALL, which the planner pulls up
CREATE TEMP VIEW both_ours AS SELECT * FROM ours UNION ALL SELECT * FROM ours;
CREATE TEMP VIEW both_theirs AS SELECT * FROM theirs UNION ALL SELECT * FROM theirs;
SELECT rows_of('both_ours'), rows_of('both_theirs');
SELECT * FROM ours UNION ALL SELECT * FROM ours;
SELECT count(*), max(id) FROM (SELECT * FROM both_ours UNION ALL (SELECT * FROM of_ours UNION ALL SELECT 1, 1, 'x')) u
	WHERE id < 11 AND b LIKE '%';
SELECT count(*), max(id) FROM (SELECT * FROM both_theirs UNION ALL (SELECT * FROM of_theirs UNION ALL SELECT 1, 1, 'x')) u
	WHERE id < 11 AND b LIKE '%';
SELECT count(*) FROM generate_series(1, 3) g, LATERAL (SELECT b FROM ours WHERE id = g UNION ALL SELECT b FROM ours WHERE a = g) l;
SELECT count(*) FROM (SELECT id FROM ours UNION ALL SELECT * FROM inlined()) u;
SELECT min(id), max(id) FROM (SELECT id FROM ours UNION ALL SELECT id FROM ONLY ours) u;
UPDATE child SET a = u.a FROM (SELECT * FROM ours UNION ALL SELECT * FROM ours) u RETURNING u.*;
EXPLAIN (COSTS OFF) SELECT * FROM ours UNION ALL SELECT * FROM ours;
EXPLAIN (COSTS OFF) SELECT * FROM ours;
EXPLAIN (COSTS OFF) SELECT * FROM ours WHERE id = 1 AND b LIKE '%x';
EXPLAIN (COSTS OFF) UPDATE ours SET a = a + 1 WHERE id = 1;
SELECT min(id), max(id), count(*) FROM ours;
SELECT * FROM ours WHERE id = 1 FOR UPDATE;
SELECT count(*) FROM theirs_child c LEFT JOIN ours o USING (id) WHERE o.id IS NOT NULL;
UPDATE ours SET a = a + 1 WHERE id = 1;
UPDATE ours SET b = 'x' RETURNING *;
DELETE FROM ours;
WITH gone AS (DELETE FROM ours WHERE id = 1 RETURNING *) SELECT * FROM gone;
SELECT outcome(format('INSERT INTO %s VALUES (1, 1, ''x'')', t)),
	outcome(format('INSERT INTO %s VALUES (101, 1, ''x'') RETURNING id', t)),
	outcome(format('INSERT INTO %s VALUES (1, 1, ''x'') ON CONFLICT DO NOTHING', t)),
	outcome(format('INSERT INTO %s VALUES (1, 1, ''x'') ON CONFLICT (id) DO UPDATE SET a = 0', t)),
	outcome(format('INSERT INTO %s SELECT * FROM of_theirs LIMIT 2', t)),
	outcome(format('INSERT INTO %s SELECT * FROM %s', t, t))
	FROM unnest('{ours,theirs}'::text[]) t;
COPY ours FROM stdin;
\.
COPY theirs FROM stdin;
\.
COPY ours TO stdout;
COPY theirs TO stdout;
PREPARE kept_ours AS SELECT count(*) FROM ours;
PREPARE kept_theirs AS SELECT count(*) FROM theirs;
EXECUTE kept_ours;
EXECUTE kept_theirs;
SET row_security = off;
SELECT outcome('EXECUTE kept_ours'), outcome('EXECUTE kept_theirs');
SELECT outcome('SELECT * FROM ours'), outcome('SELECT * FROM theirs');
SELECT outcome('DELETE FROM ours'), outcome('DELETE FROM theirs');
SELECT outcome('INSERT INTO ours VALUES (1)'), outcome('INSERT INTO theirs VALUES (1)');
RESET row_security;
SELECT outcome('EXECUTE kept_ours'), outcome('EXECUTE kept_theirs');
SELECT outcome('SELECT * FROM mosql_fdw_dump(''ours'')');
SELECT outcome('SELECT * FROM mosql_fdw_check(''ours'')');
-- children are their own
INSERT INTO child VALUES (200, 1, 'c');
INSERT INTO theirs_child VALUES (200, 1, 'c');
SELECT count(*) FROM child;
SELECT count(*) FROM theirs_child;
SELECT rows_of('ours'), rows_of('theirs');
-- a leaky operator gets no statistics to see
SELECT count(*) FROM ours WHERE a === 5;

-- nobody else's
SET ROLE rs_bypass;
SELECT rows_of('ours'), rows_of('theirs');
RESET ROLE;
SELECT rows_of('ours'), rows_of('theirs');
SELECT count(*) FROM inlined();
-- where the parent hides nothing, children do not either
ALTER TABLE ours DISABLE ROW LEVEL SECURITY;
ALTER TABLE theirs DISABLE ROW LEVEL SECURITY;
ALTER FOREIGN TABLE child OPTIONS (ADD row_security 'true');
ALTER TABLE theirs_child ENABLE ROW LEVEL SECURITY;
SET ROLE rs_user;
SELECT rows_of('ours'), rows_of('theirs');
SELECT rows_of('child'), rows_of('theirs_child');
SELECT count(*) FROM (SELECT * FROM ours UNION ALL SELECT * FROM child) u;
SELECT count(*) FROM (SELECT * FROM theirs UNION ALL SELECT * FROM theirs_child) u;
UPDATE ours SET a = 7 WHERE id IN (1, 200);
UPDATE theirs SET a = 7 WHERE id IN (1, 200);
EXECUTE count_ours(11);
EXECUTE count_theirs(11);
RESET ROLE;
-- foreign keys see what is hidden
CREATE FOREIGN TABLE line (id int OPTIONS (key 'true'), o int REFERENCES ours ON DELETE CASCADE) SERVER redis;
ALTER FOREIGN TABLE line OWNER TO rs_owner;
GRANT ALL ON line TO rs_user;
ALTER TABLE line ENABLE ROW LEVEL SECURITY;
INSERT INTO line VALUES (1, 1), (2, 2);
SET ROLE rs_user;
DELETE FROM ours WHERE id = 1;
RESET ROLE;
SELECT * FROM line;
-- no policies
CREATE FOREIGN TABLE made (id int OPTIONS (key 'true')) SERVER redis OPTIONS (row_security 'true');
SELECT relrowsecurity FROM pg_class WHERE relname = 'made';
ALTER TABLE made DISABLE ROW LEVEL SECURITY, ADD COLUMN a int, NO FORCE ROW LEVEL SECURITY;
SELECT relrowsecurity, ftoptions FROM pg_class JOIN pg_foreign_table ON ftrelid = oid WHERE relname = 'made';
ALTER TABLE made ENABLE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY;
SELECT relrowsecurity FROM pg_class WHERE relname = 'made';
ALTER TABLE made DISABLE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY;
SELECT relrowsecurity FROM pg_class WHERE relname = 'made';
ALTER TABLE made ENABLE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
SELECT relrowsecurity FROM pg_class WHERE relname = 'made';
ALTER TABLE made DISABLE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY;
SELECT relrowsecurity FROM pg_class WHERE relname = 'made';
DROP FOREIGN TABLE made;
SELECT outcome('ALTER TABLE line FORCE ROW LEVEL SECURITY');
SELECT outcome('CREATE POLICY p ON line USING (true)');
DROP VIEW both_ours, both_theirs;
DROP OPERATOR === (int, int);
DROP FUNCTION tell, inlined, rows_of;
DROP FOREIGN TABLE line;
DROP FOREIGN TABLE ours CASCADE;
DROP TABLE theirs CASCADE;
REVOKE USAGE ON FOREIGN SERVER redis FROM rs_owner;
DROP ROLE rs_owner, rs_user, rs_bypass;
