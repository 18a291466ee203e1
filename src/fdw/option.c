/*
 * option.c: the options of servers, user mappings, tables and columns.
 *
 * Layer: fdw.  One table says which option may stand where and how its value
 * is checked; the validator (run by CREATE and ALTER) and mosql_fdw_options
 * (run when a session is opened or a table planned) both go by it.  Nothing
 * here talks to Redis.
 *
 * Where an option may stand on the server and on the table, the table wins.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "fdw/fdw_int.h"

/* Where an option may stand: a set of these. */
#define ON_SERVER	0x01
#define ON_MAPPING	0x02
#define ON_TABLE	0x04
#define ON_COLUMN	0x08

typedef enum OptionKind
{
	OPTION_BOOL,
	OPTION_INT,					/* min .. max */
	OPTION_COST,				/* a finite number >= 0 */
	OPTION_STRING,				/* anything that is not empty */
	OPTION_SECRET,				/* any string, never shown */
	OPTION_KEY,					/* a boolean, or a place in the key */
	OPTION_NODES,
	OPTION_NAMESPACE,
	OPTION_WORD,				/* one of the words */
	OPTION_TIME					/* seconds, or a number with a unit; or never */
} OptionKind;

typedef struct Option
{
	const char *name;
	int			where;
	OptionKind	kind;
	int			min;
	int			max;
	const char *meaning;		/* for hints */
	const char *words[4];		/* ends with NULL */
} Option;

static const Option options_known[] = {
	{"nodes", ON_SERVER, OPTION_NODES, 0, 0, "some nodes of the Redis Cluster, as host:port,host:port, or the path of one Redis server's socket"},
	{"namespace", ON_SERVER, OPTION_NAMESPACE, 0, 0, "which database in the cluster, the prefix of all its keys"},
	{"atomic", ON_SERVER, OPTION_WORD, 0, 0, "how a node is changed atomically", {"script", "watch"}},
	{"connect_timeout", ON_SERVER, OPTION_INT, 1, INT_MAX, "milliseconds to wait for a connection"},
	{"command_timeout", ON_SERVER, OPTION_INT, 1, INT_MAX, "milliseconds to wait for an answer, retries included"},
	{"durability", ON_SERVER, OPTION_WORD, 0, 0, "what a commit waits for: nothing, the replicas, or the disk", {"none", "replicated", "fsync"}},
	{"replicas", ON_SERVER, OPTION_INT, 0, 100, "how many replicas each primary has, all of which acknowledge a commit"},
	{"replica_timeout", ON_SERVER, OPTION_INT, 1, INT_MAX, "milliseconds to wait for replicas, or for the disk"},
	{"keep_connections", ON_SERVER, OPTION_BOOL, 0, 0, "whether connections outlive the transaction"},
	{"idle_timeout", ON_SERVER, OPTION_INT, 0, INT_MAX, "milliseconds after which idle connections are closed, 0: never"},
	{"max_connections", ON_SERVER, OPTION_INT, 0, 100000, "connections from this PostgreSQL server to one Redis node, 0: no bound"},
	{"updatable", ON_SERVER | ON_TABLE, OPTION_BOOL, 0, 0, "whether INSERT, UPDATE and DELETE are allowed"},
	{"truncatable", ON_SERVER | ON_TABLE, OPTION_BOOL, 0, 0, "whether TRUNCATE is allowed"},
	{"batch_size", ON_SERVER | ON_TABLE, OPTION_INT, 1, 100000, "how many rows one step of a bulk insert takes"},
	{"fetch_size", ON_SERVER | ON_TABLE, OPTION_INT, 0, INT_MAX, "how many rows the first read of a scan wants, 0: by plan"},
	{"fdw_startup_cost", ON_SERVER | ON_TABLE, OPTION_COST, 0, 0, "the planner's cost of one round trip"},
	{"fdw_tuple_cost", ON_SERVER | ON_TABLE, OPTION_COST, 0, 0, "the planner's cost of one row read"},
	{"use_remote_estimate", ON_SERVER | ON_TABLE, OPTION_BOOL, 0, 0, "whether rows are counted in Redis even after ANALYZE"},
	{"locking", ON_SERVER | ON_TABLE, OPTION_WORD, 0, 0, "whether transactions wait for each other's rows, or are checked at commit", {"optimistic", "pessimistic"}},
	{"compression", ON_SERVER | ON_TABLE, OPTION_WORD, 0, 0, "how leaves are packed that are loaded or built at once, or quiet", {"lz4", "zstd", "none"}},
	{"pack_after", ON_SERVER | ON_TABLE, OPTION_TIME, 0, 0, "for how long nobody has written to a leaf when maintenance packs it"},
	{"placement", ON_SERVER | ON_TABLE, OPTION_WORD, 0, 0, "whether the first leaves are on the Redis node of the clock, or anywhere", {"clock", "spread"}},
	{"row_security", ON_TABLE, OPTION_BOOL, 0, 0, "whether ALTER TABLE ... ENABLE ROW LEVEL SECURITY hides the rows"},
	{"schema_name", ON_TABLE, OPTION_STRING, 0, 0, "the table's schema in Redis"},
	{"table_name", ON_TABLE, OPTION_STRING, 0, 0, "the table's name in Redis"},
	{"key", ON_COLUMN, OPTION_KEY, 1, MOSQL_KEY_MAX_COLUMNS, "whether the column belongs to the primary key, or its place there"},
	{"username", ON_MAPPING, OPTION_STRING, 0, 0, "the Redis user"},
	{"password", ON_MAPPING, OPTION_SECRET, 0, 0, "the Redis user's password"},
	{"password_required", ON_MAPPING, OPTION_BOOL, 0, 0, "whether a Redis user needs a password here"},
};

#define DEFAULT_NODES			"127.0.0.1:6379"
#define DEFAULT_NAMESPACE		"mosql"
#define NAMESPACE_MAX_BYTES		48
#define CONNECT_TIMEOUT_MS		2000
#define COMMAND_TIMEOUT_MS		10000
#define IDLE_TIMEOUT_MS			60000	/* as long as the session's lease */
#define REPLICA_TIMEOUT_MS		1000
#define BATCH_SIZE_ROWS			1000

/*
 * In the planner's unit, a page read in sequence, of some 5 us: a round trip in
 * one data centre takes 50 to 200 us, a row read and decoded 0.5 to 1 us.
 */
#define ROUND_TRIP_COST			25.0
#define TUPLE_COST				0.1

PG_FUNCTION_INFO_V1(mosql_fdw_validator);

static const Option *
find_option(const char *name)
{
	for (int i = 0; i < lengthof(options_known); i++)
		if (strcmp(options_known[i].name, name) == 0)
			return &options_known[i];
	return NULL;
}

static int
context_of(Oid catalog)
{
	switch (catalog)
	{
		case ForeignServerRelationId:
			return ON_SERVER;
		case UserMappingRelationId:
			return ON_MAPPING;
		case ForeignTableRelationId:
			return ON_TABLE;
		case AttributeRelationId:
			return ON_COLUMN;
		default:
			return 0;
	}
}

/* "servers and tables" for a set of places. */
static const char *
place_names(int where)
{
	switch (where)
	{
		case ON_SERVER:
			return "servers";
		case ON_MAPPING:
			return "user mappings";
		case ON_TABLE:
			return "tables";
		case ON_COLUMN:
			return "columns";
		default:
			return "servers and tables";
	}
}

/* The known option of this context closest to name, NULL if none is close. */
static const char *
closest_option(const char *name, int context)
{
	const char *best = NULL;
	int			best_distance = Max(2, (int) strlen(name) / 2) + 1;
	int			len = (int) strlen(name);

	if (len > 255)				/* what varstr_levenshtein takes */
		return NULL;
	for (int i = 0; i < lengthof(options_known); i++)
	{
		const Option *option = &options_known[i];
		int			distance;

		if ((option->where & context) == 0)
			continue;
		distance = varstr_levenshtein_less_equal(name, len, option->name,
												 (int) strlen(option->name),
												 1, 1, 1, best_distance, true);
		if (distance < best_distance)
		{
			best = option->name;
			best_distance = distance;
		}
	}
	return best;
}

/* HV00D with the most useful hint: the right place, the right name, the list. */
static void
report_unknown(const char *name, int context)
{
	const Option *elsewhere = find_option(name);
	const char *close = closest_option(name, context);
	StringInfoData valid;

	initStringInfo(&valid);
	for (int i = 0; i < lengthof(options_known); i++)
		if (options_known[i].where & context)
			appendStringInfo(&valid, "%s%s", valid.len > 0 ? ", " : "", options_known[i].name);

	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 elsewhere != NULL ?
			 errhint("This is an option of %s.", place_names(elsewhere->where)) :
			 close != NULL ?
			 errhint("Perhaps you meant the option \"%s\".", close) :
			 valid.len > 0 ?
			 errhint("Valid options in this context are: %s", valid.data) :
			 errhint("There are no valid options in this context.")));
}

static void
report_value(const Option *option, const char *value, const char *expected)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_STRING_FORMAT),
			 errmsg("invalid value for option \"%s\": \"%s\"", option->name, value),
			 errdetail("Expected %s.", expected),
			 errhint("Option \"%s\": %s.", option->name, option->meaning)));
}

static const char *
namespace_problem(const char *value)
{
	size_t		len = strlen(value);

	if (len == 0 || len > NAMESPACE_MAX_BYTES)
		return psprintf("1 to %d characters", NAMESPACE_MAX_BYTES);
	for (const char *p = value; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			  (*p >= '0' && *p <= '9') || strchr("_.-", *p) != NULL))
			return "only letters, digits and the characters _ . -";
	return NULL;
}

/* A finite number that is not negative. */
static bool
is_cost(const char *value)
{
	char	   *end;
	double		cost;

	errno = 0;
	cost = strtod(value, &end);
	return end != value && *end == '\0' && errno == 0 && !isnan(cost) && !isinf(cost) && cost >= 0;
}

static void
check_word(const Option *option, const char *value)
{
	StringInfoData expected;

	initStringInfo(&expected);
	for (int i = 0; option->words[i] != NULL; i++)
	{
		if (strcmp(value, option->words[i]) == 0)
			return;
		appendStringInfo(&expected, "%s\"%s\"", i == 0 ? "" : option->words[i + 1] != NULL ? ", " : " or ", option->words[i]);
	}
	report_value(option, value, expected.data);
}

/* Check one value; HV00A if it is none for its option. */
static void
check_value(const Option *option, DefElem *def)
{
	char	   *value = defGetString(def);
	const char *problem;
	bool		b;
	int			i;

	switch (option->kind)
	{
		case OPTION_BOOL:
			if (!parse_bool(value, &b))
				report_value(option, value, "a boolean, true or false");
			break;
		case OPTION_KEY:
			if (!parse_bool(value, &b) &&
				(!parse_int(value, &i, 0, NULL) || i < option->min || i > option->max))
				report_value(option, value,
							 psprintf("a boolean, or a place from %d to %d", option->min, option->max));
			break;
		case OPTION_INT:
			if (!parse_int(value, &i, 0, NULL) || i < option->min || i > option->max)
				report_value(option, value,
							 option->max == INT_MAX ?
							 psprintf("an integer of at least %d", option->min) :
							 psprintf("an integer from %d to %d", option->min, option->max));
			break;
		case OPTION_COST:
			if (!is_cost(value))
				report_value(option, value, "a number that is not negative");
			break;
		case OPTION_STRING:
			if (value[0] == '\0')
				report_value(option, value, "a string that is not empty");
			break;
		case OPTION_SECRET:
			break;
		case OPTION_NODES:
			problem = mosql_redis_check_nodes(value);
			if (problem != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_FDW_INVALID_STRING_FORMAT),
						 errmsg("invalid value for option \"%s\": \"%s\"", option->name, value),
						 errdetail("%s", problem),
						 errhint("Expected host:port or several, separated by commas, or the path of a socket.")));
			break;
		case OPTION_NAMESPACE:
			problem = namespace_problem(value);
			if (problem != NULL)
				report_value(option, value, problem);
			break;
		case OPTION_WORD:
			check_word(option, value);
			break;
		case OPTION_TIME:
			if (strcmp(value, MOSQL_PACK_NEVER) != 0 &&
				(!parse_int(value, &i, GUC_UNIT_S, NULL) || i < 0))
				report_value(option, value, "seconds, a time as 90s, 10min or 2h, or \"never\"");
			break;
	}
}

static int
int_value(DefElem *def)
{
	int			value = 0;

	(void) parse_int(defGetString(def), &value, 0, NULL);
	return value;
}

/* Options that contradict each other. */
static void
check_durability(List *options)
{
	const char *durability = "none";
	int			replicas = -1;
	int			command_ms = COMMAND_TIMEOUT_MS;
	int			replica_ms = REPLICA_TIMEOUT_MS;
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "durability") == 0)
			durability = defGetString(def);
		else if (strcmp(def->defname, "replicas") == 0)
			replicas = int_value(def);
		else if (strcmp(def->defname, "command_timeout") == 0)
			command_ms = int_value(def);
		else if (strcmp(def->defname, "replica_timeout") == 0)
			replica_ms = int_value(def);
	}
	if (strcmp(durability, "replicated") == 0 && replicas == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("durability \"replicated\" needs at least one replica"),
				 errhint("Set option \"replicas\" to the number of replicas that each primary has.")));
	if (strcmp(durability, "none") == 0 && replicas > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("option \"replicas\" has no meaning with durability \"none\""),
				 errhint("Set option \"durability\" to \"replicated\" or \"fsync\", or leave \"replicas\" away.")));

	/*
	 * Else the answer that copies are missing came too late, and every commit that
	 * lacks them ended as unknown.
	 */
	if (strcmp(durability, "none") != 0 && replica_ms >= command_ms)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("option \"replica_timeout\" (%d ms) must be less than \"command_timeout\" (%d ms)",
						replica_ms, command_ms),
				 errhint("The wait for replicas, or for the disk, is part of the time for an answer: lower the one, or raise the other.")));
}

void
mosql_fdw_check_options(List *options, Oid catalog)
{
	int			context = context_of(catalog);
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const Option *option = find_option(def->defname);

		if (option == NULL || (option->where & context) == 0)
			report_unknown(def->defname, context);
		check_value(option, def);

		/*
		 * Whoever may drop the password check could use Redis with whatever
		 * rights an unauthenticated client has there (as postgres_fdw).
		 */
		if (strcmp(def->defname, "password_required") == 0 && !defGetBoolean(def) && !superuser())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("password_required=false is superuser-only"),
					 errhint("User mappings with the password_required option set to false may only be created or modified by the superuser.")));
	}
	check_durability(options);
}

Datum
mosql_fdw_validator(PG_FUNCTION_ARGS)
{
	mosql_fdw_check_options(untransformRelOptions(PG_GETARG_DATUM(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}

/* ---- reading options ---- */

/* Options were validated when they were set, so that values are believed. */
static void
apply_options(MosqlFdwOptions *out, List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const char *name = def->defname;

		if (strcmp(name, "nodes") == 0)
			out->session.redis.nodes = defGetString(def);
		else if (strcmp(name, "namespace") == 0)
			out->session.ns = defGetString(def);
		else if (strcmp(name, "atomic") == 0)
			out->session.engine = strcmp(defGetString(def), "watch") == 0 ?
				MOSQL_ENGINE_WATCH : MOSQL_ENGINE_SCRIPT;
		else if (strcmp(name, "connect_timeout") == 0)
			out->session.redis.connect_timeout_ms = int_value(def);
		else if (strcmp(name, "command_timeout") == 0)
			out->session.redis.command_timeout_ms = int_value(def);
		else if (strcmp(name, "username") == 0)
			out->session.redis.username = defGetString(def);
		else if (strcmp(name, "password") == 0)
			out->session.redis.password = defGetString(def);
		else if (strcmp(name, "durability") == 0)
		{
			out->session.redis.fsync = strcmp(defGetString(def), "fsync") == 0;
			out->replicated = strcmp(defGetString(def), "replicated") == 0;
		}
		else if (strcmp(name, "replicas") == 0)
			out->session.redis.replicas = int_value(def);
		else if (strcmp(name, "replica_timeout") == 0)
			out->session.redis.replica_timeout_ms = int_value(def);
		else if (strcmp(name, "keep_connections") == 0)
			out->keep_connections = defGetBoolean(def);
		else if (strcmp(name, "idle_timeout") == 0)
			out->idle_timeout_ms = int_value(def);
		else if (strcmp(name, "max_connections") == 0)
			out->max_connections = int_value(def);
		else if (strcmp(name, "updatable") == 0)
			out->updatable = defGetBoolean(def);
		else if (strcmp(name, "truncatable") == 0)
			out->truncatable = defGetBoolean(def);
		else if (strcmp(name, "batch_size") == 0)
			out->batch_size = int_value(def);
		else if (strcmp(name, "fetch_size") == 0)
			out->fetch_size = int_value(def);
		else if (strcmp(name, "fdw_startup_cost") == 0)
			out->startup_cost = strtod(defGetString(def), NULL);
		else if (strcmp(name, "fdw_tuple_cost") == 0)
			out->tuple_cost = strtod(defGetString(def), NULL);
		else if (strcmp(name, "use_remote_estimate") == 0)
			out->use_remote_estimate = defGetBoolean(def);
	}
}

/*
 * The options of the user's mapping, else PUBLIC's, else NIL: unlike
 * GetUserMapping() this does not insist on one, because a Redis without
 * passwords needs none.
 */
static List *
mapping_options(Oid serverid, Oid userid)
{
	HeapTuple	tuple;
	Datum		datum;
	bool		isnull;
	List	   *options = NIL;

	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
							ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
								ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
		return NIL;
	datum = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple,
							Anum_pg_user_mapping_umoptions, &isnull);
	if (!isnull)
		options = untransformRelOptions(datum);
	ReleaseSysCache(tuple);
	return options;
}

/* Allocates in the current context; no round trips. */
MosqlFdwOptions *
mosql_fdw_options(Oid relid, Oid serverid, Oid userid)
{
	MosqlFdwOptions *out = palloc0(sizeof(MosqlFdwOptions));
	ForeignTable *table = NULL;

	out->session.redis.nodes = DEFAULT_NODES;
	out->session.redis.connect_timeout_ms = CONNECT_TIMEOUT_MS;
	out->session.redis.command_timeout_ms = COMMAND_TIMEOUT_MS;
	out->session.redis.replica_timeout_ms = REPLICA_TIMEOUT_MS;
	out->session.redis.replicas = -1;
	out->session.ns = DEFAULT_NAMESPACE;
	out->session.engine = MOSQL_ENGINE_SCRIPT;
	out->updatable = true;
	out->truncatable = true;
	out->batch_size = BATCH_SIZE_ROWS;
	out->startup_cost = ROUND_TRIP_COST;
	out->tuple_cost = TUPLE_COST;
	out->keep_connections = true;
	out->idle_timeout_ms = IDLE_TIMEOUT_MS;

	if (OidIsValid(relid))
	{
		table = GetForeignTable(relid);
		serverid = table->serverid;
	}
	apply_options(out, GetForeignServer(serverid)->options);
	apply_options(out, mapping_options(serverid, OidIsValid(userid) ? userid : GetUserId()));
	if (table != NULL)
		apply_options(out, table->options);
	if (out->session.redis.replicas < 0)
		out->session.redis.replicas = out->replicated ? 1 : 0;
	return out;
}
