/*
 * oracle.c: what was committed, in order; see oracle.h.
 */
#include "locks.h"

#include <stdlib.h>

#define LATEST	MOSQL_TS_MAX

/* Less than intent_timeout, and than half a lease, to which a lease is extended. */
#define SOON_US	400000

typedef struct History
{
	int			n;
	int			max;
	Version    *versions;		/* ascending */
} History;

static History histories[TREES][KEYS_MAX];
static SimTx **running;			/* and those whose end nobody knows */
static int	nrunning;
static int	maxrunning;

/* Of each namespace: what is committed, ascending by ts. */
typedef struct Log
{
	SimTx	  **committed;
	int			n;
	int			max;
} Log;

static Log	logs[2];
static SimTx **unknowns;
static int	nunknown;
static int	maxunknown;
static int	last_number;
static uint32 last_token;

uint64		oracle_commits;

MosqlTimestamp
oracle_moment(int tree)
{
	const Log  *log = &logs[tree == TREE_FAR];

	return log->n > 0 ? log->committed[log->n - 1]->ts : 0;
}

MosqlTimestamp
oracle_next(int tree, MosqlTimestamp moment)
{
	const Log  *log = &logs[tree == TREE_FAR];
	int			i = log->n;

	while (i > 0 && log->committed[i - 1]->ts > moment)
		i--;
	return i < log->n ? log->committed[i]->ts : 0;
}

uint32
oracle_token(void)
{
	return ++last_token;
}

bool
row_equal(Row a, Row b)
{
	return a.live == b.live && (!a.live || (a.n == b.n && a.token == b.token));
}

static const Version *
version_at(int tree, int key, MosqlTimestamp S)
{
	const History *h = &histories[tree][key];
	int			i = h->n;

	while (i > 0 && h->versions[i - 1].ts > S)
		i--;
	return i > 0 ? &h->versions[i - 1] : NULL;
}

Row
oracle_stored(int tree, int key, MosqlTimestamp S)
{
	const Version *v = version_at(tree, key, S);

	return v != NULL ? v->row : (Row) {false};
}

const Write *
oracle_own(const SimTx *tx, int tree, int key)
{
	for (int i = 0; i < tx->nwrites; i++)
		if (tx->writes[i].tree == tree && tx->writes[i].key == key)
			return &tx->writes[i];
	return NULL;
}

Row
oracle_row(const SimTx *tx, int tree, int key, MosqlTimestamp S)
{
	const Write *own = oracle_own(tx, tree, key);
	Row			row;

	if (own != NULL && !own->add)
		return own->row;
	row = oracle_stored(tree, key, S);
	if (own != NULL)
		row.n += own->delta;
	return row;
}

bool
oracle_was(int tree, int key, MosqlTimestamp since, Row row)
{
	const History *h = &histories[tree][key];

	for (int i = h->n - 1;; i--)
	{
		Row			then = i >= 0 ? h->versions[i].row : (Row) {false};

		if (row_equal(then, row))
			return true;
		if (i < 0 || h->versions[i].ts <= since)
			return false;
	}
}

bool
oracle_was_live(int tree, int key, MosqlTimestamp since)
{
	const History *h = &histories[tree][key];

	for (int i = h->n - 1; i >= 0; i--)
	{
		if (h->versions[i].row.live)
			return true;
		if (h->versions[i].ts <= since)
			break;
	}
	return false;
}

bool
oracle_stayed(int tree, int key, MosqlTimestamp since)
{
	const History *h = &histories[tree][key];

	for (int i = h->n - 1; i >= 0 && h->versions[i].row.live; i--)
		if (h->versions[i].ts <= since)
			return true;
	return false;
}

/* ---- the trees of TREE_TABLE, one after the other ---- */

typedef struct Epoch
{
	uint64		root;
	MosqlTimestamp since;
	SimTx	   *tx;				/* that truncated; NULL: the first */
} Epoch;

static Epoch *epochs;
static int	nepochs;
static int	maxepochs;

static void
push_epoch(uint64 root, MosqlTimestamp since, SimTx *tx)
{
	if (nepochs == maxepochs)
		epochs = realloc(epochs, (maxepochs = Max(64, 2 * maxepochs)) * sizeof(Epoch));
	epochs[nepochs++] = (Epoch) {root, since, tx};
}

void
oracle_table_made(uint64 root)
{
	push_epoch(root, 0, NULL);
}

uint64
oracle_table_root(void)
{
	return epochs[nepochs - 1].root;
}

/*
 * Each COMMIT waits for itself (rule 39): who truncates once more what nobody was told of yet may be told first.  So
 * it is its own truncation that counts, and that is known to all a second after it is decided.
 */
bool
oracle_table_is_old(uint64 root, int64 since_us)
{
	for (int e = 0; e + 1 < nepochs; e++)
	{
		const SimTx *tx = epochs[e + 1].tx;

		if (epochs[e].root == root)
			return (tx->acknowledged && tx->acknowledged_us < since_us) ||
				tx->committed_us + (int64) MOSQL_SCHEMA_FRESH_MS * 1000 < since_us;
	}
	return false;
}

Row
oracle_table_row(uint64 root, int key, MosqlTimestamp S, bool *truncated)
{
	int			e = nepochs - 1;

	*truncated = false;
	while (e >= 0 && epochs[e].root != root)
		e--;
	if (e < 0 || S < epochs[e].since)
		return (Row) {false};	/* not committed yet, or not then: TRUNCATE has no versions */
	*truncated = e + 1 < nepochs && S >= epochs[e + 1].since;
	return oracle_stored(TREE_TABLE, key, S);
}

/* ---- transactions ---- */

SimTx *
oracle_begin(MosqlSession *session, MosqlIsolation isolation)
{
	SimTx	   *tx = calloc(1, sizeof(SimTx));

	tx->number = ++last_number;
	tx->session = session;
	tx->far = strcmp(session->config.ns, "far") == 0;
	tx->before = session->last_tx;
	tx->isolation = isolation;
	tx->began_us = sim_now_us;
	return tx;
}

void
oracle_committing(SimTx *tx)
{
	tx->state = TX_COMMITTING;
	tx->committing_us = sim_now_us;
	if (nrunning == maxrunning)
		running = realloc(running, (maxrunning = Max(64, 2 * maxrunning)) * sizeof(SimTx *));
	running[nrunning++] = tx;
	if (tx->with != NULL)
		oracle_committing(tx->with);
}

static void
leave(SimTx *tx)
{
	for (int i = 0; i < nrunning; i++)
		if (running[i] == tx)
			running[i--] = running[--nrunning];
}

/* Its attempt stays what it is, whatever the session does next. */
static void
freeze(SimTx *tx)
{
	tx->frozen = true;
	tx->sid = tx->session->sid;
	tx->n = tx->session->last_tx;
}

/* Something that has to be judged stays: nothing written, nothing to judge. */
static bool
has_effect(const SimTx *tx)
{
	if (tx->defines)
		return true;
	for (int i = 0; i < tx->nwrites; i++)
		if (tx->writes[i].base != ON_NOTHING || tx->writes[i].row.live)
			return true;
	return false;
}

SimTx *
oracle_unknown(void)
{
	return nunknown > 0 ? unknowns[sim_below(nunknown)] : NULL;
}

void
oracle_told(SimTx *tx, bool committed)
{
	bool		is = tx->state == TX_COMMITTED;

	if (has_effect(tx) && committed != is)
		sim_fail("tx %d (" UINT64_FORMAT "." UINT64_FORMAT ") is said to be %s and is not", tx->number,
				 tx->sid, tx->n, committed ? "committed" : "aborted");
	if (tx->told != 0 && (tx->told == 'C') != committed)
		sim_fail("tx %d is said to be %s, and was not before", tx->number,
				 committed ? "committed" : "aborted");
	tx->told = committed ? 'C' : 'A';
}

void
oracle_left(SimTx *tx)
{
	freeze(tx);
}

static void
end_half(SimTx *tx, bool told_committed)
{
	if (told_committed && has_effect(tx) && tx->state != TX_COMMITTED && sim_forgot_us == 0)
		sim_fail("tx %d was told to be committed and is not", tx->number);
	if (!told_committed && tx->state == TX_COMMITTED && !sim_is_torn)
		sim_fail("tx %d (" UINT64_FORMAT "." UINT64_FORMAT ") was told that it failed and is committed",
				 tx->number, tx->sid, tx->n);
	tx->acknowledged = told_committed;
	tx->acknowledged_us = sim_self->terminated ? PG_INT64_MAX : sim_now_us;	/* who has to leave waits for no readers */
	leave(tx);
	if (tx->state != TX_COMMITTED)
		free(tx);
}

/* Somebody may ask for it later. */
static void
note_unknown(SimTx *tx)
{
	freeze(tx);
	if (nunknown == maxunknown)
		unknowns = realloc(unknowns, (maxunknown = Max(64, 2 * maxunknown)) * sizeof(SimTx *));
	unknowns[nunknown++] = tx;
}

/* 08007: what was said of this half. */
static void
ended_in_part(SimTx *tx)
{
	switch (far_told(tx))
	{
		case 'C':
			end_half(tx, true);
			break;
		case 'A':
			end_half(tx, false);
			break;
		case '?':
			note_unknown(tx);
			break;
		default:
			freeze(tx);
	}
}

void
oracle_ended(SimTx *tx, bool told_committed, bool unknown)
{
	SimTx	   *with = tx->with;

	if (unknown)
		ended_in_part(tx);
	else
		end_half(tx, told_committed);
	if (with != NULL)
		oracle_ended(with, told_committed, unknown);
}

void
oracle_died(SimTx *tx)
{
	if (tx->state == TX_COMMITTING && tx->session->last_tx != tx->before)
		note_unknown(tx);		/* somebody may have written its number down */
	else if (tx->state == TX_COMMITTING)
		freeze(tx);
	if (tx->with != NULL)
		oracle_died(tx->with);
}

/* ---- judging ---- */

static void
wrong(const SimTx *tx, const char *what, int tree, int key, Row found, Row wanted)
{
	sim_fail("tx %d (" UINT64_FORMAT "." UINT64_FORMAT ", level %d) committed at " UINT64_FORMAT ": %s: tree %d key %d is %d n=" INT64_FORMAT " token=%u, was seen as %d n=" INT64_FORMAT " token=%u",
			 tx->number, tx->sid, tx->n, tx->isolation, tx->ts, what, tree, key,
			 found.live, found.n, found.token, wanted.live, wanted.n, wanted.token);
}

static bool
changed_since(int tree, int key, MosqlTimestamp S)
{
	const History *h = &histories[tree][key];

	return h->n > 0 && h->versions[h->n - 1].ts > S;
}

static void
judge_write(const SimTx *tx, const Write *w)
{
	Row			now = oracle_stored(w->tree, w->key, LATEST);

	switch (w->base)
	{
		case ON_NOTHING:
			if (now.live && w->row.live)
				wrong(tx, "inserted over a row", w->tree, w->key, now, w->seen);
			break;
		case ON_ROW:
			if (!row_equal(now, w->seen))
				wrong(tx, "lost update", w->tree, w->key, now, w->seen);
			break;
		case ON_LIVE:
			if (!now.live)
				wrong(tx, "added to no row", w->tree, w->key, now, w->seen);
			break;
	}
	if (tx->isolation >= MOSQL_REPEATABLE_READ && tx->drawn && !w->add && (w->base != ON_NOTHING || w->row.live) &&
		!(tx->truncates && w->tree == TREE_TABLE) && changed_since(w->tree, w->key, tx->S))
		wrong(tx, "not the first committer", w->tree, w->key, now, w->seen);
}

static void
judge_reads(const SimTx *tx)
{
	for (int i = 0; i < tx->nlocks; i++)
	{
		const Lock *lock = &tx->locks[i];
		Row			now = oracle_stored(lock->tree, lock->key, LATEST);

		if (lock->live ? !now.live : !row_equal(now, lock->seen))
			wrong(tx, "a locked row was changed", lock->tree, lock->key, now, lock->seen);
	}
	if (tx->isolation != MOSQL_SERIALIZABLE)
		return;
	for (int i = 0; i < tx->nreads; i++)
		for (int key = tx->reads[i].low; key < tx->reads[i].high; key++)
			if (!(tx->truncates && tx->reads[i].tree == TREE_TABLE) &&
				changed_since(tx->reads[i].tree, key, tx->reads[i].S))
				wrong(tx, "a read row was changed", tx->reads[i].tree, key,
					  oracle_stored(tx->reads[i].tree, key, LATEST),
					  oracle_stored(tx->reads[i].tree, key, tx->reads[i].S));
}

static void
judge_references(const SimTx *tx)
{
	for (int i = 0; i < tx->nwrites; i++)
	{
		const Write *w = &tx->writes[i];

		if (w->tree == TREE_CHILD && w->row.live &&
			!oracle_stored(TREE_MAIN, w->key / CHILDREN, LATEST).live)
			wrong(tx, "a child without its parent", TREE_MAIN, w->key / CHILDREN, (Row) {false}, w->row);
		if (w->tree == TREE_MAIN && !w->add && !w->row.live)
			for (int c = 0; c < CHILDREN; c++)
				if (oracle_stored(TREE_CHILD, w->key * CHILDREN + c, LATEST).live)
					wrong(tx, "a parent was deleted, a child is there", TREE_CHILD,
						  w->key * CHILDREN + c, oracle_stored(TREE_CHILD, w->key * CHILDREN + c, LATEST),
						  w->row);
	}
}

static void
push(SimTx *tx, int tree, int key, Row row)
{
	History    *h = &histories[tree][key];

	if (h->n == h->max)
		h->versions = realloc(h->versions, (h->max = Max(16, 2 * h->max)) * sizeof(Version));
	h->versions[h->n++] = (Version) {tx->ts, row, tx};
}

/* ---- LOCK TABLE ---- */

uint64		oracle_table_changes;

bool
oracle_changes_table(const SimTx *tx)
{
	for (int i = 0; i < tx->nwrites; i++)
		if (tx->writes[i].tree == TREE_TABLE &&
			(tx->writes[i].base != ON_NOTHING || tx->writes[i].row.live))
			return true;
	return tx->truncates;
}

/* Who has locked the table has had it for itself, or fails, whatever was lost (rule 37). */
static void
judge_table(const SimTx *tx)
{
	if (tx->table_mode > 0 && tx->table_seen != oracle_table_changes)
		sim_fail("tx %d has locked the table, and is committed, and so is somebody who has changed it", tx->number);
	oracle_table_changes += oracle_changes_table(tx);
}

static void
truncate_table(SimTx *tx)
{
	push_epoch(tx->definition_root, tx->ts, tx);
	for (int key = 0; key < KEYS_MAX; key++)
		if (oracle_stored(TREE_TABLE, key, LATEST).live)
			push(tx, TREE_TABLE, key, (Row) {false});
}

/*
 * Of two halves the first is decided: then the other one was prepared, and what it rests on is as it was.
 * Unless somebody could take it for dead: nobody does so soon, by a clock that does not jump.
 */
static void
judge_other_half(const SimTx *tx)
{
	const SimTx *other = tx->near != NULL ? tx->near : tx->with;

	if (other == NULL || other->state != TX_COMMITTING || sim_forgot_us > 0 ||
		sim_jumped_us >= tx->committing_us || sim_now_us - tx->committing_us > SOON_US)
		return;
	if (has_effect(tx) || has_effect(other))
		judge_reads(other);
	for (int i = 0; i < other->nwrites; i++)
		judge_write(other, &other->writes[i]);
}

static void
commit(SimTx *tx)
{
	Log		   *log = &logs[tx->far];

	if (log->n > 0 && log->committed[log->n - 1]->ts >= tx->ts)
		sim_fail("tx %d committed at " UINT64_FORMAT ", not after tx %d at " UINT64_FORMAT,
				 tx->number, tx->ts, log->committed[log->n - 1]->number, log->committed[log->n - 1]->ts);
	if (tx->told == 'A')
		sim_fail("tx %d was said to be aborted and is committed", tx->number);
	judge_reads(tx);
	judge_table(tx);
	if (tx->truncates)
		truncate_table(tx);
	for (int i = 0; i < tx->nwrites; i++)
		judge_write(tx, &tx->writes[i]);
	for (int i = 0; i < tx->nwrites; i++)
	{
		Write	   *w = &tx->writes[i];
		Row			row = w->row;

		if (w->base == ON_NOTHING && !row.live)
			continue;
		if (w->add)
		{
			row = oracle_stored(w->tree, w->key, LATEST);
			row.n += w->delta;
		}
		push(tx, w->tree, w->key, row);
	}
	judge_references(tx);
	judge_other_half(tx);
	claims_judge(tx);
	tx->state = TX_COMMITTED;
	tx->committed_us = sim_now_us;
	oracle_commits++;
	if (log->n == log->max)
		log->committed = realloc(log->committed, (log->max = Max(1024, 2 * log->max)) * sizeof(SimTx *));
	log->committed[log->n++] = tx;
}

/* Who has locks decides under the id that they have, while its session may have drawn another one for its nodes. */
static bool
is_attempt(const SimTx *tx, bool far, uint64 sid, uint64 n)
{
	const MosqlTxn *txn = tx->frozen ? NULL : tx->session->txn;

	if (tx->far != far)
		return false;
	if (txn != NULL && txn->owner.session == sid &&
		txn->owner.n >> MOSQL_TXN_AGE_SHIFT == n >> MOSQL_TXN_AGE_SHIFT)
		return true;
	return tx->frozen ? tx->sid == sid && tx->n == n :
		tx->session->sid == sid && tx->session->last_tx == n;
}

void
sim_record_written(bool far, uint64 sid, uint64 n, MosqlTimestamp ts)
{
	const Log  *log = &logs[far];

	if (sim_is_torn)
		return;
	for (int i = log->n - 1; i >= 0; i--)	/* a slot moved */
		if (log->committed[i]->sid == sid && log->committed[i]->n == n)
			return;
	for (int i = 0; i < nrunning; i++)
		if (running[i]->state == TX_COMMITTING && is_attempt(running[i], far, sid, n))
		{
			running[i]->sid = sid;
			running[i]->n = n;
			running[i]->ts = ts;
			sim_trace("tx %d is committed (" UINT64_FORMAT "." UINT64_FORMAT ") at " UINT64_FORMAT,
					  running[i]->number, sid, n, ts);
			commit(running[i]);
			return;
		}
	sim_fail("a record of nobody's: " UINT64_FORMAT "." UINT64_FORMAT, sid, n);
}

/* A failover lost a decision. */
void
sim_record_forgotten(bool far, uint64 sid, uint64 n)
{
	Log		   *log = &logs[far];

	if (sim_is_torn)
		return;
	for (int i = log->n - 1; i >= 0; i--)
	{
		SimTx	   *tx = log->committed[i];

		if (tx->sid != sid || tx->n != n)
			continue;
		if ((tx->acknowledged || tx->told == 'C') && sim_forgot_us == 0)
			sim_fail("tx %d was acknowledged and is lost", tx->number);
		sim_trace("tx %d is no longer committed", tx->number);
		tx->told = 0;
		tx->table_seen += oracle_changes_table(tx);		/* it may be committed once more */
		for (int t = 0; t < TREES; t++)
			for (int k = 0; k < KEYS_MAX; k++)
			{
				History    *h = &histories[t][k];
				int			kept = 0;

				for (int v = 0; v < h->n; v++)
					if (h->versions[v].tx != tx)
						h->versions[kept++] = h->versions[v];
				h->n = kept;
			}
		for (int e = 0; e < nepochs; e++)
			if (epochs[e].tx == tx)
				memmove(&epochs[e], &epochs[e + 1], (--nepochs - e) * sizeof(Epoch));
		memmove(&log->committed[i], &log->committed[i + 1], (log->n - i - 1) * sizeof(SimTx *));
		log->n--;
		oracle_commits--;
		tx->state = TX_COMMITTING;
		return;
	}
}

/* ---- sequences ---- */

#define VALUES_MAX	(1 << 20)

typedef struct Counter
{
	struct Counter *next;
	uint64		counter;
	int64		reached;		/* all up to here is handed out, or passed over by setval */
	uint8		drawn[VALUES_MAX / 8];
} Counter;

static Counter *counters;

static Counter *
counter_of(uint64 counter)
{
	Counter    *c = counters;

	while (c != NULL && c->counter != counter)
		c = c->next;
	if (c == NULL)
	{
		c = calloc(1, sizeof(Counter));
		c->counter = counter;
		c->next = counters;
		counters = c;
	}
	return c;
}

int64
oracle_sequence(uint64 counter)
{
	return counter_of(counter)->reached;
}

/*
 * No value twice, and none from before what was acknowledged before the draw began; but
 * sequences are among what a server forgets (docs/durability.md).
 */
void
oracle_drawn(uint64 counter, int64 moment, int64 first, int64 n)
{
	Counter    *c = counter_of(counter);

	if (sim_forgot_us > 0)
		return;
	if (first <= moment)
		sim_fail("sequence %016lx hands out " INT64_FORMAT " after " INT64_FORMAT " was reached",
				 (unsigned long) counter, first, moment);
	for (int64 value = first; value < first + n && value < VALUES_MAX; value++)
	{
		if (c->drawn[value / 8] & 1 << value % 8)
			sim_fail("sequence %016lx hands out " INT64_FORMAT " again", (unsigned long) counter, value);
		c->drawn[value / 8] |= (uint8) (1 << value % 8);
	}
	c->reached = Max(c->reached, first + n - 1);
}

void
oracle_set(uint64 counter, int64 value)
{
	Counter    *c = counter_of(counter);

	c->reached = Max(c->reached, value);
}

/* ---- ids ---- */

static uint64 highest_session;

uint64
sim_sessions_highest(void)
{
	return highest_session;
}

void
sim_session_drawn(uint64 sid)
{
	static uint64 *drawn;
	static int	n;
	static int	max;

	for (int i = n - 1; i >= 0 && i >= n - 1000; i--)
		if (drawn[i] == sid)
			sim_fail("session id " UINT64_FORMAT " was drawn twice", sid);
	if (n == max)
		drawn = realloc(drawn, (max = Max(64, 2 * max)) * sizeof(uint64));
	drawn[n++] = sid;
	highest_session = Max(highest_session, sid);
}
