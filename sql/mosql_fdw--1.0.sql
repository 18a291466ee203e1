/* mosql_fdw 1.0 */

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION mosql_fdw" to load this file. \quit

-- Everything is in pg_catalog: found by its plain name whatever the search_path, and never
-- among what tools find in the schemas of an application.  Views need leave for that.
SET LOCAL allow_system_table_mods = on;

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

-- ---- keys of foreign tables are indexes ----

CREATE FUNCTION mosql_fdw_index_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION mosql_fdw_index_handler(internal) IS
    'Access method mosql; not for calling.';

CREATE ACCESS METHOD mosql TYPE INDEX HANDLER mosql_fdw_index_handler;
COMMENT ON ACCESS METHOD mosql IS
    'Indexes of foreign tables that are kept in Redis, as their primary keys are.';

-- ---- DDL on foreign tables reaches Redis ----

CREATE FUNCTION mosql_fdw_ddl_start() RETURNS event_trigger
    AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION mosql_fdw_ddl_start() IS
    'Loads the library before any DDL, so that it sees drops, and does what a session''s first command needs it for. 55000 for CREATE TABLE AS in a function, in a session that had not loaded it.';

CREATE FUNCTION mosql_fdw_ddl_end() RETURNS event_trigger
    AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION mosql_fdw_ddl_end() IS
    'Brings the definitions in Redis up to created and altered foreign tables; 42P16 where a table of that name has another definition, 0A000 for a key column whose type has no order in Redis.';

CREATE FUNCTION mosql_fdw_reference() RETURNS trigger
    AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION mosql_fdw_reference() IS
    'Does nothing: tables with foreign keys have a trigger of it, so that PostgreSQL looks for their foreign keys.';

CREATE EVENT TRIGGER mosql_fdw_ddl_start ON ddl_command_start
    EXECUTE FUNCTION mosql_fdw_ddl_start();
-- by its name before those of others: these may alter again what was altered
CREATE EVENT TRIGGER "!mosql_fdw_ddl_end" ON ddl_command_end
    WHEN TAG IN ('CREATE FOREIGN TABLE', 'CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE SCHEMA', 'ALTER FOREIGN TABLE',
                 'ALTER TABLE', 'ALTER INDEX', 'CREATE SEQUENCE', 'ALTER SEQUENCE', 'COMMENT',
                 'IMPORT FOREIGN SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN', 'ALTER COLLATION',
                 'ALTER SCHEMA', 'ALTER EXTENSION', 'CREATE VIEW', 'ALTER VIEW',
                 'ALTER MATERIALIZED VIEW')
    EXECUTE FUNCTION mosql_fdw_ddl_end();

-- also for sessions with session_replication_role = replica
ALTER EVENT TRIGGER mosql_fdw_ddl_start ENABLE ALWAYS;
ALTER EVENT TRIGGER "!mosql_fdw_ddl_end" ENABLE ALWAYS;

-- ---- plain CREATE TABLE ----

CREATE FUNCTION mosql_fdw_enable(server name) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_enable(name) IS
    'Makes CREATE TABLE in this database make foreign tables on a server: sets mosql_fdw.default_server and mosql_fdw.present_as_table and adds mosql_fdw to session_preload_libraries, all for the database, so for the sessions that begin later; and the first two for this one. Needs a superuser. 42704 if there is no such server, 42809 if it is none of mosql_fdw.';

CREATE FUNCTION mosql_fdw_disable() RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_disable() IS
    'Takes back mosql_fdw_enable(): CREATE TABLE makes local tables again. Tables that are there stay.';

CREATE FUNCTION mosql_fdw_shown_kind(relation oid, kind "char") RETURNS "char"
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_shown_kind(oid, "char") IS
    'What pg_class.relkind becomes under mosql_fdw.present_as_table: r for foreign tables of mosql_fdw.';

CREATE FUNCTION mosql_fdw_shown_method(relation oid, method oid) RETURNS oid
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_shown_method(oid, oid) IS
    'What pg_class.relam becomes under mosql_fdw.present_as_table: btree, or hash, for indexes of mosql_fdw.';

CREATE FUNCTION mosql_fdw_shown_options(options int2vector) RETURNS int2vector
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_shown_options(int2vector) IS
    'What pg_index.indoption becomes under mosql_fdw.present_as_table: without the bit that says that an index of mosql_fdw was to be USING hash.';

CREATE FUNCTION mosql_fdw_shown_ready(index oid, ready boolean) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_shown_ready(oid, boolean) IS
    'What pg_index.indisready and indisvalid become in queries: true for indexes of mosql_fdw that are in the catalogs alone, which pg_dump would leave out otherwise.';

CREATE FUNCTION mosql_fdw_shown_indexdef(index oid) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION mosql_fdw_shown_indexdef(index oid, attribute integer, pretty boolean) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_shown_indexdef(oid) IS
    'What pg_get_indexdef() becomes under mosql_fdw.present_as_table: USING btree for indexes of mosql_fdw.';
COMMENT ON FUNCTION mosql_fdw_shown_indexdef(oid, integer, boolean) IS
    'The same with three arguments.';

CREATE FUNCTION mosql_fdw_shown_constraintdef("constraint" oid) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION mosql_fdw_shown_constraintdef("constraint" oid, pretty boolean) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_shown_constraintdef(oid) IS
    'What pg_get_constraintdef() becomes under mosql_fdw.present_as_table: EXCLUDE USING btree for exclusion constraints of mosql_fdw.';
COMMENT ON FUNCTION mosql_fdw_shown_constraintdef(oid, boolean) IS
    'The same with two arguments.';

CREATE FUNCTION mosql_fdw_shown_expr(expression pg_node_tree, relation oid) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION mosql_fdw_shown_expr(expression pg_node_tree, relation oid, pretty boolean) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_shown_expr(pg_node_tree, oid) IS
    'What pg_get_expr() becomes in queries of the catalogs: nextval() in defaults of foreign tables of mosql_fdw, which have mosql_fdw_nextval() in its place.';
COMMENT ON FUNCTION mosql_fdw_shown_expr(pg_node_tree, oid, boolean) IS
    'The same with three arguments.';

CREATE FUNCTION mosql_fdw_shown_last_value(sequence regclass) RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_shown_last_value(regclass) IS
    'What pg_sequence_last_value() becomes, hence pg_sequences.last_value: from Redis for sequences that are drawn from there, null if nothing was drawn yet.';

CREATE FUNCTION mosql_fdw_shown_data(sequence regclass, OUT last_value bigint, OUT is_called boolean)
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_shown_data(regclass) IS
    'What pg_get_sequence_data() becomes, which pg_dump asks since PostgreSQL 18: from Redis for sequences that are drawn from there.';

CREATE FUNCTION mosql_fdw_shown_state(sequence regclass, last_value bigint) RETURNS bigint
    AS 'MODULE_PATHNAME', 'mosql_fdw_shown_last' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION mosql_fdw_shown_state(sequence regclass, is_called boolean) RETURNS boolean
    AS 'MODULE_PATHNAME', 'mosql_fdw_shown_called' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_shown_state(regclass, bigint) IS
    'What last_value of a sequence becomes in queries: as it is in Redis, for sequences that are drawn from there.';
COMMENT ON FUNCTION mosql_fdw_shown_state(regclass, boolean) IS
    'The same of is_called.';

REVOKE ALL ON FUNCTION mosql_fdw_enable(name), mosql_fdw_disable() FROM PUBLIC;

CREATE FUNCTION mosql_fdw_refresh(relation regclass) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_refresh(regclass) IS
    'Alters a foreign table to what other servers made of it: columns, types, keys, NOT NULL, indexes, defaults, identity, CHECK constraints, comments. Defaults, CHECK constraints and comments that are only here stay. Returns the statements that did it, null if nothing but indexes differed. Only for its owner; no data changes. 42P01 if the table is no longer in Redis, 2BP01 if views need a column that is gone.';

CREATE FUNCTION mosql_fdw_gc(server_name text, OUT kind text, OUT name text,
                             OUT finding text, OUT action text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_gc(text) IS
    'Compares this database''s foreign tables, indexes, foreign keys and sequences on a server with what is in Redis: what differs, and what was done (indexes of own tables are shown or removed here) or is to be done about it. Also lists trees in Redis that no definition names any more. Nothing in Redis changes. Needs USAGE on the server; 42704 if there is no such server.';

-- ---- sequences that all servers draw from ----

CREATE FUNCTION mosql_fdw_nextval(sequence regclass) RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_nextval(regclass) IS
    'As nextval(), from Redis for sequences that a column of a foreign table of mosql_fdw owns or a default of one has used: values differ on all servers. 2200H at the end of the sequence, 40001 if another server restarts or drops it, 42P01 if it is not in Redis any more.';

CREATE FUNCTION mosql_fdw_currval(sequence regclass) RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_currval(regclass) IS
    'As currval(): the last value that this session got of a sequence; 55000 if none.';

CREATE FUNCTION mosql_fdw_lastval() RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_lastval() IS
    'As lastval(): the last value that this session got of any sequence; 55000 if none.';

CREATE FUNCTION mosql_fdw_setval(sequence regclass, value bigint) RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_setval(regclass, bigint) IS
    'As setval(), in Redis: at once and for good. Other sessions go on with the values that they have drawn already.';

CREATE FUNCTION mosql_fdw_setval(sequence regclass, value bigint, is_called boolean)
    RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_setval(regclass, bigint, boolean) IS
    'As setval() with three arguments, in Redis: is_called false makes value the next one.';

CREATE FUNCTION mosql_fdw_setval_forward(sequence regclass, value bigint) RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_setval_forward(regclass, bigint) IS
    'What setval() means for shared sequences in sessions with the library loaded: as mosql_fdw_setval(), but never back (NOTICE).';

CREATE FUNCTION mosql_fdw_setval_forward(sequence regclass, value bigint, is_called boolean)
    RETURNS bigint
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_setval_forward(regclass, bigint, boolean) IS
    'The same with three arguments; is_called false makes value the next one.';

-- ---- what this backend does ----

CREATE FUNCTION mosql_fdw_version() RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mosql_fdw_version() IS
    'Version of the loaded library.';

CREATE FUNCTION mosql_fdw_stats(OUT name text, OUT value bigint) RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_stats() IS
    'Counters of this backend since it started or mosql_fdw_stats_reset(): round trips to Redis (waits, however many commands each), commands, bytes, leaves and inner nodes read, reads that a snapshot had seen before (mosql_fdw.snapshot_cache), commits, conflicts (SQLSTATE 40001), retries, rows locked, waits for locks and their time in microseconds, deadlocks.';

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
    'Connections of this backend to Redis: server_name is null for a dropped server, user_name for PUBLIC''s mapping or none; host is the path of a socket where port is 0; under_way counts commands sent and not answered yet.';

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
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
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

-- ---- maintenance ----

CREATE FUNCTION mosql_fdw_maintain(server_name text DEFAULT NULL, OUT server text, OUT outcome text,
                                   OUT sessions_expired bigint, OUT commits_finished bigint,
                                   OUT leaves bigint, OUT rows_pruned bigint,
                                   OUT tombstones_purged bigint, OUT intents_applied bigint,
                                   OUT intents_removed bigint, OUT marks_removed bigint,
                                   OUT splits_finished bigint, OUT nodes_merged bigint,
                                   OUT nodes_deleted bigint, OUT leaves_packed bigint,
                                   OUT leaves_damaged bigint, OUT tables_analyzed bigint,
                                   OUT seconds double precision)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_maintain(text) IS
    'Maintenance of one server, or of all that one may use: finishes what dead front-ends committed, removes what they left behind and what no snapshot needs, merges emptied nodes away, packs leaves that nobody has written to for pack_after, deletes unreachable nodes, refreshes statistics of tables one owns. outcome: done; busy: another session is at it; taken over: this one paused for too long. Speed: mosql_fdw.maintenance_rate. Needs USAGE on the server; 42704 if there is no such server; 25001 in a transaction that changed its tables, or above READ COMMITTED.';

CREATE FUNCTION mosql_fdw_progress(server_name text DEFAULT NULL, OUT server text, OUT operation text,
                                   OUT state text, OUT started timestamptz, OUT updated timestamptz,
                                   OUT session_id bigint, OUT details jsonb)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_progress(text) IS
    'What the view mosql_fdw_progress is made of. Needs USAGE on the server; 42704 if there is no such server.';

CREATE VIEW mosql_fdw_progress AS
    SELECT server, operation, state, details->>'phase' AS phase, details->>'table' AS table_name,
           (details->>'done')::bigint AS done, (details->>'total')::bigint AS total,
           started, updated, details->>'by' AS by, details->>'outcome' AS outcome,
           details->'result' AS result
    FROM mosql_fdw_progress(NULL);
COMMENT ON VIEW mosql_fdw_progress IS
    'Long operations on the servers that one may use, on whichever front-end they run, and how each went last. state: running; ended; died: its session is gone, the next one starts anew. done and total count leaves (keys, in phase sweep); total is what there was last time. Times are the Redis server''s.';
GRANT SELECT ON mosql_fdw_progress TO PUBLIC;

CREATE FUNCTION mosql_fdw_transaction_status(server_name text, transaction_id text) RETURNS text
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_transaction_status(text, text) IS
    'How a transaction ended whose COMMIT failed with 08007; the id is in that error''s message. committed and aborted are final; in progress: its session lives and has not settled it yet; unknown: no trace of it (any more). Answers are kept for at least a day after the session''s end. Needs USAGE on the server; 42704 if there is no such server, 22P02 for what is no id.';

CREATE FUNCTION mosql_fdw_sessions(server_name text, OUT session_id bigint, OUT state text,
                                   OUT own boolean, OUT opened timestamptz,
                                   OUT lease_until timestamptz, OUT oldest_snapshot timestamptz,
                                   OUT snapshots integer, OUT server text, OUT pid integer,
                                   OUT database text, OUT application_name text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_sessions(text) IS
    'The sessions of all front-ends that the clock of a server''s namespace knows. state: alive; ended: its lease is over, and whoever comes next forgets it; ahead: its lease lies further away than it was ever long, because the Redis server''s time was ahead. own: of this backend. Old versions of rows are kept for oldest_snapshot (null: it holds none). Times are the Redis server''s; server, pid, database and application_name as at opened. mosql_fdw_repair(server, ''session'', session_id::text, dry_run := false) ends one. Needs USAGE on the server; 42704 if there is no such server.';

-- ---- advisory locks ----

CREATE FUNCTION mosql_fdw_advisory_lock(server_name text, number bigint) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_advisory_lock(server_name text, number1 integer, number2 integer) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_advisory_lock(text, bigint) IS
    'Locks a number for this session, on all front-ends that share the server''s namespace, as pg_advisory_lock() does on one: waits for whoever has it; lock_timeout (55P03), 40P01. Held until it was unlocked as often as it was locked, whatever becomes of transactions, or until DISCARD ALL or the end of the backend. If the lock is lost (the session''s lease ran out, or a Redis node forgot it) the next transaction fails once with 55000. Numbers of different namespaces, and those of PostgreSQL''s own functions, are apart. Needs USAGE on the server; 42704 if there is no such server.';
COMMENT ON FUNCTION mosql_fdw_advisory_lock(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_advisory_lock_shared(server_name text, number bigint) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_advisory_lock_shared(server_name text, number1 integer, number2 integer) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_advisory_lock_shared(text, bigint) IS
    'The same, beside others that lock the number shared.';
COMMENT ON FUNCTION mosql_fdw_advisory_lock_shared(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_try_advisory_lock(server_name text, number bigint) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_try_advisory_lock(server_name text, number1 integer, number2 integer) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_try_advisory_lock(text, bigint) IS
    'mosql_fdw_advisory_lock() without waiting: false if somebody has it.';
COMMENT ON FUNCTION mosql_fdw_try_advisory_lock(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_try_advisory_lock_shared(server_name text, number bigint) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_try_advisory_lock_shared(server_name text, number1 integer, number2 integer) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_try_advisory_lock_shared(text, bigint) IS
    'mosql_fdw_advisory_lock_shared() without waiting: false if somebody has it.';
COMMENT ON FUNCTION mosql_fdw_try_advisory_lock_shared(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_advisory_unlock(server_name text, number bigint) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_advisory_unlock(server_name text, number1 integer, number2 integer) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_advisory_unlock(text, bigint) IS
    'Lets go of what mosql_fdw_advisory_lock() locked, once. False, with a WARNING, if this session has not locked it so. Needs USAGE on the server; 42704 if there is no such server.';
COMMENT ON FUNCTION mosql_fdw_advisory_unlock(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_advisory_unlock_shared(server_name text, number bigint) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_advisory_unlock_shared(server_name text, number1 integer, number2 integer) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_advisory_unlock_shared(text, bigint) IS
    'Lets go of what mosql_fdw_advisory_lock_shared() locked, once; as above.';
COMMENT ON FUNCTION mosql_fdw_advisory_unlock_shared(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_advisory_unlock_all(server_name text DEFAULT NULL) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_advisory_unlock_all(text) IS
    'Lets go of all numbers that this session has locked beyond its transactions, in the namespace of one server or, null, in all.';

CREATE FUNCTION mosql_fdw_advisory_xact_lock(server_name text, number bigint) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_advisory_xact_lock(server_name text, number1 integer, number2 integer) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_advisory_xact_lock(text, bigint) IS
    'Locks a number for this transaction, on all front-ends that share the server''s namespace, as pg_advisory_xact_lock() does on one: waits for whoever has it; lock_timeout (55P03), 40P01. Let go at the end of the transaction, or by ROLLBACK TO SAVEPOINT. The numbers are those of mosql_fdw_advisory_lock(). Needs USAGE on the server; 42704 if there is no such server.';
COMMENT ON FUNCTION mosql_fdw_advisory_xact_lock(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_advisory_xact_lock_shared(server_name text, number bigint) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_advisory_xact_lock_shared(server_name text, number1 integer, number2 integer) RETURNS void
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_advisory_xact_lock_shared(text, bigint) IS
    'The same, beside others that lock the number shared.';
COMMENT ON FUNCTION mosql_fdw_advisory_xact_lock_shared(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_try_advisory_xact_lock(server_name text, number bigint) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_try_advisory_xact_lock(server_name text, number1 integer, number2 integer) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_try_advisory_xact_lock(text, bigint) IS
    'mosql_fdw_advisory_xact_lock() without waiting: false if somebody has it.';
COMMENT ON FUNCTION mosql_fdw_try_advisory_xact_lock(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_try_advisory_xact_lock_shared(server_name text, number bigint) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION mosql_fdw_try_advisory_xact_lock_shared(server_name text, number1 integer, number2 integer) RETURNS boolean
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mosql_fdw_try_advisory_xact_lock_shared(text, bigint) IS
    'mosql_fdw_advisory_xact_lock_shared() without waiting: false if somebody has it.';
COMMENT ON FUNCTION mosql_fdw_try_advisory_xact_lock_shared(text, integer, integer) IS
    'The same of two numbers, which are apart from single ones.';

CREATE FUNCTION mosql_fdw_locks(server_name text DEFAULT NULL, OUT foreign_server text, OUT table_name text,
                                OUT index_name text, OUT key text, OUT mode text, OUT granted boolean,
                                OUT session_id bigint, OUT transaction_start timestamptz,
                                OUT server text, OUT pid integer, OUT database text,
                                OUT application_name text, OUT waits_for bigint[])
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_locks(text) IS
    'What the view mosql_fdw_locks is made of. Needs USAGE on the server; 42704 if there is no such server.';

CREATE VIEW mosql_fdw_locks AS SELECT * FROM mosql_fdw_locks(NULL);
COMMENT ON VIEW mosql_fdw_locks IS
    'Locks of rows on the servers that one may use: who holds, and who waits for, rows that somebody waits for, on whichever front-end, and rows that this transaction has locked. Other locks stand in their rows alone and are not shown. key: null where one may not read it, or no table here shows it. waits_for: sessions of mosql_fdw_sessions(). transaction_start: by that server''s time.';
GRANT SELECT ON mosql_fdw_locks TO PUBLIC;

-- ---- repair ----

CREATE FUNCTION mosql_fdw_repair(server_name text, action text DEFAULT NULL, target text DEFAULT NULL,
                                 dry_run boolean DEFAULT true,
                                 OUT object text, OUT finding text, OUT done text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION mosql_fdw_repair(text, text, text, boolean) IS
    'Repairs what is damaged or lost in Redis: docs/repair.md. Without an action lists what there is: clock; table, with a foreign table as target; definitions; tree, attach and discard, with a tree as mosql_fdw_gc() names it; index; transaction, with its id; session, with its id. Says what it finds and would do; does it with dry_run := false. Only for superusers; 25001 in a transaction that has changed tables of the server.';
REVOKE ALL ON FUNCTION mosql_fdw_repair(text, text, text, boolean) FROM PUBLIC;

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

RESET allow_system_table_mods;
