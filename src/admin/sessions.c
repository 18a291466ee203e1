/*
 * sessions.c: mosql_fdw_sessions(): who is there, and what keeps old versions of rows.
 *
 * Layer: admin.  It finds the session that mosql_fdw_repair() is to end, so it opens none,
 * and damage in what it shows is no reason to hide the rest.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "admin/maintain.h"
#include "step/clock_keep.h"

PG_FUNCTION_INFO_V1(mosql_fdw_sessions);

#define COLUMNS		11
#define WHO_MAX		4096		/* bytes that a session may say of itself */
#define WHO			7			/* server, pid, database and application_name begin here */

static const char *
state_of(const MosqlSessionState *session, MosqlTimestamp now)
{
	if (session->lease < now)
		return "ended";
	if (session->lease - now > Max(session->span, (uint64) MOSQL_LEASE_MS * 1000))
		return "ahead";
	return "alive";
}

char *
mosql_session_said(Jsonb *who, const char *name)
{
	JsonbValue	buffer;
	JsonbValue *value;

	if (who == NULL || !JB_ROOT_IS_OBJECT(who))
		return NULL;
	value = getKeyJsonValueFromContainer(&who->root, name, strlen(name), &buffer);
	if (value != NULL && value->type == jbvString)
		return pnstrdup(value->val.string.val, value->val.string.len);
	if (value != NULL && value->type == jbvNumeric)
		return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
	return NULL;
}

Jsonb *
mosql_session_who(const MosqlSessionState *session)
{
	Datum		json = (Datum) 0;

	if (session->who.data != NULL && session->who.len <= WHO_MAX)
		json = mosql_admin_json(session->who);
	return json != (Datum) 0 ? DatumGetJsonbP(json) : NULL;
}

void
mosql_session_put_who(const MosqlSessionState *session, Datum *values, bool *nulls)
{
	static const char *const names[] = {"server", "pid", "database", "application"};
	Jsonb	   *who = session != NULL ? mosql_session_who(session) : NULL;

	for (int i = 0; i < lengthof(names); i++)
	{
		char	   *text = mosql_session_said(who, names[i]);

		nulls[i] = text == NULL;
		if (text != NULL)
			values[i] = strcmp(names[i], "pid") == 0 ? Int32GetDatum(atoi(text)) : CStringGetTextDatum(text);
	}
}

static Datum
time_or_null(MosqlTimestamp time, MosqlTimestamp none, bool *null)
{
	*null = time == none || time >= MOSQL_TS_MAX;
	return *null ? (Datum) 0 : TimestampTzGetDatum(mosql_admin_time(time));
}

Datum
mosql_fdw_sessions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	MosqlSession *mine = mosql_admin_server_session(mosql_admin_text_arg(fcinfo, 0));
	MosqlSessionState *sessions;
	MosqlTimestamp now;
	int			n = mosql_clock_list_sessions(mosql_session_stepper(mine), &sessions, &now);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
	{
		const MosqlSessionState *session = &sessions[i];
		Datum		values[COLUMNS] = {
			Int64GetDatum(session->sid),
			CStringGetTextDatum(state_of(session, now)),
			BoolGetDatum(mosql_session_uses_id(mine, session->sid))
		};
		bool		nulls[COLUMNS] = {false};

		values[3] = time_or_null(Min(session->opened, now), 0, &nulls[3]);
		values[4] = time_or_null(session->lease, 0, &nulls[4]);
		values[5] = time_or_null(session->oldest, MOSQL_TS_MAX, &nulls[5]);
		values[6] = Int32GetDatum(session->nsnapshots);
		mosql_session_put_who(session, values + WHO, nulls + WHO);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	return (Datum) 0;
}
