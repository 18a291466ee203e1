CREATE TYPE state AS ENUM ('new', 'paid', 'sent');
CREATE DOMAIN price AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE TABLE person (
    id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    varchar(40) NOT NULL,
    mail    text CONSTRAINT one_mail UNIQUE,
    born    date CHECK (born > '1900-01-01'),
    boss    integer REFERENCES person ON DELETE SET NULL
);
CREATE TABLE orders (
    id      bigserial PRIMARY KEY,
    person  integer NOT NULL CONSTRAINT orders_of REFERENCES person (id) ON DELETE CASCADE ON UPDATE CASCADE,
    state   state NOT NULL DEFAULT 'new',
    at      timestamptz NOT NULL DEFAULT now(),
    amount  price DEFAULT 0,
    notes   text[],
    data    jsonb DEFAULT '{"a": [1, 2]}'
);
CREATE INDEX open_orders ON orders (at DESC NULLS LAST) WHERE state = 'new';
CREATE UNIQUE INDEX one_name ON person (lower(name), born);
COMMENT ON TABLE orders IS 'what is ordered';
COMMENT ON COLUMN orders.amount IS 'in euros';
COMMENT ON CONSTRAINT one_mail ON person IS 'a mail is one person''s';
COMMENT ON INDEX open_orders IS 'those that are open';
INSERT INTO person (name, mail, born) VALUES ('Ann', 'ann@x', '1970-01-01'), ('Bob', 'bob@x', NULL);
INSERT INTO orders (person, amount, notes) SELECT 1 + i % 2, i, ARRAY['n' || i] FROM generate_series(1, 200) i;
