-- extension and server, as a new user makes them; the node list comes from the harness
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
-- a namespace of its own per run, so that the Redis nodes may be used again
SELECT 'regress-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
-- what becomes of a command: for errors whose class, detail and hint matter
CREATE FUNCTION outcome(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
		hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', SQLSTATE || ': ' || message, '  ' || nullif(detail, ''),
					 '  ' || nullif(hint, ''));
END $$;
