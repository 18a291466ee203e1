/*
 * fuzz_children.c: the separators of an inner node, and names of nodes.
 */
#include "fuzz.h"

#include "code/node.h"

const int	fuzz_errors[] = {0};

void
fuzz_one(MosqlBytes in)
{
	MosqlChild *children;
	int			n;
	uint64		node;
	StringInfoData out;

	initStringInfo(&out);
	if (mosql_node_key_parse(in, "mosql", &node))
	{
		mosql_node_key(&out, "mosql", node);
		MUST(mosql_bytes_equal(mosql_bytes_of(&out), in));
		return;
	}
	if (!mosql_children_decode(in, &children, &n))
	{
		MUST(children == NULL && n == 0);
		return;
	}
	for (int i = 1; i < n; i++)
		MUST(mosql_bytes_compare(children[i - 1].separator, children[i].separator) < 0);
	mosql_children_encode(&out, children, n);
	MUST(mosql_bytes_equal(mosql_bytes_of(&out), in));
}
