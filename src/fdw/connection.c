/*
 * connection.c: which session serves which server and user.
 *
 * Layer: fdw.  What server and user mapping say names a session; whoever names the same
 * one shares it, and with it a transaction: users without a mapping of their own, and
 * users whose mappings have the same options, as SECURITY DEFINER functions, views and
 * tables of several owners bring them together in one statement.  That gives nobody a
 * right in Redis: each could have opened a session that Redis cannot tell from this
 * one.  Other options are another session, and two sessions of one namespace are
 * refused in one transaction (xact.c).  Sessions are opened on first use and connect
 * later still, when something is read or written.
 *
 * Changed options.  A change of the server's or the mapping's options, or its end, makes
 * what they name stale.  Plans and tables of a running statement point into the session; so
 * only when the transaction has ended that learns of it the name is forgotten, to be looked
 * up anew at its next use, and a session that nothing names any more is closed.  A backend
 * that idles learns of it with its next transaction, or closes after idle_timeout.
 *
 * Connections.  They are kept between transactions, because connecting is dearer
 * than most transactions, until nobody has used them for idle_timeout.  A backend
 * that waits for its client's next command runs no code of ours; so a timer
 * sends it the signal for lagging readers of invalidation messages (catch-up),
 * upon which it runs an empty transaction, and at the end of that one
 * transaction_ended() looks around; so it does a second after a commit whose applies
 * nobody has waited for.  Inside a transaction block the signal does
 * nothing, which is what we want.  With max_connections a session needs a permit
 * (permit.c) to be connected; it hands it over at the same occasion, after its
 * client was answered.
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
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/sinval.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "fdw/fdw_int.h"
#include "fdw/keep.h"

/* An open session, and what its options say besides. */
typedef struct SessionEntry
{
	dlist_node	node;			/* in entries */
	MosqlSession *session;
	int			names;			/* that lead here */
	Oid			serverid;		/* of the one that was used last */
	Oid			userid;			/* the same: of the mapping; InvalidOid: PUBLIC or none */
	Oid			user;			/* the same: who used it */
	bool		keep;			/* option keep_connections */
	int			idle_timeout_ms;
	int			max_connections;	/* 0: no permit needed */
	int			connect_timeout_ms;
	uint64		permit_key;
	int			permit;			/* -1: none */
	int			kept;			/* its place in keep.c, -1: none */
	bool		used;			/* by the running transaction */
	int64		idle_since_us;
} SessionEntry;

typedef struct SessionKey
{
	Oid			serverid;
	Oid			mapping;		/* InvalidOid: none */
} SessionKey;

/* Server and mapping. */
typedef struct SessionName
{
	SessionKey	key;			/* hash key, first */
	SessionEntry *entry;		/* NULL: none yet, or closed */
	uint32		server_hash;	/* syscache hash values, for invalidation */
	uint32		mapping_hash;
	bool		stale;			/* options changed since it was looked up */
	bool		unproven;		/* a user without a password: see check_password() */
	LocalTransactionId last_used;	/* transaction that used it last */
} SessionName;

static HTAB *names = NULL;
static bool any_stale = false;	/* of the names */
static dlist_head entries = DLIST_STATIC_INIT(entries);

/* keep_connections 'false': the transaction at whose end sockets close */
static LocalTransactionId close_at_end_of = InvalidLocalTransactionId;

LocalTransactionId
mosql_fdw_this_transaction(void)
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
	SessionName *name;

	hash_seq_init(&scan, names);
	while ((name = hash_seq_search(&scan)) != NULL)
	{
		if (hash == 0 || cacheid == FOREIGNDATAWRAPPEROID ||
			(cacheid == FOREIGNSERVEROID && hash == name->server_hash) ||
			(cacheid == USERMAPPINGOID && hash == name->mapping_hash))
			any_stale = name->stale = true;
	}
}

static void
init_names(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(SessionKey);
	ctl.entrysize = sizeof(SessionName);
	names = hash_create("mosql_fdw sessions", 8, &ctl, HASH_ELEM | HASH_BLOBS);
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
			 errdetail("Non-superusers must provide a password in a user mapping that names a Redis user."),
			 errhint("ALTER USER MAPPING ... OPTIONS (ADD password ...); a superuser may set password_required to false.")));
}

/* ---- closing what idles ---- */

/* In a signal handler: see to it that an idle backend runs transaction_ended(). */
static void
look_around(void)
{
	HandleCatchupInterrupt();
}

/* Close the sockets, after what was sent is answered; give the permit. */
static void
disconnect(SessionEntry *entry, bool keep_id)
{
	mosql_session_rest(entry->session, keep_id);
	if (entry->permit >= 0)
		mosql_permit_give(entry->permit);
	entry->permit = -1;
}

/*
 * A transaction has ended that did not use this session: it idles on.  Returns
 * when to look again, in microseconds from now; 0: not necessary.
 */
static int64
idle_on(SessionEntry *entry, int64 now_us)
{
	int64		left_us = entry->idle_since_us + (int64) entry->idle_timeout_ms * 1000 - now_us;

	if (!mosql_redis_is_connected(mosql_session_redis(entry->session)) && entry->permit < 0)
		return 0;
	if (entry->permit >= 0 && !mosql_permit_idle(entry->permit))
		disconnect(entry, true);
	else if (entry->idle_timeout_ms > 0 && left_us <= 0)
		disconnect(entry, false);
	else if (entry->idle_timeout_ms > 0)
		return left_us;
	return 0;
}

/*
 * A transaction has ended that used this session.  Whoever waits for its permit
 * gets it as soon as the client has its answer.
 */
static int64
begin_to_idle(SessionEntry *entry, int64 now_us)
{
	entry->used = false;
	entry->idle_since_us = now_us;
	if (entry->permit >= 0 && !mosql_permit_idle(entry->permit))
		look_around();
	return (int64) entry->idle_timeout_ms * 1000;
}

/*
 * Set the timer, unless it is set for an earlier time (it is left alone by
 * transaction after transaction).  Errors of any kind switch all timers off.
 */
static void
set_timer(int64 delay_us)
{
	static TimeoutId timer = 0;
	static int64 due_us;
	int64		now_us = mosql_now_us();

	if (timer == 0)
		timer = RegisterTimeout(USER_TIMEOUT, look_around);
	if (get_timeout_active(timer) && due_us <= now_us + delay_us)
		return;
	due_us = now_us + delay_us;
	enable_timeout_after(timer, (int) Min(delay_us / 1000 + 1, INT_MAX));
}

/*
 * What this session has left over, a commit that is not applied everywhere, locks that it could not give back, is seen
 * to while it idles.  Who has no permit for a connection leaves it to the next transaction.  When to
 * look again, as above.
 */
static int64
catch_up(SessionEntry *entry, bool used)
{
	int64		due_us = mosql_session_due(entry->session);

	if (due_us == 0 || mosql_session_in_use(entry->session) ||
		(entry->max_connections > 0 && entry->permit < 0))
		return 0;
	if (!used && mosql_now_us() >= due_us)
	{
		mosql_session_catch_up(entry->session);
		due_us = mosql_session_due(entry->session);
	}
	return due_us > 0 ? Max(due_us - mosql_now_us(), 1) : 0;
}

/* Close for good. */
static void
close_entry(SessionEntry *entry)
{
	MosqlSession *session = entry->session;
	int			permit = entry->permit;
	HASH_SEQ_STATUS scan;
	SessionName *name;

	/* first, in case closing throws */
	hash_seq_init(&scan, names);
	while ((name = hash_seq_search(&scan)) != NULL)
		if (name->entry == entry)
			name->entry = NULL;
	dlist_delete(&entry->node);
	pfree(entry);
	mosql_session_close(session);
	if (permit >= 0)
		mosql_permit_give(permit);
}

/*
 * A transaction has ended: names whose options have changed lead nowhere, and sessions to
 * which none leads are closed.  Throws nothing: a session without connections is only
 * forgotten.
 */
static void
forget_stale(void)
{
	HASH_SEQ_STATUS scan;
	SessionName *name;
	dlist_mutable_iter iter;

	any_stale = false;
	hash_seq_init(&scan, names);
	while ((name = hash_seq_search(&scan)) != NULL)
	{
		if (!name->stale)
			continue;
		if (name->entry != NULL)
			name->entry->names--;
		(void) hash_search(names, &name->key, HASH_REMOVE, NULL);
	}
	dlist_foreach_modify(iter, &entries)
	{
		SessionEntry *entry = dlist_container(SessionEntry, node, iter.cur);

		if (entry->names > 0)
			continue;
		if (mosql_session_is_needed(entry->session) ||
			mosql_redis_is_busy(mosql_session_redis(entry->session)))
		{
			any_stale = true;	/* the next time */
			continue;
		}
		disconnect(entry, false);
		close_entry(entry);
	}
}

/* The hook.  The timer is of no use to a backend that has no client to wait for. */
static void
transaction_ended(void)
{
	dlist_iter	iter;
	int64		nearest_us = 0;
	int64		now_us;

	if (dlist_is_empty(&entries) || proc_exit_inprogress)
		return;
	if (any_stale)
		forget_stale();
	now_us = mosql_now_us();
	dlist_foreach(iter, &entries)
	{
		SessionEntry *entry = dlist_container(SessionEntry, node, iter.cur);
		int64		next_us[2];

		if (mosql_redis_is_busy(mosql_session_redis(entry->session)))
			continue;
		next_us[0] = catch_up(entry, entry->used);
		next_us[1] = entry->used ? begin_to_idle(entry, now_us) : idle_on(entry, now_us);
		for (int i = 0; i < 2; i++)
			if (next_us[i] > 0 && (nearest_us == 0 || next_us[i] < nearest_us))
				nearest_us = next_us[i];
	}
	if (nearest_us > 0 && MyProcPort != NULL)
		set_timer(nearest_us);
}

/* A MosqlWho. */
static const char *
describe_backend(void)
{
	return mosql_progress_backend(mosql_keep_home());
}

/* A MosqlKeep. */
static void
keep_session(MosqlSession *session, bool keep)
{
	dlist_iter	iter;

	dlist_foreach(iter, &entries)
	{
		SessionEntry *entry = dlist_container(SessionEntry, node, iter.cur);

		if (entry->session != session)
			continue;
		if (entry->kept >= 0)
			mosql_keep_end(entry->kept);
		entry->kept = keep ? mosql_keep_begin(mosql_session_id(session), entry->serverid,
											  entry->user, mosql_txn_lease_ms) : -1;
		return;
	}
}

void
mosql_fdw_init(void)
{
	mosql_txn_end_hook = transaction_ended;
	mosql_txn_keep_hook = keep_session;
	mosql_txn_who_hook = describe_backend;
	mosql_permit_init();
	mosql_keep_init();
}

/*
 * End of a transaction's memory: close the sockets of sessions that are not
 * to be kept.  Runs after commit or abort are complete, where nothing may
 * throw.
 */
static void
close_unkept(void *arg)
{
	dlist_iter	iter;

	close_at_end_of = InvalidLocalTransactionId;
	dlist_foreach(iter, &entries)
	{
		SessionEntry *entry = dlist_container(SessionEntry, node, iter.cur);

		if (!entry->keep && !mosql_session_in_use(entry->session))
			disconnect(entry, true);
	}
}

static void
close_at_end(void)
{
	MemoryContextCallback *callback;

	if (TopTransactionContext == NULL || close_at_end_of == mosql_fdw_this_transaction())
		return;
	callback = MemoryContextAllocZero(TopTransactionContext, sizeof(MemoryContextCallback));
	callback->func = close_unkept;
	MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	close_at_end_of = mosql_fdw_this_transaction();
}

/* Options that a session is not opened with, but that its connections obey. */
static bool
obeys(const SessionEntry *entry, const MosqlFdwOptions *options, bool keep)
{
	return entry->keep == keep && entry->max_connections == options->max_connections &&
		entry->idle_timeout_ms == options->idle_timeout_ms;
}

/* A session with just these options, opened if there is none. */
static SessionEntry *
find_entry(const MosqlFdwOptions *options)
{
	/* a backend without a client cannot be asked for its permit */
	bool		keep = options->keep_connections &&
		(MyProcPort != NULL || options->max_connections == 0);
	SessionEntry *entry;
	dlist_iter	iter;

	dlist_foreach(iter, &entries)
	{
		entry = dlist_container(SessionEntry, node, iter.cur);
		if (mosql_session_has_config(entry->session, &options->session) &&
			obeys(entry, options, keep))
			return entry;
	}
	entry = MemoryContextAllocZero(TopMemoryContext, sizeof(SessionEntry));
	entry->max_connections = options->max_connections;
	entry->permit_key = hash_bytes_extended((const unsigned char *) options->session.redis.nodes,
											strlen(options->session.redis.nodes), 0);
	entry->connect_timeout_ms = options->session.redis.connect_timeout_ms;
	entry->idle_timeout_ms = options->idle_timeout_ms;
	entry->keep = keep;
	entry->permit = entry->kept = -1;
	mosql_keep_enter();
	entry->session = mosql_session_open(&options->session);
	dlist_push_tail(&entries, &entry->node);
	return entry;
}

/* Lead the name to the session of its options as they are now. */
static void
look_up(SessionName *name, Oid userid)
{
	MosqlFdwOptions *options = mosql_fdw_options(InvalidOid, name->key.serverid, userid);
	SessionEntry *before = name->entry;

	check_password(options, name->key.mapping, userid);
	name->entry = find_entry(options);
	name->entry->names++;
	name->stale = false;
	name->unproven = options->session.redis.username != NULL &&
		options->session.redis.password == NULL;
	name->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID,
											  ObjectIdGetDatum(name->key.serverid));
	name->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID,
											   ObjectIdGetDatum(name->key.mapping));
	if (before == NULL || --before->names > 0)
		return;
	if (mosql_session_is_needed(before->session))
		any_stale = true;		/* by names that led there before */
	else
		close_entry(before);
}

/*
 * The first use in a transaction.  Whoever waits for the permit comes first:
 * a procedure may run many transactions without ever waiting for its client.
 */
static void
begin_use(SessionEntry *entry)
{
	if (entry->max_connections > 0)
	{
		if (entry->permit >= 0 && !mosql_permit_idle(entry->permit))
			disconnect(entry, true);
		if (entry->permit >= 0)
			mosql_permit_use(entry->permit);
		else
			entry->permit = mosql_permit_take(entry->permit_key, entry->max_connections,
											  entry->connect_timeout_ms);
	}
	entry->used = true;
}

/*
 * Throws what opening a session throws, what mosql_permit_take() throws, 2F003
 * as check_password says, and 0A000 if the transaction has used the namespace with other
 * options.  No round trip.
 */
MosqlSession *
mosql_fdw_session(Oid serverid, Oid userid)
{
	SessionKey	key = {0};
	SessionName *name;
	SessionEntry *entry;
	Oid			owner;
	bool		found;

	if (names == NULL)
		init_names();
	if (!OidIsValid(userid))
		userid = GetUserId();
	key.serverid = serverid;
	key.mapping = find_mapping(serverid, userid, &owner);

	name = hash_search(names, &key, HASH_ENTER, &found);
	if (!found)
	{
		name->entry = NULL;
		name->last_used = InvalidLocalTransactionId;
	}
	if (name->entry == NULL ||
		(name->stale && name->last_used != mosql_fdw_this_transaction()))
		look_up(name, userid);
	else if (name->unproven)	/* a superuser may have looked it up */
		check_password(mosql_fdw_options(InvalidOid, serverid, userid), key.mapping, userid);

	entry = name->entry;
	entry->serverid = serverid;
	entry->userid = owner;
	entry->user = userid;
	mosql_txn_check_alone(entry->session);
	if (!entry->used)
		begin_use(entry);
	name->last_used = mosql_fdw_this_transaction();
	if (!entry->keep)
		close_at_end();
	return entry->session;
}

MosqlSession *
mosql_fdw_open_session(Oid serverid, Oid userid)
{
	MosqlFdwOptions *options = mosql_fdw_options(InvalidOid, serverid, userid);
	Oid			owner;

	check_password(options, find_mapping(serverid, userid, &owner), userid);
	return mosql_session_open(&options->session);
}

MosqlSession *
mosql_fdw_session_for(Oid relid, Oid userid)
{
	return mosql_fdw_session(mosql_fdw_server_of(relid), userid);
}

/* False also of what has just been dropped: queries of the catalogs ask about what their snapshots have. */
bool
mosql_fdw_is_ours(Oid relid)
{
	HeapTuple	tuple;
	Oid			serverid;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	serverid = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftserver;
	ReleaseSysCache(tuple);
	return mosql_fdw_is_our_server(serverid);
}

/* By the name of the wrapper's handler, so that no other library is loaded. */
bool
mosql_fdw_is_our_server(Oid serverid)
{
	ForeignServer *server = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	ForeignDataWrapper *wrapper = server == NULL ? NULL : GetForeignDataWrapperExtended(server->fdwid, FDW_MISSING_OK);
	char	   *handler;

	if (wrapper == NULL || !OidIsValid(wrapper->fdwhandler))
		return false;
	handler = get_func_name(wrapper->fdwhandler);
	return handler != NULL && strcmp(handler, "mosql_fdw_handler") == 0;
}

Oid
mosql_fdw_primary_key(Relation rel)
{
#if PG_VERSION_NUM >= 180000
	return RelationGetPrimaryKeyIndex(rel, false);
#else
	return RelationGetPrimaryKeyIndex(rel);
#endif
}

void
mosql_fdw_each_session(MosqlEachSession each, void *arg)
{
	dlist_iter	iter;

	dlist_foreach(iter, &entries)
	{
		const SessionEntry *entry = dlist_container(SessionEntry, node, iter.cur);
		ForeignServer *server = GetForeignServerExtended(entry->serverid, FSV_MISSING_OK);

		if (!each(arg, server != NULL ? server->servername : NULL, entry->userid, entry->session))
			return;
	}
}

/* Does the server, or any if InvalidOid, lead there? */
static bool
is_of_server(const SessionEntry *entry, Oid serverid)
{
	HASH_SEQ_STATUS scan;
	SessionName *name;
	bool		found = !OidIsValid(serverid);

	hash_seq_init(&scan, names);
	while ((name = hash_seq_search(&scan)) != NULL)
		found |= name->entry == entry && name->key.serverid == serverid;
	return found;
}

int
mosql_fdw_close_sessions(Oid serverid, int *busy)
{
	dlist_mutable_iter iter;
	int			closed = 0;

	if (busy != NULL)
		*busy = 0;
	dlist_foreach_modify(iter, &entries)
	{
		SessionEntry *entry = dlist_container(SessionEntry, node, iter.cur);

		if (!is_of_server(entry, serverid))
			continue;
		if (mosql_session_is_needed(entry->session))
		{
			if (busy != NULL)
				(*busy)++;
			continue;
		}
		close_entry(entry);
		closed++;
	}
	return closed;
}
