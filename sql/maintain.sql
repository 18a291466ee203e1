-- maintenance by hand, its progress, and outcomes of transactions
SET client_min_messages = warning;
\getenv nodes MOSQL_NODES
SELECT 'maintain-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE SERVER kept FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
SET mosql_fdw.maintenance_rate = 0;

-- nothing there yet
SELECT server, operation, state FROM mosql_fdw_progress('kept');
SELECT server, outcome, leaves FROM mosql_fdw_maintain('kept');

CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text) SERVER kept;
CREATE FOREIGN TABLE small (id int OPTIONS (key 'true') NOT NULL) SERVER kept;
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 5000) i;
INSERT INTO small VALUES (1);
SELECT server, outcome, sessions_expired, commits_finished, leaves BETWEEN 60 AND 200 AS leaves,
	tables_analyzed, seconds < 60 AS soon FROM mosql_fdw_maintain('kept');
SELECT relname, reltuples FROM pg_class WHERE relname IN ('t', 'small') ORDER BY 1;
-- not again, until it has grown
SELECT outcome, tables_analyzed FROM mosql_fdw_maintain('kept');
INSERT INTO t SELECT i, 'v' || i FROM generate_series(5001, 7000) i;
SELECT outcome, tables_analyzed FROM mosql_fdw_maintain('kept');
SELECT reltuples BETWEEN 6500 AND 7500 AS about FROM pg_class WHERE relname = 't';
DELETE FROM t WHERE id > 500;
SELECT outcome FROM mosql_fdw_maintain('kept');
SELECT count(*), min(id), max(id) FROM t;

-- what it says of itself, here and on every other front-end
SELECT operation, state, phase, table_name, outcome, (result->>'leaves')::int > 0 AS leaves,
	started <= updated AS in_order, by ~ 'process \d+ on .+, database ' AS by_whom
	FROM mosql_fdw_progress WHERE server = 'kept' ORDER BY operation;


-- where it may not run
BEGIN;
INSERT INTO t VALUES (-1, 'mine');
SELECT outcome('SELECT mosql_fdw_maintain(''kept'')');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome('SELECT mosql_fdw_maintain(''kept'')');
ROLLBACK;
BEGIN;
SELECT count(*) FROM t;
SELECT outcome FROM mosql_fdw_maintain('kept');
ROLLBACK;

-- who may
CREATE ROLE mosql_regress_keeper;
SET ROLE mosql_regress_keeper;
SELECT outcome('SELECT mosql_fdw_maintain(''kept'')');
SELECT outcome('SELECT mosql_fdw_transaction_status(''kept'', ''1.1'')');
SELECT outcome('SELECT mosql_fdw_progress(''kept'')');
SELECT count(*) FROM mosql_fdw_maintain();
SELECT count(*) FROM mosql_fdw_progress;
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER kept TO mosql_regress_keeper;
INSERT INTO t SELECT i, 'v' || i FROM generate_series(5001, 9000) i;
SET ROLE mosql_regress_keeper;
SELECT server, outcome, tables_analyzed FROM mosql_fdw_maintain(); -- not its tables
SELECT DISTINCT server FROM mosql_fdw_progress;
RESET ROLE;

-- servers that one cannot use, or not in this transaction, hide no others
CREATE SERVER kept_twin FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns', command_timeout '9000');
CREATE SERVER no_password FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'no_password');
CREATE SERVER nobody_there FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes '127.0.0.1:1', command_timeout '200');
CREATE USER MAPPING FOR mosql_regress_keeper SERVER no_password OPTIONS (username 'default');
GRANT USAGE ON FOREIGN SERVER kept_twin, no_password, nobody_there TO mosql_regress_keeper;
\set VERBOSITY terse
SET ROLE mosql_regress_keeper;
SELECT server, outcome FROM mosql_fdw_maintain();
SELECT DISTINCT server FROM mosql_fdw_progress ORDER BY 1;
SELECT count(*) FROM mosql_fdw_locks;
BEGIN;
SELECT mosql_fdw_advisory_xact_lock('kept', 1);
SELECT foreign_server, key FROM mosql_fdw_locks;
SELECT outcome('SELECT mosql_fdw_locks(''kept_twin'')') ~ '^0A000';
COMMIT;
SELECT outcome('SELECT mosql_fdw_locks(''no_password'')');
SELECT outcome('SELECT mosql_fdw_progress(''nobody_there'')') ~ '^08001';
RESET ROLE;
\set VERBOSITY default
DROP SERVER kept_twin, no_password, nobody_there CASCADE;
REVOKE USAGE ON FOREIGN SERVER kept FROM mosql_regress_keeper;
DROP ROLE mosql_regress_keeper;
CREATE FOREIGN DATA WRAPPER other;
CREATE SERVER other FOREIGN DATA WRAPPER other;
SELECT outcome('SELECT mosql_fdw_maintain(''other'')');
SELECT outcome('SELECT mosql_fdw_maintain(''none'')');
DROP FOREIGN DATA WRAPPER other CASCADE;

-- how did it end?  ids that no error has named
SELECT mosql_fdw_transaction_status('kept', '17000000000000.1');
SELECT mosql_fdw_transaction_status(NULL, '1.1') IS NULL;
SELECT id, outcome(format('SELECT mosql_fdw_transaction_status(''kept'', %L)', id))
	FROM (VALUES ('x'), (''), ('1'), ('1.'), ('.1'), ('0.1'), ('1.0'), ('-1.1'), ('1.1 '), (' 1.1'), ('1.1.1'),
		('18446744073709551616.1'), ('1.18446744073709551616')) ids (id);
SELECT outcome('SELECT mosql_fdw_transaction_status(''none'', ''1.1'')');

-- settings
SHOW mosql_fdw.maintenance;
SHOW mosql_fdw.maintenance_naptime;
SET mosql_fdw.maintenance = off;
SET mosql_fdw.maintenance_rate = -1;
RESET mosql_fdw.maintenance_rate;
SHOW mosql_fdw.maintenance_rate;

-- trees that are gone take no memory: TRUNCATE and DROP, over and over
CREATE FUNCTION trees() RETURNS bigint LANGUAGE sql AS
	$$ SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'mosql tree' $$;
SELECT trees() AS before \gset
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		TRUNCATE t;
		COMMIT;
		INSERT INTO t VALUES (1, 'a');
		COMMIT;
		EXECUTE format('CREATE FOREIGN TABLE passing%s (id int OPTIONS (key ''true'') NOT NULL) SERVER kept', i);
		EXECUTE format('INSERT INTO passing%s VALUES (1)', i);
		COMMIT;
		EXECUTE format('DROP FOREIGN TABLE passing%s', i);
		COMMIT;
	END LOOP;
END $$;
SELECT trees() - :before < 5 AS bounded;

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c WHERE t.ftrelid IN ('t'::regclass, 'small'::regclass);
DROP FUNCTION trees();
DROP FOREIGN TABLE t, small;
DROP SERVER kept;
