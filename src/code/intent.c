/*
 * intent.c: what a transaction is about to do to a row.
 *
 * Layer: code.
 *
 *     offset 0  16 bytes  transaction id: session, number, both big-endian
 *           16   1 byte   kind: 'P', 'D', 'I'
 *           17            payload: columns, nothing, increments
 *
 * The transaction id comes first, so that a step can compare it alone.
 */
#include "code/node.h"
#include "code/code_int.h"

void
mosql_intent_encode(StringInfo out, const MosqlIntent *intent)
{
	char	   *p = grow(out, MOSQL_TXID_BYTES + 1 + intent->payload.len);

	Assert(intent->kind != MOSQL_INTENT_DELETE || intent->payload.len == 0);
	p = put_uint64(put_uint64(p, intent->tx.session), intent->tx.n);
	*p++ = (char) intent->kind;
	put_bytes(p, intent->payload);
}

/* The payload, which points into `in`, is checked by whoever decodes it. */
bool
mosql_intent_decode(MosqlBytes in, MosqlIntent *intent)
{
	const char *p;

	if (!take(&in, MOSQL_TXID_BYTES + 1, &p) || in.len > MOSQL_ROW_MAX_BYTES)
		return false;
	intent->tx = mosql_txid_get(p);
	intent->kind = (MosqlIntentKind) (uint8) p[MOSQL_TXID_BYTES];
	intent->payload = in;
	switch (intent->kind)
	{
		case MOSQL_INTENT_PUT:
		case MOSQL_INTENT_INCREMENT:
			return true;
		case MOSQL_INTENT_DELETE:
			return in.len == 0;
	}
	return false;
}
