/*
 * hash.c: PostgreSQL's hash tables, as far as the product's lower layers use them: fixed
 * keys, compared as bytes.  A list will do for the few entries of a simulation.
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"

typedef struct Entry
{
	struct Entry *next;
} Entry;

struct HTAB
{
	MemoryContext cxt;
	Size		keysize;
	Size		entrysize;
	long		n;
	Entry	   *first;
};

HTAB *
hash_create(const char *name, long nelem, const HASHCTL *info, int flags)
{
	MemoryContext cxt = (flags & HASH_CONTEXT) ? info->hcxt : TopMemoryContext;
	HTAB	   *table = MemoryContextAllocZero(cxt, sizeof(HTAB));

	table->cxt = cxt;
	table->keysize = info->keysize;
	table->entrysize = info->entrysize;
	return table;
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	Entry	  **at = &table->first;
	Entry	   *entry;

	while (*at != NULL && memcmp(*at + 1, key, table->keysize) != 0)
		at = &(*at)->next;
	entry = *at;
	if (found != NULL)
		*found = entry != NULL;
	if (entry == NULL && (action == HASH_ENTER || action == HASH_ENTER_NULL))
	{
		entry = *at = MemoryContextAllocZero(table->cxt, sizeof(Entry) + table->entrysize);
		memcpy(entry + 1, key, table->keysize);
		table->n++;
	}
	else if (entry != NULL && action == HASH_REMOVE)
	{
		*at = entry->next;		/* its memory goes with the table's */
		table->n--;
	}
	return entry != NULL ? entry + 1 : NULL;
}

long
hash_get_num_entries(HTAB *table)
{
	return table->n;
}

void
hash_seq_init(HASH_SEQ_STATUS *status, HTAB *table)
{
	status->hashp = table;
	status->curEntry = (HASHELEMENT *) table->first;
}

void *
hash_seq_search(HASH_SEQ_STATUS *status)
{
	Entry	   *entry = (Entry *) status->curEntry;

	if (entry == NULL)
		return NULL;
	status->curEntry = (HASHELEMENT *) entry->next;
	return entry + 1;
}

void
hash_seq_term(HASH_SEQ_STATUS *status)
{
}
