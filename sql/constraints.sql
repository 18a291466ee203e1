-- rows that are there keep the constraints that ALTER TABLE adds
CREATE TABLE local (i int);		-- the same, for comparison
INSERT INTO local VALUES (NULL), (-1);
ALTER TABLE local ALTER i SET NOT NULL;
ALTER TABLE local ADD CONSTRAINT positive CHECK (i > 0);

CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int, "a b" text) SERVER redis;
INSERT INTO t SELECT i, nullif(i, 500), 'x' || i FROM generate_series(1, 1000) i;
ALTER TABLE t ALTER n SET NOT NULL;
ALTER TABLE t ADD CONSTRAINT small CHECK (n < 1000);
ALTER TABLE t ADD CHECK ("a b" LIKE 'x%'), ADD CONSTRAINT small CHECK (n < 1000);
ALTER TABLE t ADD COLUMN extra int DEFAULT 5 CONSTRAINT extra_small CHECK (extra < 5);
ALTER TABLE t ADD COLUMN extra int DEFAULT 5 CONSTRAINT extra_small CHECK (extra < 6);
\d t
SELECT count(*) FROM t WHERE n IS NULL;
UPDATE t SET n = 0 WHERE n IS NULL;
SET constraint_exclusion = on;
ALTER TABLE t ADD CONSTRAINT small CHECK (n < 1000);
RESET constraint_exclusion;
BEGIN;
DELETE FROM t WHERE n = 1000;
ALTER TABLE t ALTER n SET NOT NULL, ADD CONSTRAINT small CHECK (n < 1000);
INSERT INTO t VALUES (1001, NULL);
ROLLBACK;
DELETE FROM t WHERE n = 1000;
ALTER TABLE t ALTER n SET NOT NULL, ADD CONSTRAINT small CHECK (n < 1000);
INSERT INTO t VALUES (1001, NULL);
INSERT INTO t VALUES (1001, 1001);

-- NOT VALID: until it is validated it is this server's own
CREATE SCHEMA far;
ALTER TABLE t ADD CONSTRAINT later CHECK (n <> 7) NOT VALID;
INSERT INTO t VALUES (1001, 7);
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO far;
SELECT conname, convalidated FROM pg_constraint WHERE conrelid = 'far.t'::regclass AND contype = 'c' ORDER BY 1;
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE far.t;
RESET mosql_fdw.drop_data;
ALTER TABLE t VALIDATE CONSTRAINT later;
DELETE FROM t WHERE n = 7;
ALTER TABLE t VALIDATE CONSTRAINT later;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO far;
SELECT conname, convalidated FROM pg_constraint WHERE conrelid = 'far.t'::regclass AND contype = 'c' ORDER BY 1;

-- what a parent gets reaches its children
CREATE TABLE parent (id int, n int);
CREATE FOREIGN TABLE child (id int OPTIONS (key 'true') NOT NULL) INHERITS (parent) SERVER redis;
INSERT INTO child VALUES (1, NULL);
ALTER TABLE parent ALTER n SET NOT NULL;
UPDATE child SET n = 1;
ALTER TABLE parent ALTER n SET NOT NULL;
ALTER TABLE parent ADD CONSTRAINT none CHECK (n < 1);
DROP TABLE parent, local CASCADE;
DROP SCHEMA far CASCADE;
DROP FOREIGN TABLE IF EXISTS t;

-- the first row that is wrong says why, also where keys are looked up together
CREATE FOREIGN TABLE wrong (id int PRIMARY KEY, u int UNIQUE, v int NOT NULL CHECK (v > 0)) SERVER redis;
INSERT INTO wrong VALUES (1, 1, 1), (5, 5, 5);
INSERT INTO wrong VALUES (2, 2, 2), (1, 3, 3), (4, 4, -4);
INSERT INTO wrong VALUES (2, 2, 2), (3, 1, 3), (4, 4, NULL);
INSERT INTO wrong VALUES (2, 2, 2), (4, 4, -4), (1, 1, 1);
INSERT INTO wrong VALUES (2, 2, 2), (3, 3, 3), (4, 4, -4);
INSERT INTO wrong VALUES (2, 2, 2), (3, 1, 3), (4, 4, -4) ON CONFLICT (id) DO NOTHING RETURNING id;
UPDATE wrong SET id = CASE id WHEN 1 THEN 5 ELSE 7 END, v = CASE id WHEN 1 THEN 1 ELSE -1 END;
SELECT * FROM wrong ORDER BY id;
DROP FOREIGN TABLE wrong;
SELECT * FROM mosql_fdw_gc('redis');
