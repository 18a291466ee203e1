/*
 * server.h: see server.c.
 */
#ifndef SERVER_H
#define SERVER_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* The options that the only foreign server has. */
extern List *server_options;

#endif							/* SERVER_H */
