-- a queue, rows inserted on the right and deleted on the left for ever: with maintenance
-- the tree stays as small as what is in it, with each way to change a node atomically
SET client_min_messages = warning;
\getenv nodes MOSQL_NODES
SELECT 'queue-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE SERVER queue_script FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns', atomic 'script');
SELECT :'ns' || '-w' AS ns \gset
CREATE SERVER queue_watch FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns', atomic 'watch');
SET mosql_fdw.signpost_retention = 0;

CREATE TABLE seen (server text, rows int, pass int, nodes int, deep int, merged int, deleted int, broken int);
CREATE PROCEDURE turn(server text, rounds int, rows int) LANGUAGE plpgsql AS $$
DECLARE
	nodes int[];
	work record;
	broken int;
BEGIN
	FOR pass IN 1 .. rounds LOOP
		EXECUTE format('INSERT INTO %I SELECT i, ''row '' || i FROM generate_series(%s, %s) i', server, pass * rows, (pass + 1) * rows - 1);
		COMMIT;
		EXECUTE format('DELETE FROM %I WHERE id < %s', server, pass * rows);
		COMMIT;
		SELECT * FROM mosql_fdw_maintain(server) INTO work;
		COMMIT;
		EXECUTE format('SELECT count(*) FROM mosql_fdw_check(%L)', server) INTO broken;
		nodes := ARRAY(SELECT count(*) FROM mosql_fdw_dump(server::regclass) GROUP BY level > 0 ORDER BY level > 0);
		INSERT INTO seen VALUES (server, rows, pass, nodes[1], nodes[2], work.nodes_merged, work.nodes_deleted, broken);
		COMMIT;
	END LOOP;
END $$;

CREATE FOREIGN TABLE queue_script (id int OPTIONS (key 'true') NOT NULL, v text) SERVER queue_script;
CREATE FOREIGN TABLE queue_watch (id int OPTIONS (key 'true') NOT NULL, v text) SERVER queue_watch;
-- 70 rows to a leaf, 256 leaves to an inner node
CALL turn('queue_script', 6, 25000);
CALL turn('queue_watch', 5, 5000);

-- what was merged away, and when the signposts went: the last ones wait for the next pass
SELECT server, count(*) AS passes, max(nodes) < 2 * rows / 70 AS leaves_bounded, max(deep) <= 8 AS inner_bounded,
	sum(merged) > (count(*) - 2) * rows / 70 AS merged, sum(deleted) > (count(*) - 3) * rows / 70 AS deleted,
	sum(broken) AS broken
FROM seen GROUP BY server, rows ORDER BY server;
SELECT outcome FROM mosql_fdw_maintain('queue_script');
SELECT outcome, nodes_merged, nodes_deleted < 5 AS all_deleted FROM mosql_fdw_maintain('queue_script');
SELECT count(*), min(id), max(id) FROM queue_script;
SELECT count(*), min(id), max(id) FROM queue_watch;
SELECT * FROM mosql_fdw_check('queue_script');
SELECT * FROM mosql_fdw_check('queue_watch');

-- emptied altogether, and used again
DELETE FROM queue_script;
SELECT outcome FROM mosql_fdw_maintain('queue_script');
SELECT outcome FROM mosql_fdw_maintain('queue_script');
SELECT count(*) FILTER (WHERE level = 0) < 10 AS small FROM mosql_fdw_dump('queue_script');
INSERT INTO queue_script SELECT i, 'again' FROM generate_series(-100, 100) i;
SELECT count(*), min(id), max(id) FROM queue_script;
SELECT * FROM mosql_fdw_check('queue_script');

DROP FOREIGN TABLE queue_script, queue_watch;
DROP TABLE seen;
DROP PROCEDURE turn;
DROP SERVER queue_script;
DROP SERVER queue_watch;
