-- indexes of expressions, and partial ones
\set VERBOSITY terse
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true'), mail text COLLATE "C", a int, b int, c varchar(20),
						gone timestamptz, seen date) SERVER redis;
INSERT INTO t SELECT i, 'User' || i || '@X', i, i % 10, 'c' || i % 100,
	CASE WHEN i % 10 = 0 THEN timestamptz '2024-05-06 07:08+00' END, date '2024-01-01' + i
	FROM generate_series(1, 2000) i;

-- what may be declared
CREATE UNIQUE INDEX ON t (lower(mail)) WHERE gone IS NULL;
CREATE INDEX ON t ((a + b) DESC, c) INCLUDE (mail) WHERE a % 2 = 0;
CREATE INDEX t_many ON t (lower(c), (a % 7), (a % 7), (b));
CREATE INDEX t_list ON t (a) WHERE c IN ('c1', 'c2');
CREATE INDEX t_odd ON t ((a % 2 = 1));
CREATE INDEX t_all ON t (upper(mail) COLLATE "POSIX") WHERE true;
SET datestyle = 'SQL, DMY';
CREATE INDEX t_late ON t (a) WHERE seen >= '02/03/2028';
RESET datestyle;
\d t
SELECT attname FROM pg_attribute WHERE attrelid = 't_many'::regclass ORDER BY attnum;

-- and what not
CREATE FUNCTION own(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
SELECT outcome('CREATE INDEX ON t (own(a))');
SELECT outcome('CREATE INDEX ON t (a) WHERE own(a) > 1');
SELECT outcome('CREATE INDEX ON t ((random() * a))');
SELECT outcome('CREATE INDEX ON t (a) WHERE gone < now()');
SELECT outcome('CREATE INDEX ON t (point(a, b))');
SELECT outcome('CREATE INDEX ON t ((t))');
SELECT outcome('CREATE INDEX ON t (a) WHERE tableoid = 1');
SELECT outcome('CREATE INDEX ON t ((sum(a)))');
SELECT outcome('CREATE INDEX ON t (nosuch(a))');
SELECT outcome('CREATE INDEX ON t (a) WHERE a');
SELECT outcome('CREATE INDEX ON t ((1 / (a - 5)))');
SELECT outcome('CREATE INDEX ON t ((a || b) COLLATE nosuch)');
SELECT outcome('CREATE INDEX ON t ((a + b) COLLATE "C")');
SELECT outcome('CREATE INDEX ON t (a) INCLUDE (lower(c))');
SELECT outcome('CREATE UNIQUE INDEX ON t ((a / 2))');
CREATE TEXT SEARCH CONFIGURATION own (COPY = english);
SELECT outcome('CREATE INDEX ON t (a) WHERE to_tsvector(''own'', mail) @@ ''x''::tsquery');
SELECT outcome('CREATE INDEX ON t (a) WHERE to_tsvector(''english'', mail) @@ ''x''::tsquery');
DROP TEXT SEARCH CONFIGURATION own;
DROP FUNCTION own;

-- plans
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		RETURN NEXT line;
	END LOOP;
END $$;
ANALYZE t;
SELECT tablename, attname, n_distinct FROM pg_stats WHERE tablename IN ('t_many', 't_lower_idx') ORDER BY 1, 2;
SELECT plan('SELECT * FROM t WHERE lower(mail) = ''user5@x'' AND gone IS NULL');
SELECT plan('SELECT * FROM t WHERE lower(mail) = ''user5@x''');
SELECT plan('SELECT * FROM t WHERE lower(mail) IN (''user5@x'', ''user6@x'') AND gone IS NULL AND a < 6');
SELECT plan('SELECT id FROM t WHERE lower(mail) LIKE ''user19%'' AND gone IS NULL');
SELECT plan('SELECT id FROM t WHERE lower(mail) > ''user9'' AND gone IS NULL ORDER BY lower(mail) DESC LIMIT 2');
SELECT plan('SELECT mail FROM t WHERE a + b > 2000 AND a % 2 = 0');
SELECT plan('SELECT mail FROM t WHERE a % 2 = 0 ORDER BY a + b DESC LIMIT 2');
SELECT plan('SELECT count(*) FROM t WHERE c IN (''c1'', ''c2'')');
SELECT plan('SELECT count(*) FROM t WHERE c = ''c2''');
SELECT plan('SELECT count(*) FROM t WHERE c = ''c3''');
SELECT plan('SELECT count(*) FROM t WHERE a % 2 = 1');
SELECT plan('SELECT id FROM t WHERE seen >= ''2028-06-01''');
SELECT plan('SELECT id FROM t WHERE lower(c) = ''c5'' AND a % 7 = 5');
SELECT plan('SELECT y.id FROM t x JOIN t y ON lower(y.mail) = x.mail WHERE x.id < 5 AND y.gone IS NULL');
-- a join implies the predicate, but not for rows that an outer join keeps
CREATE INDEX t_seen ON t (seen) WHERE seen IS NOT NULL;
SELECT plan('SELECT y.id FROM t x JOIN t y ON y.seen = x.seen WHERE x.id = 5');
SELECT plan('SELECT y.id FROM t x LEFT JOIN t y ON y.seen = x.seen WHERE x.id = 5');
INSERT INTO t (id) VALUES (2999);
SELECT x.id, y.id FROM t x LEFT JOIN t y ON y.seen = x.seen ORDER BY x.seen DESC NULLS FIRST LIMIT 1;
DELETE FROM t WHERE id = 2999;
DROP INDEX t_seen;
PREPARE by_mail (text) AS SELECT id FROM t WHERE lower(mail) = $1 AND gone IS NULL;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_mail ('user7@x');
EXECUTE by_mail ('user7@x');
RESET plan_cache_mode;

-- rows
SELECT id, mail FROM t WHERE lower(mail) IN ('user5@x', 'user6@x', 'user10@x') AND gone IS NULL ORDER BY id;
SELECT id FROM t WHERE lower(mail) > 'user9' AND gone IS NULL ORDER BY lower(mail) DESC LIMIT 2;
SELECT mail FROM t WHERE a % 2 = 0 ORDER BY a + b DESC LIMIT 2;
SELECT count(*) FROM t WHERE c IN ('c1', 'c2');
SELECT count(*), min(id) FROM t WHERE a % 2 = 1;
SELECT count(*) FROM t WHERE lower(c) = 'c5' AND a % 7 = 5;
SELECT min(seen), count(*) FROM t WHERE seen >= '2028-06-01';

-- writes: into a partial index, within it, and out of it
INSERT INTO t VALUES (3000, 'USER5@x');
INSERT INTO t VALUES (3000, 'USER10@x'), (3001, 'user20@X');
INSERT INTO t VALUES (3002, 'user10@X');
UPDATE t SET gone = NULL WHERE id = 10;
UPDATE t SET gone = now() WHERE id = 3000;
UPDATE t SET gone = NULL WHERE id = 10;
UPDATE t SET gone = NULL WHERE id = 3000;
UPDATE t SET gone = NULL, mail = 'other' WHERE id = 3000;
UPDATE t SET mail = 'Other' WHERE id = 3001;
UPDATE t SET mail = upper(mail) WHERE id BETWEEN 11 AND 19;
UPDATE t SET a = a + 1 WHERE id BETWEEN 11 AND 19;
DELETE FROM t WHERE id IN (11, 3001);
UPDATE t SET id = -id WHERE id = 12;
SELECT id, mail, gone FROM t WHERE lower(mail) IN ('user10@x', 'other', 'user12@x') AND gone IS NULL ORDER BY id;
SELECT count(*) FROM t WHERE a % 2 = 1;
BEGIN;
UPDATE t SET gone = now() WHERE lower(mail) = 'other' AND gone IS NULL;
SAVEPOINT s;
INSERT INTO t VALUES (3003, 'OTHER');
SELECT id FROM t WHERE lower(mail) = 'other' AND gone IS NULL;
ROLLBACK TO s;
SELECT id FROM t WHERE lower(mail) = 'other' AND gone IS NULL;
ROLLBACK;
SELECT * FROM mosql_fdw_check('t');
-- an error in an expression is the statement's
CREATE INDEX t_div ON t ((1000 / (b - 100)));
INSERT INTO t (id, b) VALUES (4000, 100);
UPDATE t SET b = b + 1 WHERE id = 3000;
SELECT count(*) FROM t WHERE id = 4000;
DROP INDEX t_div;

-- ON CONFLICT
INSERT INTO t VALUES (3003, 'OTHER', 7) ON CONFLICT (lower(mail)) WHERE gone IS NULL DO UPDATE SET a = excluded.a RETURNING id, mail, a;
INSERT INTO t VALUES (3003, 'OTHER', 7) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (3003, 'OTHER', 7) ON CONFLICT (lower(mail)) DO NOTHING;
INSERT INTO t (id, mail, gone) VALUES (3003, 'OTHER', now()) ON CONFLICT (lower(mail)) WHERE gone IS NULL DO NOTHING RETURNING id;
INSERT INTO t (id, mail) VALUES (3004, 'twice'), (3005, 'TWICE') ON CONFLICT (lower(mail)) WHERE gone IS NULL DO NOTHING RETURNING id;
INSERT INTO t (id, mail) VALUES (3006, 'three'), (3007, 'THREE') ON CONFLICT (lower(mail)) WHERE gone IS NULL DO UPDATE SET a = 0;
INSERT INTO t (id, mail) VALUES (1, 'again') ON CONFLICT (id) DO UPDATE SET mail = excluded.mail RETURNING mail;
SELECT id FROM t WHERE lower(mail) = 'again' AND gone IS NULL;

-- a counter that an index is computed by is written at once, another one at commit
CREATE FOREIGN TABLE n (id int OPTIONS (key 'true'), v int, w int, x int) SERVER redis;
INSERT INTO n VALUES (1, 1, 1, 1);
CREATE INDEX n_v ON n (id) WHERE v > 1;
CREATE INDEX n_w ON n ((w * 2));
SELECT plan('UPDATE n SET v = v + 1 WHERE id = 1');
SELECT plan('UPDATE n SET w = w + 1 WHERE id = 1');
SELECT plan('UPDATE n SET x = x + 1 WHERE id = 1');
UPDATE n SET v = v + 1 WHERE id = 1;
UPDATE n SET w = w + 1 WHERE id = 1;
SELECT * FROM n WHERE w * 2 = 4;
SELECT id FROM n WHERE v > 1;
SELECT * FROM mosql_fdw_check('n');
DROP FOREIGN TABLE n;

-- nulls
CREATE UNIQUE INDEX t_nulls ON t ((a + b)) NULLS NOT DISTINCT WHERE id > 3000;
DELETE FROM t WHERE id > 3003;
CREATE UNIQUE INDEX t_nulls ON t ((a + b)) NULLS NOT DISTINCT WHERE id > 3000;
INSERT INTO t (id) VALUES (3010);
SELECT id FROM t WHERE a + b IS NULL AND id > 3000;
DROP INDEX t_nulls;
SELECT * FROM mosql_fdw_check('t');

-- another server's view, which knows a renamed column by its new name, or not yet
CREATE SCHEMA other;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO other;
\d other.t
ALTER FOREIGN TABLE t RENAME mail TO address;
ALTER FOREIGN TABLE t RENAME b TO mail;
INSERT INTO other.t (id, mail) VALUES (5000, 'user5000@X');
SELECT mosql_fdw_refresh('other.t') IS NOT NULL AS refreshed;
\d other.t
INSERT INTO other.t (id, address) VALUES (5000, 'user5000@X');
INSERT INTO t (id, address) VALUES (5001, 'USER5000@X');
SELECT id FROM t WHERE lower(address) = 'user5000@x' AND gone IS NULL;
SELECT plan('SELECT id FROM other.t WHERE lower(address) = ''user5000@x'' AND gone IS NULL');
CREATE INDEX t_new ON t ((address || 'x')) WHERE address <> '';
INSERT INTO other.t (id, address) VALUES (5002, 'new');
SELECT id FROM t WHERE address || 'x' = 'newx' AND address <> '';
SELECT kind, name, action FROM mosql_fdw_gc('redis') WHERE kind = 'index';
SELECT pg_get_indexdef('other.t_new'::regclass);
-- another index of the same name
DROP INDEX t_new;
CREATE UNIQUE INDEX t_new ON t ((address || 'y'));
SELECT plan('SELECT id FROM other.t WHERE address || ''y'' = ''newy''');
SELECT kind, name, finding, action FROM mosql_fdw_gc('redis') WHERE kind = 'index';
SELECT pg_get_indexdef('other.t_new'::regclass);
INSERT INTO other.t (id, address) VALUES (5003, 'new') ON CONFLICT ((address || 'y')) DO UPDATE SET a = 1 RETURNING id, a;
DROP INDEX t_new;
CREATE INDEX t_new ON t (address);
SELECT mosql_fdw_refresh('other.t') IS NULL AS unchanged;
SELECT pg_get_indexdef('other.t_new'::regclass);
SET mosql_fdw.drop_data = off;
DROP SCHEMA other CASCADE;
RESET mosql_fdw.drop_data;
DROP INDEX t_new;

-- a dump that is restored finds them
SELECT format('%s;', pg_get_indexdef(indexrelid)) FROM pg_index WHERE indrelid = 't'::regclass AND NOT indisprimary ORDER BY indexrelid::regclass::text \gexec

-- ALTER, DROP, TRUNCATE
SELECT outcome('ALTER FOREIGN TABLE t ALTER address TYPE bytea');
ALTER FOREIGN TABLE t ALTER a TYPE bigint;
ALTER FOREIGN TABLE t ALTER c TYPE text;
\d t
SELECT * FROM mosql_fdw_check('t');
SELECT plan('SELECT count(*) FROM t WHERE c = ''c2''');
SELECT count(*) FROM t WHERE lower(c) = 'c5' AND a % 7 = 5;
ALTER FOREIGN TABLE t DROP gone;
ALTER FOREIGN TABLE t DROP mail;
ALTER INDEX t_list RENAME TO t_listed;
DROP INDEX t_odd;
\d t
INSERT INTO t (id, c) VALUES (6000, 'c1');
SELECT * FROM mosql_fdw_check('t');
TRUNCATE t;
INSERT INTO t (id, a, c) VALUES (1, 1, 'c1'), (2, 2, 'C3');
SELECT a FROM t WHERE c IN ('c1', 'c2');
BEGIN;
CREATE INDEX t_back ON t ((a * 2));
SELECT id FROM t WHERE a * 2 = 4;
ROLLBACK;
SELECT plan('SELECT id FROM t WHERE a * 2 = 4');
SELECT * FROM mosql_fdw_check('t');

-- labels of enums, and domains: the types have the same names elsewhere
CREATE TYPE mood AS ENUM ('sad', 'so so', 'glad');
CREATE DOMAIN short AS text COLLATE "C" CHECK (length(value) < 9);
CREATE FOREIGN TABLE m (id int OPTIONS (key 'true'), mood mood DEFAULT 'so so', name short CHECK (name <> '')) SERVER redis;
CREATE UNIQUE INDEX m_one ON m (upper(name)) WHERE mood = 'glad' OR mood IS NULL;
CREATE INDEX m_some ON m (name) WHERE mood IN ('sad', 'glad');
CREATE INDEX m_case ON m ((CASE WHEN mood = 'sad' THEN 'glad'::mood ELSE mood END));
SELECT outcome('CREATE INDEX ON m ((greatest(mood, ''sad'')))');
SELECT outcome('CREATE INDEX ON m ((hashenum(mood)))');
SELECT outcome('CREATE INDEX ON m ((array[mood] < array[''sad''::mood]))');
SELECT outcome('CREATE INDEX ON m ((name || ''x'')) WHERE (id::text)::short = ''1''');
INSERT INTO m VALUES (1, 'sad', 'a'), (2, 'glad', 'a'), (3, 'so so', 'A');
INSERT INTO m VALUES (4, 'glad', 'A');
UPDATE m SET mood = NULL WHERE id = 3;
SET mosql_fdw.drop_data = off;
CREATE SCHEMA other;
IMPORT FOREIGN SCHEMA public LIMIT TO (m) FROM SERVER redis INTO other;
RESET mosql_fdw.drop_data;
\d other.m
INSERT INTO other.m (id, name) VALUES (5, '');
INSERT INTO other.m (id, name) VALUES (5, 'b') RETURNING mood;
INSERT INTO other.m VALUES (6, NULL, 'A');
SELECT plan('SELECT id FROM other.m WHERE upper(name) = ''A'' AND mood = ''glad''');
SELECT id FROM other.m WHERE upper(name) = 'A' AND mood = 'glad';
SELECT id FROM m WHERE CASE WHEN mood = 'sad' THEN 'glad'::mood ELSE mood END = 'glad' ORDER BY id;
SELECT * FROM mosql_fdw_check('m');
SET mosql_fdw.drop_data = off;
DROP SCHEMA other CASCADE;
RESET mosql_fdw.drop_data;
DROP FOREIGN TABLE m;
DROP TYPE mood;
DROP DOMAIN short;

-- plain CREATE TABLE LIKE takes them along
SET mosql_fdw.default_server = 'redis';
CREATE TABLE l (LIKE t INCLUDING INDEXES);
RESET mosql_fdw.default_server;
\d l
DROP FOREIGN TABLE t, l;
DROP FUNCTION plan;

-- functions in SQL, whose bodies are of built-in ones
CREATE TYPE state AS ENUM ('open', 'done', 'gone');
CREATE FUNCTION is_in(mask bit(3), state state) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE state WHEN 'open' THEN get_bit(mask, 2) WHEN 'done' THEN get_bit(mask, 1) ELSE 0 END = 1 $$;
CREATE FUNCTION half(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 2';
CREATE FUNCTION volatile_half(int) RETURNS int LANGUAGE sql AS 'SELECT $1 / 2';
CREATE FOREIGN TABLE job (id int OPTIONS (key 'true'), key text COLLATE "C", mask bit(3), state state) SERVER redis;
CREATE UNIQUE INDEX job_key ON job (key) WHERE key IS NOT NULL AND mask IS NOT NULL AND is_in(mask, state);
CREATE INDEX job_half ON job (half(id));
CREATE INDEX ON job (volatile_half(id));
SELECT indexdef FROM (SELECT pg_get_indexdef(indexrelid) AS indexdef FROM pg_index WHERE indrelid = 'job'::regclass) i ORDER BY 1;
INSERT INTO job VALUES (1, 'a', '001', 'open'), (2, 'a', '111', 'gone'), (3, 'b', NULL, 'open'), (4, 'b', '001', 'open');
INSERT INTO job VALUES (5, 'a', '001', 'open');
INSERT INTO job VALUES (5, 'a', '001', 'done')
	ON CONFLICT (key) WHERE key IS NOT NULL AND mask IS NOT NULL AND is_in(mask, state) DO UPDATE SET mask = '011' RETURNING id;
INSERT INTO job VALUES (6, 'a', '010', 'done')
	ON CONFLICT (key) WHERE key IS NOT NULL AND mask IS NOT NULL AND is_in(mask, state) DO UPDATE SET mask = '011' RETURNING id;
EXPLAIN (COSTS OFF) SELECT * FROM job WHERE half(id) = 2;
EXPLAIN (COSTS OFF) SELECT * FROM job WHERE key = 'a' AND mask IS NOT NULL AND is_in(mask, state);
SELECT severity, finding FROM mosql_fdw_check('job');
-- a condition that is always true is none
CREATE FUNCTION always() RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
CREATE INDEX job_always ON job (state) WHERE always();
ALTER FOREIGN TABLE job ALTER mask TYPE varbit;
DROP INDEX job_always;
DROP FUNCTION always;
DROP FOREIGN TABLE job;
DROP FUNCTION is_in, half, volatile_half;
DROP TYPE state;
-- what is built in and not marked as immutable, but is put in place of its call
CREATE FOREIGN TABLE joined (id int PRIMARY KEY, a text COLLATE "C", b int, c int) SERVER redis;
INSERT INTO joined SELECT i, 'a' || i % 3, i, i % 2 FROM generate_series(1, 9) i;
CREATE UNIQUE INDEX joined_ab ON joined ((a || b));
CREATE INDEX ON joined (id) WHERE a || b > 'a2';
INSERT INTO joined VALUES (10, 'a1', 1, 1) ON CONFLICT ((a || b)) DO UPDATE SET c = 7 RETURNING id, c;
EXPLAIN (COSTS OFF) SELECT id FROM joined WHERE a || b = 'a15';
SELECT id FROM joined WHERE a || b = 'a14';
-- numbers that become strings have a collation, also within an expression
CREATE INDEX joined_c ON joined ((coalesce(c, b)));
ALTER FOREIGN TABLE joined ALTER b TYPE text, ALTER c TYPE varchar;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'joined'::regclass ORDER BY indexrelid;
SELECT id FROM joined WHERE coalesce(c, b) = '7';
ALTER FOREIGN TABLE joined ALTER b TYPE int USING b::int;
SELECT pg_get_indexdef('joined_ab'::regclass), pg_get_indexdef('joined_c'::regclass);
SELECT severity, finding FROM mosql_fdw_check('joined');
DROP FOREIGN TABLE joined;
CREATE FOREIGN TABLE dated (id int PRIMARY KEY, t timestamp) SERVER redis;
CREATE INDEX dated_day ON dated ((t::date));
ALTER FOREIGN TABLE dated ALTER t TYPE timestamptz;
ALTER FOREIGN TABLE dated ALTER t TYPE date;
DROP FOREIGN TABLE dated;
