/*
 * server.c: what decoders of the table layer and the option parser ask of a
 * server.  Whatever else their files refer to is left unresolved by the linker,
 * so that calling it would crash.
 */
#include "fuzz.h"

#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "server.h"

List	   *server_options;

int
GetDatabaseEncoding(void)
{
	return PG_UTF8;
}

/* As PostgreSQL's, for lists of pointers. */
List *
lappend(List *list, void *datum)
{
	int			n = list ? list->length : 0;

	if (list == NULL)
	{
		list = palloc0(sizeof(List));
		list->type = T_List;
	}
	list->elements = list->elements
		? repalloc(list->elements, (n + 1) * sizeof(ListCell)) : palloc(sizeof(ListCell));
	list->elements[n].ptr_value = datum;
	list->length = list->max_length = n + 1;
	return list;
}

bool
pg_verify_mbstr(int encoding, const char *mbstr, int len, bool noError)
{
	return pg_encoding_verifymbstr(encoding, mbstr, len) == len;
}

char *
get_rel_name(Oid relid)
{
	return pstrdup("t");
}

char *
get_attname(Oid relid, AttrNumber attnum, bool missing_ok)
{
	return psprintf("c%d", attnum);
}

/* ---- for the option parser ---- */

char *
defGetString(DefElem *def)
{
	return ((String *) def->arg)->sval;
}

bool
defGetBoolean(DefElem *def)
{
	bool		b = false;

	MUST(parse_bool(defGetString(def), &b));	/* it was checked */
	return b;
}

bool
parse_bool(const char *value, bool *result)
{
	*result = strcmp(value, "true") == 0 || strcmp(value, "on") == 0;
	return *result || strcmp(value, "false") == 0 || strcmp(value, "off") == 0;
}

/* Decimal, without units. */
bool
parse_int(const char *value, int *result, int flags, const char **hintmsg)
{
	char	   *end;
	long		n;

	errno = 0;
	n = strtol(value, &end, 10);
	if (end == value || *end != '\0' || errno != 0 || n != (int) n)
		return false;
	*result = (int) n;
	return true;
}

int
varstr_levenshtein_less_equal(const char *source, int slen, const char *target, int tlen,
							  int ins_c, int del_c, int sub_c, int max_d, bool trusted)
{
	int			common = 0;

	MUST(slen <= 255 && tlen <= 255);
	while (common < slen && common < tlen && source[common] == target[common])
		common++;
	return Max(slen, tlen) - common;
}

bool
superuser(void)
{
	return false;
}

Oid
GetUserId(void)
{
	return 10;
}

ForeignServer *
GetForeignServer(Oid serverid)
{
	ForeignServer *server = palloc0(sizeof(ForeignServer));

	server->options = server_options;
	return server;
}

HeapTuple
SearchSysCache2(int cache, Datum a, Datum b)
{
	return NULL;
}
