-- extension and server, as a new user makes them; the node list comes from the harness
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
-- a namespace of its own per run, so that the Redis nodes may be used again
SELECT 'regress-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE EXTENSION mosql_fdw;
CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
