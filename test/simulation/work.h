/*
 * work.h: what front-ends do.
 */
#ifndef WORK_H
#define WORK_H

#include "oracle.h"

/* One setting of a run; chosen by the seed, or by options. */
typedef struct Setting
{
	bool		watch;			/* engine */
	int			nshards;
	int			nreplicas;		/* > 0: durable */
	bool		cluster;
	int			nclients;
	int			nmaintainers;
	int			maintenance_ms; /* how long they rest, at most */
	int			nkeys;			/* of TREE_MAIN and TREE_PLAIN; <= KEYS_MAX / CHILDREN */
	int			lease_ms;
	bool		damages;		/* at the end (damage.c) */
} Setting;
extern Setting setting;

/* One client, or maintainer. */
typedef struct Work
{
	SimTx	   *tx;				/* now; NULL: none */
	MosqlSession *session;
	struct Client *client;		/* NULL: a maintainer, or a worker: */
	struct Shared *shared;		/* parallel.c */
	uint64		commits;
	uint64		conflicts;
	uint64		errors;
	int64		since_us;		/* when its transaction, or the first try, began */
	bool		kept;			/* a keeper extends its lease while it holds locks */
} Work;

extern void work_found(SimFrontEnd *self);		/* make the database */
extern void work_client(SimFrontEnd *self);
extern void work_maintain(SimFrontEnd *self);
extern void maintain_pack(MosqlSession *session, uint64 root);
extern void work_keep(SimFrontEnd *self);
extern void work_verify(SimFrontEnd *self);		/* at the end: everything is in order */
extern bool work_stops;			/* clients end */
extern bool work_founded;
extern bool work_verified;
extern uint64 work_transactions;
extern uint64 work_outcomes[4];	/* committed, 40001, unknown, others */
extern uint64 alone_scans;		/* ... that were shown without a snapshot */
extern uint64 work_hits;		/* reads that a snapshot had seen before */
extern uint64 work_rewritten;
extern int64 work_longest_us;

#endif							/* WORK_H */
