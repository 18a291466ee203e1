/*
 * intent.c: what transactions are about to do to a row.
 *
 * Layer: code.
 *
 *     offset 0  16 bytes  transaction id: session, number, both big-endian
 *           16   1 byte   kind: 'P', 'D', 'I'
 *           17            'P': columns, to the end of the field; 'D': nothing;
 *                         'I': 1 byte length, increments; then perhaps the
 *                         next 'I' of another transaction, with its id
 *
 * In front of them may stand claims: locks and waits (claim.h), which are skipped here.
 * The transaction id comes first, so that a step can compare it alone.
 */
#include "code/node.h"
#include "code/claim.h"
#include "code/code_int.h"

#include "common/int.h"

void
mosql_intent_encode(StringInfo out, const MosqlIntent *intent)
{
	char	   *p = grow(out, MOSQL_TXID_BYTES + 2 + intent->payload.len);

	Assert(intent->kind != MOSQL_INTENT_DELETE || intent->payload.len == 0);
	p = put_uint64(put_uint64(p, intent->tx.session), intent->tx.n);
	*p++ = (char) intent->kind;
	if (intent->kind == MOSQL_INTENT_INCREMENT)
	{
		Assert(intent->payload.len <= MOSQL_INCREMENTS_MAX_BYTES);
		*p++ = (char) intent->payload.len;
	}
	else
		out->len--;				/* no length: up to the end */
	put_bytes(p, intent->payload);
	out->data[out->len] = '\0';
}

/* The payload is checked by whoever decodes it. */
int
mosql_intent_next(MosqlBytes *in, MosqlIntent *intent)
{
	const char *p;
	MosqlClaim	claim;

	while (mosql_claim_next(in, &claim))
		;
	if (in->len == 0)
		return 0;
	if (!take(in, MOSQL_TXID_BYTES + 1, &p) || in->len > MOSQL_ROW_MAX_BYTES)
		return -1;
	intent->tx = mosql_txid_get(p);
	intent->kind = (MosqlIntentKind) (uint8) p[MOSQL_INTENT_KIND_OFFSET];
	switch (intent->kind)
	{
		case MOSQL_INTENT_DELETE:
		case MOSQL_INTENT_PUT:
			if (intent->kind == MOSQL_INTENT_DELETE && in->len > 0)
				return -1;
			intent->payload = *in;
			in->data += in->len;
			in->len = 0;
			return 1;
		case MOSQL_INTENT_INCREMENT:
			{
				size_t		len;

				if (!take(in, 1, &p))
					return -1;
				len = (uint8) *p;
				if (!take(in, len, &p))
					return -1;
				intent->payload = mosql_bytes(p, len);
				return 1;
			}
	}
	return -1;
}

bool
mosql_intents_sum(MosqlBytes intents, uint32 column, int64 *plus, int64 *minus, MosqlTxid *other)
{
	MosqlIntent intent;
	int			more;

	*plus = *minus = 0;
	while ((more = mosql_intent_next(&intents, &intent)) == 1)
	{
		MosqlIncrement *inc;
		int			ninc;

		if (intent.kind != MOSQL_INTENT_INCREMENT || !mosql_increments_decode(intent.payload, &inc, &ninc))
			return false;
		for (int i = 0; i < ninc; i++)
		{
			int64	   *sum = inc[i].delta > 0 ? plus : minus;

			if (inc[i].column != column)
				continue;
			*other = intent.tx;
			if (pg_add_s64_overflow(*sum, inc[i].delta, sum))
				*sum = inc[i].delta > 0 ? PG_INT64_MAX : PG_INT64_MIN;
		}
	}
	return more == 0;
}
