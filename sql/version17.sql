-- what PostgreSQL 17 brought; before it, expected/version17_1.out
SELECT current_setting('server_version_num')::int < 170000 AS older \gset
\if :older
\quit
\endif
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, a int,
	twice int GENERATED ALWAYS AS (a * 2) STORED) SERVER redis;
CREATE UNIQUE INDEX t_twice ON t (twice);
INSERT INTO t SELECT i, i FROM generate_series(1, 500) i;
ALTER TABLE t ALTER twice SET EXPRESSION AS (a * -2);
SELECT count(*), sum(twice) FROM t;
SELECT id FROM t WHERE twice = -14;
INSERT INTO t VALUES (501, 501) RETURNING twice;
ALTER TABLE t ALTER twice SET EXPRESSION AS (a / 2);	-- no longer unique
SELECT sum(twice) FROM t;
BEGIN;
ALTER TABLE t ALTER twice SET EXPRESSION AS (a * 3);
SELECT sum(twice) FROM t;
ROLLBACK;
SELECT sum(twice) FROM t;
CREATE SCHEMA far;
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO far;
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'far.t'::regclass;
SELECT * FROM mosql_fdw_check('t');
MERGE INTO t USING (VALUES (1)) s(x) ON id = x
	WHEN MATCHED THEN UPDATE SET a = 0 WHEN NOT MATCHED BY SOURCE THEN DELETE RETURNING merge_action();
-- a column that COPY lists, with a mark for its default
CREATE SEQUENCE marked;
CREATE DOMAIN mark AS int DEFAULT nextval('marked');
CREATE FOREIGN TABLE m (id int OPTIONS (key 'true') NOT NULL, n mark) SERVER redis;
COPY m FROM stdin (DEFAULT '\D');
1	\D
\.
COPY m (id) FROM stdin (DEFAULT '\D');
2
\.
SELECT * FROM m;
DROP FOREIGN TABLE m;
DROP DOMAIN mark;
DROP SEQUENCE marked;
DROP SCHEMA far CASCADE;
DROP FOREIGN TABLE IF EXISTS t;
