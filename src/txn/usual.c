/*
 * usual.c: the leaves in which a session's transactions usually increment rows, read ahead.
 *
 * Layer: txn.  An increment must know that its row is there, and no more (mosql_view_peek()).  What a session's
 * transactions increment is mostly in the same few leaves: TPC-B's tellers and branches, counters, totals.  So
 * with the first row that a transaction increments go the questions for the leaves, as a whole, in which earlier
 * ones have found theirs, of other trees; the answers are there when it comes to them.
 *
 * Why it may: a row is shown as it would have been, had it been looked at when the answer was given: in this
 * transaction, and at most a second ago.  Nothing rests on that.  An increment reads no column, and COMMIT finds the
 * row live, or fails (docs/commit.md, 12), whenever it was looked at.  At READ COMMITTED alone, where no snapshot says as of when.
 * Only rows that are live, with no more than increments in flight, are taken from there; of others more is to be
 * found out, where they are now.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "txn/txn_int.h"

/* Trees of which leaves are asked for at once. */
#define USUAL_TREES			4

/* With more fields to read than this a leaf costs more than the round trip that it spares. */
#define USUAL_MAX_FIELDS	160

/* Who is in the middle of his transaction for longer looks once more. */
#define USUAL_GOOD_US		1000000

/* A tree whose leaves were read in vain rests for 2, 4, ... 64 transactions. */
#define USUAL_MAX_VAIN		6

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
	uint64		incarnation;	/* of the store, and the time, when it was sent */
	int64		sent_us;
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

/* What is worth asking for beside a tree; the number of leaves. */
static int
choose_leaves(MosqlUsual *usual, MosqlSession *session, const MosqlTree *beside, uint64 *leaves)
{
	int			n = 0;

	for (int i = 0; i < session->ntrees && usual->ntrees < USUAL_TREES; i++)
	{
		MosqlSessionTree *slot = &session->trees[i];
		UsualTree  *tree = &usual->trees[usual->ntrees];

		if (slot->usual[0] == 0 || slot->dead || slot->tree == beside)
			continue;
		if (slot->rests > 0)
		{
			slot->rests--;
			continue;
		}
		*tree = (UsualTree) {.tree = slot->tree,.first = n};
		for (int l = 0; l < MOSQL_USUAL_LEAVES && slot->usual[l] != 0; l++)
			leaves[n++] = slot->usual[l];
		tree->n = n - tree->first;
		usual->ntrees++;
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
	usual->prefetch = mosql_step_prefetch(&session->stepper, leaves, n, false);
}

/* Without any, if one did not come. */
static void
take_images(MosqlTxn *txn, MosqlUsual *usual)
{
	MemoryContext old = MemoryContextSwitchTo(txn->cxt);

	if (!mosql_step_prefetched(usual->prefetch, usual->images))
		usual->ntrees = 0;
	usual->prefetch = NULL;
	MemoryContextSwitchTo(old);
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
		if (usual->prefetch != NULL)
			take_images(txn, usual);
		if (usual->ntrees > 0 && usual->incarnation == incarnation_of(txn->session) &&
			mosql_now_us() - usual->sent_us <= USUAL_GOOD_US)
			return &usual->trees[i];
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

bool
mosql_usual_get(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlPoint *point)
{
	UsualTree  *leaves = leaves_of(txn, tree);

	for (int i = 0; leaves != NULL && i < leaves->n; i++)
	{
		const MosqlNodeImage *image = &txn->usual->images[leaves->first + i];

		if (!mosql_btree_get_in(tree, key, image, point))
			continue;
		leaves->wanted = image->nfields <= USUAL_MAX_FIELDS;
		return is_settled(point);
	}
	return false;
}

void
mosql_usual_note(MosqlTxn *txn, const MosqlTree *tree, uint64 leaf)
{
	MosqlSessionTree *slot = mosql_session_tree_slot(txn->session, tree);
	int			i = 0;

	if (slot == NULL)
		return;
	while (i < MOSQL_USUAL_LEAVES - 1 && slot->usual[i] != leaf)
		i++;
	memmove(&slot->usual[1], &slot->usual[0], i * sizeof(uint64));
	slot->usual[0] = leaf;
}

void
mosql_usual_end(MosqlTxn *txn)
{
	const MosqlUsual *usual = txn->usual;

	for (int i = 0; usual != NULL && i < usual->ntrees; i++)
	{
		const UsualTree *tree = &usual->trees[i];
		MosqlSessionTree *slot = mosql_session_tree_slot(txn->session, tree->tree);

		if (slot == NULL)
			continue;
		slot->vain = tree->wanted ? 0 : Min(slot->vain + 1, USUAL_MAX_VAIN);
		slot->rests = tree->wanted ? 0 : 1 << slot->vain;
	}
}
