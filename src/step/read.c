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
	{
		const MosqlReply *reply = mosql_batch_reply(batch, i, 0);

		if (is_foreign(stepper, reply))
		{
			images[i] = (MosqlNodeImage) {.node = nodes[i],.found = true};
			continue;
		}
		mosql_step_check(reply, MOSQL_REPLY_ARRAY, argv[i][1]);
		mosql_step_image(reply, nodes[i], &images[i]);
	}
}

bool
mosql_step_reads_at_once(const MosqlStepper *stepper)
{
	return stepper->engine == MOSQL_ENGINE_SCRIPT && !mosql_redis_is_cluster(stepper->redis);
}

/* What a server says instead of the nodes, whatever it be, it says again to who reads them one by one. */
bool
mosql_step_read_nodes_at_once(MosqlStepper *stepper, const uint64 *nodes, int n,
							  MosqlNodeImage *images, MosqlBudget *budget)
{
	MosqlBatch *batch = mosql_batch_create(stepper->redis, CurrentMemoryContext);
	MosqlCommands commands;
	const MosqlReply *all;
	int			group;

	Assert(n > 0 && mosql_step_reads_at_once(stepper));
	mosql_batch_take_errors(batch);
	mosql_commands_multi(&commands, stepper->redis, false);
	for (int i = 0; i < n; i++)
		mosql_commands_put(&commands, LITERAL("HGETALL"), mosql_step_key(stepper, nodes[i]));
	mosql_commands_put(&commands, LITERAL("EXEC"));
	group = mosql_commands_batch(&commands, batch, mosql_redis_slot(mosql_step_key(stepper, nodes[0])),
								 MOSQL_SEND_REPEATABLE, 0);
	mosql_batch_run(batch, budget);
	all = mosql_batch_reply(batch, group, n + 1);
	if (all->kind != MOSQL_REPLY_ARRAY || all->n != n)
		return false;
	for (int i = 0; i < n; i++)
	{
		if (all->elem[i]->kind != MOSQL_REPLY_ARRAY)
			return false;
		mosql_step_image(all->elem[i], nodes[i], &images[i]);
	}
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
