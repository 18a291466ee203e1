/*
 * usual.c: the leaves in which a session's transactions usually increment rows, read ahead.
 *
 * Layer: txn.  An increment must know that its row is there, and no more (mosql_view_peek()).  What a session's
 * transactions increment is mostly in the same few leaves: TPC-B's tellers and branches, counters, totals.  So
 * with the first row that a transaction increments go the questions for the leaves, as a whole, in which earlier
 * ones have found theirs, of other trees; the answers are there when it comes to them.
 *
 * Why it may: a row is shown as it would have been, had it been looked at when the answer was given: in this
 * transaction, at most a second ago, and nothing was heard of Redis since, so that the transaction has seen, locked or waited
 * for nothing that could say otherwise.  What the row holds counts for nothing (`unsettled`): who wants to know reads it.  And COMMIT
 * finds the row live, or fails (docs/commit.md, 12), whenever it was looked at.  At READ COMMITTED alone, where no
 * snapshot says as of when.  Only rows that are live, with no more than increments in flight, are taken from there;
 * of others more is to be found out, where they are now.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/stats.h"
#include "txn/txn_int.h"
#include "txn/usual.h"

/* Trees of which leaves are asked for at once. */
#define USUAL_TREES			4

/* A leaf of more bytes costs more than the round trip that it spares. */
#define USUAL_MAX_BYTES		8192

/* Who is in the middle of his transaction for longer looks once more. */
#define USUAL_GOOD_US		1000000

/* A tree whose leaves were read in vain rests for 2, 4, ... 64 transactions. */
#define USUAL_MAX_VAIN		6

/* The older leaf of a tree is forgotten when the newer one was wanted so often in a row. */
#define USUAL_MAX_SAME		32

/* The leaves of one tree: images[first] and on. */
typedef struct UsualTree
{
	MosqlTree  *tree;
	int			first;
	int			n;
	bool		wanted;
} UsualTree;

struct MosqlUsual
{
	MemoryContextCallback forget;
	MosqlPrefetch *prefetch;	/* until it is asked for what came */
	uint64		incarnation;	/* of the store, the time, and the round trips so far, when it was sent */
	int64		sent_us;
	int64		trips;
	bool		useless;		/* some have not come */
	int			ntrees;
	UsualTree	trees[USUAL_TREES];
	MosqlNodeImage images[USUAL_TREES * MOSQL_USUAL_LEAVES];
};

static uint64
incarnation_of(MosqlSession *session)
{
	return session->store.store.incarnation(&session->store.store);
}

static void
forget_usual(void *arg)
{
	MosqlUsual *usual = arg;

	if (usual->prefetch != NULL)
		mosql_step_prefetch_drop(usual->prefetch);
	usual->prefetch = NULL;
}

/* Newer trees first, since older ones may be gone.  The number of leaves that are worth asking for beside a tree. */
static int
choose_leaves(MosqlUsual *usual, MosqlSession *session, const MosqlTree *beside, uint64 *leaves)
{
	int			n = 0;

	for (int i = session->ntrees - 1; i >= 0; i--)
	{
		MosqlSessionTree *slot = &session->trees[i];

		if (slot->usual[0] == 0 || slot->dead || slot->tree == beside)
			continue;
		if (slot->rests > 0)
			slot->rests--;
		else if (usual->ntrees < USUAL_TREES)
		{
			UsualTree  *tree = &usual->trees[usual->ntrees++];

			*tree = (UsualTree) {.tree = slot->tree,.first = n};
			for (int l = 0; l < MOSQL_USUAL_LEAVES && slot->usual[l] != 0; l++)
				leaves[n++] = slot->usual[l];
			tree->n = n - tree->first;
		}
	}
	return n;
}

void
mosql_txn_ask_usual(MosqlTxn *txn, const MosqlTree *tree)
{
	MosqlSession *session = txn->session;
	MosqlUsual *usual;
	uint64		leaves[USUAL_TREES * MOSQL_USUAL_LEAVES];
	int			n;

	if (txn->usual != NULL || txn->isolation != MOSQL_READ_COMMITTED)
		return;
	usual = MemoryContextAllocZero(txn->cxt, sizeof(MosqlUsual));
	txn->usual = usual;
	n = choose_leaves(usual, session, tree, leaves);
	if (n == 0)
		return;
	usual->forget.func = forget_usual;
	usual->forget.arg = usual;
	MemoryContextRegisterResetCallback(txn->cxt, &usual->forget);
	usual->incarnation = incarnation_of(session);
	usual->sent_us = mosql_now_us();
	usual->trips = mosql_stats.round_trips;
	usual->prefetch = mosql_step_prefetch(&session->stepper, leaves, n, false);
}

void
mosql_txn_asked_usual(MosqlTxn *txn)
{
	MosqlUsual *usual = txn->usual;

	if (usual == NULL || usual->prefetch == NULL || usual->trips != mosql_stats.round_trips)
		return;
	usual->trips--;				/* the next one is another's */
	mosql_redis_uncork(txn->session->redis);
}

/* It was read in vain; or, if it did not come as it should, so often that it rests for long. */
static void
note_vain(MosqlSession *session, const MosqlTree *tree, bool failed)
{
	MosqlSessionTree *slot = mosql_session_tree_slot(session, tree);

	if (slot == NULL)
		return;
	slot->vain = failed ? USUAL_MAX_VAIN : Min(slot->vain + 1, USUAL_MAX_VAIN);
	slot->rests = 1 << slot->vain;
}

/* Where a node is silent this waits for a second. */
static void
take_images(MosqlTxn *txn, MosqlUsual *usual)
{
	MemoryContext old = MemoryContextSwitchTo(txn->cxt);

	usual->useless = !mosql_step_prefetched(usual->prefetch, usual->images);
	usual->prefetch = NULL;
	usual->trips = mosql_stats.round_trips;
	for (int i = 0; usual->useless && i < usual->ntrees; i++)
		note_vain(txn->session, usual->trees[i].tree, true);
	MemoryContextSwitchTo(old);
}

/*
 * Is what came, or comes, as good as a look now?  One round trip is the one that it came with: who has heard more since has
 * seen, locked or waited for something.
 */
static bool
is_good(MosqlTxn *txn, const MosqlUsual *usual)
{
	return !usual->useless && usual->incarnation == incarnation_of(txn->session) &&
		mosql_now_us() - usual->sent_us <= USUAL_GOOD_US &&
		(uint64) (mosql_stats.round_trips - usual->trips) <= (usual->prefetch != NULL ? 1 : 0);
}

/* The leaves of a tree that have come, and are good still; NULL: none. */
static UsualTree *
leaves_of(MosqlTxn *txn, const MosqlTree *tree)
{
	MosqlUsual *usual = txn->usual;

	for (int i = 0; usual != NULL && i < usual->ntrees; i++)
	{
		if (usual->trees[i].tree != tree)
			continue;
		if (usual->prefetch != NULL && is_good(txn, usual))
			take_images(txn, usual);
		return usual->prefetch == NULL && is_good(txn, usual) ? &usual->trees[i] : NULL;
	}
	return NULL;
}

/* Is it there, and is that all there is to know? */
static bool
is_settled(const MosqlPoint *point)
{
	MosqlVersion version;

	return (point->intent.data == NULL || mosql_point_has_increments(point)) &&
		mosql_row_visible(point->row, point->purged, MOSQL_TS_MAX, &version) == MOSQL_VISIBLE_LIVE;
}

static bool
is_small(const MosqlNodeImage *image)
{
	int64		bytes = 0;

	for (int i = 0; i < image->nfields; i++)
		bytes += image->fields[i].field.len + image->fields[i].value.len;
	return bytes <= USUAL_MAX_BYTES;
}

bool
mosql_usual_get(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlPoint *point)
{
	UsualTree  *leaves = leaves_of(txn, tree);

	for (int i = 0; leaves != NULL && i < leaves->n; i++)
	{
		const MosqlNodeImage *image = &txn->usual->images[leaves->first + i];

		if (!mosql_btree_get_in(tree, key, image, point))
			continue;
		if (!is_settled(point))
			return false;
		leaves->wanted = is_small(image);
		return true;
	}
	return false;
}

void
mosql_usual_note(MosqlTxn *txn, const MosqlTree *tree, uint64 leaf)
{
	MosqlSessionTree *slot = mosql_session_tree_slot(txn->session, tree);

	if (slot == NULL)
		return;
	if (slot->usual[0] == leaf)
	{
		slot->same = Min(slot->same + 1, USUAL_MAX_SAME);
		if (slot->same == USUAL_MAX_SAME)
			slot->usual[1] = 0;
		return;
	}
	slot->usual[1] = slot->usual[0];
	slot->usual[0] = leaf;
	slot->same = 0;
}

void
mosql_usual_end(MosqlTxn *txn)
{
	const MosqlUsual *usual = txn->usual;

	for (int i = 0; usual != NULL && !usual->useless && i < usual->ntrees; i++)
	{
		MosqlSessionTree *slot = mosql_session_tree_slot(txn->session, usual->trees[i].tree);

		if (!usual->trees[i].wanted)
			note_vain(txn->session, usual->trees[i].tree, false);
		else if (slot != NULL)
			slot->vain = 0;
	}
}
