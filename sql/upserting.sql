-- INSERT ... ON CONFLICT: rows that the same command has changed before.
\getenv nodes MOSQL_NODES
\set VERBOSITY terse
CREATE SERVER upserting FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'upserting');
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true'), u int, w int) SERVER upserting;
CREATE UNIQUE INDEX t_u ON t (u);
CREATE UNIQUE INDEX t_w ON t (w);
INSERT INTO t VALUES (1, 10, 1), (2, 20, 2), (3, 30, 3);

-- the value was given away by the row before: the next one has it
INSERT INTO t VALUES (30, 20), (31, 20) ON CONFLICT (u) DO UPDATE SET u = 40 RETURNING *;
INSERT INTO t VALUES (31, 50), (31, 51) ON CONFLICT (id) DO UPDATE SET id = 32, u = 52 RETURNING *;
INSERT INTO t VALUES (60, 10), (61, 10), (62, 10) ON CONFLICT (u) DO UPDATE SET u = 11;
INSERT INTO t VALUES (60, 10), (61, 10) ON CONFLICT (u) DO UPDATE SET u = NULL;
SELECT * FROM t ORDER BY id;
SELECT severity, finding FROM mosql_fdw_check('t');

-- the value that it got, and a row changed otherwise
INSERT INTO t VALUES (70, 30), (71, 33) ON CONFLICT (u) DO UPDATE SET u = 33;
INSERT INTO t VALUES (70, 30), (71, 30) ON CONFLICT (u) DO UPDATE SET w = 5;
INSERT INTO t VALUES (70, 70), (71, 70) ON CONFLICT (u) DO UPDATE SET w = 5;

-- whichever error comes first
INSERT INTO t VALUES (80, 30, 1), (81, 30, 9) ON CONFLICT (u) DO UPDATE SET w = excluded.w;
INSERT INTO t VALUES (80, 80, 1), (81, 30, 9), (82, 30, 9) ON CONFLICT (u) DO UPDATE SET w = excluded.w;

-- in one transaction
BEGIN;
INSERT INTO t VALUES (90, 90), (91, 91);
INSERT INTO t VALUES (92, 90), (93, 90), (94, 91) ON CONFLICT (u) DO UPDATE SET u = 92 + t.id - 90 RETURNING *;
SAVEPOINT s;
INSERT INTO t VALUES (95, 90) ON CONFLICT (u) DO UPDATE SET u = 95 RETURNING *;
ROLLBACK TO s;
INSERT INTO t VALUES (96, 95) ON CONFLICT (u) DO NOTHING RETURNING *;
COMMIT;
SELECT * FROM t WHERE id >= 90 ORDER BY id;
SELECT severity, finding FROM mosql_fdw_check('t');

-- was it inserted?
INSERT INTO t VALUES (90, 90), (200, 200) ON CONFLICT (id) DO UPDATE SET w = 90 RETURNING id, xmax = 0 AS inserted;
INSERT INTO t VALUES (201, 201), (91, 200) ON CONFLICT (u) DO UPDATE SET w = 91 RETURNING id, xmax <> 0 AS met;
UPDATE t SET w = 92 WHERE id = 200 RETURNING id, xmax;

-- a key that the statement itself has taken away meets nothing
WITH gone AS (DELETE FROM t WHERE id IN (90, 200) RETURNING *)
	INSERT INTO t SELECT * FROM gone UNION ALL VALUES (91, 300, 0) ON CONFLICT (id) DO NOTHING RETURNING id;
WITH moved AS (UPDATE t SET id = 400 WHERE id = 90 RETURNING *)
	INSERT INTO t SELECT 90, u + 1000, w + 1000 FROM moved ON CONFLICT (id) DO NOTHING RETURNING id;
WITH gone AS (DELETE FROM t WHERE id IN (90, 91))
	INSERT INTO t VALUES (90, 301), (90, 302), (91, 303) ON CONFLICT (id) DO NOTHING;
SELECT * FROM t WHERE id >= 90 ORDER BY id;
SELECT severity, finding FROM mosql_fdw_check('t');

DROP FOREIGN TABLE t;
DROP SERVER upserting;
