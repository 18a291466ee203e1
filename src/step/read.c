/*
 * read.c: whole nodes and single fields; removal of nodes.
 *
 * Layer: step.  Single commands, atomic by themselves: the same for both
 * engines.
 */
#include "step/step_int.h"

/*
 * Somebody else's value under our key: a node all the same, but one without a field that
 * decodes.  So one such key does not keep the others of a batch from being read.
 */
static bool
is_foreign(const MosqlStepper *stepper, const MosqlReply *reply)
{
	return stepper->lenient && reply->kind == MOSQL_REPLY_ERROR && reply->str.len >= 9 &&
		strncmp(reply->str.data, "WRONGTYPE", 9) == 0;
}

void
mosql_step_image(const MosqlReply *reply, uint64 node, MosqlNodeImage *image)
{
	image->node = node;
	image->nfields = reply->n / 2;
	image->found = image->nfields > 0;
	image->fields = palloc(Max(image->nfields, 1) * sizeof(MosqlFieldValue));
	for (int i = 0; i < image->nfields; i++)
	{
		image->fields[i].field = mosql_reply_bytes(reply->elem[2 * i]);
		image->fields[i].value = mosql_reply_bytes(reply->elem[2 * i + 1]);
	}
}

static void
take_node(const MosqlStepper *stepper, const MosqlReply *reply, uint64 node, MosqlBytes key, MosqlNodeImage *image)
{
	*image = (MosqlNodeImage) {.node = node,.found = true};
	if (is_foreign(stepper, reply))
		return;
	mosql_step_check(reply, MOSQL_REPLY_ARRAY, key);
	mosql_step_image(reply, node, image);
}

void
mosql_step_read_nodes(MosqlStepper *stepper, const uint64 *nodes, int n,
					  MosqlNodeImage *images, MosqlBudget *budget)
{
	MosqlBatch *batch = mosql_batch_create(stepper->redis, CurrentMemoryContext);
	MosqlBytes (*argv)[2] = palloc(Max(n, 1) * sizeof(*argv));

	for (int i = 0; i < n; i++)
	{
		argv[i][0] = LITERAL("HGETALL");
		argv[i][1] = mosql_step_key(stepper, nodes[i]);
		mosql_batch_add(batch, mosql_redis_slot(argv[i][1]), MOSQL_SEND_REPEATABLE, 2, argv[i]);
	}
	if (n > 0)
		mosql_batch_run(batch, budget);
	for (int i = 0; i < n; i++)
		take_node(stepper, mosql_batch_reply(batch, i, 0), nodes[i], argv[i][1], &images[i]);
}

/* See step.h. */
bool
mosql_step_reads_along(const MosqlStepper *stepper, const uint64 *nodes, int n)
{
	int			route;

	if (stepper->engine != MOSQL_ENGINE_SCRIPT)
		return false;
	if (!mosql_redis_is_cluster(stepper->redis))
		return true;
	route = mosql_redis_route(stepper->redis, mosql_clock_keys(stepper->ns).slot);
	for (int i = 0; i < n && route >= 0; i++)
		if (mosql_redis_route(stepper->redis, mosql_redis_slot(mosql_step_key(stepper, nodes[i]))) != route)
			route = -1;
	return route >= 0;
}

/* See step.h. */
bool
mosql_step_reads_at_once(const MosqlStepper *stepper, const uint64 *nodes, int n, bool told)
{
	if (stepper->engine != MOSQL_ENGINE_SCRIPT)
		return false;
	if (!mosql_redis_is_cluster(stepper->redis))
		return true;
	return n == 1 && (!told || mosql_step_reads_along(stepper, nodes, n));
}

static uint64
told_schema(const MosqlReply *reply)
{
	return reply->kind == MOSQL_REPLY_STRING ? strtoull(reply->str.data, NULL, 10) : 0;
}

/* What a server says instead of the nodes, whatever it be, it says again to who reads them one by one. */
static bool
read_at_once(MosqlStepper *stepper, const uint64 *nodes, int n, MosqlNodeImage *images, uint64 *schema,
			 MosqlBudget *budget)
{
	MosqlBatch *batch = mosql_batch_create(stepper->redis, CurrentMemoryContext);
	MosqlCommands commands;
	const MosqlReply *all;
	int			nreplies = n + (schema != NULL);
	int			group;

	mosql_batch_take_errors(batch);
	mosql_commands_multi(&commands, stepper->redis, false);
	for (int i = 0; i < n; i++)
		mosql_commands_put(&commands, LITERAL("HGETALL"), mosql_step_key(stepper, nodes[i]));
	if (schema != NULL)
		mosql_commands_put(&commands, LITERAL("HGET"), mosql_clock_keys(stepper->ns).counter, LITERAL("schema"));
	mosql_commands_put(&commands, LITERAL("EXEC"));
	group = mosql_commands_batch(&commands, batch, mosql_redis_slot(mosql_step_key(stepper, nodes[0])),
								 MOSQL_SEND_REPEATABLE, 0);
	mosql_batch_run(batch, budget);
	all = mosql_batch_reply(batch, group, nreplies + 1);
	if (all->kind != MOSQL_REPLY_ARRAY || all->n != nreplies)
		return false;
	for (int i = 0; i < n; i++)
	{
		if (all->elem[i]->kind != MOSQL_REPLY_ARRAY)
			return false;
		mosql_step_image(all->elem[i], nodes[i], &images[i]);
	}
	if (schema != NULL)
		*schema = told_schema(all->elem[n]);
	return true;
}

/*
 * A node, and behind it, on the same connection, the schema version.  If they were answered in another order, or by two servers, the
 * version is not told.
 */
static void
read_told(MosqlStepper *stepper, uint64 node, MosqlNodeImage *image, uint64 *schema, MosqlBudget *budget)
{
	MosqlBatch *batch = mosql_batch_create(stepper->redis, CurrentMemoryContext);
	MosqlClockKeys keys = mosql_clock_keys(stepper->ns);
	MosqlBytes	leaf[] = {LITERAL("HGETALL"), mosql_step_key(stepper, node)};
	MosqlBytes	version[] = {LITERAL("HGET"), keys.counter, LITERAL("schema")};

	mosql_batch_add(batch, mosql_redis_slot(leaf[1]), MOSQL_SEND_REPEATABLE, lengthof(leaf), leaf);
	mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(version), version);
	mosql_batch_run(batch, budget);
	take_node(stepper, mosql_batch_reply(batch, 0, 0), node, leaf[1], image);
	*schema = 0;
	if (mosql_batch_follows(batch, 0, 1))
		*schema = told_schema(mosql_batch_reply(batch, 1, 0));
}

/* See step.h. */
bool
mosql_step_read_nodes_at_once(MosqlStepper *stepper, const uint64 *nodes, int n,
							  MosqlNodeImage *images, uint64 *schema, MosqlBudget *budget)
{
	Assert(n > 0 && mosql_step_reads_at_once(stepper, nodes, n, false));
	if (!mosql_redis_is_cluster(stepper->redis))
		return read_at_once(stepper, nodes, n, images, schema, budget);
	Assert(n == 1 && schema != NULL);
	read_told(stepper, nodes[0], &images[0], schema, budget);
	return true;
}

void
mosql_step_read_fields(MosqlStepper *stepper, MosqlFieldRead *reads, int n, MosqlBudget *budget)
{
	MosqlBatch *batch = mosql_batch_create(stepper->redis, CurrentMemoryContext);
	MosqlBytes *keys = palloc(Max(n, 1) * sizeof(MosqlBytes));

	for (int i = 0; i < n; i++)
	{
		MosqlBytes *argv = palloc((2 + reads[i].nfields) * sizeof(MosqlBytes));

		Assert(reads[i].nfields > 0);
		keys[i] = mosql_step_key(stepper, reads[i].node);
		argv[0] = LITERAL("HMGET");
		argv[1] = keys[i];
		memcpy(argv + 2, reads[i].fields, reads[i].nfields * sizeof(MosqlBytes));
		mosql_batch_add(batch, mosql_redis_slot(keys[i]), MOSQL_SEND_REPEATABLE,
						2 + reads[i].nfields, argv);
	}
	if (n > 0)
		mosql_batch_run(batch, budget);
	for (int i = 0; i < n; i++)
	{
		const MosqlReply *reply = mosql_batch_reply(batch, i, 0);

		reads[i].values = palloc(reads[i].nfields * sizeof(MosqlBytes));
		if (!is_foreign(stepper, reply))
			mosql_step_check(reply, MOSQL_REPLY_ARRAY, keys[i]);
		for (int j = 0; j < reads[i].nfields; j++)
			reads[i].values[j] = is_foreign(stepper, reply) ? mosql_bytes("", 0) :
				mosql_reply_bytes(mosql_step_elem(reply, j));
	}
}

void
mosql_step_delete_nodes(MosqlStepper *stepper, const uint64 *nodes, int n, MosqlBudget *budget)
{
	MosqlBatch *batch = mosql_batch_create(stepper->redis, CurrentMemoryContext);
	MosqlBytes (*argv)[2] = palloc(Max(n, 1) * sizeof(*argv));

	for (int i = 0; i < n; i++)
	{
		argv[i][0] = LITERAL("UNLINK");
		argv[i][1] = mosql_step_key(stepper, nodes[i]);
		mosql_batch_add(batch, mosql_redis_slot(argv[i][1]), MOSQL_SEND_REPEATABLE, 2, argv[i]);
	}
	if (n > 0)
		mosql_batch_run(batch, budget);
	for (int i = 0; i < n; i++)
		mosql_step_check(mosql_batch_reply(batch, i, 0), MOSQL_REPLY_INTEGER, argv[i][1]);
}
