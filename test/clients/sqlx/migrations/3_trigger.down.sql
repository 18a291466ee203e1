DROP TRIGGER visited ON visit;
DROP FUNCTION tell_visit();
