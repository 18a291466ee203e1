-- a sequence in the default of a column's domain is drawn from Redis, too
\getenv nodes MOSQL_NODES
SET client_min_messages = warning;
SELECT 'domains-' || extract(epoch FROM now())::bigint AS ns \gset
CREATE SERVER domains FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes :'nodes', namespace :'ns');
RESET client_min_messages;
CREATE SEQUENCE tickets;
CREATE SEQUENCE others;
CREATE DOMAIN ticket AS bigint DEFAULT nextval('tickets') CHECK (VALUE < 1000);
CREATE DOMAIN code AS text DEFAULT 'c' || nextval('tickets');
CREATE FOREIGN TABLE sold (id int OPTIONS (key 'true') NOT NULL, no ticket) SERVER domains;
-- the first statement of a session draws from Redis
\c -
INSERT INTO sold VALUES (1), (2);
INSERT INTO sold SELECT i FROM generate_series(3, 4) i;
-- and so does COPY
COPY sold (id) FROM stdin;
5
6
\.
COPY sold FROM stdin;
7	100
\.
\c -
COPY sold (id) FROM stdin;
8
9
\.
SELECT * FROM sold ORDER BY id;
SELECT last_value, is_called FROM tickets;
-- a later value must pass the domain's check, as any
SELECT mosql_fdw_setval('tickets', 999);
\set VERBOSITY terse
COPY sold (id) FROM stdin;
10
\.
\set VERBOSITY default
SELECT mosql_fdw_setval('tickets', 200);
-- values of rows that get such a column
ALTER FOREIGN TABLE sold ADD COLUMN label code;
INSERT INTO sold (id, no) VALUES (11, 1);
COPY sold (id, no) FROM stdin;
12	1
\.
SELECT id, label FROM sold ORDER BY id;
-- what the default is changed to
ALTER DOMAIN ticket SET DEFAULT nextval('others');
INSERT INTO sold (id) VALUES (13);
COPY sold (id) FROM stdin;
14
\.
SELECT id, no FROM sold WHERE id > 12 ORDER BY id;
SELECT last_value, is_called FROM others;
-- COPY within a function does not say which columns it has
\set VERBOSITY terse
CREATE FUNCTION copy_in() RETURNS void LANGUAGE plpgsql AS $$ BEGIN COPY sold (id) FROM PROGRAM 'echo 15'; END $$;
SELECT copy_in();
\set VERBOSITY default
-- a sequence of somebody else
CREATE ROLE seller;
GRANT USAGE ON FOREIGN SERVER domains TO seller;
GRANT CREATE ON SCHEMA public TO seller;
CREATE SEQUENCE private;
CREATE DOMAIN hidden AS int DEFAULT nextval('private');
SET ROLE seller;
SELECT outcome('CREATE FOREIGN TABLE theirs (id int OPTIONS (key ''true'') NOT NULL, h hidden) SERVER domains');
RESET ROLE;
-- without the server, and CASCADE, its sequences go, and what draws from them
SET client_min_messages = warning;
DROP SERVER domains CASCADE;
DROP DOMAIN hidden;
DROP SEQUENCE private;
DROP FUNCTION copy_in;
DROP OWNED BY seller;
DROP ROLE seller;
