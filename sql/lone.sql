-- an INSERT whose key is taken says so before anything else happens, whoever has it executed
LOAD 'mosql_fdw';
SET mosql_fdw.default_server = 'redis';
CREATE TABLE alone (id int PRIMARY KEY, u int UNIQUE);
CREATE TABLE aside (id int PRIMARY KEY, parent int REFERENCES aside DEFERRABLE INITIALLY DEFERRED);
INSERT INTO alone VALUES (1, 1);

-- commands and cursors of functions are not all that the client has sent
PREPARE put(int, int) AS INSERT INTO alone VALUES ($1, $2);
EXECUTE put(1, 2);
DO $$ BEGIN EXECUTE 'EXECUTE put(1, 2)'; RAISE NOTICE 'it goes on'; END $$;
DO $$ DECLARE r record; BEGIN
	FOR r IN INSERT INTO alone VALUES (2, 1) RETURNING id LOOP RAISE NOTICE 'inserted %', r.id; END LOOP;
END $$;
DO $$ DECLARE c CURSOR FOR INSERT INTO alone VALUES (1, 2) RETURNING id; r record; BEGIN
	OPEN c; FETCH c INTO r; RAISE NOTICE 'inserted %', r.id;
END $$;
DO $$ BEGIN EXECUTE 'EXECUTE put(1, 2)'; EXECUTE 'DROP TABLE alone'; END $$;
DO $$ BEGIN EXECUTE 'EXECUTE put(2, 2)'; EXECUTE 'TRUNCATE alone'; END $$;
SELECT * FROM alone;

-- what commands within it have left for COMMIT comes second
CREATE TABLE aside_here (id int PRIMARY KEY, parent int REFERENCES aside_here DEFERRABLE INITIALLY DEFERRED) USING heap;
CREATE FUNCTION orphan() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO aside VALUES (1, 99); RETURN 1; END $$;
CREATE FUNCTION orphan_here() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO aside_here VALUES (1, 99); RETURN 1; END $$;
INSERT INTO alone VALUES (1, 1);
INSERT INTO alone SELECT orphan();
INSERT INTO alone SELECT orphan_here();
DELETE FROM alone;
INSERT INTO alone SELECT orphan();
INSERT INTO alone SELECT orphan_here();
SELECT count(*) FROM alone;

-- a duplicate key is reported before AFTER triggers do anything
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% %', TG_WHEN, TG_LEVEL; RETURN NULL; END $$;
CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO aside VALUES (NEW.id); RETURN NULL; END $$;
INSERT INTO aside VALUES (1);
INSERT INTO alone VALUES (1, 1);
CREATE TRIGGER a AFTER INSERT OR UPDATE ON alone FOR EACH STATEMENT EXECUTE FUNCTION tell();
INSERT INTO alone VALUES (2, 2), (1, 3);
INSERT INTO alone VALUES (2, 2);
UPDATE alone SET u = 1 WHERE id = 2;
UPDATE alone SET id = id - 1 WHERE id = 2;
CREATE TRIGGER b AFTER INSERT ON alone FOR EACH ROW EXECUTE FUNCTION follow();
INSERT INTO alone VALUES (1, 3);
INSERT INTO alone VALUES (3, 1);
INSERT INTO alone VALUES (3, 3);
DO $$ BEGIN INSERT INTO alone VALUES (3, 4); EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'caught'; END $$;
CREATE TABLE parts (id int, u int) PARTITION BY LIST (id);
ALTER TABLE parts ATTACH PARTITION alone FOR VALUES IN (1, 2, 3, 4);
CREATE TRIGGER c AFTER INSERT ON parts FOR EACH STATEMENT EXECUTE FUNCTION tell();
INSERT INTO parts VALUES (4, 4), (1, 5);
INSERT INTO parts VALUES (4, 4);
SELECT * FROM alone ORDER BY id;
SELECT id FROM aside ORDER BY id;
DROP TABLE parts;
DROP FUNCTION orphan(), orphan_here(), tell(), follow() CASCADE;
DROP TABLE aside_here, aside;
