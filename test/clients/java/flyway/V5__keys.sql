ALTER TABLE orders DROP CONSTRAINT orders_of;
ALTER TABLE person DROP CONSTRAINT person_boss_fkey, DROP CONSTRAINT person_pkey, ADD COLUMN code uuid NOT NULL DEFAULT md5('x')::uuid;
UPDATE person SET code = md5(name)::uuid;
ALTER TABLE person ADD CONSTRAINT person_code PRIMARY KEY (code), ADD CONSTRAINT person_id UNIQUE (id);
ALTER TABLE orders ADD COLUMN owner uuid;
UPDATE orders SET owner = code FROM person WHERE person.id = person;
ALTER TABLE orders ALTER COLUMN owner SET NOT NULL, ADD CONSTRAINT orders_of FOREIGN KEY (owner) REFERENCES person DEFERRABLE INITIALLY DEFERRED,
    DROP COLUMN person;
ALTER TABLE person ALTER COLUMN id DROP IDENTITY, DROP COLUMN boss;
ALTER TABLE orders ALTER COLUMN owner SET DEFAULT md5('Ann')::uuid;
