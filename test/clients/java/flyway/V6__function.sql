CREATE TABLE totals (owner uuid PRIMARY KEY, n integer NOT NULL DEFAULT 0, amount price);
CREATE FUNCTION count_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO totals VALUES (NEW.owner, 1, NEW.amount) ON CONFLICT (owner) DO UPDATE SET n = totals.n + 1, amount = totals.amount + excluded.amount;
    RETURN NEW;
END $$;
CREATE TRIGGER counted AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION count_order();
INSERT INTO orders (amount, state) SELECT i, 'lost' FROM generate_series(1, 50) i;
DO $$ BEGIN
    PERFORM 1 FROM orders WHERE state > 'paid';
    IF NOT FOUND THEN RAISE EXCEPTION 'none'; END IF;
END $$;
DROP VIEW IF EXISTS open;
CREATE VIEW open AS SELECT id, amount FROM orders WHERE state = 'new';
CREATE MATERIALIZED VIEW by_state AS SELECT state, count(*) AS n FROM orders GROUP BY state;
CREATE PROCEDURE tidy() LANGUAGE sql AS 'DELETE FROM totals WHERE n = 0';
CALL tidy();
