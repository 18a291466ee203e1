-- rows that are there when something is promised of them
\set VERBOSITY terse
SET client_min_messages = error;

-- ATTACH PARTITION
CREATE TABLE years (y int, v text) PARTITION BY RANGE (y);
CREATE FOREIGN TABLE y1 (y int, v text) SERVER redis;
INSERT INTO y1 VALUES (1, 'a'), (15, 'out'), (NULL, 'null');
SELECT outcome('ALTER TABLE years ATTACH PARTITION y1 FOR VALUES FROM (0) TO (10)');
DELETE FROM y1 WHERE y = 15;
SELECT outcome('ALTER TABLE years ATTACH PARTITION y1 FOR VALUES FROM (0) TO (10)');
DELETE FROM y1 WHERE y IS NULL;
SELECT outcome('ALTER TABLE years ATTACH PARTITION y1 FOR VALUES FROM (0) TO (10)');
SELECT * FROM years;
-- ... of a partitioned table whose partition is ours
CREATE TABLE y2 (y int, v text) PARTITION BY LIST (v);
CREATE FOREIGN TABLE y2a (y int, v text) SERVER redis;
INSERT INTO y2a VALUES (25, 'a');
ALTER TABLE y2 ATTACH PARTITION y2a FOR VALUES IN ('a');
SELECT outcome('ALTER TABLE years ATTACH PARTITION y2 FOR VALUES FROM (10) TO (20)');
SELECT outcome('ALTER TABLE years ATTACH PARTITION y2 FOR VALUES FROM (10) TO (30)');
-- ... which is in Redis already
SET mosql_fdw.drop_data = off;
CREATE FOREIGN TABLE y3 (y int, v text) SERVER redis;
INSERT INTO y3 VALUES (55, 'x');
DROP FOREIGN TABLE y3;
SELECT outcome('CREATE FOREIGN TABLE y3 PARTITION OF years FOR VALUES FROM (30) TO (40) SERVER redis');
SELECT outcome('CREATE FOREIGN TABLE y3 PARTITION OF years FOR VALUES FROM (50) TO (60) SERVER redis');
RESET mosql_fdw.drop_data;
SELECT * FROM years ORDER BY y;

-- a partition beside the default one
CREATE FOREIGN TABLE rest PARTITION OF years DEFAULT SERVER redis;
INSERT INTO years VALUES (100, 'rest'), (NULL, 'rest');
SELECT outcome('CREATE TABLE y4 PARTITION OF years FOR VALUES FROM (90) TO (110)');
SELECT outcome('CREATE FOREIGN TABLE y4 PARTITION OF years FOR VALUES FROM (90) TO (110) SERVER redis');
CREATE TABLE y4 (y int, v text);
SELECT outcome('ALTER TABLE years ATTACH PARTITION y4 FOR VALUES FROM (90) TO (110)');
SELECT outcome('CREATE SCHEMA nested CREATE TABLE y5 PARTITION OF public.years FOR VALUES FROM (90) TO (110)');
SELECT outcome('ALTER TABLE years ATTACH PARTITION y4 FOR VALUES FROM (110) TO (120)');
SELECT outcome('CREATE FOREIGN TABLE y5 PARTITION OF years FOR VALUES FROM (120) TO (130) SERVER redis');
SELECT tableoid::regclass, * FROM years ORDER BY y;
-- ... which is partitioned itself
ALTER TABLE years DETACH PARTITION rest;
CREATE TABLE rests PARTITION OF years DEFAULT PARTITION BY RANGE (v);
ALTER TABLE rests ATTACH PARTITION rest FOR VALUES FROM ('a') TO ('z');
SELECT outcome('CREATE TABLE y6 PARTITION OF years FOR VALUES FROM (100) TO (101)');
-- indexes are attached as ever
DROP TABLE years;

-- ALTER DOMAIN
CREATE DOMAIN small AS int;
CREATE DOMAIN smaller AS small;
CREATE FOREIGN TABLE d (id int OPTIONS (key 'true'), a small, b smaller, c text) SERVER redis;
INSERT INTO d VALUES (1, 5, 6, 'x'), (2, NULL, 7, 'x');
SELECT outcome('ALTER DOMAIN small ADD CHECK (VALUE < 6)');
SELECT outcome('ALTER DOMAIN small ADD CHECK (VALUE < 5)');
SELECT outcome('ALTER DOMAIN small SET NOT NULL');
SELECT outcome('ALTER DOMAIN smaller SET NOT NULL');
SELECT outcome('ALTER DOMAIN smaller DROP NOT NULL');
SELECT outcome('ALTER DOMAIN smaller ADD CONSTRAINT late CHECK (VALUE < 7) NOT VALID');
SELECT outcome('INSERT INTO d VALUES (3, 5, 7)');
SELECT outcome('ALTER DOMAIN smaller VALIDATE CONSTRAINT late');
DELETE FROM d WHERE id = 2;
SELECT outcome('ALTER DOMAIN smaller VALIDATE CONSTRAINT late');
SELECT outcome('ALTER DOMAIN small ADD CONSTRAINT few CHECK (VALUE < 7)');
SELECT outcome('ALTER DOMAIN small SET NOT NULL');
SELECT outcome('INSERT INTO d VALUES (3, NULL, 7)');
ALTER DOMAIN small DROP NOT NULL;
-- by one who may not read the table
CREATE ROLE domain_owner;
GRANT CREATE, USAGE ON SCHEMA public TO domain_owner;
ALTER DOMAIN small OWNER TO domain_owner;
SET ROLE domain_owner;
SELECT outcome('ALTER DOMAIN small ADD CHECK (VALUE < 4)');
SELECT outcome('ALTER DOMAIN small ADD CHECK (VALUE < 9)');
RESET ROLE;
ALTER DOMAIN small OWNER TO CURRENT_USER;
REVOKE CREATE, USAGE ON SCHEMA public FROM domain_owner;
DROP ROLE domain_owner;
-- where values are within others, as PostgreSQL
CREATE FOREIGN TABLE ds (id int OPTIONS (key 'true'), a small[]) SERVER redis;
SELECT split_part(regexp_replace(outcome('ALTER DOMAIN small ADD CHECK (VALUE < 7)'), 'column "(\w+)\.\w+"', 'a column of "\1"'), E'\n', 1);	-- by core, or by us
DROP FOREIGN TABLE ds;

-- a domain as the type of a new column, or a new type
CREATE DOMAIN must AS int NOT NULL;
CREATE DOMAIN low AS int CHECK (VALUE IS NOT NULL AND VALUE < 6);
SELECT outcome('ALTER TABLE d ADD COLUMN e must');
SELECT outcome('ALTER TABLE d ADD COLUMN e low');
SELECT outcome('ALTER TABLE d ADD COLUMN e low DEFAULT 7');
SELECT outcome('ALTER TABLE d ADD COLUMN e low DEFAULT 5');
SELECT outcome('ALTER TABLE d ALTER COLUMN a TYPE must');
SELECT outcome('ALTER TABLE d ALTER COLUMN b TYPE low');
SELECT outcome('ALTER TABLE d ALTER COLUMN b TYPE int');
INSERT INTO d VALUES (4, 5, NULL, 'x', 5);
SELECT outcome('ALTER TABLE d ALTER COLUMN b TYPE must');
SELECT outcome('ALTER TABLE d ALTER COLUMN c TYPE varchar(5), ADD COLUMN f must DEFAULT 1');
SELECT * FROM d ORDER BY id;
CREATE FOREIGN TABLE empty (id int OPTIONS (key 'true')) SERVER redis;
SELECT outcome('ALTER TABLE empty ADD COLUMN e must, ADD COLUMN f low DEFAULT 7');
SELECT outcome('INSERT INTO empty VALUES (1)');
DROP FOREIGN TABLE empty;

-- a table that others filled, with more declared than they know
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE d;
SELECT outcome('CREATE FOREIGN TABLE d (id int OPTIONS (key ''true''), a int, b int NOT NULL, c varchar(5), e int, f int) SERVER redis');
SELECT outcome('CREATE FOREIGN TABLE d (id int OPTIONS (key ''true''), a int, b int, c varchar(5) CHECK (c <> ''x''), e int, f int) SERVER redis');
SELECT outcome('CREATE FOREIGN TABLE d (id int OPTIONS (key ''true''), a int NOT NULL, b int, c varchar(5) CHECK (c = ''x''), e int, f int) SERVER redis');
RESET mosql_fdw.drop_data;

-- a new type makes a constraint mean something else
CREATE FUNCTION is_text(text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION is_text(varchar) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';
ALTER FOREIGN TABLE d ADD CHECK (is_text(c));
SELECT outcome('ALTER FOREIGN TABLE d ALTER COLUMN c TYPE text');
DROP FOREIGN TABLE d;
DROP FUNCTION is_text(text), is_text(varchar);
DROP DOMAIN smaller, small, must, low;
