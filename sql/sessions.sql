-- who shares a session, and with it a transaction, in one transaction of PostgreSQL
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
SELECT 'sessions-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE SERVER one FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
CREATE SERVER same FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
CREATE SERVER slower FOREIGN DATA WRAPPER mosql_fdw
    OPTIONS (nodes :'nodes', namespace :'ns', command_timeout '20000');
CREATE ROLE caller;
CREATE ROLE owner;
CREATE ROLE stranger;
GRANT USAGE ON FOREIGN SERVER one TO owner;
GRANT CREATE ON SCHEMA public TO owner;
RESET client_min_messages;

SET ROLE owner;
CREATE FOREIGN TABLE account (id int OPTIONS (key 'true') NOT NULL, n int) SERVER one;
INSERT INTO account SELECT i, 0 FROM generate_series(1, 3) i;
CREATE VIEW accounts AS SELECT * FROM account;
CREATE FUNCTION pay(who int) RETURNS int LANGUAGE sql SECURITY DEFINER AS
    'UPDATE account SET n = n + 1 WHERE id = who RETURNING n';
GRANT SELECT, UPDATE ON account, accounts TO caller, stranger;
RESET ROLE;

-- neither has a mapping, one of PUBLIC, or equal ones of their own
CREATE PROCEDURE together() LANGUAGE plpgsql AS $$
BEGIN
	UPDATE account SET n = 10 WHERE id = 1;
	RAISE NOTICE 'the function makes it %, the view shows %, the table %', pay(1),
		(SELECT n FROM accounts WHERE id = 1), (SELECT n FROM account WHERE id = 1);
	ROLLBACK;
END $$;
SET ROLE caller;
CALL together();
RESET ROLE;
SELECT * FROM account ORDER BY id;
CREATE USER MAPPING FOR owner SERVER one OPTIONS (password_required 'false');
CREATE USER MAPPING FOR PUBLIC SERVER one;
SET ROLE caller;
CALL together();
RESET ROLE;
CREATE USER MAPPING FOR caller SERVER one;
SET ROLE caller;
CALL together();
BEGIN;
SAVEPOINT s;
SELECT pay(1);
UPDATE account SET n = n + 1 WHERE id = 1;
ROLLBACK TO s;
SELECT pay(2);
UPDATE accounts SET n = n + 1 WHERE id = 2;
COMMIT;
SELECT * FROM account ORDER BY id;
RESET ROLE;

-- another server that says the same
CREATE SCHEMA other;
IMPORT FOREIGN SCHEMA public LIMIT TO (account) FROM SERVER same INTO other;
BEGIN;
UPDATE account SET n = 30 WHERE id = 3;
UPDATE other.account SET n = n + 1 WHERE id = 3;
SELECT a.n, b.n FROM account a JOIN other.account b USING (id) WHERE id = 3;
COMMIT;
SELECT n FROM account WHERE id = 3;
SELECT count(DISTINCT server_name) FROM mosql_fdw_get_connections() WHERE server_name IN ('one', 'same');

-- another identity, or other options: refused in one transaction, at once
\set VERBOSITY terse
CREATE USER MAPPING FOR stranger SERVER one OPTIONS (username 'nobody', password 'secret');
SET ROLE stranger;
BEGIN;
SELECT pay(1);
UPDATE account SET n = 0 WHERE id = 1;
ROLLBACK;
RESET ROLE;
CREATE SCHEMA slow;
IMPORT FOREIGN SCHEMA public LIMIT TO (account) FROM SERVER slower INTO slow;
SELECT regexp_replace(outcome($$ SELECT FROM account JOIN slow.account b USING (id) $$), 'sessions-\d+', 'NS');
\set VERBOSITY default
SELECT count(*) FROM slow.account;

-- nor one that only a superuser may use without a password, after a superuser has
CREATE USER MAPPING FOR PUBLIC SERVER slower OPTIONS (username 'default');
SELECT outcome('SELECT FROM slow.account') IS NOT NULL;
GRANT USAGE ON SCHEMA slow TO caller;
GRANT SELECT ON slow.account TO caller;
SET ROLE caller;
SELECT outcome('SELECT FROM slow.account');
RESET ROLE;
DROP USER MAPPING FOR PUBLIC SERVER slower;

-- nor does a parallel worker take part
CREATE FUNCTION balance(who int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
    'BEGIN RETURN (SELECT n FROM account WHERE id = who); END';
CREATE TABLE many AS SELECT i % 3 + 1 AS id FROM generate_series(1, 20000) i;
ANALYZE many;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT outcome('SELECT FROM many WHERE balance(id) < 0');
ALTER FUNCTION balance PARALLEL RESTRICTED;
SELECT count(*) FROM many WHERE id = 1 AND balance(id) < 0;
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
DROP TABLE many;

-- changed options hold from the next transaction on
BEGIN;
SELECT n FROM slow.account WHERE id = 1;
ALTER SERVER slower OPTIONS (DROP command_timeout);
SELECT n FROM slow.account WHERE id = 1;
COMMIT;
SELECT a.n, b.n FROM account a JOIN slow.account b USING (id) WHERE id = 1;

-- who is there, as the clock knows it: this backend, by its names
SET application_name = 'from now on';
SELECT mosql_fdw_disconnect('one');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM account;
SELECT state, own, opened <= now() + interval '1 minute' AS opened, lease_until > opened AS lease,
       oldest_snapshot < lease_until AS holds, snapshots, server LIKE '%:' || current_setting('port') AS server,
       pid = pg_backend_pid() AS pid, database = current_database() AS database, application_name
FROM mosql_fdw_sessions('one') WHERE own;
COMMIT;
SELECT oldest_snapshot, snapshots FROM mosql_fdw_sessions('same') WHERE own;
SELECT mosql_fdw_disconnect('one');
RESET application_name;
-- it draws no id itself, founds no database, and needs USAGE
SELECT count(*) FROM mosql_fdw_sessions('slower') WHERE own;
CREATE SERVER none FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace 'sessions-none');
SELECT count(*) FROM mosql_fdw_sessions('none');
SELECT outcome($$ SELECT FROM mosql_fdw_sessions('nowhere') $$);
SET ROLE caller;
SELECT outcome($$ SELECT FROM mosql_fdw_sessions('one') $$);
SET ROLE owner;
SELECT count(*) >= 0 FROM mosql_fdw_sessions('one');
RESET ROLE;

SET client_min_messages = warning;
DROP SCHEMA other, slow CASCADE;
DROP SERVER one, same, slower, none CASCADE;
DROP FUNCTION balance, pay;
DROP PROCEDURE together;
DROP OWNED BY owner, caller, stranger;
DROP ROLE owner, caller, stranger;
