-- what applications say, beside PostgreSQL's own tables: each script is run on both
SET client_min_messages = warning;
\set VERBOSITY terse
CREATE SCHEMA words_own;
CREATE SCHEMA words_ours;
\set on_own 'RESET mosql_fdw.default_server; SET search_path = words_own;'
\set on_ours 'SET mosql_fdw.default_server = redis; SET search_path = words_ours;'

-- DROP TABLE of tables of both kinds, which depend on each other, is one statement
\set run 'CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b () INHERITS (a) USING heap; CREATE TABLE c (id int) USING heap; CREATE TABLE d () INHERITS (c); CREATE VIEW v AS SELECT * FROM d; DROP TABLE a, nosuch, b; DROP TABLE a, b, nosuch.t; DROP TABLE IF EXISTS a, nosuch, b; DROP TABLE d, c; DROP TABLE d, c CASCADE; SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace; CREATE TABLE a (id int); CREATE TABLE b (id int) USING heap; CREATE VIEW v AS SELECT 1; DROP TABLE a, b, v; SET ROLE pg_monitor; DROP TABLE a, b; RESET ROLE; BEGIN; DROP TABLE b, a; ROLLBACK; INSERT INTO a VALUES (1); SELECT * FROM a; DROP TABLE a, b; DROP VIEW v;'
:on_own
:run
:on_ours
:run

-- a foreign key to a partitioned table does not keep that from getting partitions
:on_ours
SET client_min_messages = notice;
CREATE TABLE parent (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE child (id int PRIMARY KEY, p int CONSTRAINT child_p REFERENCES parent);
SET client_min_messages = warning;
CREATE TABLE parent1 PARTITION OF parent FOR VALUES FROM (0) TO (10);
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1);
SELECT conname FROM pg_constraint WHERE conrelid = 'child'::regclass AND contype = 'f';
DROP TABLE child, parent;

-- refused as there
\set run 'CREATE TABLE a (id int) WITH (nosuch = 1); CREATE TABLE a (id int PRIMARY KEY WITH (fillfactor = 1)); CREATE TABLE a (id int) TABLESPACE nosuch; CREATE TABLE a ON COMMIT DROP AS SELECT 1; CREATE TABLE a (id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (v * 2) STORED) WITH (fillfactor = 70, toast.autovacuum_enabled = off, oids = false); ALTER TABLE a SET (nosuch = 1); ALTER TABLE a SET (fillfactor = 1); ALTER TABLE a SET TABLESPACE nosuch; ALTER TABLE a ALTER nosuch SET STORAGE PLAIN; ALTER TABLE a ALTER v SET STORAGE nosuch; ALTER TABLE a ALTER v SET STORAGE EXTERNAL; ALTER TABLE a ALTER v SET STORAGE PLAIN; ALTER TABLE a ALTER v SET COMPRESSION pglz; ALTER TABLE a CLUSTER ON nosuch; CLUSTER a USING nosuch; CREATE INDEX ON a (v) WITH (nosuch = 1); CREATE INDEX ON a (v) TABLESPACE nosuch; CREATE INDEX a_v ON a (v); COPY a (v, g) TO STDOUT; COPY a (v, v) TO STDOUT; COPY a (nosuch) TO STDOUT; COPY a TO STDOUT; VACUUM (nosuch) a; VACUUM a (v);'
:on_own
:run
:on_ours
:run
\set run 'BEGIN; CREATE INDEX CONCURRENTLY ON a (v); ROLLBACK; BEGIN; DROP INDEX CONCURRENTLY a_v; ROLLBACK; BEGIN; REINDEX TABLE CONCURRENTLY a; ROLLBACK; BEGIN; REINDEX INDEX CONCURRENTLY a_v; ROLLBACK; DROP INDEX CONCURRENTLY a_v, a_pkey; DROP INDEX CONCURRENTLY a_v; DROP TABLE a;'
:on_own
:run
:on_ours
:run
-- what VACUUM says is looked at as there
\set run 'CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE h (id int) USING heap; VACUUM (FULL, PARALLEL 2) a; VACUUM (FULL, DISABLE_PAGE_SKIPPING) a; VACUUM (FULL, PROCESS_TOAST false) a; VACUUM (FULL, FULL false, PARALLEL 2) a; VACUUM (PARALLEL) a; VACUUM (PARALLEL -1) a; VACUUM (PARALLEL 1025) h, a; VACUUM (INDEX_CLEANUP wrong) a; VACUUM (INDEX_CLEANUP auto, TRUNCATE off, FREEZE, DISABLE_PAGE_SKIPPING) a; VACUUM (ANALYZE false) a (v); VACUUM (ANALYZE, NOSUCH) a (v); VACUUM (ANALYZE) a (nosuch); VACUUM (ANALYZE) a (v, v); ANALYZE a (nosuch); VACUUM (ANALYZE) a, nosuch; BEGIN; VACUUM (FULL, PARALLEL 2) a; ROLLBACK; BEGIN; VACUUM (ANALYZE) a; ROLLBACK; DO $$ BEGIN VACUUM a, h; END $$; CREATE INDEX ON a ((v + 1)); INSERT INTO a VALUES (1, 2), (3, 4); INSERT INTO h VALUES (1); VACUUM (ANALYZE, SKIP_LOCKED, PARALLEL 2) h, a (v); SELECT attname FROM pg_stats WHERE tablename = $$a$$ AND schemaname = current_schema(); VACUUM (ANALYZE) a, h, a; VACUUM (ANALYZE) a; SELECT relname, reltuples FROM pg_class WHERE relname IN ($$a$$, $$h$$) AND relnamespace = current_schema()::regnamespace ORDER BY 1; DROP TABLE a, h;'
:on_own
:run
:on_ours
:run
-- the same statements several times, in a function in SQL and in a loop: what is kept of them stays as it was
\set run 'CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE r (id int PRIMARY KEY); CREATE FUNCTION add_drop() RETURNS void LANGUAGE sql AS $f$ ALTER TABLE t ADD COLUMN x int UNIQUE CONSTRAINT fx REFERENCES r, ADD CONSTRAINT uv UNIQUE (v), ALTER v TYPE bigint USING v + 1; ALTER TABLE t DROP CONSTRAINT fx, DROP COLUMN x, DROP CONSTRAINT uv, ALTER v TYPE int USING v - 1; CREATE INDEX iv ON t (v); COMMENT ON TABLE t IS ''c''; DROP INDEX iv; CREATE TABLE n (id int PRIMARY KEY, t int REFERENCES t); DROP TABLE n; $f$; INSERT INTO t VALUES (1, 5), (2, 6); SELECT add_drop(); SELECT add_drop(); SELECT add_drop() FROM generate_series(1, 3); CREATE FUNCTION loops() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN FOR i IN 1 .. 3 LOOP ALTER TABLE t ADD COLUMN x int UNIQUE CONSTRAINT fx REFERENCES r, ADD CONSTRAINT uv UNIQUE (v), ALTER v TYPE bigint USING v + 1; ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER id TYPE bigint, ADD CONSTRAINT t_pkey PRIMARY KEY (id); ALTER TABLE t DROP CONSTRAINT fx, DROP COLUMN x, DROP CONSTRAINT uv, ALTER v TYPE int USING v - 1; ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id); CREATE INDEX iv ON t (v); COMMENT ON TABLE t IS ''c''; ALTER TABLE t RENAME v TO w; ALTER TABLE t RENAME w TO v; LOCK TABLE t; DROP INDEX iv; CREATE TABLE n (id int PRIMARY KEY, t bigint REFERENCES t); ALTER TABLE n ENABLE ROW LEVEL SECURITY; CREATE TABLE m AS SELECT i AS i; CREATE TABLE h (i int) USING heap; DROP TABLE n, h; DROP TABLE m; END LOOP; END $f$; SELECT loops(); SELECT loops(); SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = ''t''::regclass AND contype <> ''n'' ORDER BY 1; SELECT * FROM t ORDER BY id; DROP TABLE t, r; DROP FUNCTION add_drop(), loops();'
:on_own
:run
:on_ours
:run

-- VACUUM of a table of somebody else
CREATE ROLE words_other;
CREATE TABLE a (id int);
GRANT USAGE ON SCHEMA words_ours TO words_other;
SET ROLE words_other;
SET client_min_messages = error;
VACUUM (FULL, ANALYZE) a;
RESET ROLE;
SET client_min_messages = warning;
SELECT reltuples < 0 AS never_analyzed FROM pg_class WHERE oid = 'a'::regclass;
DROP TABLE a;

-- nextval() of what is no sequence
\set run 'CREATE TABLE a (id int PRIMARY KEY); SELECT nextval($$a$$); SELECT currval($$a$$); SELECT setval($$a$$, 1); DROP TABLE a;'
\set VERBOSITY sqlstate
:on_own
:run
:on_ours
:run
\set VERBOSITY terse

-- LOCK TABLE of a view locks the tables in it, by the rights of its owner
\set run 'CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int); CREATE VIEW v AS SELECT * FROM a WHERE id IN (SELECT id FROM b); CREATE VIEW vv AS SELECT v.id FROM v; BEGIN; LOCK TABLE vv IN SHARE MODE; SELECT relation::regclass::text FROM pg_locks JOIN pg_class ON relation = pg_class.oid WHERE relnamespace = current_schema()::regnamespace AND mode = $$ShareLock$$ AND pid = pg_backend_pid() ORDER BY 1; ROLLBACK; GRANT USAGE ON SCHEMA words_own, words_ours TO words_other; GRANT ALL ON vv TO words_other; SET ROLE words_other; BEGIN; LOCK TABLE vv; ROLLBACK; RESET ROLE; ALTER VIEW v OWNER TO words_other; BEGIN; LOCK TABLE vv NOWAIT; ROLLBACK; DROP VIEW v, vv; DROP TABLE a, b;'
:on_own
:run
:on_ours
:run

-- sequences: ALTER compares where they stand; DISCARD; a view's owner may read what its user may not
\set run 'CREATE SEQUENCE s; SELECT nextval($$s$$), nextval($$s$$), nextval($$s$$); ALTER SEQUENCE s MAXVALUE 2; ALTER SEQUENCE s MINVALUE 4; ALTER SEQUENCE s MINVALUE 2 MAXVALUE 100; ALTER SEQUENCE s RESTART WITH 101; SELECT nextval($$s$$), currval($$s$$); ALTER SEQUENCE s OWNED BY NONE; ALTER SEQUENCE s INCREMENT 10; SELECT nextval($$s$$), lastval(); DISCARD SEQUENCES; SELECT currval($$s$$); SELECT nextval($$s$$) FROM (SELECT 1) x; CREATE VIEW v AS SELECT last_value, is_called FROM s; GRANT SELECT ON v TO words_other; GRANT USAGE ON SCHEMA words_own, words_ours TO words_other; SET ROLE words_other; SELECT * FROM v; SELECT last_value FROM s; RESET ROLE; DROP VIEW v; DROP SEQUENCE s;'
:on_own
:run
:on_ours
:run
SET search_path = words_ours;
CREATE SEQUENCE s;
SET ROLE words_other;
SELECT mosql_fdw_shown_state('s', 0);
RESET ROLE;
DISCARD ALL;
SET client_min_messages = warning;
SELECT lastval();

-- WITH CHECK OPTION is looked at when the row is written: a duplicate key comes first
\set run 'CREATE TABLE a (id int PRIMARY KEY, u int UNIQUE CHECK (u > 0)); CREATE VIEW v AS SELECT * FROM a WHERE u < 10 WITH CHECK OPTION; CREATE VIEW w AS SELECT * FROM v WHERE EXISTS (SELECT FROM a b WHERE b.id = v.id) WITH CHECK OPTION; INSERT INTO v VALUES (1, 1), (2, 2); INSERT INTO v VALUES (1, 20); INSERT INTO v VALUES (3, 20); INSERT INTO v VALUES (3, 1); INSERT INTO v VALUES (3, 3), (1, 4), (4, 30); INSERT INTO v VALUES (3, 3), (4, 30), (1, 4); INSERT INTO w VALUES (1, 30); INSERT INTO w VALUES (3, 30); UPDATE v SET id = 1, u = 20 WHERE id = 2; UPDATE v SET id = 3, u = 20 WHERE id = 2; UPDATE v SET id = 3, u = 1 WHERE id = 2; INSERT INTO v VALUES (3, 2) ON CONFLICT (id) DO NOTHING; INSERT INTO v VALUES (1, 30), (3, 30) ON CONFLICT DO NOTHING; INSERT INTO v VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET id = 2, u = 40; INSERT INTO v VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET u = 40; SELECT * FROM a ORDER BY id; DROP VIEW w, v; DROP TABLE a; BEGIN; CREATE TABLE a (id int PRIMARY KEY, u int); CREATE VIEW v AS SELECT * FROM a WHERE u < 10 WITH CHECK OPTION; INSERT INTO v SELECT i % 5, i FROM generate_series(1, 12) i; ROLLBACK; BEGIN; CREATE TABLE a (id int PRIMARY KEY, u int); CREATE VIEW v AS SELECT * FROM a WHERE u < 10 WITH CHECK OPTION; INSERT INTO v SELECT i, i FROM generate_series(1, 12) i; ROLLBACK;'
:on_own
:run
:on_ours
:run

-- CREATE TABLE AS by an owner whom default privileges leave none
GRANT CREATE, USAGE ON SCHEMA words_own, words_ours TO words_other;
GRANT USAGE ON FOREIGN SERVER redis TO words_other;
\set run 'SET ROLE words_other; ALTER DEFAULT PRIVILEGES REVOKE INSERT ON TABLES FROM words_other; CREATE TABLE a AS SELECT 1 AS i; SELECT 2 AS i INTO b; CREATE TABLE c AS SELECT * FROM a, b x (j); INSERT INTO c VALUES (3, 4); ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM words_other; CREATE TABLE d AS SELECT * FROM c; CREATE TABLE e AS SELECT * FROM d; RESET ROLE; SELECT * FROM d; DROP TABLE a, b, c, d; ALTER DEFAULT PRIVILEGES FOR ROLE words_other GRANT ALL ON TABLES TO words_other;'
:on_own
:run
:on_ours
:run
REVOKE ALL ON FOREIGN SERVER redis FROM words_other;

-- ALTER TYPE ... CASCADE reaches the tables of the type, and what inherits from them
\set run 'CREATE TYPE y AS (a int, b text); CREATE TABLE p OF y; CREATE TABLE q OF y; CREATE TABLE c (id int PRIMARY KEY) INHERITS (p); CREATE TABLE d () INHERITS (c); CREATE INDEX ON c (b); INSERT INTO c VALUES (1, 12, 3), (2, 34, 4); ALTER TYPE y ADD ATTRIBUTE x date; ALTER TYPE y ADD ATTRIBUTE x date CASCADE, ALTER ATTRIBUTE b TYPE varchar(5) CASCADE; ALTER TYPE y ALTER ATTRIBUTE b TYPE varchar(1) CASCADE; BEGIN; SAVEPOINT s; ALTER TYPE y RENAME ATTRIBUTE b TO bb CASCADE; SELECT bb FROM p ORDER BY 1; ROLLBACK TO s; SELECT b FROM p ORDER BY 1; ALTER TYPE y RENAME ATTRIBUTE a TO aa CASCADE; COMMIT; INSERT INTO d VALUES (3, 56, 5, $$2020-01-01$$); SELECT * FROM p ORDER BY aa; ALTER TYPE y DROP ATTRIBUTE b CASCADE; SELECT * FROM c ORDER BY aa; DROP TABLE d, c, q, p; DROP TYPE y;'
:on_own
:run
:on_ours
:run

-- DROP SCHEMA ... CASCADE meets an identity column's sequence before the table, if it is newer, as in a restored dump
\set run 'CREATE SCHEMA words_gone; CREATE TABLE words_gone.a (id int PRIMARY KEY, v int UNIQUE NOT NULL); ALTER TABLE words_gone.a ALTER id ADD GENERATED ALWAYS AS IDENTITY, ALTER v ADD GENERATED ALWAYS AS IDENTITY; INSERT INTO words_gone.a DEFAULT VALUES; CREATE TABLE words_gone.b (id int REFERENCES words_gone.a, v int REFERENCES words_gone.a (v)); INSERT INTO words_gone.b VALUES (1, 1); BEGIN; DROP SCHEMA words_gone CASCADE; SAVEPOINT s; CREATE SCHEMA words_gone; CREATE TABLE words_gone.a (id int); INSERT INTO words_gone.a VALUES (7); SELECT * FROM words_gone.a; ROLLBACK; SELECT * FROM words_gone.a, words_gone.b; DROP SCHEMA words_gone CASCADE;'
:on_own
:run
:on_ours
:run
-- but a key column is not dropped without the table, where there are rows
CREATE TABLE a (id int PRIMARY KEY, v int);
INSERT INTO a VALUES (1, 2);
ALTER TABLE a DROP id, ADD id int;
BEGIN;
SAVEPOINT s;
ALTER TABLE a DROP id;
ROLLBACK TO s;
ALTER TABLE a ADD w int;
COMMIT;
BEGIN;
ALTER EVENT TRIGGER "!mosql_fdw_ddl_end" DISABLE;
ALTER TABLE a DROP id;
COMMIT;
SELECT * FROM a;
DROP TABLE a;

-- a foreign key is to the table of its own schema, of several that are one in Redis
:on_ours
CREATE TABLE a (id int PRIMARY KEY);
CREATE TABLE b (id int REFERENCES a);
CREATE SCHEMA words_twice;
IMPORT FOREIGN SCHEMA words_ours LIMIT TO (a, b) FROM SERVER redis INTO words_twice;
ALTER TABLE b ADD COLUMN v int;
SELECT mosql_fdw_refresh('words_twice.b');
SELECT conrelid::regclass, confrelid::regclass FROM pg_constraint WHERE contype = 'f' AND conname = 'b_id_fkey' ORDER BY 1;

-- pg_dump has the rows of each table alone
CREATE TABLE c (more int) INHERITS (a);
INSERT INTO a VALUES (1);
INSERT INTO c VALUES (2);
COPY (SELECT id FROM a) TO STDOUT;
SET application_name = 'pg_dump';
COPY (SELECT id FROM a) TO STDOUT;
RESET application_name;
SET mosql_fdw.drop_data = off;
DROP SCHEMA words_twice CASCADE;
RESET mosql_fdw.drop_data;
DROP TABLE c, b, a;

-- the row as a value of its type, beside the one that identifies it
CREATE TABLE a (id int PRIMARY KEY, v text);
INSERT INTO a VALUES (1, 'one'), (2, 'two');
CREATE FUNCTION words_id(a) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1.id; END';
UPDATE a SET v = n.v || a::text FROM (VALUES (1, 'x'), (3, 'y')) n (id, v) WHERE words_id(a.*) = n.id RETURNING a;
DELETE FROM a USING (VALUES (2)) n (id) WHERE words_id(a.*) = n.id RETURNING a, v;
CREATE FUNCTION words_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE WARNING ''%'', OLD; RETURN NEW; END';
CREATE TRIGGER words_row AFTER UPDATE ON a FOR EACH ROW EXECUTE FUNCTION words_row();
UPDATE a SET v = n.v FROM (VALUES (1, 'x')) n (id, v) WHERE words_id(a.*) = n.id RETURNING a;
DROP FUNCTION words_id;
DROP TABLE a;
DROP FUNCTION words_row;

-- types that cannot be compared
CREATE TYPE words_mood AS ENUM ('sad', 'ok');
CREATE TABLE a (mood words_mood PRIMARY KEY, no bigint UNIQUE);
CREATE TABLE b (a int REFERENCES a);
CREATE TABLE b (a text REFERENCES a (no));
CREATE TABLE b (a int);
ALTER TABLE b ADD FOREIGN KEY (a) REFERENCES a;
DROP TABLE a, b;
DROP TYPE words_mood;

-- ON CONFLICT DO UPDATE of a row that the view does not show: what this release of PostgreSQL says of its own
\set run 'CREATE TABLE a (id int PRIMARY KEY, u int UNIQUE, n int); INSERT INTO a VALUES (1, 1, 10), (2, 2, 90); CREATE VIEW v AS SELECT id, u, n FROM a WHERE n < 50; CREATE VIEW w AS SELECT * FROM v WHERE n > 5;'
:on_own
:run
:on_ours
:run
DO $$
DECLARE
    place text;
    target text;
    said text[];
BEGIN
    FOREACH target IN ARRAY ARRAY['(1, 7, 7) ON CONFLICT (id) DO UPDATE SET n = 20', '(2, 7, 7) ON CONFLICT (id) DO UPDATE SET n = 20',
        '(2, 7, 7) ON CONFLICT (id) DO UPDATE SET n = 20 WHERE x.n = 7', '(3, 2, 7) ON CONFLICT (u) DO UPDATE SET n = 20',
        '(1, 7, 7), (2, 8, 8) ON CONFLICT (id) DO UPDATE SET n = 20', '(2, 7, 7) ON CONFLICT (id) DO NOTHING',
        '(1, 7, 7) ON CONFLICT (id) DO UPDATE SET n = 1'] LOOP
        said := '{}';
        FOREACH place IN ARRAY ARRAY['words_own.v', 'words_ours.v', 'words_own.w', 'words_ours.w'] LOOP
            BEGIN
                EXECUTE format('INSERT INTO %s AS x VALUES %s', place, target);
                said := said || 'done'::text;
            EXCEPTION WHEN OTHERS THEN
                said := said || replace(sqlerrm, place, '');
            END;
        END LOOP;
        IF said[1] IS DISTINCT FROM said[2] OR said[3] IS DISTINCT FROM said[4] THEN
            RAISE WARNING '%: %', target, said;
        END IF;
    END LOOP;
END $$;
SELECT * FROM words_own.a EXCEPT SELECT * FROM words_ours.a;
:on_own
DROP TABLE a CASCADE;
:on_ours
DROP TABLE a CASCADE;

RESET search_path;
RESET mosql_fdw.default_server;
SET client_min_messages = warning;
DROP SCHEMA words_own, words_ours CASCADE;
DROP ROLE words_other;
