/*
 * progress.c: what a long operation, and a session, say of themselves at the clock.
 *
 * Layer: table.  The view mosql_fdw_progress shows the one (src/admin/maintain.c),
 * mosql_fdw_sessions() the other.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/postmaster.h"
#include "utils/guc.h"
#include "utils/json.h"

#include "table/table.h"

static void
put_string(StringInfo out, const char *name, const char *value)
{
	appendStringInfo(out, "\"%s\": ", name);
	if (value != NULL)
		escape_json(out, value);
	else
		appendStringInfoString(out, "null");
}

static const char *
host_name(void)
{
	static char host[256];

	(void) gethostname(host, sizeof(host) - 1);
	return host;
}

void
mosql_progress_describe(StringInfo out, const char *phase, const char *table, uint64 done,
						int64 total)
{
	StringInfoData text;
	MosqlBytes	utf8;

	initStringInfo(&text);
	appendStringInfoChar(&text, '{');
	put_string(&text, "phase", phase);
	appendStringInfoString(&text, ", ");
	put_string(&text, "table", table);
	appendStringInfo(&text, ", \"done\": " UINT64_FORMAT, done);
	if (total >= 0)
		appendStringInfo(&text, ", \"total\": " INT64_FORMAT, total);
	appendStringInfoString(&text, ", ");
	put_string(&text, "by", psprintf("process %d on %s, database %s", MyProcPid, host_name(),
									 get_database_name(MyDatabaseId)));
	utf8 = mosql_text_to_utf8(text.data, text.len);
	appendBinaryStringInfo(out, utf8.data, utf8.len);
}

/* NULL if this is asked for the first time where no catalog can be looked at. */
static const char *
database_name(void)
{
	static char *name = NULL;

	if (name == NULL && IsTransactionState())
	{
		char	   *found = get_database_name(MyDatabaseId);

		if (found != NULL)
			name = MemoryContextStrdup(TopMemoryContext, found);
	}
	return name;
}

const char *
mosql_progress_backend(const char *home)
{
	StringInfoData text;
	MosqlBytes	utf8;

	initStringInfo(&text);
	appendStringInfo(&text, "{\"pid\": %d, \"started\": " INT64_FORMAT ", \"home\": \"%s\", ",
					 MyProcPid, MyStartTimestamp, home);
	put_string(&text, "server", psprintf("%s:%d", host_name(), PostPortNumber));
	appendStringInfoString(&text, ", ");
	put_string(&text, "database", database_name());
	appendStringInfoString(&text, ", ");
	put_string(&text, "application", MyBgworkerEntry != NULL ? MyBgworkerEntry->bgw_name : application_name);
	appendStringInfoChar(&text, '}');
	utf8 = mosql_text_to_utf8(text.data, text.len);
	return pnstrdup(utf8.data, utf8.len);
}
