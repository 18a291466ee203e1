/*
 * work_int.h: what the workloads share.
 */
#ifndef WORK_INT_H
#define WORK_INT_H

#include "locks.h"

#include "table/table_int.h"

/* What the catalog says of TREE_TABLE, in place of src/table/definition.c; 0: no such. */
typedef struct Definition
{
	uint64		root;
	uint64		counter;		/* of its sequence */
	uint64		index;			/* of its tokens */
	uint64		building;		/* an index that is being built, */
	uint64		log;			/* what writers log for it, */
	uint64		builder;		/* the session that builds it, */
	uint64		closing;		/* and 1: nobody may write */
} Definition;

/* A client's knowledge of it (src/table/open.c, used.c). */
typedef struct Known
{
	bool		valid;
	uint64		schema;			/* version that it was read at */
	Definition	now;
	MosqlTimestamp version;		/* of the row in the catalog; 0: this transaction's */
	bool		noted;			/* the transaction relies on `used`, */
	bool		changed;		/* which it has written itself */
	bool		wrote;			/* what is valid may be what was rolled back */
	bool		locked;			/* somebody keeps writers out, or did when it was read */
	Definition	used;
	bool		relied;			/* on this, before it wrote it */
	Definition	before;
} Known;

typedef struct Client
{
	Work	   *work;
	SimTx	   *tx;
	MosqlTxn   *txn;
	MosqlSession *session;
	MosqlSession *far;			/* NULL: not used yet */
	bool		is_far;			/* tx, txn and session are of that one now, */
	MosqlTxn   *near_txn;		/* and this is the other one's */
	CommandId	cid;
	uint64		statement;
	Known		table;
	bool		draws;			/* from the sequence, most of the time */
	bool		travels;		/* to the other namespace, now and then */
	bool		locks;			/* rows, in each of its transactions */
	bool		lets_numbers_go;	/* now, or has tried to */
	int64		numbers_us;		/* since when its session has some (number.c) */
	bool		truncates;		/* often */
	int			level;			/* of isolation; 3: any */
	uint64		drawn_from;		/* counter, and where it was after the last draw */
	MosqlSequenceSeen seen;
} Client;

/* ---- work.c ---- */

extern MosqlBytes work_key(int tree, int key);
extern int	work_key_number(int tree, MosqlBytes key);
extern int	work_keys(int tree);
extern Row	work_row(const MosqlRow *stored);
extern MosqlBytes work_entry(uint32 token, int key);
extern void work_replace_entry(Client *client, MosqlTree *index, int key, Row old, Row new);
extern MosqlView *work_view(Client *client, bool single_read);
extern void work_compare(Client *client, int tree, int key, MosqlTimestamp S, Row found);
extern MosqlTree *work_tree(Client *client, int tree);
extern Row	work_read_row(Client *client, int tree, int key, MosqlRow *stored);
extern void work_update_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen);
extern void work_delete_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen);
extern void work_lock_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen, bool pins);
extern MosqlBytes work_row_bytes(Row row);
extern bool work_has_room(const Client *client);
extern void work_tell(const Client *client, const char *does, int tree, int key, Row row);
extern void work_note_read(Client *client, int tree, int low, int high, MosqlTimestamp S);
extern void work_bind_write(Client *client, int tree, int key, Row shown);
extern Write *work_own_write(Client *client, int tree, int key, BaseKind base, Row seen);
extern void work_change_entries(Client *client, int tree, int key, Row old, Row new);

typedef struct Stretch
{
	int			low;			/* low <= key < high */
	int			high;
} Stretch;

/* Disjoint, in the order of the keys. */
extern int	work_some_stretches(int nkeys, Stretch *stretches, int max);
extern MosqlKeyRange work_range(int tree, Stretch stretch);
extern void work_scan_stretches(Client *client, MosqlView *view, int tree, const Stretch *stretches, int n);
extern void work_begin(Client *client, int level);
extern bool work_end(SimFrontEnd *self, Client *client, bool ok);

extern uint64 work_roots[FIXED_TREES];
extern MosqlSession *work_session(const char *ns);
extern void work_read_all(SimFrontEnd *self, MosqlSession *session);

/* ---- alone.c ---- */

extern void alone_scan(Client *client, int tree);

/* ---- schema.c: a table whose trees come and go ---- */

extern void schema_start(void);		/* set the hooks, in each front-end */
extern void schema_found(MosqlSession *session);
extern void schema_begin(Client *client);	/* of a transaction */
extern void schema_rolled_back(Client *client, const Known *before);
extern const Definition *schema_open(Client *client);
extern void schema_wait(Client *client);	/* before writing */
extern void schema_wait_lock(Client *client);	/* the same, of LOCK TABLE alone */
extern void schema_lock(Client *client);
extern void schema_truncate(Client *client);
extern void schema_change(Client *client, int key, Row old, Row new);

/* Of its trees, by a snapshot of their own. */
extern int	schema_roots(MosqlSession *session, uint64 *roots);
extern bool schema_read(MosqlSession *session, CommandId cid, Definition *definition, MosqlTimestamp *version);

/* Part of the transaction. */
extern void schema_write(Client *client, Definition definition);

#define SCHEMA_ROOTS_MAX	5

/* What is stored at S, as whoever opened the table so sees it. */
extern Row	schema_stored(const Client *client, int key, MosqlTimestamp S);

/* ---- build.c: an index of it ---- */

extern void build_index(SimFrontEnd *self, Client *client);
extern void build_drop_dead(SimFrontEnd *self, MosqlSession *session);

/* ---- sequence.c ---- */

extern void sequence_draw(Client *client);
extern void sequence_set(Client *client);
extern void sequence_read(Client *client);
extern uint64 sequence_counter(MosqlSession *session, uint64 old);

/* ---- far.c: another namespace ---- */

#define FAR_NAMESPACE	"far"
#define FAR_KEYS		10

extern uint64 far_root;
extern bool far_is(const MosqlSession *session);
extern void far_statement(Client *client, void (*statement) (Client *client));
extern void far_leave(Client *client);
extern void far_keep(const SimTx *tx, SimTx *kept);
extern void far_roll_back(SimTx *tx, const SimTx *kept);
extern void far_read_all(SimFrontEnd *self, MosqlSession *session);

/* ---- damage.c ---- */

extern void damage_trees(SimFrontEnd *self);
extern void damage_clock(SimFrontEnd *self);

/* ---- look.c ---- */

extern void look_fate(Client *client);
extern void look_handle(Client *client, MosqlTree *tree, const MosqlRow *row);
extern void look_around(MosqlSession *session);

/* ---- insert.c ---- */

extern void insert_row(Client *client, int tree, int key, MosqlNewKey known);
extern void insert_refer(Client *client);
extern void insert_family(Client *client);
extern void insert_load(Client *client);
extern void insert_reload(Client *client);
extern void insert_moved(Client *client);
extern void insert_locked(Client *client);
extern void insert_alone(Client *client);	/* before anything else */
extern void insert_ended(const SimTx *tx);	/* not committed */

/* ---- exec.c ---- */

extern void exec_ahead(Client *client);
extern void exec_tokens(Client *client);
extern void exec_locked(Client *client);

/* ---- parallel.c ---- */

extern void parallel_scan(Client *client);

/* ---- number.c ---- */

extern void number_statement(Client *client);

#endif							/* WORK_INT_H */
