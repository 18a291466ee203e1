CREATE OR REPLACE VIEW open AS SELECT id, amount, owner FROM orders WHERE state = 'new';
