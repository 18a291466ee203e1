ALTER TABLE visit ADD CONSTRAINT visit_person FOREIGN KEY (person) REFERENCES person ON DELETE CASCADE, ADD CHECK (n >= 0), ALTER COLUMN n TYPE bigint;
ALTER TYPE mood RENAME VALUE 'fine' TO 'ok';
CREATE INDEX ON visit (n DESC, at_day) INCLUDE (person);
ALTER TABLE person ADD COLUMN made timestamptz NOT NULL DEFAULT now();
