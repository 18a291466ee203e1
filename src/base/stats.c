/*
 * stats.c: the counters of this backend.
 *
 * Layer: base.  Everybody adds to them directly; they are never reset, readers
 * take differences.
 */
#include "base/stats.h"

MosqlStats	mosql_stats;
