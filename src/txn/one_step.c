/*
 * one_step.c: prepare, decide and apply as one step, of what is on the Redis server that has the clock.
 *
 * Layer: txn.  A script, or an EXEC (step/one_step.h), compares on each of these leaves what prepare would compare, at the clock what
 * decide would, and writes the rows as apply would leave them: nobody sees anything between.
 * It is an interleaving of the ordinary protocol in which nobody else had a turn (rule 35).  Where that is
 * all of the commit, it has one round trip.  What is on other servers is prepared before, and applied after it (rule 50).
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
static bool
fits(const MosqlCommit *commit)
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

/* Leaves on the clock's server, and their steps. */
struct MosqlOneStep
{
	int			n;
	MosqlLeafStep *leaves[MOSQL_ONE_STEP_MAX_ROWS];
	MosqlStep  *steps[MOSQL_ONE_STEP_MAX_ROWS];
};

static void
add_leaf(MosqlCommit *commit, const MosqlParticipant *part, const MosqlLeafGroup *group, MosqlItem **items,
		 const MosqlBytes *rows)
{
	MosqlOneStep *all = commit->one_step;
	MosqlLeafStep *leaf;

	if (group->frozen_from.data != NULL || group->loaded.loader.session != 0 ||
		!mosql_one_step_reaches(&commit->session->stepper, group->leaf))
		return;
	leaf = palloc(sizeof(MosqlLeafStep));
	mosql_leaf_step_start(leaf, part->tree, group->leaf, group->generation, group->n);
	for (int i = group->first; i < group->first + group->n; i++)
		mosql_leaf_step_take(leaf, items[i], rows[i]);
	if (!mosql_leaf_step_add_final(commit, leaf))
		return;
	for (int i = group->first; i < group->first + group->n; i++)
	{
		items[i]->here = items[i]->done = true;
		items[i]->old_row = items[i]->columns = MOSQL_ABSENT;
	}
	all->leaves[all->n] = leaf;
	all->steps[all->n++] = &leaf->step;
}

static void
add_part(MosqlCommit *commit, const MosqlParticipant *part)
{
	MosqlBytes *keys = palloc(part->n * sizeof(MosqlBytes) + 1);
	MosqlBytes *rows = palloc(part->n * sizeof(MosqlBytes) + 1);
	MosqlKeyUse *uses = palloc(part->n * sizeof(MosqlKeyUse) + 1);
	MosqlItem **items = palloc(part->n * sizeof(MosqlItem *) + 1);
	MosqlLeafGroup *groups;
	int			ngroups;
	int			n = 0;

	for (int i = 0; i < part->n; i++)
		if (!part->items[i].done)
		{
			items[n] = &part->items[i];
			keys[n] = items[n]->key;
			uses[n] = mosql_item_use(items[n]);
			n++;
		}
	if (n == 0)
		return;
	ngroups = mosql_btree_group_beside(part->tree, keys, uses, n, &groups, rows);
	for (int g = 0; g < ngroups; g++)
		add_leaf(commit, part, &groups[g], items, rows);
}

/* Of an attempt: what is left to be prepared, and whether a foreign key's row is in there. */
static int
count_rest(const MosqlCommit *commit, bool *refers)
{
	int			n = 0;

	*refers = false;
	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].n; i++)
			if (!commit->parts[p].items[i].done)
			{
				*refers |= commit->parts[p].items[i].kind == MOSQL_ITEM_REFERENCE;
				n++;
			}
	return n;
}

static void
take_items_back(MosqlCommit *commit)
{
	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].n; i++)
			if (commit->parts[p].items[i].here)
				commit->parts[p].items[i].here = commit->parts[p].items[i].done = false;
	commit->one_step = NULL;
}

/*
 * Race -- a row that a foreign key leads to is looked at when all of the commit is in place (22), so that who deletes
 * it finds the child, or is found.  In the step that is so; on another server, before it, it is not.
 */
bool
mosql_txn_plan_one_step(MosqlCommit *commit)
{
	MemoryContext old;
	bool		refers;
	int			rest;

	Assert(commit->one_step == NULL);
	if (!fits(commit))
		return false;
	old = MemoryContextSwitchTo(commit->attempt_cxt);
	commit->one_step = palloc0(sizeof(MosqlOneStep));
	for (int p = 0; p < commit->nparts; p++)
		add_part(commit, &commit->parts[p]);
	MemoryContextSwitchTo(old);
	rest = count_rest(commit, &refers);
	if (commit->one_step->n == 0 || refers)
		take_items_back(commit);
	return commit->one_step != NULL && rest == 0;
}

static MosqlDecision
ask_at_once(MosqlCommit *commit, const MosqlDecideArgs *args, MosqlBudget *budget)
{
	MosqlOneStep *all = commit->one_step;

	return mosql_clock_commit(&commit->session->stepper, args, all->steps, all->n, &commit->ts, &commit->list,
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

bool
mosql_txn_unplan_one_step(MosqlCommit *commit)
{
	MosqlOneStep *all = commit->one_step;
	bool		outgrown = false;

	for (int i = 0; i < all->n && !outgrown; i++)
		if (all->steps[i]->status == MOSQL_STEP_FAILED && all->steps[i]->failed == 0)
		{
			mosql_btree_observe(all->leaves[i]->tree, all->steps[i]->node, all->steps[i]->values[0], -1);
			outgrown = true;
		}
	take_items_back(commit);
	return outgrown;
}

MosqlDecision
mosql_txn_decide_at_once(MosqlCommit *commit, MosqlBytes parts)
{
	MosqlDecision decision = mosql_txn_decide_by(commit, parts, ask_at_once);

	if (decision == MOSQL_DECIDED)
	{
		note_let_go(commit);
		observe_leaves(commit);
	}
	return decision;
}
