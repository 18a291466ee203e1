ALTER TABLE person RENAME COLUMN mail TO email;
ALTER TABLE person RENAME CONSTRAINT one_mail TO one_email;
ALTER TABLE orders RENAME CONSTRAINT orders_pkey TO orders_key;
ALTER INDEX open_orders RENAME TO orders_open;
ALTER SEQUENCE orders_id_seq RENAME TO order_numbers;
ALTER TYPE state RENAME VALUE 'sent' TO 'shipped';
ALTER TABLE orders ALTER COLUMN notes SET DEFAULT '{}', ALTER COLUMN data DROP DEFAULT, ADD COLUMN paid boolean NOT NULL DEFAULT false;
