/*
 * connection.c: which session serves which server and user.
 *
 * Layer: fdw.  A backend keeps one session per server and user mapping; users
 * without a mapping of their own share PUBLIC's, or the one without any, and
 * so share a transaction, too.  Sessions are opened on first use and connect
 * later still, when something is read or written.
 *
 * Changed options.  A change of the server's or the mapping's options marks
 * its sessions stale.  A stale session is replaced only at its first use in a
 * later transaction than the one that used it last: plans and tables of a
 * running statement point into it.
 *
 * Passwords.  As in postgres_fdw, a user who is no superuser may not make the
 * backend present an identity without proving it: a mapping that names a Redis
 * user must have a password, unless a superuser set password_required 'false'.
 * A mapping without user name, or no mapping, claims no identity: then Redis
 * itself decides what an unauthenticated (or `default`) client may do.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "fdw/fdw_int.h"

typedef struct SessionKey
{
	Oid			serverid;
	Oid			mapping;		/* InvalidOid: none */
} SessionKey;

typedef struct SessionEntry
{
	SessionKey	key;			/* hash key, first */
	MosqlSession *session;		/* NULL: none open */
	Oid			userid;			/* of the mapping; InvalidOid: PUBLIC or none */
	uint32		server_hash;	/* syscache hash values, for invalidation */
	uint32		mapping_hash;
	bool		stale;			/* options changed since it was opened */
	bool		keep;			/* option keep_connections */
	LocalTransactionId last_used;	/* transaction that used it last */
} SessionEntry;

/* How long a session that is not to be kept waits for replies. */
#define CLOSE_DRAIN_MS	1000

static HTAB *sessions = NULL;

/* keep_connections 'false': the transaction at whose end sockets close */
static LocalTransactionId close_at_end_of = InvalidLocalTransactionId;

static LocalTransactionId
this_transaction(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProc->vxid.lxid;
#else
	return MyProc->lxid;
#endif
}

/* Syscache callback; hash value 0 means everything. */
static void
mark_stale(Datum arg, int cacheid, uint32 hash)
{
	HASH_SEQ_STATUS scan;
	SessionEntry *entry;

	hash_seq_init(&scan, sessions);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (hash == 0 || cacheid == FOREIGNDATAWRAPPEROID ||
			(cacheid == FOREIGNSERVEROID && hash == entry->server_hash) ||
			(cacheid == USERMAPPINGOID && hash == entry->mapping_hash))
			entry->stale = true;
	}
}

static void
init_sessions(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(SessionKey);
	ctl.entrysize = sizeof(SessionEntry);
	sessions = hash_create("mosql_fdw sessions", 8, &ctl, HASH_ELEM | HASH_BLOBS);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, mark_stale, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, mark_stale, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, mark_stale, (Datum) 0);
}

/* The user's mapping, else PUBLIC's, else InvalidOid; *owner is its role. */
static Oid
find_mapping(Oid serverid, Oid userid, Oid *owner)
{
	HeapTuple	tuple;
	Oid			mapping = InvalidOid;

	*owner = userid;
	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
							ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
	{
		*owner = InvalidOid;
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
								ObjectIdGetDatum(serverid));
	}
	if (HeapTupleIsValid(tuple))
	{
		mapping = ((Form_pg_user_mapping) GETSTRUCT(tuple))->oid;
		ReleaseSysCache(tuple);
	}
	return mapping;
}

/* 2F003 if a non-superuser's mapping names a Redis user without a password. */
static void
check_password(const MosqlFdwOptions *options, Oid mapping, Oid userid)
{
	HeapTuple	tuple;
	Datum		datum;
	bool		isnull;

	if (options->session.redis.username == NULL || options->session.redis.password != NULL ||
		superuser_arg(userid))
		return;

	/* 1. Only now look whether a superuser has waived it. */
	tuple = SearchSysCache1(USERMAPPINGOID, ObjectIdGetDatum(mapping));
	if (HeapTupleIsValid(tuple))
	{
		ListCell   *lc;
		bool		required = true;

		datum = SysCacheGetAttr(USERMAPPINGOID, tuple, Anum_pg_user_mapping_umoptions, &isnull);
		if (!isnull)
		{
			foreach(lc, untransformRelOptions(datum))
			{
				DefElem    *def = lfirst_node(DefElem, lc);

				if (strcmp(def->defname, "password_required") == 0)
					required = defGetBoolean(def);
			}
		}
		ReleaseSysCache(tuple);
		if (!required)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg("password is required"),
			 errdetail("Non-superusers must provide a password in a user mapping that names a Redis user.")));
}

/* Wait for what was sent at commit and not waited for, then close the sockets. */
static void
disconnect(MosqlSession *session)
{
	MemoryContext old = CurrentMemoryContext;

	HOLD_INTERRUPTS();			/* a cancel must not come through here */
	PG_TRY();
	{
		(void) mosql_redis_drain(mosql_session_redis(session), CLOSE_DRAIN_MS);
		mosql_redis_disconnect(mosql_session_redis(session));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		FlushErrorState();
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
}

/*
 * End of a transaction's memory: close the sockets of sessions that are not
 * to be kept.  Runs after commit or abort are complete, where nothing may
 * throw.
 */
static void
close_unkept(void *arg)
{
	HASH_SEQ_STATUS scan;
	SessionEntry *entry;

	close_at_end_of = InvalidLocalTransactionId;
	hash_seq_init(&scan, sessions);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->session != NULL && !entry->keep && !mosql_session_in_use(entry->session))
			disconnect(entry->session);
	}
}

static void
close_at_end(void)
{
	MemoryContextCallback *callback;

	if (TopTransactionContext == NULL || close_at_end_of == this_transaction())
		return;
	callback = MemoryContextAllocZero(TopTransactionContext, sizeof(MemoryContextCallback));
	callback->func = close_unkept;
	MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	close_at_end_of = this_transaction();
}

static void
open_entry(SessionEntry *entry, Oid userid)
{
	MosqlFdwOptions *options = mosql_fdw_options(InvalidOid, entry->key.serverid, userid);

	check_password(options, entry->key.mapping, userid);
	entry->stale = false;
	entry->keep = options->keep_connections;
	entry->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID,
											   ObjectIdGetDatum(entry->key.serverid));
	entry->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID,
												ObjectIdGetDatum(entry->key.mapping));
	entry->session = mosql_session_open(&options->session);
}

/*
 * Throws what opening a session throws, and 2F003 as check_password says.  No
 * round trip.
 */
MosqlSession *
mosql_fdw_session(Oid serverid, Oid userid)
{
	SessionKey	key = {0};
	SessionEntry *entry;
	Oid			owner;
	bool		found;

	if (sessions == NULL)
		init_sessions();
	if (!OidIsValid(userid))
		userid = GetUserId();
	key.serverid = serverid;
	key.mapping = find_mapping(serverid, userid, &owner);

	entry = hash_search(sessions, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->session = NULL;
		entry->last_used = InvalidLocalTransactionId;
	}
	entry->userid = owner;

	if (entry->session != NULL && entry->stale && entry->last_used != this_transaction() &&
		!mosql_session_in_use(entry->session))
	{
		MosqlSession *old = entry->session;

		entry->session = NULL;	/* first, in case closing throws */
		mosql_session_close(old);
	}
	if (entry->session == NULL)
		open_entry(entry, userid);
	entry->last_used = this_transaction();
	if (!entry->keep)
		close_at_end();
	return entry->session;
}

MosqlSession *
mosql_fdw_session_for(Oid relid, Oid userid)
{
	return mosql_fdw_session(GetForeignTable(relid)->serverid, userid);
}

/* By the name of the wrapper's handler, so that no other library is loaded. */
bool
mosql_fdw_is_ours(Oid relid)
{
	ForeignDataWrapper *wrapper;
	char	   *handler;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	wrapper = GetForeignDataWrapper(GetForeignServer(GetForeignTable(relid)->serverid)->fdwid);
	if (!OidIsValid(wrapper->fdwhandler))
		return false;
	handler = get_func_name(wrapper->fdwhandler);
	return handler != NULL && strcmp(handler, "mosql_fdw_handler") == 0;
}

void
mosql_fdw_each_session(MosqlEachSession each, void *arg)
{
	HASH_SEQ_STATUS scan;
	SessionEntry *entry;

	if (sessions == NULL)
		return;
	hash_seq_init(&scan, sessions);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		ForeignServer *server;

		if (entry->session == NULL)
			continue;
		server = GetForeignServerExtended(entry->key.serverid, FSV_MISSING_OK);
		if (!each(arg, server != NULL ? server->servername : NULL, entry->userid, entry->session))
		{
			hash_seq_term(&scan);
			return;
		}
	}
}

int
mosql_fdw_close_sessions(Oid serverid, int *busy)
{
	HASH_SEQ_STATUS scan;
	SessionEntry *entry;
	int			closed = 0;

	if (busy != NULL)
		*busy = 0;
	if (sessions == NULL)
		return 0;
	hash_seq_init(&scan, sessions);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		MosqlSession *session = entry->session;

		if (session == NULL || (OidIsValid(serverid) && entry->key.serverid != serverid))
			continue;
		if (mosql_session_in_use(session))
		{
			if (busy != NULL)
				(*busy)++;
			continue;
		}
		entry->session = NULL;
		mosql_session_close(session);
		closed++;
	}
	return closed;
}
