/*
 * reference.c: what is to be checked of foreign keys, and when.
 *
 * Layer: fdw.  Core's foreign keys are row triggers.  Ours are not, for three
 * reasons: row triggers on a parent would end its late-bound updates (core plans none
 * then), core keeps a copy of each row for them, and on foreign tables it refuses
 * deferred ones.  So a statement's own writes are noted here, as keys:
 *
 *   children  that lead to a parent: looked up in batches, as rows are written.
 *             Those that are there are done with: commit certifies that they stay
 *             (mosql_txn_refer).  The others wait.
 *   parents   that went: all wait.
 *
 * At the statement's end, which an executor hook sees, actions are carried out, and
 * what waits is checked, or deferred (reference_check.c).  An action is a statement, too, but a part of
 * the one that it is for: what it has to check, and its own actions, become that one's, so that a cascade
 * takes no stack, however long it is; and its AFTER triggers are those of that one (reference_action.c).
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "fdw/reference.h"

/* Parents that are looked up together. */
#define LOOKUP_BATCH	1000

/* A list of keys that grows. */
typedef struct Keys
{
	int			n;
	int			max;
	MosqlBytes *keys;
	Datum	  **values;			/* ON UPDATE and ON DELETE actions: what they are, */
	Datum	  **new_values;		/* and became; else NULL */
} Keys;

/* One foreign key of a target, seen from one side. */
typedef struct Side
{
	MosqlReference *reference;
	bool		is_parent;
	bool		in_key;			/* children: their key has all columns of the foreign key */
	Keys		fresh;			/* children: to be looked up */
	MemoryContext fresh_cxt;
	Keys		waiting[2];		/* parents: by deletes, by updates; children: [0] */
	Keys		due[2];			/* parents of this round */
	Keys		acted[2];		/* parents whose children were changed, and are to be none */
} Side;

/* A foreign key that the definition in Redis has, and this server has not. */
typedef struct Unknown
{
	const char *name;
	const char *schema;			/* the other table */
	const char *table;
	bool		is_parent;
	int			n;
	AttrNumber	columns[INDEX_MAX_KEYS];	/* of the target */
} Unknown;

typedef struct MosqlReferences
{
	struct Statement *statement;
	MosqlModifyState *modify;
	int			nsides;
	Side	   *sides;
	int			nunknown;
	Unknown    *unknown;
} MosqlReferences;

/* A running statement, known by its executor state. */
typedef struct Statement
{
	dlist_node	node;			/* in statements */
	EState	   *estate;
	MemoryContext cxt;			/* the query's; of an action that of the statement which it is for */
	List	   *targets;		/* MosqlReferences */
	List	   *inherited;		/* Side: what its actions have left to it */
	List	   *opened;			/* MosqlReference: that they have opened */
	MemoryContextCallback forget;
} Statement;

static dlist_head statements = DLIST_STATIC_INIT(statements);

/* The statement whose actions are carried out; NULL: none's. */
static Statement *acting = NULL;

static ExecutorFinish_hook_type next_executor_finish = NULL;

/* ---- keys ---- */

/* Room for one more; in the current context.  values: has it such? */
static int
add_place(Keys *keys, bool values)
{
	if (keys->n == keys->max)
	{
		int			max = Max(16, keys->max * 2);

		if (keys->keys == NULL)
		{
			keys->keys = palloc(max * sizeof(MosqlBytes));
			keys->values = values ? palloc(max * sizeof(Datum *)) : NULL;
			keys->new_values = values ? palloc(max * sizeof(Datum *)) : NULL;
		}
		else
		{
			keys->keys = repalloc_huge(keys->keys, max * sizeof(MosqlBytes));
			if (values)
			{
				keys->values = repalloc_huge(keys->values, max * sizeof(Datum *));
				keys->new_values = repalloc_huge(keys->new_values, max * sizeof(Datum *));
			}
		}
		keys->max = max;
	}
	return keys->n++;
}

static void
add_key(Keys *keys, MosqlBytes key)
{
	int			i = add_place(keys, false);

	keys->keys[i] = mosql_bytes_copy(CurrentMemoryContext, key);
}

/* ---- what a target has to do with foreign keys ---- */

static void
forget_statement(void *arg)
{
	dlist_delete(&((Statement *) arg)->node);
}

static Statement *
find_statement(EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &statements)
	{
		Statement  *statement = dlist_container(Statement, node, iter.cur);

		if (statement->estate == estate)
			return statement;
	}
	return NULL;
}

/* Is it an action of `acting`, which fires the triggers in its place? */
static bool
is_action(const EState *estate)
{
	return acting != NULL && (estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0;
}

static Statement *
statement_of(EState *estate)
{
	Statement  *statement = find_statement(estate);

	if (statement != NULL)
		return statement;
	statement = MemoryContextAllocZero(estate->es_query_cxt, sizeof(Statement));
	statement->estate = estate;
	statement->cxt = is_action(estate) ? acting->cxt : estate->es_query_cxt;
	statement->forget.func = forget_statement;
	statement->forget.arg = statement;
	dlist_push_head(&statements, &statement->node);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &statement->forget);
	return statement;
}

/*
 * Where that is so, a child's key says which parent it has, and children that are stored have one.  Not what is
 * deferred, or not validated here, or compared by converting values: such children may be written,
 * and locked, before their parents.
 */
static bool
is_in_key(const MosqlReference *reference)
{
	const MosqlForeignKey *key = &reference->key;

	for (int i = 0; i < key->n; i++)
		if (reference->child->columns[key->columns[i] - 1].key_position < 0)
			return false;
	return key->validated && !key->deferrable && key->child != key->parent && reference->index == NULL &&
		reference->alike;
}

static void
add_side(MosqlReferences *references, MosqlReference *reference, bool is_parent)
{
	Side	   *side = &references->sides[references->nsides++];

	side->reference = reference;
	side->is_parent = is_parent;
	side->in_key = !is_parent && is_in_key(reference);
	if (!is_parent)
		side->fresh_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql referenced keys",
												ALLOCSET_DEFAULT_SIZES);
}

/* ---- foreign keys that only other servers know ---- */

static bool
is_known_child(const List *keys, Oid relid, const char *name)
{
	const ListCell *lc;

	foreach(lc, keys)
	{
		const MosqlForeignKey *key = lfirst(lc);

		if (key->child == relid && strcmp(NameStr(key->name), name) == 0)
			return true;
	}
	return false;
}

static bool
is_known_parent(const List *keys, Oid relid, const MosqlDefinitionReferrer *referrer)
{
	const ListCell *lc;

	foreach(lc, keys)
	{
		const MosqlForeignKey *key = lfirst(lc);
		const char *schema;
		const char *table;
		Relation	child;

		if (key->parent != relid || strcmp(NameStr(key->name), referrer->name) != 0)
			continue;
		child = table_open(key->child, AccessShareLock);
		mosql_table_remote_name(child, &schema, &table);
		table_close(child, NoLock);
		if (strcmp(schema, referrer->schema) == 0 && strcmp(table, referrer->table) == 0)
			return true;
	}
	return false;
}

static void
add_unknown(MosqlReferences *references, bool is_parent, const char *name, const char *schema,
			const char *table, const uint32 *ids, int n)
{
	const MosqlTable *mine = references->modify->table;
	Unknown    *unknown = &references->unknown[references->nunknown++];

	unknown->name = name;
	unknown->schema = schema;
	unknown->table = table;
	unknown->is_parent = is_parent;
	for (int i = 0; i < n; i++)
		if (ids[i] < (uint32) mine->nids && mine->by_id[ids[i]] >= 0)
			unknown->columns[unknown->n++] = mine->by_id[ids[i]] + 1;
}

/* Is one of the columns, by their ids in Redis, among those that the statement may change? */
static bool
may_change(const MosqlTable *table, const uint32 *ids, int n, const Bitmapset *changed)
{
	for (int i = 0; i < n; i++)
		if (ids[i] < (uint32) table->nids && table->by_id[ids[i]] >= 0 &&
			bms_is_member(table->by_id[ids[i]] + 1 - FirstLowInvalidHeapAttributeNumber, changed))
			return true;
	return changed == NULL;
}

static void
find_unknown(MosqlReferences *references, const List *keys, CmdType operation, const Bitmapset *changed)
{
	const MosqlTable *table = references->modify->table;

	references->unknown = palloc0((table->nreferences + table->nreferrers) * sizeof(Unknown) + 1);
	for (int i = 0; operation != CMD_DELETE && i < table->nreferences; i++)
	{
		const MosqlDefinitionReference *stored = &table->references[i];

		if (!is_known_child(keys, table->relid, stored->name))
			add_unknown(references, false, stored->name, stored->schema, stored->table,
						stored->columns, stored->n);
	}
	for (int i = 0; operation != CMD_INSERT && i < table->nreferrers; i++)
	{
		const MosqlDefinitionReferrer *stored = &table->referrers[i];

		if (may_change(table, stored->columns, stored->n, changed) &&
			!is_known_parent(keys, table->relid, stored))
			add_unknown(references, true, stored->name, stored->schema, stored->table,
						stored->columns, stored->n);
	}
}

static void
report_unknown(const Unknown *unknown, Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 unknown->is_parent
			 ? errmsg("foreign key \"%s\", which leads to table \"%s\", is not known to this server",
					  unknown->name, RelationGetRelationName(rel))
			 : errmsg("foreign key \"%s\" of table \"%s\" is not known to this server",
					  unknown->name, RelationGetRelationName(rel)),
			 unknown->is_parent
			 ? errdetail("Table \"%s.%s\" in Redis has it, so it cannot be enforced here.",
						 unknown->schema, unknown->table)
			 : errdetail("It leads to table \"%s.%s\" in Redis, and cannot be enforced here.",
						 unknown->schema, unknown->table),
			 errhint("Use IMPORT FOREIGN SCHEMA for that table, or mosql_fdw_refresh('%s') if it is here.",
					 RelationGetRelationName(rel))));
}

/* ---- opening ---- */

/* ALTER TABLE ... DISABLE TRIGGER ALL, as pg_restore --disable-triggers says. */
static bool
is_disabled(Relation rel, Oid constraint)
{
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
		if (rel->trigdesc->triggers[i].tgconstraint == constraint &&
			rel->trigdesc->triggers[i].tgenabled == TRIGGER_DISABLED)
			return true;
	return false;
}

static bool
leads_to_changed(const MosqlForeignKey *key, const Bitmapset *changed)
{
	for (int i = 0; i < key->n; i++)
		if (bms_is_member(key->referenced[i] - FirstLowInvalidHeapAttributeNumber, changed))
			return true;
	return changed == NULL;
}

/* Is it among those that the definition in Redis says lead here?  (Its table may be
 * gone there.) */
static bool
leads_here(const MosqlTable *table, const MosqlForeignKey *key)
{
	for (int i = 0; i < table->nreferrers; i++)
		if (strcmp(table->referrers[i].name, NameStr(key->name)) == 0)
			return true;
	return false;
}

/* Actions open a foreign key once for all of the statement that they are for. */
static MosqlReference *
open_reference(const EState *estate, const MosqlForeignKey *key, MosqlSession *session)
{
	MosqlReference *reference;
	MemoryContext old;
	ListCell   *lc;

	if (!is_action(estate))
		return mosql_reference_open(key, session);
	foreach(lc, acting->opened)
		if (((MosqlReference *) lfirst(lc))->key.oid == key->oid)
			return lfirst(lc);
	old = MemoryContextSwitchTo(acting->cxt);
	reference = mosql_reference_open(key, session);
	if (reference != NULL)
		acting->opened = lappend(acting->opened, reference);
	MemoryContextSwitchTo(old);
	return reference;
}

MosqlReferences *
mosql_references_open(MosqlModifyState *modify, EState *estate, CmdType operation, const Bitmapset *changed)
{
	const MosqlTable *table = modify->table;
	Oid			relid = RelationGetRelid(modify->rel);
	List	   *keys;
	MosqlReferences *references;
	ListCell   *lc;

	/* what only this server knows is not in Redis any more */
	if (table->nreferences + table->nreferrers == 0)
		return NULL;
	if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
		return NULL;			/* as core's triggers, these do not fire then */
	keys = mosql_foreign_keys(relid);
	references = palloc0(sizeof(MosqlReferences));
	references->modify = modify;
	references->sides = palloc0(2 * list_length(keys) * sizeof(Side) + 1);
	find_unknown(references, keys, operation, changed);
	foreach(lc, keys)
	{
		const MosqlForeignKey *key = lfirst(lc);
		bool		child = key->child == relid && operation != CMD_DELETE;
		bool		parent = key->parent == relid && operation != CMD_INSERT && leads_to_changed(key, changed);
		MosqlReference *reference;

		if ((!child && !parent) || is_disabled(modify->rel, key->oid))
			continue;
		if (!child && !leads_here(table, key))
			continue;
		reference = open_reference(estate, key, table->session);
		if (child && reference != NULL)
			add_side(references, reference, false);
		if (parent && reference != NULL)
			add_side(references, reference, true);
	}
	if (references->nsides + references->nunknown == 0)
		return NULL;
	references->statement = statement_of(estate);
	references->statement->targets = lappend(references->statement->targets, references);
	return references;
}

/* ---- rows ---- */

/*
 * Look the fresh parents up; the missing ones wait.  Found ones are certified from
 * here on.
 */
static void
look_up(Side *side, MemoryContext cxt)
{
	Keys	   *fresh = &side->fresh;
	MemoryContext old;
	bool	   *found;

	if (fresh->n == 0)
		return;
	old = MemoryContextSwitchTo(side->fresh_cxt);
	fresh->n = mosql_reference_sort_keys(fresh->keys, fresh->n);
	found = palloc(fresh->n * sizeof(bool) + 1);
	mosql_reference_find_parents(side->reference, fresh->keys, fresh->n, found);
	MemoryContextSwitchTo(cxt);
	for (int i = 0; i < fresh->n; i++)
		if (!found[i])
			add_key(&side->waiting[0], fresh->keys[i]);
	MemoryContextSwitchTo(old);
	memset(fresh, 0, sizeof(*fresh));
	MemoryContextReset(side->fresh_cxt);
}

/* So few parents go along with the keys of their children; more are a load's. */
#define ALONG_KEYS	32

/* See exec_int.h. */
void
mosql_references_go_along(MosqlReferences *references)
{
	for (int i = 0; references != NULL && i < references->nsides; i++)
	{
		Side	   *side = &references->sides[i];
		const MosqlReference *reference = side->reference;
		MosqlTree  *tree = reference->target->tree;
		MosqlBytes *keys;
		bool		found;
		int			n = 0;

		if (side->is_parent || !reference->locks || reference->index != NULL || side->fresh.n == 0 ||
			side->fresh.n > ALONG_KEYS)
			continue;
		side->fresh.n = mosql_reference_sort_keys(side->fresh.keys, side->fresh.n);
		keys = palloc(side->fresh.n * sizeof(MosqlBytes));
		for (int k = 0; k < side->fresh.n; k++)
			if (!mosql_txn_is_known(reference->txn, tree, side->fresh.keys[k], &found))
				keys[n++] = side->fresh.keys[k];
		if (n > 0)
			mosql_txn_refer_along(reference->txn, tree, keys, n);
	}
}

static bool
same_values(const AttrNumber *columns, int n, TupleTableSlot *a, TupleTableSlot *b)
{
	for (int i = 0; i < n; i++)
	{
		AttrNumber	attnum = columns[i];
		Form_pg_attribute att = TupleDescAttr(a->tts_tupleDescriptor, attnum - 1);
		bool		a_null;
		bool		b_null;
		Datum		a_value = slot_getattr(a, attnum, &a_null);
		Datum		b_value = slot_getattr(b, attnum, &b_null);

		if (a_null != b_null ||
			(!a_null && !datum_image_eq(a_value, b_value, att->attbyval, att->attlen)))
			return false;
	}
	return true;
}

/*
 * Whoever commits a child commits it with a parent that is there (docs/commit.md, 12a).  This one was not when the
 * transaction locked its key; so there was no child, and as nobody else inserts the parent there will be none.
 */
bool
mosql_references_prove_free(MosqlReferences *references, TupleTableSlot *slot)
{
	for (int i = 0; references != NULL && i < references->nsides; i++)
	{
		MosqlReference *reference = references->sides[i].reference;
		Datum		values[INDEX_MAX_KEYS];
		bool		nulls[INDEX_MAX_KEYS];
		StringInfoData key;

		if (!references->sides[i].in_key)
			continue;
		for (int c = 0; c < reference->key.n; c++)
			values[c] = slot_getattr(slot, reference->key.columns[c], &nulls[c]);
		initStringInfo(&key);
		if (mosql_reference_of_child(reference, values, nulls, &key) == MOSQL_REFERENCE_KEY &&
			mosql_txn_has_inserted(reference->txn, reference->target->tree, mosql_bytes_of(&key)))
			return true;
	}
	return false;
}

static void
note_child(Side *side, TupleTableSlot *old_slot, TupleTableSlot *new_slot, MemoryContext cxt)
{
	MosqlReference *reference = side->reference;
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	StringInfoData key;
	MemoryContext old;

	if (old_slot != NULL &&
		same_values(reference->key.columns, reference->key.n, old_slot, new_slot))
		return;
	for (int i = 0; i < reference->key.n; i++)
		values[i] = slot_getattr(new_slot, reference->key.columns[i], &nulls[i]);
	initStringInfo(&key);
	switch (mosql_reference_of_child(reference, values, nulls, &key))
	{
		case MOSQL_REFERENCE_NONE:
			return;
		case MOSQL_REFERENCE_MIXED:
			mosql_reference_report_mixed(reference);
		case MOSQL_REFERENCE_IMPOSSIBLE:
			mosql_reference_report_child(reference, MOSQL_ABSENT, values);
		case MOSQL_REFERENCE_KEY:
			break;
	}
	if (mosql_txn_knows(reference->txn, reference->target->tree, mosql_bytes_of(&key),
						reference->locks))
		return;
	old = MemoryContextSwitchTo(side->fresh_cxt);
	add_key(&side->fresh, mosql_bytes_of(&key));
	MemoryContextSwitchTo(old);
	if (side->fresh.n >= LOOKUP_BATCH)
		look_up(side, cxt);
}

static char
action_of(const MosqlReference *reference, bool deleted)
{
	return deleted ? reference->key.on_delete : reference->key.on_update;
}

static bool
has_action(const MosqlReference *reference, bool deleted)
{
	char		action = action_of(reference, deleted);

	return action != FKCONSTR_ACTION_NOACTION && action != FKCONSTR_ACTION_RESTRICT;
}

static Datum *
copy_values(MosqlReference *reference, TupleTableSlot *slot)
{
	Datum	   *values = palloc(reference->key.n * sizeof(Datum));

	for (int i = 0; i < reference->key.n; i++)
	{
		AttrNumber	attnum = reference->key.referenced[i];
		Form_pg_attribute att = TupleDescAttr(slot->tts_tupleDescriptor, attnum - 1);
		bool		isnull;
		Datum		value = slot_getattr(slot, attnum, &isnull);

		values[i] = isnull ? (Datum) 0 : datumCopy(value, att->attbyval, att->attlen);
	}
	return values;
}

/*
 * A key that is equal and looks different, as 1.0 and 1.00, is the same parent; but
 * children are to follow it, as in core.
 *
 * A parent whose key became null is, to ON UPDATE CASCADE, one that its children can
 * only follow by nulls: no new values.
 */
static void
note_parent(Side *side, TupleTableSlot *old_slot, TupleTableSlot *new_slot, MemoryContext cxt)
{
	MosqlReference *reference = side->reference;
	Keys	   *waiting = &side->waiting[new_slot == NULL ? 0 : 1];
	bool		acts = has_action(reference, new_slot == NULL);
	bool		has_new;
	StringInfoData key;
	StringInfoData new_key;
	MemoryContext old;
	int			i;

	initStringInfo(&key);
	initStringInfo(&new_key);
	if (!mosql_reference_of_parent(reference, old_slot, &key))
		return;
	has_new = new_slot != NULL && mosql_reference_of_parent(reference, new_slot, &new_key);
	if (has_new && mosql_bytes_equal(mosql_bytes_of(&key), mosql_bytes_of(&new_key)) &&
		(!acts || same_values(reference->key.referenced, reference->key.n, old_slot, new_slot)))
		return;
	old = MemoryContextSwitchTo(cxt);
	i = add_place(waiting, acts);
	waiting->keys[i] = mosql_bytes_copy(cxt, mosql_bytes_of(&key));
	if (acts)
	{
		waiting->values[i] = copy_values(reference, old_slot);
		waiting->new_values[i] = has_new ? copy_values(reference, new_slot) : NULL;
	}
	MemoryContextSwitchTo(old);
}

void
mosql_references_note(MosqlReferences *references, TupleTableSlot *old_slot,
					  TupleTableSlot *new_slot)
{
	MemoryContext cxt;

	if (references == NULL)
		return;
	cxt = references->statement->cxt;
	for (int i = 0; i < references->nunknown; i++)
	{
		const Unknown *unknown = &references->unknown[i];

		if ((unknown->is_parent ? old_slot != NULL : new_slot != NULL) &&
			(old_slot == NULL || new_slot == NULL ||
			 !same_values(unknown->columns, unknown->n, old_slot, new_slot)))
			report_unknown(unknown, references->modify->rel);
	}
	for (int i = 0; i < references->nsides; i++)
	{
		Side	   *side = &references->sides[i];

		if (side->is_parent && old_slot != NULL)
			note_parent(side, old_slot, new_slot, cxt);
		else if (!side->is_parent && new_slot != NULL)
			note_child(side, old_slot, new_slot, cxt);
	}
}

/* ---- the end of a statement ---- */

/* All that is in a list of keys to the end of another one, of the same context. */
static void
move_keys(Keys *to, Keys *from, MemoryContext cxt)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);

	for (int i = 0; i < from->n; i++)
	{
		int			place = add_place(to, from->values != NULL);

		to->keys[place] = from->keys[i];
		if (from->values == NULL)
			continue;
		to->values[place] = from->values[i];
		to->new_values[place] = from->new_values[i];
	}
	memset(from, 0, sizeof(Keys));
	MemoryContextSwitchTo(old);
}

/* Parents that went: change their children, or see that there are none. */
static void
end_parents(Side *side, bool deleted, MemoryContext cxt)
{
	int			i = deleted ? 0 : 1;
	Keys		gone = side->due[i];

	memset(&side->due[i], 0, sizeof(Keys));
	if (gone.n == 0)
		return;
	if (!has_action(side->reference, deleted))
	{
		mosql_reference_check(side->reference, true, action_of(side->reference, deleted), gone.keys, gone.n);
		return;
	}
	mosql_reference_act(side->reference, deleted, gone.values, gone.new_values, gone.n);
	move_keys(&side->acted[i], &gone, cxt);
}

/*
 * By one foreign key after the other, in the order in which they were made, as core does it: RESTRICT finds what
 * a later one's action would change.
 */
static void
end_side(Side *side, Statement *statement)
{
	if (!side->is_parent)
		return;
	end_parents(side, true, statement->cxt);
	end_parents(side, false, statement->cxt);
}

/*
 * What an action left must be nothing: it did not see rows that others have
 * committed since its snapshot, and a trigger may have kept it from a row.
 */
static void
check_acted(Side *side, bool deleted)
{
	const Keys *acted = &side->acted[deleted ? 0 : 1];

	if (acted->n > 0)
		mosql_reference_check(side->reference, true, action_of(side->reference, deleted), acted->keys, acted->n);
}

/* What an action leaves to do meanwhile is for the next round. */
static void
begin_round(Side *side, Statement *statement)
{
	if (!side->is_parent)
		return;
	Assert(side->due[0].n + side->due[1].n == 0);
	memcpy(side->due, side->waiting, sizeof(side->due));
	memset(side->waiting, 0, sizeof(side->waiting));
}

static void
check_side(Side *side, Statement *statement)
{
	Keys	   *waiting = &side->waiting[0];

	if (side->is_parent)
	{
		check_acted(side, true);
		check_acted(side, false);
		memset(side->acted, 0, sizeof(side->acted));
		return;
	}
	look_up(side, statement->cxt);
	mosql_reference_check(side->reference, false, FKCONSTR_ACTION_NOACTION, waiting->keys, waiting->n);
	memset(waiting, 0, sizeof(Keys));
}

static void
each_side(Statement *statement, void (*call) (Side *side, Statement *statement))
{
	ListCell   *lc;

	foreach(lc, statement->targets)
	{
		MosqlReferences *references = lfirst(lc);

		for (int i = 0; i < references->nsides; i++)
			call(&references->sides[i], statement);
	}
	/* actions may add to it */
	for (int i = 0; i < list_length(statement->inherited); i++)
		call(list_nth(statement->inherited, i), statement);
}

static bool
has_parents_waiting(const Statement *statement)
{
	ListCell   *lc;

	foreach(lc, statement->inherited)
	{
		const Side *side = lfirst(lc);

		if (side->is_parent && side->waiting[0].n + side->waiting[1].n > 0)
			return true;
	}
	return false;
}

static void
look_up_keys(const Statement *statement)
{
	ListCell   *lc;

	foreach(lc, statement->targets)
	{
		const MosqlReferences *references = lfirst(lc);

		if (references->modify->checks_keys)
			mosql_exec_lookup_all(references->modify);	/* duplicates are reported first */
	}
}

/* Actions of actions are carried out round by round, in the order in which core would come to them. */
static void
act(Statement *statement)
{
	Statement  *outer = acting;

	acting = statement;
	PG_TRY();
	{
		do
		{
			CHECK_FOR_INTERRUPTS();
			each_side(statement, begin_round);
			each_side(statement, end_side);
		} while (has_parents_waiting(statement));
	}
	PG_FINALLY();
	{
		acting = outer;
	}
	PG_END_TRY();
}

void
mosql_references_end(EState *estate)
{
	Statement  *statement = find_statement(estate);
	MemoryContext cxt;
	MemoryContext old;

	if (statement == NULL)
		return;
	cxt = AllocSetContextCreate(statement->cxt, "mosql reference checks", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	look_up_keys(statement);
	act(statement);
	each_side(statement, check_side);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* The same foreign key, seen from the same side. */
static Side *
inherited_side(Statement *statement, const Side *side)
{
	MemoryContext old;
	Side	   *inherited;
	ListCell   *lc;

	foreach(lc, statement->inherited)
	{
		inherited = lfirst(lc);
		if (inherited->reference == side->reference && inherited->is_parent == side->is_parent)
			return inherited;
	}
	old = MemoryContextSwitchTo(statement->cxt);
	inherited = palloc0(sizeof(Side));
	inherited->reference = side->reference;
	inherited->is_parent = side->is_parent;
	statement->inherited = lappend(statement->inherited, inherited);
	MemoryContextSwitchTo(old);
	return inherited;
}

static void
inherit_side(Side *side, Statement *action)
{
	Side	   *heir;

	if (!side->is_parent)
		look_up(side, action->cxt);
	if (side->waiting[0].n + side->waiting[1].n == 0)
		return;
	heir = inherited_side(acting, side);
	move_keys(&heir->waiting[0], &side->waiting[0], acting->cxt);
	move_keys(&heir->waiting[1], &side->waiting[1], acting->cxt);
}

/* An action is done: what it leaves to do is for the statement that it was for. */
static void
inherit(EState *estate)
{
	Statement  *action = find_statement(estate);

	if (action == NULL)
		return;
	look_up_keys(action);
	each_side(action, inherit_side);
}

/*
 * Parts of the statement that nobody has read to their end (WITH d AS (DELETE ...)), which core runs before it fires
 * triggers.  It finds nothing left to run.
 */
static void
run_rest(EState *estate)
{
	TupleTableSlot *slot;
	ListCell   *lc;

	estate->es_direction = ForwardScanDirection;
	foreach(lc, estate->es_auxmodifytables)
		do
		{
			ResetPerTupleExprContext(estate);
			slot = ExecProcNode(lfirst(lc));
		} while (!TupIsNull(slot));
}

/*
 * Before core fires the AFTER triggers of the statement, as its own foreign keys are
 * mostly checked before other triggers.
 */
static void
executor_finish(QueryDesc *query)
{
	EState	   *estate = query->estate;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	run_rest(estate);			/* a partition is opened with its first row */
	if (estate->es_auxmodifytables == NIL || find_statement(estate) != NULL)
		mosql_exec_before_triggers(estate);
	if (is_action(estate))
		inherit(estate);
	else
		mosql_references_end(estate);
	MemoryContextSwitchTo(old);
	if (next_executor_finish != NULL)
		next_executor_finish(query);
	else
		standard_ExecutorFinish(query);
}

void
mosql_references_init(void)
{
	mosql_foreign_key_init();
	next_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	mosql_reference_check_init();
}
