-- packed leaves: what a load or a build writes is blocks; rows that are changed come out of them one by
-- one, until somebody deletes; each story is told of PostgreSQL's own table, of a packed one, and of one with rows as fields
SET client_min_messages = warning;
\getenv nodes MOSQL_NODES
CREATE SERVER packed FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'packed');
CREATE SCHEMA native; CREATE SCHEMA lz4; CREATE SCHEMA plain;
CREATE TABLE native.t (id int PRIMARY KEY, n int, s text);
CREATE FOREIGN TABLE lz4.t (id int PRIMARY KEY, n int, s text) SERVER packed OPTIONS (schema_name 'lz4');
CREATE FOREIGN TABLE plain.t (id int PRIMARY KEY, n int, s text) SERVER packed
	OPTIONS (schema_name 'plain', compression 'none');
CREATE FUNCTION packed(t regclass) RETURNS TABLE (any_leaf bool, every_leaf bool) LANGUAGE sql AS $$
	SELECT bool_or(state = 'packed'), bool_and(state = 'packed') FROM mosql_fdw_dump(t) WHERE level = 0 $$;
CREATE FUNCTION unpacked() RETURNS bigint LANGUAGE sql AS
	$$ SELECT value FROM mosql_fdw_stats() WHERE name = 'leaves_unpacked' $$;
CREATE FUNCTION beside() RETURNS bigint LANGUAGE sql AS
	$$ SELECT value FROM mosql_fdw_stats() WHERE name = 'rows_beside' $$;
CREATE FUNCTION sums(OUT n bigint, OUT sum bigint, OUT md5 text) LANGUAGE plpgsql STABLE AS
	$$ BEGIN SELECT count(*), sum(t.n), md5(string_agg(t::text, ',' ORDER BY id)) FROM t INTO n, sum, md5; END $$;

-- loads pack; reads leave it so, by key, in ranges, backwards, at snapshots
\set load 'BEGIN; TRUNCATE t; INSERT INTO t SELECT i, i % 100, repeat(md5(i::text), i % 5) FROM generate_series(2000, 2, -2) i; COMMIT;'
\set reads 'SELECT * FROM sums(); SELECT id, n, s FROM t WHERE id IN (40, 41, 1400) ORDER BY id; SELECT id FROM t WHERE id BETWEEN 995 AND 1001 ORDER BY id DESC; SELECT count(*) FROM t WHERE id > 1990; SELECT count(*) FROM t a JOIN t b ON b.id = a.n;'
SET search_path = native, public; :load :reads
SET search_path = plain, public; :load :reads
SET search_path = lz4, public; :load :reads
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT * FROM sums(); COMMIT;
SELECT * FROM packed('plain.t');
SELECT * FROM packed('lz4.t');

-- builds pack
CREATE INDEX ON native.t (n, id); CREATE INDEX ON plain.t (n, id); CREATE INDEX ON lz4.t (n, id);
\set reads 'SELECT count(*), min(id), max(id) FROM t WHERE n = 40; SELECT id FROM t WHERE n > 95 ORDER BY n, id LIMIT 3;'
SET search_path = native, public; :reads
SET search_path = plain, public; :reads
SET search_path = lz4, public; :reads
SELECT * FROM mosql_fdw_check('lz4.t');

-- a row that is changed comes out of its leaf's block, and its leaf stays packed, and so does the index's
SELECT unpacked() AS before, beside() AS rows_before \gset
UPDATE t SET s = 'written' WHERE id = 500;
SELECT unpacked() - :before AS leaves;
UPDATE t SET s = 'again' WHERE id IN (498, 500, 502);
SELECT unpacked() - :before AS leaves, beside() - :rows_before AS rows;
SELECT * FROM packed('lz4.t');
UPDATE plain.t SET s = 'written' WHERE id = 500; UPDATE native.t SET s = 'written' WHERE id = 500;
UPDATE plain.t SET s = 'again' WHERE id IN (498, 500, 502); UPDATE native.t SET s = 'again' WHERE id IN (498, 500, 502);

-- locked, added to, changed again, looked at by key and in ranges, certified; only of the index leaves are unpacked
\set story 'BEGIN; SELECT s FROM t WHERE id IN (600, 602, 603) ORDER BY id FOR UPDATE; UPDATE t SET n = n + 1000 WHERE id = 602; SELECT n FROM t WHERE id = 602; ROLLBACK; UPDATE t SET n = n + 1000 WHERE id = 604; UPDATE t SET n = n - 1 WHERE id = 604; UPDATE t SET n = n + 1, s = NULL WHERE id IN (602, 604, 605); SELECT id, n, s FROM t WHERE id BETWEEN 600 AND 606 ORDER BY id; SELECT id, n, s FROM t WHERE id IN (600, 602, 603, 604); BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT n FROM t WHERE id = 606; SELECT n FROM t WHERE id = 604; SELECT n FROM t WHERE id = 607; UPDATE t SET n = -1 WHERE id = 608; COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; UPDATE t SET n = n + 5 WHERE id = 610; SAVEPOINT s; UPDATE t SET n = 0 WHERE id = 612; ROLLBACK TO s; COMMIT; SELECT * FROM sums();'
SET search_path = native, public; :story
SET search_path = plain, public; :story
SET search_path = lz4, public; :story
SELECT unpacked() - :before AS leaves;
SELECT * FROM packed('lz4.t');
SELECT * FROM mosql_fdw_check('lz4.t');
SELECT count(*) FROM native.t FULL JOIN lz4.t o ON t = o::text::native.t WHERE t.id IS NULL OR o.id IS NULL;

-- a row that is inserted stands beside the block, and so does its entry; a row that is in the block is found, whether it was looked for or not
\set story 'INSERT INTO t VALUES (701, 1, repeat(''new'', 2)); INSERT INTO t VALUES (700, 1); INSERT INTO t VALUES (701, 1); INSERT INTO t VALUES (700, 1), (703, 98) ON CONFLICT DO NOTHING; INSERT INTO t VALUES (700, 1), (705, 98) ON CONFLICT (id) DO UPDATE SET s = repeat(''set'', 2); BEGIN; INSERT INTO t VALUES (707, 1); ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; INSERT INTO t VALUES (709, 98), (711, 98); SAVEPOINT s; INSERT INTO t VALUES (713, 98); ROLLBACK TO s; UPDATE t SET n = n + 1 WHERE id = 709; SELECT id FROM t WHERE id > 700 ORDER BY id LIMIT 9; COMMIT; SELECT id, n, s FROM t WHERE id BETWEEN 700 AND 714 ORDER BY id; SELECT id FROM t WHERE n IN (98, 99) AND id BETWEEN 650 AND 750 ORDER BY id; SELECT * FROM sums();'
SET search_path = native, public; :story
SET search_path = plain, public; :story
SET search_path = lz4, public; SELECT unpacked() AS before_inserts \gset
:story
SELECT unpacked() - :before_inserts AS leaves;
SELECT * FROM mosql_fdw_check('lz4.t');
SELECT count(*) FROM native.t FULL JOIN lz4.t o ON t = o::text::native.t WHERE t.id IS NULL OR o.id IS NULL;

-- who deletes unpacks, and what came out of the block stays as it is
UPDATE native.t SET n = n WHERE id = 604; DELETE FROM native.t WHERE id IN (602, 606); INSERT INTO native.t VALUES (603, 1);
UPDATE plain.t SET n = n WHERE id = 604; DELETE FROM plain.t WHERE id IN (602, 606); INSERT INTO plain.t VALUES (603, 1);
DELETE FROM t WHERE id IN (602, 606);
SELECT unpacked() - :before AS leaves;
INSERT INTO t VALUES (604, 1);
INSERT INTO t VALUES (603, 1);
SELECT id, n, s FROM t WHERE id BETWEEN 600 AND 606 ORDER BY id;
SELECT count(*) FROM native.t FULL JOIN lz4.t o ON t = o::text::native.t WHERE t.id IS NULL OR o.id IS NULL;

-- all sorts of writes, rolled back in parts, below a snapshot and a cursor
\set story 'BEGIN; UPDATE t SET n = n + 1 WHERE id BETWEEN 100 AND 300; DELETE FROM t WHERE id BETWEEN 900 AND 1200; SAVEPOINT s; INSERT INTO t SELECT i, -i FROM generate_series(1, 1999, 200) i; SELECT * FROM sums(); ROLLBACK TO s; INSERT INTO t VALUES (7, 7), (1400, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + 1000; SELECT * FROM sums(); COMMIT; SELECT * FROM sums(); BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE c CURSOR FOR SELECT id FROM t WHERE id > 1500 ORDER BY id; FETCH 2 FROM c; DELETE FROM t WHERE id > 1503; FETCH 3 FROM c; SELECT count(*) FROM t; ROLLBACK; BEGIN; SELECT id FROM t WHERE id IN (1700, 1702) ORDER BY id FOR UPDATE; ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t WHERE id > 1800; INSERT INTO t VALUES (1801, 1); COMMIT; INSERT INTO t VALUES (1803, 0); DELETE FROM t WHERE id = 1803; INSERT INTO t VALUES (1803, 0), (1802, 0); SELECT * FROM sums();'
SET search_path = native, public; :story
SET search_path = plain, public; :story
SET search_path = lz4, public; :story
SELECT * FROM packed('lz4.t');
SELECT * FROM mosql_fdw_check('lz4.t');
SELECT count(*) FROM native.t FULL JOIN lz4.t o ON t = o::text::native.t WHERE t.id IS NULL OR o.id IS NULL;

-- behind what was loaded, in the same transaction too; a foreign key's look at its parent
\set story 'BEGIN; TRUNCATE t; INSERT INTO t SELECT i, i FROM generate_series(1, 1500) i; INSERT INTO t SELECT i, i FROM generate_series(1501, 3000) i; UPDATE t SET n = -1 WHERE id % 500 = 0; COMMIT; INSERT INTO t VALUES (3001, 1); SELECT * FROM sums();'
SET search_path = native, public; :story
SET search_path = plain, public; :story
SET search_path = lz4, public; :story
CREATE FOREIGN TABLE lz4.child (id int PRIMARY KEY, t int REFERENCES lz4.t) SERVER packed OPTIONS (schema_name 'lz4');
SELECT unpacked() AS before \gset
INSERT INTO child VALUES (1, 800);
INSERT INTO child VALUES (2, 8000);
BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO child VALUES (2, 802); COMMIT;
SELECT unpacked() - :before AS leaves;
DELETE FROM t WHERE id = 800;
DELETE FROM t WHERE id = 801;
SELECT * FROM mosql_fdw_check('lz4.t');
SELECT count(*) > 0 AS maintained FROM mosql_fdw_maintain('packed');
SELECT * FROM sums();

-- maintenance packs leaves that nobody has written to for pack_after: memory comes back after updates
UPDATE t SET s = repeat('quiet', 4);
SELECT * FROM packed('lz4.t');
SELECT sums() AS before \gset
SELECT leaves_packed FROM mosql_fdw_maintain('packed');
ALTER SERVER packed OPTIONS (ADD pack_after '0');
SELECT leaves_packed BETWEEN 40 AND 100 AS packs FROM mosql_fdw_maintain('packed');
SELECT (result->>'bytes_packed')::bigint < (result->>'bytes_before_packing')::bigint / 2 AS smaller
	FROM mosql_fdw_progress WHERE server = 'packed' AND operation = 'maintenance';
SELECT any_leaf FROM packed('lz4.t');
SELECT any_leaf FROM packed('plain.t');
SELECT sums()::text = :'before' AS same;
SELECT leaves_packed FROM mosql_fdw_maintain('packed');
SELECT unpacked() AS before \gset
UPDATE t SET s = 'written' WHERE id IN (500, 501);
SELECT unpacked() - :before AS leaves;
ALTER FOREIGN TABLE lz4.t OPTIONS (ADD pack_after 'never');
SELECT leaves_packed FROM mosql_fdw_maintain('packed');
ALTER FOREIGN TABLE lz4.t OPTIONS (SET pack_after '1min');
SELECT leaves_packed FROM mosql_fdw_maintain('packed');
ALTER FOREIGN TABLE lz4.t OPTIONS (SET pack_after '0s');
SELECT leaves_packed FROM mosql_fdw_maintain('packed');
SELECT * FROM mosql_fdw_check('lz4.t');
ALTER FOREIGN TABLE lz4.t OPTIONS (SET pack_after 'soon');

-- the option
ALTER FOREIGN TABLE plain.t OPTIONS (SET compression 'zip');
ALTER SERVER packed OPTIONS (ADD compression 'none');
ALTER FOREIGN TABLE plain.t OPTIONS (DROP compression);
SET search_path = plain, public; :load
SELECT * FROM packed('plain.t');
ALTER SERVER packed OPTIONS (SET compression 'zstd');
:load
SELECT * FROM packed('plain.t');
SELECT * FROM sums();
UPDATE t SET s = 'written' WHERE id = 500; DELETE FROM t WHERE id > 1000;
SELECT * FROM sums();
ALTER FOREIGN TABLE plain.t OPTIONS (ADD pack_after '0s');
SELECT leaves_packed > 0 AS packs FROM mosql_fdw_maintain('packed');
SELECT * FROM sums();
SELECT * FROM mosql_fdw_check('plain.t');
DROP SERVER packed CASCADE;
DROP SCHEMA native, lz4, plain CASCADE;
