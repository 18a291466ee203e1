/*
 * fuzz_intent.c: intents fields, and the steps that look into them.
 *
 * The step's compare "listed" and write "unlist" walk the same bytes in another
 * layer (and, in Lua, in Redis): they must agree with the decoder.
 */
#include "fuzz.h"

#include "code/claim.h"
#include "code/node.h"
#include "code/row.h"
#include "step/step_int.h"

const int	fuzz_errors[] = {0};

static MosqlBytes
txid_bytes(MosqlTxid tx)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_txid_put(&out, tx);
	return mosql_bytes_of(&out);
}

static void
check_payload(const MosqlIntent *intent)
{
	MosqlIncrement *inc;
	int			ninc;
	StringInfoData out;

	if (intent->kind != MOSQL_INTENT_INCREMENT || !mosql_increments_decode(intent->payload, &inc, &ninc))
		return;
	initStringInfo(&out);
	mosql_increments_encode(&out, inc, ninc);
	MUST(mosql_bytes_equal(mosql_bytes_of(&out), intent->payload));
}

/* The field without the intents of tx that stand first. */
static void
check_unlist(MosqlBytes field, MosqlTxid tx, bool listed)
{
	MosqlBytes	name = txid_bytes(tx);
	MosqlCompare compare = {.kind = MOSQL_COMPARE_LISTED, .bytes = name};
	MosqlWrite	write = {MOSQL_WRITE_UNLIST, MOSQL_ABSENT, name};
	MosqlBytes	after;

	MUST(mosql_step_holds(&compare, field, NULL) == listed);
	after = mosql_step_written(&write, field);
	MUST(listed ? after.len < field.len : after.data == field.data);
}

/* The claims in front of what is left, as they were; true if there are any. */
static bool
copy_claims(StringInfo out, MosqlBytes rest)
{
	MosqlClaim	claim;
	bool		any = false;

	for (; mosql_claim_next(&rest, &claim); any = true)
		mosql_claim_encode(out, &claim);
	return any;
}

void
fuzz_one(MosqlBytes in)
{
	MosqlBytes	rest = in;
	MosqlIntent intent;
	StringInfoData out;
	MosqlTxid	seen[64];
	bool		claims = false;
	int			n = 0;
	int			got;

	initStringInfo(&out);
	for (;;)
	{
		claims |= copy_claims(&out, rest);
		got = mosql_intent_next(&rest, &intent);
		if (got != 1)
			break;
		check_payload(&intent);
		mosql_intent_encode(&out, &intent);
		if (n < lengthof(seen))
			seen[n++] = intent.tx;
	}
	if (got == 0)
		MUST(mosql_bytes_equal(mosql_bytes_of(&out), in));

	/* what becomes of claims is test_claim's business */
	if (claims)
		return;

	/* what was decoded is found, also in front of damage */
	for (int i = 0; i < n; i++)
		check_unlist(in, seen[i], true);
	if (got == 0)
		check_unlist(in, (MosqlTxid) {~UINT64CONST(0), fuzz_hash(in)}, false);
	else
	{
		MosqlCompare compare = {.kind = MOSQL_COMPARE_LISTED,.bytes = txid_bytes((MosqlTxid) {1, 2})};

		(void) mosql_step_holds(&compare, in, NULL);
	}
}
