-- Statements that fill a table of their own transaction: its rows are written once, and read as
-- those of PostgreSQL's own tables are. Each story is told there first, then here.
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
CREATE SERVER fresh FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'fresh');
CREATE SCHEMA ours;
CREATE SCHEMA native;
CREATE FOREIGN TABLE ours.f (id int OPTIONS (key 'true') NOT NULL, a int UNIQUE, b text CHECK (b <> 'bad')) SERVER fresh;
CREATE INDEX ON ours.f (b, a);
CREATE FOREIGN TABLE ours.child (id int PRIMARY KEY, f int REFERENCES ours.f, up int REFERENCES ours.child) SERVER fresh;
CREATE TABLE native.f (id int PRIMARY KEY, a int CONSTRAINT f_a_key UNIQUE, b text CHECK (b <> 'bad'));
CREATE TABLE native.child (id int PRIMARY KEY, f int REFERENCES native.f, up int REFERENCES native.child);
CREATE FUNCTION counted(stat text) RETURNS bigint LANGUAGE sql AS
	$$ SELECT value FROM mosql_fdw_stats() WHERE name = stat $$;
CREATE FUNCTION rows(OUT n bigint, OUT sum bigint, OUT b text) LANGUAGE plpgsql STABLE AS
	$$ BEGIN SELECT count(*), sum(id + 3 * a), md5(string_agg(f::text, ',' ORDER BY id)) FROM f INTO n, sum, b; END $$;
CREATE FUNCTION mark() RETURNS void LANGUAGE sql AS $$ SELECT set_config('fresh.before', counted('rows_loaded')::text, false) $$;
CREATE FUNCTION loaded() RETURNS bigint LANGUAGE sql AS $$ SELECT counted('rows_loaded') - current_setting('fresh.before')::bigint $$;
\set there 'SET search_path = native, public;'
\set here 'SET search_path = ours, public; SELECT mark();'

-- the transaction reads and changes what it has put; duplicates; later statements, savepoints
\set story 'BEGIN; TRUNCATE f, child; INSERT INTO f SELECT i, i * 7919 % 10007, i % 10 FROM generate_series(2000, 1, -1) i; SELECT * FROM rows(); SELECT id, b FROM f WHERE a = 5831; UPDATE f SET a = -a WHERE b = ''3''; UPDATE f SET b = ''new'' WHERE id = 10; DELETE FROM f WHERE id % 100 = 0; INSERT INTO f VALUES (1, 1, ''up''), (100, 1, ''again'') ON CONFLICT (id) DO UPDATE SET b = excluded.b; SELECT * FROM rows(); SAVEPOINT s; INSERT INTO f VALUES (7, -77); ROLLBACK TO s; INSERT INTO f VALUES (-7, 5831); ROLLBACK TO s; DELETE FROM f; ROLLBACK TO s; INSERT INTO f SELECT i, -i * 100000, i FROM generate_series(5001, 7000) i; SELECT * FROM rows(); COMMIT; SELECT * FROM rows();'
:there :story
:here :story
SELECT loaded(), (SELECT count(*) FROM mosql_fdw_check('f')) AS findings;

-- REPEATABLE READ; a cursor that is older; foreign keys to what was put, and within it
\set story 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM rows(); TRUNCATE f, child; DECLARE c CURSOR FOR SELECT count(*) FROM f; INSERT INTO f SELECT i, i FROM generate_series(1, 1500) i; FETCH c; CLOSE c; SELECT * FROM rows(); INSERT INTO child SELECT i, i, (i + 1) / 2 FROM generate_series(1500, 1, -1) i; DELETE FROM f WHERE id = 3; ROLLBACK; SELECT * FROM rows();'
:there :story
:here :story
SELECT loaded();
\set story 'BEGIN ISOLATION LEVEL SERIALIZABLE; TRUNCATE f, child; INSERT INTO f SELECT i, i FROM generate_series(1, 1500) i; INSERT INTO child SELECT i, i, (i + 1) / 2 FROM generate_series(1500, 1, -1) i; DELETE FROM f WHERE id = 3; ROLLBACK;  BEGIN; TRUNCATE f, child; INSERT INTO f SELECT i, i FROM generate_series(1, 1500) i; INSERT INTO child SELECT i, i, (i + 1) / 2 FROM generate_series(1500, 1, -1) i; SELECT count(*), sum(f), sum(up) FROM child; COMMIT; INSERT INTO child VALUES (0, -1); INSERT INTO child SELECT -i, i, i + 1 FROM generate_series(1, 1500) i;'
:there :story
:here :story
SELECT loaded(), (SELECT count(*) FROM mosql_fdw_check('child')) AS findings;

-- COPY: the first is written at once, the second finds its duplicates; nothing is left of a third
\set story 'BEGIN; TRUNCATE f, child; COPY f (id, a) FROM PROGRAM ''seq 1 3000 | sed "s/.*/&,-&/"'' (FORMAT csv) WHERE id % 2 = 0; SELECT * FROM rows(); COPY f (id, a) FROM PROGRAM ''seq 1 3000 | sed "s/.*/&,&/"'' (FORMAT csv) WHERE id % 2 = 1; COMMIT; SELECT * FROM rows(); BEGIN; TRUNCATE f, child; SAVEPOINT s; COPY f (id, a) FROM PROGRAM ''seq 1 3000 | sed "s/.*/&,&/"'' (FORMAT csv); SELECT * FROM rows(); ROLLBACK TO s; SELECT count(*) FROM f; ROLLBACK; BEGIN; TRUNCATE f, child; COPY f (id, a) FROM PROGRAM ''seq 1 3000 | sed "s/.*/&,7/"'' (FORMAT csv); COMMIT; SELECT * FROM rows();'
:there :story
:here :story
SELECT loaded();
SET search_path = native, public;
CREATE TABLE made AS SELECT id, a FROM ours.f;
SET search_path = ours, public;
SELECT mark();
SET mosql_fdw.default_server = 'fresh';
CREATE TABLE made AS SELECT id, a FROM f;
RESET mosql_fdw.default_server;
SELECT loaded(), count(*) FROM ours.made FULL JOIN native.made m USING (id, a) WHERE m.id IS NOT NULL AND made.id IS NOT NULL;

-- errors in the statement: of a row, at its end; with a savepoint, or a block, around all of it
\set story 'BEGIN; TRUNCATE f, child; SAVEPOINT s; TRUNCATE f, child; INSERT INTO f SELECT i, i % 1700 FROM generate_series(1, 2000) i; ROLLBACK TO s; INSERT INTO f SELECT i % 1700, i FROM generate_series(1, 2000) i; ROLLBACK TO s; TRUNCATE f, child; INSERT INTO f SELECT i, i, CASE i WHEN 1999 THEN ''bad'' END FROM generate_series(1, 2000) i; ROLLBACK TO s; SELECT count(*) FROM f; TRUNCATE f, child; INSERT INTO f SELECT i, i FROM generate_series(1, 2000) i; ROLLBACK TO s; SELECT count(*) FROM f; INSERT INTO f SELECT i, i FROM generate_series(1, 2000) i; ROLLBACK TO s; SELECT count(*) FROM f; SAVEPOINT t; TRUNCATE f, child; RELEASE t; INSERT INTO f SELECT i, i FROM generate_series(1, 2000) i; RELEASE s; SELECT * FROM rows(); COMMIT; SELECT * FROM rows();'
:there :story
:here :story
SELECT loaded();

-- functions and triggers look at the table meanwhile, and write to it, in blocks of their own
CREATE FUNCTION public.looks(i int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN
	IF i IN (5, 1500) THEN
		BEGIN
			SELECT count(*) INTO n FROM f;
			INSERT INTO f VALUES (-i, -i);
			INSERT INTO f VALUES (i - 1, -i);
		EXCEPTION WHEN unique_violation THEN
			INSERT INTO f VALUES (-i - 1, -i, n);
		END;
	END IF;
	RETURN n;
END $$;
CREATE FUNCTION public.stays(i int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN CASE i WHEN 700 THEN (SELECT count(*) FROM f) END; END $$;
CREATE FUNCTION public.trigger_looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF TG_LEVEL = 'STATEMENT' THEN
		UPDATE f SET b = 'of ' || (SELECT count(*) FROM f) WHERE id = 7;
		RETURN NULL;
	END IF;
	IF NEW.id = 800 THEN
		NEW.b = (SELECT count(*) FROM f);
	END IF;
	RETURN NEW;
END $$;
\set story 'BEGIN; TRUNCATE f, child; INSERT INTO f SELECT i, i, looks(i) FROM generate_series(1, 2000) i; SELECT * FROM rows(); COMMIT; SELECT id, b FROM f WHERE b IS NOT NULL ORDER BY id; BEGIN; TRUNCATE f, child; INSERT INTO f SELECT i, i, stays(i) FROM generate_series(1, 2000) i; SELECT * FROM rows(); ROLLBACK; BEGIN; CREATE TRIGGER t AFTER INSERT ON f EXECUTE FUNCTION trigger_looks(); TRUNCATE f, child; INSERT INTO f SELECT i, i FROM generate_series(1, 2000) i; SELECT * FROM rows(); CREATE TRIGGER u BEFORE INSERT ON f FOR EACH ROW EXECUTE FUNCTION trigger_looks(); TRUNCATE f, child; INSERT INTO f SELECT i, i FROM generate_series(1, 2000) i; SELECT id, b FROM f WHERE b IS NOT NULL ORDER BY id; ROLLBACK; BEGIN; TRUNCATE f, child; INSERT INTO f SELECT i + (SELECT count(*) FROM f), i FROM generate_series(1, 2000) i; SELECT * FROM rows(); WITH n AS (INSERT INTO f VALUES (-1) RETURNING id) INSERT INTO f SELECT id * i FROM n, generate_series(10000, 12000) i; SELECT * FROM rows(); COMMIT;'
:there :story
:here :story
SELECT loaded();
SELECT * FROM mosql_fdw_check('f');

-- a function catches what rows before it have caused: nothing of the statement stays
CREATE FUNCTION public.catches(i int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	IF i = 1500 THEN
		PERFORM count(*) FROM f;
	END IF;
	RETURN NULL;
EXCEPTION WHEN unique_violation THEN RETURN 'caught';
END $$;
BEGIN;
TRUNCATE f, child;
INSERT INTO f SELECT i % 1000, i, catches(i) FROM generate_series(1, 2000) i;
ROLLBACK;

-- foreign keys have looked for rows of the table before, in the same transaction
\set story 'TRUNCATE f, child; INSERT INTO f SELECT i, i FROM generate_series(1, 1500) i; BEGIN; TRUNCATE child; DELETE FROM f WHERE id = 3; INSERT INTO child SELECT i, 2 FROM generate_series(1, 2000) i; COMMIT; SELECT count(*), sum(f) FROM child; BEGIN; TRUNCATE child; DELETE FROM f; INSERT INTO f SELECT i, i FROM generate_series(1, 1500) i; INSERT INTO child SELECT i, 4 FROM generate_series(1, 2000) i; COMMIT; SELECT count(*), sum(f) FROM child;'
:there :story
:here :story
SELECT loaded();
BEGIN;
CREATE FOREIGN TABLE p2 (id int PRIMARY KEY) SERVER fresh;
CREATE FOREIGN TABLE c2 (id int PRIMARY KEY, p int REFERENCES p2) SERVER fresh;
INSERT INTO p2 SELECT generate_series(1, 10);
INSERT INTO c2 SELECT i, 2 FROM generate_series(1, 2000) i;
COMMIT;
SELECT count(*), sum(p) FROM c2;
DROP FOREIGN TABLE c2, p2;

-- who reads for a command that began before does not see them
CREATE FUNCTION public.fills(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO f SELECT j, j FROM generate_series(1, 2000) j; RETURN i; END $$;
CREATE FUNCTION public.one(i int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT a FROM f WHERE id = i); END $$;
\set story 'BEGIN; TRUNCATE f, child; SELECT fills(i), (rows()).n, one(i), stays(700) FROM generate_series(1, 1) i; SELECT (rows()).n, one(7); TRUNCATE f, child; DECLARE c CURSOR FOR SELECT (rows()).n, one(i) FROM generate_series(1, 3) i; FETCH c; INSERT INTO f SELECT i, i FROM generate_series(1, 2000) i; FETCH c; SELECT (rows()).n; COMMIT;'
:there :story
:here :story
SELECT loaded();

-- what it asks of Redis, per row: one command per hundred rows, and each row's bytes once
CREATE FUNCTION public.asked(command text, n int, OUT commands_per_100 bool, OUT bytes_per_row bool) LANGUAGE plpgsql AS $$
DECLARE commands bigint = counted('commands'); bytes bigint = counted('bytes_sent'); BEGIN
	EXECUTE command;
	commands_per_100 = (counted('commands') - commands) * 100.0 / n < 5;
	bytes_per_row = (counted('bytes_sent') - bytes) / n < 160;
END $$;
SET mosql_fdw.max_transaction_size = '1MB';
CREATE FOREIGN TABLE wide (id int OPTIONS (key 'true') NOT NULL, pad text) SERVER fresh;
BEGIN;
TRUNCATE wide;
SELECT * FROM asked($$INSERT INTO wide SELECT i, repeat('x', 84) FROM generate_series(1, 20000) i$$, 20000);
COMMIT;
SELECT count(*), min(id), max(id), sum(length(pad)) FROM wide;
SELECT bool_and(state IN ('normal', 'packed') AND intents = 0) AS sound, sum(entries) / count(*) >= 60 AS dense
FROM mosql_fdw_dump('wide') WHERE level = 0;
RESET mosql_fdw.max_transaction_size;
SET search_path = public;
DROP SCHEMA ours, native CASCADE;
DROP SERVER fresh CASCADE;
DROP FUNCTION counted, rows, mark, loaded, looks, stays, trigger_looks, catches, asked, fills, one;
