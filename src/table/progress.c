/*
 * progress.c: what a long operation says of itself at the clock.
 *
 * Layer: table.  The view mosql_fdw_progress shows it (src/admin/maintain.c).
 */
#include "postgres.h"

#include <unistd.h>

#include "commands/dbcommands.h"
#include "miscadmin.h"
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

void
mosql_progress_describe(StringInfo out, const char *phase, const char *table, uint64 done,
						int64 total)
{
	StringInfoData text;
	MosqlBytes	utf8;
	char		host[256] = "";

	(void) gethostname(host, sizeof(host) - 1);
	initStringInfo(&text);
	appendStringInfoChar(&text, '{');
	put_string(&text, "phase", phase);
	appendStringInfoString(&text, ", ");
	put_string(&text, "table", table);
	appendStringInfo(&text, ", \"done\": " UINT64_FORMAT, done);
	if (total >= 0)
		appendStringInfo(&text, ", \"total\": " INT64_FORMAT, total);
	appendStringInfoString(&text, ", ");
	put_string(&text, "by", psprintf("process %d on %s, database %s", MyProcPid, host,
									 get_database_name(MyDatabaseId)));
	utf8 = mosql_text_to_utf8(text.data, text.len);
	appendBinaryStringInfo(out, utf8.data, utf8.len);
}
