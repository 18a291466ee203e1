-- indexes of gin, gist, brin and spgist: rows of the catalogs, of which no result depends
\set VERBOSITY terse
SET client_min_messages = notice;
SET mosql_fdw.default_server = 'redis';
SET mosql_fdw.present_as_table = on;
CREATE TABLE doc (id int PRIMARY KEY, tags text[], body jsonb, place point, span int4range, words tsvector,
	name text COLLATE "C", at timestamptz, n int);
INSERT INTO doc SELECT i, ARRAY['t' || i % 3, 'u'], jsonb_build_object('n', i % 5), point(i, i), int4range(i, i + 2),
	to_tsvector('simple', 'word' || i % 4), 'n' || i, '2024-01-01'::timestamptz + i * interval '1 hour', i FROM generate_series(1, 60) i;
CREATE INDEX ON doc USING gin (tags);
CREATE INDEX doc_body ON doc USING gin (body jsonb_path_ops) WITH (fastupdate = off) WHERE n > 2;
CREATE INDEX CONCURRENTLY doc_words ON doc USING gist (words tsvector_ops (siglen = 100));
CREATE INDEX ON doc USING gist (span, (box(place, place)));
CREATE INDEX IF NOT EXISTS doc_words ON doc USING gin (words);
CREATE INDEX doc_at ON doc USING brin (at, n);
CREATE INDEX ON doc USING spgist (place) INCLUDE (n);
CREATE INDEX ON doc USING gin (to_tsvector('simple', name));
COMMENT ON INDEX doc_body IS 'of the body';
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'doc' ORDER BY indexname COLLATE "C";
-- as pg_dump looks for them, which does without present_as_table
SET application_name = 'pg_dump';
SELECT indexrelid::regclass, relkind, pg_get_indexdef(indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
	WHERE indrelid = 'doc'::regclass AND indisvalid AND indisready AND relkind = 'I' ORDER BY relname COLLATE "C";
RESET application_name;

-- as core refuses
CREATE INDEX ON doc USING nosuch (tags);
CREATE UNIQUE INDEX ON doc USING gin (tags);
CREATE UNIQUE INDEX ON doc USING gist (span);
CREATE INDEX ON doc USING gin (n);
CREATE INDEX ON doc USING gin (tags) INCLUDE (n);
CREATE INDEX ON doc USING gin (tags DESC);
CREATE INDEX ON doc USING spgist (place, span);
CREATE INDEX ON doc USING gin (nosuch);
CREATE INDEX ON doc USING gin (to_tsvector(name));
CREATE INDEX ON doc USING gin (tags) WITH (nosuch = 1);
CREATE INDEX ON doc USING gin (tags nosuch_ops);
CREATE INDEX doc_body ON doc USING gin (tags);

-- queries do without
ANALYZE doc;
EXPLAIN (COSTS OFF) SELECT count(*) FROM doc WHERE tags @> '{t1}';
SET enable_seqscan = off;
SELECT count(*) FROM doc WHERE tags @> '{t1}' AND body @> '{"n": 1}';
SELECT count(*) FROM doc WHERE words @@ 'word1' AND span && int4range(1, 20) AND place <@ box '(0,0),(9,9)';
RESET enable_seqscan;
UPDATE doc SET tags = '{x}', at = at + interval '1 day' WHERE id < 5;
INSERT INTO doc (id, tags) VALUES (5, '{x}') ON CONFLICT (id) DO UPDATE SET tags = excluded.tags;
INSERT INTO doc (id, tags) VALUES (5, '{x}') ON CONFLICT DO NOTHING;
DELETE FROM doc WHERE tags @> '{u}' AND id > 50;
SELECT count(*) FROM doc WHERE tags @> '{x}';

-- what else is done with them
VACUUM ANALYZE doc;
REINDEX INDEX doc_body;
REINDEX INDEX CONCURRENTLY doc_at;
REINDEX TABLE doc;
ALTER INDEX doc_words RENAME TO doc_word;
ALTER INDEX doc_body SET (fastupdate = on);
ALTER INDEX doc_body RESET (fastupdate);
ALTER INDEX doc_body SET (fillfactor = 50);
CREATE TABLE doc2 (LIKE doc INCLUDING ALL);
SELECT count(*) FROM pg_indexes WHERE tablename = 'doc2';
ALTER TABLE doc ALTER tags TYPE varchar[], ALTER n TYPE bigint;
ALTER TABLE doc ALTER body TYPE text;
SELECT indexname, indexdef, obj_description(format('%I', indexname)::regclass) FROM pg_indexes WHERE tablename = 'doc' ORDER BY indexname COLLATE "C";
BEGIN;
SAVEPOINT s;
ALTER TABLE doc ALTER n TYPE int;
ROLLBACK TO s;
DROP INDEX doc_at;
ALTER TABLE doc ADD COLUMN more int;
COMMIT;
DROP INDEX CONCURRENTLY doc_tags_idx;
DROP INDEX doc_word;
ALTER TABLE doc DROP COLUMN span;
SELECT indexname, pg_get_indexdef(indexname::regclass) FROM pg_indexes WHERE tablename = 'doc' ORDER BY indexname COLLATE "C";
SELECT * FROM mosql_fdw_check('doc');
SELECT mosql_fdw_refresh('doc');
SELECT count(*) FROM pg_indexes WHERE tablename = 'doc';
DROP TABLE doc2;

-- another server, which knows nothing of them, gives columns types that such indexes are not for
CREATE SCHEMA other;
IMPORT FOREIGN SCHEMA public LIMIT TO (doc) FROM SERVER redis INTO other;
CREATE INDEX other_tags ON other.doc USING gin (tags);
CREATE INDEX other_body ON other.doc USING gin (body);
CREATE INDEX other_at ON other.doc USING brin (at, id) WHERE n > 0;
CREATE INDEX other_n ON other.doc USING brin (n);
COMMENT ON INDEX other.other_n IS 'stays';
DROP INDEX doc_body;
ALTER TABLE doc ALTER body TYPE text, ALTER tags TYPE text USING tags[1], ALTER n TYPE numeric, ALTER at TYPE timestamp,
	DROP COLUMN words;
SELECT outcome('SELECT count(*) FROM other.doc');
SELECT mosql_fdw_refresh('other.doc') IS NOT NULL AS refreshed;
SELECT count(*) FROM other.doc;
SELECT indexname, indexdef, obj_description(format('other.%I', indexname)::regclass) FROM pg_indexes
	WHERE schemaname = 'other' ORDER BY indexname COLLATE "C";
SELECT mosql_fdw_refresh('other.doc') IS NULL AS unchanged;
SET mosql_fdw.drop_data = off;
DROP SCHEMA other CASCADE;
RESET mosql_fdw.drop_data;
DROP TABLE doc;
