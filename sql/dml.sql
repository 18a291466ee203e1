-- insert, update, delete, in all their forms
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text, n int DEFAULT 0) SERVER redis;
INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);
SELECT * FROM t ORDER BY id;
INSERT INTO t VALUES (2, 'again');
\set VERBOSITY default
INSERT INTO t VALUES (4, 'four'), (4, 'four again');
\set VERBOSITY terse
INSERT INTO t (v) VALUES ('no key');
SELECT count(*) FROM t;
INSERT INTO t (id, v) VALUES (4, 'four') RETURNING *;
INSERT INTO t VALUES (4, 'ignored') ON CONFLICT DO NOTHING;
UPDATE t SET v = upper(v) WHERE id = 2 RETURNING id, v;
UPDATE t SET n = n + 10;
UPDATE t SET n = n + 10 WHERE id = 3;
UPDATE t SET n = n - 1, v = v || '!' WHERE id IN (1, 3);
SELECT * FROM t ORDER BY id DESC;
UPDATE t SET id = id + 100 WHERE id = 1;
UPDATE t SET id = 2 WHERE id = 3;
SELECT * FROM t ORDER BY id;
DELETE FROM t WHERE id = 101 RETURNING v;
UPDATE t SET n = s.x FROM (VALUES (2, 22), (3, 33)) s(i, x) WHERE t.id = s.i;
DELETE FROM t USING (VALUES (2)) s(i) WHERE t.id = s.i;
SELECT * FROM t ORDER BY id;

-- increments: overflow and NULL
INSERT INTO t VALUES (10, 'max', 2147483647), (11, 'null', NULL);
UPDATE t SET n = n + 1 WHERE id = 10;
UPDATE t SET n = n + 1 WHERE id = 11;
UPDATE t SET n = n + NULL WHERE id = 3;
UPDATE t SET n = n + 1 WHERE id = 99;
-- what is added is evaluated for rows, not for none
UPDATE t SET n = n + 1 / (SELECT 0) WHERE id = 99;
UPDATE t SET n = n + 1 / (SELECT 0) WHERE id IN (4, 99);
SELECT * FROM t ORDER BY id;

-- increments whose sum is none of 64 bits
ALTER TABLE t ADD COLUMN big bigint;
UPDATE t SET big = -9000000000000000000 WHERE id = 4;
BEGIN;
UPDATE t SET big = big + 9000000000000000000 WHERE id = 4;
UPDATE t SET big = big + 9000000000000000000 WHERE id = 4;
SAVEPOINT a;
UPDATE t SET big = big + 9000000000000000000 WHERE id = 4;
ROLLBACK TO a;
COMMIT;
SELECT big FROM t WHERE id = 4;
ALTER TABLE t DROP COLUMN big;

-- statements see earlier commands, not themselves; savepoints
BEGIN;
INSERT INTO t SELECT id + 1000, v FROM t;
SELECT count(*) FROM t;
SAVEPOINT a;
DELETE FROM t WHERE id > 1000;
SELECT count(*) FROM t;
ROLLBACK TO a;
SELECT count(*) FROM t;
UPDATE t SET n = coalesce(n, 0) + 1 WHERE id = 3;
UPDATE t SET n = n + 1 WHERE id = 3;
SAVEPOINT b;
UPDATE t SET n = n + 100 WHERE id = 3;
SELECT n FROM t WHERE id = 3;
ROLLBACK TO b;
SELECT n FROM t WHERE id = 3;
DELETE FROM t WHERE id = 3;
INSERT INTO t VALUES (3, 'reborn', 1);
UPDATE t SET n = n + 1 WHERE id = 3;
COMMIT;
SELECT * FROM t ORDER BY id;

-- constraints, generated columns, triggers
CREATE FOREIGN TABLE c (id int OPTIONS (key 'true') NOT NULL, a int NOT NULL CHECK (a > 0),
    b int GENERATED ALWAYS AS (a * 2) STORED) SERVER redis;
INSERT INTO c VALUES (1, 5);
INSERT INTO c VALUES (2, -5);
INSERT INTO c VALUES (3, NULL);
UPDATE c SET a = -1;
UPDATE c SET a = 6 RETURNING *;
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.a := NEW.a + 1; RETURN NEW; END $$;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE WARNING '% % -> %', TG_OP, OLD, NEW; RETURN NULL; END $$;
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON c FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO c VALUES (4, 10);
UPDATE c SET a = a + 1 WHERE id = 4;
DELETE FROM c WHERE id = 4;

-- no key: a hidden row id
CREATE FOREIGN TABLE h (a int, b text) SERVER redis;
INSERT INTO h VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
SELECT * FROM h ORDER BY a;
UPDATE h SET b = 'y' WHERE a = 1;
DELETE FROM h WHERE a IS NULL;
SELECT * FROM h ORDER BY a;
TRUNCATE h;
SELECT count(*) FROM h;
INSERT INTO h VALUES (2, 'after');
BEGIN; TRUNCATE h; INSERT INTO h VALUES (3, 'in'); ROLLBACK;
SELECT * FROM h;

-- COPY
COPY t FROM stdin;
200	copied	1
201	\N	\N
\.
COPY t FROM stdin;
202	copied	1
200	duplicate	1
\.
COPY (SELECT * FROM t WHERE id >= 200 ORDER BY id) TO stdout;

-- partitions
CREATE TABLE p (id int NOT NULL, v text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE p1 (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
CREATE FOREIGN TABLE p2 (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (100);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200);
INSERT INTO p SELECT i, 'v' || i FROM generate_series(0, 199, 25) i;
SELECT tableoid::regclass, * FROM p ORDER BY id;
UPDATE p SET id = id + 100 WHERE id = 25;
SELECT count(*) FROM p1; SELECT count(*) FROM p2;

-- read only, prepared transactions
BEGIN READ ONLY; INSERT INTO t VALUES (999); ROLLBACK;
BEGIN; INSERT INTO t VALUES (999, 'x'); PREPARE TRANSACTION 'x';
SELECT c.* FROM (VALUES ('t'), ('c'), ('h'), ('p1'), ('p2')) v(t), mosql_fdw_check(t::regclass) c;
DROP TABLE p; DROP FOREIGN TABLE t, c, h; DROP FUNCTION stamp, note;

-- a row that a command inside of the command has changed: said, and nothing done
CREATE FOREIGN TABLE inside (id int OPTIONS (key 'true') NOT NULL, v int) SERVER redis;
INSERT INTO inside VALUES (1, 10), (2, 20);
CREATE FUNCTION change_inside(which int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN UPDATE inside SET v = v + 1 WHERE id = which; RETURN 0; END';
CREATE FUNCTION change_other() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN PERFORM change_inside(2); RETURN coalesce(NEW, OLD); END';
UPDATE inside SET v = v + change_inside(id);
CREATE TRIGGER other BEFORE UPDATE OR DELETE ON inside FOR EACH ROW WHEN (OLD.id = 1)
	EXECUTE FUNCTION change_other();
UPDATE inside SET v = v + 10;
DELETE FROM inside;
UPDATE inside SET v = v + 10 WHERE id = 1;
SELECT * FROM inside ORDER BY id;
DROP FOREIGN TABLE inside;
DROP FUNCTION change_inside, change_other;
