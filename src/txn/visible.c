/*
 * visible.c: what a row and the intent on it mean to a reader.
 *
 * Layer: txn.  A reader never waits.  An intent whose transaction is committed
 * at a timestamp <= S counts, any other does not: a commit that is not decided
 * yet will get a timestamp above S.
 *
 * Race -- "no record" is ambiguous: the transaction may be undecided, or be
 * applied and its record dropped since we read the leaf.  "Aborted" is, too: a
 * late resolver may write it for a transaction that was applied and dropped.
 * Both are believed only after the leaf, read again, still shows the same
 * intent (rule 4): then at that later moment it was not applied, so at the
 * earlier moment of the clock's answer it was not decided (an applied intent
 * never comes back, since every attempt has a new id: rule 1).
 */
#include "txn/recover.h"

/* ---- a cache of the clock's answers ---- */

static int
status_find(const MosqlStatusCache *cache, MosqlTxid tx)
{
	for (int i = 0; i < cache->n; i++)
		if (mosql_txid_equal(cache->txs[i], tx))
			return i;
	return -1;
}

static void
status_add(MosqlStatusCache *cache, MosqlTxid tx, MosqlTimestamp committed)
{
	int			at = status_find(cache, tx);

	if (at < 0)
	{
		if (cache->n == cache->max)
		{
			cache->max = Max(8, cache->max * 2);
			cache->txs = cache->txs ? repalloc(cache->txs, cache->max * sizeof(MosqlTxid))
				: palloc(cache->max * sizeof(MosqlTxid));
			cache->committed = cache->committed
				? repalloc(cache->committed, cache->max * sizeof(MosqlTimestamp))
				: palloc(cache->max * sizeof(MosqlTimestamp));
		}
		at = cache->n++;
		cache->txs[at] = tx;
	}
	cache->committed[at] = committed;
}

/* The next intent of a point; false at the end.  XX001 if damaged. */
static bool
next_intent(MosqlSession *session, const MosqlPoint *point, MosqlBytes *rest, MosqlIntent *intent)
{
	int			got = mosql_intent_next(rest, intent);

	if (got < 0)
		mosql_report_damage(session->config.ns, point->leaf, "an intent does not decode");
	return got == 1;
}

/* ---- settling ---- */

/* Ask the clock about every intent that is not in the cache yet. */
static int
ask_clock(MosqlSession *session, MosqlPoint *points, int n, MosqlStatusCache *cache,
		  MosqlTxid **asked, MosqlRecord **records)
{
	MosqlStatusCache seen = {0};
	MosqlSnapshotList list;

	for (int i = 0; i < n; i++)
	{
		MosqlBytes	rest = points[i].intent;
		MosqlIntent intent;

		while (next_intent(session, &points[i], &rest, &intent))
			if (status_find(cache, intent.tx) < 0)
				status_add(&seen, intent.tx, 0);
	}
	*asked = seen.txs;
	if (seen.n == 0)
		return 0;
	MOSQL_DEBUG_POINT("read-intents");
	*records = palloc0(seen.n * sizeof(MosqlRecord));
	mosql_clock_status(&session->stepper, seen.txs, seen.n, *records, &list);
	return seen.n;
}

/* Is one of these transactions among a point's intents? */
static bool
has_any(MosqlSession *session, const MosqlPoint *point, const MosqlTxid *txs, int n)
{
	MosqlBytes	rest = point->intent;
	MosqlIntent intent;

	while (next_intent(session, point, &rest, &intent))
		for (int i = 0; i < n; i++)
			if (mosql_txid_equal(txs[i], intent.tx))
				return true;
	return false;
}

/* Forget what was answered about this point's intents, unless it is final. */
static void
ask_again(MosqlSession *session, const MosqlPoint *point, MosqlStatusCache *cache)
{
	MosqlBytes	rest = point->intent;
	MosqlIntent intent;

	while (next_intent(session, point, &rest, &intent))
	{
		int			at = status_find(cache, intent.tx);

		if (at >= 0 && cache->committed[at] == 0)
		{
			cache->n--;
			cache->txs[at] = cache->txs[cache->n];
			cache->committed[at] = cache->committed[cache->n];
		}
	}
}

/*
 * Read again the points that the clock's answer leaves open; true if one of
 * them is not as it was.
 */
static bool
read_again(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys, MosqlPoint *points,
		   int n, bool latest, const MosqlTxid *doubt, int ndoubt, MosqlStatusCache *cache)
{
	int		   *again = palloc(n * sizeof(int));
	MosqlBytes *again_keys = palloc(n * sizeof(MosqlBytes));
	MosqlPoint *fresh;
	bool		changed = false;
	int			nagain = 0;

	for (int i = 0; i < n; i++)
		if (has_any(session, &points[i], doubt, ndoubt) || (latest && mosql_point_has_increments(&points[i])))
		{
			again[nagain] = i;
			again_keys[nagain++] = keys[i];
		}
	if (nagain == 0)
		return false;
	fresh = palloc0(nagain * sizeof(MosqlPoint));
	mosql_btree_get(tree, again_keys, nagain, fresh);
	for (int i = 0; i < nagain; i++)
	{
		MosqlPoint *point = &points[again[i]];

		changed |= !mosql_bytes_equal(point->intent, fresh[i].intent) ||
			(mosql_point_has_increments(point) && !mosql_bytes_equal(point->row, fresh[i].row));
		*point = fresh[i];
	}
	if (changed)
		for (int i = 0; i < nagain; i++)
			ask_again(session, &points[again[i]], cache);
	return changed;
}

/*
 * Race -- increments and the latest state: between our read of the row and the
 * clock's answer, another increment may have been prepared, decided and even
 * applied, with a smaller timestamp than one that we then find committed.  So
 * the latest state with increments counts only if row and intents were the
 * same before and after one question about all that is not known for sure.
 * (At a snapshot there is no such race: what is not newer than S was prepared
 * before S was drawn.)
 */
void
mosql_points_settle(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys,
					MosqlPoint *points, int n, bool latest, MosqlStatusCache *cache)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);

	for (;;)
	{
		MosqlTxid  *asked = NULL;
		MosqlRecord *records = NULL;
		int			nasked = ask_clock(session, points, n, cache, &asked, &records);
		int			ndoubt = 0;
		MosqlTxid  *doubt = palloc(nasked * sizeof(MosqlTxid) + 1);

		for (int i = 0; i < nasked; i++)
		{
			int64		since_us;

			if (records[i].state == MOSQL_RECORD_COMMITTED)
			{
				status_add(cache, asked[i], records[i].ts);
				continue;
			}
			/* a commit of ours that finds it in its way will remember */
			(void) mosql_recover_met(session, asked[i], &since_us);
			status_add(cache, asked[i], 0);
			doubt[ndoubt++] = asked[i];
		}
		if (ndoubt > 0)
			MOSQL_DEBUG_POINT("read-status-asked");
		if (ndoubt == 0 && !latest)
			return;

		/*
		 * If a row of a doubted transaction was applied meanwhile, or an
		 * intent joined, all of these rows are asked about again, so that no
		 * part of a transaction is believed undecided.
		 */
		if (!read_again(session, tree, keys, points, n, latest, doubt, ndoubt, cache))
			return;
		if (!mosql_budget_pause(&budget))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("rows in namespace \"%s\" changed faster than they could be read",
							session->config.ns)));
	}
}

/* ---- evaluation ---- */

void
mosql_report_too_old(MosqlSession *session)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("snapshot too old"),
			 errdetail("A row in namespace \"%s\" no longer has the version that this snapshot needs, because its registration is gone: the session's lease ran out, or a failover lost it.",
					   session->config.ns),
			 errhint("Retry the transaction.")));
}

/* Columns after an increment intent, in the current context; what is wrong, or NULL. */
static const char *
add_increment(const MosqlIntent *intent, MosqlBytes *columns)
{
	MosqlIncrement *inc;
	int			ninc;
	StringInfoData out;

	if (!mosql_increments_decode(intent->payload, &inc, &ninc))
		return "an increment does not decode";
	mosql_string_init(&out, columns->len);
	if (mosql_columns_increment(&out, *columns, inc, ninc) != MOSQL_INCREMENT_OK)
		return "an increment does not fit its row";
	*columns = mosql_bytes_of(&out);
	return NULL;
}

/* The version that increments stand on. */
static MosqlVisible
increment_base(const MosqlPoint *point, MosqlTimestamp S, MosqlBytes *columns,
			   MosqlTimestamp *version, const char **fault)
{
	MosqlVersion v;
	MosqlVisible visible = mosql_row_visible(point->row, point->purged, S, &v);

	if (visible == MOSQL_VISIBLE_LIVE)
	{
		*columns = v.columns;
		*version = Max(v.ts, *version);
	}
	else if (visible != MOSQL_VISIBLE_TOO_OLD)
	{
		*fault = "an increment stands on an absent row";
		return MOSQL_VISIBLE_DAMAGED;
	}
	return visible;
}

/*
 * What the committed intents of a point make of its row: a put or delete stands
 * alone; increments add up on the version that S sees.  False: there are none.
 */
static bool
intents_visible(const MosqlPoint *point, MosqlTimestamp S, const MosqlStatusCache *cache,
				MosqlBytes *columns, MosqlTimestamp *version, MosqlVisible *visible,
				const char **fault)
{
	MosqlBytes	rest = point->intent;
	MosqlIntent intent;
	bool		any = false;
	int			got;

	while ((got = mosql_intent_next(&rest, &intent)) == 1)
	{
		int			at = status_find(cache, intent.tx);
		MosqlTimestamp ts;

		Assert(at >= 0);
		ts = cache->committed[at];
		if (ts == 0 || ts > S)
			continue;
		*version = any ? Max(*version, ts) : ts;
		if (intent.kind != MOSQL_INTENT_INCREMENT)
		{
			*visible = intent.kind == MOSQL_INTENT_PUT ? MOSQL_VISIBLE_LIVE : MOSQL_VISIBLE_ABSENT;
			*columns = intent.payload;
			any = true;
			continue;
		}
		if (!any)
		{
			*visible = increment_base(point, S, columns, version, fault);
			if (*visible != MOSQL_VISIBLE_LIVE)
				return true;
		}
		any = true;
		*visible = MOSQL_VISIBLE_LIVE;
		if ((*fault = add_increment(&intent, columns)) != NULL)
		{
			*visible = MOSQL_VISIBLE_DAMAGED;
			return true;
		}
	}
	if (got == 0)
		return any;
	*fault = "an intent does not decode";
	*visible = MOSQL_VISIBLE_DAMAGED;
	return true;
}

/* See txn_int.h. */
MosqlVisible
mosql_point_look(const MosqlPoint *point, MosqlTimestamp S, const MosqlStatusCache *cache,
				 MosqlBytes *columns, MosqlTimestamp *version, const char **fault)
{
	MosqlVersion v;
	MosqlVisible visible;

	if (point->intent.data != NULL &&
		intents_visible(point, S, cache, columns, version, &visible, fault))
		return visible;
	if (mosql_row_is_plain(point->row, S, columns, version))
		return MOSQL_VISIBLE_LIVE;
	*version = 0;
	if (point->row.data == NULL && (point->purged <= S))
		return MOSQL_VISIBLE_ABSENT;
	v.ts = 0;
	visible = mosql_row_visible(point->row, point->purged, S, &v);
	if (visible == MOSQL_VISIBLE_LIVE)
		*columns = v.columns;
	if (visible == MOSQL_VISIBLE_DAMAGED)
		*fault = "a row does not decode";
	*version = v.ts;
	return visible;
}

bool
mosql_point_visible(MosqlSession *session, const MosqlPoint *point, uint64 node,
					MosqlTimestamp S, const MosqlStatusCache *cache,
					MosqlBytes *columns, MosqlTimestamp *version)
{
	const char *fault = NULL;

	switch (mosql_point_look(point, S, cache, columns, version, &fault))
	{
		case MOSQL_VISIBLE_LIVE:
			return true;
		case MOSQL_VISIBLE_ABSENT:
			break;
		case MOSQL_VISIBLE_TOO_OLD:
			mosql_report_too_old(session);
			break;
		case MOSQL_VISIBLE_DAMAGED:
			mosql_report_damage(session->config.ns, node, fault);
	}
	return false;
}

void
mosql_points_latest(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys,
					MosqlPoint *points, int n, MosqlRow *rows)
{
	MosqlStatusCache cache = {0};

	mosql_points_settle(session, tree, keys, points, n, true, &cache);
	for (int i = 0; i < n; i++)
	{
		rows[i] = (MosqlRow) {.key = keys[i]};
		rows[i].found = mosql_point_visible(session, &points[i], points[i].leaf, MOSQL_TS_MAX,
											&cache, &rows[i].columns, &rows[i].version);
	}
}
