-- rows that a session's transactions usually increment are looked at with the first of each
SET client_min_messages = warning;
SET mosql_fdw.one_step = on;
CREATE FOREIGN TABLE account (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis OPTIONS (compression 'none');
CREATE FOREIGN TABLE teller (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis OPTIONS (compression 'none');
CREATE FOREIGN TABLE branch (id int OPTIONS (key 'true') NOT NULL, n int, small smallint DEFAULT 32000) SERVER redis OPTIONS (compression 'none');
INSERT INTO account SELECT i, 0 FROM generate_series(1, 60) i;
INSERT INTO teller SELECT i, 0 FROM generate_series(1, 40) i;
INSERT INTO branch SELECT i, 0 FROM generate_series(1, 4) i;
CREATE FUNCTION trips() RETURNS bigint LANGUAGE sql AS $$SELECT value FROM mosql_fdw_stats() WHERE name = 'round_trips'$$;
-- A transaction like TPC-B's: the round trips of its second and third row.
CREATE PROCEDURE transfer(a int, t int, b int, INOUT more bigint DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
	COMMIT;
	UPDATE account SET n = n + 1 WHERE id = a;
	more := trips();
	UPDATE teller SET n = n + 1 WHERE id = t;
	UPDATE branch SET n = n + 1 WHERE id = b;
	more := trips() - more;
	COMMIT;
END $$;
-- The least of some: on a busy machine one may wait for a second, after which all is looked at once more.
CREATE PROCEDURE transfers(t int, b int, INOUT fewest bigint DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	more bigint;
BEGIN
	FOR i IN 1 .. 5 LOOP
		CALL transfer(i, t, b, more);
		fewest := least(fewest, more);
	END LOOP;
END $$;
CALL transfers(1, 1);
-- not those that are not there, or not alone in being asked for
DO $$ DECLARE more bigint; BEGIN CALL transfers(99, 4, more); CALL transfers(5, 99, more); END $$;
UPDATE teller SET n = n + 1 WHERE id IN (1, 2);
DO $$ DECLARE more bigint; BEGIN CALL transfers(6, 4, more); END $$;
-- above READ COMMITTED a row is as of the snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE account SET n = n + 1 WHERE id = 7;
SELECT trips() AS trips \gset
UPDATE branch SET n = n + 1 WHERE id = 1;
SELECT trips() > :trips AS more;
COMMIT;
-- who looks at it is shown what is there now, and holds it
BEGIN;
UPDATE account SET n = n + 1 WHERE id = 9;
UPDATE teller SET n = n + 1 WHERE id = 9;
SELECT n FROM teller WHERE id = 9;
COMMIT;
-- with a savepoint; and a tree that is gone meanwhile
BEGIN;
UPDATE account SET n = n + 1 WHERE id = 10;
SAVEPOINT s;
UPDATE teller SET n = n + 1 WHERE id = 10;
ROLLBACK TO s;
UPDATE teller SET n = n + 2 WHERE id = 10;
TRUNCATE branch;
UPDATE branch SET n = n + 1 WHERE id = 3;
COMMIT;
DO $$ DECLARE more bigint; BEGIN CALL transfer(11, 11, 3, more); END $$;
INSERT INTO branch VALUES (3, 0, 0);
CALL transfers(12, 3);
SELECT sum(n), count(*) FILTER (WHERE n > 0) FROM account;
SELECT id, n FROM teller WHERE n > 0 ORDER BY id;
SELECT * FROM branch ORDER BY id;
-- a tree whose leaves are wanted no more rests, and comes again
DO $$ BEGIN FOR i IN 1 .. 6 LOOP UPDATE account SET n = n + 1 WHERE id = i; COMMIT; END LOOP; END $$;
DO $$ DECLARE more bigint; BEGIN FOR i IN 1 .. 40 LOOP CALL transfer(i, 1 + i % 40, 3, more); END LOOP; END $$;
CALL transfers(15, 3);
DROP FOREIGN TABLE account, teller, branch;
DROP PROCEDURE transfer, transfers;
DROP FUNCTION trips;
