-- actions of foreign keys as parts of the statement that they are for, as PostgreSQL's own are
SET client_min_messages = warning;
SELECT mosql_fdw_enable('redis');
SET client_min_messages = notice;
\set VERBOSITY terse

-- a cascade takes no stack
CREATE TABLE chain (id int PRIMARY KEY, next int REFERENCES chain ON DELETE CASCADE ON UPDATE CASCADE);
CREATE INDEX ON chain (next);
INSERT INTO chain SELECT g, nullif(g - 1, 0) FROM generate_series(1, 400) g;
SET max_stack_depth = '200kB';
DELETE FROM chain WHERE id = 1;
RESET max_stack_depth;
SELECT count(*) FROM chain;

-- a ring: each row of it is moved once
INSERT INTO chain VALUES (1, 1), (2, 1);
UPDATE chain SET next = 2 WHERE id = 1;
UPDATE chain SET id = id + 10;
SELECT * FROM chain ORDER BY id;
DELETE FROM chain WHERE id = 12;
SELECT * FROM chain ORDER BY id;
DROP TABLE chain;

-- triggers: those for each statement once, AFTER those of the statement itself
CREATE TABLE above (id int PRIMARY KEY);
CREATE TABLE below (id int PRIMARY KEY, a int REFERENCES above ON DELETE CASCADE, b int REFERENCES above ON DELETE CASCADE);
INSERT INTO above VALUES (5), (6);
INSERT INTO below VALUES (1, 5, 6), (2, 6, NULL), (3, NULL, 5);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % % %: % left', TG_WHEN, TG_LEVEL, TG_OP, TG_TABLE_NAME, (SELECT count(*) FROM below);
	RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER row_after AFTER DELETE ON above FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER all_after AFTER DELETE ON above FOR EACH STATEMENT EXECUTE FUNCTION tell();
CREATE TRIGGER all_before BEFORE DELETE ON below FOR EACH STATEMENT EXECUTE FUNCTION tell();
CREATE TRIGGER row_before BEFORE DELETE ON below FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER row_after AFTER DELETE ON below FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER all_after AFTER DELETE ON below FOR EACH STATEMENT EXECUTE FUNCTION tell();
DELETE FROM above WHERE id = 5;
INSERT INTO above VALUES (5);
INSERT INTO below VALUES (3, NULL, 5);
-- what nobody reads to its end is done before triggers are fired
WITH gone AS (DELETE FROM above WHERE id = 5 RETURNING id) SELECT 1 AS one;
DELETE FROM above;
DROP TABLE below, above;
DROP FUNCTION tell;

-- one foreign key after the other, in the order in which they were made
CREATE TABLE above (id int PRIMARY KEY);
CREATE TABLE below (id int PRIMARY KEY, a int);
INSERT INTO above VALUES (1), (2);
INSERT INTO below VALUES (1, 1), (2, 2);
ALTER TABLE below ADD CONSTRAINT first FOREIGN KEY (a) REFERENCES above ON DELETE RESTRICT ON UPDATE CASCADE;
ALTER TABLE below ADD CONSTRAINT second FOREIGN KEY (a) REFERENCES above ON DELETE SET NULL ON UPDATE RESTRICT;
DO $$
BEGIN
	DELETE FROM above WHERE id = 1;
EXCEPTION WHEN foreign_key_violation OR restrict_violation THEN	-- before 18, and since
	RAISE NOTICE 'RESTRICT';
END $$;
UPDATE above SET id = 3 WHERE id = 2;
SELECT * FROM below ORDER BY id;
DROP TABLE below, above;

-- what a cascade deletes later is not in its own way: round by round
CREATE TABLE deep (id int PRIMARY KEY, parent int REFERENCES deep ON DELETE CASCADE, other int REFERENCES deep);
INSERT INTO deep VALUES (1, NULL, NULL), (2, 1, NULL), (3, 2, NULL), (4, 3, 3);
DELETE FROM deep WHERE id = 1;
SELECT * FROM deep;
DROP TABLE deep;
-- two ways down, of which one is longer
CREATE TABLE above (id int PRIMARY KEY);
CREATE TABLE middle (id int PRIMARY KEY, a int REFERENCES above ON DELETE CASCADE);
CREATE TABLE below (id int PRIMARY KEY, m int REFERENCES middle ON DELETE CASCADE,
	a int REFERENCES above DEFERRABLE);
INSERT INTO above VALUES (1);
INSERT INTO middle VALUES (1, 1);
INSERT INTO below VALUES (1, 1, 1);
DELETE FROM above;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
DELETE FROM above;
COMMIT;
SELECT count(*) FROM below;
DROP TABLE below, middle, above;

-- keys of a type of which there are no arrays: it is one
CREATE TABLE above (a int[], b int, PRIMARY KEY (a, b));
CREATE TABLE below (id int PRIMARY KEY, a int[], b int, FOREIGN KEY (a, b) REFERENCES above ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE beside (id int PRIMARY KEY, a int[] DEFAULT '{1}', b int DEFAULT 1,
	FOREIGN KEY (a, b) REFERENCES above ON DELETE SET DEFAULT ON UPDATE SET NULL);
INSERT INTO above VALUES ('{1}', 1), ('{2,3}', 2), ('{}', 3), ('{NULL,4}', 4), ('{{1,2},{3,4}}', 5);
INSERT INTO below SELECT b, a, b FROM above;
INSERT INTO beside SELECT b, a, b FROM above;
DELETE FROM above WHERE b IN (2, 5);
UPDATE above SET a = a || 9 WHERE b > 2;
SELECT * FROM below ORDER BY id;
SELECT * FROM beside ORDER BY id;
DELETE FROM above WHERE b = 1;
DROP TABLE beside, below, above;
-- keys that move on to where another one was
CREATE TABLE lists (k int[] PRIMARY KEY);
CREATE TABLE listed (id int PRIMARY KEY, k int[] REFERENCES lists ON UPDATE CASCADE);
INSERT INTO lists VALUES ('{1}'), ('{2}'), ('{3}');
INSERT INTO listed VALUES (1, '{1}'), (2, '{2}'), (3, '{3}');
UPDATE lists SET k = ARRAY[k[1] - 1];
SELECT * FROM listed ORDER BY id;
DROP TABLE listed, lists;
CREATE TABLE codes (id int PRIMARY KEY, code int UNIQUE);
CREATE TABLE coded (id int PRIMARY KEY, code int REFERENCES codes (code) ON UPDATE CASCADE);
INSERT INTO codes VALUES (1, 1), (2, 2);
INSERT INTO coded VALUES (1, 1), (2, 2);
UPDATE codes SET code = CASE code WHEN 2 THEN 1 END;
SELECT * FROM coded ORDER BY id;
DROP TABLE coded, codes;
SET client_min_messages = warning;
SELECT mosql_fdw_disable();
