/*
 * stats.h: what this backend has done, counted.
 *
 * One static set of counters per backend; mosql_fdw_stats() shows them, and
 * EXPLAIN (ANALYZE) shows the difference over a node's run.
 */
#ifndef MOSQL_STATS_H
#define MOSQL_STATS_H

#include "base/base.h"

typedef struct MosqlStats
{
	int64		round_trips;	/* waits for Redis, however many nodes and commands */
	int64		commands;		/* commands sent */
	int64		bytes_sent;
	int64		bytes_received;
	int64		redirects;		/* MOVED and ASK followed */
	int64		reconnects;
	int64		leaf_reads;		/* whole leaves read */
	int64		inner_reads;	/* inner nodes read */
	int64		point_reads;	/* rows read by key */
	int64		snapshot_hits;	/* rows by key, and stretches of keys, that their snapshot had read */
	int64		step_retries;	/* mini-transactions evaluated again */
	int64		splits;			/* leaves and inner nodes split */
	int64		rows_loaded;	/* into trees that nobody else knew: without intents */
	int64		leaves_packed;	/* written as blocks */
	int64		leaves_unpacked;	/* by who came to write */
	int64		leaves_rewritten;	/* packed ones, of which a commit has written many rows as another block */
	int64		rows_beside;	/* written in leaves that stayed packed */
	int64		commits;
	int64		conflicts;		/* 40001 raised */
	int64		prepare_retries;	/* attempts to prepare after the first */
	int64		waits;			/* pauses for somebody else's intent */
	int64		lost_writes;	/* committed rows that a server has lost */
	int64		helps;			/* work of others finished: applies, removals, splits */
	int64		locks;			/* rows locked */
	int64		lock_waits;		/* waits for a lock of a row */
	int64		lock_wait_us;	/* time in them, microseconds */
	int64		deadlocks;		/* 40P01 raised */
} MosqlStats;

extern MosqlStats mosql_stats;

#endif							/* MOSQL_STATS_H */
