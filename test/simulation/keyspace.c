/*
 * keyspace.c: what a Redis server stores; how it forgets.
 *
 * Hashes, sorted sets, sets and lists are all the same here: names with values (the score of
 * a sorted set, 8 bytes; nothing; an element, of a name that ascends).  Every change is one field's, and noted with what was
 * before, so that "this was lost" is an undo: a failover to a replica that lags, or a
 * restart from an older dump.
 */
#include "sim.h"

#include <stdlib.h>

#include "redis/redis.h"

static uint32
hash_bytes_fnv(MosqlBytes b)
{
	uint32		h = 2166136261u;

	for (size_t i = 0; i < b.len; i++)
		h = (h ^ (uint8) b.data[i]) * 16777619u;
	return h;
}

static MosqlBytes
keep(MosqlBytes b)
{
	char	   *p;

	if (b.data == NULL)
		return b;
	p = malloc(b.len + 1);
	memcpy(p, b.data, b.len);
	p[b.len] = '\0';
	return mosql_bytes(p, b.len);
}

static void
grow(SimShard *shard)
{
	int			n = Max(1024, 4 * shard->nbuckets);
	SimKey	  **buckets = calloc(n, sizeof(SimKey *));

	for (int i = 0; i < shard->nbuckets; i++)
		for (SimKey *key = shard->buckets[i], *next; key != NULL; key = next)
		{
			next = key->next;
			key->next = buckets[key->hash % n];
			buckets[key->hash % n] = key;
		}
	free(shard->buckets);
	shard->buckets = buckets;
	shard->nbuckets = n;
}

/* Keys stay, empty, once they were there: somebody may watch them. */
SimKey *
sim_key(SimShard *shard, MosqlBytes name, bool create)
{
	uint32		hash = hash_bytes_fnv(name);
	SimKey	   *key;

	if (shard->nbuckets > 0)
		for (key = shard->buckets[hash % shard->nbuckets]; key != NULL; key = key->next)
			if (key->hash == hash && mosql_bytes_equal(key->name, name))
				return key;
	if (!create)
		return NULL;
	if (shard->nkeys >= shard->nbuckets)
		grow(shard);
	key = calloc(1, sizeof(SimKey));
	key->name = keep(name);
	key->hash = hash;
	key->slot = mosql_redis_slot(name);
	key->next = shard->buckets[hash % shard->nbuckets];
	shard->buckets[hash % shard->nbuckets] = key;
	shard->nkeys++;
	return key;
}

/* All keys, by a cursor; NULL at the end. */
SimKey *
sim_next_key(SimShard *shard, uint64 *cursor)
{
	while (*cursor < (uint64) shard->nbuckets << 16)
	{
		SimKey	   *key = shard->buckets[*cursor >> 16];

		for (uint64 skip = *cursor & 0xFFFF; key != NULL && skip > 0; skip--)
			key = key->next;
		if (key != NULL)
		{
			(*cursor)++;
			if (key->n > 0)
				return key;
		}
		else
			*cursor = ((*cursor >> 16) + 1) << 16;
	}
	return NULL;
}

static int
find(const SimKey *key, MosqlBytes field)
{
	for (int i = 0; i < key->n; i++)
		if (key->fields[i].name.len == field.len &&
			memcmp(key->fields[i].name.data, field.data, field.len) == 0)
			return i;
	return -1;
}

MosqlBytes
sim_get(const SimKey *key, MosqlBytes field)
{
	int			i = key != NULL ? find(key, field) : -1;

	return i >= 0 ? key->fields[i].value : MOSQL_ABSENT;
}

/*
 * Records of transactions, for the oracle: field <n> of <ns>:{<ns>.clock}:s:<sid>.
 * forgotten: the change is taken back, not made.
 */
static void
tell_oracle(const SimKey *key, MosqlBytes field, MosqlBytes old, MosqlBytes new, bool forgotten)
{
	const char *sid = memmem(key->name.data, key->name.len, "clock}:s:", 9);
	bool		far = memcmp(key->name.data, "far:", 4) == 0;
	bool		was = old.len > 0 && old.data[0] == 'C';
	bool		is = new.len > 0 && new.data[0] == 'C';

	if (sid == NULL || was == is)
		return;
	if (is && !forgotten)
		sim_record_written(far, strtoull(sid + 9, NULL, 10), strtoull(field.data, NULL, 10),
						   strtoull(new.data + 1, NULL, 10));
	else if (was && forgotten)
		sim_record_forgotten(far, strtoull(sid + 9, NULL, 10), strtoull(field.data, NULL, 10));
}

/* Make a change; the old value is the caller's now. */
static MosqlBytes
change(SimKey *key, char type, MosqlBytes field, MosqlBytes value)
{
	int			i = find(key, field);
	MosqlBytes	old = i >= 0 ? key->fields[i].value : MOSQL_ABSENT;

	if (value.data != NULL && i >= 0)
		key->fields[i].value = keep(value);
	else if (value.data != NULL)
	{
		if (key->n == key->max)
		{
			key->max = Max(8, 2 * key->max);
			key->fields = realloc(key->fields, key->max * sizeof(SimField));
		}
		if (key->n == 0)
			key->type = type;
		key->fields[key->n++] = (SimField) {keep(field), keep(value)};
	}
	else if (i >= 0)
	{
		free((char *) key->fields[i].name.data);
		memmove(&key->fields[i], &key->fields[i + 1], (key->n - i - 1) * sizeof(SimField));
		key->n--;
	}
	key->version++;
	return old;
}

void
sim_put(SimShard *shard, SimKey *key, char type, MosqlBytes field, MosqlBytes value)
{
	MosqlBytes	name = keep(field); /* it may be the field's own name */
	MosqlBytes	old;

	if (shard->nundo == shard->maxundo)
	{
		shard->maxundo = Max(4096, 2 * shard->maxundo);
		shard->undo = realloc(shard->undo, shard->maxundo * sizeof(SimUndo));
	}
	if (key->n == 0)
		key->expires_us = 0;
	old = change(key, type, name, value);
	shard->undo[shard->nundo++] = (SimUndo) {key, type, name, old};
	shard->position++;
	if (shard->isolated)
		return;					/* nobody will ever have it */
	tell_oracle(key, name, old, value, false);
	claims_changed(key, name, old, sim_get(key, name), false);
}

/* A copy of all that is there, in a shard that has nothing yet. */
void
sim_copy(const SimShard *from, SimShard *to)
{
	uint64		cursor = 0;
	SimKey	   *key;

	while ((key = sim_next_key(unconstify(SimShard *, from), &cursor)) != NULL)
	{
		SimKey	   *copy = sim_key(to, key->name, true);

		for (int i = 0; i < key->n; i++)
			sim_put(to, copy, key->type, key->fields[i].name, key->fields[i].value);
		copy->expires_us = key->expires_us;
	}
}

/* Nobody needs it any more. */
void
sim_free_keys(SimShard *shard)
{
	sim_trim(shard, shard->position + 8192);
	for (int b = 0; b < shard->nbuckets; b++)
		for (SimKey *key = shard->buckets[b], *next; key != NULL; key = next)
		{
			next = key->next;
			while (key->n > 0)
				free((char *) change(key, key->type, key->fields[key->n - 1].name, MOSQL_ABSENT).data);
			free((char *) key->name.data);
			free(key->fields);
			free(key);
		}
	free(shard->undo);
	free(shard->buckets);
}

void
sim_forget(SimShard *shard, uint64 position)
{
	while (shard->position > Max(position, shard->first_undo))
	{
		SimUndo    *undo = &shard->undo[--shard->nundo];
		MosqlBytes	new = change(undo->key, undo->type, undo->name, undo->old);

		tell_oracle(undo->key, undo->name, new, undo->old, true);
		claims_changed(undo->key, undo->name, new, sim_get(undo->key, undo->name), true);
		free((char *) new.data);
		free((char *) undo->old.data);
		free((char *) undo->name.data);
		shard->position--;
	}
}

void
sim_clear(SimShard *shard)
{
	uint64		cursor = 0;
	SimKey	   *key;

	while ((key = sim_next_key(shard, &cursor)) != NULL)
	{
		while (key->n > 0)
			free((char *) change(key, key->type, key->fields[key->n - 1].name, MOSQL_ABSENT).data);
		cursor = 0;
	}
	sim_trim(shard, shard->position + 8192);
	shard->saved = shard->position;
}

void
sim_trim(SimShard *shard, uint64 position)
{
	int			n;

	if (position < shard->first_undo + 8192)	/* not for every change */
		return;
	n = (int) (Min(position, shard->position) - shard->first_undo);
	for (int i = 0; i < n; i++)
	{
		free((char *) shard->undo[i].old.data);
		free((char *) shard->undo[i].name.data);
	}
	memmove(shard->undo, shard->undo + n, (shard->nundo - n) * sizeof(SimUndo));
	shard->nundo -= n;
	shard->first_undo += n;
}
