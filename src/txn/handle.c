/*
 * handle.c: rows that a statement has read, as numbers that fit into a ctid.
 *
 * Layer: txn.  A row is known by its key; the executor carries six bytes from a scan to the
 * UPDATE, DELETE or FOR UPDATE above it.  There are two kinds:
 *
 *   handle   one more for each row that a scan returns.  Cheap, and nobody sees them.
 *   number   of a key: the same whoever reads it, whenever.  For queries that name ctid:
 *            they compare it, join by it, keep it for a while.
 *
 * Both lead to the row's key, and for the time of the statement to the version that it
 * has read, which commit compares.
 *
 * Numbers live in the session, so that a ctid that was selected serves in the next
 * transaction as well; but if they take more than MOSQL_NUMBERS_KEEP_BYTES, they end with
 * theirs.  They begin at a random place each time: a ctid of another session, or of
 * before, names no row rather than the wrong one.
 */
#include "postgres.h"

#include "txn/txn_int.h"

/* ---- handles ---- */

uint64
mosql_txn_handle_put(MosqlTxn *txn, MosqlTree *tree, const MosqlRow *row)
{
	MosqlHandle *handle;

	(void) tree;
	if (txn->nhandles == txn->maxhandles)
	{
		uint64		max = Max(256, txn->maxhandles * 2);

		if (txn->handles == NULL)
			txn->handles = MemoryContextAllocHuge(txn->handle_cxt, max * sizeof(MosqlHandle));
		else
			txn->handles = repalloc_huge(txn->handles, max * sizeof(MosqlHandle));
		txn->maxhandles = max;
	}
	mosql_txn_account(txn, sizeof(MosqlHandle) + row->key.len);
	txn->handle_bytes += sizeof(MosqlHandle) + row->key.len;
	handle = &txn->handles[txn->nhandles];
	handle->key = mosql_bytes_copy(txn->handle_cxt, row->key);
	handle->version = row->version;
	return txn->nhandles++;
}

static void
set_row(MosqlRow *row, MosqlBytes key, MosqlTimestamp version)
{
	memset(row, 0, sizeof(*row));
	row->found = true;
	row->key = key;
	row->version = version;
}

bool
mosql_txn_handle_get(MosqlTxn *txn, uint64 handle, MosqlRow *row)
{
	if (handle >= txn->nhandles)
		return false;
	set_row(row, txn->handles[handle].key, txn->handles[handle].version);
	return true;
}

void
mosql_handles_end_statements(MosqlTxn *txn)
{
	txn->session->reading++;
	if (txn->nhandles == 0)
		return;
	txn->nhandles = 0;
	txn->maxhandles = 0;
	txn->handles = NULL;
	txn->bytes -= txn->handle_bytes;
	txn->handle_bytes = 0;
	MemoryContextReset(txn->handle_cxt);
}

/* ---- numbers ---- */

typedef struct Numbered
{
	MosqlBytes	key;
	uint32		next;			/* of the same bucket: index + 1 */
	uint64		reading;		/* session->reading when it was read last, */
	MosqlTimestamp version;		/* and at which version */
} Numbered;

/* What memory for a key takes besides its bytes. */
#define KEY_OVERHEAD		32

/* Where the numbers of a tree may begin: at so many places, so many numbers apart. */
#define NUMBER_BASES		(UINT64CONST(1) << 30)
#define NUMBER_BASE_SHIFT	8

/* Of one tree. */
typedef struct MosqlNumbers
{
	struct MosqlNumbers *next;
	MemoryContext cxt;
	uint64		root;
	uint64		base;			/* the number of rows[0] */
	uint32		n;
	uint32		max;
	Numbered   *rows;
	uint32		nbuckets;		/* a power of two */
	uint32	   *buckets;		/* index + 1, 0: none */
} MosqlNumbers;

/* A scramble of 64 bits (the end of splitmix64). */
static uint64
scramble(uint64 x)
{
	x = (x ^ (x >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static uint64
hash_bytes_of(MosqlBytes key)
{
	uint64		hash = UINT64CONST(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < key.len; i++)
		hash = (hash ^ (unsigned char) key.data[i]) * UINT64CONST(0x100000001b3);
	return scramble(hash);
}

static MosqlNumbers *
numbers_of(MosqlTxn *txn, MosqlTree *tree, bool create)
{
	MosqlSession *session = txn->session;
	MosqlNumbers *numbers = session->numbers;
	uint64		root = mosql_btree_root(tree);
	MemoryContext cxt;

	while (numbers != NULL && numbers->root != root)
		numbers = numbers->next;
	if (numbers != NULL || !create)
		return numbers;
	cxt = AllocSetContextCreate(session->cxt, "mosql row numbers", ALLOCSET_DEFAULT_SIZES);
	numbers = MemoryContextAllocZero(cxt, sizeof(MosqlNumbers));
	numbers->cxt = cxt;
	numbers->root = root;
	numbers->base = (scramble(root ^ scramble(session->sid ^ (uint64) mosql_now_us())) &
					 (NUMBER_BASES - 1)) << NUMBER_BASE_SHIFT;
	numbers->next = session->numbers;
	session->numbers = numbers;
	return numbers;
}

/* 54000 beyond what a transaction may take, and what earlier ones have left. */
static void
account_numbers(MosqlSession *session, size_t bytes)
{
	session->number_bytes += bytes;
	if (session->number_bytes > (size_t) mosql_txn_max_mb * 1024 * 1024 + MOSQL_NUMBERS_KEEP_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the rows whose ctid this transaction has read take more than %d MB",
						mosql_txn_max_mb),
				 errhint("Name rows by their key instead of ctid, read fewer in one transaction, or raise mosql_fdw.max_transaction_size.")));
}

static void
link_row(MosqlNumbers *numbers, uint32 i)
{
	uint32	   *bucket = &numbers->buckets[hash_bytes_of(numbers->rows[i].key) &
										   (numbers->nbuckets - 1)];

	numbers->rows[i].next = *bucket;
	*bucket = i + 1;
}

/* Room for one row more. */
static void
grow_numbers(MosqlSession *session, MosqlNumbers *numbers)
{
	uint64		max = Max(64, (uint64) numbers->max * 2);

	if (numbers->n < numbers->max)
		return;
	if (max > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many rows were named by their ctid")));
	account_numbers(session, (max - numbers->max) * (sizeof(Numbered) + sizeof(uint32)));
	if (numbers->rows == NULL)
		numbers->rows = MemoryContextAllocHuge(numbers->cxt, max * sizeof(Numbered));
	else
		numbers->rows = repalloc_huge(numbers->rows, max * sizeof(Numbered));
	numbers->max = (uint32) max;

	if (numbers->buckets != NULL)
		pfree(numbers->buckets);
	numbers->buckets = MemoryContextAllocHuge(numbers->cxt, max * sizeof(uint32));
	memset(numbers->buckets, 0, max * sizeof(uint32));
	numbers->nbuckets = (uint32) max;
	for (uint32 i = 0; i < numbers->n; i++)
		link_row(numbers, i);
}

static Numbered *
find_numbered(MosqlTxn *txn, MosqlNumbers *numbers, MosqlBytes key, uint64 *number)
{
	uint32		i = numbers->nbuckets == 0 ? 0
		: numbers->buckets[hash_bytes_of(key) & (numbers->nbuckets - 1)];

	while (i != 0 && !mosql_bytes_equal(numbers->rows[i - 1].key, key))
		i = numbers->rows[i - 1].next;
	if (i == 0)
	{
		Numbered	row = {.reading = PG_UINT64_MAX};	/* by no statement yet */

		grow_numbers(txn->session, numbers);
		account_numbers(txn->session, key.len + KEY_OVERHEAD);
		row.key = mosql_bytes_copy(numbers->cxt, key);
		numbers->rows[numbers->n] = row;
		link_row(numbers, numbers->n);
		i = ++numbers->n;
	}
	*number = numbers->base + i - 1;
	return &numbers->rows[i - 1];
}

uint64
mosql_txn_number_of(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	uint64		number;

	(void) find_numbered(txn, numbers_of(txn, tree, true), key, &number);
	return number;
}

/*
 * Two statements, one inside the other (a function, a trigger, a cursor), may have read
 * two versions of the row, under READ COMMITTED.  The older one counts for both: at
 * worst a conflict is reported at commit, never an update lost.
 */
uint64
mosql_txn_number_put(MosqlTxn *txn, MosqlTree *tree, const MosqlRow *row)
{
	uint64		number;
	Numbered   *numbered = find_numbered(txn, numbers_of(txn, tree, true), row->key, &number);

	if (numbered->reading != txn->session->reading || row->version < numbered->version)
		numbered->version = row->version;
	numbered->reading = txn->session->reading;
	return number;
}

static Numbered *
numbered_at(MosqlTxn *txn, MosqlTree *tree, uint64 number)
{
	MosqlNumbers *numbers = numbers_of(txn, tree, false);

	if (numbers == NULL || number < numbers->base || number - numbers->base >= numbers->n)
		return NULL;
	return &numbers->rows[number - numbers->base];
}

bool
mosql_txn_number_get(MosqlTxn *txn, MosqlTree *tree, uint64 number, MosqlRow *row)
{
	const Numbered *numbered = numbered_at(txn, tree, number);

	if (numbered == NULL || numbered->reading != txn->session->reading)
		return false;
	set_row(row, numbered->key, numbered->version);
	return true;
}

bool
mosql_txn_number_key(MosqlTxn *txn, MosqlTree *tree, uint64 number, MosqlBytes *key)
{
	const Numbered *numbered = numbered_at(txn, tree, number);

	if (numbered == NULL)
		return false;
	*key = numbered->key;
	return true;
}

void
mosql_numbers_end(MosqlSession *session)
{
	session->reading++;
	if (session->number_bytes <= MOSQL_NUMBERS_KEEP_BYTES)
		return;
	while (session->numbers != NULL)
	{
		MosqlNumbers *numbers = session->numbers;

		session->numbers = numbers->next;
		MemoryContextDelete(numbers->cxt);
	}
	session->number_bytes = 0;
}
