/*
 * check.c: looking at the data: is it sound, how is it laid out, are the Redis
 * servers set up for it.
 *
 * Layer: admin.  All of it only reads, and may run beside any other work.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "admin/admin.h"
#include "code/node.h"

PG_FUNCTION_INFO_V1(mosql_fdw_check);
PG_FUNCTION_INFO_V1(mosql_fdw_dump);
PG_FUNCTION_INFO_V1(mosql_fdw_server_check);

/* ---- mosql_fdw_check ---- */

typedef struct Check
{
	ReturnSetInfo *result;
	MosqlSession *session;
	const MosqlTable *table;
	bool		opaque;			/* its rows cannot be read here */
	int64		nbroken;
	HTAB	   *reached;		/* node ids of the tree */
	int			ncandidates;	/* nodes found by SCAN that say they are the tree's */
	int			maxcandidates;
	uint64	   *candidates;
} Check;

/* MosqlCheckReport */
static void
put_finding(void *arg, char severity, uint64 node, const char *what)
{
	Check	   *check = arg;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};

	check->nbroken += severity == 'E';
	values[0] = CStringGetTextDatum(severity == 'E' ? "broken" : "unfinished");
	values[1] = CStringGetTextDatum(mosql_admin_node_name(check->session, node));
	values[2] = CStringGetTextDatum(what);
	tuplestore_putvalues(check->result->setResult, check->result->setDesc, values, nulls);
}

/* ---- values ---- */

/*
 * Where a check of a leaf's values stands: what was looked at is not looked at
 * again after an error.  Volatile, since longjmp must find it as it was.
 */
typedef struct ValueCheck
{
	const MosqlTable *table;
	const MosqlLeaf *leaf;
	volatile int entry;
	volatile int version;		/* of that entry's row; behind the last: the intent */
} ValueCheck;

static void
check_intended_values(const ValueCheck *at, const MosqlEntry *entry)
{
	MosqlBytes	rest = entry->intent;
	MosqlIntent intent;

	while (rest.data != NULL && mosql_intent_next(&rest, &intent) == 1)
		if (intent.kind == MOSQL_INTENT_PUT)
			mosql_table_check_values(at->table, entry->key, intent.payload);
}

/* Versions of one row, from at->version on, and what a put makes of it. */
static void
check_entry_values(ValueCheck *at)
{
	const MosqlEntry *entry = &at->leaf->entries[at->entry];
	MosqlHistory history;

	if (!mosql_history_decode(entry->row, &history))
		history.n = 0;			/* said elsewhere */
	while (at->version < history.n)
	{
		const MosqlVersion *version = &history.versions[at->version++];

		if (version->live)
			mosql_table_check_values(at->table, entry->key, version->columns);
	}
	if (at->version++ == history.n)
		check_intended_values(at, entry);
}

/* Everything that is left of the leaf; throws where values are damaged. */
static void
check_values_on(ValueCheck *at)
{
	for (; at->entry < at->leaf->n; at->entry++, at->version = 0)
	{
		CHECK_FOR_INTERRUPTS();
		check_entry_values(at);
	}
}

/* Is a value sound, and only this server, or its encoding, has nothing for it? */
static bool
is_of_this_server(int sqlstate)
{
	return sqlstate == ERRCODE_UNTRANSLATABLE_CHARACTER ||
		sqlstate == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;	/* a label of an enum */
}

/*
 * The values of a leaf's rows.  Types' own functions may throw anywhere, so they
 * run in a subtransaction, one per leaf and one more per finding.  Errors that
 * are not about data (memory, cancel requests) are thrown on.
 */
static void
check_values(Check *check, const MosqlLeaf *leaf)
{
	ValueCheck	at = {check->table, leaf, 0, 0};
	MemoryContext outer = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext cxt = AllocSetContextCreate(outer, "mosql check values", ALLOCSET_DEFAULT_SIZES);

	while (at.entry < leaf->n)
	{
		ErrorData  *volatile error = NULL;

		BeginInternalSubTransaction(NULL);
		MemoryContextSwitchTo(cxt);
		PG_TRY();
		{
			check_values_on(&at);
			ReleaseCurrentSubTransaction();
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(outer);
			error = CopyErrorData();
			FlushErrorState();
			RollbackAndReleaseCurrentSubTransaction();
		}
		PG_END_TRY();
		MemoryContextSwitchTo(outer);
		CurrentResourceOwner = owner;
		if (error != NULL)
		{
			bool		here = is_of_this_server(error->sqlerrcode);

			if (!here && error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
				ReThrowError(error);
			/* a type's own error has its column in the context */
			put_finding(check, here ? 'W' : 'E', leaf->node,
						psprintf("%s%s%s",
								 error->context != NULL ? error->context : error->message,
								 error->context != NULL || error->detail != NULL ? ": " : "",
								 error->context != NULL ? error->message :
								 error->detail != NULL ? error->detail : ""));
			FreeErrorData(error);
		}
		MemoryContextReset(cxt);
	}
	MemoryContextDelete(cxt);
}

/*
 * MosqlCheckLeaf: rows, intents, and whether the table can read its rows.  Their
 * values are looked at only where their shape is right.  (Entries of an index that
 * this server cannot compute: it may not even know the types.)
 */
static void
check_leaf(void *arg, const MosqlLeaf *leaf)
{
	Check	   *check = arg;
	bool		sound = true;

	mosql_txn_check_leaf(check->session, leaf, put_finding, arg);
	for (int i = 0; i < leaf->n && !check->opaque; i++)
	{
		MosqlVersion version;
		const char *what;

		if (leaf->entries[i].row.data == NULL ||
			!mosql_row_newest(leaf->entries[i].row, &version) || !version.live)
			continue;
		what = mosql_table_check_row(check->table, leaf->entries[i].key, version.columns);
		if (what != NULL)
			put_finding(arg, 'E', leaf->node, what);
		sound &= what == NULL;
	}
	if (sound && !check->table->is_index)
		check_values(check, leaf);
}

/* ---- nodes that no path leads to ---- */

static void
add_candidate(Check *check, uint64 node)
{
	if (check->ncandidates == check->maxcandidates)
	{
		check->maxcandidates *= 2;
		check->candidates = repalloc(check->candidates, check->maxcandidates * sizeof(uint64));
	}
	check->candidates[check->ncandidates++] = node;
}

/* MosqlVisitNodes: do these nodes say they belong to the tree?  One round trip. */
static void
select_candidates(void *arg, const uint64 *nodes, int n)
{
	Check	   *check = arg;
	uint64		root = mosql_btree_root(check->table->tree);
	MosqlBytes	field = mosql_bytes("m", 1);
	MosqlFieldRead *reads = palloc0(Max(n, 1) * sizeof(MosqlFieldRead));
	MosqlNodeMeta meta;

	for (int i = 0; i < n; i++)
	{
		reads[i].node = nodes[i];
		reads[i].nfields = 1;
		reads[i].fields = &field;
	}
	mosql_step_read_fields(mosql_session_stepper(check->session), reads, n, NULL);
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	stored = reads[i].values[0];

		if (stored.data == NULL)
			continue;
		if (!mosql_meta_decode(stored, &meta))
			put_finding(check, 'E', nodes[i], "the meta field of a node does not decode");
		else if (meta.tree == root && meta.state != MOSQL_NODE_DEAD)
			add_candidate(check, nodes[i]);
	}
}

/* MosqlDumpNode */
static void
note_reached(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents,
			 size_t bytes)
{
	(void) hash_search(((Check *) arg)->reached, &node, HASH_ENTER, NULL);
}

/* A MosqlTreeWork. */
static void
reach_all(void *arg)
{
	Check	   *check = arg;

	mosql_btree_dump(check->table->tree, note_reached, check);
}

/*
 * SCAN first, then the tree: a node that is made in between is not looked at,
 * and one that goes in between is read again before it is reported.
 */
static void
check_orphans(Check *check)
{
	HASHCTL		ctl = {0};
	const char *damage;
	uint64	   *strays;
	int			n = 0;

	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(uint64);
	ctl.hcxt = CurrentMemoryContext;
	check->reached = hash_create("mosql check", 1024, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	check->maxcandidates = 1024;
	check->candidates = palloc(check->maxcandidates * sizeof(uint64));

	mosql_session_visit_nodes(check->session, select_candidates, check);
	if (mosql_session_try_tree_damage(reach_all, check, &damage) != MOSQL_TREE_SOUND)
	{
		put_finding(check, 'W', mosql_btree_root(check->table->tree),
					"the tree is damaged, so that it cannot be told which nodes no path leads to");
		return;
	}
	strays = palloc(Max(check->ncandidates, 1) * sizeof(uint64));
	for (int i = 0; i < check->ncandidates; i++)
		if (hash_search(check->reached, &check->candidates[i], HASH_FIND, NULL) == NULL)
			strays[n++] = check->candidates[i];

	check->ncandidates = 0;
	if (n > 0)
		select_candidates(check, strays, n);
	for (int i = 0; i < check->ncandidates; i++)
		put_finding(check, 'W', check->candidates[i], "no path from the root leads to this node");
}

static void
check_tree(Check *check, MosqlTable *table)
{
	check->table = table;
	mosql_btree_check(table->tree, put_finding, check_leaf, check);
	check_orphans(check);
}

/* MosqlIndexFinding: the node is the root of the index */
static void
put_index_finding(void *arg, const MosqlIndex *index, const char *finding)
{
	put_finding(arg, 'E', index->entries->root,
				psprintf("index \"%s\": %s", index->name, finding));
}

Datum
mosql_fdw_check(PG_FUNCTION_ARGS)
{
	Check		check = {0};
	MosqlTable *table;
	Relation	rel;

	InitMaterializedSRF(fcinfo, 0);
	check.result = (ReturnSetInfo *) fcinfo->resultinfo;
	rel = mosql_admin_open_table(PG_GETARG_OID(0), &check.session, &table);
	check_tree(&check, table);
	for (int i = 0; i < table->nindexes; i++)
	{
		check.opaque = table->indexes[i].broken != NULL;
		check_tree(&check, table->indexes[i].entries);
		if (check.opaque)
			put_finding(&check, 'W', table->indexes[i].entries->root,
						psprintf("index \"%s\": this server cannot compute its entries: %s",
								 table->indexes[i].name, table->indexes[i].broken));
	}
	if (check.nbroken == 0)
		mosql_admin_check_indexes(rel, table, put_index_finding, &check);
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* ---- mosql_fdw_dump ---- */

typedef struct Dump
{
	ReturnSetInfo *result;
	MosqlSession *session;
} Dump;

static const char *
state_name(MosqlNodeState state)
{
	switch (state)
	{
		case MOSQL_NODE_NORMAL:
			return "normal";
		case MOSQL_NODE_PACKED:
			return "packed";
		case MOSQL_NODE_LOADING:
			return "loading";
		case MOSQL_NODE_SPLITTING:
			return "splitting";
		case MOSQL_NODE_DYING:
			return "dying";
		case MOSQL_NODE_DEAD:
			return "dead";
	}
	return "unknown";
}

static Datum
bytea_of(MosqlBytes bytes)
{
	bytea	   *result = palloc(VARHDRSZ + bytes.len);

	SET_VARSIZE(result, VARHDRSZ + bytes.len);
	memcpy(VARDATA(result), bytes.data, bytes.len);
	return PointerGetDatum(result);
}

/* MosqlDumpNode */
static void
put_node(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents,
		 size_t bytes)
{
	Dump	   *dump = arg;
	Datum		values[8] = {0};
	bool		nulls[8] = {0};

	values[0] = Int32GetDatum(meta->level);
	values[1] = CStringGetTextDatum(mosql_admin_node_name(dump->session, node));
	values[2] = CStringGetTextDatum(state_name(meta->state));
	nulls[3] = meta->low.len == 0;
	if (!nulls[3])
		values[3] = bytea_of(meta->low);
	nulls[4] = meta->high.data == NULL;
	if (!nulls[4])
		values[4] = bytea_of(meta->high);
	values[5] = Int32GetDatum(nentries);
	values[6] = Int32GetDatum(nintents);
	values[7] = Int64GetDatum((int64) bytes);
	tuplestore_putvalues(dump->result->setResult, dump->result->setDesc, values, nulls);
}

Datum
mosql_fdw_dump(PG_FUNCTION_ARGS)
{
	Dump		dump;
	MosqlTable *table;
	Relation	rel;

	InitMaterializedSRF(fcinfo, 0);
	dump.result = (ReturnSetInfo *) fcinfo->resultinfo;
	rel = mosql_admin_open_table(PG_GETARG_OID(0), &dump.session, &table);
	mosql_btree_dump(table->tree, put_node, &dump);
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* ---- mosql_fdw_server_check ---- */

/* A setting of Redis that matters; at_least: a number, else this very value. */
typedef struct Advice
{
	const char *setting;
	bool		at_least;
	const char *advised;
	const char *why;
} Advice;

static const Advice advice[] = {
	{"hash-max-listpack-entries", true, "256",
	"leaves with more fields lose their compact encoding: about 40 % more memory, slower reads"},
	{"hash-max-listpack-value", true, "1024",
	"leaves with a longer row lose their compact encoding: about 40 % more memory"},
	{"maxmemory-policy", false, "noeviction",
	"eviction deletes nodes of tables: lost rows, damaged trees"},
	{"appendonly", false, "yes",
	"without the append-only file a restart of this server loses what was committed since its last snapshot"}
};

/* The address of a server as it names itself in CLUSTER NODES; "" if it does not. */
static const char *
own_address(const MosqlReply *nodes)
{
	const char *line;
	const char *at;

	if (nodes->kind != MOSQL_REPLY_STRING)
		return "";
	line = strstr(nodes->str.data, "myself");
	if (line == NULL)
		return "";
	while (line > nodes->str.data && line[-1] != '\n')
		line--;
	line = strchr(line, ' ');	/* behind the node's id */
	if (line == NULL)
		return "";
	at = line + 1;
	return mosql_redis_text(mosql_bytes(at, strcspn(at, "@, \n")));
}

static bool
is_as_advised(const Advice *a, const char *current)
{
	if (a->at_least)
		return strtoll(current, NULL, 10) >= strtoll(a->advised, NULL, 10);
	return strcmp(current, a->advised) == 0;
}

/* The value in CONFIG GET's reply; why it is not known otherwise, and false. */
static bool
config_value(const MosqlReply *reply, const char **value)
{
	if (reply->kind == MOSQL_REPLY_ARRAY && reply->n == 2 &&
		reply->elem[1]->kind == MOSQL_REPLY_STRING)
	{
		*value = mosql_redis_text(reply->elem[1]->str);
		return true;
	}
	*value = reply->kind == MOSQL_REPLY_ERROR ?
		psprintf("unknown: %s", mosql_redis_text(reply->str)) : "unknown to this server";
	return false;
}

/* CLUSTER NODES and all settings of one primary, in one round trip. */
static void
check_primary(ReturnSetInfo *result, MosqlRedis *redis, int primary)
{
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	MosqlBytes	nodes[2] = {mosql_bytes("CLUSTER", 7), mosql_bytes("NODES", 5)};
	MosqlBytes	config[lengthof(advice)][3];
	int			groups[lengthof(advice)];
	int			names = mosql_batch_add_to_primary(batch, primary, MOSQL_SEND_REPEATABLE, 2, nodes);
	const char *address;

	for (int i = 0; i < lengthof(advice); i++)
	{
		config[i][0] = mosql_bytes("CONFIG", 6);
		config[i][1] = mosql_bytes("GET", 3);
		config[i][2] = mosql_bytes(advice[i].setting, strlen(advice[i].setting));
		groups[i] = mosql_batch_add_to_primary(batch, primary, MOSQL_SEND_REPEATABLE, 3,
											   config[i]);
	}
	mosql_batch_run(batch, NULL);

	address = own_address(mosql_batch_reply(batch, names, 0));
	if (address[0] == '\0')
		address = psprintf("server %d", primary + 1);
	for (int i = 0; i < lengthof(advice); i++)
	{
		const char *current;
		Datum		values[5];
		bool		nulls[5] = {0};

		if (config_value(mosql_batch_reply(batch, groups[i], 0), &current) &&
			is_as_advised(&advice[i], current))
			continue;
		values[0] = CStringGetTextDatum(address);
		values[1] = CStringGetTextDatum(advice[i].setting);
		values[2] = CStringGetTextDatum(current);
		values[3] = CStringGetTextDatum(advice[i].advised);
		values[4] = CStringGetTextDatum(advice[i].why);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

Datum
mosql_fdw_server_check(PG_FUNCTION_ARGS)
{
	MosqlSession *session = mosql_admin_server_session(mosql_admin_text_arg(fcinfo, 0));
	MosqlRedis *redis = mosql_session_redis(session);
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	n = mosql_redis_primary_count(redis);
	for (int i = 0; i < n; i++)
		check_primary((ReturnSetInfo *) fcinfo->resultinfo, redis, i);
	return (Datum) 0;
}
