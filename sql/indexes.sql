-- secondary indexes: what may be declared, what the planner does, what commit keeps
\set VERBOSITY terse
SET client_min_messages = notice;
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true'), a int, b text COLLATE "C", c numeric, d text) SERVER redis;
INSERT INTO t SELECT i, i % 100, 'b' || i % 10, i / 4.0, repeat('d', i % 50) FROM generate_series(1, 5000) i;
INSERT INTO t SELECT i, NULL, NULL, i, NULL FROM generate_series(5001, 5010) i;
CREATE INDEX ON t (a);
CREATE INDEX t_b ON t USING btree (b DESC NULLS LAST, a) INCLUDE (c);
CREATE UNIQUE INDEX ON t (c);
CREATE INDEX IF NOT EXISTS t_b ON t (a);
CREATE INDEX t_b ON t (a);
CREATE INDEX t_hash ON t USING hash (d);
CREATE UNIQUE INDEX ON t USING hash (a);
CREATE INDEX ON t USING hash (a, b);
CREATE INDEX ON t USING hash (a) INCLUDE (b);
CREATE INDEX ON t USING hash (a DESC);
CREATE INDEX ON t USING hash (a NULLS FIRST);
CREATE INDEX ON t USING gin (a);
CREATE INDEX ON t (nosuch);
CREATE UNIQUE INDEX ON t (a);
\d t
ANALYZE t;

-- plans
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		CONTINUE WHEN line LIKE '%Disabled: true';	-- from PostgreSQL 18 on
		RETURN NEXT regexp_replace(line, ' \(returns .*\)$', '');	-- until PostgreSQL 16
	END LOOP;
END $$;
SELECT plan($$SELECT * FROM t WHERE d = 'ddd'$$);
DROP INDEX t_hash;
SELECT plan('SELECT * FROM t WHERE a = 5');
SELECT plan('SELECT id, a FROM t WHERE a = 5');
SELECT plan('SELECT count(*) FROM t WHERE a BETWEEN 5 AND 6');
SELECT plan('SELECT * FROM t WHERE a IS NULL');
SELECT plan('SELECT b, a, c FROM t WHERE b = ''b5'' AND a > 90');
SELECT plan('SELECT b, a FROM t ORDER BY b DESC NULLS LAST, a LIMIT 3');
SELECT plan('SELECT b, a FROM t ORDER BY b NULLS FIRST, a DESC LIMIT 3');
SELECT plan('SELECT b FROM t ORDER BY b LIMIT 3');
SELECT plan('SELECT * FROM t WHERE c = 5');
SELECT plan('SELECT * FROM t WHERE c IN (5, 6, 7)');
SELECT plan('SELECT * FROM t WHERE c = 5 OR c = 7');
SELECT plan('SELECT min(c), max(c) FROM t');
SELECT plan('SELECT * FROM t x JOIN t y ON y.c = x.a WHERE x.id < 5');
SELECT plan('DELETE FROM t WHERE c = 5');
SELECT plan('UPDATE t SET a = a + 1 WHERE id = 1');
PREPARE by_c (numeric) AS SELECT id FROM t WHERE c = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_c (7);
EXECUTE by_c (7);
RESET plan_cache_mode;

-- rows
SELECT id, c FROM t WHERE a = 5 AND id < 300 ORDER BY id;
SELECT count(*) FROM t WHERE a IS NULL;
SELECT count(*) FROM t WHERE a < 3;
SELECT DISTINCT b FROM t WHERE b > 'b7' ORDER BY b DESC;
SELECT id FROM t WHERE c IN (5, 6, 7) ORDER BY id;
SELECT * FROM t WHERE c = 1.25;

-- writes keep them
INSERT INTO t VALUES (9000, 5, 'new', 1.25);
INSERT INTO t VALUES (9000, 5, 'new', 90000), (9001, 5, 'new', 90000);
INSERT INTO t VALUES (9000, 5, 'new', NULL), (9001, 5, 'new', NULL);
UPDATE t SET c = 1.25 WHERE id = 9000;
UPDATE t SET c = c + 0.25 WHERE id IN (100, 101);
UPDATE t SET a = 7777 WHERE id IN (5, 9000);
UPDATE t SET id = id + 10000 WHERE id = 6;
DELETE FROM t WHERE id = 7 OR c = 2;
SELECT id, a, b, c FROM t WHERE a = 7777 ORDER BY id;
SELECT id FROM t WHERE c = 1.5;
SELECT count(*) FROM t WHERE c IN (1.75, 2);
UPDATE t SET a = a + 1 WHERE id = 5;
SELECT id FROM t WHERE a = 7778;
BEGIN;
DELETE FROM t WHERE c = 3;
INSERT INTO t VALUES (12, 1, 'again', 3);
SAVEPOINT s;
UPDATE t SET c = 3.125 WHERE c = 3;
SELECT count(*) FILTER (WHERE c = 3), count(*) FILTER (WHERE c = 3.125) FROM t WHERE c IN (3, 3.125);
ROLLBACK TO s;
SELECT id, b FROM t WHERE c = 3;
COMMIT;
SELECT id, b FROM t WHERE c = 3;
CREATE FUNCTION mismatches() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM (SELECT id, a, c FROM t WHERE a IS NOT NULL) x
		FULL JOIN (SELECT id, a, c FROM t WHERE id > -1) y USING (id)
		WHERE (x.a, x.c) IS DISTINCT FROM (y.a, y.c) AND y.a IS NOT NULL $$;
SELECT mismatches();

-- ON CONFLICT
INSERT INTO t VALUES (9100, 1, 'x', 5) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (9100, 1, 'x', 5) ON CONFLICT (id) DO NOTHING;
INSERT INTO t VALUES (9100, 1, 'x', 5), (9101, 2, 'y', 5.0625) ON CONFLICT (c) DO UPDATE SET b = excluded.b || t.b RETURNING id, b;
INSERT INTO t VALUES (9102, 1, 'x', 77777), (9103, 2, 'y', 77777) ON CONFLICT (c) DO NOTHING RETURNING id;
INSERT INTO t VALUES (9104, 1, 'x', 88888), (9105, 2, 'y', 88888) ON CONFLICT (c) DO UPDATE SET a = 0;

-- constraints, nulls that are not distinct, keyless tables
CREATE FOREIGN TABLE u (x int, y int) SERVER redis;
ALTER TABLE u ADD CONSTRAINT xy UNIQUE NULLS NOT DISTINCT (x, y), ADD UNIQUE (y) INCLUDE (x);
INSERT INTO u VALUES (1, 1), (NULL, 2), (NULL, NULL);
INSERT INTO u VALUES (NULL, NULL);
INSERT INTO u VALUES (2, 1);
INSERT INTO u VALUES (2, 1) ON CONFLICT ON CONSTRAINT u_y_x_key DO UPDATE SET x = 10 RETURNING *;
INSERT INTO u VALUES (NULL, NULL) ON CONFLICT (x, y) DO NOTHING;
SELECT * FROM u WHERE x IS NULL AND y IS NULL;
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'u'::regclass ORDER BY 1;
ALTER TABLE u ADD UNIQUE (x) DEFERRABLE;
ALTER TABLE u ADD COLUMN z int, ADD PRIMARY KEY (y);
DELETE FROM u WHERE y IS NULL;
ALTER TABLE u ADD COLUMN z int, ADD PRIMARY KEY (y);
\d u
SELECT * FROM u WHERE x = 10;

SELECT outcome('ALTER TABLE u ADD COLUMN p point UNIQUE');
ALTER TABLE u ADD COLUMN long text;
CREATE INDEX ON u (long);
SELECT outcome('INSERT INTO u (x, y, long) VALUES (90, 90, repeat(''x'', 9000))');
ALTER TABLE u DROP COLUMN long;

-- another server's view of them
CREATE SCHEMA other;
IMPORT FOREIGN SCHEMA public LIMIT TO (u) FROM SERVER redis INTO other;
\d other.u
INSERT INTO other.u VALUES (3, 30);
SELECT y FROM u WHERE x = 3;
SET mosql_fdw.drop_data = off;
DROP SCHEMA other CASCADE;
RESET mosql_fdw.drop_data;

-- maintenance goes through indexes, too
DELETE FROM t WHERE id BETWEEN 100 AND 3000;
SELECT outcome, nodes_merged > 40 AS merged FROM mosql_fdw_maintain('redis');
SELECT * FROM mosql_fdw_check('t');
SELECT mismatches();

-- ALTER, DROP, RENAME, TRUNCATE
ALTER FOREIGN TABLE t ALTER a TYPE bigint;
SELECT plan('SELECT id FROM t WHERE a = 5');
SELECT count(*) FROM t WHERE a = 5;
SELECT mismatches();
ALTER FOREIGN TABLE t DROP COLUMN c;
ALTER INDEX t_a_idx RENAME TO t_by_a;
DROP INDEX t_by_a;
\d t
TRUNCATE t;
INSERT INTO t VALUES (1, 1, 'one', '');
CREATE INDEX CONCURRENTLY t_a ON t (a);
SELECT id FROM t WHERE a = 1;
BEGIN;
CREATE INDEX gone ON t (d);
INSERT INTO t VALUES (2, 2, 'two', 'd');
ROLLBACK;
\d t
SELECT * FROM mosql_fdw_check('t');
-- the same four bytes in a row, and others in a key
CREATE FOREIGN TABLE o (id int OPTIONS (key 'true'), n int UNIQUE) SERVER redis;
INSERT INTO o VALUES (1, 1), (2, -1);
ALTER FOREIGN TABLE o ALTER n TYPE oid;
INSERT INTO o VALUES (3, 1);
SELECT id FROM o WHERE n = 4294967295;
SELECT * FROM mosql_fdw_check('o');
DROP FOREIGN TABLE o;
DROP FOREIGN TABLE t, u;
DROP FUNCTION mismatches;

-- another type that cannot be a key
CREATE FOREIGN TABLE retyped (a int, b text) SERVER redis;
CREATE INDEX ON retyped (a);
ALTER TABLE retyped ALTER a TYPE regclass;

-- another server puts other indexes in the place of those that this one knows
CREATE SCHEMA far;
CREATE FOREIGN TABLE near (id int OPTIONS (key 'true') NOT NULL, u int, w int, pad text) SERVER redis;
INSERT INTO near SELECT i, i, 10000 - i, repeat('x', 100) FROM generate_series(1, 2000) i;
CREATE UNIQUE INDEX near_u ON near (u);
ANALYZE near;
CREATE FOREIGN TABLE far.near (id int OPTIONS (key 'true') NOT NULL, u int, w int, pad text) SERVER redis
	OPTIONS (schema_name 'public', table_name 'near');
SET plan_cache_mode = force_generic_plan;
PREPARE by_u (int) AS SELECT id, u FROM near WHERE u = $1;
EXPLAIN (COSTS OFF) EXECUTE by_u (5);
DROP INDEX far.near_u;
CREATE UNIQUE INDEX near_u ON far.near (w);
EXECUTE by_u (9995);
EXECUTE by_u (9995);
RESET plan_cache_mode;
INSERT INTO near VALUES (3000, 3000, 9995) ON CONFLICT (u) DO NOTHING;
DEALLOCATE by_u;
DROP FOREIGN TABLE retyped, near, far.near;
DROP SCHEMA far;

-- a boolean that may be null has three values: each test through the index and without it
CREATE FOREIGN TABLE tri (id int OPTIONS (key 'true'), b boolean, n int)
	SERVER redis OPTIONS (fdw_tuple_cost '100', fdw_startup_cost '0');
INSERT INTO tri SELECT i, (ARRAY[true, false, NULL])[1 + i % 3], i % 4 FROM generate_series(1, 30) i;
CREATE INDEX tri_b ON tri (b);
CREATE INDEX tri_e ON tri ((n = 2), b DESC NULLS LAST);
UPDATE tri SET n = NULL WHERE n = 3;
ANALYZE tri;
CREATE FUNCTION counts(query text, OUT by_index bigint, OUT by_table bigint) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_seqscan = off;
	EXECUTE query INTO by_index;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_indexscan = off;
	EXECUTE query INTO by_table;
	SET LOCAL enable_indexscan = on;
END $$;
SELECT test, (counts('SELECT count(*) FROM tri WHERE ' || test)).*
FROM unnest(ARRAY['b', 'NOT b', 'b = true', 'b <> true', 'b < true']
	|| ARRAY(SELECT format('(%s) IS %s%s', x, y, z)
		FROM unnest(ARRAY['b', 'n = 2']) x, unnest(ARRAY['', 'NOT ']) y, unnest(ARRAY['TRUE', 'FALSE', 'UNKNOWN', 'NULL']) z)
	|| ARRAY['b IS NOT TRUE AND n = 2', 'b IS NOT FALSE OR b IS UNKNOWN', 'NOT (b IS TRUE) AND NOT (b IS FALSE)']) test;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM tri WHERE b IS UNKNOWN;
SELECT plan('SELECT id FROM tri WHERE b IS NOT FALSE');
RESET enable_seqscan;
DROP FOREIGN TABLE tri;
DROP FUNCTION plan, counts;
