-- what it costs: round trips, counted
SET client_min_messages = warning;
SET mosql_fdw.one_step = off;	-- one round trip less for what happens to be on the clock's server
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v int, w text) SERVER redis OPTIONS (compression 'none');	-- rows as fields: nobody unpacks them first
INSERT INTO t SELECT i, i, repeat('x', 50) FROM generate_series(1, 5000) i;
ANALYZE t;
CREATE FUNCTION counter(wanted text) RETURNS bigint LANGUAGE sql AS
	$$ SELECT value FROM mosql_fdw_stats() WHERE name = wanted $$;
-- The lines of EXPLAIN (ANALYZE) that we write.
CREATE FUNCTION costs(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
		IF line ~ '(Key|Key Range|Order|Redis|Increment|Batch Size): ' THEN
			RETURN NEXT trim(line);
		END IF;
	END LOOP;
END $$;
-- A leaf comes with its snapshot, or without one, if it is on the clock's server, as the first of each tree is; else it takes a round trip more.
CREATE FUNCTION costs_anywhere(query text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT regexp_replace(line, 'round trips=[12] ', 'round trips=1 or 2 ') FROM costs(query) line
$$;
-- everything that is cached, is
SELECT count(*) FROM t;
UPDATE t SET v = v WHERE id = 1;
INSERT INTO t VALUES (-5, 0, ''); -- its leaf was full

-- a point: one round trip, and none to commit
SELECT mosql_fdw_stats_reset();
SELECT v FROM t WHERE id = 77;
SELECT counter('round_trips'), counter('commands'), counter('point_reads');
SELECT mosql_fdw_stats_reset();
BEGIN;
SELECT v FROM t WHERE id = 78;
SELECT v FROM t WHERE id = 79;
COMMIT;
SELECT counter('round_trips');
-- no row
SELECT mosql_fdw_stats_reset();
SELECT v FROM t WHERE id = -1;
SELECT v FROM t WHERE id = NULL::int;
SELECT counter('round_trips');
-- many points: the snapshot, and all of them
SELECT mosql_fdw_stats_reset();
SELECT count(v) FROM t WHERE id IN (1, 1000, 2000, 3000, 4000, 5000);
SELECT counter('round_trips'), counter('point_reads');
-- rows that one leaf has: no snapshot, also if nothing is there, and the definition is looked at by the way; what
-- changes them locks them, in one round trip more
BEGIN;
SELECT mosql_fdw_stats_reset();
SELECT sum(v) FROM t WHERE id BETWEEN 41 AND 60;
SELECT counter('round_trips');
SELECT mosql_fdw_stats_reset();
SELECT sum(v) FROM t WHERE id BETWEEN 51 AND 60;
SELECT count(*) FROM t WHERE id > 5500 AND id < 5600;
SELECT v FROM t WHERE id < 50 ORDER BY id DESC LIMIT 1;
SELECT counter('round_trips');
UPDATE t SET w = 'x' WHERE id BETWEEN 41 AND 50;
SELECT sum(v) FROM t WHERE id BETWEEN 41 AND 60;
SELECT counter('round_trips');
-- but where the statement reads more, or the transaction has gone back
SELECT mosql_fdw_stats_reset();
SELECT sum(v) FROM t WHERE id BETWEEN 41 AND 60 OR id = 70;
SELECT counter('round_trips');
SELECT sum(v), (SELECT v FROM t WHERE id = 70) FROM t WHERE id BETWEEN 41 AND 60;
SELECT counter('round_trips');
SAVEPOINT s;
ROLLBACK TO s;
SELECT sum(v) FROM t WHERE id BETWEEN 41 AND 60;
SELECT counter('round_trips');
ROLLBACK;
-- prepared
PREPARE p (int) AS SELECT v FROM t WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE p (1);
SELECT mosql_fdw_stats_reset();
EXECUTE p (4000);
SELECT counter('round_trips');

-- a commit: two round trips, for one row and for hundreds
BEGIN;
UPDATE t SET v = 0 WHERE id = 1;
SELECT mosql_fdw_stats_reset();
COMMIT;
SELECT counter('round_trips'), counter('commits');
BEGIN;
UPDATE t SET v = 0 WHERE id <= 1500 AND id % 3 = 0;
SELECT mosql_fdw_stats_reset();
COMMIT;
SELECT counter('round_trips'), counter('commits');
BEGIN;
DELETE FROM t WHERE id IN (10, 1010, 2010, 3010);
UPDATE t SET v = v + 1 WHERE id = 4010;
UPDATE t SET w = 'new' WHERE id = 1011;
SELECT mosql_fdw_stats_reset();
COMMIT;
SELECT counter('round_trips'), counter('commits');
-- TPC-B's shape: a look and an addition each, then the commit
BEGIN;
UPDATE t SET v = v + 1 WHERE id = 100;
SELECT v FROM t WHERE id = 100;
UPDATE t SET v = v + 1 WHERE id = 200;
UPDATE t SET v = v + 1 WHERE id = 300;
INSERT INTO t VALUES (-6, 0, '');
SELECT mosql_fdw_stats_reset();
COMMIT;
SELECT counter('round_trips'), counter('prepare_retries'), counter('conflicts');
-- nothing written, nothing sent
SET mosql_fdw.locking = optimistic;
BEGIN;
UPDATE t SET v = 0 WHERE id = -100;
SELECT count(*) FROM t WHERE id < 10;
SELECT mosql_fdw_stats_reset();
COMMIT;
SELECT counter('round_trips'), counter('commands');
BEGIN;
UPDATE t SET v = 0;
SELECT mosql_fdw_stats_reset();
ROLLBACK;
SELECT counter('round_trips');
-- but locks are let go of, some thousand in a round trip
SET mosql_fdw.locking = pessimistic;
BEGIN;
UPDATE t SET v = 0 WHERE id = -100;
SELECT mosql_fdw_stats_reset();
COMMIT;
SELECT counter('round_trips'), counter('commands');
BEGIN;
UPDATE t SET v = 0;
SELECT mosql_fdw_stats_reset();
ROLLBACK;
SELECT counter('round_trips');
-- the keys of an INSERT are locked by the step that looks them up; those of a load are not
INSERT INTO t VALUES (-7, 0, '');
SELECT mosql_fdw_stats_reset();
BEGIN;
INSERT INTO t VALUES (-8, 0, '');
COMMIT;
SELECT counter('round_trips'), counter('locks');
BEGIN;
SELECT mosql_fdw_stats_reset();
INSERT INTO t SELECT i, i, '' FROM generate_series(10001, 11500) i;
SELECT counter('locks');
ROLLBACK;
-- not looked up: a row whose key says that its parent is one which the transaction has inserted
CREATE FOREIGN TABLE line (t int OPTIONS (key 'true') NOT NULL, n int OPTIONS (key 'true') NOT NULL) SERVER redis;
ALTER TABLE line ADD FOREIGN KEY (t) REFERENCES t;
BEGIN;
INSERT INTO t VALUES (-9, 0, '');
INSERT INTO line VALUES (-9, 1);
COMMIT;
BEGIN;
INSERT INTO t VALUES (-10, 0, '');
SELECT mosql_fdw_stats_reset();
INSERT INTO line VALUES (-10, 1), (-10, 2);
SELECT counter('round_trips'), counter('commands');
COMMIT;
DROP FOREIGN TABLE line;
-- the rows that a new one leads to are locked in the round trip that looks up its key
CREATE FOREIGN TABLE part (id int OPTIONS (key 'true') NOT NULL, t int, u int) SERVER redis;
ALTER TABLE part ADD FOREIGN KEY (t) REFERENCES t, ADD FOREIGN KEY (u) REFERENCES t;
BEGIN;
INSERT INTO part VALUES (1, 100, 2000);
COMMIT;
BEGIN;
SELECT mosql_fdw_stats_reset();
INSERT INTO part VALUES (2, 101, 2001), (3, 101, NULL);
SELECT counter('round_trips'), counter('locks');
COMMIT;
SELECT counter('round_trips');
-- one that is not there: it is looked for once more, by itself
BEGIN;
SELECT mosql_fdw_stats_reset();
INSERT INTO part VALUES (4, 101, -2001);
ROLLBACK;
DROP FOREIGN TABLE part;
RESET mosql_fdw.locking;

-- EXPLAIN (ANALYZE)
SELECT costs('SELECT v FROM t WHERE id = 5');
SELECT costs('SELECT v FROM t WHERE id IN (5, 2500)');
SELECT costs('SELECT v FROM t ORDER BY id LIMIT 5');
SELECT costs_anywhere('SELECT v FROM t ORDER BY id DESC LIMIT 5');
SELECT costs_anywhere('SELECT max(id) FROM t');
SELECT costs_anywhere('SELECT min(id) FROM t WHERE id > 2500');
SELECT costs('SELECT v FROM t WHERE id > 10 AND id < 20 AND v > 0');
SELECT costs('SELECT v FROM t WHERE id > 20 AND id < 10');
SELECT costs('UPDATE t SET v = v + 1 WHERE id = 5');
SELECT costs('DELETE FROM t WHERE id = 6');
SELECT costs('INSERT INTO t VALUES (6001, 1, NULL)');
SELECT costs('SELECT * FROM (VALUES (1), (2), (3)) x(i) JOIN t ON t.id = x.i');
-- a scan reads windows that grow: far fewer round trips than leaves
SELECT costs ~ 'round trips=\d leaves=\d\d rows=\d{4} retries=0' AS windows
	FROM costs('SELECT * FROM t') costs WHERE costs ~ 'Redis';

INSERT INTO t VALUES (-899, 0, '');
-- the keys of an INSERT that is the whole transaction are neither locked nor looked up
SELECT mosql_fdw_stats_reset();
INSERT INTO t VALUES (-900, 0, '');
SELECT counter('round_trips'), counter('locks');

SELECT array_agg(name) FROM mosql_fdw_stats();
SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE t;
DROP FUNCTION counter, costs;
