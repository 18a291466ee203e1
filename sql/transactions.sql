-- transactions as one session sees them
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE FOREIGN TABLE a (id int OPTIONS (key 'true') NOT NULL, v int) SERVER redis;
CREATE FOREIGN TABLE b (id int OPTIONS (key 'true') NOT NULL, v int) SERVER redis;
INSERT INTO a SELECT i, 0 FROM generate_series(1, 10) i;
CREATE FUNCTION show() RETURNS text LANGUAGE sql AS
	$$ SELECT string_agg(id || ':' || coalesce(v::text, '-'), ' ' ORDER BY id) FROM a $$;

-- savepoints: each way to write a row, kept and taken back
BEGIN;
UPDATE a SET v = 1 WHERE id = 1;
SAVEPOINT s1;
UPDATE a SET v = v + 10 WHERE id = 1;
UPDATE a SET v = v + 10 WHERE id = 2;
DELETE FROM a WHERE id = 3;
INSERT INTO a VALUES (11, 11);
UPDATE a SET id = 12 WHERE id = 4;
SELECT show();
SAVEPOINT s2;
DELETE FROM a WHERE id IN (1, 11, 12);
INSERT INTO a VALUES (3, 33), (1, 111);
UPDATE a SET v = v + 1 WHERE id IN (1, 3);
SELECT show();
ROLLBACK TO s2;
SELECT show();
UPDATE a SET v = v + 100 WHERE id = 2;
RELEASE s2;
SELECT show();
ROLLBACK TO s1;
SELECT show();
INSERT INTO a VALUES (11, 0);
DELETE FROM a WHERE id = 11;
INSERT INTO a VALUES (11, 1);
RELEASE s1;
DELETE FROM a WHERE id = 10;
COMMIT;
SELECT show();

-- a row inserted and deleted leaves nothing; one deleted and inserted stays
BEGIN; INSERT INTO a VALUES (20, 0); DELETE FROM a WHERE id = 20; COMMIT;
BEGIN; DELETE FROM a WHERE id = 11; INSERT INTO a VALUES (11, 5); COMMIT;
BEGIN; DELETE FROM a WHERE id = 11; SAVEPOINT s; INSERT INTO a VALUES (11, 6); ROLLBACK TO s; COMMIT;
SELECT show();
BEGIN; DELETE FROM a; SELECT show(); ROLLBACK;
SELECT show();

-- an error ends the transaction, a savepoint saves it
BEGIN;
INSERT INTO a VALUES (30, 0);
INSERT INTO a VALUES (30, 1);
SELECT show();
COMMIT;
BEGIN;
INSERT INTO a VALUES (30, 0);
SAVEPOINT s;
INSERT INTO a VALUES (1, 1);
ROLLBACK TO s;
INSERT INTO a VALUES (31, 0);
COMMIT;
SELECT show();

-- exception blocks
DO $$
BEGIN
	FOR i IN 28 .. 33 LOOP
		BEGIN
			INSERT INTO a VALUES (i, i);
			IF i = 33 THEN
				RAISE division_by_zero;
			END IF;
		EXCEPTION
			WHEN unique_violation THEN
				UPDATE a SET v = v - 1 WHERE id = i;
			WHEN division_by_zero THEN
				NULL;
		END;
	END LOOP;
END $$;
SELECT show();
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			UPDATE a SET v = v + 1 WHERE id = 1;
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'never mind';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT v FROM a WHERE id = 1;

-- procedures commit in between
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 4 LOOP
		INSERT INTO b VALUES (i, i);
		IF i % 2 = 0 THEN
			COMMIT;
		ELSE
			ROLLBACK;
		END IF;
	END LOOP;
END $$;
CALL steps();
SELECT * FROM b ORDER BY id;
CREATE PROCEDURE walk() LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT id FROM a ORDER BY id LOOP
		UPDATE b SET v = v + 1 WHERE id = 2;
		COMMIT;
	END LOOP;
END $$;
CALL walk();
SELECT * FROM b ORDER BY id;

-- cursors see what was there when they were opened
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM a ORDER BY id;
FETCH 2 FROM c;
DELETE FROM a WHERE id = 5;
INSERT INTO a VALUES (6000, 0);
FETCH 3 FROM c;
MOVE LAST FROM c;
FETCH RELATIVE 0 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH ABSOLUTE 5 FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT id FROM a WHERE id < 4 ORDER BY id DESC;
COMMIT;
FETCH ALL FROM c;
CLOSE c;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM a ORDER BY id FOR UPDATE;
FETCH 1 FROM c;
UPDATE a SET v = 1000 WHERE CURRENT OF c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM a ORDER BY id;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
SAVEPOINT s2;
DECLARE d CURSOR FOR SELECT id FROM a ORDER BY id DESC;
FETCH 1 FROM d;
ROLLBACK TO s2;
FETCH 1 FROM d;
COMMIT;
-- ... also where the first row is asked for after a savepoint that goes
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM a ORDER BY id;
DECLARE d CURSOR FOR SELECT id, v FROM a WHERE id IN (1, 2, 31) ORDER BY id;
DECLARE e CURSOR FOR SELECT id, v FROM a WHERE id = 31;
DECLARE f CURSOR FOR SELECT id FROM a ORDER BY id DESC;
SAVEPOINT s;
DELETE FROM a WHERE id <= 2;
UPDATE a SET v = -1000 WHERE id = 31;
SAVEPOINT s2;
FETCH 1 FROM c;
FETCH 1 FROM d;
FETCH 1 FROM e;
ROLLBACK TO s2;
FETCH 1 FROM f;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 2 FROM c;
CLOSE c;
FETCH ALL FROM d;
FETCH 1 FROM e;
CLOSE e;
FETCH 1 FROM f;
SELECT count(*) FROM a WHERE id <= 2;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT id FROM a ORDER BY id;
DECLARE d SCROLL CURSOR FOR SELECT id FROM a ORDER BY id DESC;
DECLARE e CURSOR FOR SELECT x.id, y.v FROM a x JOIN a y USING (id) WHERE id IN (1, 2, 31) ORDER BY id;
SAVEPOINT s;
INSERT INTO a VALUES (0, 0), (9000, 0);
FETCH 1 FROM c;
FETCH 1 FROM d;
FETCH 1 FROM e;
ROLLBACK TO s;
FETCH 1 FROM c;
SAVEPOINT s;
FETCH 1 FROM d;
FETCH BACKWARD 1 FROM d;
RELEASE s;
FETCH 1 FROM d;
CLOSE d;
FETCH ALL FROM e;
CLOSE e;
CLOSE c;
SELECT id FROM a ORDER BY id LIMIT 1;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
DECLARE c CURSOR FOR SELECT id FROM a ORDER BY id;
SAVEPOINT s;
FETCH 1 FROM c;
SELECT 1 / 0;
ROLLBACK TO s;
FETCH 1 FROM c;
CLOSE c;
UPDATE a SET v = v WHERE id = 1;
COMMIT;
DO $$
DECLARE
	c refcursor;
	r int;
	seen int[];
BEGIN
	OPEN c FOR SELECT id FROM a ORDER BY id;
	FOR i IN 1 .. 3 LOOP
		BEGIN
			FETCH c INTO r;
			seen := seen || r;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			FETCH c INTO r;
			seen := seen || r;
		END;
	END LOOP;
	CLOSE c;
	RAISE WARNING '%', seen;
END $$;

-- statements do not see what they do themselves; those after do
BEGIN;
INSERT INTO a SELECT id + 100, v FROM a WHERE id <= 3;
WITH moved AS (DELETE FROM a WHERE id > 100 RETURNING *), more AS (INSERT INTO a SELECT id + 100, v FROM moved RETURNING id)
SELECT (SELECT count(*) FROM a WHERE id > 100), (SELECT count(*) FROM more);
SELECT count(*) FROM a WHERE id > 200;
WITH u AS (UPDATE a SET v = v + 1 WHERE id = 1) UPDATE a SET v = v + 1 WHERE id = 1;
UPDATE a SET v = 7 FROM (VALUES (1), (1), (2)) x(i) WHERE id = i;
CREATE FUNCTION peek() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT count(*) FROM a WHERE id > 300 $$;
CREATE FUNCTION peek_stable() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT count(*) FROM a WHERE id > 300 $$;
INSERT INTO a SELECT 300 + i, peek() + peek_stable() * 10 FROM generate_series(1, 3) i RETURNING *;
SELECT peek(), peek_stable();
ROLLBACK;

-- isolation levels and access modes
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT v FROM a WHERE id = 2;
UPDATE a SET v = v + 1 WHERE id = 2;
SELECT v FROM a WHERE id = 2;
INSERT INTO b VALUES (50, 0);
UPDATE b SET v = v + 1 WHERE id >= 2;
SELECT * FROM b ORDER BY id;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(v) FROM b;
INSERT INTO b SELECT 51, sum(v) FROM b;
SELECT count(*) FROM b WHERE id > 1000;
DELETE FROM b WHERE id = 50;
COMMIT;
BEGIN ISOLATION LEVEL READ UNCOMMITTED;
UPDATE b SET v = 0 WHERE id = 51;
COMMIT;
SELECT * FROM b ORDER BY id;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*) FROM b;
COMMIT;
BEGIN READ ONLY;
SELECT count(*) FROM b;
SELECT outcome('UPDATE b SET v = 1');
SELECT outcome('UPDATE b SET v = v + 1 WHERE id = 2');
SELECT outcome('DELETE FROM b');
SELECT outcome('TRUNCATE b');
SELECT outcome('SELECT * FROM b FOR UPDATE');
COMMIT;
BEGIN;
INSERT INTO b VALUES (60, 60);
SET TRANSACTION READ ONLY;
SELECT outcome('INSERT INTO b VALUES (61, 61)');
COMMIT;
SELECT count(*) FROM b WHERE id = 60;

-- FOR UPDATE and its weaker forms
BEGIN;
SELECT * FROM a WHERE id = 1 FOR UPDATE;
SELECT id FROM a WHERE id < 4 ORDER BY id FOR NO KEY UPDATE NOWAIT;
SELECT a.id, b.id FROM a JOIN b USING (id) ORDER BY 1 FOR SHARE OF b SKIP LOCKED;
SELECT id FROM a ORDER BY id LIMIT 1 FOR KEY SHARE;
UPDATE a SET v = 0 WHERE id = 1;
COMMIT;
SELECT v FROM a WHERE id = 1;

-- several servers, and a local table, in one transaction
\getenv plain MOSQL_PLAIN
CREATE SERVER other FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'plain', namespace 'transactions');
CREATE FOREIGN TABLE far (id int OPTIONS (key 'true') NOT NULL, v int) SERVER other;
CREATE TABLE near (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO far VALUES (1, 1);
INSERT INTO b VALUES (70, 1);
INSERT INTO near VALUES (1);
SELECT far.id, near.id, b.id FROM far, near, b WHERE b.id = 70;
COMMIT;
BEGIN;
INSERT INTO far VALUES (2, 1);
INSERT INTO b VALUES (71, 1);
INSERT INTO near VALUES (1);
COMMIT;
BEGIN;
INSERT INTO far VALUES (3, 1);
INSERT INTO b VALUES (72, 1);
ROLLBACK;
SELECT (SELECT array_agg(id) FROM far), (SELECT array_agg(id) FROM b WHERE id >= 70), (SELECT count(*) FROM near);

-- an error on the way to the decision: nothing of it is there, and life goes on
SELECT show() AS before \gset
SET mosql_fdw.one_step = off;	-- which leaves what is beside the clock to the step that decides
SET mosql_fdw.debug_error_at = 'before-prepare';
BEGIN; UPDATE a SET v = v + 1; INSERT INTO a VALUES (99, 0); COMMIT;
SET mosql_fdw.debug_error_at = 'prepare-some';
BEGIN; UPDATE a SET v = v + 1; INSERT INTO a VALUES (99, 0); COMMIT;
SET mosql_fdw.debug_error_at = 'after-prepare';
BEGIN; UPDATE a SET v = v + 1; INSERT INTO a VALUES (99, 0); COMMIT;
RESET mosql_fdw.debug_error_at;
RESET mosql_fdw.one_step;
SELECT show() = :'before' AS unchanged;
UPDATE a SET v = v + 1;
INSERT INTO a VALUES (99, 0);
SELECT show();

-- prepared transactions: only such that did not use our tables
BEGIN; SELECT count(*) FROM b; PREPARE TRANSACTION 'mosql';
BEGIN; PREPARE TRANSACTION 'mosql'; ROLLBACK PREPARED 'mosql';

-- a read mark goes with its transaction, also beside an increment that goes into a history
INSERT INTO b VALUES (901, 0), (902, 0), (903, 0);
SELECT value AS before FROM mosql_fdw_stats() WHERE name = 'prepare_retries' \gset
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT v FROM b WHERE id = 901;
UPDATE b SET v = v + 1 WHERE id = 902;
COMMIT;
UPDATE b SET v = 8 WHERE id = 903;
SELECT value - :before AS retries FROM mosql_fdw_stats() WHERE name = 'prepare_retries';

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE a, b, far;
DROP TABLE near;
DROP SERVER other;
DROP FUNCTION show;
DROP PROCEDURE steps, walk;
