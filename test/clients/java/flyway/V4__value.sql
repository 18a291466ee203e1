ALTER TYPE state ADD VALUE 'lost' AFTER 'paid';
