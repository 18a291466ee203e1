/*
 * key.c: values as keys whose memcmp order is the order of the values.
 *
 * Layer: table.  Chooses, per type, one of the encodings of code/key.h, and
 * says what it gives: whether the key gives the value back (else the row keeps
 * it, too), and whether its order is the one of the type's btree operator class
 * (else only equality may be looked up by key).  src/table/README.md has the
 * table.
 */
#include "postgres.h"

#include <sys/socket.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/formatting.h"
#include "utils/inet.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "table/table_int.h"

/* With ICU this one wants ICU's headers, which nothing here needs. */
#pragma push_macro("USE_ICU")
#undef USE_ICU
#include "utils/pg_locale.h"
#pragma pop_macro("USE_ICU")

/* ---- which encoding ---- */

static MosqlKeyClass key_class(Oid type);

bool
mosql_key_is_citext(Oid type)
{
	HeapTuple	tuple;
	bool		named;
	Oid			extension;

	if (type < FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	named = HeapTupleIsValid(tuple) &&
		strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname), "citext") == 0;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (!named)
		return false;
	extension = getExtensionOfObject(TypeRelationId, type);
	return OidIsValid(extension) && extension == get_extension_oid("citext", true);
}

/* Of a type that is made of others, or none of those that are known by their OIDs. */
static MosqlKeyClass
other_key_class(Oid type)
{
	MosqlKeyClass class;
	Oid			part = mosql_key_part_type(type, &class);

	if (OidIsValid(part))
		return key_class(part) != MOSQL_KEY_NONE && key_class(part) != MOSQL_KEY_CITEXT ? class
			: MOSQL_KEY_NONE;
	if (mosql_key_is_citext(type))
		return MOSQL_KEY_CITEXT;
	return get_typtype(type) == TYPTYPE_ENUM ? MOSQL_KEY_ENUM : MOSQL_KEY_NONE;
}

static MosqlKeyClass
key_class(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return MOSQL_KEY_BOOL;
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case CASHOID:
			return MOSQL_KEY_INT;
		case FLOAT4OID:
		case FLOAT8OID:
			return MOSQL_KEY_FLOAT;
		case NUMERICOID:
			return MOSQL_KEY_NUMERIC;
		case TEXTOID:
		case VARCHAROID:
		case NAMEOID:
			return MOSQL_KEY_TEXT;
		case BPCHAROID:
			return MOSQL_KEY_BPCHAR;
		case BYTEAOID:
			return MOSQL_KEY_BYTEA;
		case UUIDOID:
			return MOSQL_KEY_UUID;
		case MACADDROID:
		case MACADDR8OID:
		case PG_LSNOID:
		case XID8OID:
			return MOSQL_KEY_FIXED;
		case INETOID:
		case CIDROID:
			return MOSQL_KEY_INET;
		case BITOID:
		case VARBITOID:
			return MOSQL_KEY_BITS;
		case DATEOID:
			return MOSQL_KEY_DATE;
		case TIMEOID:
			return MOSQL_KEY_TIME;
		case TIMETZOID:
			return MOSQL_KEY_TIMETZ;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return MOSQL_KEY_TIMESTAMP;
		case INTERVALOID:
			return MOSQL_KEY_INTERVAL;
		default:
			return other_key_class(type);
	}
}

static bool
is_c(Oid collation)
{
#if PG_VERSION_NUM >= 180000
	return pg_newlocale_from_collation(collation)->collate_is_c;
#else
	return lc_collate_is_c(collation);
#endif
}

/* The C library's name of a collation, NULL if it is another provider's. */
static char *
libc_name(Oid collation)
{
	bool		is_default = collation == DEFAULT_COLLATION_OID;
	int			cache = is_default ? DATABASEOID : COLLOID;
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(is_default ? MyDatabaseId : collation));
	char	   *name = NULL;
	char		provider;
	bool		isnull = true;
	Datum		value;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	provider = is_default ? ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider :
		((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
	value = SysCacheGetAttr(cache, tuple, is_default ? Anum_pg_database_datcollate :
							Anum_pg_collation_collcollate, &isnull);
	if (provider == COLLPROVIDER_LIBC && !isnull)
		name = TextDatumGetCString(value);
	ReleaseSysCache(tuple);
	return name;
}

/*
 * C.UTF-8 compares code points, whose order is that of their bytes: so the C library says
 * since glibc 2.35, and of no other is it known here.
 */
static bool
is_code_points(Oid collation)
{
#ifdef __GLIBC__
	int			major = 0;
	int			minor = 0;
	char	   *name;

	if (GetDatabaseEncoding() != PG_UTF8 ||
		sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) != 2 ||
		major < 2 || (major == 2 && minor < 35))
		return false;
	name = libc_name(collation);
	return name != NULL && (pg_strcasecmp(name, "C.UTF-8") == 0 || pg_strcasecmp(name, "C.utf8") == 0);
#else
	return false;
#endif
}

bool
mosql_key_is_byte_order(Oid collation)
{
	if (!OidIsValid(collation) ||
		(GetDatabaseEncoding() != PG_UTF8 && GetDatabaseEncoding() != PG_SQL_ASCII))
		return false;			/* keys are in UTF-8 */
	return is_c(collation) || is_code_points(collation);
}

bool
mosql_key_is_characters(const MosqlTableColumn *column)
{
	return column->key_class == MOSQL_KEY_TEXT || column->key_class == MOSQL_KEY_BPCHAR ||
		column->key_class == MOSQL_KEY_CITEXT ||
		(column->key_class == MOSQL_KEY_ARRAY && mosql_key_is_characters(column->part));
}

void
mosql_key_setup(MosqlTableColumn *column)
{
	column->in_row = true;
	column->range_order = false;
	if (column->key_position < 0)
	{
		column->key_class = MOSQL_KEY_NONE;
		return;
	}
	column->key_class = key_class(column->type);
	switch (column->key_class)
	{
		case MOSQL_KEY_NONE:
			break;
		case MOSQL_KEY_FLOAT:	/* -0 */
		case MOSQL_KEY_NUMERIC: /* display scale */
		case MOSQL_KEY_INTERVAL:	/* 1 month = 30 days */
			column->range_order = true;
			break;
		case MOSQL_KEY_BPCHAR:	/* trailing blanks */
		case MOSQL_KEY_CITEXT:	/* upper case */
			column->range_order = mosql_key_is_byte_order(column->collation);
			break;
		case MOSQL_KEY_TEXT:
			column->in_row = false;
			column->range_order = mosql_key_is_byte_order(column->collation);
			break;
		case MOSQL_KEY_ENUM:	/* the label: servers may order labels differently */
			column->in_row = false;
			break;
		case MOSQL_KEY_ARRAY:
		case MOSQL_KEY_RANGE:
			mosql_key_setup_part(column);
			break;
		default:
			column->in_row = false;
			column->range_order = true;
	}
}

const char *
mosql_key_refusal(const MosqlTableColumn *column, bool of_index)
{
	MosqlKeyClass class = key_class(column->type);

	if (class == MOSQL_KEY_NONE && OidIsValid(get_element_type(column->type)) &&
		get_typtype(get_element_type(column->type)) == TYPTYPE_DOMAIN)
		return "Its elements are of a domain, and another server may mean another type by its name.";
	if (class == MOSQL_KEY_CITEXT && !of_index)
		return "What is lower case depends on the locale of the database, and rows are where their keys are: citext is the key of indexes alone. NOT NULL UNIQUE does what a primary key of it would; it is not changed with a column's type.";
	if (class == MOSQL_KEY_NONE)
		return "Its type has no key encoding.";
	if (OidIsValid(column->collation) && !get_collation_isdeterministic(column->collation))
		return "Its collation is nondeterministic: equal values may have different bytes.";
	return NULL;
}

/*
 * Text that PostgreSQL makes of a value alone is the same on all servers.  Of what is made of other types
 * (arrays, composite types, multiranges) it depends on settings.
 */
const char *
mosql_key_hint(Oid type, const char *sql, bool of_index)
{
	Oid			output;
	bool		is_varlena;

	getTypeOutputInfo(type, &output, &is_varlena);
	if (key_class(type) != MOSQL_KEY_NONE || func_volatile(output) != PROVOLATILE_IMMUTABLE)
		return MOSQL_KEY_TYPES_HINT;
	if (!of_index || output >= FirstNormalObjectId)
		return psprintf("Its text can: that of a column GENERATED ALWAYS AS (%s::text) STORED.", sql);
	return psprintf("Its text can, also with UNIQUE: CREATE INDEX ... ((%s::text)), for WHERE %s::text = ...", sql, sql);
}

/* ---- values to keys ---- */

/* Types whose numbers compare without sign: shift them into signed order. */
static int64
int_of(const MosqlTableColumn *column, Datum value)
{
	switch (column->type)
	{
		case CHAROID:
			return (int) (uint8) DatumGetChar(value) - 128;
		case OIDOID:
			return (int64) DatumGetObjectId(value) + PG_INT32_MIN;
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

static Datum
datum_of_int(const MosqlTableColumn *column, int64 value)
{
	switch (column->type)
	{
		case CHAROID:
			return CharGetDatum((char) (uint8) (value + 128));
		case OIDOID:
			return ObjectIdGetDatum((Oid) (value - PG_INT32_MIN));
		case INT2OID:
			return Int16GetDatum((int16) value);
		case INT4OID:
			return Int32GetDatum((int32) value);
		default:
			return Int64GetDatum(value);
	}
}

static uint16
read_uint16(const char **at)
{
	uint16		value;

	memcpy(&value, *at, sizeof(value));
	*at += sizeof(value);
	return pg_ntoh16(value);
}

/* Take a numeric apart by its binary format: count, weight, sign, scale, digits. */
static void
put_numeric(Datum value, StringInfo out)
{
	bytea	   *sent = DatumGetByteaP(DirectFunctionCall1(numeric_send, value));
	const char *at = VARDATA(sent);
	int			ndigits = read_uint16(&at);
	int			weight = (int16) read_uint16(&at);
	int			sign = read_uint16(&at);
	int16	   *digits = palloc(Max(ndigits, 1) * sizeof(int16));
	MosqlNumericKind kind = MOSQL_NUMERIC_FINITE;

	at += sizeof(uint16);		/* display scale */
	for (int i = 0; i < ndigits; i++)
		digits[i] = (int16) read_uint16(&at);
	if (sign == 0xC000)
		kind = MOSQL_NUMERIC_NAN;
	else if (sign == 0xD000)
		kind = MOSQL_NUMERIC_PINF;
	else if (sign == 0xF000)
		kind = MOSQL_NUMERIC_NINF;
	mosql_key_put_numeric(out, kind, sign == 0x4000, weight, digits, ndigits);
	pfree(digits);
}

/*
 * What interval_cmp() compares: days of 24 hours, months of 30 days.  As days
 * and the rest of a day, since the sum does not fit in 64 bits.
 */
static void
put_interval(const Interval *interval, StringInfo out)
{
	int64		days = interval->time / USECS_PER_DAY;
	int64		rest = interval->time % USECS_PER_DAY;

	if (rest < 0)
	{
		rest += USECS_PER_DAY;
		days--;
	}
	days += (int64) interval->month * DAYS_PER_MONTH + interval->day;
	mosql_key_put_int(out, days, 8);
	mosql_key_put_int(out, rest, 8);
}

/* As timetz_cmp() compares: by the moment, then by the zone. */
static void
put_timetz(const TimeTzADT *time, StringInfo out)
{
	mosql_key_put_int(out, time->time + (int64) time->zone * USECS_PER_SEC, 8);
	mosql_key_put_int(out, time->zone, 4);
}

/* Of the binary format of inet, and of cidr: family, bits of the mask, is it a cidr, length,
 * address. */
#define INET_HEADER_BYTES	4

static void
put_inet(const MosqlTableColumn *column, Datum value, StringInfo out)
{
	const uint8 *sent = (const uint8 *) mosql_codec_bytes(column, value).data;

	mosql_key_put_inet(out, sent + INET_HEADER_BYTES, sent[3], sent[1]);
}

/* The binary format: the number of bits, the bytes. */
static void
put_bits(const MosqlTableColumn *column, Datum value, StringInfo out)
{
	MosqlBytes	sent = mosql_codec_bytes(column, value);
	uint32		bits;

	memcpy(&bits, sent.data, sizeof(bits));
	mosql_key_put_bits(out, mosql_bytes(sent.data + sizeof(bits), sent.len - sizeof(bits)),
					   pg_ntoh32(bits));
}

static MosqlBytes
name_bytes(Datum value)
{
	const char *name = NameStr(*DatumGetName(value));

	return mosql_text_to_utf8(name, strlen(name));
}

static MosqlBytes
without_blanks(MosqlBytes text)
{
	while (text.len > 0 && text.data[text.len - 1] == ' ')
		text.len--;
	return text;
}

/* What citext_cmp() compares, and citext_eq(). */
static void
put_citext(Datum value, StringInfo out)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	char	   *lower = str_tolower(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text),
									DEFAULT_COLLATION_OID);

	mosql_key_put_bytes(out, mosql_text_to_utf8(lower, strlen(lower)));
}

void
mosql_key_put_value(const MosqlTableColumn *column, Datum value, StringInfo out)
{
	switch (column->key_class)
	{
		case MOSQL_KEY_BOOL:
			mosql_key_put_int(out, DatumGetBool(value) ? 1 : 0, 1);
			return;
		case MOSQL_KEY_INT:
			mosql_key_put_int(out, int_of(column, value), column->fixed_width);
			return;
		case MOSQL_KEY_FLOAT:
			mosql_key_put_float(out, column->type == FLOAT4OID ? DatumGetFloat4(value)
								: DatumGetFloat8(value), column->fixed_width);
			return;
		case MOSQL_KEY_NUMERIC:
			put_numeric(value, out);
			return;
		case MOSQL_KEY_TEXT:
			mosql_key_put_bytes(out, column->type == NAMEOID ? name_bytes(value)
								: mosql_codec_bytes(column, value));
			return;
		case MOSQL_KEY_BPCHAR:
			mosql_key_put_bytes(out, without_blanks(mosql_codec_bytes(column, value)));
			return;
		case MOSQL_KEY_CITEXT:
			put_citext(value, out);
			return;
		case MOSQL_KEY_BYTEA:
		case MOSQL_KEY_ENUM:
			mosql_key_put_bytes(out, mosql_codec_bytes(column, value));
			return;
		case MOSQL_KEY_UUID:
			mosql_key_put_fixed(out, DatumGetUUIDP(value)->data, UUID_LEN);
			return;
		case MOSQL_KEY_FIXED:
			mosql_key_put_fixed(out, mosql_codec_bytes(column, value).data, column->typlen);
			return;
		case MOSQL_KEY_INET:
			put_inet(column, value, out);
			return;
		case MOSQL_KEY_BITS:
			put_bits(column, value, out);
			return;
		case MOSQL_KEY_DATE:
			mosql_key_put_int(out, DatumGetDateADT(value), 4);
			return;
		case MOSQL_KEY_TIME:
			mosql_key_put_int(out, DatumGetTimeADT(value), 8);
			return;
		case MOSQL_KEY_TIMETZ:
			put_timetz(DatumGetTimeTzADTP(value), out);
			return;
		case MOSQL_KEY_TIMESTAMP:
			mosql_key_put_int(out, DatumGetTimestamp(value), 8);
			return;
		case MOSQL_KEY_INTERVAL:
			put_interval(DatumGetIntervalP(value), out);
			return;
		case MOSQL_KEY_ARRAY:
			mosql_key_put_array(column, value, out);
			return;
		case MOSQL_KEY_RANGE:
			mosql_key_put_range(column, value, out);
			return;
		case MOSQL_KEY_NONE:
			break;
	}
	elog(ERROR, "column %d has no key encoding", column->attnum);
}

static const MosqlTableColumn *
key_column(const MosqlTable *table, int key_position)
{
	Assert(key_position >= 0 && key_position < table->nkeys);
	return &table->columns[table->key_attnums[key_position] - 1];
}

void
mosql_table_put_key(const MosqlTable *table, int key_position, Datum value, StringInfo out)
{
	const MosqlTableColumn *column = key_column(table, key_position);
	int			start;

	if (column->nullable)
		mosql_key_put_null(out, false, column->nulls_first);
	start = out->len;
	mosql_key_put_value(column, value, out);
	if (column->descending)
		mosql_key_invert(out, start);
}

void
mosql_table_put_null(const MosqlTable *table, int key_position, StringInfo out)
{
	const MosqlTableColumn *column = key_column(table, key_position);

	Assert(column->nullable);
	mosql_key_put_null(out, true, column->nulls_first);
}

void
mosql_table_new_row_id(const MosqlTable *table, StringInfo out)
{
	uint64		id = pg_hton64(mosql_session_new_id(table->session));

	Assert(table->nkeys == 0);
	mosql_key_put_fixed(out, &id, sizeof(id));
}

/* ---- keys to values ---- */

/*
 * Bytes of a text-like column, unescaped behind room for a varlena's header.
 * False if damaged.
 */
static bool
get_text(MosqlBytes *in, StringInfo buf)
{
	buf->maxlen = VARHDRSZ + in->len + 1;
	buf->data = palloc(buf->maxlen);
	buf->len = VARHDRSZ;
	buf->cursor = 0;
	return mosql_key_get_bytes(in, buf);
}

/* The varlena around the bytes of get_text(). */
static Datum
varlena_of(StringInfo buf)
{
	SET_VARSIZE(buf->data, buf->len);
	return PointerGetDatum(buf->data);
}

static Datum
text_datum(const MosqlTable *table, const MosqlTableColumn *column, StringInfo buf)
{
	MosqlBytes	stored = mosql_bytes(buf->data + VARHDRSZ, buf->len - VARHDRSZ);
	MosqlBytes	text = mosql_text_from_utf8(stored);
	Name		name;

	if (text.data == NULL)
		mosql_codec_damage(table, column, "The text in the key is not valid UTF-8.");
	if (column->type == NAMEOID)
	{
		if (text.len >= NAMEDATALEN)
			mosql_codec_damage(table, column, "The name in the key is too long.");
		name = palloc0(NAMEDATALEN);
		memcpy(NameStr(*name), text.data, text.len);
		return NameGetDatum(name);
	}
	if (text.data == stored.data)
		return varlena_of(buf);
	return PointerGetDatum(cstring_to_text_with_len(text.data, text.len));
}

static bool
get_texts(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in, Datum *value)
{
	StringInfoData buf;

	if (!get_text(in, &buf))
		return false;
	if (value == NULL)
		pfree(buf.data);
	else if (column->key_class == MOSQL_KEY_ENUM)
		*value = mosql_codec_value(table, column,
								   mosql_bytes(buf.data + VARHDRSZ, buf.len - VARHDRSZ));
	else if (column->key_class == MOSQL_KEY_BYTEA)
		*value = varlena_of(&buf);
	else
		*value = text_datum(table, column, &buf);
	return true;
}

/* So many bytes of the type's binary format. */
static bool
get_fixed(const MosqlTable *table, const MosqlTableColumn *column, int n, MosqlBytes *in,
		  Datum *value)
{
	const char *data;

	if (!mosql_key_get_fixed(in, n, &data))
		return false;
	if (value != NULL)
		*value = mosql_codec_value(table, column, mosql_bytes(data, n));
	return true;
}

static bool
get_inet(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in, Datum *value)
{
	uint8		sent[INET_HEADER_BYTES + 16] = {0};
	int			n;
	int			bits;

	if (!mosql_key_get_inet(in, sent + INET_HEADER_BYTES, &n, &bits))
		return false;
	if (value == NULL)
		return true;
	sent[0] = n == 4 ? PGSQL_AF_INET : PGSQL_AF_INET6;
	sent[1] = (uint8) bits;
	sent[2] = column->type == CIDROID;
	sent[3] = (uint8) n;
	*value = mosql_codec_value(table, column, mosql_bytes((char *) sent, INET_HEADER_BYTES + n));
	return true;
}

static bool
get_bits(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in, Datum *value)
{
	StringInfoData sent;
	int64		bits;
	uint32		length = 0;

	initStringInfo(&sent);
	appendBinaryStringInfo(&sent, (char *) &length, sizeof(length));
	if (!mosql_key_get_bits(in, &sent, &bits))
		return false;
	length = pg_hton32((uint32) bits);
	memcpy(sent.data, &length, sizeof(length));
	if (value != NULL)
		*value = mosql_codec_value(table, column, mosql_bytes_of(&sent));
	pfree(sent.data);
	return true;
}

static bool
get_timetz(MosqlBytes *in, Datum *value)
{
	int64		utc;
	int64		zone;
	TimeTzADT  *time;

	if (!mosql_key_get_int(in, 8, &utc) || !mosql_key_get_int(in, 4, &zone))
		return false;
	if (value == NULL)
		return true;
	time = palloc(sizeof(TimeTzADT));
	time->time = utc - zone * USECS_PER_SEC;
	time->zone = (int32) zone;
	*value = TimeTzADTPGetDatum(time);
	return time->time >= 0 && time->time <= USECS_PER_DAY &&
		zone > -TZDISP_LIMIT && zone < TZDISP_LIMIT;
}

static bool
get_interval(MosqlBytes *in, Datum *value)
{
	int64		days;
	int64		rest;
	Interval   *interval;

	if (!mosql_key_get_int(in, 8, &days) || !mosql_key_get_int(in, 8, &rest))
		return false;
	if (value == NULL)
		return true;
	interval = palloc0(sizeof(Interval));
	interval->month = (int32) (days / DAYS_PER_MONTH);
	interval->day = (int32) (days % DAYS_PER_MONTH);
	interval->time = rest;
	*value = IntervalPGetDatum(interval);
	return true;
}

/* Digits behind the decimal point that are not trailing zeros. */
static int
decimal_scale(int weight, const int16 *digits, int ndigits)
{
	int			scale = (ndigits - 1 - weight) * 4;
	int			last = ndigits > 0 ? digits[ndigits - 1] : 1;

	for (; scale > 0 && last % 10 == 0; last /= 10)
		scale--;
	return Max(scale, 0);
}

/* Of a numeric as PostgreSQL keeps it: 14 bits. */
#define SCALE_MAX	0x3FFF

/* By way of the binary format; with the smallest display scale. */
static bool
get_numeric(MosqlBytes *in, Datum *value)
{
	static const int signs[] = {
		[MOSQL_NUMERIC_FINITE] = 0,[MOSQL_NUMERIC_NAN] = 0xC000,
		[MOSQL_NUMERIC_PINF] = 0xD000,[MOSQL_NUMERIC_NINF] = 0xF000
	};
	MosqlNumericKind kind;
	bool		negative;
	int			weight;
	int			ndigits;
	int16	   *digits;
	StringInfoData buf;

	if (value == NULL)
		return mosql_key_skip_numeric(in);
	digits = palloc((in->len / 2 + 1) * sizeof(int16));
	if (!mosql_key_get_numeric(in, &kind, &negative, &weight, digits, &ndigits) ||
		decimal_scale(weight, digits, ndigits) > SCALE_MAX)
		return false;
	pq_begintypsend(&buf);
	pq_sendint16(&buf, ndigits);
	pq_sendint16(&buf, weight);
	pq_sendint16(&buf, kind == MOSQL_NUMERIC_FINITE && negative ? 0x4000 : signs[kind]);
	pq_sendint16(&buf, decimal_scale(weight, digits, ndigits));
	for (int i = 0; i < ndigits; i++)
		pq_sendint16(&buf, digits[i]);
	buf.cursor = VARHDRSZ;		/* where pq_begintypsend left room */
	*value = DirectFunctionCall3(numeric_recv, PointerGetDatum(&buf),
								 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	return true;
}

static bool
get_float(const MosqlTableColumn *column, MosqlBytes *in, Datum *value)
{
	double		number;

	if (!mosql_key_get_float(in, column->fixed_width, &number))
		return false;
	if (value != NULL)
		*value = column->type == FLOAT4OID ? Float4GetDatum((float4) number)
			: Float8GetDatum(number);
	return true;
}

static bool
get_int(const MosqlTableColumn *column, MosqlBytes *in, Datum *value)
{
	int64		number;

	switch (column->key_class)
	{
		case MOSQL_KEY_BOOL:
			if (!mosql_key_get_int(in, 1, &number) || number < 0 || number > 1)
				return false;
			if (value != NULL)
				*value = BoolGetDatum(number == 1);
			return true;
		case MOSQL_KEY_INT:
			if (!mosql_key_get_int(in, column->fixed_width, &number))
				return false;
			if (value != NULL)
				*value = datum_of_int(column, number);
			return true;
		case MOSQL_KEY_DATE:
			if (!mosql_key_get_int(in, 4, &number))
				return false;
			if (value != NULL)
				*value = DateADTGetDatum((DateADT) number);
			return DATE_NOT_FINITE((DateADT) number) || IS_VALID_DATE((DateADT) number);
		default:				/* TIME, TIMESTAMP */
			if (!mosql_key_get_int(in, 8, &number))
				return false;
			if (value != NULL)
				*value = Int64GetDatum(number);
			if (column->key_class == MOSQL_KEY_TIME)
				return number >= 0 && number <= USECS_PER_DAY;
			return TIMESTAMP_NOT_FINITE(number) || IS_VALID_TIMESTAMP(number);
	}
}

bool
mosql_key_get_value(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in,
					Datum *value)
{
	switch (column->key_class)
	{
		case MOSQL_KEY_FLOAT:
			return get_float(column, in, value);
		case MOSQL_KEY_NUMERIC:
			return get_numeric(in, value);
		case MOSQL_KEY_TEXT:
		case MOSQL_KEY_BPCHAR:
		case MOSQL_KEY_CITEXT:
		case MOSQL_KEY_BYTEA:
		case MOSQL_KEY_ENUM:
			return get_texts(table, column, in, value);
		case MOSQL_KEY_UUID:
			return get_fixed(table, column, UUID_LEN, in, value);
		case MOSQL_KEY_FIXED:
			return get_fixed(table, column, column->typlen, in, value);
		case MOSQL_KEY_INET:
			return get_inet(table, column, in, value);
		case MOSQL_KEY_BITS:
			return get_bits(table, column, in, value);
		case MOSQL_KEY_TIMETZ:
			return get_timetz(in, value);
		case MOSQL_KEY_INTERVAL:
			return get_interval(in, value);
		case MOSQL_KEY_ARRAY:
			return mosql_key_get_array(table, column, in, value);
		case MOSQL_KEY_RANGE:
			return mosql_key_get_range(table, column, in, value);
		case MOSQL_KEY_NONE:
			return false;
		default:
			return get_int(column, in, value);
	}
}

/* A descending column is decoded from an inverted copy of what is left. */
static bool
get_descending(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in,
			   Datum *value)
{
	StringInfoData copy;
	MosqlBytes	left;

	initStringInfo(&copy);
	appendBinaryStringInfo(&copy, in->data, in->len);
	mosql_key_invert(&copy, 0);
	left = mosql_bytes_of(&copy);
	if (!mosql_key_get_value(table, column, &left, value))
		return false;
	in->data += in->len - left.len;
	in->len = left.len;
	return true;
}

bool
mosql_key_get(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in,
			  Datum *value, bool *isnull)
{
	*isnull = false;
	if (column->nullable && !mosql_key_get_null(in, column->nulls_first, isnull))
		return false;
	if (*isnull)
		return true;
	return column->descending ? get_descending(table, column, in, value)
		: mosql_key_get_value(table, column, in, value);
}

void
mosql_table_key_values(const MosqlTable *table, MosqlBytes key, Datum *values)
{
	for (int i = 0; i < table->nkeys; i++)
	{
		const MosqlTableColumn *column = &table->columns[table->key_attnums[i] - 1];
		bool		isnull;

		if (!mosql_key_get(table, column, &key, &values[i], &isnull) || isnull)
			mosql_codec_damage(table, column, "The key does not decode.");
	}
}

/* ---- for messages ---- */

static void
describe_value(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in,
			   StringInfo out)
{
	Datum		value;
	bool		isnull;
	Oid			output;
	bool		varlena;

	if (!mosql_key_get(table, column, in, &value, &isnull))
		mosql_codec_damage(table, column, "The key does not decode.");
	if (isnull)
	{
		appendStringInfoString(out, "null");
		return;
	}
	getTypeOutputInfo(column->type, &output, &varlena);
	appendStringInfoString(out, OidOutputFunctionCall(output, value));
}

char *
mosql_table_key_name(const MosqlTable *table, int key_position)
{
	const MosqlTableColumn *column = key_column(table, key_position);

	return column->expression != NULL ? mosql_expression_label(column->expression, table->relid)
		: (char *) quote_identifier(get_attname(table->relid, column->attnum, false));
}

bool
mosql_table_may_see(Oid relid, const AttrNumber *columns, int n)
{
	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return false;
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return true;
	for (int i = 0; i < n; i++)
		if (columns[i] == InvalidAttrNumber ||
			pg_attribute_aclcheck(relid, columns[i], GetUserId(), ACL_SELECT) != ACLCHECK_OK)
			return false;
	return true;
}

char *
mosql_table_show_key(const MosqlTable *table, MosqlBytes key)
{
	AttrNumber	columns[INDEX_MAX_KEYS];

	for (int i = 0; i < table->nkeys; i++)
		columns[i] = key_column(table, i)->expression != NULL ? InvalidAttrNumber
			: key_column(table, i)->attnum;
	return mosql_table_may_see(table->relid, columns, table->nkeys)
		? mosql_table_describe_key(table, key) : NULL;
}

char *
mosql_table_describe_key(const MosqlTable *table, MosqlBytes key)
{
	StringInfoData names;
	StringInfoData values;

	initStringInfo(&names);
	initStringInfo(&values);
	for (int i = 0; i < table->nkeys; i++)
	{
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", mosql_table_key_name(table, i));
		if (i > 0)
			appendStringInfoString(&values, ", ");
		describe_value(table, key_column(table, i), &key, &values);
	}
	if (table->nkeys == 0)
	{
		appendStringInfoString(&names, "hidden row id");
		for (size_t i = 0; i < key.len; i++)
			appendStringInfo(&values, "%02x", (uint8) key.data[i]);
	}
	return psprintf("(%s)=(%s)", names.data, values.data);
}
