ALTER TABLE person DROP COLUMN made;
DROP INDEX visit_n_at_day_person_idx;
ALTER TYPE mood RENAME VALUE 'ok' TO 'medium';
ALTER TABLE visit DROP CONSTRAINT visit_person, DROP CONSTRAINT visit_n_check, ALTER COLUMN n TYPE int;
