-- what loads and rebuilds cost, counted: per 100 rows, COMMIT and the old tree's end included
SET client_min_messages = warning;
CREATE FUNCTION cost(name text) RETURNS numeric LANGUAGE sql AS
	$$ SELECT round(value / 200.0, 1) FROM mosql_fdw_stats() s WHERE s.name = cost.name $$;
-- as pgbench -i makes them: no key at first
CREATE FOREIGN TABLE accounts (aid int NOT NULL, bid int, abalance int, filler char(84)) SERVER redis;
SELECT mosql_fdw_stats_reset();
BEGIN;
TRUNCATE accounts;
INSERT INTO accounts SELECT i, i % 10, 0, '' FROM generate_series(1, 20000) i;
COMMIT;
\set counted 'SELECT cost($$round_trips$$) <= :trips AS trips, cost($$commands$$) <= :commands AS commands, cost($$bytes_sent$$) <= :sent AS sent, cost($$bytes_received$$) <= :received AS received, cost($$leaves_unpacked$$) AS unpacked'
\set trips 0.3
\set commands 2.5
\set sent 1700
\set received 250
:counted;

-- the copy is one pass: what was packed stays so until it goes, and no leaf is certified
SELECT mosql_fdw_stats_reset();
ALTER TABLE accounts ADD PRIMARY KEY (aid);
\set commands 8
\set sent 1100
\set received 1700
:counted;
SELECT mosql_fdw_stats_reset();
ALTER FOREIGN TABLE accounts ALTER COLUMN bid TYPE bigint;
\set received 800
:counted;

-- all rows are looked at, and nothing is written to them
SELECT mosql_fdw_stats_reset();
ALTER FOREIGN TABLE accounts ALTER COLUMN bid SET NOT NULL;
\set commands 2.5
\set sent 120
\set received 550
:counted;
SELECT mosql_fdw_stats_reset();
ALTER FOREIGN TABLE accounts ADD CHECK (abalance = 0);
:counted;
SELECT mosql_fdw_stats_reset();
BEGIN;
CREATE INDEX ON accounts (bid);
COMMIT;
\set commands 5
\set sent 850
\set received 750
:counted;
-- a scan
SELECT mosql_fdw_stats_reset();
SELECT count(*), sum(abalance), sum(aid) FROM accounts;
\set trips 0.2
\set commands 2.5
\set sent 120
\set received 550
:counted;
-- both ends of a foreign key stay packed
CREATE FOREIGN TABLE notes (id int OPTIONS (key 'true') NOT NULL, aid int) SERVER redis;
BEGIN;
TRUNCATE notes;
INSERT INTO notes SELECT i, i - i % 7 + 1 FROM generate_series(1, 20000) i;
COMMIT;
SELECT mosql_fdw_stats_reset();
ALTER TABLE notes ADD CONSTRAINT notes_aid FOREIGN KEY (aid) REFERENCES accounts;
\set trips 0.4
\set commands 5
\set sent 3000
\set received 1500
:counted;
ALTER TABLE notes DROP CONSTRAINT notes_aid;
ALTER TABLE notes ADD CONSTRAINT notes_aid FOREIGN KEY (aid) REFERENCES accounts NOT VALID;
SELECT mosql_fdw_stats_reset();
ALTER TABLE notes VALIDATE CONSTRAINT notes_aid;
:counted;
DROP FOREIGN TABLE notes;
SELECT count(*) FILTER (WHERE state <> 'packed') <= 1 AS packed FROM mosql_fdw_dump('accounts') WHERE level = 0;	-- the last one may be short
SELECT count(*), sum(aid), sum(bid) FROM accounts;
SELECT * FROM mosql_fdw_check('accounts');
DROP FOREIGN TABLE accounts;
DROP FUNCTION cost;
