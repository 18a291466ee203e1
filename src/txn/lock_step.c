/*
 * lock_step.c: the steps that change the claims at rows.
 *
 * Layer: txn.  Who asks for locks and lets go of them: lock.c.
 */
#include "postgres.h"

#include "storage/proc.h"

#include "code/block.h"
#include "code/loaded.h"
#include "txn/lock_int.h"
#include "txn/recover.h"

MosqlBytes
mosql_lock_claim_bytes(const MosqlClaim *claim)
{
	StringInfoData buf;

	mosql_string_init(&buf, MOSQL_CLAIM_BYTES);
	mosql_claim_encode(&buf, claim);
	return mosql_bytes_of(&buf);
}

static MosqlBytes
asked_bytes(MosqlTxid owner, int strength, bool surely)
{
	StringInfoData buf;

	mosql_string_init(&buf, MOSQL_TXID_BYTES + 2);
	mosql_txid_put(&buf, owner);
	appendStringInfoChar(&buf, (char) strength);
	if (surely)
		appendStringInfoChar(&buf, MOSQL_ASKED_SURELY);
	return mosql_bytes_of(&buf);
}

MosqlBytes
mosql_lock_asked(MosqlTxid owner, int strength)
{
	return asked_bytes(owner, strength, false);
}

MosqlBytes
mosql_lock_asked_surely(MosqlTxid owner, int strength)
{
	return asked_bytes(owner, strength, true);
}

bool
mosql_lock_is_taken(const MosqlTxn *txn, MosqlBytes field)
{
	MosqlClaim	claim;

	while (mosql_claim_next(&field, &claim))
		if (claim.kind == MOSQL_CLAIM_LOCK && claim.strength == MOSQL_UPDATE &&
			!mosql_txid_equal(claim.owner, txn->owner))
			return true;
	return false;
}

/*
 * One leaf's step: the first n of the changes.  Beside a block locks are held as anywhere; the block is read
 * last, for rows that are no fields.
 *
 * Race -- a failover takes back a lock that keeps others from more than its row, somebody does that, and the
 * transaction asks for more of it: COMMIT would find that claim, and miss nothing (rule 37).  So it is compared that
 * the former one is there.
 *
 * Race -- the failover leaves the wait that had become such a lock: whoever was let in is let in once more.  So who
 * relies on a lock has asked for it, which the lock bears, and waits for copies of the answer (17).
 */
static MosqlStep *
build_claim_step(const MosqlTree *tree, const MosqlLeafGroup *group, LockChange **changes, int n)
{
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	step->node = group->leaf;
	step->repeatable = step->no_count = true;
	step->compares = palloc((n + 3) * sizeof(MosqlCompare));
	step->reads = palloc((2 * n + 2) * sizeof(MosqlBytes));
	step->writes = palloc(n * sizeof(MosqlWrite));
	mosql_btree_expect_group(tree, group, step);
	step->reads[step->nreads++] = MOSQL_META_FIELD;
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	field = mosql_field_name(MOSQL_FIELD_INTENT, changes[i]->key);

		step->reads[step->nreads++] = field;
		step->reads[step->nreads++] = changes[i]->kind == MOSQL_WRITE_UNLIST ? field :
			mosql_field_name(MOSQL_FIELD_ROW, changes[i]->key);
		step->writes[step->nwrites++] = (MosqlWrite) {changes[i]->kind, field, changes[i]->value};
		if (changes[i]->must.data != NULL)
			mosql_step_expect(step, MOSQL_COMPARE_HOLDS, field, 0, changes[i]->must);
		if (changes[i]->sure)
			step->durable = step->touch = true;
	}
	if (group->packed)
		step->reads[step->nreads++] = mosql_btree_block_field();
	return step;
}

/* Is a claim gone that was relied on?  The other compares are about the leaf. */
static bool
has_lost_claim(const MosqlStep *step)
{
	return step->status == MOSQL_STEP_FAILED && step->compares[step->failed].field.data[0] == MOSQL_FIELD_INTENT;
}

/* The rows that the block has, where they are no fields, of the leaf of a step that was done. */
static void
take_block_rows(MosqlSession *session, MosqlTree *tree, const MosqlLeafGroup *group, const MosqlStep *step,
				const MosqlBytes *keys, LockChange **changes)
{
	MosqlBytes	block = step->values[step->nreads - 1];
	MosqlBytes *rows = palloc(group->n * sizeof(MosqlBytes));

	if (block.data == NULL || !mosql_block_find(block, keys, group->n, rows) ||
		!mosql_loaded_take(&group->loaded, rows, NULL, group->n))
		mosql_report_damage(session->config.ns, step->node, "its block does not decode");
	mosql_btree_block_keep(tree, step->node, group->generation, block);
	for (int i = 0; i < group->n; i++)
		if (changes[i]->row.data == NULL && changes[i]->kind == MOSQL_WRITE_CLAIM)
			changes[i]->row = rows[i];
}

/* A step on each leaf of some changes. */
typedef struct ClaimRound
{
	MosqlTree  *tree;
	LockChange **changes;		/* ascending */
	MosqlBytes *keys;
	MosqlLeafGroup *groups;
	int			ngroups;
	MosqlStep **steps;			/* one per group; NULL: its leaf is loading */
} ClaimRound;

/*
 * guess: on leaves that were not looked at, too.  Nobody locks a row in a leaf that is loading (rule 47); of who lets go there
 * is nothing.
 */
static void
plan_round(ClaimRound *round, MosqlTree *tree, LockChange **changes, int n, bool guess)
{
	*round = (ClaimRound) {.tree = tree,.changes = changes,.keys = palloc(n * sizeof(MosqlBytes))};
	for (int i = 0; i < n; i++)
		round->keys[i] = changes[i]->key;
	round->ngroups = guess ? mosql_btree_group_guess(tree, round->keys, n, &round->groups) :
		mosql_btree_group_beside(tree, round->keys, NULL, n, &round->groups, NULL);
	round->steps = palloc(round->ngroups * sizeof(MosqlStep *));
	for (int g = 0; g < round->ngroups; g++)
	{
		const MosqlLeafGroup *group = &round->groups[g];

		round->steps[g] = group->loaded.loader.session != 0 && changes[group->first]->kind != MOSQL_WRITE_UNLIST ? NULL :
			build_claim_step(tree, group, changes + group->first, group->n);
	}
}

/* What has come of its steps. */
static void
take_round(MosqlSession *session, const ClaimRound *round)
{
	for (int g = 0; g < round->ngroups; g++)
	{
		const MosqlStep *step = round->steps[g];
		MosqlLeafGroup *group = &round->groups[g];

		if (step == NULL)
			continue;
		if (has_lost_claim(step))
			mosql_commit_lost_claim(session);
		if (step->status != MOSQL_STEP_DONE)
		{
			mosql_btree_observe(round->tree, step->node, step->values[0], -1);
			continue;
		}
		if (group->guessed)
			mosql_btree_guess_right(round->tree, group, step->values[0]);
		for (int i = 0; i < group->n; i++)
		{
			LockChange *change = round->changes[group->first + i];

			change->leaf = step->node;
			change->intents = step->values[1 + 2 * i];
			change->row = step->values[2 + 2 * i];
			change->done = true;
		}
		if (group->packed)
			take_block_rows(session, round->tree, group, step, round->keys + group->first,
							round->changes + group->first);
	}
}

/*
 * Who lets go of his locks finds a leaf that stands for some of them, of an attempt of this session that has ended: what took it back was
 * not waited for, and has failed, or the attempt has never heard that the leaf was written.  Nobody else would settle it (rule 56).
 */
static void
settle_own(MosqlSession *session, const ClaimRound *round)
{
	for (int g = 0; g < round->ngroups; g++)
	{
		const MosqlLeafGroup *group = &round->groups[g];
		MosqlBlocker blocker = {.tree = round->tree,.key = round->keys[group->first],.tx = group->loaded.loader,.loading = true};

		if (round->steps[g] == NULL || round->steps[g]->status != MOSQL_STEP_DONE || !group->loaded.locks ||
			group->loaded.loader.session != session->sid)
			continue;
		if (mosql_recover_blocker(session, &blocker, 0))
			continue;
		for (int i = group->first; i < group->first + group->n; i++)
			round->changes[i]->done = false;
	}
}

MosqlBudget
mosql_lock_load_budget(void)
{
	return mosql_budget_start(LockTimeout > 0 ? LockTimeout : mosql_txn_commit_timeout_ms);
}

void
mosql_lock_wait_for_leaf(MosqlSession *session, const MosqlBlocker *blocker, MosqlBudget budget)
{
	Assert(blocker->anew);
	while (!mosql_recover_wait(session, blocker, &budget))
	{
		if (LockTimeout > 0)
			mosql_lock_not_available(true);
		budget = mosql_lock_load_budget();
	}
}

/* Whoever does not wait (NOWAIT, SKIP LOCKED) gives a commit this time for what it has still to do, which is mostly a message or two. */
#define LOAD_BRIEF_MS	100

/* The group's rows cannot be had at once. */
static void
refuse(const ClaimRound *round, const MosqlLeafGroup *group)
{
	for (int i = group->first; i < group->first + group->n; i++)
		round->changes[i]->done = round->changes[i]->refused = true;
}

/*
 * The group's leaf was loading: true if it is settled.  False if that was not waited for to the end, by who does not wait.  Rows that were there are waited for as
 * long as it takes; those of a load not for ever.
 */
static bool
wait_for_load(MosqlSession *session, const ClaimRound *round, const MosqlLeafGroup *group, const MosqlBudget *budget)
{
	MosqlBudget brief = mosql_budget_start(LOAD_BRIEF_MS);
	MosqlBlocker blocker = {.tree = round->tree,.key = round->keys[group->first],.tx = group->loaded.loader,.loading = true,.anew = group->loaded.over};

	if (round->changes[group->first]->at_once)
		return mosql_recover_wait(session, &blocker, &brief);
	if (blocker.anew)
		mosql_lock_wait_for_leaf(session, &blocker, *budget);
	else if (!mosql_recover_wait(session, &blocker, budget))
	{
		if (LockTimeout > 0)
			mosql_lock_not_available(true);
		mosql_commit_conflict(session, "Another transaction was loading rows next to one of this one for longer than mosql_fdw.commit_timeout.");
	}
	return true;
}

/*
 * Where a leaf was loading it is waited for; who has come so far places no intents, so that
 * no circle goes through here.  True if there was one, which is settled; throws if the budget is spent before.
 */
static bool
wait_for_loads(MosqlSession *session, const ClaimRound *round, const MosqlBudget *budget)
{
	for (int g = 0; g < round->ngroups; g++)
	{
		if (round->steps[g] != NULL)
			continue;
		if (wait_for_load(session, round, &round->groups[g], budget))
			return true;
		refuse(round, &round->groups[g]);
	}
	return false;
}

/*
 * One round: a step on each leaf of the changes (ascending) that are not done.  Returns how
 * many are left.  guess: on leaves that were not looked at, too.  loads: of the wait for some that are loading; if there were any,
 * *waited is set, and nothing else is done.
 */
static int
change_claims_once(MosqlSession *session, MosqlTree *tree, LockChange **changes, int n, bool guess,
				   const MosqlBudget *loads, bool *waited)
{
	ClaimRound	round;
	MosqlStep **steps;
	int			nsteps = 0;
	int			left = 0;

	plan_round(&round, tree, changes, n, guess);
	*waited = wait_for_loads(session, &round, loads);
	if (*waited)
		return n;
	steps = palloc(round.ngroups * sizeof(MosqlStep *));
	for (int g = 0; g < round.ngroups; g++)
		if (round.steps[g] != NULL)	/* but those that were refused */
			steps[nsteps++] = round.steps[g];
	if (nsteps > 0)
		mosql_step_run(&session->stepper, steps, nsteps, NULL);
	take_round(session, &round);
	settle_own(session, &round);
	for (int i = 0; i < n; i++)
		left += !changes[i]->done;
	return left;
}

void
mosql_lock_change(MosqlSession *session, MosqlTree *tree, LockChange *changes, int n)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	MosqlBudget loads = mosql_lock_load_budget();
	LockChange **todo = palloc(n * sizeof(LockChange *));
	int			left = 0;

	for (;;)
	{
		int			ntodo = 0;
		bool		waited;

		for (int i = 0; i < n && ntodo < MOSQL_LOCK_CHANGES; i++)
			if (!changes[i].done)
				todo[ntodo++] = &changes[i];
		if (ntodo == 0)
			return;
		left = change_claims_once(session, tree, todo, ntodo, left == 0, &loads, &waited);
		if (left < ntodo)
			loads = mosql_lock_load_budget();
		if (left < ntodo || waited)
			budget = mosql_budget_start(session->config.redis.command_timeout_ms);
		else if (!mosql_budget_pause(&budget))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("leaves in namespace \"%s\" changed faster than rows could be locked",
							session->config.ns)));
	}
}

/* See lock_int.h. */
void
mosql_lock_send_changes(MosqlSession *session, MosqlTree *tree, LockChange **changes, int n)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlLeafGroup *groups;
	int			ngroups;

	for (int i = 0; i < n; i++)
		keys[i] = changes[i]->key;
	ngroups = mosql_btree_group_known(tree, keys, n, &groups);
	for (int g = 0; g < ngroups; g++)
		mosql_step_send(&session->stepper, build_claim_step(tree, &groups[g], changes + groups[g].first, groups[g].n),
						NULL, NULL);
}

/* Is an intent of this session in a field? */
static bool
has_intent_of(MosqlBytes field, uint64 session)
{
	MosqlIntent intent;
	MosqlClaim	claim;

	while (mosql_claim_next(&field, &claim))
		;
	while (mosql_intent_next(&field, &intent) == 1)
		if (intent.tx.session == session)
			return true;
	return false;
}

/*
 * Race -- an earlier transaction of this session is not applied there yet, and had the same
 * owner (session_lock.c): whoever applies it takes the claim away, whose ever it is.  So nothing
 * is held beside such an intent; clear_away() ends it.
 */
void
mosql_lock_note(LockRequest *request, const MosqlPoint *point)
{
	const MosqlClaim *claim = &request->claim;

	request->point = *point;
	request->held = point->intent.data != NULL &&
		mosql_claims_hold(point->intent, asked_bytes(claim->owner, claim->strength, request->sure)) &&
		!has_intent_of(point->intent, request->claim.owner.session);
}

/* What came of a request, as the step has computed it. */
static void
note_answer(LockRequest *request, const LockChange *change)
{
	MosqlPoint	point = {.leaf = change->leaf,.row = change->row};

	if (change->refused)
	{
		request->held = false;
		request->point = point;
		return;
	}
	point.intent = mosql_claims_request(change->intents, change->value);
	mosql_lock_note(request, &point);
}

static LockChange *
claims_of(const LockRequest *requests, int n)
{
	LockChange *changes = palloc(n * sizeof(LockChange));

	for (int i = 0; i < n; i++)
	{
		changes[i] = (LockChange) {requests[i].key, MOSQL_WRITE_CLAIM, mosql_lock_claim_bytes(&requests[i].claim)};
		changes[i].sure = requests[i].sure;
		changes[i].at_once = requests[i].at_once;
		if (requests[i].relied_on > 0)
			changes[i].must = mosql_lock_asked_surely(requests[i].claim.owner, requests[i].relied_on);
	}
	return changes;
}

void
mosql_lock_ask(LockRequest *requests, int n)
{
	LockChange *changes = claims_of(requests, n);

	mosql_lock_change(requests[0].txn->session, requests[0].tree, changes, n);
	for (int i = 0; i < n; i++)
		note_answer(&requests[i], &changes[i]);
}

static LockChange **
pointers_to(LockChange *changes, int n)
{
	LockChange **all = palloc(n * sizeof(LockChange *));

	for (int i = 0; i < n; i++)
		all[i] = &changes[i];
	return all;
}

/* See lock_int.h. */
void
mosql_lock_ask_together(const LockGroup *groups, int ngroups)
{
	MosqlSession *session = groups[0].requests[0].txn->session;
	ClaimRound *rounds = palloc(ngroups * sizeof(ClaimRound));
	LockChange **changes = palloc(ngroups * sizeof(LockChange *));
	MosqlStep **steps;
	int			nsteps = 0;

	for (int g = 0; g < ngroups; g++)
	{
		changes[g] = claims_of(groups[g].requests, groups[g].n);
		plan_round(&rounds[g], groups[g].requests[0].tree, pointers_to(changes[g], groups[g].n), groups[g].n, true);
		nsteps += rounds[g].ngroups;
	}
	steps = palloc(nsteps * sizeof(MosqlStep *));
	nsteps = 0;
	for (int g = 0; g < ngroups; g++)
		for (int i = 0; i < rounds[g].ngroups; i++)
			if (rounds[g].steps[i] != NULL)
				steps[nsteps++] = rounds[g].steps[i];
	mosql_step_run(&session->stepper, steps, nsteps, NULL);
	for (int g = 0; g < ngroups; g++)
	{
		take_round(session, &rounds[g]);
		for (int i = 0; i < groups[g].n; i++)
			if (changes[g][i].done)
				note_answer(&groups[g].requests[i], &changes[g][i]);
	}
}

void
mosql_lock_ask_ahead(LockRequest *requests, int n)
{
	MosqlStepper *stepper = &requests[0].txn->session->stepper;
	ClaimRound	round;

	for (int i = 0; i < n; i++)
		Assert(requests[i].relied_on == 0 && !requests[i].sure);
	plan_round(&round, requests[0].tree, pointers_to(claims_of(requests, n), n), n, false);
	for (int g = 0; g < round.ngroups; g++)
		if (round.steps[g] != NULL)
			mosql_step_send(stepper, round.steps[g], NULL, NULL);
}

void
mosql_lock_report_ended(const MosqlTxn *txn)
{
	if (txn->owner.session == txn->session->sid)
		mosql_session_leave_id(txn->session);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("cannot lock in a transaction whose session has ended"),
			 errdetail("The session's lease ran out after the transaction had taken locks, or somebody ended it, or the clock has forgotten it."),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * Whose claims go, of those at a row that was refused: the dead, and earlier transactions of
 * this session (a server that came back as it was, a claim that arrived late): a session's
 * owners follow each other.  Throws if the session is dead itself: nobody would let it in.
 */
static MosqlBytes
owners_gone(const LockRequest *request, const MosqlSessions *sessions)
{
	MosqlBytes	field = request->point.intent;
	MosqlTxid	own = request->claim.owner;
	StringInfoData gone;
	MosqlClaim	claim;

	if (mosql_clock_is_dead(sessions, own.session))
		mosql_lock_report_ended(request->txn);
	mosql_string_init(&gone, MOSQL_TXID_BYTES);
	while (mosql_claim_next(&field, &claim))
		if (mosql_clock_is_dead(sessions, claim.owner.session) ||
			(claim.owner.session == own.session && claim.owner.n < own.n))
			mosql_txid_put(&gone, claim.owner);
	return mosql_bytes_of(&gone);
}

bool
mosql_lock_take_out_gone(LockRequest *requests, int n, const MosqlSessions *sessions)
{
	LockChange *changes = palloc(n * sizeof(LockChange));
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		MosqlBytes	gone;

		if (requests[i].held)
			continue;
		gone = owners_gone(&requests[i], sessions);
		if (gone.len > 0)
			changes[m++] = (LockChange) {requests[i].key, MOSQL_WRITE_UNLIST, gone};
	}
	if (m > 0)
		mosql_lock_change(requests[0].txn->session, requests[0].tree, changes, m);
	return m > 0;
}
