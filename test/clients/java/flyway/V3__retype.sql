ALTER TABLE orders ALTER COLUMN data TYPE text USING data ->> 'a', ALTER COLUMN amount TYPE numeric(12, 3), ADD CONSTRAINT small CHECK (amount < 100000) NOT VALID;
ALTER TABLE orders VALIDATE CONSTRAINT small;
ALTER TABLE person ALTER COLUMN born TYPE timestamp USING born + interval '12 hours', ALTER COLUMN name TYPE text;
ALTER TABLE orders ALTER COLUMN paid DROP DEFAULT, ALTER COLUMN paid TYPE integer USING paid::integer, ALTER COLUMN paid SET DEFAULT 0;
