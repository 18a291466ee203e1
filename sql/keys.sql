-- keys are PostgreSQL's primary keys: pg_index, pg_constraint, ON CONFLICT
\set VERBOSITY terse
SET client_min_messages = notice;
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true'), v text, n int DEFAULT 0) SERVER redis;
CREATE FOREIGN TABLE pair (a int OPTIONS (key 'true'), b text OPTIONS (key 'true') COLLATE "C",
	c int, d int GENERATED ALWAYS AS (c * 2) STORED) SERVER redis;
CREATE FOREIGN TABLE keyless (a int) SERVER redis;

CREATE FUNCTION keys(relation regclass) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s: %s%s', i.indexrelid::regclass, pg_get_indexdef(i.indexrelid),
		', constraint ' || pg_get_constraintdef(c.oid))
	FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid
	WHERE i.indrelid = relation $$;
SELECT keys('t');
SELECT keys('pair');
SELECT keys('keyless');
SELECT attname FROM pg_attribute WHERE attrelid IN ('t'::regclass, 'pair'::regclass) AND attnum > 0
	AND attnotnull ORDER BY 1;

-- DO NOTHING
INSERT INTO t VALUES (1, 'one'), (2, 'two');
INSERT INTO t VALUES (1, 'again'), (3, 'three'), (3, 'twice') ON CONFLICT (id) DO NOTHING RETURNING id, v;
INSERT INTO t SELECT i, 'more' FROM generate_series(1, 6) i ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING;
INSERT INTO t VALUES (1, 'again') ON CONFLICT (v) DO NOTHING;
INSERT INTO keyless VALUES (1) ON CONFLICT DO NOTHING;
INSERT INTO keyless VALUES (1) ON CONFLICT (a) DO NOTHING;

-- DO UPDATE
INSERT INTO t VALUES (1, 'ONE'), (7, 'seven') ON CONFLICT (id)
	DO UPDATE SET v = excluded.v, n = t.n + 1 RETURNING *;
INSERT INTO t AS old VALUES (1, 'uno'), (2, 'dos') ON CONFLICT (id)
	DO UPDATE SET v = excluded.v || ' was ' || old.v WHERE old.n > 0 RETURNING *;
INSERT INTO t VALUES (8, 'a'), (8, 'b') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO t VALUES (1, 'a'), (1, 'b') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO t VALUES (7, '') ON CONFLICT (id) DO UPDATE SET id = 70 RETURNING id;
INSERT INTO t VALUES (70, '') ON CONFLICT (id) DO UPDATE SET id = 1;
INSERT INTO t VALUES (70, '') ON CONFLICT (id) DO UPDATE SET (v, n) = (SELECT 'sub', count(*) FROM keyless) RETURNING *;
SELECT * FROM t ORDER BY id;

-- the same transaction's rows, savepoints, prepared statements, CTEs
BEGIN;
INSERT INTO t VALUES (20, 'new') ON CONFLICT (id) DO UPDATE SET v = 'never';
INSERT INTO t VALUES (20, 'newer') ON CONFLICT (id) DO UPDATE SET v = t.v || ', ' || excluded.v;
SAVEPOINT s;
DELETE FROM t WHERE id = 20;
INSERT INTO t VALUES (20, 'after delete') ON CONFLICT (id) DO UPDATE SET v = 'never' RETURNING v;
ROLLBACK TO s;
UPDATE t SET n = n + 1 WHERE id = 20;
INSERT INTO t VALUES (20, 'x') ON CONFLICT (id) DO UPDATE SET n = t.n * 10 RETURNING *;
COMMIT;
SELECT * FROM t WHERE id = 20;
PREPARE upsert (int, text) AS INSERT INTO t VALUES ($1, $2) ON CONFLICT (id)
	DO UPDATE SET v = excluded.v, n = t.n + 1 RETURNING n;
EXECUTE upsert(30, 'a');
EXECUTE upsert(30, 'b');
EXECUTE upsert(30, 'c');
EXECUTE upsert(30, 'd');
EXECUTE upsert(30, 'e');
EXECUTE upsert(30, 'f');
WITH up AS (INSERT INTO pair VALUES (1, 'x', 5) ON CONFLICT (b, a) DO UPDATE SET c = 0 RETURNING *)
	SELECT * FROM up;
INSERT INTO pair VALUES (1, 'x', 5) ON CONFLICT (b, a) DO UPDATE SET c = pair.c + excluded.c RETURNING *;

-- constraints and triggers
ALTER FOREIGN TABLE pair ADD CHECK (c < 100);
INSERT INTO pair VALUES (1, 'x', 50) ON CONFLICT (a, b) DO UPDATE SET c = pair.c + 95;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % % %', TG_WHEN, TG_OP, CASE WHEN TG_OP = 'UPDATE' THEN OLD END, NEW;
	IF TG_WHEN = 'BEFORE' AND NEW.c = 13 THEN RETURN NULL; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE INSERT OR UPDATE ON pair FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER after AFTER INSERT OR UPDATE ON pair FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO pair VALUES (1, 'x', 20), (2, 'y', 1), (1, 'z', 2) ON CONFLICT (a, b)
	DO UPDATE SET c = excluded.c;
INSERT INTO pair VALUES (2, 'y', 3) ON CONFLICT (a, b) DO UPDATE SET c = 13 RETURNING *;
SELECT * FROM pair ORDER BY a, b;
CREATE VIEW odd AS SELECT * FROM t WHERE id % 2 = 1 WITH CHECK OPTION;
INSERT INTO odd VALUES (5, 'through a view') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO odd VALUES (5, '') ON CONFLICT (id) DO UPDATE SET id = 50;
SELECT v FROM t WHERE id = 5;

-- what the planner knows of the key
SELECT id, v FROM t WHERE id < 3 GROUP BY id ORDER BY id;
EXPLAIN (costs off) SELECT k.a FROM keyless k LEFT JOIN t ON t.id = k.a;
EXPLAIN (costs off) INSERT INTO t VALUES (1, '') ON CONFLICT (id) DO UPDATE SET v = '' WHERE t.n > 1;

-- the constraint's own life
\set VERBOSITY default
ALTER TABLE t RENAME CONSTRAINT t_pkey TO my_key;
INSERT INTO t VALUES (1, 'again');
\set VERBOSITY terse
ALTER TABLE ONLY t ADD CONSTRAINT t_pkey PRIMARY KEY (id);
SELECT keys('t');
ALTER TABLE t DROP CONSTRAINT t_pkey, ADD COLUMN later int;
SELECT keys('t');
-- then it is no key any more
BEGIN;
INSERT INTO t VALUES (1, 'again');
SELECT id, v FROM t WHERE id = 1 ORDER BY v;
INSERT INTO t VALUES (NULL, 'null');
ROLLBACK;
-- nor is what is left of it when some of its columns go
CREATE FOREIGN TABLE halves (a int, b int, v int, PRIMARY KEY (a, b)) SERVER redis;
INSERT INTO halves VALUES (1, 1);
ALTER TABLE halves DROP CONSTRAINT halves_pkey, DROP COLUMN a;
ALTER TABLE halves DROP COLUMN b;
DELETE FROM halves;
ALTER TABLE halves DROP CONSTRAINT halves_pkey, DROP COLUMN a;
INSERT INTO halves VALUES (1, 1), (1, 2);
SELECT * FROM halves ORDER BY v;
DROP FOREIGN TABLE halves;
BEGIN;
CREATE FOREIGN TABLE halves (a int, b int, v int, PRIMARY KEY (a, b)) SERVER redis;
ALTER TABLE halves DROP CONSTRAINT halves_pkey, DROP COLUMN a;
INSERT INTO halves VALUES (1, 1), (1, 2);
SELECT keys('halves');
ROLLBACK;
BEGIN;
CREATE FOREIGN TABLE halves (a int, b int, v int, PRIMARY KEY (a, b)) SERVER redis;
ALTER TABLE halves ALTER b OPTIONS (DROP key), DROP COLUMN a;
INSERT INTO halves VALUES (1, 1), (1, 2);
SELECT keys('halves');
ROLLBACK;
BEGIN;
CREATE FOREIGN TABLE halves (a int, b int, v int, PRIMARY KEY (a, b)) SERVER redis;
ALTER TABLE halves DROP CONSTRAINT halves_pkey;
INSERT INTO halves VALUES (1, 1, 1), (1, 1, 2);
SELECT keys('halves');
ROLLBACK;
ALTER TABLE t ADD PRIMARY KEY (v);
ALTER TABLE t ADD PRIMARY KEY (id) DEFERRABLE;
ALTER TABLE t ADD COLUMN last int, ADD PRIMARY KEY (id);
SELECT keys('t');
ALTER FOREIGN TABLE keyless ALTER a OPTIONS (ADD key 'true');
SELECT keys('keyless');
ALTER FOREIGN TABLE keyless ALTER a TYPE bigint, ALTER nosuch TYPE int;
ALTER FOREIGN TABLE keyless ALTER a TYPE bigint;
SELECT keys('keyless');
ALTER FOREIGN TABLE keyless ALTER a OPTIONS (DROP key);
SELECT keys('keyless');
BEGIN;
CREATE FOREIGN TABLE gone (id int OPTIONS (key 'true')) SERVER redis;
ROLLBACK;
SELECT count(*) FROM pg_class WHERE relname = 'gone_pkey';
ANALYZE t;
-- which leaves what ANALYZE has found
SELECT reltuples AS t FROM pg_class WHERE oid = 't'::regclass \gset
REINDEX INDEX t_pkey;
SELECT reltuples, reltuples = :t AS same FROM pg_class WHERE oid = 't'::regclass;
CREATE INDEX ON t USING mosql (v);
DROP VIEW odd;
DROP FOREIGN TABLE t, pair, keyless;
SELECT count(*) FROM pg_class WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'mosql');
DROP FUNCTION keys, tell;

-- names that need quotes, in errors
\set VERBOSITY default
CREATE FOREIGN TABLE "Quoted" (id int OPTIONS (key '1'), "postId" int OPTIONS (key '2'), "order" int) SERVER redis;
CREATE UNIQUE INDEX quoted_order ON "Quoted" ("order", (id + "postId"));
INSERT INTO "Quoted" VALUES (1, 2, 3);
INSERT INTO "Quoted" VALUES (1, 2, 4);
INSERT INTO "Quoted" VALUES (2, 1, 3);
DROP FOREIGN TABLE "Quoted";
