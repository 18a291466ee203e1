DROP TABLE visit;
DROP TABLE person;
DROP TYPE mood;
