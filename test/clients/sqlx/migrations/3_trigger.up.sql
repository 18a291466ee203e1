-- no-transaction
CREATE FUNCTION tell_visit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('visited', NEW.at_day::text); RETURN NULL; END $$;
CREATE TRIGGER visited AFTER INSERT ON visit FOR EACH ROW WHEN (NEW.at_day >= 2000) EXECUTE FUNCTION tell_visit();
