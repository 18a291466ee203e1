-- cursors, beside those of PostgreSQL's own tables: each script is run on both
SET client_min_messages = warning;
\set VERBOSITY terse
CREATE SCHEMA cursors_own;
CREATE SCHEMA cursors_ours;
SET search_path = cursors_own;
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE u (id int PRIMARY KEY, v int);
SET search_path = cursors_ours;
SET mosql_fdw.default_server = 'redis';
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE u (id int PRIMARY KEY, v int);
CREATE INDEX ON t (v);
RESET mosql_fdw.default_server;
INSERT INTO t SELECT i, i FROM generate_series(1, 6) i;
INSERT INTO u SELECT * FROM t;
INSERT INTO cursors_own.t SELECT * FROM t;
INSERT INTO cursors_own.u SELECT * FROM t;
CREATE FUNCTION public.cursors_loop() RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE
	c CURSOR (k int) FOR SELECT * FROM t WHERE id <= k FOR UPDATE;
	d refcursor;
	r record;
BEGIN
	FOR r IN c(2) LOOP
		UPDATE t SET v = -r.v WHERE CURRENT OF c;
	END LOOP;
	OPEN d FOR SELECT * FROM t WHERE id > 2 ORDER BY id;
	FETCH d INTO r;
	DELETE FROM t WHERE CURRENT OF d RETURNING id INTO r;
	RETURN NEXT r.id;
	CLOSE d;
END $$;

-- WHERE CURRENT OF a cursor FOR UPDATE, after savepoints, and of a row that is gone
\set run 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id FOR UPDATE; UPDATE t SET v = 0 WHERE CURRENT OF c; ROLLBACK;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
\set run 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id FOR UPDATE; FETCH 2 c; UPDATE t SET v = v + 10 WHERE CURRENT OF c RETURNING *; SAVEPOINT s; FETCH c; DELETE FROM t WHERE CURRENT OF c RETURNING *; DELETE FROM t WHERE CURRENT OF c RETURNING *; ROLLBACK TO s; UPDATE t SET v = v + 100 WHERE CURRENT OF c RETURNING *; SELECT * FROM t ORDER BY id; ROLLBACK;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
-- ... of one that locks nothing; of a join
\set run 'BEGIN; DECLARE c CURSOR FOR SELECT v FROM t WHERE id IN (2, 3) ORDER BY id; FETCH 2 c; UPDATE t SET v = v + 10 WHERE CURRENT OF c RETURNING *; FETCH c; UPDATE t SET v = v + 10 WHERE CURRENT OF c; ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT ctid IS NOT NULL FROM t WHERE id = 4; FETCH c; DELETE FROM t WHERE CURRENT OF c RETURNING *; ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT * FROM t JOIN u USING (id) ORDER BY 1 FOR UPDATE OF t; FETCH 2 c; UPDATE t SET v = 0 WHERE CURRENT OF c RETURNING *; UPDATE u SET v = 0 WHERE CURRENT OF c; ROLLBACK;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
-- entries of an index alone
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM t WHERE v > 2 ORDER BY v;
DECLARE c CURSOR FOR SELECT v FROM t WHERE v > 2 ORDER BY v;
FETCH 2 c;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) UPDATE t SET v = 44 WHERE CURRENT OF c;
UPDATE t SET v = 44 WHERE CURRENT OF c RETURNING *;
ROLLBACK;
-- what the transaction changed since is left out
\set run 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id; DECLARE d CURSOR FOR SELECT * FROM t ORDER BY id FOR UPDATE; FETCH 1 d; UPDATE t SET v = 0 WHERE id = 2; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (7, 7); SAVEPOINT s; DELETE FROM t WHERE id = 4; ROLLBACK TO s; FETCH ALL c; FETCH ALL d; SELECT * FROM t WHERE id < 3 ORDER BY id FOR UPDATE; ROLLBACK;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
SET mosql_fdw.locking = optimistic;
:run
RESET mosql_fdw.locking;
-- back, without SCROLL: where a cursor of PostgreSQL's own tables could
CREATE FUNCTION public.cursors_back() RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE
	c CURSOR (k int) FOR SELECT id FROM t WHERE id + 0 > k;
	d refcursor;
	n int;
BEGIN
	OPEN c(2);
	MOVE FORWARD 3 FROM c;
	FETCH PRIOR FROM c INTO n;
	RETURN NEXT n;
	FETCH LAST FROM c INTO n;
	RETURN NEXT n;
	FETCH RELATIVE -2 FROM c INTO n;
	RETURN NEXT n;
	OPEN d FOR EXECUTE 'SELECT id FROM t WHERE v IN (1, 5, 3)';
	FETCH ABSOLUTE -2 FROM d INTO n;
	RETURN NEXT n;
	CLOSE d;
	OPEN d NO SCROLL FOR SELECT id FROM t;
	FETCH d INTO n;
	BEGIN
		FETCH PRIOR FROM d INTO n;
	EXCEPTION WHEN OTHERS THEN RETURN NEXT -1;
	END;
END $$;
\set run 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 3 c; FETCH PRIOR c; FETCH BACKWARD 5 c; FETCH NEXT c; FETCH ALL c; FETCH PRIOR c; FETCH ABSOLUTE -2 c; MOVE BACKWARD ALL c; FETCH LAST c; FETCH RELATIVE -1 c; MOVE BACKWARD 2 c; FETCH 2 c; FETCH FIRST c; FETCH RELATIVE 0 c; SELECT is_scrollable FROM pg_cursors; DECLARE d CURSOR FOR SELECT * FROM t WHERE v > 4; FETCH ALL d; FETCH BACKWARD 2 d; FETCH PRIOR d; FETCH d; DECLARE e CURSOR FOR SELECT * FROM t WHERE v < 0; FETCH e; FETCH PRIOR e; MOVE LAST c; FETCH PRIOR c; COMMIT;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
\set run 'BEGIN; DECLARE c CURSOR FOR SELECT id, v, (SELECT count(*) FROM u WHERE u.v <= t.v) FROM t WHERE v > 1 LIMIT 4; DECLARE d CURSOR FOR SELECT id FROM t WHERE id + 0 < 4 UNION ALL SELECT v FROM u WHERE v > 4; FETCH 2 c; FETCH 4 d; UPDATE t SET v = 100 WHERE id = 2; DELETE FROM t WHERE id = 3; SAVEPOINT s; FETCH PRIOR c; FETCH PRIOR d; ROLLBACK TO s; FETCH 2 c; FETCH BACKWARD 2 c; FETCH BACKWARD ALL d; FETCH ALL c; FETCH ALL d; ROLLBACK;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
\set run 'SELECT public.cursors_back(); BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT * FROM t; FETCH c; FETCH PRIOR c; ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE; FETCH c; FETCH PRIOR c; ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT * FROM t JOIN u USING (id) WHERE id > 3; FETCH c; FETCH PRIOR c; ROLLBACK; BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM t; DECLARE d CURSOR WITH HOLD FOR SELECT id FROM t; FETCH 3 c; FETCH 3 d; FETCH PRIOR d; COMMIT; FETCH PRIOR c; FETCH PRIOR d; FETCH ALL c; FETCH ALL d; CLOSE ALL;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
-- WHERE CURRENT OF it, until it goes back
BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 2 c; UPDATE t SET v = 0 WHERE CURRENT OF c RETURNING *; FETCH PRIOR c; UPDATE t SET v = 0 WHERE CURRENT OF c; ROLLBACK;
\set run 'SELECT public.cursors_loop(); SELECT * FROM t ORDER BY id; BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id; COMMIT; FETCH c; UPDATE t SET v = 0 WHERE CURRENT OF c; CLOSE c;'
SET search_path = cursors_own;
:run
SET search_path = cursors_ours;
:run
RESET search_path;
DROP FUNCTION cursors_loop(), cursors_back();
DROP SCHEMA cursors_own, cursors_ours CASCADE;
