-- loads whose rows come in order, or do so for a while, in memory and beyond it
SET client_min_messages = warning;
SET maintenance_work_mem = '1MB';
CREATE TEMP TABLE source (id int, v text);
CREATE FUNCTION fill(source text) RETURNS TABLE (n bigint, sum bigint, first int, last int, others bigint, loaded bool, findings bigint) LANGUAGE plpgsql AS $$
BEGIN
	DROP FOREIGN TABLE IF EXISTS sorted;
	PERFORM mosql_fdw_stats_reset();
	CREATE FOREIGN TABLE sorted (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
	EXECUTE 'INSERT INTO sorted ' || source;
	RETURN QUERY SELECT count(*), sum(id), min(id), max(id),
		(SELECT count(*) FROM (SELECT * FROM sorted EXCEPT SELECT * FROM source) x),
		(SELECT value FROM mosql_fdw_stats() WHERE name = 'rows_loaded') = count(*),
		(SELECT count(*) FROM mosql_fdw_check('sorted')) FROM sorted;
END $$;
-- in order: in memory; most of it in a file
INSERT INTO source SELECT i, md5(i::text) FROM generate_series(1, 3000) i;
SELECT * FROM fill('SELECT * FROM source ORDER BY id');
INSERT INTO source SELECT i, repeat(md5(i::text), 3) FROM generate_series(3001, 30000) i;
SELECT * FROM fill('SELECT * FROM source ORDER BY id');
-- not in order: by the last one; by all; half way
SELECT * FROM fill('(SELECT * FROM source WHERE id > 1 ORDER BY id) UNION ALL (SELECT * FROM source WHERE id = 1)');
SELECT * FROM fill('SELECT * FROM source ORDER BY id DESC');
SELECT * FROM fill('(SELECT * FROM source WHERE id % 2 = 0 ORDER BY id) UNION ALL (SELECT * FROM source WHERE id % 2 = 1 ORDER BY id)');
-- the same twice: one behind the other; far from each other
SELECT * FROM fill('SELECT * FROM source UNION ALL SELECT 30000, NULL ORDER BY id');
SELECT * FROM fill('(SELECT * FROM source ORDER BY id) UNION ALL (SELECT 5, NULL)');

-- a copy with another key, and entries: in order, and not
SELECT n FROM fill('SELECT * FROM source');
ALTER FOREIGN TABLE sorted ADD COLUMN back int GENERATED ALWAYS AS (-id) STORED;
SELECT * FROM mosql_fdw_check('sorted');
BEGIN;
CREATE INDEX ON sorted (id, v);
CREATE INDEX ON sorted (back);
CREATE INDEX ON sorted (v);
COMMIT;
SELECT count(*), count(DISTINCT v), sum(back) FROM sorted;
SELECT * FROM mosql_fdw_check('sorted');

-- rows that are larger than all the memory
TRUNCATE source;
INSERT INTO source SELECT i, repeat(chr(65 + i), 1100000) FROM generate_series(1, 5) i;
INSERT INTO source SELECT i, '' FROM generate_series(6, 2000) i;
INSERT INTO source VALUES (2001, NULL);
SELECT * FROM fill('SELECT * FROM source ORDER BY id');
SELECT * FROM fill('SELECT * FROM source ORDER BY id DESC');
DROP FOREIGN TABLE sorted;
DROP FUNCTION fill;
