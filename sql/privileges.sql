-- who may do what: ways up, and in one another's way, that are closed
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
SELECT 'privileges-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE SERVER guarded FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
CREATE SCHEMA vault;
SET search_path = vault, public;
CREATE ROLE mosql_regress_eve;
GRANT USAGE ON SCHEMA vault TO PUBLIC;
CREATE FOREIGN TABLE secret (id int OPTIONS (key 'true') NOT NULL, v text) SERVER guarded;
CREATE FOREIGN TABLE hers (id int OPTIONS (key 'true') NOT NULL, v text) SERVER guarded;
INSERT INTO secret SELECT i, 'secret ' || i FROM generate_series(1, 5) i;
CREATE TABLE local_secret (id int PRIMARY KEY);
CREATE FOREIGN TABLE secret_child (id int OPTIONS (key 'true') NOT NULL REFERENCES secret) SERVER guarded;
ALTER TABLE hers OWNER TO mosql_regress_eve;
-- ---- no lock is waited for by who may not have it ----
-- weak locks of another session's: who asked for a strong one would wait
BEGIN;
LOCK TABLE local_secret IN ROW EXCLUSIVE MODE;
-- of ours LOCK TABLE locks in Redis, which has no prepared transactions; who parses locks here
PREPARE weak AS UPDATE secret SET v = '';
PREPARE weak_child AS DELETE FROM secret_child;
PREPARE TRANSACTION 'mosql_privileges';
SELECT relation::regclass, mode FROM pg_locks WHERE pid IS NULL AND locktype = 'relation' AND mode = 'RowExclusiveLock' ORDER BY relation::regclass::text;
SET lock_timeout = '20s';
SET ROLE mosql_regress_eve;
SELECT outcome('SELECT mosql_fdw_refresh(''secret'')');
SELECT outcome('SELECT mosql_fdw_refresh(''local_secret'')');
SELECT outcome('SELECT mosql_fdw_refresh(''pg_class'')');
SELECT outcome('ALTER TABLE secret ADD PRIMARY KEY (v)');
SELECT outcome('ALTER TABLE secret ADD UNIQUE (v)');
SELECT outcome('ALTER TABLE secret ADD FOREIGN KEY (id) REFERENCES hers');
SELECT outcome('ALTER TABLE hers ADD FOREIGN KEY (id) REFERENCES secret');
SELECT outcome('ALTER TABLE secret ALTER COLUMN v TYPE varchar');
SELECT outcome('ALTER TABLE secret ALTER COLUMN id TYPE bigint');
SELECT outcome('CREATE INDEX ON secret (v)');
SELECT outcome('LOCK TABLE secret');
SELECT outcome('REINDEX TABLE secret');
SELECT outcome('CLUSTER secret');
SELECT outcome('TRUNCATE secret');
SELECT outcome('DROP TABLE secret');
SELECT outcome('SELECT * FROM mosql_fdw_check(''secret'')');
SELECT outcome('SELECT * FROM mosql_fdw_dump(''secret'')');
SELECT outcome('SELECT * FROM mosql_fdw_gc(''guarded'')');
SELECT outcome('SELECT * FROM mosql_fdw_maintain(''guarded'')');
SELECT outcome('SELECT * FROM mosql_fdw_progress(''guarded'')');
SELECT outcome('SELECT mosql_fdw_transaction_status(''guarded'', ''1.1'')');
SELECT outcome('SELECT * FROM mosql_fdw_server_check(''guarded'')');
SELECT outcome('SELECT mosql_fdw_enable(''guarded'')');
SELECT outcome('SELECT mosql_fdw_disable()');
SELECT outcome('SELECT mosql_fdw_debug_lock(''x'')');
RESET ROLE;
RESET lock_timeout;
ROLLBACK PREPARED 'mosql_privileges';
DEALLOCATE ALL;

-- ---- a table's owner has this table of the namespace, and no other ----
SET ROLE mosql_regress_eve;
SELECT outcome('ALTER FOREIGN TABLE hers OPTIONS (SET table_name ''secret'')');
SELECT outcome('ALTER TABLE hers OPTIONS (SET schema_name ''elsewhere'')');
SELECT outcome('ALTER FOREIGN TABLE hers OPTIONS (DROP table_name)');
SELECT outcome('ALTER FOREIGN TABLE hers OPTIONS (ADD batch_size ''10'')');
RESET ROLE;
GRANT CREATE ON SCHEMA vault TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
SELECT outcome('CREATE FOREIGN TABLE another (id int OPTIONS (key ''true'') NOT NULL, v text) SERVER guarded OPTIONS (table_name ''secret'')');
SELECT outcome('IMPORT FOREIGN SCHEMA vault LIMIT TO (secret) FROM SERVER guarded INTO vault');
RESET ROLE;
-- who may, may; and the name stays in the options, so that no RENAME leads elsewhere
GRANT USAGE ON FOREIGN SERVER guarded TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
ALTER FOREIGN TABLE hers OPTIONS (SET table_name 'secret');
SELECT count(*) FROM hers;
ALTER FOREIGN TABLE hers OPTIONS (DROP table_name, DROP schema_name);
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'hers'::regclass;
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER guarded FROM mosql_regress_eve;
ALTER TABLE secret RENAME TO secret_elsewhere;
SET ROLE mosql_regress_eve;
ALTER TABLE hers RENAME TO secret;
SELECT count(*) FROM secret;
ALTER TABLE secret RENAME TO hers;
RESET ROLE;
ALTER TABLE secret_elsewhere RENAME TO secret;

-- sequences
CREATE SEQUENCE shared;
CREATE FOREIGN TABLE draws (id int OPTIONS (key 'true') NOT NULL DEFAULT nextval('shared'),
							n int GENERATED ALWAYS AS IDENTITY, v text) SERVER guarded;
INSERT INTO draws (v) VALUES ('a') RETURNING *;
CREATE SEQUENCE lonely;
SET ROLE mosql_regress_eve;
SELECT outcome('SELECT mosql_fdw_nextval(''shared'')');
SELECT outcome('SELECT mosql_fdw_nextval(''draws_n_seq'')');
SELECT outcome('SELECT nextval(''draws_n_seq'')');
SELECT outcome('SELECT mosql_fdw_currval(''draws_n_seq'')');
SELECT outcome('SELECT mosql_fdw_setval(''shared'', 1)');
SELECT outcome('SELECT mosql_fdw_setval_forward(''draws_n_seq'', 1000)');
SELECT outcome('ALTER FOREIGN TABLE hers ALTER id SET DEFAULT nextval(''lonely'')');
CREATE SEQUENCE own;
SELECT outcome('ALTER FOREIGN TABLE hers ALTER id SET DEFAULT nextval(''own'')');
SELECT outcome('ALTER SEQUENCE shared OWNED BY hers.id');
RESET ROLE;
GRANT INSERT (v) ON draws TO mosql_regress_eve;
GRANT USAGE ON SEQUENCE shared TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
INSERT INTO draws (v) VALUES ('b');
RESET ROLE;
SELECT n, v FROM draws ORDER BY v;
GRANT USAGE ON FOREIGN SERVER guarded TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
ALTER FOREIGN TABLE hers ALTER id SET DEFAULT nextval('own');
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER guarded FROM mosql_regress_eve;
SET ROLE mosql_regress_eve;
SELECT outcome('ALTER SEQUENCE own RENAME TO others');
RESET ROLE;
ALTER FOREIGN TABLE hers ALTER id DROP DEFAULT;

-- indexes and keys need CREATE on the schema, as relations do
REVOKE CREATE ON SCHEMA vault FROM mosql_regress_eve;
SET ROLE mosql_regress_eve;
SELECT outcome('CREATE INDEX ON hers (v)');
SELECT outcome('ALTER TABLE hers ADD UNIQUE (v)');
SELECT outcome('ALTER TABLE hers ADD PRIMARY KEY (id)');
RESET ROLE;

-- what she puts into a table is not run by a superuser who imports it
GRANT CREATE ON SCHEMA vault TO mosql_regress_eve;
GRANT USAGE ON FOREIGN SERVER guarded TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
CREATE FUNCTION evil(x text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'evil runs as %', current_user; END$$;
CREATE FOREIGN TABLE bait (id int OPTIONS (key 'true') NOT NULL,
	a text DEFAULT query_to_xml('SELECT vault.evil(''a'')', true, true, '')::text,
	b text DEFAULT pg_read_file('PG_VERSION'), c text DEFAULT evil('c'),
	d timestamptz DEFAULT now() + '1 day', e uuid DEFAULT gen_random_uuid(), f text DEFAULT CURRENT_USER,
	g text DEFAULT set_config('role', 'postgres', false), h int DEFAULT nextval('own'), i date DEFAULT CURRENT_DATE,
	CHECK (current_setting('search_path') <> a), CHECK (d > now() - interval '1 year'), CHECK (i > '2000-01-01'),
	CONSTRAINT is_evil CHECK (evil(b) = b)) SERVER guarded;
RESET ROLE;
CREATE SCHEMA import_here;
IMPORT FOREIGN SCHEMA vault LIMIT TO (bait) FROM SERVER guarded INTO import_here;
SELECT attname, pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
	WHERE attrelid = 'import_here.bait'::regclass AND attnum > 0 ORDER BY attnum;
SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint
	WHERE conrelid = 'import_here.bait'::regclass AND contype = 'c' ORDER BY 1;
INSERT INTO import_here.bait (id) VALUES (1);
SELECT a, b, c, f, g FROM import_here.bait;
SET mosql_fdw.drop_data = off;
DROP SCHEMA import_here CASCADE;
RESET mosql_fdw.drop_data;
REVOKE USAGE ON FOREIGN SERVER guarded FROM mosql_regress_eve;

-- what her table is made of runs as her, whoever reads, alters or analyzes it
GRANT USAGE ON FOREIGN SERVER guarded TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
CREATE FUNCTION traps(x text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF current_user <> 'mosql_regress_eve' THEN
		RAISE EXCEPTION 'it runs as %', current_user;
	END IF;
	BEGIN
		PERFORM set_config('role', 'none', false);
	EXCEPTION WHEN OTHERS THEN
		RETURN x;
	END;
	RAISE EXCEPTION 'there is a way back';
END $$;
CREATE FUNCTION traps_now(x text) RETURNS text STABLE LANGUAGE plpgsql AS 'BEGIN RETURN vault.traps(x); END';
CREATE FUNCTION is_trapped(x text) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT vault.traps(x) IS NOT NULL';
CREATE DOMAIN trap AS text;
CREATE TYPE trapped AS (x trap, y int);
CREATE FOREIGN TABLE snare (id int OPTIONS (key 'true') NOT NULL, v text, n int, a trap[], c trapped, d trap,
							g text) SERVER guarded;
INSERT INTO snare SELECT i, 'v', i, ARRAY['a', 'b'], ROW('c', 1)::trapped, 'd', 'g' FROM generate_series(1, 3) i;
ALTER DOMAIN trap ADD CHECK (is_trapped(VALUE)) NOT VALID;
RESET ROLE;
SELECT id, a, c, d FROM snare WHERE id < 3;
SELECT count(a), count(c), min(d) FROM snare;
COPY snare (id, a, c) TO STDOUT;
ANALYZE snare;
CREATE INDEX ON snare (n);
CREATE INDEX ON snare (d);
SELECT * FROM mosql_fdw_check('snare');
ALTER TABLE snare ALTER n TYPE text;
ALTER TABLE snare ADD CHECK (traps(v) = v);
ALTER TABLE snare ADD COLUMN w text DEFAULT vault.traps_now('w');	-- core folds what is IMMUTABLE as the caller, from 16 on
ALTER TABLE snare ADD COLUMN x text GENERATED ALWAYS AS (vault.traps(v)) STORED;
SELECT id, a, c, d, w, x FROM snare WHERE id = 1;
ALTER TABLE snare ALTER COLUMN id OPTIONS (DROP key);
SELECT count(*) FROM snare;

-- also what is folded when an index is made, or its column changes
SET ROLE mosql_regress_eve;
CREATE INDEX snare_words ON snare USING gin (to_tsvector('simple', g || traps('x'))) WHERE g <> traps('y');
RESET ROLE;
CREATE INDEX ON snare USING gin (to_tsvector('simple', v || traps('x'))) WHERE v <> traps('y');
CREATE INDEX ON snare ((v || traps('x'))) WHERE v <> traps('y');
ALTER TABLE snare ALTER g TYPE varchar(20);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'snare'::regclass AND NOT indisprimary
	ORDER BY indexrelid::regclass::text COLLATE "C";
SELECT current_user = session_user, count(*) FROM snare WHERE v || 'x' = 'vx' AND v <> 'y';
-- and functions of casts
SET ROLE mosql_regress_eve;
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TYPE temper AS ENUM ('low', 'high');
CREATE FUNCTION mood_of(int) RETURNS mood IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN vault.traps('low'); END$$;
CREATE FUNCTION temper_of(mood) RETURNS temper IMMUTABLE LANGUAGE sql AS
	$$SELECT CASE WHEN vault.traps('a') = 'a' THEN 'high'::vault.temper END$$;
CREATE CAST (int AS mood) WITH FUNCTION mood_of AS ASSIGNMENT;
CREATE CAST (mood AS temper) WITH FUNCTION temper_of AS ASSIGNMENT;
RESET ROLE;
ALTER TABLE snare ALTER w DROP DEFAULT, ALTER w TYPE mood USING 7;
SELECT id, w FROM snare WHERE id = 1;
ALTER TABLE snare ALTER w TYPE temper;
SELECT id, w FROM snare WHERE id = 1;

-- nor as the owner of a table that has her domain, nor as that of another domain beside hers
SET ROLE mosql_regress_eve;
CREATE DOMAIN lure AS text;
RESET ROLE;
CREATE FOREIGN TABLE caught (id int OPTIONS (key 'true') NOT NULL, d lure) SERVER guarded;
INSERT INTO caught VALUES (1, 'x');
SET ROLE mosql_regress_eve;
ALTER DOMAIN lure ADD CHECK (is_trapped(VALUE));
RESET ROLE;
DROP FOREIGN TABLE caught;
CREATE ROLE mosql_regress_vic;
CREATE DOMAIN honest AS text;
ALTER DOMAIN honest OWNER TO mosql_regress_vic;
CREATE TYPE pair AS (a honest, b trap);
CREATE FOREIGN TABLE mixed (id int OPTIONS (key 'true') NOT NULL, p pair) SERVER guarded;
SELECT outcome('INSERT INTO mixed VALUES (1, ROW(''a'', ''b''))');
SELECT outcome('SELECT p FROM mixed');
DROP FOREIGN TABLE mixed;
DROP TYPE pair;
DROP DOMAIN honest;
DROP ROLE mosql_regress_vic;

-- nor is ANALYZE of her table, whatever it ends in, in the way of that of others
SET ROLE mosql_regress_eve;
CREATE DOMAIN tripwire AS text;
CREATE FOREIGN TABLE tripped (id int OPTIONS (key 'true') NOT NULL, v tripwire[]) SERVER guarded;
INSERT INTO tripped SELECT i, ARRAY['x'] FROM generate_series(1, 500) i;
CREATE FUNCTION trip(x text) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'tripped' USING ERRCODE = '08006'; END$$;
ALTER DOMAIN tripwire ADD CHECK (trip(VALUE)) NOT VALID;
RESET ROLE;
CREATE FOREIGN TABLE walked (id int OPTIONS (key 'true') NOT NULL, v text) SERVER guarded;
INSERT INTO walked SELECT i, 'x' FROM generate_series(1, 500) i;
\set VERBOSITY terse
SELECT outcome FROM mosql_fdw_maintain('guarded');
\set VERBOSITY default
SELECT relname, reltuples FROM pg_class WHERE oid IN ('tripped'::regclass, 'walked'::regclass) ORDER BY 1;
DROP FOREIGN TABLE tripped, walked;
REVOKE USAGE ON FOREIGN SERVER guarded FROM mosql_regress_eve;

-- errors show no values that one may not read
CREATE FOREIGN TABLE diary (id int OPTIONS (key 'true') NOT NULL, mail text UNIQUE, page text, n int,
							boss int, CHECK (n > 0)) SERVER guarded;
CREATE UNIQUE INDEX diary_lower ON diary (lower(page));
CREATE UNIQUE INDEX diary_n_mail ON diary (n, mail);
ALTER TABLE diary ADD FOREIGN KEY (boss) REFERENCES diary;
INSERT INTO diary VALUES (1, 'a@b', 'Private', 1, NULL), (2, 'c@d', 'Own', 2, 1);
GRANT INSERT, UPDATE, DELETE ON diary TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
SELECT outcome($$INSERT INTO diary VALUES (1, 'x', 'y', 9)$$);
SELECT outcome($$INSERT INTO diary VALUES (3, 'a@b', 'y', 9)$$);
SELECT outcome($$INSERT INTO diary VALUES (3, 'x', 'PRIVATE', 9)$$);
SELECT outcome($$INSERT INTO diary VALUES (3, 'x', 'y', -9)$$);
SELECT outcome($$INSERT INTO diary VALUES (3, 'x', 'y', 9, 77)$$);
SELECT outcome($$INSERT INTO diary (id, mail, page) VALUES (3, 'x', 'y'), (4, 'a@b', 'z')$$);
SELECT outcome($$UPDATE diary SET mail = 'same'$$);
SELECT outcome($$UPDATE diary SET n = 0$$);
RESET ROLE;
GRANT SELECT (id, n) ON diary TO mosql_regress_eve;
SET ROLE mosql_regress_eve;
SELECT outcome($$INSERT INTO diary VALUES (1, 'x', 'y', 9)$$);
SELECT outcome($$INSERT INTO diary VALUES (3, 'a@b', 'y', 1)$$);
SELECT outcome($$UPDATE diary SET n = -n WHERE id = 1$$);
SELECT outcome($$UPDATE diary SET n = n - 5 WHERE id = 1$$);
SELECT outcome($$UPDATE diary SET id = 2 WHERE id = 1$$);
SELECT outcome($$DELETE FROM diary WHERE id = 1$$);
RESET ROLE;
SELECT outcome($$INSERT INTO diary VALUES (3, 'x', 'PRIVATE', 9)$$);

-- settings
SET ROLE mosql_regress_eve;
SELECT outcome('SET mosql_fdw.intent_timeout = 10');
SELECT outcome('SET mosql_fdw.signpost_retention = 0');
SELECT outcome('SET mosql_fdw.maintenance = off');
SELECT outcome('SET mosql_fdw.debug_points = on');
SELECT outcome('SET mosql_fdw.debug_error_at = ''x''');
RESET ROLE;

-- ---- a table's indexes and sequences go to whom it goes ----
CREATE ROLE mosql_regress_heir;
GRANT CREATE, USAGE ON SCHEMA vault TO mosql_regress_heir;
CREATE FOREIGN TABLE estate (id int OPTIONS (key 'true') NOT NULL, n int GENERATED ALWAYS AS IDENTITY, v text UNIQUE,
							 j jsonb) SERVER guarded;
CREATE INDEX estate_n ON estate (n);
CREATE INDEX estate_j ON estate USING gin (j);
CREATE VIEW owners AS SELECT relname, relkind, relowner::regrole FROM pg_class WHERE relname ~ '^estate' ORDER BY relname COLLATE "C";
ALTER TABLE estate OWNER TO mosql_regress_eve;
SELECT * FROM owners;
ALTER FOREIGN TABLE estate OWNER TO mosql_regress_heir;
SET ROLE mosql_regress_eve;
SELECT outcome('DROP INDEX estate_j');
SELECT outcome('DROP INDEX estate_n');
SELECT outcome('ALTER INDEX estate_pkey RENAME TO hers_now');
RESET ROLE;
SELECT DISTINCT relowner FROM owners;
SET ROLE mosql_regress_heir;
ALTER INDEX estate_pkey RENAME TO estate_key;
DROP INDEX estate_n, estate_j;
CREATE INDEX estate_brin ON estate USING brin (n);
RESET ROLE;
BEGIN;
REASSIGN OWNED BY mosql_regress_heir TO mosql_regress_eve;
SELECT * FROM owners;
ROLLBACK;
SELECT * FROM owners;
DROP OWNED BY mosql_regress_heir;
SELECT * FROM owners;
DROP VIEW owners;
DROP ROLE mosql_regress_heir;

-- ---- no DDL of a table that this session is using ----
CREATE FOREIGN TABLE busy (id int OPTIONS (key 'true') NOT NULL, v text, w text) SERVER guarded;
CREATE FOREIGN TABLE parent (id int OPTIONS (key 'true') NOT NULL) SERVER guarded;
CREATE INDEX busy_w ON busy (w);
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE TG_ARGV[0];
	RETURN NEW;
END $$;
CREATE FUNCTION meddled(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := '';
	kind text;
	one text;
BEGIN
	FOREACH kind IN ARRAY ARRAY['BEFORE INSERT ON busy FOR EACH ROW', 'AFTER INSERT ON busy FOR EACH ROW',
								'AFTER INSERT ON busy FOR EACH STATEMENT'] LOOP
		EXECUTE format('CREATE TRIGGER meddling %s EXECUTE FUNCTION meddle(%L)', kind, command);
		one := outcome('INSERT INTO busy VALUES (1, ''same'', ''x''), (2, ''same'', ''y'')');
		IF strpos(result, one) = 0 THEN
			result := concat_ws(E'\n', nullif(result, ''), one);
		END IF;
		DROP TRIGGER meddling ON busy;
		DELETE FROM busy;
	END LOOP;
	RETURN result;
END $$;
SELECT meddled('CREATE UNIQUE INDEX ON busy (v)');
SELECT meddled('ALTER TABLE busy ADD UNIQUE (v)');
SELECT meddled('ALTER TABLE busy ADD FOREIGN KEY (id) REFERENCES parent');
SELECT meddled('ALTER TABLE busy ADD PRIMARY KEY (id, v)');
SELECT meddled('ALTER TABLE busy DROP COLUMN v');
SELECT meddled('ALTER TABLE busy ALTER COLUMN v TYPE varchar');
SELECT meddled('ALTER FOREIGN TABLE busy ALTER COLUMN v OPTIONS (ADD key ''true'')');
SELECT meddled('ALTER TABLE busy ADD CHECK (v > ''x'')');
SELECT meddled('DROP INDEX busy_w');
SELECT meddled('TRUNCATE busy');
SELECT meddled('DROP TABLE busy');
SELECT meddled('SELECT mosql_fdw_refresh(''busy'')');
-- a cursor, RETURNING, and a query of the table itself
INSERT INTO busy VALUES (1, 'a', 'b'), (2, 'a', 'b');
BEGIN;
DECLARE reading CURSOR FOR SELECT * FROM busy;
FETCH reading;
SELECT outcome('CREATE INDEX ON busy (v)');
SELECT outcome('DROP INDEX busy_w');
CLOSE reading;
SELECT outcome('CREATE INDEX ON busy (v)');
COMMIT;
INSERT INTO busy VALUES (3, 'c', 'd') RETURNING outcome('CREATE UNIQUE INDEX ON busy (v)');
SELECT outcome('CREATE INDEX ON busy (w)') FROM busy WHERE id = 1;
SELECT mosql_fdw_refresh('busy') FROM busy WHERE id = 1;
SELECT * FROM mosql_fdw_check('busy');

RESET search_path;
DROP SCHEMA vault CASCADE;
DROP SERVER guarded CASCADE;
DROP ROLE mosql_regress_eve;
