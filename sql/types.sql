-- every type that can be a column, and every type that can be a key
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE FOREIGN TABLE all_types (
    id int OPTIONS (key 'true') NOT NULL,
    b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(20,5),
    t text, v varchar(20), c char(6), ba bytea, d date, ti time, tz timetz,
    ts timestamp, tsz timestamptz, iv interval, u uuid, j json, jb jsonb,
    ia int[], ta text[], m mood, p positive, cp pair, o oid, na name
) SERVER redis;
INSERT INTO all_types VALUES (1, true, -32768, -2147483648, -9223372036854775808, -1.5, 1e300,
    -12345678.00001, 'text', 'varchar', 'char', '\x00ff', '2026-11-21', '12:34:56.789',
    '12:34:56+02', '2026-11-21 12:34:56', '2026-11-21 12:34:56+00', '1 year 2 mons 3 days',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}', '{"b": [1, 2]}',
    '{1,2,NULL}', '{a,"b c",NULL}', 'ok', 7, '(1,x)', 4294967295, 'name');
INSERT INTO all_types (id) VALUES (2);
INSERT INTO all_types VALUES (3, false, 32767, 2147483647, 9223372036854775807, 'NaN', '-Infinity',
    'NaN', '', '', '', '', 'infinity', '24:00:00', '00:00:00-15:59',
    '-infinity', 'infinity', '-178000000 years', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'null', 'null',
    '{}', '{{a,b},{c,d}}', 'happy', 1, '(,)', 0, '');
\x on
SET timezone = 'UTC';
SELECT * FROM all_types ORDER BY id;
\x off
INSERT INTO all_types (id, p) VALUES (4, -1);

-- large values: compressed and not, up to the executor
CREATE FOREIGN TABLE large (id int OPTIONS (key 'true') NOT NULL, v text, b bytea) SERVER redis;
INSERT INTO large VALUES (1, repeat('compressible ', 100000), NULL);
INSERT INTO large SELECT 2, string_agg(md5(i::text), ''), decode(string_agg(md5(i::text), ''), 'hex')
    FROM generate_series(1, 50000) i;
SELECT id, length(v), md5(v), length(b) FROM large ORDER BY id;

-- keys: order of storage is the order of the type
CREATE FOREIGN TABLE k_text (k text OPTIONS (key 'true') COLLATE "C" NOT NULL, n int) SERVER redis;
INSERT INTO k_text SELECT v, row_number() OVER () FROM unnest(ARRAY['', 'a', 'A', 'aa', 'b', E'a\x01', 'ab', 'Ä', 'zz', repeat('x', 1000)]) v;
SELECT left(k, 10) FROM k_text ORDER BY k;
SELECT left(k, 10) FROM k_text WHERE k > 'a' AND k < 'b' ORDER BY k DESC;
SELECT n FROM k_text WHERE k LIKE 'a%' ORDER BY k;

CREATE FOREIGN TABLE k_num (k numeric OPTIONS (key 'true') NOT NULL) SERVER redis;
INSERT INTO k_num SELECT v FROM unnest(ARRAY['0', '1.50', '-1.5', '1e100', '-1e100', '0.0001', '-0.0001', '9999', '10000', '10000.1', 'NaN', 'Infinity', '-Infinity']::numeric[]) v;
SELECT * FROM k_num ORDER BY k;
SELECT * FROM k_num WHERE k BETWEEN -1 AND 9999.5 ORDER BY k;
INSERT INTO k_num VALUES (1.5);

CREATE FOREIGN TABLE k_float (k float8 OPTIONS (key 'true') NOT NULL) SERVER redis;
INSERT INTO k_float VALUES (0), (-1e-300), (1e-300), ('NaN'), ('Infinity'), ('-Infinity'), (-1), (1);
SELECT * FROM k_float ORDER BY k;
INSERT INTO k_float VALUES ('-0');

CREATE FOREIGN TABLE k_multi (
    a bool OPTIONS (key 'true') NOT NULL, b date OPTIONS (key 'true') NOT NULL,
    c uuid OPTIONS (key 'true') NOT NULL, d timestamptz OPTIONS (key 'true') NOT NULL,
    e bytea OPTIONS (key 'true') NOT NULL, f char(4) OPTIONS (key 'true') NOT NULL,
    g mood OPTIONS (key 'true') NOT NULL, v int) SERVER redis;
INSERT INTO k_multi SELECT i % 2 = 0, date '2026-01-01' + i, ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1' || i)::uuid,
    timestamptz '2026-01-01 00:00+00' + i * interval '1 hour', decode(repeat('00', i), 'hex'), 'x' || i,
    (enum_range(NULL::mood))[1 + i % 3], i FROM generate_series(0, 5) i;
SELECT v FROM k_multi WHERE a AND b = '2026-01-05' AND c = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14';
SELECT a, b, f, g, v FROM k_multi ORDER BY a, b;

-- settings of a session that reads: what NULL is in an array, and what XML has to be
CREATE TYPE mood_part AS (m mood, t text[]);
CREATE TYPE xml_part AS (x xml, n int);
CREATE FOREIGN TABLE read_so (id int OPTIONS (key 'true') NOT NULL, m mood[], p mood_part, x xml[], q xml_part) SERVER redis;
INSERT INTO read_so VALUES (1, '{sad,NULL}', ROW('sad', '{NULL,"NULL"}'), ARRAY['a<b/>'::xml], ROW('c<d/>', 1));
SET array_nulls = off;
SET xmloption = document;
UPDATE read_so SET id = id + 1, q.n = 2;
SELECT id, m, p, x, q, (p).t[1] IS NULL AS "null", (p).t[2] IS NULL AS "no null" FROM read_so;
SELECT * FROM mosql_fdw_check('read_so');
SHOW array_nulls;
RESET array_nulls;
RESET xmloption;
DROP FOREIGN TABLE read_so;
DROP TYPE mood_part, xml_part;

-- what cannot be a key
CREATE FOREIGN TABLE bad (k jsonb OPTIONS (key 'true') NOT NULL) SERVER redis;
CREATE FOREIGN TABLE bad (k jsonb[] OPTIONS (key 'true') NOT NULL) SERVER redis;
SELECT c.* FROM (VALUES ('all_types'), ('large'), ('k_text'), ('k_num'), ('k_float'), ('k_multi')) v(t),
    mosql_fdw_check(t::regclass) c;
DROP FOREIGN TABLE all_types, large, k_text, k_num, k_float, k_multi;
DROP TYPE mood, pair; DROP DOMAIN positive;
