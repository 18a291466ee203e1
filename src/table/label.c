/*
 * label.c: what a tree's root says about whose tree it is.
 *
 * Layer: table.  A definition names the trees of its table; if it is lost, nobody does.
 * So each root has a label: the catalog row that names the tree, for a table's own tree
 * and for the counter of a sequence that no column owns as a copy of the whole row, for
 * indexes and other counters by its key alone.  It says that the tree was somebody's,
 * hence is no garbage (txn/sweep.c), and what the table was, so that it can be attached
 * again (admin/repair.c).
 *
 * A label is no part of any transaction, and nothing relies on it as long as the
 * definition is there.  Who changes a definition writes the labels after its commit; if
 * it dies before, or somebody else's label of an older definition comes late, the next
 * pass of maintenance, which compares them all, puts it right.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "code/node.h"
#include "step/clock_keep.h"
#include "table/table_int.h"

/* Roots looked at in one round trip. */
#define LABEL_BATCH		256

typedef struct Labels
{
	MosqlSession *session;
	int			n;
	int			max;
	uint64	   *roots;
	MosqlBytes *labels;
} Labels;

static MosqlBytes
label_field(void)
{
	static const char name = MOSQL_FIELD_LABEL;

	return mosql_bytes(&name, 1);
}

/* ---- bytes ---- */

static MosqlBytes
encode_label(MosqlBytes key, MosqlBytes row)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, key.len);
	appendBinaryStringInfo(&out, key.data, (int) key.len);
	appendBinaryStringInfo(&out, row.data, (int) row.len);
	return mosql_bytes_of(&out);
}

/* False if it is damaged. */
static bool
decode_label(MosqlBytes in, MosqlTableLabel *label)
{
	uint64		len;

	if (!mosql_varint_get(&in, &len) || len == 0 || len > in.len)
		return false;
	label->key = mosql_bytes(in.data, (size_t) len);
	label->row = mosql_bytes(in.data + len, in.len - (size_t) len);
	return true;
}

/* ---- which trees have which ---- */

static void
add_label(Labels *labels, uint64 root, MosqlBytes key, MosqlBytes row)
{
	if (labels->n == labels->max)
	{
		labels->max = Max(16, 2 * labels->max);
		labels->roots = labels->roots == NULL ? palloc(labels->max * sizeof(uint64)) :
			repalloc(labels->roots, labels->max * sizeof(uint64));
		labels->labels = labels->labels == NULL ? palloc(labels->max * sizeof(MosqlBytes)) :
			repalloc(labels->labels, labels->max * sizeof(MosqlBytes));
	}
	labels->roots[labels->n] = root;
	labels->labels[labels->n++] = encode_label(key, row);
}

/* Trees of indexes under construction have none: without the definition they are garbage. */
static void
add_row(Labels *labels, MosqlBytes key, MosqlBytes row)
{
	const MosqlBytes none = mosql_bytes("", 0);
	const MosqlDefinition *table;

	if (mosql_catalog_is_sequence(key))
	{
		add_label(labels, mosql_named_sequence_decode(row, 0)->sequence.counter, key, row);
		return;
	}
	table = mosql_definition_decode(row, 0);
	add_label(labels, table->root, key, row);
	for (int i = 0; i < table->nindexes; i++)
		add_label(labels, table->indexes[i].root, key, none);
	for (int i = 0; i < table->ncolumns; i++)
		if (table->columns[i].sequence.counter != 0)
			add_label(labels, table->columns[i].sequence.counter, key, none);
}

/* ---- writing ---- */

/*
 * A step that writes a label where the root lives: a tree that was destroyed does not
 * come back by it.
 */
static MosqlStep *
label_step(uint64 root, const MosqlBytes *label)
{
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	step->node = root;
	step->repeatable = step->no_count = true;
	step->compares = palloc(sizeof(MosqlCompare));
	mosql_step_expect(step, MOSQL_COMPARE_IN, mosql_bytes("m", 1), MOSQL_META_STATE_OFFSET,
					  mosql_bytes("N", 1));
	step->writes = palloc(sizeof(MosqlWrite));
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_SET, label_field(), *label};
	return step;
}

static void
write_labels(const Labels *labels)
{
	MosqlStep **steps = palloc(Max(labels->n, 1) * sizeof(MosqlStep *));

	for (int i = 0; i < labels->n; i++)
		steps[i] = label_step(labels->roots[i], &labels->labels[i]);
	for (int done = 0; done < labels->n; done += LABEL_BATCH)
		mosql_step_run(mosql_session_stepper(labels->session), steps + done,
					   Min(labels->n - done, LABEL_BATCH), NULL);
}

/* Take those out that are there already, and those of damaged roots. */
static void
drop_written(Labels *labels)
{
	MosqlBytes	fields[2];
	MosqlNodeMeta meta;
	MosqlFieldRead *reads = palloc0(Max(labels->n, 1) * sizeof(MosqlFieldRead));
	int			n = 0;

	for (int i = 0; i < labels->n; i++)
		reads[i] = (MosqlFieldRead) {.node = labels->roots[i],.nfields = 2,.fields = fields};
	fields[0] = mosql_bytes("m", 1);
	fields[1] = label_field();
	for (int done = 0; done < labels->n; done += LABEL_BATCH)
		mosql_step_read_fields(mosql_session_stepper(labels->session), reads + done,
							   Min(labels->n - done, LABEL_BATCH), NULL);
	for (int i = 0; i < labels->n; i++)
	{
		if (reads[i].values[0].data == NULL || !mosql_meta_decode(reads[i].values[0], &meta) ||
			(reads[i].values[1].data != NULL &&
			 mosql_bytes_equal(reads[i].values[1], labels->labels[i])))
			continue;
		labels->roots[n] = labels->roots[i];
		labels->labels[n++] = labels->labels[i];
	}
	labels->n = n;
}

/* ---- who writes them ---- */

/* MosqlSchemaChanged: the definitions that the transaction has written.  One round trip. */
void
mosql_table_label_changed(MosqlSession *session)
{
	Labels		labels = {.session = session};
	MosqlBytes	key;
	MosqlBytes	row;

	for (int i = 0; mosql_table_changed(session, i, &key, &row); i++)
		if (row.data != NULL)
			add_row(&labels, key, row);
	write_labels(&labels);
}

/* A MosqlCatalogVisit. */
static void
visit_row(const MosqlRow *row, void *arg)
{
	add_row(arg, mosql_bytes_copy(CurrentMemoryContext, row->key), row->columns);
}

/* See table.h. */
void
mosql_table_refresh_labels(MosqlSession *session)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql labels",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Labels		labels = {.session = session};

	mosql_catalog_scan(session, mosql_bytes("", 0), visit_row, &labels);
	drop_written(&labels);
	write_labels(&labels);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ---- reading ---- */

/* See table.h. */
bool
mosql_table_read_label(MosqlSession *session, uint64 root, MosqlTableLabel *label)
{
	MosqlBytes	field = label_field();
	MosqlFieldRead read = {.node = root,.nfields = 1,.fields = &field};

	mosql_step_read_fields(mosql_session_stepper(session), &read, 1, NULL);
	return read.values[0].data != NULL && decode_label(read.values[0], label);
}

/* "public.t" of a catalog row's key; NULL if it is none. */
static char *
name_of_key(MosqlBytes key)
{
	const char *names[2];

	key = mosql_bytes(key.data + 1, key.len - 1);
	for (int i = 0; i < 2; i++)
	{
		StringInfoData out;
		MosqlBytes	text;

		initStringInfo(&out);
		if (!mosql_key_get_bytes(&key, &out))
			return NULL;
		text = mosql_text_from_utf8(mosql_bytes_of(&out));
		if (text.data == NULL)
			return NULL;
		names[i] = pnstrdup(text.data, text.len);
	}
	return quote_qualified_identifier(names[0], names[1]);
}

/* What a label says, as text. */
typedef struct LabelWork
{
	const MosqlTableLabel *label;
	char	   *text;			/* NULL: its key does not decode */
} LabelWork;

static char *
text_of_label(const MosqlTableLabel *label)
{
	char	   *name = name_of_key(label->key);
	const MosqlDefinition *table;
	StringInfoData out;
	bool		first = true;

	if (name == NULL)
		return NULL;
	if (mosql_catalog_is_sequence(label->key))
	{
		(void) mosql_named_sequence_decode(label->row, 0);
		return psprintf("sequence %s", name);
	}
	if (label->row.len == 0)
		return psprintf("index or sequence of %s", name);
	table = mosql_definition_decode(label->row, 0);
	initStringInfo(&out);
	appendStringInfo(&out, "table %s (", name);
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (table->columns[i].dropped)
			continue;
		appendStringInfo(&out, "%s%s %s", first ? "" : ", ", quote_identifier(table->columns[i].name),
						 table->columns[i].type);
		first = false;
	}
	appendStringInfoChar(&out, ')');
	return out.data;
}

/* A MosqlTreeWork. */
static void
describe_label(void *arg)
{
	LabelWork  *work = arg;

	work->text = text_of_label(work->label);
}

/* See table.h. */
char *
mosql_table_label_text(const MosqlTableLabel *label)
{
	LabelWork	work = {.label = label};
	const char *damage;

	return mosql_session_try_tree_damage(describe_label, &work, &damage) == MOSQL_TREE_SOUND
		? work.text : NULL;
}

/* ---- back into the catalog ---- */

typedef struct ExistsWork
{
	MosqlNodeStore *store;
	uint64		root;
	bool		exists;
} ExistsWork;

/* A MosqlTreeWork. */
static void
look_at_root(void *arg)
{
	ExistsWork *work = arg;

	work->exists = mosql_btree_exists(work->store, work->root);
}

/* Is the root of a tree there, and does it decode? */
static bool
is_there(MosqlSession *session, uint64 root)
{
	ExistsWork	work = {.store = mosql_session_store(session),.root = root};
	const char *damage;

	return mosql_session_try_tree_damage(look_at_root, &work, &damage) == MOSQL_TREE_SOUND && work.exists;
}

/* Leave out what the definition names and Redis has lost. */
static void
leave_out_lost(MosqlSession *session, MosqlDefinition *table, List **notes)
{
	int			n = 0;

	for (int i = 0; i < table->nindexes; i++)
	{
		if (is_there(session, table->indexes[i].root))
			table->indexes[n++] = table->indexes[i];
		else
			*notes = lappend(*notes, psprintf("index \"%s\" is lost: create it again",
											  table->indexes[i].name));
	}
	table->nindexes = n;
	for (int i = 0; i < table->ncolumns; i++)
	{
		MosqlDefinitionColumn *column = &table->columns[i];

		if (column->sequence.counter == 0 || is_there(session, column->sequence.counter))
			continue;
		column->sequence.counter = 0;
		*notes = lappend(*notes, psprintf("the sequence of column \"%s\" is lost", column->name));
	}
	table->nbuilds = 0;			/* nobody goes on with them */
}

/* The row of a table, without what is lost; of a sequence as it is.  *root: the tree it is of. */
static MosqlBytes
row_to_attach(MosqlSession *session, const MosqlTableLabel *label, uint64 *root, List **notes)
{
	MosqlDefinition *table;

	if (mosql_catalog_is_sequence(label->key))
	{
		*root = mosql_named_sequence_decode(label->row, 0)->sequence.counter;
		return label->row;
	}
	table = mosql_definition_decode(label->row, 0);
	*root = table->root;
	leave_out_lost(session, table, notes);
	mosql_definition_encode(table);
	return table->bytes;
}

/* What gets a name is not to be destroyed, should a commit have dropped it (txn/garbage.c). */
static void
take_off_list(MosqlSession *session, const MosqlTableLabel *label, MosqlBytes row, uint64 root)
{
	const MosqlDefinition *table = mosql_catalog_is_sequence(label->key) ? NULL :
		mosql_definition_decode(row, 0);
	uint64	   *roots = palloc((1 + (table ? table->nindexes + table->ncolumns : 0)) * sizeof(uint64));
	int			n = 0;

	roots[n++] = root;
	for (int i = 0; table != NULL && i < table->nindexes; i++)
		roots[n++] = table->indexes[i].root;
	for (int i = 0; table != NULL && i < table->ncolumns; i++)
		if (table->columns[i].sequence.counter != 0)
			roots[n++] = table->columns[i].sequence.counter;
	mosql_clock_drop_garbage(mosql_session_stepper(session), roots, n);
}

/* See table.h. */
void
mosql_table_attach(MosqlSession *session, uint64 root, const MosqlTableLabel *label, bool dry_run,
				   List **notes)
{
	MosqlBytes	bytes;
	MosqlRow	row = {0};
	uint64		named;

	if (label->row.len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the tree is an index or a sequence of a table"),
				 errhint("Attach the table's own tree: it names this one.")));
	if (mosql_catalog_get(session, label->key, &row))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("there is a definition of that name in Redis: %s",
						mosql_table_label_text(label)),
				 errhint("Drop or rename what has the name now.")));
	bytes = row_to_attach(session, label, &named, notes);
	if (named != root)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("what the tree says it was is another one")));
	if (!is_there(session, root))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the tree is gone, or is being destroyed")));
	if (dry_run)
		return;
	take_off_list(session, label, bytes, root);
	mosql_catalog_insert(session, label->key, bytes);
}

typedef struct FaultWork
{
	MosqlBytes	key;
	MosqlBytes	columns;
} FaultWork;

/* A MosqlTreeWork. */
static void
decode_row(void *arg)
{
	FaultWork  *work = arg;

	if (mosql_catalog_is_sequence(work->key))
		(void) mosql_named_sequence_decode(work->columns, 0);
	else
		(void) mosql_definition_decode(work->columns, 0);
}

const char *
mosql_table_definition_fault(MosqlBytes key, MosqlBytes columns)
{
	FaultWork	work = {key, columns};
	const char *damage;

	(void) mosql_session_try_tree_damage(decode_row, &work, &damage);
	return damage;
}
