-- wrong options, wrong servers, limits: the class, and what to do
SET client_min_messages = warning;
\getenv nodes MOSQL_NODES
\getenv plain MOSQL_PLAIN
SELECT 'errors-' || extract(epoch FROM now())::bigint AS ns \gset

-- ---- options ----
CREATE FUNCTION server_with(options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := outcome(format('CREATE SERVER s FOREIGN DATA WRAPPER mosql_fdw OPTIONS (%s)', options));
BEGIN
	DROP SERVER IF EXISTS s;
	RETURN result;
END $$;
SELECT server_with('nods ''127.0.0.1:6379''');
SELECT server_with('completely_different ''1''');
SELECT server_with('key ''true''');
SELECT server_with('password ''secret''');
-- what a commit waits for
SELECT server_with('durability ''perhaps''');
SELECT server_with('locking ''perhaps''');
SELECT server_with('locking ''pessimistic''');
SELECT server_with('placement ''near''');
SELECT server_with('placement ''spread''');
SELECT server_with('durability ''replicated'', replicas ''0''');
SELECT server_with('replicas ''1''');
SELECT server_with('durability ''fsync'', replicas ''101''');
SELECT server_with('durability ''fsync'', replica_timeout ''0''');
SELECT server_with('durability ''replicated'', replica_timeout ''10000''');
SELECT server_with('durability ''fsync'', command_timeout ''800''');
SELECT server_with('durability ''replicated'', command_timeout ''800'', replica_timeout ''799''');
SELECT server_with('replica_timeout ''10000''');
SELECT o || ' -> ' || server_with(o) FROM unnest(ARRAY[
	$$nodes ''$$, $$nodes 'localhost'$$, $$nodes 'a:b'$$, $$nodes 'a:0'$$, $$nodes 'a:65536'$$, $$nodes ':1'$$, $$nodes 'a:1,,b:2'$$,
	$$nodes 'a:1,'$$, $$nodes '[::1]:6379, b:1'$$, $$nodes '::1:6379'$$,
	$$namespace ''$$, $$namespace 'a b'$$, $$namespace 'a{b}'$$, $$namespace 'ok_1.x-y'$$, $$namespace 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'$$,
	$$atomic 'lua'$$, $$atomic 'watch'$$, $$connect_timeout '0'$$, $$connect_timeout '-1'$$, $$connect_timeout 'soon'$$,
	$$command_timeout '1'$$, $$keep_connections 'perhaps'$$, $$idle_timeout '1 s'$$, $$max_connections '-1'$$, $$batch_size '0'$$, $$batch_size '100001'$$, $$fetch_size '-1'$$,
	$$fdw_startup_cost '-1'$$, $$fdw_startup_cost 'NaN'$$, $$fdw_tuple_cost '0.01'$$, $$updatable 'yes'$$]) o;
CREATE SERVER s FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
SELECT outcome('ALTER SERVER s OPTIONS (ADD usrname ''x'')');
SELECT outcome('ALTER SERVER s OPTIONS (SET nodes ''nowhere'')');
SELECT outcome('CREATE USER MAPPING FOR CURRENT_USER SERVER s OPTIONS (user ''x'')');
SELECT outcome('CREATE FOREIGN TABLE t (id int OPTIONS (primary ''true'')) SERVER s');
SELECT outcome('CREATE FOREIGN TABLE t (id int OPTIONS (key ''1 2 3'')) SERVER s');
SELECT outcome('CREATE FOREIGN TABLE t (id int) SERVER s OPTIONS (tabel_name ''x'')');
SELECT outcome('CREATE FOREIGN TABLE t (id int) SERVER s OPTIONS (table_name '''')');
SELECT outcome('CREATE FOREIGN DATA WRAPPER w HANDLER mosql_fdw_handler VALIDATOR mosql_fdw_validator OPTIONS (nodes ''x:1'')');

-- who may use Redis without a password
CREATE ROLE mosql_regress_user;
GRANT USAGE ON FOREIGN SERVER s TO mosql_regress_user;
GRANT ALL ON SCHEMA public TO mosql_regress_user;
SET ROLE mosql_regress_user;
SELECT outcome('CREATE USER MAPPING FOR CURRENT_USER SERVER s OPTIONS (password_required ''false'')');
SELECT outcome('SELECT * FROM mosql_fdw_server_check(''s'')');
SELECT outcome('SELECT mosql_fdw_debug_lock(''x'')');
SELECT outcome('SET mosql_fdw.debug_crash_at = ''x''');
SELECT outcome('CREATE FOREIGN TABLE mine (id int OPTIONS (key ''true'') NOT NULL) SERVER s');
RESET ROLE;
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text) SERVER s;
SET ROLE mosql_regress_user;
SELECT outcome('SELECT * FROM t');
SELECT outcome('SELECT * FROM mosql_fdw_check(''t'')');
SELECT outcome('SELECT * FROM mosql_fdw_dump(''t'')');
RESET ROLE;
GRANT SELECT ON t TO mosql_regress_user;
SET ROLE mosql_regress_user;
SELECT outcome('SELECT * FROM t');
SELECT outcome('INSERT INTO t VALUES (1)');
RESET ROLE;

-- ---- servers that are not there, or refuse ----
CREATE SERVER nobody FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes '127.0.0.1:1', connect_timeout '200', command_timeout '500');
SELECT outcome('CREATE FOREIGN TABLE n (id int) SERVER nobody');
CREATE SERVER nowhere FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes 'host.invalid:6379', connect_timeout '200', command_timeout '500');
SELECT left(outcome('CREATE FOREIGN TABLE n (id int) SERVER nowhere'), 5);
SELECT outcome('SELECT * FROM mosql_fdw_server_check(''nobody'')') ~ '^08001';
-- one of several nodes is enough
CREATE SERVER several FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes '127.0.0.1:1', namespace :'ns');
SELECT '127.0.0.1:1,' || :'nodes' AS several \gset
ALTER SERVER several OPTIONS (SET nodes :'several');
CREATE FOREIGN TABLE several (id int OPTIONS (key 'true') NOT NULL) SERVER several;
INSERT INTO several VALUES (1) RETURNING *;
DROP FOREIGN TABLE several;
-- users that Redis does not know
CREATE SERVER locked FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'plain', namespace :'ns');
CREATE USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (username 'nobody', password 'wrong');
SELECT left(outcome('CREATE FOREIGN TABLE n (id int) SERVER locked'), 5);
DROP USER MAPPING FOR CURRENT_USER SERVER locked;
SELECT outcome('CREATE FOREIGN TABLE n (id int) SERVER locked');
-- a server whose options change is another server from the next transaction on
SELECT outcome('INSERT INTO n VALUES (1)');
ALTER SERVER locked OPTIONS (SET nodes '127.0.0.1:1', ADD connect_timeout '200', ADD command_timeout '300');
SELECT left(outcome('SELECT * FROM n'), 5);
SELECT outcome('DROP FOREIGN TABLE n');
ALTER SERVER locked OPTIONS (SET nodes :'plain');
SELECT outcome('SELECT * FROM n');
DROP FOREIGN TABLE n;
-- an unreachable server need not keep a local table
CREATE FOREIGN TABLE n (id int) SERVER locked;
ALTER SERVER locked OPTIONS (SET nodes '127.0.0.1:1');
SET mosql_fdw.drop_data = off;
DROP FOREIGN TABLE n;
RESET mosql_fdw.drop_data;

-- ---- limits ----
SET mosql_fdw.max_transaction_size = '1MB';
SELECT outcome('INSERT INTO t SELECT i, repeat(md5(i::text), 10) FROM generate_series(1, 10000) i');
RESET mosql_fdw.max_transaction_size;
SELECT count(*) FROM t;
CREATE FOREIGN TABLE k (k bytea OPTIONS (key 'true') NOT NULL, v bytea) SERVER s;
INSERT INTO k SELECT decode(repeat('61', 8000), 'hex');
SELECT outcome('INSERT INTO k SELECT decode(repeat(''61'', 9000), ''hex'')');
SELECT count(*) FROM k WHERE k < decode(repeat('61', 9000), 'hex');
SELECT count(*) FROM k WHERE k = decode(repeat('61', 9000), 'hex');
SELECT outcome('INSERT INTO k SELECT ''a'', decode(repeat(''00'', 65 * 1024 * 1024), ''hex'')');
INSERT INTO k SELECT 'b', decode(repeat('00ff10', 5 * 1024 * 1024), 'hex');
SELECT length(v), v = decode(repeat('00ff10', 5 * 1024 * 1024), 'hex') FROM k WHERE k = 'b';
SELECT outcome('INSERT INTO t VALUES (NULL)');

-- ---- tables that may not be written ----
ALTER FOREIGN TABLE t OPTIONS (ADD updatable 'false', ADD truncatable 'false');
SELECT outcome('INSERT INTO t VALUES (1)');
SELECT outcome('UPDATE t SET v = 1');
SELECT outcome('DELETE FROM t');
SELECT outcome('TRUNCATE t');
SELECT is_insertable_into FROM information_schema.tables WHERE table_name = 't';
ALTER SERVER s OPTIONS (ADD updatable 'false');
ALTER FOREIGN TABLE t OPTIONS (SET updatable 'true', DROP truncatable);
SELECT outcome('INSERT INTO t VALUES (1)');
SELECT outcome('INSERT INTO k VALUES (''c'')');
SELECT outcome('TRUNCATE k');

-- ---- what cannot be asked ----
SELECT outcome('INSERT INTO t VALUES (1) ON CONFLICT (v) DO NOTHING');
SELECT outcome('INSERT INTO t VALUES (1) ON CONFLICT (v) DO UPDATE SET v = 1');
SELECT outcome('INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING');
SELECT outcome('SELECT * FROM t TABLESAMPLE SYSTEM (1)');
SELECT outcome('SELECT ctid FROM t') ~ '^(done|0A000)';
SELECT outcome('SELECT * FROM mosql_fdw_check(''pg_class'')');
SELECT outcome('SELECT * FROM mosql_fdw_dump(''errors_none'')');
SELECT outcome('SELECT mosql_fdw_disconnect(''no such server'')');
SELECT left(outcome('SET mosql_fdw.intent_timeout = 0'), 11) AS outcome;
SELECT outcome('SET mosql_fdw.no_such_setting = 1');

SELECT c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c;
DROP FOREIGN TABLE t, k, mine;
DROP SERVER s;
-- the cluster of this test has neither replicas nor a log on disk
CREATE SERVER alone FOREIGN DATA WRAPPER mosql_fdw
	OPTIONS (nodes :'nodes', namespace :'ns', durability 'replicated', replicas '2', replica_timeout '50');
SELECT regexp_replace(outcome('CREATE FOREIGN TABLE unsafe (id int OPTIONS (key ''true'') NOT NULL) SERVER alone'), 'server \S+:\d+', 'server ...');
CREATE SERVER diskless FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns', durability 'fsync');
SELECT regexp_replace(outcome('CREATE FOREIGN TABLE unsafe (id int OPTIONS (key ''true'') NOT NULL) SERVER diskless'), 'server \S+:\d+', 'server ...');
DROP SERVER alone;
DROP SERVER diskless;
DROP SERVER nobody;
DROP SERVER nowhere;
DROP SERVER several;
DROP SERVER locked;
REVOKE ALL ON SCHEMA public FROM mosql_regress_user;
DROP OWNED BY mosql_regress_user;
DROP ROLE mosql_regress_user;
DROP FUNCTION server_with;
