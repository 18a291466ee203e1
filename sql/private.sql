-- trees that nobody else knows: filled at once, seen with the definition that names them
SET client_min_messages = warning;
CREATE FUNCTION loaded() RETURNS bigint LANGUAGE sql AS
	$$ SELECT value FROM mosql_fdw_stats() WHERE name = 'rows_loaded' $$;
CREATE FUNCTION shape(t regclass) RETURNS TABLE (sound bool, dense bool) LANGUAGE sql AS $$
	SELECT bool_and(state IN ('normal', 'packed') AND intents = 0), sum(entries) / count(*) >= 60
	FROM mosql_fdw_dump(t) WHERE level = 0 $$;
CREATE FOREIGN TABLE p (id int OPTIONS (key 'true') NOT NULL, a int, b text) SERVER redis;
INSERT INTO p SELECT i, i * 7919 % 10007, 'row ' || i FROM generate_series(1, 10000) i;
SELECT loaded() AS before \gset

-- an index, alone; rows bear a version that all later snapshots see
CREATE INDEX p_a ON p (a);
SELECT loaded() - :before AS entries;
SELECT count(*), sum(a) FROM p WHERE a BETWEEN 100 AND 9000;
SELECT * FROM mosql_fdw_check('p');
CREATE UNIQUE INDEX p_u ON p ((a % 5000));
SELECT * FROM mosql_fdw_check('p');

-- copies, beyond what a transaction may keep; in the order of another key
SET mosql_fdw.max_transaction_size = '1MB';
SELECT loaded() AS before \gset
ALTER FOREIGN TABLE p ALTER COLUMN id OPTIONS (DROP key), ALTER COLUMN a OPTIONS (ADD key 'true'),
	ALTER COLUMN a SET NOT NULL;
SELECT loaded() - :before AS rows_and_entries;
SELECT * FROM shape('p');
SELECT * FROM mosql_fdw_check('p');
SELECT count(*), sum(id), sum(a), min(b), max(b) FROM p;
SELECT id, b FROM p WHERE a = 7919;
ALTER FOREIGN TABLE p ALTER COLUMN a OPTIONS (DROP key), ALTER COLUMN b OPTIONS (ADD key 'true'),
	ALTER COLUMN b SET NOT NULL;
ALTER FOREIGN TABLE p ALTER COLUMN b TYPE varchar(3);
ALTER FOREIGN TABLE p ALTER COLUMN id TYPE bigint;
SELECT * FROM mosql_fdw_check('p');
SELECT count(*), sum(id), sum(a), min(b), max(b) FROM p;
RESET mosql_fdw.max_transaction_size;

-- duplicates of a new key: nothing has happened
INSERT INTO p VALUES (1, -1, 'the same id');
ALTER FOREIGN TABLE p ALTER COLUMN b OPTIONS (DROP key), ALTER COLUMN id OPTIONS (ADD key 'true'),
	ALTER COLUMN id SET NOT NULL;
CREATE UNIQUE INDEX ON p (id);
SELECT count(*) FROM p WHERE a IN (-1, 7919);
DELETE FROM p WHERE a = -1;
SELECT * FROM mosql_fdw_check('p');

-- the transaction reads and changes what it has loaded; savepoints
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM p;
UPDATE p SET a = -2 WHERE b = 'row 2';
CREATE INDEX p_ab ON p (a, b);
SELECT a, b FROM p WHERE a < 3 ORDER BY a, b;
UPDATE p SET a = a - 10 WHERE a < 3;
DELETE FROM p WHERE a = -8;
INSERT INTO p VALUES (0, -5, 'new');
SELECT a, b FROM p WHERE a < 3 ORDER BY a, b;
SAVEPOINT s;
ALTER FOREIGN TABLE p ALTER COLUMN a TYPE bigint;
SELECT a, b FROM p WHERE a < 3 ORDER BY a, b;
UPDATE p SET a = 99999 WHERE b = 'new';
CREATE INDEX p_b ON p (b DESC);
ROLLBACK TO s;
SELECT a, b FROM p WHERE a < 3 ORDER BY a, b;
SAVEPOINT t;
ALTER FOREIGN TABLE p ALTER COLUMN a TYPE bigint;
RELEASE t;
SELECT a, b FROM p WHERE a < 3 ORDER BY a, b;
COMMIT;
SELECT a, b FROM p WHERE a < 3 ORDER BY a, b;
SELECT pg_typeof(a), count(*) FROM p GROUP BY 1;
SELECT * FROM mosql_fdw_check('p');
BEGIN;
ALTER FOREIGN TABLE p ALTER COLUMN a TYPE int;
DROP INDEX p_ab;
CREATE INDEX p_ab ON p (b, a);
ROLLBACK;
SELECT a, b FROM p WHERE a < 3 ORDER BY a, b;

-- increments of loaded rows, ON CONFLICT, an empty table, a row larger than a leaf
UPDATE p SET id = id + 1 WHERE b = 'new';
INSERT INTO p VALUES (0, 0, 'new') ON CONFLICT (b) DO UPDATE SET a = p.a - 1;
SELECT id, a FROM p WHERE b = 'new';
CREATE FOREIGN TABLE e (id int, v text) SERVER redis;
CREATE INDEX ON e (md5(v));
ALTER FOREIGN TABLE e ALTER COLUMN id OPTIONS (ADD key 'true'), ALTER COLUMN id SET NOT NULL;
INSERT INTO e SELECT i, repeat(chr(64 + i), 20000 * i) FROM generate_series(1, 9) i;
ALTER FOREIGN TABLE e ALTER COLUMN id TYPE bigint;
SELECT id, length(v), left(v, 1) FROM e ORDER BY id;
SELECT * FROM mosql_fdw_check('e');
DROP FOREIGN TABLE p, e;
DROP FUNCTION loaded, shape;
