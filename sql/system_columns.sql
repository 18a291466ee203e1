-- System columns: ctid names one row, throughout a transaction; tableoid, and the others.
\getenv nodes MOSQL_NODES
\set VERBOSITY terse
CREATE SERVER system_columns FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'system_columns');
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, a int, b text) SERVER system_columns;
CREATE FOREIGN TABLE h (a int, b text) SERVER system_columns;
CREATE INDEX t_a ON t (a);
CREATE UNIQUE INDEX t_ab ON t (a, id);
INSERT INTO t SELECT i, i % 10, 'b' || i FROM generate_series(1, 300) i;
INSERT INTO h SELECT i % 10, 'b' FROM generate_series(1, 100) i;
ANALYZE t;
ANALYZE h;

-- what one scan says, another one understands
BEGIN;
DELETE FROM h WHERE ctid NOT IN (SELECT min(ctid) FROM h GROUP BY a, b);
SELECT count(*), count(DISTINCT a) FROM h;
ROLLBACK;
BEGIN;
DELETE FROM h x USING h y WHERE x.a = y.a AND x.ctid < y.ctid;
SELECT count(*), count(DISTINCT a) FROM h;
ROLLBACK;
BEGIN;
DELETE FROM h WHERE ctid IN (SELECT ctid FROM h LIMIT 7);
SELECT count(*) FROM h;
UPDATE h SET b = 'first' WHERE ctid = (SELECT ctid FROM h WHERE a = 5 LIMIT 1);
SELECT count(*) FROM h WHERE b = 'first';
DELETE FROM h WHERE ctid = ANY (ARRAY(SELECT ctid FROM h WHERE a = 6 LIMIT 3)) RETURNING a;
WITH gone AS (SELECT ctid AS row FROM h WHERE a = 7 LIMIT 2 FOR UPDATE)
DELETE FROM h USING gone WHERE h.ctid = gone.row RETURNING a;
SELECT count(*) FROM h;
ROLLBACK;
SELECT count(*) FROM t x JOIN t y ON x.ctid = y.ctid WHERE x.id = y.id;
SELECT count(*) FROM t x JOIN t y ON x.ctid = y.ctid;
SELECT count(*) FROM t WHERE ctid NOT IN (SELECT ctid FROM t WHERE a = 3);

-- by each kind of scan
CREATE TEMP TABLE c AS SELECT ctid AS row, id FROM t;
SELECT count(*), count(DISTINCT row) FROM c;
SELECT count(*) FROM c JOIN t ON t.ctid = row AND t.id = c.id;
SELECT count(*) FROM c, LATERAL (SELECT ctid FROM t WHERE t.id = c.id) s WHERE s.ctid = row;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT ctid FROM t WHERE a = 3 ORDER BY a;
SELECT count(*) FROM (SELECT ctid, id FROM t WHERE a = 3 ORDER BY a) s JOIN c ON c.row = s.ctid AND c.id = s.id;
SELECT count(*) FROM (SELECT ctid, id FROM t WHERE a = 3 OR id < 20) s JOIN c ON c.row = s.ctid AND c.id = s.id;
SELECT count(*) FROM (SELECT ctid, id FROM t ORDER BY id DESC LIMIT 9) s JOIN c ON c.row = s.ctid AND c.id = s.id;
RESET enable_seqscan;
SELECT count(*) FROM (SELECT ctid FROM t UNION ALL SELECT ctid FROM h) s JOIN c ON c.row = s.ctid;
SELECT id, ctid = (SELECT row FROM c WHERE id = 5) AS same FROM t WHERE id = 5 FOR UPDATE;

-- rows by ctid
SELECT row AS row5 FROM c WHERE id = 5 \gset
SELECT row AS row7 FROM c WHERE id = 7 \gset
PREPARE by_ctid (tid) AS SELECT id, a FROM t WHERE ctid = $1;
EXECUTE by_ctid (:'row5');
EXECUTE by_ctid ('(0,1)');
EXECUTE by_ctid ('(4294967295,0)');
EXECUTE by_ctid ('(4000000000,1)');
EXECUTE by_ctid (NULL);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_ctid (:'row5');
EXECUTE by_ctid (:'row5');
PREPARE by_ctids (tid[]) AS SELECT id, a FROM t WHERE ctid = ANY ($1) AND id <> 6 ORDER BY id;
EXPLAIN (COSTS OFF) EXECUTE by_ctids (NULL);
EXECUTE by_ctids (ARRAY[:'row7', NULL, '(0,1)', :'row5', :'row5']::tid[]);
EXECUTE by_ctids (NULL);
EXECUTE by_ctids ('{}');
RESET plan_cache_mode;
SELECT id FROM t WHERE :'row5' = ctid OR ctid = :'row7' ORDER BY id;
SELECT id FROM t WHERE ctid IN (:'row5', :'row7') ORDER BY id;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
ALTER FOREIGN TABLE t OPTIONS (ADD fdw_startup_cost '0.01');
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		-- before 16 the sides are the other way round
		RETURN NEXT replace(line, 'c."row" = ctid', 'ctid = c."row"');
	END LOOP;
END $$;
SELECT * FROM plan('SELECT t.id FROM c JOIN t ON t.ctid = c.row WHERE c.id < 4');
DROP FUNCTION plan;
SELECT t.id FROM c JOIN t ON t.ctid = c.row WHERE c.id < 4 ORDER BY 1;
RESET enable_hashjoin;
RESET enable_mergejoin;
ALTER FOREIGN TABLE t OPTIONS (DROP fdw_startup_cost);
UPDATE t SET b = 'by ctid' WHERE ctid = :'row5' RETURNING id, b, ctid = :'row5' AS same;
UPDATE t SET a = a + 1 WHERE ctid = :'row7' RETURNING id, a;
DELETE FROM t WHERE ctid = :'row7' RETURNING id, ctid = :'row7' AS same;
SELECT count(*) FROM t WHERE ctid = :'row7';

-- own rows; the key decides
BEGIN;
INSERT INTO t VALUES (1001, 1, 'new') RETURNING ctid AS new \gset
SELECT id, b FROM t WHERE ctid = :'new';
SAVEPOINT s;
UPDATE t SET id = 1002 WHERE ctid = :'new' RETURNING id, ctid = :'new' AS same;
SELECT count(*) FROM t WHERE ctid = :'new';
SELECT ctid AS moved FROM t WHERE id = 1002 \gset
ROLLBACK TO s;
SELECT id FROM t WHERE ctid = :'new';
SELECT count(*) FROM t WHERE ctid = :'moved';
COMMIT;
SELECT id FROM t WHERE ctid = :'new';
INSERT INTO t VALUES (1001, 2, 'twice') ON CONFLICT (id) DO UPDATE SET b = excluded.b WHERE t.ctid = :'new' RETURNING b, ctid = :'new' AS same;
INSERT INTO t VALUES (1001, 2, 'twice') ON CONFLICT (id) DO UPDATE SET b = excluded.b WHERE t.ctid <> :'new' RETURNING b;

-- a cursor, a function
BEGIN;
DECLARE k CURSOR FOR SELECT ctid FROM t ORDER BY id;
FETCH 1 FROM k \gset
UPDATE t SET b = 'cursor' WHERE ctid = :'ctid' RETURNING id;
FETCH 1 FROM k \gset
UPDATE t SET b = 'cursor' WHERE ctid = :'ctid' RETURNING id;
COMMIT;
DO $$
DECLARE r record;
BEGIN
	FOR r IN SELECT ctid, id FROM t WHERE id <= 3 LOOP
		UPDATE t SET a = r.id * 100 WHERE ctid = r.ctid;
	END LOOP;
END $$;
SELECT id, a, b FROM t WHERE id <= 3 ORDER BY id;

-- partitions: ctid and tableoid together name a row
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE p1 (id int OPTIONS (key 'true') NOT NULL, v int) SERVER system_columns;
CREATE FOREIGN TABLE p2 (id int OPTIONS (key 'true') NOT NULL, v int) SERVER system_columns;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
INSERT INTO p SELECT i, i % 3 FROM generate_series(5, 14) i RETURNING tableoid::regclass, id;
SELECT tableoid::regclass, min(id), max(id) FROM p GROUP BY 1 ORDER BY 1;
BEGIN;
DELETE FROM p WHERE (tableoid, ctid) NOT IN (SELECT DISTINCT ON (v) tableoid, ctid FROM p ORDER BY v, id);
SELECT tableoid::regclass, * FROM p ORDER BY id;
ROLLBACK;
UPDATE p SET v = 10 WHERE ctid = (SELECT ctid FROM p WHERE id = 12) RETURNING tableoid::regclass, id, v;
SELECT DISTINCT tableoid::regclass FROM t;
UPDATE t SET b = 'x' WHERE id = 1 RETURNING tableoid::regclass;
DELETE FROM t WHERE id = 1 RETURNING tableoid::regclass;

-- xmin: another one for each version
CREATE FOREIGN TABLE x (id int OPTIONS (key 'true') NOT NULL, n int, v text) SERVER system_columns;
CREATE INDEX x_n ON x (n);
INSERT INTO x SELECT i, i, 'x' FROM generate_series(1, 50) i;
SELECT xmin AS v1 FROM x WHERE id = 1 \gset
SELECT cmin, cmax, xmax, xmin = :'v1' AS same, tableoid::regclass FROM x WHERE id = 1;
UPDATE x SET v = 'y' WHERE id = 1 AND xmin = :'v1';
UPDATE x SET v = 'z' WHERE id = 1 AND xmin = :'v1';
SELECT xmin AS v2, v FROM x WHERE id = 1 \gset
SELECT :'v1' <> :'v2' AS differ;
UPDATE x SET v = v WHERE id = 1;
SELECT count(*) FROM x WHERE id = 1 AND xmin = :'v2';
UPDATE x SET v = 'x' WHERE id = 1;
SELECT count(*) FROM x WHERE id = 1 AND xmin IN (:'v1', :'v2');
DELETE FROM x WHERE id = 1 AND xmin = :'v1';
SELECT count(*) FROM x;

-- what RETURNING says holds after the commit
INSERT INTO x VALUES (100, 0, 'new') RETURNING xmin AS v1, cmin, cmax, xmax \gset
SELECT n, v, :cmin + :cmax + :xmax AS others FROM x WHERE id = 100 AND xmin = :'v1';
UPDATE x SET v = 'newer' WHERE id = 100 AND xmin = :'v1' RETURNING xmin AS v2 \gset
SELECT count(*) FROM x WHERE xmin = :'v1';
SELECT id, v FROM x WHERE xmin = :'v2';
UPDATE x SET n = n WHERE id = 100 AND xmin = :'v2' RETURNING xmin AS v3, ctid, v \gset
SELECT id FROM x WHERE xmin = :'v3' AND ctid = :'ctid' AND xmin <> :'v2';
DELETE FROM x WHERE id = 100 AND xmin = :'v3' RETURNING id, xmin = :'v3' AS same, xmax, v;
BEGIN;
INSERT INTO x VALUES (100, 0, 'new');
SELECT xmin AS v1 FROM x WHERE id = 100 \gset
UPDATE x SET n = n + 1 WHERE id = 100;
SELECT xmin AS v2, n FROM x WHERE id = 100 \gset
SAVEPOINT s;
UPDATE x SET n = n + 1 WHERE id = 100 RETURNING xmin AS v3 \gset
ROLLBACK TO s;
UPDATE x SET v = 'more' WHERE id = 2;
SELECT xmin AS v4 FROM x WHERE id = 2 \gset
COMMIT;
SELECT id, xmin = :'v1' AS v1, xmin = :'v2' AS v2, xmin = :'v3' AS v3, xmin = :'v4' AS v4
FROM x WHERE id IN (2, 100) ORDER BY id;
SELECT v FROM x WHERE id = 100;

-- by ON CONFLICT, too
INSERT INTO x VALUES (100, 7, 'again') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE x.xmin = :'v1' RETURNING v;
INSERT INTO x VALUES (100, 7, 'again') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE x.xmin = :'v2' RETURNING v, xmin AS v3 \gset
SELECT id, v FROM x WHERE xmin = :'v3';
INSERT INTO x VALUES (101, 7, 'new') ON CONFLICT DO NOTHING RETURNING xmin AS v3 \gset
SELECT id, v FROM x WHERE xmin = :'v3';

-- increments: bound to that version, and seen in it
EXPLAIN (COSTS OFF) UPDATE x SET v = 'bound' WHERE id = 101 AND xmin = '1';
CREATE FOREIGN TABLE counter (id int OPTIONS (key 'true') NOT NULL, n int) SERVER system_columns;
INSERT INTO counter VALUES (1, 0), (2, 0);
EXPLAIN (COSTS OFF) UPDATE counter SET n = n + 1 WHERE id = 1;
EXPLAIN (COSTS OFF) UPDATE counter SET n = n + 1 WHERE id = 1 AND xmin = '1';
EXPLAIN (COSTS OFF) UPDATE counter SET n = n + 1 WHERE id = 1 AND ctid = '(0,1)';
SELECT xmin AS v1 FROM counter WHERE id = 1 \gset
UPDATE counter SET n = n + 1 WHERE id = 1;
SELECT count(*) FROM counter WHERE id = 1 AND xmin = :'v1';
UPDATE counter SET n = 10 WHERE id = 2 RETURNING xmin AS v2 \gset
UPDATE counter SET n = n + 1 WHERE id = 2;
SELECT n, xmin = :'v2' AS same FROM counter WHERE id = 2;
SELECT * FROM mosql_fdw_check('counter') WHERE severity = 'broken';

-- by each kind of scan; entries alone do not have it
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT n FROM x WHERE n = 30;
EXPLAIN (COSTS OFF) SELECT n, xmin FROM x WHERE n = 30;
SELECT count(*) FROM x a, x b, x c
WHERE a.n = 30 AND b.id = 30 AND (c.n = 30 OR c.id = 30) AND a.xmin = b.xmin AND b.xmin = c.xmin;
SELECT count(*) FROM x WHERE n > 40 AND xmin <> '0' AND n < 45;
RESET enable_seqscan;
SELECT tableoid::regclass, count(xmin), max(xmax::text) FROM p GROUP BY 1 ORDER BY 1;
SELECT id, xmin = xmin AS same FROM p WHERE id = 12 FOR UPDATE;
SELECT count(*) FROM (SELECT xmin FROM p UNION ALL SELECT xmin FROM x) s WHERE s.xmin IS NOT NULL;
INSERT INTO p VALUES (1, 9), (19, 9) RETURNING tableoid::regclass, id, xmin <> '0' AS there;
UPDATE p SET v = 8 WHERE v = 9 RETURNING tableoid::regclass, id, xmin <> '0' AS there;
DELETE FROM p WHERE v = 8 RETURNING tableoid::regclass, id, xmin <> '0' AS there;
SELECT x, xmin <> '0' AS there FROM x WHERE id = 2;
UPDATE x SET n = 3 WHERE id = 2 RETURNING x, xmin <> '0' AS there;
DELETE FROM x WHERE id = 2 RETURNING x, xmin <> '0' AS there;
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := NEW.v || '!'; RETURN NEW; END $$;
CREATE TRIGGER keep BEFORE INSERT OR UPDATE ON x FOR EACH ROW EXECUTE FUNCTION keep();
INSERT INTO x VALUES (200, 1, 't') RETURNING v, xmin AS v1 \gset
UPDATE x SET n = 2 WHERE xmin = :'v1' RETURNING id, v;
DROP FOREIGN TABLE x, counter;
DROP FUNCTION keep();

-- in bounded memory
INSERT INTO h SELECT i, 'many' FROM generate_series(1, 70000) i;
SET mosql_fdw.max_transaction_size = '1MB';
SELECT count(DISTINCT ctid) FROM h;
SELECT count(DISTINCT ctid) FROM t;
RESET mosql_fdw.max_transaction_size;
SELECT count(DISTINCT ctid) FROM h;
SELECT count(*) FROM t WHERE ctid = :'row5';

DROP TABLE p;
DROP FOREIGN TABLE t, h;
DROP SERVER system_columns CASCADE;
