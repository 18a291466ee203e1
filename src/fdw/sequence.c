/*
 * sequence.c: values of the sequences of our tables' columns and defaults.
 *
 * Layer: fdw.  Values are drawn from Redis (table/sequence.c) some at a time, and handed
 * out one by one.  What is left is a gap.
 *
 * How many.  Whoever calls nextval() after a transaction that used a value has committed gets a
 * later one, as from PostgreSQL's sequences with CACHE 1.  So what a query draws ahead is for that
 * query alone: not for the next one, nor for one that it calls, nor for itself after that, since any
 * query may wait, and see what others did meanwhile.  It draws ahead some part of what it has
 * used, so that many rows take few round trips and the gap is smaller than what was used.  With CACHE,
 * or mosql_fdw.sequence_block above 1, the backend keeps a block over transactions, as
 * PostgreSQL does.
 *
 * Which sequences.  Those that a column of ours owns are known by the column.  One that
 * no column of ours owns is shared once a default of ours uses it, and stays so: it
 * depends on the server (pg_depend) from then on.  pg_upgrade loses that; but then the
 * default still tells.
 *
 * Identity columns, and columns whose domain has the default.  Core's rewriter puts an
 * expression into INSERT that draws from the local sequence.  We exchange it in the
 * finished plan: there every INSERT into one of our tables passes by, even the first of a
 * session.  COPY has no plan; there the value that core drew is replaced when the row
 * arrives, where the column is not in COPY's list.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_func.h"
#include "rewrite/rewriteHandler.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "fdw/exec_int.h"

int			mosql_fdw_sequence_block = 1;

/* While it is the same, nothing that this backend did can have shown it others' commits. */
typedef struct Moment
{
	TimestampTz message;		/* the client's, when it came */
	LocalTransactionId transaction; /* a procedure has several */
	SubTransactionId sub;		/* a run that failed does not end */
	uint64		turns;
	int64		waits;			/* for others' rows: then the same query sees what they did */
} Moment;

static uint64 turns = 0;		/* as often as a run of the executor, or a command that is none, began or ended */

/* ---- what this backend knows of a sequence ---- */

typedef struct SequenceEntry
{
	Oid			seqid;			/* hash key, first */
	bool		resolved;		/* owner and sequence are as the catalogs say */
	Oid			relid;			/* the table of ours that owns it, or InvalidOid */
	AttrNumber	attnum;
	bool		identity;		/* ... as identity column: no privileges of its own */
	Oid			serverid;		/* none owns it, and it is shared on this server */
	MosqlSession *session;		/* ... whose catalog has it in this row, as read at this */
	MosqlBytes	key;			/* schema version; in TopMemoryContext */
	MosqlBytes	row;
	uint64		schema;
	LocalTransactionId checked_in;	/* transaction that looked at the definition */
	MosqlSequence sequence;
	MosqlSequenceSeen seen;
	int64		next;			/* the block: this one and */
	int64		left;			/* so many more, counting it */
	Moment		moment;			/* without CACHE: they are for this moment, in which */
	int64		drawn;			/* so many were drawn */
	int64		last;			/* handed out last here */
	bool		has_last;
} SequenceEntry;

static HTAB *sequences = NULL;
static uint64 invalidations = 0;	/* so far; tells whether one came meanwhile */

/* the sequence that handed out a value last; InvalidOid: none, or one of core's */
static Oid	last_sequence = InvalidOid;

/* Relcache callback. */
static void
invalidate(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS scan;
	SequenceEntry *entry;

	invalidations++;
	if (sequences == NULL)
		return;
	hash_seq_init(&scan, sequences);
	while ((entry = hash_seq_search(&scan)) != NULL)
		if (relid == InvalidOid || relid == entry->seqid || relid == entry->relid)
			entry->resolved = false;
}

static MosqlSession *
session_of(const SequenceEntry *entry)
{
	return OidIsValid(entry->relid) ? mosql_fdw_session_for(entry->relid, InvalidOid)
		: mosql_fdw_session(entry->serverid, InvalidOid);
}

static SequenceEntry *
entry_of(Oid seqid)
{
	SequenceEntry *entry;
	bool		found;

	if (sequences == NULL)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(SequenceEntry);
		sequences = hash_create("mosql_fdw sequences", 32, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(sequences, &seqid, HASH_ENTER, &found);
	if (!found)
		memset((char *) entry + sizeof(Oid), 0, sizeof(SequenceEntry) - sizeof(Oid));
	return entry;
}

/* The column of a table of ours that owns a sequence. */
bool
mosql_fdw_sequence_owner(Oid seqid, Oid *relid, AttrNumber *attnum, bool *identity)
{
	int32		column;

	*identity = sequenceIsOwned(seqid, DEPENDENCY_INTERNAL, relid, &column);
	if (!*identity && !sequenceIsOwned(seqid, DEPENDENCY_AUTO, relid, &column))
		return false;
	*attnum = (AttrNumber) column;
	return mosql_fdw_is_ours(*relid);
}

/* ---- sequences that no column of ours owns ---- */

/* The first object of a class that this one depends on (or, backward, that depends on
 * it) and is wanted; InvalidOid if none. */
static Oid
find_dependency(Oid of_class, Oid of, bool backward, Oid class, Oid (*server_of) (Oid object))
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	Oid			found = InvalidOid;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], backward ? Anum_pg_depend_refclassid : Anum_pg_depend_classid,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(of_class));
	ScanKeyInit(&keys[1], backward ? Anum_pg_depend_refobjid : Anum_pg_depend_objid,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(of));
	scan = systable_beginscan(catalog, backward ? DependReferenceIndexId : DependDependerIndexId,
							  true, NULL, 2, keys);
	while (!OidIsValid(found) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if ((backward ? form->classid : form->refclassid) == class)
			found = server_of(backward ? form->objid : form->refobjid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

static Oid
server_if_ours(Oid serverid)
{
	return mosql_fdw_is_our_server(serverid) ? serverid : InvalidOid;
}

static Oid
server_of_table(Oid relid)
{
	return OidIsValid(relid) && mosql_fdw_is_ours(relid)
		? GetForeignTable(relid)->serverid : InvalidOid;
}

static Oid
server_of_default(Oid attrdef)
{
	return server_of_table(GetAttrDefaultColumnAddress(attrdef).objectId);
}

/* A domain with a default. */
static Oid
server_of_domain(Oid domain)
{
	return find_dependency(TypeRelationId, domain, true, RelationRelationId, server_of_table);
}

Oid
mosql_fdw_shared_on(Oid seqid)
{
	return find_dependency(RelationRelationId, seqid, false, ForeignServerRelationId, server_if_ours);
}

void
mosql_fdw_note_shared(Oid seqid, Oid serverid)
{
	ObjectAddress sequence;
	ObjectAddress server;

	(void) deleteDependencyRecordsForClass(RelationRelationId, seqid, ForeignServerRelationId,
										   DEPENDENCY_NORMAL);
	if (OidIsValid(serverid))
	{
		ObjectAddressSet(sequence, RelationRelationId, seqid);
		ObjectAddressSet(server, ForeignServerRelationId, serverid);
		recordDependencyOn(&sequence, &server, DEPENDENCY_NORMAL);
	}
	CacheInvalidateRelcacheByRelid(seqid);
	CommandCounterIncrement();
}

List *
mosql_fdw_shared_sequences(Oid serverid)
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	List	   *found = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ForeignServerRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(serverid));
	scan = systable_beginscan(catalog, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == RelationRelationId &&
			get_rel_relkind(form->objid) == RELKIND_SEQUENCE)
			found = lappend_oid(found, form->objid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* The server that an unowned sequence is drawn from; InvalidOid: it is core's, or no sequence. */
static Oid
server_of_sequence(Oid seqid)
{
	Oid			serverid = get_rel_relkind(seqid) == RELKIND_SEQUENCE ? mosql_fdw_shared_on(seqid) : InvalidOid;

	if (OidIsValid(serverid) || get_rel_persistence(seqid) == RELPERSISTENCE_TEMP)
		return serverid;
	serverid = find_dependency(RelationRelationId, seqid, true, AttrDefaultRelationId, server_of_default);
	if (!OidIsValid(serverid))
		serverid = find_dependency(RelationRelationId, seqid, true, TypeRelationId, server_of_domain);
	return serverid;
}

Oid
mosql_fdw_sequence_server(Oid seqid)
{
	Oid			relid;
	AttrNumber	attnum;
	bool		identity;

	if (mosql_fdw_sequence_owner(seqid, &relid, &attnum, &identity))
		return GetForeignTable(relid)->serverid;
	return server_of_sequence(seqid);
}

bool
mosql_fdw_is_shared(Oid seqid)
{
	return OidIsValid(mosql_fdw_sequence_server(seqid));
}

/* What is known now; blocks of another one are worth nothing. */
static void
set_sequence(SequenceEntry *entry, const MosqlSequence *there)
{
	if (memcmp(there, &entry->sequence, sizeof(MosqlSequence)) != 0)
	{
		entry->left = 0;
		entry->seen.known = false;
		entry->sequence = *there;
	}
}

static void
forget_row(SequenceEntry *entry)
{
	if (entry->row.data != NULL)
	{
		pfree((char *) entry->row.data);
		pfree((char *) entry->key.data);
	}
	entry->row = entry->key = MOSQL_ABSENT;
}

/* False if there is none of that name; 42P01 if it was dropped here meanwhile: nobody has locked it. */
static bool
read_row(SequenceEntry *entry, MosqlSession *session)
{
	const char *schema_name = get_namespace_name(get_rel_namespace(entry->seqid));
	const char *name = get_rel_name(entry->seqid);
	uint64		schema = mosql_session_schema_read(session);	/* before: it is not newer than the row */
	MosqlNamedSequence *there;

	if (schema_name == NULL || name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", entry->seqid)));
	there = mosql_named_sequence(session, schema_name, name);
	forget_row(entry);
	if (there == NULL)
		return false;
	set_sequence(entry, &there->sequence);
	entry->key = mosql_bytes_copy(TopMemoryContext, mosql_named_sequence_key(there));
	entry->row = mosql_bytes_copy(TopMemoryContext, there->bytes);
	entry->session = session;
	entry->schema = schema;
	return true;
}

/*
 * The sequence as the catalog in Redis has it under its name.  False if that has none:
 * another server dropped it.
 */
static bool
look_up_named(SequenceEntry *entry, MosqlSession *session)
{
	(void) mosql_txn_current(session);	/* after a failed transaction it asks for the version */
	if (entry->row.data == NULL || entry->session != session ||
		entry->schema != mosql_session_schema_read(session))
		if (!read_row(entry, session))
			return false;
	mosql_named_sequence_use(session, entry->key, entry->row);
	entry->checked_in = mosql_fdw_this_transaction();
	return true;
}

/* ---- looking up ---- */

/*
 * The sequence as the table's definition has it.  Once per transaction is enough:
 * whoever changes it meanwhile makes this transaction's commit look again.  False
 * if that has none.
 */
static bool
look_up_owned(SequenceEntry *entry, MosqlSession *session)
{
	Relation	rel = relation_open(entry->relid, AccessShareLock);
	MosqlTable *table = mosql_table_open(rel, session);
	const MosqlSequence *there = &table->columns[entry->attnum - 1].sequence;
	bool		found = there->counter != 0;

	set_sequence(entry, there);
	if (found)
		entry->checked_in = mosql_fdw_this_transaction();
	relation_close(rel, NoLock);
	return found;
}

/* While the command runs that makes it, a sequence is not in Redis yet. */
static bool
is_new(Oid seqid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(seqid));
	bool		new;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", seqid);
	new = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	ReleaseSysCache(tuple);
	return new;
}

static void
report_gone(const SequenceEntry *entry)
{
	const char *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(entry->seqid)),
												  get_rel_name(entry->seqid));

	if (OidIsValid(entry->relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("sequence %s is not in Redis", name),
				 errdetail("Another server took it from the column of foreign table \"%s\" that owns it here.",
						   get_rel_name(entry->relid)),
				 errhint("SELECT mosql_fdw_refresh('%s') makes the table here the same.",
						 quote_qualified_identifier(get_namespace_name(get_rel_namespace(entry->relid)),
													get_rel_name(entry->relid)))));
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("sequence %s is not in Redis", name),
			 errdetail("Another server dropped it, or gave it to a column."),
			 errhint("ALTER SEQUENCE %s RESTART WITH a value that was not used yet makes it again; OWNED BY follows what another server did.",
					 name)));
}

/*
 * The entry of a sequence, with what it is at present.  False if it is none of
 * ours; 42P01 if it is, and Redis does not have it.
 */
static bool
resolve(Oid seqid, SequenceEntry **entry, MosqlSession **session)
{
	SequenceEntry *e = entry_of(seqid);

	*entry = e;
	*session = NULL;
	if (!e->resolved)
	{
		uint64		before = invalidations;

		forget_row(e);
		e->checked_in = InvalidLocalTransactionId;
		e->serverid = InvalidOid;
		if (!mosql_fdw_sequence_owner(seqid, &e->relid, &e->attnum, &e->identity))
		{
			e->relid = InvalidOid;
			e->serverid = server_of_sequence(seqid);
		}
		e->resolved = before == invalidations;
	}
	if (!OidIsValid(e->relid) && !OidIsValid(e->serverid))
		return false;
	if (e->checked_in == mosql_fdw_this_transaction())
		return true;
	*session = session_of(e);
	if (OidIsValid(e->relid) ? look_up_owned(e, *session) || look_up_named(e, *session)
		: look_up_named(e, *session))
		return true;
	if (!is_new(seqid))
		report_gone(e);
	return false;
}

/* 42501 unless the user has one of these privileges. */
static void
check_privileges(const SequenceEntry *entry, AclMode mode)
{
	if (pg_class_aclcheck(entry->seqid, GetUserId(), mode) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for sequence %s", get_rel_name(entry->seqid))));
}

/* ---- drawing ahead ---- */

/* The query that runs: what makes its rows, of which so many are asked for, 0: all. */
typedef struct Running
{
	Moment		moment;
	const Plan *plan;
	uint64		count;
	bool		certain;		/* VALUES, all of whose rows draw what they draw before anything else is done */
	Oid			counted;		/* a sequence from which */
	int			draws;			/* so many of these draw */
} Running;

static Running running;

static Moment
this_moment(void)
{
	return (Moment) {
		GetCurrentStatementStartTimestamp(), mosql_fdw_this_transaction(), GetCurrentSubTransactionId(), turns,
		mosql_stats.waits + mosql_stats.lock_waits
	};
}

static bool
is_now(const Moment *moment)
{
	Moment		now = this_moment();

	return moment->message == now.message && moment->transaction == now.transaction &&
		moment->sub == now.sub && moment->turns == now.turns && moment->waits == now.waits;
}

void
mosql_sequences_before_run(const QueryDesc *query, uint64 count)
{
	const Plan *plan = query->plannedstmt->planTree;
	const ModifyTableState *modify = NULL;
	bool		certain;

	if (IsA(plan, ModifyTable))
	{
		plan = outerPlan(plan);
		modify = castNode(ModifyTableState, query->planstate);
	}
	certain = count == 0 && IsA(plan, ValuesScan) && plan->qual == NIL &&
		(modify == NULL || modify->resultRelInfo->ri_TrigDesc == NULL ||
		 !modify->resultRelInfo->ri_TrigDesc->trig_insert_before_row);
	turns++;
	running = (Running) {this_moment(), plan, count, certain};
}

void
mosql_sequences_take_turn(void)
{
	turns++;
}

/* Does an expression draw from this sequence, which it has as a constant? */
static bool
draws_from(Node *node, Oid *seqid)
{
	if (node == NULL)
		return false;
	if (IsA(node, NextValueExpr))
		return ((NextValueExpr *) node)->seqid == *seqid;
	if (IsA(node, Const))
		return ((Const *) node)->consttype == REGCLASSOID && !((Const *) node)->constisnull &&
			DatumGetObjectId(((Const *) node)->constvalue) == *seqid;
	return expression_tree_walker(node, draws_from, seqid);
}

/* Rows of VALUES that draw: not those that name their numbers. */
static int
values_that_draw(const ValuesScan *values, Oid seqid)
{
	ListCell   *cell;

	if (running.counted == seqid)
		return running.draws;
	running.counted = seqid;
	running.draws = draws_from((Node *) values->scan.plan.targetlist, &seqid) ? list_length(values->values_lists) : 0;
	if (running.draws == 0)
		foreach(cell, values->values_lists)
			running.draws += draws_from(lfirst(cell), &seqid) ? 1 : 0;
	return running.draws;
}

/*
 * How many to draw, after this moment has used all that it drew: what VALUES need; else a
 * quarter of that, unless the plan expects fewer.  So few rows leave no gap.
 */
static int64
values_ahead(const SequenceEntry *entry)
{
	int64		n = entry->drawn / 4;
	double		rows;

	if (is_now(&running.moment))
	{
		rows = running.certain ? values_that_draw((const ValuesScan *) running.plan, entry->seqid) : running.plan->plan_rows;
		if (running.count > 0)
			rows = Min(rows, (double) running.count);
		rows -= (double) entry->drawn;
		if (rows > 0)
			n = (int64) Min(rows, running.certain ? MOSQL_SEQUENCE_AHEAD_MAX : (double) n);
	}
	return Max(1, Min(n, MOSQL_SEQUENCE_AHEAD_MAX));
}

/* Make sure that there is a value left to be handed out. */
static void
provide(SequenceEntry *entry, MosqlSession *session)
{
	int64		block = Max(entry->sequence.cache, mosql_fdw_sequence_block);

	if (block == 1 && !is_now(&entry->moment))
	{
		entry->moment = this_moment();
		entry->left = entry->drawn = 0;
	}
	if (entry->left > 0)
		return;
	if (session == NULL)
		session = session_of(entry);
	entry->left = mosql_sequence_draw(session, &entry->sequence, get_rel_name(entry->seqid),
									  block > 1 ? block : values_ahead(entry),
									  &entry->seen, &entry->next);
	entry->drawn += entry->left;
}

/* ---- what the functions do ---- */

bool
mosql_fdw_sequence_next(Oid seqid, bool identity, int64 *value)
{
	SequenceEntry *entry;
	MosqlSession *session;

	if (!resolve(seqid, &entry, &session))
	{
		last_sequence = InvalidOid;
		return false;
	}
	if (!(identity && entry->identity))
		check_privileges(entry, ACL_USAGE | ACL_UPDATE);
	PreventCommandIfReadOnly("nextval()");
	PreventCommandIfParallelMode("nextval()");
	provide(entry, session);
	*value = entry->next;
	if (--entry->left > 0)
		entry->next += entry->sequence.increment;
	entry->last = *value;
	entry->has_last = true;
	last_sequence = seqid;
	return true;
}

/* any: whatever the user's privileges. */
static bool
read_state(Oid seqid, bool any, MosqlSequenceState *state)
{
	SequenceEntry *entry;
	MosqlSession *session;

	if (!resolve(seqid, &entry, &session))
		return false;
	if (!any)
		check_privileges(entry, ACL_SELECT | ACL_USAGE);
	if (session == NULL)
		session = session_of(entry);
	*state = mosql_sequence_read(session, &entry->sequence, get_rel_name(seqid));
	return true;
}

bool
mosql_fdw_sequence_state(Oid seqid, MosqlSequenceState *state)
{
	return read_state(seqid, false, state);
}

bool
mosql_fdw_sequence_stands(Oid seqid, MosqlSequenceState *state)
{
	return read_state(seqid, true, state);
}

/* What is left of blocks is drawn from still: clients of a pool would leave gaps each. */
void
mosql_fdw_sequences_discard(void)
{
	HASH_SEQ_STATUS scan;
	SequenceEntry *entry;

	last_sequence = InvalidOid;
	if (sequences == NULL)
		return;
	hash_seq_init(&scan, sequences);
	while ((entry = hash_seq_search(&scan)) != NULL)
		entry->has_last = false;
}

bool
mosql_fdw_sequence_current(Oid seqid, int64 *value)
{
	SequenceEntry *entry;
	MosqlSession *session;

	if (!resolve(seqid, &entry, &session))
		return false;
	check_privileges(entry, ACL_SELECT | ACL_USAGE);
	if (!entry->has_last)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("currval of sequence \"%s\" is not yet defined in this session",
						get_rel_name(seqid))));
	*value = entry->last;
	return true;
}

bool
mosql_fdw_sequence_last(int64 *value)
{
	SequenceEntry *entry;

	if (!OidIsValid(last_sequence) || get_rel_relkind(last_sequence) != RELKIND_SEQUENCE)
		return false;
	entry = entry_of(last_sequence);
	check_privileges(entry, ACL_SELECT | ACL_USAGE);
	*value = entry->last;
	return true;
}

bool
mosql_fdw_sequence_set(Oid seqid, MosqlSequenceState state, bool forward)
{
	SequenceEntry *entry;
	MosqlSession *session;

	if (!resolve(seqid, &entry, &session))
		return false;
	check_privileges(entry, ACL_UPDATE);
	PreventCommandIfReadOnly("setval()");
	PreventCommandIfParallelMode("setval()");
	if (session == NULL)
		session = session_of(entry);
	if (!mosql_sequence_set(session, &entry->sequence, get_rel_name(seqid), state, forward))
	{
		ereport(NOTICE,
				(errmsg("sequence \"%s\" is not set back", get_rel_name(seqid)),
				 errdetail("Other servers draw from it, too."),
				 errhint("To set it back nevertheless, use mosql_fdw_setval() or ALTER SEQUENCE ... RESTART.")));
		return true;
	}
	entry->left = 0;
	entry->seen.known = false;
	if (state.called)
	{
		entry->last = state.value;
		entry->has_last = true;
	}
	return true;
}

/* ---- identity columns, and defaults of domains ---- */

Oid
mosql_fdw_function(const char *name, int nargs, const Oid *args)
{
	ForeignDataWrapper *wrapper = GetForeignDataWrapperByName("mosql_fdw", true);
	char	   *schema;

	if (wrapper == NULL || !OidIsValid(wrapper->fdwhandler))
		return InvalidOid;
	schema = get_namespace_name(get_func_namespace(wrapper->fdwhandler));
	return LookupFuncName(list_make2(makeString(schema), makeString(pstrdup(name))), nargs, args,
						  true);
}

Oid
mosql_fdw_nextval_function(void)
{
	Oid			args[] = {REGCLASSOID};
	Oid			function = mosql_fdw_function("mosql_fdw_nextval", 1, args);

	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function mosql_fdw_nextval(regclass) does not exist"),
				 errhint("Update the extension mosql_fdw.")));
	return function;
}

static bool
is_in_redis(Oid seqid)
{
	SequenceEntry *entry;
	MosqlSession *session;

	return resolve(seqid, &entry, &session);
}

/*
 * An INSERT needs no privileges on the sequence of an identity column, a call does.  So
 * ours of an identity column have a mark that no call in a query can have.
 */
bool
mosql_fdw_is_identity_call(const Node *call)
{
	return call != NULL && IsA(call, FuncExpr) &&
		((const FuncExpr *) call)->funcformat == COERCE_SQL_SYNTAX;
}

/* Core's expression of an identity column, with core's check of the range. */
static Node *
identity_call(const NextValueExpr *next)
{
	Const	   *seqid = makeConst(REGCLASSOID, -1, InvalidOid, sizeof(Oid),
								  ObjectIdGetDatum(next->seqid), false, true);
	Expr	   *call = (Expr *) makeFuncExpr(mosql_fdw_nextval_function(), INT8OID,
											 list_make1(seqid), InvalidOid, InvalidOid,
											 COERCE_SQL_SYNTAX);

	if (next->typeId == INT8OID)
		return (Node *) call;
	return (Node *) makeFuncExpr(next->typeId == INT4OID ? F_INT4_INT8 : F_INT2_INT8,
								 next->typeId, list_make1(call), InvalidOid, InvalidOid,
								 COERCE_IMPLICIT_CAST);
}

/* Is it a call of core's nextval() for a sequence of ours, or one that is not known yet? */
static bool
is_call_of_ours(const Node *node)
{
	const Const *seqid;

	if (!IsA(node, FuncExpr) || ((const FuncExpr *) node)->funcid != F_NEXTVAL)
		return false;
	seqid = linitial(((const FuncExpr *) node)->args);
	return !IsA(seqid, Const) ||
		(!seqid->constisnull && mosql_fdw_is_shared(DatumGetObjectId(seqid->constvalue)));
}

/* context: bool, set if anything is exchanged. */
static Node *
share_calls(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, NextValueExpr) && is_in_redis(((NextValueExpr *) node)->seqid))
	{
		*(bool *) context = true;
		return identity_call((NextValueExpr *) node);
	}
	node = expression_tree_mutator(node, share_calls, context);
	if (is_call_of_ours(node))
	{
		*(bool *) context = true;
		((FuncExpr *) node)->funcid = mosql_fdw_nextval_function();
	}
	return node;
}

/* mosql_table_share_hook */
static Node *
share_expression(Node *expr)
{
	bool		shared = false;

	return share_calls(expr, &shared);
}

/*
 * The expression stands in a target list, or in a list of VALUES; the planner may
 * push a target list down into the parts of an Append.
 */
void
mosql_fdw_share_plan(Plan *plan)
{
	bool		shared = false;
	List	   *parts = NIL;
	ListCell   *cell;

	if (plan == NULL)
		return;
	check_stack_depth();
	plan->targetlist = (List *) share_calls((Node *) plan->targetlist, &shared);
	if (IsA(plan, ValuesScan))
		((ValuesScan *) plan)->values_lists =
			(List *) share_calls((Node *) ((ValuesScan *) plan)->values_lists, &shared);
	else if (IsA(plan, Append))
		parts = ((Append *) plan)->appendplans;
	else if (IsA(plan, MergeAppend))
		parts = ((MergeAppend *) plan)->mergeplans;
	else if (IsA(plan, CustomScan))
		parts = ((CustomScan *) plan)->custom_plans;
	else if (IsA(plan, SubqueryScan))
		mosql_fdw_share_plan(((SubqueryScan *) plan)->subplan);
	foreach(cell, parts)
		mosql_fdw_share_plan(lfirst(cell));
	mosql_fdw_share_plan(plan->lefttree);
	mosql_fdw_share_plan(plan->righttree);
}

/* The COPY that runs; NULL inside functions, where it is no portal's statement. */
static CopyStmt *
running_copy(void)
{
	PlannedStmt *statement;

	if (ActivePortal == NULL || list_length(ActivePortal->stmts) != 1)
		return NULL;
	statement = linitial_node(PlannedStmt, ActivePortal->stmts);
	return statement->utilityStmt != NULL && IsA(statement->utilityStmt, CopyStmt)
		? (CopyStmt *) statement->utilityStmt : NULL;
}

static bool
is_listed(const List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
		if (strcmp(strVal(lfirst(cell)), name) == 0)
			return true;
	return names == NIL;
}

/* COPY ... (DEFAULT '...'), PostgreSQL 16: a listed column may ask for its default. */
static bool
has_default_marker(const CopyStmt *copy)
{
	ListCell   *cell;

	foreach(cell, copy->options)
		if (strcmp(((DefElem *) lfirst(cell))->defname, "default") == 0)
			return true;
	return false;
}

/* A column whose values core draws from the wrong place: does the running COPY leave it out? */
static bool
is_left_out(Relation rel, const char *column)
{
	CopyStmt   *copy = running_copy();

	if (copy == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot COPY into foreign table \"%s\" from within a function",
						RelationGetRelationName(rel)),
				 errdetail("Values of its column \"%s\" come from Redis.", column),
				 errhint("Use INSERT ... SELECT, or run COPY as a statement of its own.")));
	if (!is_listed(copy->attlist, column))
		return true;
	if (has_default_marker(copy))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot COPY into foreign table \"%s\" with option DEFAULT",
						RelationGetRelationName(rel)),
				 errdetail("Values of its column \"%s\" come from Redis.", column),
				 errhint("Leave the column out of the column list.")));
	return false;
}

/*
 * The default that core evaluates, if it draws from the wrong place: that of an identity
 * column, or of a domain.  In a default of the column's own the catalog has our function.
 */
static Node *
misled_default(Relation rel, Form_pg_attribute att)
{
	bool		shared = false;
	Node	   *expr;

	if (att->attisdropped || att->attgenerated || (att->atthasdef && att->attidentity == '\0'))
		return NULL;
	expr = share_calls(build_column_default(rel, att->attnum), &shared);
	return shared ? expr : NULL;
}

int
mosql_fdw_copy_defaults(Relation rel, MosqlCopyDefault **defaults)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			n = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Node	   *expr = misled_default(rel, att);

		if (expr == NULL || !is_left_out(rel, NameStr(att->attname)))
			continue;
		if (n == 0)
			*defaults = palloc(desc->natts * sizeof(MosqlCopyDefault));
		(*defaults)[n++] = (MosqlCopyDefault)
		{
			att->attnum, ExecInitExpr(expression_planner((Expr *) expr), NULL)
		};
	}
	return n;
}

void
mosql_fdw_fill_defaults(TupleTableSlot *slot, EState *estate, int n,
						const MosqlCopyDefault *defaults)
{
	slot_getallattrs(slot);
	for (int i = 0; i < n; i++)
	{
		int			att = defaults[i].attnum - 1;

		slot->tts_values[att] = ExecEvalExprSwitchContext(defaults[i].value,
														  GetPerTupleExprContext(estate),
														  &slot->tts_isnull[att]);
	}
}

void
mosql_fdw_init_sequences(void)
{
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	mosql_table_share_hook = share_expression;
}
