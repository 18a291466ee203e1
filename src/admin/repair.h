/*
 * repair.h: what the two files of mosql_fdw_repair() share.
 *
 * Layer: admin, private.
 */
#ifndef MOSQL_REPAIR_H
#define MOSQL_REPAIR_H

#include "admin/admin.h"
#include "step/clock_keep.h"

typedef struct Repair
{
	ReturnSetInfo *result;
	Oid			serverid;
	MosqlSession *session;
	MosqlStepper *stepper;
	const char *target;			/* NULL: none was given */
	bool		dry_run;
} Repair;

/* One row of the answer: about what, what was found, what was done or would be. */
extern void mosql_repair_put(Repair *repair, const char *object, const char *finding,
							 const char *action);

/* --- repair_tree.c --- */
extern void mosql_repair_clock(Repair *repair);
extern void mosql_repair_table(Repair *repair);
extern void mosql_repair_definitions(Repair *repair);
extern void mosql_repair_tree(Repair *repair);

/* Delete all nodes of a tree that no definition names, whatever of it is damaged. */
extern void mosql_repair_discard(Repair *repair, uint64 root);

/* The relation that the target names. */
extern Oid	mosql_repair_relation_target(const Repair *repair, const char *what);

/* The tree that the target names, 16 hex digits. */
extern uint64 mosql_repair_tree_target(const Repair *repair);

/* The foreign table of this server that the target names, with a lock; its owner's. */
extern Relation mosql_repair_table_target(const Repair *repair, Oid relid, LOCKMODE lockmode);

#endif							/* MOSQL_REPAIR_H */
