-- the same work on each kind of server, with each way to change a node atomically
SET client_min_messages = warning;
\getenv nodes MOSQL_NODES
\getenv plain MOSQL_PLAIN
SELECT 'engines-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE SERVER cluster_script FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns', atomic 'script');
CREATE SERVER plain_script FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'plain', namespace :'ns', atomic 'script');
SELECT :'ns' || '-w' AS ns \gset
CREATE SERVER cluster_watch FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns', atomic 'watch');
CREATE SERVER plain_watch FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'plain', namespace :'ns', atomic 'watch');

CREATE PROCEDURE work(server text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE FOREIGN TABLE %I (id int OPTIONS (key ''true'') NOT NULL, n bigint, v text) SERVER %1$I', server);
	COMMIT;
	EXECUTE format('INSERT INTO %I SELECT i, i, repeat(md5(i::text), 3) FROM generate_series(1, 3000) i', server);
	COMMIT;
	FOR i IN 1 .. 20 LOOP
		EXECUTE format('UPDATE %I SET n = n + 10 WHERE id = 1', server);
		EXECUTE format('UPDATE %I SET n = -n, v = ''changed'' WHERE id %% 100 = %s', server, i);
		EXECUTE format('DELETE FROM %I WHERE id BETWEEN %s AND %s', server, i * 100 + 50, i * 100 + 60);
		EXECUTE format('INSERT INTO %I SELECT 3000 + 10 * %s + i, i FROM generate_series(1, 10) i', server, i);
		IF i % 5 = 0 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
	EXECUTE format('UPDATE %I SET id = id + 100000 WHERE id <= 500', server);
	COMMIT;
	BEGIN
		EXECUTE format('INSERT INTO %I VALUES (99999), (100001)', server);
	EXCEPTION WHEN unique_violation THEN
		RAISE WARNING '%: %', server, SQLERRM;
	END;
END $$;
CALL work('cluster_script');
CALL work('cluster_watch');
CALL work('plain_script');
CALL work('plain_watch');
SELECT count(*), sum(id), sum(n), md5(string_agg(t::text, ',' ORDER BY id)) AS rows FROM cluster_script t;
SELECT count(*) FROM (TABLE cluster_script EXCEPT TABLE cluster_watch) x;
SELECT count(*) FROM (TABLE cluster_script EXCEPT TABLE plain_script) x;
SELECT count(*) FROM (TABLE cluster_script EXCEPT TABLE plain_watch) x;
SELECT (SELECT count(*) FROM cluster_watch), (SELECT count(*) FROM plain_script), (SELECT count(*) FROM plain_watch);

-- they may be mixed: what is stored is the same
ALTER SERVER plain_watch OPTIONS (SET atomic 'script');
UPDATE plain_watch SET n = n + 1 WHERE id = 1000;
ALTER SERVER plain_watch OPTIONS (SET atomic 'watch');
UPDATE plain_watch SET n = n + 1 WHERE id = 1000;
SELECT n FROM plain_watch WHERE id = 1000;

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE cluster_script, cluster_watch, plain_script, plain_watch;
DROP SERVER cluster_script; DROP SERVER cluster_watch; DROP SERVER plain_script; DROP SERVER plain_watch;
DROP PROCEDURE work;
