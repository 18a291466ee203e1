/* mosql_fdw 1.0 */

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION mosql_fdw" to load this file. \quit

-- ---- the foreign data wrapper ----

CREATE FUNCTION mosql_fdw_handler() RETURNS fdw_handler
    AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION mosql_fdw_handler() IS
    'The callbacks of foreign data wrapper mosql_fdw; not for calling.';

CREATE FUNCTION mosql_fdw_validator(options text[], catalog oid) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION mosql_fdw_validator(text[], oid) IS
    'Checks options at CREATE and ALTER; HV00D for an unknown one, HV024 for a bad value.';

CREATE FOREIGN DATA WRAPPER mosql_fdw
    HANDLER mosql_fdw_handler
    VALIDATOR mosql_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER mosql_fdw IS
    'Relational tables in a Redis or Valkey Cluster.';

-- ---- DDL on foreign tables reaches Redis ----

CREATE FUNCTION mosql_fdw_ddl_start() RETURNS event_trigger
    AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION mosql_fdw_ddl_start() IS
    'Loads the library before any DDL, so that it sees drops.';

CREATE FUNCTION mosql_fdw_ddl_end() RETURNS event_trigger
    AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION mosql_fdw_ddl_end() IS
    'Brings the definitions in Redis up to created and altered foreign tables; 42P16 where a table of that name has another definition, 0A000 for changes that would rewrite rows.';

CREATE EVENT TRIGGER mosql_fdw_ddl_start ON ddl_command_start
    EXECUTE FUNCTION mosql_fdw_ddl_start();
CREATE EVENT TRIGGER mosql_fdw_ddl_end ON ddl_command_end
    WHEN TAG IN ('CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE', 'ALTER TABLE',
                 'IMPORT FOREIGN SCHEMA')
    EXECUTE FUNCTION mosql_fdw_ddl_end();

-- also for sessions with session_replication_role = replica
ALTER EVENT TRIGGER mosql_fdw_ddl_start ENABLE ALWAYS;
ALTER EVENT TRIGGER mosql_fdw_ddl_end ENABLE ALWAYS;

-- ---- what this backend does ----

CREATE FUNCTION mosql_fdw_version() RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_version() IS
    'Version of the loaded library.';

CREATE FUNCTION mosql_fdw_stats(OUT name text, OUT value bigint) RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_stats() IS
    'Counters of this backend since it started or mosql_fdw_stats_reset(): round trips to Redis (waits, however many commands each), commands, bytes, leaves and inner nodes read, commits, conflicts (SQLSTATE 40001), retries.';

CREATE FUNCTION mosql_fdw_stats_reset() RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_stats_reset() IS
    'Sets the counters of this backend to zero.';

CREATE FUNCTION mosql_fdw_get_connections(OUT server_name text, OUT user_name text,
                                          OUT host text, OUT port integer,
                                          OUT connected boolean, OUT under_way integer,
                                          OUT in_transaction boolean)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_get_connections() IS
    'Connections of this backend to Redis: server_name is null for a dropped server, user_name for PUBLIC''s mapping or none; under_way counts commands sent and not answered yet.';

CREATE FUNCTION mosql_fdw_disconnect(server_name text) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_disconnect(text) IS
    'Closes this backend''s connections to a server; false if there were none, or the current transaction uses them (with a warning). 42704 if there is no such server.';

CREATE FUNCTION mosql_fdw_disconnect_all() RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_disconnect_all() IS
    'Closes all of this backend''s connections to Redis that the current transaction does not use.';

-- ---- looking at data and servers ----

CREATE FUNCTION mosql_fdw_check(relation regclass, OUT severity text, OUT node text,
                                OUT finding text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_check(regclass) IS
    'Reads the whole table and every key name in Redis, and reports what is wrong: severity "broken" is damage, "unfinished" is work that the next writer or reader completes. No rows: all is well. Needs SELECT on the table.';

CREATE FUNCTION mosql_fdw_dump(relation regclass, OUT level integer, OUT node text,
                               OUT state text, OUT low bytea, OUT high bytea,
                               OUT entries integer, OUT intents integer, OUT bytes bigint)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_dump(regclass) IS
    'Every node of a table''s tree in key order: its level (0: leaf), Redis key, state, fence keys (null: no bound), entries, intents of commits under way, and bytes. Needs SELECT on the table.';

CREATE FUNCTION mosql_fdw_server_check(server_name text, OUT node text, OUT setting text,
                                       OUT current text, OUT advised text, OUT why text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_server_check(text) IS
    'Settings of the Redis primaries that should be changed, and why. No rows: all is as advised. Needs USAGE on the server; 42704 if there is no such server.';

-- ---- for tests ----

CREATE FUNCTION mosql_fdw_debug_lock(point text) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_debug_lock(text) IS
    'Holds every backend with mosql_fdw.debug_points at this debug point, until unlocked or this session ends.';

CREATE FUNCTION mosql_fdw_debug_unlock(point text) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_debug_unlock(text) IS
    'Lets them go; false, with a warning, if this session did not hold them.';

REVOKE ALL ON FUNCTION mosql_fdw_server_check(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mosql_fdw_server_check(text) TO pg_monitor;
REVOKE ALL ON FUNCTION mosql_fdw_debug_lock(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION mosql_fdw_debug_unlock(text) FROM PUBLIC;
