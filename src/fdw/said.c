/*
 * said.c: what a foreign table's options say, for every statement.
 *
 * Layer: fdw.  GetForeignTable() and GetForeignServer() make a list of all options at each call, of
 * which a statement asks for three things, for each table several times.  They are kept until a
 * foreign table or a server changes; nothing here points to an option's text.
 */
#include "postgres.h"

#include "fdw/fdw_int.h"

#include "foreign/foreign.h"
#include "table/definition.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"

typedef struct Said
{
	Oid			relid;			/* key */
	Oid			serverid;
	bool		updatable;
	bool		says_locking;
	MosqlLocking locking;		/* if says_locking */
} Said;

static HTAB *all_said;			/* NULL: nothing is kept */
static bool said_stale;

static void
forget_said(Datum arg, int cacheid, uint32 hash)
{
	said_stale = true;
}

static void
begin_said(void)
{
	static bool listening = false;
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Said)};

	if (all_said != NULL)
		hash_destroy(all_said);
	all_said = NULL;
	all_said = hash_create("mosql_fdw options of tables", 32, &ctl, HASH_ELEM | HASH_BLOBS);
	said_stale = false;
	if (listening)
		return;
	CacheRegisterSyscacheCallback(FOREIGNTABLEREL, forget_said, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, forget_said, (Datum) 0);
	listening = true;
}

static Said
read_said(Oid relid)
{
	const MosqlFdwOptions *options = mosql_fdw_options(relid, InvalidOid, InvalidOid);
	const char *locking = mosql_table_or_server_option(relid, "locking");
	Said		said = {.relid = relid,.serverid = GetForeignTable(relid)->serverid,.updatable = options->updatable};

	said.says_locking = locking != NULL;
	if (said.says_locking)
		said.locking = strcmp(locking, "pessimistic") == 0 ? MOSQL_PESSIMISTIC : MOSQL_OPTIMISTIC;
	return said;
}

/*
 * Race -- the catalogs are read, and change: what is told meanwhile makes all that is kept stale, so
 * the entry is for this call alone.
 */
static Said
said_of(Oid relid)
{
	Said	   *found = NULL;
	Said		said;

	if (all_said == NULL || said_stale)
		begin_said();
	found = hash_search(all_said, &relid, HASH_FIND, NULL);
	if (found != NULL)
		return *found;
	said = read_said(relid);
	*(Said *) hash_search(all_said, &relid, HASH_ENTER, NULL) = said;
	return said;
}

Oid
mosql_fdw_server_of(Oid relid)
{
	return said_of(relid).serverid;
}

bool
mosql_fdw_is_updatable(Oid relid)
{
	return said_of(relid).updatable;
}

MosqlLocking
mosql_fdw_locking(Oid relid)
{
	Said		said = said_of(relid);

	return said.says_locking ? said.locking : (MosqlLocking) mosql_txn_locking;
}
