/*
 * one_step.c: prepare, decide and apply as one step, where all of a commit is on one Redis.
 *
 * Layer: txn.  A script compares on each leaf what prepare would compare, at the clock what
 * decide would, and writes the rows as apply would leave them: nobody sees anything between.
 * It is an interleaving of the ordinary protocol in which nobody else had a turn (rule 35).
 *
 * Whatever is in the way, or not as it was thought to be, is left to the ordinary way, which
 * judges it, waits, or reports it: nothing was written.
 *
 * Race -- the reply is lost: the record is there if it was committed, and the owner settles
 * (decide.c).  A request that arrives after that finds "aborted", or the session dead (36).
 */
#include "postgres.h"

#include "step/one_step.h"
#include "txn/leaf_step.h"

bool		mosql_txn_one_step = true;

static size_t
item_bytes(const MosqlItem *item)
{
	return item->key.len + (item->change != NULL ? item->change->columns.len : 0);
}

/* Definitions, ranges that are certified, and much at once go the ordinary way. */
bool
mosql_txn_fits_one_step(MosqlCommit *commit)
{
	size_t		bytes = 0;
	int			rows = 0;

	if (!mosql_txn_one_step || commit->txn->changes_schema ||
		commit->txn->trees != NULL || !mosql_one_step_is_possible(&commit->session->stepper))
		return false;
	for (int p = 0; p < commit->nparts; p++)
	{
		const MosqlParticipant *part = &commit->parts[p];

		rows += part->n;
		if (part->nranges > 0 || rows > MOSQL_ONE_STEP_MAX_ROWS)
			return false;
		for (int i = 0; i < part->n; i++)
			bytes += item_bytes(&part->items[i]);
	}
	return rows > 0 && bytes <= MOSQL_ONE_STEP_MAX_BYTES;
}

/* The leaves of a commit, and their steps. */
struct MosqlOneStep
{
	int			n;
	MosqlLeafStep *leaves[MOSQL_ONE_STEP_MAX_ROWS];
	MosqlStep  *steps[MOSQL_ONE_STEP_MAX_ROWS];
};

static bool
add_leaf(MosqlCommit *commit, const MosqlParticipant *part, const MosqlLeafGroup *group, const MosqlBytes *rows)
{
	MosqlOneStep *all = commit->one_step;
	MosqlLeafStep *leaf = palloc(sizeof(MosqlLeafStep));

	if (group->frozen_from.data != NULL || group->loaded.loader.session != 0)
		return false;
	mosql_leaf_step_start(leaf, part->tree, group->leaf, group->generation, group->n);
	for (int i = group->first; i < group->first + group->n; i++)
		mosql_leaf_step_take(leaf, &part->items[i], rows[i]);
	all->leaves[all->n] = leaf;
	all->steps[all->n++] = &leaf->step;
	return mosql_leaf_step_add_final(commit, leaf);
}

static bool
add_part(MosqlCommit *commit, const MosqlParticipant *part)
{
	MosqlBytes *keys = palloc(part->n * sizeof(MosqlBytes) + 1);
	MosqlBytes *rows = palloc(part->n * sizeof(MosqlBytes) + 1);
	MosqlKeyUse *uses = palloc(part->n * sizeof(MosqlKeyUse) + 1);
	MosqlLeafGroup *groups;
	int			ngroups;

	if (part->n == 0)
		return true;
	for (int i = 0; i < part->n; i++)
	{
		keys[i] = part->items[i].key;
		uses[i] = mosql_item_use(&part->items[i]);
	}
	ngroups = mosql_btree_group_beside(part->tree, keys, uses, part->n, &groups, rows);
	for (int g = 0; g < ngroups; g++)
		if (!add_leaf(commit, part, &groups[g], rows))
			return false;
	return true;
}

bool
mosql_txn_plan_one_step(MosqlCommit *commit)
{
	MemoryContext old = MemoryContextSwitchTo(commit->attempt_cxt);
	bool		planned = true;

	commit->one_step = palloc0(sizeof(MosqlOneStep));
	for (int p = 0; p < commit->nparts && planned; p++)
		planned = add_part(commit, &commit->parts[p]);
	MemoryContextSwitchTo(old);
	return planned;
}

static MosqlDecision
ask_at_once(MosqlCommit *commit, const MosqlDecideArgs *args, MosqlBudget *budget)
{
	MosqlOneStep *all = commit->one_step;

	return mosql_clock_commit(&commit->session->stepper, args, all->steps, all->n, &commit->ts,
							  &commit->session->schema, budget);
}

/* Rows that were only locked are not any more; those that were written nobody takes back anyway. */
static void
note_let_go(MosqlCommit *commit)
{
	MosqlOneStep *all = commit->one_step;

	for (int l = 0; l < all->n; l++)
	{
		const MosqlLeafStep *leaf = all->leaves[l];
		MosqlBuffer *buffer = mosql_buffer_find(commit->txn, leaf->tree, false);

		for (int i = 0; i < leaf->nitems && buffer != NULL; i++)
		{
			MosqlEntryW *entry = leaf->items[i]->kind == MOSQL_ITEM_WRITE || !leaf->items[i]->claims ? NULL :
				mosql_buffer_lookup(buffer, leaf->items[i]->key);

			if (entry != NULL)
				entry->given_back = mosql_item_is_let_go(commit, leaf->items[i]);
		}
	}
}

static void
count_beside(const MosqlLeafStep *leaf)
{
	for (int i = 0; i < leaf->nitems; i++)
		mosql_stats.rows_beside += leaf->items[i]->kind == MOSQL_ITEM_WRITE && leaf->in_block[i].data != NULL;
}

/* What the leaves are now; it is committed, and nothing may throw. */
static void
observe_leaves(MosqlCommit *commit)
{
	MosqlOneStep *all = commit->one_step;
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;

	HOLD_INTERRUPTS();			/* no wait */
	PG_TRY();
	{
		for (int i = 0; i < all->n; i++)
		{
			if (all->steps[i]->status == MOSQL_STEP_DONE && all->steps[i]->values != NULL)
				mosql_btree_observe(all->leaves[i]->tree, all->steps[i]->node, all->steps[i]->values[0],
									all->steps[i]->no_count ? -1 : all->steps[i]->nfields);
			count_beside(all->leaves[i]);
		}
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		InterruptHoldoffCount = held + 1;
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
}

/* It was refused: if a leaf is not what it was when it was planned, its meta is known now. */
static bool
note_outgrown(MosqlCommit *commit)
{
	MosqlOneStep *all = commit->one_step;

	for (int i = 0; i < all->n; i++)
		if (all->steps[i]->status == MOSQL_STEP_FAILED && all->steps[i]->failed == 0)
		{
			mosql_btree_observe(all->leaves[i]->tree, all->steps[i]->node, all->steps[i]->values[0], -1);
			return true;
		}
	return false;
}

/* Its record is dropped with the next decision, like one whose applies are acknowledged. */
bool
mosql_txn_commit_at_once(MosqlCommit *commit)
{
	MemoryContext old = MemoryContextSwitchTo(commit->attempt_cxt);
	MosqlPending *pending = commit->pending = mosql_pending_make(commit);
	bool		decided;

	decided = mosql_txn_decide_by(commit, mosql_bytes("", 0), ask_at_once) == MOSQL_DECIDED;
	commit->pending = NULL;
	if (decided)
	{
		pending->ts = commit->ts;
		dlist_push_tail(&commit->session->pending, &pending->node);
		note_let_go(commit);
		observe_leaves(commit);
	}
	else
	{
		pfree(pending);
		commit->outgrown = note_outgrown(commit);
	}
	MemoryContextSwitchTo(old);
	return decided;
}
