-- what PostgreSQL 18 brought; before it, expected/version18_1.out
SELECT current_setting('server_version_num')::int < 180000 AS older \gset
\if :older
\quit
\endif
-- virtual generated columns: computed on this server, unknown in Redis
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, a int, twice int GENERATED ALWAYS AS (a * 2),
	small int NOT NULL GENERATED ALWAYS AS (nullif(a, 5)) CHECK (small < 1000)) SERVER redis;
INSERT INTO t (id, a) VALUES (1, 10), (2, 20), (3, 30) RETURNING twice;
INSERT INTO t (id, a) VALUES (4, 5);
INSERT INTO t (id, a) VALUES (4, 1000);
SELECT * FROM t WHERE twice > 20 ORDER BY twice DESC;
EXPLAIN (VERBOSE, COSTS OFF) SELECT twice FROM t WHERE id = 1;
CREATE INDEX ON t (twice);
CREATE INDEX ON t (a) INCLUDE (twice);
CREATE FOREIGN TABLE v (a int, b int GENERATED ALWAYS AS (a) VIRTUAL PRIMARY KEY) SERVER redis;
ALTER TABLE t ADD COLUMN thrice int GENERATED ALWAYS AS (a * 3) VIRTUAL;
ALTER TABLE t ALTER thrice TYPE bigint;
ALTER TABLE t RENAME thrice TO minus_thrice;
SELECT * FROM t ORDER BY id;
ALTER TABLE t DROP COLUMN minus_thrice;
ALTER TABLE t ADD COLUMN half int GENERATED ALWAYS AS (a / 2) STORED;
ANALYZE t;
CREATE FOREIGN TABLE copied (LIKE t INCLUDING ALL) SERVER redis;
INSERT INTO copied (id, a) SELECT id, a FROM t;
SELECT * FROM copied WHERE id = 2;
CREATE SCHEMA far;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO far;
SELECT attname FROM pg_attribute WHERE attrelid = 'far.t'::regclass AND attnum > 0 ORDER BY attnum;
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE far.t;
RESET mosql_fdw.drop_data;

-- RETURNING OLD and NEW
UPDATE t SET a = a + 1 WHERE id = 1 RETURNING old.a, new.a, old.twice, new.twice, old, new;
UPDATE t SET a = a + 1 WHERE id = 1 RETURNING old.a;
DELETE FROM t WHERE id = 1 RETURNING old.a, new.a, new IS NULL AS gone;
INSERT INTO t (id, a) VALUES (1, 1) RETURNING old.a, new.a;
INSERT INTO t (id, a) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING new.a, new.twice, a;
INSERT INTO t (id, a) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = 3 RETURNING old.a, new.a;
INSERT INTO t (id, a) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = 3 RETURNING coalesce(old, new);
INSERT INTO t (id, a) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = 3 RETURNING old.twice;
INSERT INTO t (id, a) VALUES (1, 2) ON CONFLICT (id) DO NOTHING RETURNING old.a, new.a;
SELECT a FROM t WHERE id = 1;
DROP FOREIGN TABLE t, copied;

-- pg_dump asks a function where sequences stand
CREATE FOREIGN TABLE t (id serial PRIMARY KEY) SERVER redis;
INSERT INTO t SELECT FROM generate_series(1, 5);
CREATE SEQUENCE own;
SELECT nextval('own');
SELECT seqrelid::regclass, last_value >= 5 AS drawn, last_value = (SELECT last_value FROM t_id_seq) AS same, is_called
	FROM pg_sequence, pg_get_sequence_data(seqrelid) WHERE seqrelid IN ('t_id_seq'::regclass, 'own'::regclass) ORDER BY 1;
DROP FOREIGN TABLE t;
DROP SEQUENCE own;

-- NOT NULL constraints
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, a int CONSTRAINT a_there NOT NULL, b int) SERVER redis;
ALTER TABLE t DROP CONSTRAINT a_there;
INSERT INTO t VALUES (1, NULL);
ALTER TABLE t ADD CONSTRAINT a_there NOT NULL a NOT VALID;
ALTER TABLE t ADD CONSTRAINT a_there NOT NULL a;
UPDATE t SET a = 1;
ALTER TABLE t ADD CONSTRAINT a_there NOT NULL a;
INSERT INTO t VALUES (2, NULL);
ALTER TABLE t RENAME CONSTRAINT a_there TO a_is_there;
ALTER TABLE t DROP CONSTRAINT t_id_not_null;
SELECT conname, contype, convalidated FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY conname COLLATE "C";

-- NOT ENFORCED: this server's own
ALTER TABLE t ADD CONSTRAINT wish CHECK (b > 0) NOT ENFORCED;
INSERT INTO t VALUES (2, 2, -2);
SELECT id FROM t WHERE b < 0;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO far;
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'far.t'::regclass ORDER BY conname COLLATE "C";
CREATE FOREIGN TABLE c (id int PRIMARY KEY, t int REFERENCES t NOT ENFORCED) SERVER redis;
ALTER TABLE c ADD COLUMN u int REFERENCES t NOT ENFORCED, ADD FOREIGN KEY (id) REFERENCES t NOT ENFORCED;
ALTER TABLE c ADD CONSTRAINT meant FOREIGN KEY (t) REFERENCES t;
INSERT INTO c VALUES (1000, NULL, 1000);
INSERT INTO c VALUES (1001, 1000, NULL);
SELECT conname, conenforced, convalidated FROM pg_constraint WHERE conrelid = 'c'::regclass AND contype = 'f' ORDER BY 1;
DROP FOREIGN TABLE c;

-- WITHOUT OVERLAPS
CREATE FOREIGN TABLE p (id int, during daterange, PRIMARY KEY (id, during WITHOUT OVERLAPS)) SERVER redis;
CREATE FOREIGN TABLE p (id int, during daterange, UNIQUE (id, during WITHOUT OVERLAPS)) SERVER redis;
ALTER TABLE t ADD UNIQUE (a, b WITHOUT OVERLAPS);
ALTER TABLE t ADD PRIMARY KEY (id, b WITHOUT OVERLAPS);
DROP SCHEMA far CASCADE;
DROP FOREIGN TABLE IF EXISTS t;
SELECT * FROM mosql_fdw_gc('redis');
