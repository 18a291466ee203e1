-- ALTER COLUMN ... TYPE ... USING, alone and among other subcommands
SET client_min_messages = warning;
CREATE SCHEMA retype;
SET search_path = retype, public;
SET mosql_fdw.default_server = 'redis';
CREATE TYPE state AS ENUM ('open', 'shut');
CREATE TABLE door (
	id serial PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	state text DEFAULT 'open',
	width text,
	n int CHECK (n >= 0),
	m int DEFAULT 4,
	twice int GENERATED ALWAYS AS (m * 2) STORED
);
CREATE INDEX door_width ON door (width);
INSERT INTO door (name, state, width, n) SELECT 'd' || i, CASE WHEN i % 2 = 0 THEN 'open' ELSE 'shut' END, i || ' cm', i
	FROM generate_series(1, 500) i;
INSERT INTO door (name, state, width, n) VALUES ('none', NULL, NULL, NULL);

-- as Prisma, TypeORM, Rails, Django and Knex send it
ALTER TABLE door ALTER COLUMN state DROP DEFAULT;
ALTER TABLE door ALTER COLUMN state TYPE state USING (state::text::state);
ALTER TABLE door ALTER COLUMN state SET DEFAULT 'shut';
ALTER TABLE door ALTER COLUMN width TYPE int USING split_part(width, ' ', 1)::integer, ALTER COLUMN width SET DEFAULT 90,
	ADD COLUMN height int NOT NULL DEFAULT 200, ALTER COLUMN name TYPE varchar(20) USING (name::varchar(20)),
	ADD CONSTRAINT wide CHECK (width < 1000);
SELECT id, name, state, width, n, twice, height FROM door WHERE id IN (1, 2, 500, 501) ORDER BY id;
SELECT state, count(*), sum(width) FROM door GROUP BY 1 ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT name FROM door WHERE width = 77;
SELECT name FROM door WHERE width = 77;
INSERT INTO door (name) VALUES ('more') RETURNING name, state, width;
\d door
-- of other columns, as they were; without another type; of the key
ALTER TABLE door ALTER n TYPE bigint USING n + length(name), ALTER name TYPE text COLLATE "C" USING concat(name, ':', n);
ALTER TABLE door ALTER width TYPE int USING coalesce(width, 0) + 1;
SELECT id, name, width, n, twice FROM door WHERE id IN (1, 500, 501) ORDER BY id;
-- of domains
CREATE DOMAIN posint AS int CHECK (value >= 0);
CREATE TABLE dom (id int PRIMARY KEY, v posint, w int, x posint);
INSERT INTO dom VALUES (1, 2, 3, 4);
ALTER TABLE dom ALTER w TYPE text USING (w + v)::text;
ALTER TABLE dom ALTER v TYPE text USING v::text, ALTER x TYPE int USING x - 5;
SELECT * FROM dom;
ALTER TABLE dom ALTER x TYPE posint USING x::posint;
DROP TABLE dom;
CREATE TABLE key (id int REFERENCES door, at int, PRIMARY KEY (id, at));
INSERT INTO key SELECT i, i FROM generate_series(1, 5) i;
ALTER TABLE key ALTER at TYPE timestamptz USING to_timestamp(at);
SELECT * FROM key WHERE id = 3 AND at > '1970-01-01 00:00:00+00';
ALTER TABLE key ALTER at TYPE date USING at::date, ALTER id TYPE bigint USING id % 2 + 1;
ALTER TABLE key ALTER at TYPE date USING '2020-01-01'::date + id, ALTER id TYPE bigint USING id + 1;
SELECT * FROM key ORDER BY id;
INSERT INTO key VALUES (9999, now());
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'key'::regclass AND contype IN ('p', 'f') ORDER BY 1;
-- keys of a column that gets its type in the same command
CREATE TABLE room (code text PRIMARY KEY);
INSERT INTO room VALUES ('7');
CREATE TABLE desk (id jsonb, room int, place jsonb);
INSERT INTO desk VALUES ('1', 7, '{"a": 1}');
ALTER TABLE desk ALTER room TYPE text, ADD FOREIGN KEY (room) REFERENCES room;
ALTER TABLE desk ALTER id TYPE int USING id::int, ADD PRIMARY KEY (id), ALTER place TYPE int USING (place->>'a')::int,
	ADD UNIQUE (place, room), ADD CONSTRAINT beside FOREIGN KEY (place) REFERENCES desk;
ALTER TABLE desk ALTER room TYPE varchar USING 'none', ADD CONSTRAINT other FOREIGN KEY (room) REFERENCES room NOT VALID;
INSERT INTO desk VALUES (2, 'none', 1);
INSERT INTO desk VALUES (2, '7', 3);
INSERT INTO desk VALUES (2, '7', 2) RETURNING *;
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'desk'::regclass AND contype IN ('p', 'u', 'f') ORDER BY 1;
DROP TABLE desk, room;
-- what is the column itself copies nothing
SELECT node FROM mosql_fdw_dump('door') ORDER BY level DESC LIMIT 1 \gset
ALTER TABLE door ALTER name TYPE varchar USING name::varchar, ALTER n TYPE bigint USING n;
SELECT node = :'node' AS in_place FROM mosql_fdw_dump('door') ORDER BY level DESC LIMIT 1;

-- another type of the key in one command with the key's own DROP and ADD, as Prisma sends it
CREATE TABLE post (id serial, v int, CONSTRAINT "Post_pkey" PRIMARY KEY (id));
INSERT INTO post (v) VALUES (1), (2);
ALTER TABLE post DROP CONSTRAINT "Post_pkey", ALTER COLUMN "id" DROP DEFAULT, ALTER COLUMN "id" SET DATA TYPE TEXT,
	ADD CONSTRAINT "Post_pkey" PRIMARY KEY ("id");
ALTER TABLE post DROP CONSTRAINT "Post_pkey", ALTER id TYPE bigint USING id::bigint * 10, ADD COLUMN z int NOT NULL DEFAULT 5,
	ADD CONSTRAINT key_of_two PRIMARY KEY (id, z);
\d post
SELECT * FROM post WHERE id = 10;
-- a primary key of columns with a foreign key, and its end
CREATE TABLE line (id int NOT NULL, door int REFERENCES door, v int);
INSERT INTO line VALUES (1, 1, 1), (2, 1, 2);
ALTER TABLE line ADD PRIMARY KEY (door, id);
ALTER TABLE line DROP CONSTRAINT line_pkey, ADD CONSTRAINT line_key PRIMARY KEY (id, door);
SELECT outcome('INSERT INTO line VALUES (3, 9999)');
ALTER TABLE line DROP CONSTRAINT line_key;
SELECT outcome('INSERT INTO line VALUES (3, 9999)');
ALTER TABLE line DROP CONSTRAINT line_door_fkey, ALTER door TYPE bigint, ADD PRIMARY KEY (id);
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'line'::regclass AND contype IN ('p', 'f') ORDER BY 1;
SELECT outcome('ALTER TABLE door DROP CONSTRAINT door_pkey, ADD PRIMARY KEY (id)');
SELECT * FROM mosql_fdw_check('line');
SELECT * FROM mosql_fdw_check('post');

-- errors, and nothing is left of them
SELECT outcome('ALTER TABLE door ALTER name TYPE int USING name::int');
SELECT outcome('ALTER TABLE door ALTER name TYPE int USING (name = ''x'')');
SELECT outcome('ALTER TABLE door ALTER name TYPE int USING nosuch');
SELECT outcome('ALTER TABLE door ALTER name TYPE int');
SELECT outcome('ALTER TABLE door ALTER name TYPE int USING (SELECT 1)');
SELECT outcome('ALTER TABLE door ALTER name TYPE text USING door::text');
SELECT outcome('ALTER TABLE door ALTER name TYPE text USING ''same''');
SELECT outcome('ALTER TABLE door ALTER n TYPE int USING -1');
SELECT outcome('ALTER TABLE door ALTER twice TYPE bigint USING n');
SELECT outcome('ALTER TABLE door ALTER m TYPE bigint USING n');
SELECT outcome('ALTER TABLE door ALTER n TYPE int USING height, DROP height');
SELECT outcome('ALTER TABLE door ALTER nosuch TYPE int USING 1');
SELECT outcome('ALTER TABLE nosuch ALTER n TYPE int USING 1');
CREATE ROLE mosql_retyper;
GRANT USAGE ON SCHEMA retype TO mosql_retyper;
SET ROLE mosql_retyper;
SELECT outcome('ALTER TABLE door ALTER n TYPE int USING 1');
RESET ROLE;
DROP OWNED BY mosql_retyper;
DROP ROLE mosql_retyper;
SELECT id, name, state, width, n FROM door WHERE id = 1;
BEGIN;
ALTER TABLE door ALTER n TYPE numeric USING n + 0.5;
UPDATE door SET n = n * 10 WHERE id = 1 RETURNING n;
ROLLBACK;
SELECT n + 1 AS n FROM door WHERE id = 1;

-- with a table below it whose columns stand elsewhere; of partitions
CREATE TABLE base (a int, b text);
CREATE TABLE below (b text, c int, a int);
ALTER TABLE below INHERIT base;
INSERT INTO base VALUES (1, 'x');
INSERT INTO below VALUES ('y', 5, 2);
ALTER TABLE base ALTER a TYPE text USING b || a;
SELECT tableoid::regclass, a, b FROM base ORDER BY a;
CREATE TABLE whole (id int, v int) PARTITION BY LIST (id);
CREATE FOREIGN TABLE one PARTITION OF whole FOR VALUES IN (1) SERVER redis;
CREATE FOREIGN TABLE two PARTITION OF whole FOR VALUES IN (2) SERVER redis;
INSERT INTO whole VALUES (1, 10), (2, 20);
ALTER TABLE whole ALTER v TYPE text USING 'v' || v;
SELECT * FROM whole ORDER BY id;
-- rows of PostgreSQL's own beside them: core copies those, and not ours
CREATE TABLE three PARTITION OF whole FOR VALUES IN (3);
SELECT outcome('ALTER TABLE whole ALTER v TYPE int USING length(v)');
-- a session that has not loaded the library yet
\c -
SET search_path = retype, public;
ALTER TABLE door ALTER n TYPE numeric USING n + 0.25;
SELECT n FROM door WHERE id = 1;
SELECT * FROM mosql_fdw_check('door');
SELECT * FROM mosql_fdw_check('key');

SET client_min_messages = warning;
DROP SCHEMA retype CASCADE;

-- names and comments of indexes stay, beside PostgreSQL's own table; LIKE copies them
CREATE FUNCTION said(tab regclass) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT concat_ws(' ', c.relname, obj_description(c.oid, 'pg_class'), obj_description(o.oid, 'pg_constraint'))
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_constraint o ON o.conindid = c.oid
	WHERE i.indrelid = tab ORDER BY 1
$$;
CREATE SCHEMA said_own;
CREATE SCHEMA said_ours;
\set run 'CREATE TABLE k (id int, v int, w text, CONSTRAINT k_key PRIMARY KEY (id), CONSTRAINT k_u UNIQUE (v)); CREATE INDEX k_w ON k (w, v); COMMENT ON INDEX k_key IS $$key$$; COMMENT ON CONSTRAINT k_key ON k IS $$the key$$; COMMENT ON INDEX k_w IS $$w$$; COMMENT ON CONSTRAINT k_u ON k IS $$u$$; INSERT INTO k VALUES (1, 1, 1); ALTER TABLE k ALTER id TYPE bigint, ALTER v TYPE bigint; SELECT * FROM public.said($$k$$); CREATE TABLE l (LIKE k INCLUDING ALL); SELECT * FROM public.said($$l$$); BEGIN; ALTER TABLE k ALTER w TYPE int USING w::int; SAVEPOINT s; ALTER TABLE k ALTER id TYPE text; COMMENT ON INDEX k_w IS NULL; ROLLBACK TO s; ALTER TABLE k RENAME CONSTRAINT k_key TO k_other; ALTER TABLE k ALTER id TYPE int; COMMIT; SELECT * FROM public.said($$k$$); ALTER TABLE k ALTER id TYPE bigint, DROP CONSTRAINT k_other, ADD PRIMARY KEY (id); SELECT * FROM public.said($$k$$); CREATE TABLE i (a int, b int, c int, UNIQUE (a) INCLUDE (b, c)); CREATE INDEX ON i (b) INCLUDE (c); SELECT * FROM public.said($$i$$);'
SET search_path = said_own;
:run
SET search_path = said_ours;
SET mosql_fdw.default_server = 'redis';
:run
SELECT severity, finding FROM mosql_fdw_check('k');
RESET mosql_fdw.default_server;
RESET search_path;
DROP SCHEMA said_own, said_ours CASCADE;
DROP FUNCTION said(regclass);

-- rows need not satisfy a CHECK that is NOT VALID to be written anew, and NOT NULL is said as PostgreSQL says it
SET mosql_fdw.default_server = 'redis';
CREATE TABLE loose (id int PRIMARY KEY, a int, b int NOT NULL);
INSERT INTO loose VALUES (1, -1, 1), (2, 2, 2);
ALTER TABLE loose ADD CONSTRAINT positive CHECK (a > 0) NOT VALID;
ALTER TABLE loose ALTER b TYPE numeric;
ALTER TABLE loose ALTER a TYPE bigint, ADD COLUMN g int GENERATED ALWAYS AS (b + 1) STORED;
ALTER TABLE loose DROP CONSTRAINT loose_pkey, ADD PRIMARY KEY (b);
ALTER TABLE loose ADD PRIMARY KEY (a), DROP CONSTRAINT loose_pkey;
SELECT * FROM loose ORDER BY id;
\set VERBOSITY default
INSERT INTO loose VALUES (3, 3, 3);
UPDATE loose SET b = 4 WHERE id = 1;
ALTER TABLE loose ADD CHECK (id > 1), ALTER id TYPE bigint USING id;
ALTER TABLE loose ALTER id TYPE int USING nullif(id, 2), ALTER id SET NOT NULL;
ALTER TABLE loose VALIDATE CONSTRAINT positive;
\set VERBOSITY terse
DROP TABLE loose;
-- USING is evaluated once, also where core makes sequences for new columns between the parts of the command
CREATE TABLE once (id int PRIMARY KEY, a int);
CREATE TABLE below () INHERITS (once);
INSERT INTO once VALUES (1, 1);
INSERT INTO below VALUES (2, 2);
ALTER TABLE once ALTER a TYPE int USING a * 10, ADD COLUMN s serial;
ALTER TABLE once ADD COLUMN t serial, ALTER a TYPE bigint USING a * 10, ADD COLUMN i serial;
SELECT * FROM once ORDER BY id;
DROP TABLE once, below;
-- functions that say what rows are to be cannot read the table, nor write to it
CREATE TABLE own (id int PRIMARY KEY, a int);
INSERT INTO own VALUES (1, 1), (2, 2);
CREATE FUNCTION sum_a() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT sum(a) FROM own';
CREATE FUNCTION put_a(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO own VALUES (10 + $1, 1); RETURN $1; END';
CREATE FUNCTION try_a(int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN RETURN sum_a(); EXCEPTION WHEN object_in_use THEN RETURN -$1; END';
ALTER TABLE own ALTER a TYPE bigint USING a + sum_a();
ALTER TABLE own ADD COLUMN s bigint DEFAULT sum_a();
ALTER TABLE own ADD COLUMN s int DEFAULT put_a(1);
ALTER TABLE own ALTER a TYPE int USING try_a(a), ADD COLUMN n serial;
ALTER TABLE own ADD CHECK (sum_a() < 0);
CREATE TABLE own_child (id int PRIMARY KEY, own int REFERENCES own);
CREATE FUNCTION put_child(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO own_child VALUES ($1, $1); RETURN $1; END';
ALTER TABLE own ALTER a TYPE bigint USING put_child(id);
SELECT *, sum_a() FROM own ORDER BY id;
DROP TABLE own, own_child;
DROP FUNCTION sum_a, put_a, try_a, put_child;
RESET mosql_fdw.default_server;

-- a reference that the same command drops, by its name, its column or what it leads to
CREATE FUNCTION kept() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid)), '; ' ORDER BY conname)
	FROM pg_constraint WHERE connamespace = current_schema()::regnamespace AND contype IN ('p', 'u', 'f')
$$;
CREATE SCHEMA kept_own;
CREATE SCHEMA kept_ours;
\set VERBOSITY sqlstate
\set run 'CREATE TABLE a (id int PRIMARY KEY, p int CONSTRAINT a_p REFERENCES a, u int CONSTRAINT a_u UNIQUE, v int CONSTRAINT a_v REFERENCES a (u)); CREATE TABLE b (id int PRIMARY KEY, a int CONSTRAINT b_a REFERENCES a, au int CONSTRAINT b_au REFERENCES a (u)); INSERT INTO a VALUES (1, NULL, 10, NULL), (2, 1, 20, 10); INSERT INTO b VALUES (1, 1, 10); SELECT public.kept(); ALTER TABLE a DROP CONSTRAINT a_p, ALTER id TYPE bigint; SELECT public.kept(); ALTER TABLE a ADD CONSTRAINT a_p FOREIGN KEY (p) REFERENCES a; ALTER TABLE a DROP CONSTRAINT a_p, ALTER id TYPE int, ALTER p TYPE smallint, ADD CONSTRAINT a_p FOREIGN KEY (p) REFERENCES a ON DELETE CASCADE; SELECT public.kept(); ALTER TABLE a DROP CONSTRAINT a_p, DROP CONSTRAINT a_p, ALTER id TYPE bigint; ALTER TABLE b DROP CONSTRAINT b_a, ALTER a TYPE bigint; ALTER TABLE b ADD CONSTRAINT b_a FOREIGN KEY (a) REFERENCES a; ALTER TABLE a DROP CONSTRAINT a_pkey, ALTER id TYPE bigint, ADD PRIMARY KEY (id); ALTER TABLE a DROP CONSTRAINT a_u, ALTER u TYPE bigint, ADD CONSTRAINT a_u UNIQUE (u); ALTER TABLE a DROP COLUMN u, ALTER v TYPE bigint; SELECT public.kept(); ALTER TABLE a DROP CONSTRAINT a_v, ALTER u TYPE bigint; ALTER TABLE a ADD CONSTRAINT a_v FOREIGN KEY (v) REFERENCES a (u); ALTER TABLE a DROP COLUMN p, ALTER id TYPE bigint; SELECT public.kept(); ALTER TABLE a DROP CONSTRAINT a_pkey CASCADE, ALTER id TYPE smallint, ADD PRIMARY KEY (id); SELECT public.kept(); ALTER TABLE a DROP CONSTRAINT a_u CASCADE, ALTER u TYPE int, ADD CONSTRAINT a_u UNIQUE (u); SELECT public.kept(); INSERT INTO a VALUES (3, 30, 1); INSERT INTO b VALUES (2, 77, 77); ALTER TABLE a ADD CONSTRAINT a_v FOREIGN KEY (v) REFERENCES a (u) NOT VALID; ALTER TABLE a DROP COLUMN u CASCADE, ALTER v TYPE bigint; SELECT public.kept(); SELECT * FROM a ORDER BY id;'
SET search_path = kept_own;
:run
SET search_path = kept_ours;
SET mosql_fdw.default_server = 'redis';
:run
SELECT severity, finding FROM mosql_fdw_check('a');
SELECT severity, finding FROM mosql_fdw_check('b');
RESET mosql_fdw.default_server;
RESET search_path;
DROP SCHEMA kept_own, kept_ours CASCADE;
DROP FUNCTION kept();
