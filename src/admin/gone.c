/*
 * gone.c: something goes that may not, but together with its table.
 *
 * Layer: admin.  A key column cannot be dropped where there are rows.  But DROP SCHEMA ... CASCADE, and all that
 * drops many things, may reach the column before the table: an identity column's sequence that is newer than the
 * table, as pg_dump makes it, is met first, and takes its column along.  So the column is noted when it goes, with
 * all rows, and refused when the command ends and the table is still there; or before COMMIT, should no event
 * trigger fire (all that was done to the definition waits for that, too).
 *
 * The same with a column, index or foreign key that another server has put another one in the place of: what is
 * in Redis is left alone, and if the table stays the command is refused.
 *
 * A note of a command that was rolled back is void: its subtransaction's end forgets it.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "admin/admin.h"

typedef struct Gone
{
	struct Gone *next;
	SubTransactionId subid;
	Oid			relid;
	char	   *column;			/* of the key; NULL: */
	char	   *difference;		/* between what is here and what is in Redis */
} Gone;

static Gone *gone = NULL;	/* the newest first; in TopTransactionContext */
static MosqlBeforeCommit next_before_commit = NULL;

static void
transaction_ended(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		gone = NULL;
}

/* Those that it began, too, have greater ids. */
static void
subtransaction_ended(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		while (gone != NULL && gone->subid >= subid)
			gone = gone->next;
}

static Gone *
note(Oid relid)
{
	Gone	   *note = palloc0(sizeof(Gone));

	note->next = gone;
	note->subid = GetCurrentSubTransactionId();
	note->relid = relid;
	gone = note;
	return note;
}

void
mosql_admin_note_gone_key(Oid relid, const char *column)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	note(relid)->column = pstrdup(column);
	MemoryContextSwitchTo(old);
}

void
mosql_admin_note_gone_other(Oid relid, const char *difference)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	note(relid)->difference = pstrdup(difference);
	MemoryContextSwitchTo(old);
}

static void
refuse(const Gone *note)
{
	if (note->column == NULL)
		mosql_table_differs(relation_open(note->relid, AccessShareLock), note->difference);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot drop key column \"%s\" of a table that has rows", note->column),
			 errhint("Make it no key column first: ALTER COLUMN ... OPTIONS (DROP key).")));
}

void
mosql_admin_check_gone(void)
{
	for (; gone != NULL; gone = gone->next)
		if (get_rel_relkind(gone->relid) != '\0')
			refuse(gone);
}

static void
before_commit(void)
{
	if (next_before_commit != NULL)
		next_before_commit();
	mosql_admin_check_gone();
}

void
mosql_admin_init_gone(void)
{
	next_before_commit = mosql_txn_before_commit_hook;
	mosql_txn_before_commit_hook = before_commit;
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}
