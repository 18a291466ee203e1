/*
 * trigger.c: TRUNCATE triggers.
 *
 * Layer: admin.  PostgreSQL 15 fires them for foreign tables, but makes none; later versions do both.  So there the
 * trigger is made by core without TRUNCATE among its events, which the row of the catalog gets at once.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_trigger.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "utils/inval.h"

#include "admin/utility.h"

bool
mosql_admin_takes_trigger(const CreateTrigStmt *create)
{
#if PG_VERSION_NUM >= 160000
	return false;
#else
	Oid			relid;

	if ((create->events & TRIGGER_TYPE_TRUNCATE) == 0 || create->isconstraint)
		return false;
	relid = RangeVarGetRelid(create->relation, NoLock, true);
	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
#endif
}

/* Core has locked the table. */
static void
set_events(Oid triggerid, int16 events)
{
	Relation	triggers = table_open(TriggerRelationId, RowExclusiveLock);
	HeapTuple	tuple = get_catalog_object_by_oid(triggers, Anum_pg_trigger_oid, triggerid);
	Form_pg_trigger trigger;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find tuple for trigger %u", triggerid);
	trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	trigger->tgtype = (trigger->tgtype & ~TRIGGER_TYPE_EVENT_MASK) | events;
	CatalogTupleUpdate(triggers, &tuple->t_self, tuple);
	CacheInvalidateRelcacheByRelid(trigger->tgrelid);
	table_close(triggers, RowExclusiveLock);
}

void
mosql_admin_run_trigger(const MosqlStatement *statement)
{
	CreateTrigStmt *create = castNode(CreateTrigStmt, statement->tree);
	int16		events = create->events;
	ObjectAddress address;

	if (create->row)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("TRUNCATE FOR EACH ROW triggers are not supported")));
	create->events &= ~TRIGGER_TYPE_TRUNCATE;
	if (create->events == 0)
		create->events = TRIGGER_TYPE_DELETE;
	address = CreateTrigger(create, statement->query, InvalidOid, InvalidOid, InvalidOid, InvalidOid, InvalidOid,
							InvalidOid, NULL, false, false);
	create->events = events;
	CommandCounterIncrement();
	set_events(address.objectId, events);
	CommandCounterIncrement();
	EventTriggerCollectSimpleCommand(address, InvalidObjectAddress, (Node *) create);
}
