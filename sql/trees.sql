-- statements on inheritance trees whose tables differ in what DELETE needs of a row
SET client_min_messages = warning;
\getenv nodes MOSQL_NODES
SELECT set_config('mosql_fdw.default_server', 'redis', false) AS server;
CREATE TABLE parent (id int, n int, v text);
CREATE TABLE child (extra text) INHERITS (parent);
CREATE TABLE grandchild (more int) INHERITS (child);
CREATE FUNCTION fill() RETURNS void LANGUAGE sql AS $$
	INSERT INTO parent SELECT i, i, 'p' || i FROM generate_series(1, 4) i;
	INSERT INTO child SELECT i, i, 'c' || i, 'x' FROM generate_series(1, 4) i;
	INSERT INTO grandchild SELECT i, i, 'g' || i, 'x', i FROM generate_series(1, 4) i $$;
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN RAISE INFO '% % %', tg_table_name, tg_when, old; RETURN old; END $$;
SELECT fill();

-- an index of one
CREATE INDEX ON parent (n);
DELETE FROM parent WHERE id = 1;
DELETE FROM child WHERE id = 2 RETURNING *;
CREATE UNIQUE INDEX ON grandchild (n);
DELETE FROM parent p USING generate_series(2, 3) g WHERE p.id = g;
SELECT tableoid::regclass, * FROM parent ORDER BY 1, 2;
SET enable_seqscan = off;
SELECT count(*) FROM ONLY parent WHERE n BETWEEN 0 AND 9;
RESET enable_seqscan;

-- rows that others lead to
CREATE TABLE target (id int PRIMARY KEY);
CREATE TABLE target_child () INHERITS (target);
CREATE TABLE line (id int REFERENCES target ON DELETE CASCADE);
INSERT INTO target VALUES (1), (2);
INSERT INTO target_child VALUES (1), (2);
INSERT INTO line VALUES (1), (2);
DELETE FROM target WHERE id = 1;
SELECT tableoid::regclass, id FROM target UNION ALL SELECT 'line'::regclass, id FROM line ORDER BY 1, 2;

-- triggers of one, the first, the last or another
DELETE FROM parent;
SELECT fill();
CREATE TRIGGER t AFTER DELETE ON parent FOR EACH ROW EXECUTE FUNCTION say();
DELETE FROM parent WHERE id = 1;
DROP TRIGGER t ON parent;
CREATE TRIGGER t BEFORE DELETE ON grandchild FOR EACH ROW EXECUTE FUNCTION say();
DELETE FROM parent WHERE id = 2;
DELETE FROM parent WHERE id = 3 RETURNING id, v;
DROP TRIGGER t ON grandchild;
CREATE TRIGGER t BEFORE DELETE ON child FOR EACH ROW EXECUTE FUNCTION say();
DELETE FROM parent WHERE id = 4;
UPDATE parent SET n = 0;
SELECT * FROM mosql_fdw_check('parent') UNION ALL SELECT * FROM mosql_fdw_check('grandchild');

-- partitions, one of them PostgreSQL's own
CREATE TABLE whole (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE one PARTITION OF whole FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE two PARTITION OF whole FOR VALUES FROM (10) TO (20) SERVER redis;
CREATE FOREIGN TABLE three PARTITION OF whole FOR VALUES FROM (20) TO (30) SERVER redis;
CREATE INDEX ON three (v);
INSERT INTO whole SELECT i, 'v' || i FROM generate_series(0, 29) i;
DELETE FROM whole WHERE id % 10 = 1;
CREATE TRIGGER t AFTER DELETE ON three FOR EACH ROW EXECUTE FUNCTION say();
DELETE FROM whole WHERE id % 10 = 2;
DELETE FROM whole w USING (VALUES (3)) p (n) WHERE w.id % 10 = p.n RETURNING w.*;
SELECT count(*), min(id), max(id) FROM whole;
DROP TABLE parent, target, line, whole CASCADE;
DROP FUNCTION fill, say;
