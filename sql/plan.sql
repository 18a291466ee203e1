-- which conditions become key ranges, and what the planner makes of them
CREATE FOREIGN TABLE orders (
	customer int OPTIONS (key 'true') NOT NULL,
	number bigint OPTIONS (key 'true') NOT NULL,
	total numeric
) SERVER redis;
CREATE FOREIGN TABLE customers (
	id int OPTIONS (key 'true') NOT NULL,
	name text
) SERVER redis;
CREATE FOREIGN TABLE words (
	word text OPTIONS (key 'true') COLLATE "C" NOT NULL,
	n int
) SERVER redis;
INSERT INTO orders SELECT c, n, c * n FROM generate_series(1, 50) c, generate_series(1, 40) n;
INSERT INTO customers SELECT c, 'customer ' || c FROM generate_series(1, 1000) c;
INSERT INTO words SELECT w, n FROM unnest('{a,ab,abc,abd,a%c,b,ba,c}'::text[]) WITH ORDINALITY AS x(w, n);

-- points
EXPLAIN (COSTS OFF) SELECT * FROM customers WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT * FROM customers WHERE 5 = id AND name LIKE 'c%';
EXPLAIN (COSTS OFF) SELECT * FROM customers WHERE id IN (9, 3, 3, 7000) ORDER BY id DESC;
SELECT * FROM customers WHERE id IN (9, 3, 3, 7000) ORDER BY id DESC;
EXPLAIN (COSTS OFF) SELECT * FROM customers WHERE id = 4 OR id = 2;
SELECT * FROM customers WHERE id = 4 OR id = 2;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE customer = 7 AND number IN (1, 2);

-- values that the column's type does not have
SELECT count(*) FROM customers WHERE id = 5000000000;
SELECT count(*) FROM customers WHERE id < 5000000000;
SELECT count(*) FROM customers WHERE id >= -5000000000;
SELECT count(*) FROM customers WHERE id IN (1, 5000000000, NULL);
SELECT count(*) FROM customers WHERE id = NULL::int;

-- ranges
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE customer = 7 AND number > 5 AND number <= 8 AND total > 0;
SELECT * FROM orders WHERE customer = 7 AND number > 5 AND number <= 8 AND total > 0;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE number = 5;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE (customer, number) > (49, 38) ORDER BY customer, number LIMIT 3;
SELECT * FROM orders WHERE (customer, number) > (49, 38) ORDER BY customer, number LIMIT 3;
SELECT count(*) FROM orders WHERE (customer, number) <= (2, NULL);
-- (from version 17 on the planner itself knows that there are none)
SELECT * FROM orders WHERE customer IS NULL;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE customer IS NOT NULL AND customer < 2;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE customer IN (1, 2) AND number IN (3, 4);

-- patterns
EXPLAIN (COSTS OFF) SELECT * FROM words WHERE word LIKE 'ab%';
SELECT * FROM words WHERE word LIKE 'ab%';
EXPLAIN (COSTS OFF) SELECT * FROM words WHERE word LIKE 'ab_';
SELECT * FROM words WHERE word LIKE 'ab_';
SELECT * FROM words WHERE word LIKE 'a\%%';
SELECT * FROM words WHERE word LIKE 'ab';
EXPLAIN (COSTS OFF) SELECT * FROM words WHERE word >= 'b' ORDER BY word;

-- C.UTF-8, the collation of this database, orders by code point, so by bytes, as C does; ICU's do not
CREATE FOREIGN TABLE names (name text OPTIONS (key 'true') NOT NULL, icu text COLLATE "und-x-icu") SERVER redis;
CREATE INDEX ON names (icu);
INSERT INTO names SELECT w, w FROM unnest(ARRAY['z', 'Z', 'é', 'zé', 'zz', 'ﬀ', U&'\+01F600', U&'\FFFD', '~', '']) w;
EXPLAIN (COSTS OFF) SELECT * FROM names WHERE name >= 'Z' AND name < U&'\FFFD' ORDER BY name DESC;
SELECT name FROM names WHERE name >= 'Z' AND name < U&'\FFFD' ORDER BY name DESC;
EXPLAIN (COSTS OFF) SELECT name FROM names ORDER BY name COLLATE "C" LIMIT 3;
EXPLAIN (COSTS OFF) SELECT name FROM names WHERE name < 'é' COLLATE "und-x-icu" ORDER BY name COLLATE "und-x-icu";
EXPLAIN (COSTS OFF) SELECT icu FROM names WHERE icu < 'é' ORDER BY icu;
EXPLAIN (COSTS OFF) SELECT icu FROM names WHERE icu COLLATE "C.utf8" < 'é' AND icu LIKE 'z%' ORDER BY icu COLLATE "C";
SELECT icu FROM names WHERE icu COLLATE "C.utf8" < 'é' AND icu LIKE 'z%' ORDER BY icu COLLATE "C";
SELECT array_agg(name) = (SELECT array_agg(w ORDER BY w) FROM (SELECT name || '' AS w FROM names OFFSET 0) n) AS in_order
	FROM (SELECT name FROM names ORDER BY name) o;

-- order
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE customer = 3 ORDER BY number DESC NULLS LAST LIMIT 2;
SELECT * FROM orders WHERE customer = 3 ORDER BY number DESC NULLS LAST LIMIT 2;
EXPLAIN (COSTS OFF) SELECT * FROM orders ORDER BY customer, number DESC;
EXPLAIN (COSTS OFF) SELECT DISTINCT customer FROM orders;
SELECT min(id), max(id) FROM customers WHERE id > 10;

-- parameters, generic plans included
PREPARE point (int) AS SELECT * FROM customers WHERE id = $1;
PREPARE list (int[], bigint) AS SELECT count(*) FROM orders WHERE customer = ANY ($1) AND number >= $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE point(5);
EXECUTE point(5);
EXPLAIN (COSTS OFF) EXECUTE list('{1, 2}', 39);
EXECUTE list('{1, 2, 2, NULL}', 39);
EXECUTE list('{}', 39);
EXECUTE list(NULL, 39);
EXECUTE list('{1}', NULL);
RESET plan_cache_mode;

-- joins: few outer rows look up by key, many read once
EXPLAIN (COSTS OFF) SELECT c.name, o.total FROM orders o JOIN customers c ON c.id = o.customer
	WHERE o.customer = 3 AND o.number < 3;
SELECT name FROM customers WHERE id IN (SELECT x FROM generate_series(1, 2) x) ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT o.total FROM (VALUES (1, 2), (3, 4)) v(c, n)
	JOIN orders o ON o.customer = v.c AND o.number = v.n;
SELECT o.total FROM (VALUES (1, 2), (3, 4)) v(c, n)
	JOIN orders o ON o.customer = v.c AND o.number = v.n ORDER BY 1;

-- a condition that may leak does not choose ranges before a security barrier's own
CREATE VIEW rare WITH (security_barrier) AS SELECT * FROM words WHERE n > 3;
EXPLAIN (COSTS OFF) SELECT * FROM rare WHERE word = 'b';
EXPLAIN (COSTS OFF) SELECT * FROM rare WHERE word LIKE 'b%';
SELECT * FROM rare WHERE word LIKE 'b%';

-- statistics
ANALYZE customers;
SELECT reltuples FROM pg_class WHERE relname = 'customers';
SELECT attname, n_distinct FROM pg_stats WHERE tablename = 'customers' ORDER BY 1;

-- options
\set VERBOSITY sqlstate
CREATE SERVER wrong FOREIGN DATA WRAPPER mosql_fdw OPTIONS (node 'a:1');
\set VERBOSITY default
CREATE SERVER wrong FOREIGN DATA WRAPPER mosql_fdw OPTIONS (node 'a:1');
CREATE SERVER wrong FOREIGN DATA WRAPPER mosql_fdw OPTIONS (table_name 't');
CREATE SERVER wrong FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes 'localhost');
CREATE SERVER wrong FOREIGN DATA WRAPPER mosql_fdw OPTIONS (namespace 'a b');
CREATE SERVER wrong FOREIGN DATA WRAPPER mosql_fdw OPTIONS (connect_timeout '0');
CREATE SERVER wrong FOREIGN DATA WRAPPER mosql_fdw OPTIONS (atomic 'lua');
ALTER FOREIGN TABLE orders ALTER total OPTIONS (ADD key 'perhaps');

DROP VIEW rare;
DROP FOREIGN TABLE orders, customers, words, names;
