/*
 * repair_tree.c: repairs that look at all nodes of a namespace.
 *
 * Layer: admin.  SCAN finds the nodes, whatever leads to them; memory is bounded by a page
 * of them, and for a tree by what its nodes' metas say.
 */
#include "postgres.h"

#include <inttypes.h>

#include "access/relation.h"
#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "admin/repair.h"
#include "code/block.h"
#include "code/loaded.h"
#include "code/node.h"
#include "code/row.h"

/* Whole nodes read in one round trip. */
#define REPAIR_BATCH		64

/* A timestamp further ahead is damage, and not a time. */
#define FUTURE_US			(INT64CONST(365) * 24 * 3600 * 1000000)

/*
 * What the clock must have issued beyond all that is found: ids that left no trace, too, so
 * that no id is below what the time says: one per 128 us since 2026.
 */
#define SPARE_SESSIONS		1000
#define SPARE_US			2000000
#define ID_EPOCH_US			UINT64CONST(1767225600000000)
#define ID_US				128

/* ---- the clock ---- */

typedef struct Highest
{
	MosqlStepper *stepper;
	MosqlTimestamp limit;		/* what is above is no time */
	MosqlTimestamp ts;
	uint64		sid;
	int64		intents;
	int64		ignored;
} Highest;

static void
see_time(Highest *highest, MosqlTimestamp ts)
{
	if (ts > highest->limit)
		highest->ignored++;
	else
		highest->ts = Max(highest->ts, ts);
}

static void
see_session(Highest *highest, uint64 sid)
{
	if (sid < UINT64CONST(1) << (64 - MOSQL_ID_COUNTER_BITS))
		highest->sid = Max(highest->sid, sid);
	else
		highest->ignored++;
}

static void
see_row(Highest *highest, MosqlBytes row)
{
	MosqlVersion version;

	if (mosql_row_newest(row, &version))
		see_time(highest, version.ts);
}

static void
see_field(Highest *highest, const MosqlFieldValue *field)
{
	MosqlBytes	rest = field->value;
	MosqlBlock	block;
	MosqlIntent intent;
	MosqlNodeMeta meta;

	if (field->field.len == 0)
		return;
	switch (field->field.data[0])
	{
		case MOSQL_FIELD_META:
			if (!mosql_meta_decode(field->value, &meta))
				break;
			see_time(highest, meta.loaded.since);
			see_session(highest, meta.loaded.loader.session);
			highest->intents += meta.state == MOSQL_NODE_LOADING;
			break;
		case MOSQL_FIELD_ROW:
			see_row(highest, field->value);
			break;
		case MOSQL_FIELD_BLOCK:
			/* as before what is not decided, or has the time in the meta */
			if (mosql_block_decode(field->value, &block) &&
				mosql_loaded_take(&(MosqlLoaded) {.undone = true}, block.rows, NULL, block.n))
				for (int i = 0; i < block.n; i++)
					see_row(highest, block.rows[i]);
			break;
		case MOSQL_FIELD_PURGED:
			if (field->value.len == MOSQL_TS_BYTES)
				see_time(highest, mosql_ts_get(field->value.data));
			break;
		case MOSQL_FIELD_INTENT:
			while (mosql_intent_next(&rest, &intent) == 1)
			{
				see_session(highest, intent.tx.session);
				highest->intents++;
			}
			break;
		case MOSQL_FIELD_RANGE_MARKS:
		case MOSQL_FIELD_KEY_MARKS:
			for (size_t at = 0; at + MOSQL_TXID_BYTES <= rest.len; at += MOSQL_TXID_BYTES)
				see_session(highest, mosql_txid_get(rest.data + at).session);
			break;
	}
}

/* VisitNodes */
static void
see_nodes(void *arg, const uint64 *nodes, int n)
{
	Highest    *highest = arg;

	for (int done = 0; done < n; done += REPAIR_BATCH)
	{
		MosqlNodeImage images[REPAIR_BATCH];
		int			batch = Min(n - done, REPAIR_BATCH);

		CHECK_FOR_INTERRUPTS();
		mosql_step_read_nodes(highest->stepper, nodes + done, batch, images, NULL);
		for (int i = 0; i < batch; i++)
		{
			see_session(highest, images[i].node >> MOSQL_ID_COUNTER_BITS);
			for (int f = 0; f < images[i].nfields; f++)
				see_field(highest, &images[i].fields[f]);
		}
	}
}

static void
put_counter(Repair *repair, const char *name, uint64 stored, uint64 found, uint64 set)
{
	mosql_repair_put(repair, psprintf("clock, %s", name),
					 psprintf("the clock has " UINT64_FORMAT ", rows and nodes have " UINT64_FORMAT,
							  stored, found),
					 set <= stored ? NULL :
					 psprintf(repair->dry_run ? "would be set to " UINT64_FORMAT :
							  "set to " UINT64_FORMAT, set));
}

/*
 * The schema version is nowhere but at the clock: a timestamp is above any that was counted,
 * and above what an earlier repair has set.
 */
static void
raise_clock(const MosqlClockState *was, const Highest *highest, MosqlClockState *least)
{
	uint64		floor;

	least->last = Max(was->last, Max(highest->ts, was->now)) + SPARE_US;
	floor = least->last > ID_EPOCH_US ? (least->last - ID_EPOCH_US) / ID_US : 0;
	least->sid = Max(Max(was->sid, highest->sid) + SPARE_SESSIONS, floor);
	least->schema = Max(was->schema + 1, least->last);
}

void
mosql_repair_clock(Repair *repair)
{
	Highest		highest = {.stepper = repair->stepper};
	MosqlClockState was;
	MosqlClockState least;
	bool		behind;

	mosql_clock_read_state(repair->stepper, &was);
	highest.limit = was.now + FUTURE_US;
	mosql_session_visit_nodes(repair->session, see_nodes, &highest);
	behind = !was.there || was.last < highest.ts || was.sid < highest.sid;
	least = was;
	if (behind)
	{
		raise_clock(&was, &highest, &least);
		if (!repair->dry_run)
			mosql_clock_rebuild(repair->stepper, &least);
	}
	put_counter(repair, "timestamp", was.last, highest.ts, least.last);
	put_counter(repair, "session id", was.sid, highest.sid, least.sid);
	put_counter(repair, "schema version", was.schema, 0, least.schema);
	if (highest.intents > 0 && behind)
		mosql_repair_put(repair, "transactions",
						 psprintf(INT64_FORMAT " intents of transactions under way", highest.intents),
						 "those whose record is lost are rolled back by whoever meets them");
	if (highest.ignored > 0)
		mosql_repair_put(repair, "damage",
						 psprintf(INT64_FORMAT " times and ids are impossible", highest.ignored),
						 "left out: mosql_fdw_check() says where");
}

/* ---- a tree ---- */

typedef struct TreeRepair
{
	Repair	   *repair;
	MosqlTree  *tree;
	const MosqlTable *table;	/* NULL: its rows are not looked into */
	bool		definitions;
	MemoryContext cxt;
	int			n;
	int			max;
	MosqlKnownNode *known;
} TreeRepair;

/* Note a node of the tree.  What is noted does not point into the node's bytes. */
static void
note_node(TreeRepair *work, uint64 node, const MosqlNodeMeta *meta, MosqlBytes separators)
{
	MemoryContext old = MemoryContextSwitchTo(work->cxt);
	MosqlKnownNode *known;

	if (work->n == work->max)
	{
		work->max = Max(256, 2 * work->max);
		work->known = work->known == NULL ? palloc(work->max * sizeof(MosqlKnownNode)) :
			repalloc_huge(work->known, work->max * sizeof(MosqlKnownNode));
	}
	known = &work->known[work->n++];
	*known = (MosqlKnownNode) {.node = node,.meta = *meta,.nchildren = -1};
	known->meta.low = mosql_bytes_copy(work->cxt, meta->low);
	known->meta.high = mosql_bytes_copy(work->cxt, meta->high);
	known->meta.split_key = MOSQL_ABSENT;
	mosql_btree_known_children(known, mosql_bytes_copy(work->cxt, separators));
	MemoryContextSwitchTo(old);
}

/* VisitNodes */
static void
note_nodes(void *arg, const uint64 *nodes, int n)
{
	TreeRepair *work = arg;
	MosqlFieldRead *reads = palloc0(n * sizeof(MosqlFieldRead));
	MosqlBytes	fields[2] = {mosql_bytes("m", 1), mosql_bytes("s", 1)};
	MosqlNodeMeta meta;

	for (int i = 0; i < n; i++)
		reads[i] = (MosqlFieldRead) {.node = nodes[i],.nfields = 2,.fields = fields};
	mosql_step_read_fields(work->repair->stepper, reads, n, NULL);
	for (int i = 0; i < n; i++)
		if (reads[i].values[0].data != NULL && mosql_meta_decode(reads[i].values[0], &meta) &&
			meta.tree == mosql_btree_root(work->tree))
			note_node(work, nodes[i], &meta, reads[i].values[1]);
}

/*
 * Was a value refused for something that another server may see otherwise: a domain's
 * CHECK, a privilege, the database's encoding?  Then nothing is known to be damaged.
 */
static bool
is_of_this_server(int sqlstate)
{
	int			class = ERRCODE_TO_CATEGORY(sqlstate);

	return sqlstate != 0 && sqlstate != ERRCODE_DATA_CORRUPTED &&
		(class != ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION) ||
		 sqlstate == ERRCODE_UNTRANSLATABLE_CHARACTER);
}

typedef struct ValuesCheck
{
	const MosqlTable *table;
	MosqlBytes	key;
	MosqlBytes	columns;
} ValuesCheck;

/* A MosqlAttempt. */
static void
check_values(void *arg)
{
	const ValuesCheck *check = arg;

	mosql_table_check_values(check->table, check->key, check->columns);
}

/* What a type's own function says of the values; NULL: nothing. */
static const char *
values_fault(const MosqlTable *table, MosqlBytes key, MosqlBytes columns)
{
	ValuesCheck check = {table, key, columns};
	ErrorData  *error;

	mosql_codec_refused = 0;
	error = mosql_admin_attempt(check_values, &check);
	if (error == NULL)
		return NULL;
	/* text that this encoding does not have; a label that this enum lacks */
	if (error->sqlerrcode == ERRCODE_UNTRANSLATABLE_CHARACTER ||
		error->sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
		return NULL;
	if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
		ReThrowError(error);
	if (is_of_this_server(mosql_codec_refused))
		return NULL;
	return error->detail ? psprintf("%s: %s", error->message, error->detail) : error->message;
}

/* Of MosqlMending. */
static const char *
row_fault(void *arg, MosqlBytes key, MosqlBytes row)
{
	const TreeRepair *work = arg;
	MosqlHistory history;
	const char *fault = NULL;

	if (!mosql_history_decode(row, &history))
		return "a row that does not decode";
	if (history.n == 0 || !history.versions[0].live)
		return NULL;
	if (work->definitions)
		return mosql_table_definition_fault(key, history.versions[0].columns);
	if (work->table == NULL)
		return NULL;
	fault = mosql_table_check_row(work->table, key, history.versions[0].columns);
	return fault != NULL ? fault : values_fault(work->table, key, history.versions[0].columns);
}

typedef struct KeyText
{
	const MosqlTable *table;
	MosqlBytes	key;
	char	   *text;
} KeyText;

/* A MosqlTreeWork. */
static void
describe_key(void *arg)
{
	KeyText    *work = arg;

	work->text = mosql_table_describe_key(work->table, work->key);
}

/* A key for people: by its columns if they decode, which not all fences do, and its bytes. */
static char *
key_text(const TreeRepair *work, MosqlBytes key)
{
	KeyText		columns = {.table = work->table,.key = key};
	StringInfoData out;
	const char *damage;

	initStringInfo(&out);
	appendStringInfoString(&out, "\\x");
	for (size_t i = 0; i < key.len; i++)
		appendStringInfo(&out, "%02x", (unsigned char) key.data[i]);
	if (work->table != NULL && key.len > 0 &&
		mosql_session_try_tree_damage(describe_key, &columns, &damage) == MOSQL_TREE_SOUND)
		appendStringInfo(&out, " %s", columns.text);
	return out.data;
}

/* Of MosqlMending. */
static void
report_mended(void *arg, MosqlMendKind kind, uint64 node, MosqlBytes low, MosqlBytes high,
			  const char *fault)
{
	const TreeRepair *work = arg;
	Repair	   *repair = work->repair;
	char	   *name = mosql_admin_node_name(repair->session, node);
	char	   *range = psprintf("keys from %s %s", low.len > 0 ? key_text(work, low) : "the first",
								 high.data ? psprintf("to below %s", key_text(work, high)) :
								 "to the last");
	bool		dry = repair->dry_run;

	switch (kind)
	{
		case MOSQL_MEND_FIELD:
			mosql_repair_put(repair, name, psprintf("key %s: %s", key_text(work, low), fault),
							 dry ? "this row would be dropped" : "this row is dropped");
			break;
		case MOSQL_MEND_LEAF:
			mosql_repair_put(repair, name, psprintf("a leaf, %s: %s", range, fault),
							 dry ? "would be made anew, with the rows that are sound" :
							 "made anew, with the rows that are sound");
			break;
		case MOSQL_MEND_LOST:
			mosql_repair_put(repair, name, psprintf("a leaf, %s: %s", range, fault),
							 dry ? "its rows are lost; an empty leaf would be put there" :
							 "its rows are lost; an empty leaf is there now");
			break;
		case MOSQL_MEND_INNER:
			mosql_repair_put(repair, name, psprintf("an inner node, %s: %s", range, fault),
							 dry ? "would be made anew: nothing is lost by that" :
							 "made anew: nothing is lost by that");
			break;
		case MOSQL_MEND_SIGNPOST:
			mosql_repair_put(repair, name, psprintf("a node that was merged away, %s: %s", range, fault),
							 dry ? "would be made anew: nothing is lost by that" :
							 "made anew: nothing is lost by that");
			break;
		case MOSQL_MEND_SPLIT:
			mosql_repair_put(repair, name, psprintf("a leaf, %s: %s", range, fault),
							 dry ? "its split would be called off: nothing is lost by that" :
							 "its split is called off: nothing is lost by that");
			break;
		case MOSQL_MEND_LEFT:
			mosql_repair_put(repair, name,
							 psprintf("a leaf, %s: %s, so it may be of a split that was never finished",
									  range, fault),
							 dry ? "would be left out: its rows may be old" :
							 "left out: its rows may be old");
			break;
		case MOSQL_MEND_DOUBT:
			mosql_repair_put(repair, name,
							 psprintf("a leaf and those that follow, %s: %s", range, fault),
							 "kept; rows are old if a load died here that no maintenance has swept up after");
			break;
		case MOSQL_MEND_NOT:
			mosql_repair_put(repair, name, psprintf("%s: %s", range, fault),
							 "none: it decodes, and contradicts others");
			break;
	}
}

static int
mend(Repair *repair, uint64 root, const MosqlTable *table, bool definitions)
{
	TreeRepair	work = {
		.repair = repair,.tree = mosql_session_tree(repair->session, root),.table = table,
		.definitions = definitions,.cxt = CurrentMemoryContext
	};
	MosqlMending how = {
		.dry_run = repair->dry_run,.arg = &work,.row_fault = row_fault,.report = report_mended
	};

	mosql_session_visit_nodes(repair->session, note_nodes, &work);
	return mosql_btree_mend(work.tree, work.known, work.n, &how);
}

void
mosql_repair_table(Repair *repair)
{
	Oid			relid = mosql_repair_relation_target(repair, "a foreign table");
	Relation	rel;
	MosqlTable *table;
	int			done;

	rel = mosql_repair_table_target(repair, relid, AccessShareLock);
	table = mosql_table_open(rel, repair->session);
	done = mend(repair, mosql_btree_root(table->tree), table, false);
	for (int i = 0; i < table->nindexes && done > 0; i++)
		mosql_repair_put(repair, psprintf("index %s", quote_identifier(table->indexes[i].name)),
						 "it may have entries of rows that are gone",
						 "REINDEX, or mosql_fdw_repair(…, 'index', …), builds it anew");
	relation_close(rel, NoLock);
}

void
mosql_repair_definitions(Repair *repair)
{
	(void) mend(repair, mosql_table_catalog_root(), NULL, true);
}

void
mosql_repair_tree(Repair *repair)
{
	(void) mend(repair, mosql_repair_tree_target(repair), NULL, false);
}

/* ---- discarding ---- */

/* A MosqlTreeWork. */
static void
destroy_tree(void *arg)
{
	(void) mosql_btree_destroy(arg, NULL, NULL);
}

/* Do the bytes of a node that a tree leads to belong to no other tree? */
static bool
is_nobodys(MosqlBytes m, uint64 root)
{
	MosqlNodeMeta meta;

	return !mosql_meta_decode(m, &meta) || meta.tree == root;
}

/* Delete nodes that say nothing else; absent ones do not matter. */
static void
discard_nodes(Repair *repair, uint64 root, const uint64 *nodes, int n)
{
	MosqlFieldRead reads[REPAIR_BATCH];
	MosqlBytes	field = mosql_bytes("m", 1);

	for (int done = 0; done < n; done += REPAIR_BATCH)
	{
		int			batch = Min(n - done, REPAIR_BATCH);
		uint64		deletes[REPAIR_BATCH];
		int			ndeletes = 0;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < batch; i++)
			reads[i] = (MosqlFieldRead) {.node = nodes[done + i],.nfields = 1,.fields = &field};
		mosql_step_read_fields(repair->stepper, reads, batch, NULL);
		for (int i = 0; i < batch; i++)
			if (is_nobodys(reads[i].values[0], root))
				deletes[ndeletes++] = reads[i].node;
		if (ndeletes > 0)
			mosql_step_delete_nodes(repair->stepper, deletes, ndeletes, NULL);
	}
}

/*
 * As DROP does, as far as it gets; that marks the root dead, so that nobody attaches it.
 * Then, by their names, what that did not find, and what these lead to: a node whose meta
 * does not decode says nothing of its tree.  The root goes last: who is interrupted begins
 * again.
 */
void
mosql_repair_discard(Repair *repair, uint64 root)
{
	TreeRepair	work = {
		.repair = repair,.tree = mosql_session_tree(repair->session, root),.cxt = CurrentMemoryContext
	};
	const char *damage;

	(void) mosql_session_try_tree_damage(destroy_tree, work.tree, &damage);
	mosql_session_visit_nodes(repair->session, note_nodes, &work);
	for (int i = 0; i < work.n; i++)
	{
		const MosqlKnownNode *known = &work.known[i];
		int			nchildren = Max(known->nchildren, 0);
		uint64	   *nodes = palloc_extended((nchildren + 2) * sizeof(uint64), MCXT_ALLOC_HUGE);
		int			n = 0;

		for (int c = 0; c < nchildren; c++)
			nodes[n++] = known->children[c].node;
		if (known->meta.right != 0)
			nodes[n++] = known->meta.right;
		if (known->node != root)
			nodes[n++] = known->node;
		discard_nodes(repair, root, nodes, n);
		pfree(nodes);
	}
	discard_nodes(repair, root, &root, 1);
}
