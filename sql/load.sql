-- many rows: bulk loads in every order, large scans, what remains after deletes
SET client_min_messages = warning;
CREATE FUNCTION outline(t regclass) RETURNS TABLE (inner_nodes bool, well_filled bool, sound bool) LANGUAGE sql AS $$
	SELECT level > 0, count(*) <= 2 + sum(entries) / 30, bool_and(state IN ('normal', 'packed') AND intents = 0)
	FROM mosql_fdw_dump(t) GROUP BY 1 ORDER BY 1 $$;

CREATE FOREIGN TABLE up (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
INSERT INTO up SELECT i, md5(i::text) FROM generate_series(1, 50000) i;
SELECT count(*), min(id), max(id), sum(id), count(DISTINCT v) FROM up;
SELECT * FROM outline('up');
-- keys in order fill leaves completely
SELECT sum(entries) / count(*) >= 60 AS dense FROM mosql_fdw_dump('up') WHERE level = 0;
INSERT INTO up SELECT i, md5(i::text) FROM generate_series(50001, 60000) i;
SELECT sum(entries) / count(*) >= 60 AS dense FROM mosql_fdw_dump('up') WHERE level = 0;

CREATE FOREIGN TABLE down (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
INSERT INTO down SELECT i, md5(i::text) FROM generate_series(20000, 1, -1) i;
SELECT count(*), min(id), max(id), sum(id) FROM down;
SELECT * FROM outline('down');

CREATE FOREIGN TABLE mixed (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
CREATE TABLE local AS SELECT i::bigint * 7919 % 30011 AS id, md5(i::text) AS v FROM generate_series(1, 30000) i;
INSERT INTO mixed SELECT * FROM local WHERE id % 3 = 0;
INSERT INTO mixed SELECT * FROM local WHERE id % 3 = 1;
INSERT INTO mixed SELECT * FROM local WHERE id % 3 = 2;
SELECT count(*) FROM (TABLE mixed EXCEPT SELECT id::int, v FROM local) x;
SELECT (SELECT count(*) FROM mixed), (SELECT count(*) FROM local);
SELECT * FROM outline('mixed');

-- the order of a scan, both ways, over all leaves
SELECT count(*) FROM (SELECT id, lag(id) OVER () AS before FROM (SELECT id FROM mixed ORDER BY id) x) y WHERE id <= before;
SELECT count(*) FROM (SELECT id, lag(id) OVER () AS before FROM (SELECT id FROM mixed ORDER BY id DESC) x) y WHERE id >= before;
SELECT id FROM mixed ORDER BY id OFFSET 29990;
SELECT id FROM mixed ORDER BY id DESC LIMIT 3 OFFSET 15000;

-- cursors that read on after the savepoint of their first rows
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM up ORDER BY id;
DECLARE d CURSOR FOR SELECT id FROM up ORDER BY id DESC;
SAVEPOINT s;
FETCH 1 FROM c;
FETCH 1 FROM d;
DELETE FROM up WHERE id % 2 = 0;
ROLLBACK TO s;
MOVE 29998 FROM c;
FETCH 2 FROM c;
MOVE 59997 FROM d;
FETCH ALL FROM d;
CLOSE d;
MOVE ALL FROM c;
CLOSE c;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT id FROM up ORDER BY id;
SAVEPOINT s;
MOVE 20000 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
SAVEPOINT s;
MOVE 20000 FROM c;
ROLLBACK TO s;
MOVE ALL FROM c;
CLOSE c;
COMMIT;

-- a load between rows that are there: one is in the middle, one was, several were
CREATE FOREIGN TABLE gaps (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
INSERT INTO gaps VALUES (50, 'there');
INSERT INTO gaps SELECT i, 'load' FROM generate_series(1, 60) i WHERE i <> 50;
SELECT v, count(*), sum(id) FROM gaps GROUP BY v ORDER BY v;
DELETE FROM gaps;
INSERT INTO gaps SELECT i, 'again' FROM generate_series(1, 60) i;
SELECT v, count(*), sum(id) FROM gaps GROUP BY v ORDER BY v;
TRUNCATE gaps;
INSERT INTO gaps VALUES (30, 'there'), (61, 'there');
DELETE FROM gaps WHERE id = 30;
INSERT INTO gaps SELECT i, 'load' FROM generate_series(1, 60) i;
SELECT v, count(*), sum(id) FROM gaps GROUP BY v ORDER BY v;
TRUNCATE gaps;
INSERT INTO gaps VALUES (1, 'there'), (60, 'there');
SELECT outcome('INSERT INTO gaps SELECT i, ''load'' FROM generate_series(1, 59) i');
INSERT INTO gaps SELECT i, 'load' FROM generate_series(1, 60) i ON CONFLICT DO NOTHING;
SELECT v, count(*), sum(id) FROM gaps GROUP BY v ORDER BY v;
TRUNCATE gaps;
BEGIN;
INSERT INTO gaps VALUES (50, 'own');
DELETE FROM gaps WHERE id = 50;
INSERT INTO gaps SELECT i, 'load' FROM generate_series(1, 60) i;
COMMIT;
SELECT v, count(*), sum(id) FROM gaps GROUP BY v ORDER BY v;

-- duplicates deep in a load
SELECT outcome('INSERT INTO up SELECT i FROM generate_series(60001, 65000) i UNION ALL SELECT 30000');
SELECT outcome('INSERT INTO up SELECT CASE WHEN i = 4999 THEN 60001 ELSE 60000 + i END FROM generate_series(1, 5000) i');
SELECT count(*) FROM up WHERE id > 60000;

-- updates and deletes of everything
UPDATE mixed SET v = upper(v);
SELECT count(*) FROM mixed m JOIN local l USING (id) WHERE m.v = upper(l.v);
DELETE FROM mixed WHERE id % 2 = 0;
SELECT count(*), bool_and(id % 2 = 1) FROM mixed;
DELETE FROM mixed;
SELECT count(*) FROM mixed;
INSERT INTO mixed SELECT id, 'again' FROM local;
SELECT count(*), min(v) FROM mixed;
BEGIN;
DELETE FROM mixed WHERE id > 100;
INSERT INTO mixed SELECT i, 'own' FROM generate_series(200, 20000, 3) i;
SELECT count(*), sum(id) FROM mixed;
SELECT id, v FROM mixed WHERE id BETWEEN 98 AND 205 ORDER BY id;
SELECT id, v FROM mixed WHERE id BETWEEN 98 AND 205 ORDER BY id DESC;
COMMIT;
SELECT count(*), sum(id) FROM mixed;

-- rows of very different size
CREATE FOREIGN TABLE sizes (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
INSERT INTO sizes SELECT i, (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, CASE WHEN i % 50 = 0 THEN 3000 ELSE i % 7 END) j)
	FROM generate_series(1, 1000) i;
SELECT count(*), count(v), sum(length(v)), md5(string_agg(v, '' ORDER BY id)) FROM sizes;
UPDATE sizes SET v = v || v WHERE id % 100 = 0;
SELECT sum(length(v)) FROM sizes;
SELECT max(level) > 0, count(*) FILTER (WHERE state NOT IN ('normal', 'packed')) FROM mosql_fdw_dump('sizes');

-- COPY
CREATE FOREIGN TABLE copied (a int OPTIONS (key 'true') NOT NULL, b text OPTIONS (key 'true') COLLATE "C" NOT NULL,
	c numeric DEFAULT 1.5, d timestamp, e text GENERATED ALWAYS AS (b || '!') STORED) SERVER redis;
COPY copied (a, b, d) FROM stdin (FORMAT csv, NULL 'null');
1,one,2026-01-01
1,two,null
2,"a,""b",null
\.
COPY copied (a, b) FROM stdin WHERE a > 10;
5	no
15	yes
\.
COPY (SELECT * FROM copied ORDER BY a, b) TO stdout;
COPY copied (a, b) FROM stdin;
20	new
1	one
\.
COPY copied (a, b) FROM stdin;
21	new
bad	new
\.
SELECT count(*) FROM copied;

-- batches of one row, of a few, and with triggers
ALTER FOREIGN TABLE copied OPTIONS (ADD batch_size '3');
INSERT INTO copied (a, b) SELECT 100 + i, 'batch' FROM generate_series(1, 10) i;
SELECT outcome('INSERT INTO copied (a, b) SELECT 110 + i % 7, ''batch'' FROM generate_series(1, 10) i');
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	NEW.c := (SELECT count(*) FROM copied WHERE b = 'batch'); RETURN NEW; END $$;
CREATE TRIGGER seen BEFORE INSERT ON copied FOR EACH ROW EXECUTE FUNCTION seen();
INSERT INTO copied (a, b) SELECT 200 + i, 'batch' FROM generate_series(1, 4) i;
SELECT a, c, e FROM copied WHERE a > 105 ORDER BY a;

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE up, down, mixed, gaps, sizes, copied;
DROP TABLE local;
DROP FUNCTION outline, seen;
