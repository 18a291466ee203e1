/*
 * view.c: what a statement sees; reads by key.
 *
 * Layer: txn.  READ COMMITTED draws a snapshot per statement, the levels above
 * one per transaction; both only when something is read, and both are
 * registered at the clock in the same step that draws them (rule 8).  A READ
 * COMMITTED statement that reads a single row by key takes its latest version
 * without a snapshot (rule 12); one that reads what is in one leaf takes what is there,
 * if nobody is committing (rule 45, scan.c).
 */
#include "postgres.h"

#include "access/xact.h"

#include "code/claim.h"
#include "txn/reuse.h"
#include "txn/txn_int.h"
#include "txn/usual.h"
#include "txn/view_int.h"

MosqlSchemaMoved mosql_txn_schema_moved = NULL;

/* ---- snapshots ---- */

/*
 * A snapshot, and the schema version at it: what the session then knows.
 *
 * Race -- the reply was lost, and the call is sent again: it returns the snapshot that was registered
 * first, and the version as it is now, which may count changes that the snapshot does not show. A
 * version that was known before the snapshot was drawn, and is the same now, is the one at it: if it has
 * moved, another one is drawn.
 */
static MosqlTimestamp
draw_snapshot(MosqlTxn *txn, uint64 *snapid, uint64 *sid, MosqlNodesAlong *along)
{
	MosqlSession *session = txn->session;
	MosqlTimestamp S;
	uint64		schema = session->schema;
	uint64		known;
	MosqlMoment before;

	do
	{
		CHECK_FOR_INTERRUPTS();
		mosql_session_forget_drawing(session);
		*snapid = session->drawing = ++session->last_snapid;
		known = schema;
		before = mosql_session_moment(session);
		while (!mosql_clock_snapshot_along(&session->stepper, session->sid, *snapid, mosql_txn_lease_ms,
										   &S, &schema, along))
		{
			mosql_session_renew(session);
			*snapid = session->drawing = ++session->last_snapid;
			known = session->schema;
			before = mosql_session_moment(session);
		}
	} while (schema != known);
	session->drawing = 0;
	*sid = session->sid;
	session->schema = schema;
	session->heard = before;
	session->ask_schema = false;
	mosql_session_note_contact(session);
	return S;
}

static void
release_statement(MosqlTxn *txn, MosqlStatement *statement)
{
	if (statement->drawn)
		mosql_clock_release(&txn->session->stepper, statement->sid, statement->snapid);
	statement->drawn = false;
}

static void
free_statement(MosqlTxn *txn, MosqlStatement *statement)
{
	release_statement(txn, statement);
	if (statement->seen != NULL)
		mosql_seen_free(statement->seen);
	pfree(statement);
}

/*
 * Writes stay as well certified as they are: commit compares the versions that
 * they were based on exactly, at every level.
 */
void
mosql_txn_serialize(MosqlTxn *txn)
{
	txn->isolation = MOSQL_SERIALIZABLE;
}

/* See txn.h. */
bool
mosql_txn_is_read_committed(const MosqlTxn *txn)
{
	return txn->isolation == MOSQL_READ_COMMITTED;
}

/* A statement that began to read at its own snapshot goes on so, also if the
 * transaction was made SERIALIZABLE meanwhile. */
bool
mosql_view_has_own_snapshot(const MosqlView *view)
{
	return view->txn->isolation == MOSQL_READ_COMMITTED || view->statement->drawn;
}

/*
 * Both are of one moment: a change of a definition is visible to S if and only if the
 * schema version that came with S counts it (race 13).  Whatever else the session has heard of
 * it since the transaction's definitions were compared last counts as moved.  False: a later S is to
 * be drawn, for a table was locked.
 */
static bool
check_schema(MosqlView *view)
{
	MosqlTxn   *txn = view->txn;
	uint64		schema = txn->session->schema;
	bool		moved = false;

	if (schema != txn->compared && mosql_txn_schema_moved != NULL)
		moved = mosql_txn_schema_moved(txn->session, view);
	txn->compared = schema;
	return !moved;
}

/* The snapshot that a view reads at; MOSQL_TS_MAX: the latest.  along: what it brings if it is drawn; or NULL. */
static MosqlTimestamp
view_snapshot(MosqlView *view, bool range, MosqlNodesAlong *along)
{
	MosqlTxn   *txn = view->txn;
	MosqlStatement *statement = view->statement;

	if (along != NULL)
		along->came = false;
	if (!mosql_view_has_own_snapshot(view))
	{
		while (!txn->drawn)
		{
			txn->S = draw_snapshot(txn, &txn->snapid, &txn->snap_sid, along);
			txn->S_schema = txn->session->schema;
			txn->drawn = true;
			mosql_txn_keep(txn);
			if (!check_schema(view))
			{
				mosql_clock_release(&txn->session->stepper, txn->snap_sid, txn->snapid);
				txn->drawn = false;
			}
		}
		return txn->S;
	}
	if (view->single_read && !view->late && !range)
		return MOSQL_TS_MAX;
	while (!statement->drawn)
	{
		statement->S = draw_snapshot(txn, &statement->snapid, &statement->sid, along);
		statement->drawn = true;
		if (!check_schema(view))
			release_statement(txn, statement);
	}
	return statement->S;
}

/* No view is open, so nothing points there: what is full makes room for the next statements. */
static void
start_over(MosqlTxn *txn)
{
	if (txn->seen == NULL || !mosql_seen_is_full(txn->seen))
		return;
	mosql_seen_free(txn->seen);
	txn->seen = NULL;
}

MosqlView *
mosql_view_open(MosqlTxn *txn, const void *statement_id, CommandId curcid, bool single_read)
{
	MosqlView  *view = MemoryContextAllocZero(txn->cxt, sizeof(MosqlView));
	MosqlStatement *statement;

	if (txn->nviews == 0)
		start_over(txn);
	for (statement = txn->statements; statement != NULL; statement = statement->next)
		if (statement->id == statement_id)
			break;
	if (statement == NULL)
	{
		statement = MemoryContextAllocZero(txn->cxt, sizeof(MosqlStatement));
		statement->id = statement_id;
		statement->level = GetCurrentTransactionNestLevel();
		statement->next = txn->statements;
		txn->statements = statement;
	}
	statement->nviews++;
	txn->nviews++;
	view->txn = txn;
	view->statement = statement;
	view->curcid = curcid;
	view->single_read = single_read;
	view->schema = txn->session->schema;
	return view;
}

/* See txn.h.  The snapshot comes with the schema version, and with a look at the definitions if it has moved. */
void
mosql_view_begin_read(MosqlView *view)
{
	const MosqlSession *session = view->txn->session;

	view->late |= !mosql_session_is_fresh(session) || session->schema != view->schema;
}

void
mosql_view_certify(MosqlView *view)
{
	view->certified = true;
}

static void
unlink_statement(MosqlTxn *txn, MosqlStatement *statement)
{
	MosqlStatement **at = &txn->statements;

	while (*at != statement)
		at = &(*at)->next;
	*at = statement->next;
	free_statement(txn, statement);
}

/* Its last view is closed.  If it lingers, nobody finds it any more but the end of the transaction. */
static void
end_statement(MosqlTxn *txn, MosqlStatement *statement)
{
	if (!statement->lingers)
	{
		unlink_statement(txn, statement);
		return;
	}
	if (statement->seen != NULL)
		mosql_seen_free(statement->seen);
	statement->seen = NULL;
	statement->id = statement;
}

void
mosql_view_close(MosqlView *view)
{
	MosqlTxn   *txn = view->txn;

	Assert(txn->nviews > 0 && view->statement->nviews > 0);
	mosql_view_ahead_start(view, NULL);
	txn->nviews--;
	if (--view->statement->nviews == 0)
		end_statement(txn, view->statement);
	pfree(view);
	if (txn->nviews == 0)
		mosql_handles_end_statements(txn);
}

/* ---- reads by key ---- */

/* Trees that are gone for longer, while no definitions change, are lost. */
#define GONE_PATIENCE_US	3000000

/*
 * Called by ereport().  Who tries again knows the newest definitions, and soon has made
 * its plans by them: if these stay the same, and a tree stays gone, it was not dropped,
 * but Redis has lost it.
 */
static void
report_gone_as_conflict(void *arg)
{
	MosqlSession *session = arg;
	int64		now = mosql_now_us();

	if (geterrcode() != ERRCODE_UNDEFINED_TABLE || session->txn == NULL)
		return;
	if (session->gone_schema != session->txn->schema ||
		now - session->gone_last_us > GONE_PATIENCE_US)
		session->gone_since_us = now;
	session->gone_schema = session->txn->schema;
	session->gone_last_us = now;
	if (now - session->gone_since_us < GONE_PATIENCE_US)
		(void) errcode(ERRCODE_T_R_SERIALIZATION_FAILURE);
}

void
mosql_txn_begin_read(MosqlSession *session, ErrorContextCallback *context)
{
	context->callback = report_gone_as_conflict;
	context->arg = session;
	context->previous = error_context_stack;
	error_context_stack = context;
}

/*
 * Answer from the write buffer; false if it knows nothing of the key.  Of an increment it
 * shows the stored row as well: that was read, and stays so should the increment be rolled
 * back to a savepoint.  (Of an update, its own read notes as much; of a row that a scan
 * meets, its range.)
 */
static bool
get_own(MosqlView *view, MosqlBuffer *buffer, MosqlBytes key, bool bind, MosqlRow *row)
{
	MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, key) : NULL;
	MosqlChange *change = entry ? mosql_entry_visible(entry, view->curcid) : NULL;

	if (change == NULL)
		return false;
	if (change->kind == MOSQL_CHANGE_INCREMENT && bind)
	{
		buffer->looked = true;
		mosql_txn_note_read(view->txn, buffer->tree, key);
		mosql_change_bind(view->txn, buffer->tree, entry);
	}
	row->key = key;
	row->found = change->kind != MOSQL_CHANGE_DELETE;
	row->own = true;
	row->version = change->version;
	row->columns = row->found ? mosql_change_columns(view->txn, change) : MOSQL_ABSENT;
	return true;
}

/*
 * Rows that are read from Redis: rows[where[i]] for wanted[i].  bind: increments that are
 * shown become updates; else those in flight are not asked about.
 */
static void
read_rows(MosqlView *view, MosqlTree *tree, MosqlTimestamp S, const MosqlBytes *wanted,
		  const int *where, int n, MosqlPoint *points, bool bind, MosqlRow *rows)
{
	MosqlTxn   *txn = view->txn;
	bool		usual = !bind && n == 1 && S == MOSQL_TS_MAX;
	MosqlStatusCache cache = {0};

	memset(points, 0, n * sizeof(MosqlPoint));
	if (usual && mosql_usual_get(txn, tree, wanted[0], points))
		rows[where[0]].unsettled = true;
	else
		mosql_btree_get(tree, wanted, n, points);
	for (int i = 0; i < n && !bind && S == MOSQL_TS_MAX; i++)
		if (mosql_point_has_increments(&points[i]))
		{
			points[i].intent = MOSQL_ABSENT;
			rows[where[i]].unsettled = true;
		}
	mosql_points_settle(txn->session, tree, wanted, points, n, S == MOSQL_TS_MAX, &cache);
	for (int i = 0; i < n; i++)
	{
		MosqlRow   *row = &rows[where[i]];

		row->key = wanted[i];
		row->columns = MOSQL_ABSENT;
		row->claimed = mosql_claims_begin(points[i].intent);
		row->found = mosql_point_visible(txn->session, &points[i], points[i].leaf, S, &cache,
										 &row->columns, &row->version);
		row->taken = mosql_lock_is_taken(txn, points[i].intent) ||
			(points[i].locks && points[i].intent.data != NULL && points[i].loader.session != txn->session->sid);
		if (bind || !row->found)
			mosql_txn_note_read(txn, tree, wanted[i]);
		else if (usual)
			mosql_usual_note(txn, tree, points[i].leaf);
	}
}

/* The same, but for those that the snapshot has seen. */
static void
get_others(MosqlView *view, MosqlTree *tree, MosqlTimestamp S, MosqlBytes *wanted, int *where,
		   int n, bool bind, MosqlRow *rows)
{
	MosqlSeen  *seen = bind ? mosql_reuse_seen(view, tree, S) : NULL;
	MosqlPoint	one_point;
	MosqlPoint *points = &one_point;
	ErrorContextCallback context;

	mosql_txn_begin_read(view->txn->session, &context);
	if (seen != NULL)
		n = mosql_reuse_get(view, tree, seen, wanted, where, n, rows);
	if (n > 1)
		points = palloc(n * sizeof(MosqlPoint));
	if (n > 0)
		read_rows(view, tree, S, wanted, where, n, points, bind, rows);
	if (n > 0 && mosql_reuse_fills(view, seen))
		mosql_reuse_keep_rows(seen, tree, points, where, n, rows);
	mosql_txn_end_read(&context);
}

/* together: rows of one moment.  bind: increments that are shown become updates. */
static void
get_rows(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n, MosqlRow *rows,
		 bool together, bool bind)
{
	MosqlBuffer *buffer = mosql_buffer_find(view->txn, tree, false);
	MosqlBytes	one_key;
	int			one_where;
	MosqlBytes *wanted = n == 1 ? &one_key : palloc(n * sizeof(MosqlBytes));
	int		   *where = n == 1 ? &one_where : palloc(n * sizeof(int));
	int			m = 0;

	if (bind)
		mosql_look_at_keys(view->txn, buffer, view->curcid, keys, n);
	for (int i = 0; i < n; i++)
	{
		rows[i].unsettled = rows[i].own = rows[i].taken = rows[i].claimed = false;
		if (get_own(view, buffer, keys[i], bind, &rows[i]))
			continue;
		where[m] = i;
		wanted[m++] = keys[i];
	}
	if (m > 0 && mosql_load_is_later(view, tree))
		for (int i = 0; i < m; i++)
			rows[where[i]] = (MosqlRow) {.key = wanted[i]};
	else if (m > 0)
	{
		MosqlTimestamp S = view_snapshot(view, together && n > 1, NULL);

		get_others(view, tree, S, wanted, where, m, bind, rows);
		if (S == MOSQL_TS_MAX && mosql_session_lost_touch(view->txn->session))
		{
			view->late = true;
			get_others(view, tree, view_snapshot(view, false, NULL), wanted, where, m, bind, rows);
		}
	}
}

void
mosql_view_get(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n, MosqlRow *rows)
{
	get_rows(view, tree, keys, n, rows, true, true);
}

void
mosql_view_get_each(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n, MosqlRow *rows)
{
	get_rows(view, tree, keys, n, rows, false, true);
}

void
mosql_view_peek(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n, MosqlRow *rows)
{
	get_rows(view, tree, keys, n, rows, false, false);
}

void
mosql_view_doubt(MosqlView *view, MosqlTree *tree)
{
	mosql_btree_doubt(tree, view->txn->breaks, NULL, 0);
}

/*
 * A long statement: register its snapshot once more, which extends the lease
 * and returns the same S.  What was lost meanwhile shows as "too old".
 */
void
mosql_view_keep_alive(MosqlView *view)
{
	MosqlTxn   *txn = view->txn;
	MosqlSession *session = txn->session;
	MosqlStatement *statement = view->statement;
	bool		of_txn = !mosql_view_has_own_snapshot(view);
	uint64		sid = of_txn ? txn->snap_sid : statement->sid;
	MosqlTimestamp S;
	uint64		schema;

	if (mosql_now_us() - session->contact_us < (int64) mosql_txn_lease_ms * 1000 / 3)
		return;
	if (txn->joined)
	{
		(void) mosql_session_extend(session);	/* the snapshot is the leader's */
		return;
	}
	if (!(of_txn ? txn->drawn : statement->drawn) || sid != session->sid)
		return;
	if (mosql_clock_snapshot(&session->stepper, sid, of_txn ? txn->snapid : statement->snapid,
							 mosql_txn_lease_ms, &S, &schema))
		mosql_session_note_contact(session);
}

MosqlTimestamp
mosql_view_snapshot(MosqlView *view)
{
	return view_snapshot(view, true, NULL);
}

MosqlTimestamp
mosql_view_snapshot_along(MosqlView *view, MosqlNodesAlong *along)
{
	return view_snapshot(view, true, along);
}

bool
mosql_view_would_draw(const MosqlView *view)
{
	return mosql_view_has_own_snapshot(view) ? !view->statement->drawn : !view->txn->drawn;
}

/* See view_int.h. */
bool
mosql_view_may_do_without(const MosqlView *view)
{
	return view->txn->isolation == MOSQL_READ_COMMITTED && !view->statement->drawn && !view->late && !view->certified;
}

bool
mosql_view_knows_definitions(const MosqlView *view)
{
	return view->txn->session->schema == view->txn->compared;
}

/* A subtransaction ended in an error: forget the statements begun inside it. */
void
mosql_view_subabort(MosqlTxn *txn, int level)
{
	MosqlStatement **at = &txn->statements;

	txn->nmet = 0;
	while (*at != NULL)
	{
		MosqlStatement *statement = *at;

		if (statement->level < level)
		{
			at = &statement->next;
			continue;
		}
		*at = statement->next;
		txn->nviews -= statement->nviews;
		free_statement(txn, statement);
	}
}

/* The transaction ends: nothing is registered any more.  Detached sends. */
void
mosql_view_end(MosqlTxn *txn)
{
	for (MosqlStatement *s = txn->statements; s != NULL; s = s->next)
		release_statement(txn, s);
	txn->statements = NULL;
	if (txn->drawn && !txn->joined)
		mosql_clock_release(&txn->session->stepper, txn->snap_sid, txn->snapid);
	txn->drawn = false;
}

/* ---- tokens ---- */

uint32
mosql_txn_new_tag(MosqlTxn *txn)
{
	return (uint32) (mosql_random_next(&txn->random) >> 32) ^ (uint32) (txn->session->sid * UINT64CONST(2654435761));
}

/*
 * The timestamp of an own row is that of the version before.  After the commit it is
 * another one, which nobody knows yet; a tag stays.
 */
static void
tag_own(MosqlView *view, MosqlTree *tree, MosqlRow *row)
{
	MosqlTxn   *txn = view->txn;
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, row->key) : NULL;
	MosqlChange *change = entry ? mosql_entry_visible(entry, view->curcid) : NULL;
	MemoryContext old;
	StringInfoData columns;

	if (change == NULL || change->kind != MOSQL_CHANGE_PUT)
		return;
	if (!mosql_row_is_tagged(change->columns))
	{
		old = MemoryContextSwitchTo(txn->cxt);
		mosql_string_init(&columns, change->columns.len + 16);
		appendBinaryStringInfo(&columns, change->columns.data, (int) change->columns.len);
		mosql_row_tag(&columns, mosql_txn_new_tag(txn));
		mosql_txn_account(txn, columns.len);
		change->columns = mosql_bytes_of(&columns);
		MemoryContextSwitchTo(old);
	}
	row->columns = change->columns;
}

uint32
mosql_view_token(MosqlView *view, MosqlTree *tree, MosqlRow *row)
{
	if (row->own)
		tag_own(view, tree, row);
	return mosql_row_token(row->version, row->columns);
}
