/*
 * node.c: names of nodes and fields, timestamps, transaction ids.
 *
 * Layer: code.
 */
#include "code/node.h"
#include "code/code_int.h"

#define NODE_HEX_DIGITS 16

/* The hash tag is the id alone, so that all fields of a node and nothing else
 * of the namespace are in one slot, and nodes spread evenly. */
void
mosql_node_key(StringInfo out, const char *ns, uint64 node)
{
	size_t		len = strlen(ns);
	char	   *p = grow(out, len + NODE_HEX_DIGITS + 3);

	memcpy(p, ns, len);
	p += len;
	*p++ = ':';
	*p++ = '{';
	for (int shift = 60; shift >= 0; shift -= 4)
		*p++ = "0123456789abcdef"[(node >> shift) & 15];
	*p = '}';
}

/* Only the digits that mosql_node_key writes; -1 for others. */
static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool
mosql_node_key_parse(MosqlBytes redis_key, const char *ns, uint64 *node)
{
	size_t		len = strlen(ns);
	const char *p = redis_key.data;
	uint64		result = 0;

	if (redis_key.data == NULL || redis_key.len != len + NODE_HEX_DIGITS + 3 ||
		memcmp(p, ns, len) != 0 || p[len] != ':' || p[len + 1] != '{' ||
		p[redis_key.len - 1] != '}')
		return false;
	p += len + 2;
	for (int i = 0; i < NODE_HEX_DIGITS; i++)
	{
		int			digit = hex_value(p[i]);

		if (digit < 0)
			return false;
		result = result << 4 | (uint64) digit;
	}
	*node = result;
	return true;
}

/* "<ns>:{*", with the characters that Redis' patterns treat specially escaped. */
void
mosql_node_key_pattern(StringInfo out, const char *ns)
{
	for (const char *c = ns; *c != '\0'; c++)
	{
		if (strchr("*?[]\\^-", *c) != NULL)
			appendStringInfoChar(out, '\\');
		appendStringInfoChar(out, *c);
	}
	appendStringInfoString(out, ":{*");
}

void
mosql_field_put(StringInfo out, char prefix, MosqlBytes key)
{
	char	   *p = grow(out, key.len + 1);

	*p = prefix;
	put_bytes(p + 1, key);
}

void
mosql_ts_put(StringInfo out, MosqlTimestamp ts)
{
	Assert(ts <= MOSQL_TS_MAX);
	put_ts(grow(out, MOSQL_TS_BYTES), ts);
}

MosqlTimestamp
mosql_ts_get(const char *data)
{
	return get_ts(data);
}

MosqlBytes
mosql_generation_bytes(uint64 generation)
{
	uint8	   *p = palloc(MOSQL_GENERATION_BYTES);

	for (int i = 0; i < 8; i++)
		p[i] = (uint8) (generation >> (56 - 8 * i));
	return mosql_bytes(p, MOSQL_GENERATION_BYTES);
}

MosqlBytes
mosql_ts_bytes(MosqlTimestamp ts)
{
	char	   *p = palloc(MOSQL_TS_BYTES);

	put_ts(p, ts);
	return mosql_bytes(p, MOSQL_TS_BYTES);
}

void
mosql_txid_put(StringInfo out, MosqlTxid tx)
{
	put_uint64(put_uint64(grow(out, MOSQL_TXID_BYTES), tx.session), tx.n);
}

MosqlTxid
mosql_txid_get(const char *data)
{
	return (MosqlTxid) {get_uint64(data), get_uint64(data + 8)};
}

void
mosql_report_damage(const char *ns, uint64 node, const char *what)
{
	StringInfoData name;

	initStringInfo(&name);
	mosql_node_key(&name, ns, node);
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("damaged data in Redis key \"%s\": %s", name.data, what),
			 errhint("mosql_fdw_check(table) examines a table; see docs/repair.md.")));
	pg_unreachable();
}
