-- ALTER of tables that have rows: what touches none, and what copies all
\set VERBOSITY terse
SET client_min_messages = notice;
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true'), v varchar(10), n int) SERVER redis;
INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 1000) i;
-- the root of its tree tells a copy from a change of the definition
CREATE FUNCTION root() RETURNS text LANGUAGE sql AS
	$$ SELECT node FROM mosql_fdw_dump('t') ORDER BY level DESC LIMIT 1 $$;
SELECT root() AS root \gset

-- defaults that are the same for all rows are kept in the definition
SELECT mosql_fdw_stats_reset();
ALTER FOREIGN TABLE t ADD COLUMN a int DEFAULT 5, ADD COLUMN b text NOT NULL DEFAULT 'some' || ' text',
	ADD COLUMN c numeric(6,2) DEFAULT 1.5, ADD COLUMN d int DEFAULT NULL, ADD COLUMN e timestamptz DEFAULT now();
SELECT value FROM mosql_fdw_stats() WHERE name = 'leaf_reads';
SELECT root() = :'root' AS in_place;
SELECT id, v, n, a, b, c, d, e < now() AS e FROM t WHERE id = 7;
INSERT INTO t VALUES (1001, 'new', 1, NULL, 'set', NULL);
INSERT INTO t (id) VALUES (1002);
UPDATE t SET a = NULL WHERE id = 1;
UPDATE t SET n = n + 1, a = a + 1 WHERE id = 2;
UPDATE t SET n = n + 1 WHERE id = 3;
ALTER FOREIGN TABLE t ALTER a SET DEFAULT 6;
INSERT INTO t (id) VALUES (1003);
SELECT id, v, n, a, b, c, d, e IS NULL AS e FROM t WHERE id <= 4 OR id > 999 ORDER BY id;
SELECT count(a), sum(a), count(*) FILTER (WHERE a IS NULL) AS nulls, min(b), max(b), count(DISTINCT e) FROM t;
SELECT count(*) FROM t WHERE a = 5;
UPDATE t SET a = a + 1 WHERE a = 5;
SELECT sum(a) FROM t;
EXPLAIN (costs off) UPDATE t SET a = a + 1 WHERE id = 2;
EXPLAIN (costs off) UPDATE t SET n = n + 1 WHERE id = 2;
ALTER FOREIGN TABLE t DROP COLUMN a, DROP COLUMN b, DROP COLUMN c, DROP COLUMN d, DROP COLUMN e;
ALTER FOREIGN TABLE t ADD COLUMN a int;
SELECT count(a) FROM t;
ALTER FOREIGN TABLE t ADD COLUMN b int NOT NULL;

-- wider and equal types
ALTER FOREIGN TABLE t ALTER v TYPE varchar(20);
ALTER FOREIGN TABLE t ALTER v TYPE text;
ALTER FOREIGN TABLE t ALTER v TYPE text COLLATE "C";
SELECT root() = :'root' AS in_place, count(v), max(v) FROM t;

-- other types copy the rows
ALTER FOREIGN TABLE t ALTER n TYPE numeric(12,2), ALTER id TYPE bigint;
SELECT root() = :'root' AS in_place, count(*), sum(n), max(id) FROM t;
SELECT * FROM t WHERE id = 7;
ALTER FOREIGN TABLE t ALTER v TYPE varchar(3);
ALTER FOREIGN TABLE t ALTER n TYPE text, ALTER v TYPE int;
SELECT * FROM t WHERE id = 7;

-- defaults that differ, generated columns, and constraints on the way
CREATE SEQUENCE s;
ALTER FOREIGN TABLE t ADD COLUMN s bigint DEFAULT nextval('s'), ADD COLUMN g text GENERATED ALWAYS AS (v || '!') STORED;
SELECT count(DISTINCT s), min(s), max(s), max(g) FROM t;
SELECT g FROM t WHERE id = 7;

-- keys
ALTER FOREIGN TABLE t ALTER v OPTIONS (ADD key 'true');
UPDATE t SET v = 'none' WHERE v IS NULL;
ALTER FOREIGN TABLE t ALTER v OPTIONS (ADD key 'true');
\d t
EXPLAIN (costs off) SELECT * FROM t WHERE id = 7 AND v = 'v7';
SELECT id, v, n FROM t WHERE id = 7 AND v = 'v7';
ALTER FOREIGN TABLE t ALTER id OPTIONS (DROP key), ALTER v OPTIONS (DROP key);
SELECT count(*), sum(id) FROM t;
UPDATE t SET id = 1 WHERE id = 2;
ALTER TABLE t ADD PRIMARY KEY (id);
ALTER TABLE t ADD PRIMARY KEY (nosuch);
ALTER TABLE t ADD PRIMARY KEY (id, v) DEFERRABLE;
ALTER TABLE t ADD CONSTRAINT my_key PRIMARY KEY (id, v);
ALTER TABLE t ADD PRIMARY KEY (id);
-- its index is not there while a column of it gets another type
ALTER TABLE t ALTER id TYPE numeric, ADD PRIMARY KEY (v);
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'p';
ALTER FOREIGN TABLE t DROP COLUMN id;
INSERT INTO t (id, v) VALUES (1, 'v1');
SELECT * FROM mosql_fdw_check('t');

-- rolled back, it leaves nothing
SELECT root() AS root \gset
BEGIN;
ALTER FOREIGN TABLE t ALTER n TYPE int USING 1;
ROLLBACK;
BEGIN;
UPDATE t SET n = -3 WHERE id = 3;
SAVEPOINT s;
ALTER FOREIGN TABLE t ALTER id TYPE text;
SELECT id, v, n FROM t WHERE id = '3';
ROLLBACK TO s;
SELECT id, v, n FROM t WHERE id = 3;
ALTER FOREIGN TABLE t ALTER id TYPE text;
SELECT id, v, n FROM t WHERE id = '3';
ROLLBACK;
SELECT root() = :'root' AS in_place, id, v, n FROM t WHERE id = 3;
SELECT count(*) FROM t;
SELECT * FROM mosql_fdw_check('t');

-- rows have what ADD COLUMN says, also where the same command sets another default
ALTER TABLE t ADD COLUMN later int, ALTER later SET DEFAULT 5, ALTER earlier SET DEFAULT 2, ADD COLUMN earlier int DEFAULT 1;
ALTER TABLE t ADD COLUMN never int NOT NULL, ALTER never SET DEFAULT 5;
INSERT INTO t (id, v) VALUES (1000000, 'new');
SELECT earlier, later, count(*) FROM t GROUP BY 1, 2 ORDER BY 1;
CREATE TABLE above (id int, v int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE above_1 PARTITION OF above FOR VALUES FROM (1) TO (10) SERVER redis;
INSERT INTO above VALUES (1, 1);
ALTER TABLE above ADD COLUMN x int, ALTER x SET DEFAULT 5;
ALTER TABLE above ADD COLUMN y int NOT NULL, ALTER y SET DEFAULT 5;
ALTER TABLE above ADD COLUMN IF NOT EXISTS x int, ALTER x SET DEFAULT 6;
INSERT INTO above VALUES (2, 2);
SELECT * FROM above ORDER BY id;
DROP TABLE above;
CREATE TABLE above (id int);
CREATE FOREIGN TABLE above_1 () INHERITS (above) SERVER redis;
INSERT INTO above_1 VALUES (1);
ALTER TABLE above ALTER x SET DEFAULT 5, ADD COLUMN x int;
SELECT * FROM above;
DROP FOREIGN TABLE above_1;
DROP TABLE above;
DROP FOREIGN TABLE t;
DROP SEQUENCE s;
DROP FUNCTION root;
