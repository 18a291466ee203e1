/*
 * codec.c: a column's values as bytes, and back.
 *
 * Layer: table.  The bytes mean the same on every PostgreSQL server, whatever
 * its encoding, settings, byte order or version: integers big-endian, characters
 * in UTF-8, other types in their binary protocol format, and those whose binary
 * format names OIDs that only one server knows as text.  src/table/README.md has
 * the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "common/pg_lzcompress.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rangetypes.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
#include "utils/xml.h"

#include "table/table_int.h"

/* Room for the length in front of compressed bytes. */
#define VARINT_MAX_BYTES	10

/* ---- which codec ---- */

bool
mosql_type_is_object_reference(Oid type)
{
	switch (type)
	{
		case REGCLASSOID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGCOLLATIONOID:
			return true;
		default:
			return false;
	}
}

static bool has_portable_send(Oid type);

/* Binary arrays and rows name their members' types by OID: these must be
 * assigned by PostgreSQL itself. */
static bool
is_portable_member(Oid type)
{
	return type < FirstGenbkiObjectId && has_portable_send(type);
}

static bool
is_portable_row(Oid type)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);
	bool		portable = true;

	for (int i = 0; i < desc->natts && portable; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		portable = att->attisdropped || is_portable_member(att->atttypid);
	}
	ReleaseTupleDesc(desc);
	return portable;
}

/* Does the type's binary format mean the same on every server? */
static bool
has_portable_send(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element;
	HeapTuple	tuple;
	bool		binary;

	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(base));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", base);
	binary = OidIsValid(((Form_pg_type) GETSTRUCT(tuple))->typsend) &&
		OidIsValid(((Form_pg_type) GETSTRUCT(tuple))->typreceive);
	ReleaseSysCache(tuple);

	if (!binary || mosql_type_is_object_reference(base))
		return false;
	if (OidIsValid(element = get_element_type(base)))
		return is_portable_member(element);
	switch (get_typtype(base))
	{
		case TYPTYPE_COMPOSITE:
			return is_portable_row(base);
		case TYPTYPE_RANGE:
			return has_portable_send(get_range_subtype(base));
		case TYPTYPE_MULTIRANGE:
			return has_portable_send(get_multirange_range(base));
		default:
			return true;
	}
}

/* Width of the types passed by value that have a codec of their own, or 0. */
static int
fixed_width(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case CHAROID:
			return 1;
		case INT2OID:
			return 2;
		case INT4OID:
		case OIDOID:
		case FLOAT4OID:
		case DATEOID:
			return 4;
		case INT8OID:
		case FLOAT8OID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case CASHOID:
			return 8;
		default:
			return 0;
	}
}

static void
setup_functions(MosqlTableColumn *column)
{
	Oid			out;
	Oid			in;
	bool		varlena;

	column->has_xml = mosql_type_contains(column->type, XMLOID);
	if (has_portable_send(column->type))
	{
		column->codec = MOSQL_CODEC_BINARY;
		getTypeBinaryOutputInfo(column->type, &out, &varlena);
		getTypeBinaryInputInfo(column->type, &in, &column->ioparam);
	}
	else
	{
		column->codec = MOSQL_CODEC_INOUT;
		getTypeOutputInfo(column->type, &out, &varlena);
		getTypeInputInfo(column->type, &in, &column->ioparam);
	}
	fmgr_info(out, &column->send);
	fmgr_info(in, &column->receive);
	column->reader = mosql_identity_of_reading(column->type);
}

void
mosql_codec_setup(MosqlTableColumn *column)
{
	column->type = getBaseTypeAndTypmod(column->type, &column->typmod);
	get_typlenbyval(column->type, &column->typlen, &column->byval);
	column->fixed_width = fixed_width(column->type);
	if (column->fixed_width > 0)
	{
		column->codec = MOSQL_CODEC_FIXED;
		return;
	}
	switch (column->type)
	{
		case UUIDOID:
			column->codec = MOSQL_CODEC_UUID;
			column->fixed_width = UUID_LEN;
			break;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case JSONOID:
		case XMLOID:
			column->codec = MOSQL_CODEC_TEXT;
			break;
		case BYTEAOID:
			column->codec = MOSQL_CODEC_BYTEA;
			break;
		default:
			setup_functions(column);
	}
}

void
mosql_codec_setup_labels(MosqlTableColumn *column, const MosqlLabel *labels, int n)
{
	if (n == 0 || !OidIsValid(mosql_type_enum(column->type)))
		return;
	column->labels = mosql_labels_here(column->type, labels, n);
	column->codec = get_typtype(column->type) == TYPTYPE_ENUM ? MOSQL_CODEC_ENUM
		: MOSQL_CODEC_ENUMS;
}

/* ---- errors ---- */

void
mosql_codec_damage(const MosqlTable *table, const MosqlTableColumn *column, const char *what)
{
	char	   *name = get_rel_name(table->relid);
	char	   *attname = column ? get_attname(table->relid, column->attnum, true) : NULL;

	if (column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged row of foreign table \"%s\"", name ? name : "?"),
				 errdetail_internal("%s", what),
				 errhint("mosql_fdw_check('%s') reads and checks all rows.", name ? name : "?")));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("damaged value of column \"%s\" of foreign table \"%s\"",
					attname ? attname : "?", name ? name : "?"),
			 errdetail_internal("%s", what),
			 errhint("mosql_fdw_check('%s') reads and checks all rows.", name ? name : "?")));
}

static void
check_length(const MosqlTable *table, const MosqlTableColumn *column, size_t len)
{
	if (len > MOSQL_VALUE_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value of column \"%s\" is too large",
						get_attname(table->relid, column->attnum, false)),
				 errdetail("It takes %zu bytes; a value may take up to %d bytes (64 MB).",
						   len, MOSQL_VALUE_MAX_BYTES)));
}

/* ---- characters ---- */

MosqlBytes
mosql_text_to_utf8(const char *text, size_t len)
{
	char	   *utf8;

	if (GetDatabaseEncoding() == PG_UTF8)
		return mosql_bytes(text, len);
	utf8 = pg_server_to_any(text, len, PG_UTF8);
	return mosql_bytes(utf8, utf8 == text ? len : strlen(utf8));
}

MosqlBytes
mosql_text_from_utf8(MosqlBytes stored)
{
	char	   *text;

	if (!pg_verify_mbstr(PG_UTF8, stored.data, stored.len, true))
		return MOSQL_ABSENT;
	if (GetDatabaseEncoding() == PG_UTF8)
		return stored;
	text = pg_any_to_server(stored.data, stored.len, PG_UTF8);
	return mosql_bytes(text, text == stored.data ? stored.len : strlen(text));
}

/* ---- calling types' functions so that they give the same bytes everywhere ---- */

static void
switch_client_encoding(int encoding)
{
	if (PrepareClientEncoding(encoding) < 0 || SetClientEncoding(encoding) < 0)
		elog(ERROR, "no conversion between UTF8 and the client's encoding");
}

/*
 * Send and receive functions speak the client's encoding: let it be UTF-8
 * while they run.  It is nearly always, and then this costs one comparison.
 */
static bytea *
send_value(const MosqlTableColumn *column, Datum value)
{
	FmgrInfo   *send = unconstify(FmgrInfo *, &column->send);
	int			encoding = pg_get_client_encoding();
	bytea	   *result = NULL;

	if (likely(encoding == PG_UTF8))
		return SendFunctionCall(send, value);

	switch_client_encoding(PG_UTF8);
	PG_TRY();
	{
		result = SendFunctionCall(send, value);
	}
	PG_FINALLY();
	{
		(void) SetClientEncoding(encoding);
	}
	PG_END_TRY();
	return result;
}

static Datum
receive_value(const MosqlTableColumn *column, void *buf)
{
	FmgrInfo   *receive = unconstify(FmgrInfo *, &column->receive);
	int			encoding = pg_get_client_encoding();
	Datum		result = (Datum) 0;

	if (likely(encoding == PG_UTF8))
		return ReceiveFunctionCall(receive, buf, column->ioparam, column->typmod);

	switch_client_encoding(PG_UTF8);
	PG_TRY();
	{
		result = ReceiveFunctionCall(receive, buf, column->ioparam, column->typmod);
	}
	PG_FINALLY();
	{
		(void) SetClientEncoding(encoding);
	}
	PG_END_TRY();
	return result;
}

static void
set_locally(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/* Settings under which a value is read as it was written: they decide what NULL is in the text of an array, and
 * whether XML has to be a document. */
static void
set_for_reading(void)
{
	if (!Array_nulls)
		set_locally("array_nulls", "on");
	if (xmloption != XMLOPTION_CONTENT)
		set_locally("xmloption", "content");
}

/* ... where one of them is in the way, which is rare.  0: there is nothing to undo. */
static int
begin_reading(bool in_the_way)
{
	int			level;

	if (likely(!in_the_way))
		return 0;
	level = NewGUCNestLevel();
	set_for_reading();
	return level;
}

static void
end_reading(int level)
{
	if (level != 0)
		AtEOXact_GUC(true, level);
}

/* Settings under which text output says the same to every reader; undone by
 * AtEOXact_GUC(), also by the end of a (sub)transaction that failed. */
static int
begin_portable_text(void)
{
	int			level = NewGUCNestLevel();

	set_locally("datestyle", "ISO");
	set_locally("intervalstyle", "postgres");
	set_locally("extra_float_digits", "3");
	set_locally("search_path", "pg_catalog");
	set_for_reading();
	return level;
}

static MosqlBytes
output_value(const MosqlTableColumn *column, Datum value)
{
	int			level = begin_portable_text();
	char	   *text = OutputFunctionCall(unconstify(FmgrInfo *, &column->send), value);

	AtEOXact_GUC(true, level);
	return mosql_text_to_utf8(text, strlen(text));
}

/* ---- arrays of enums ---- */

/* Of one element. */
typedef Datum (*ElementConversion) (const MosqlLabels *labels, Datum element);

static Datum
label_to_text(const MosqlLabels *labels, Datum element)
{
	return CStringGetTextDatum(mosql_label_stored(labels, DatumGetObjectId(element)));
}

static Datum
label_from_text(const MosqlLabels *labels, Datum element)
{
	return ObjectIdGetDatum(mosql_label_oid(labels, TextDatumGetCString(element)));
}

/* The same array with elements of another type. */
static ArrayType *
convert_array(const MosqlLabels *labels, ArrayType *array, ElementConversion convert, Oid type)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int16		len;
	bool		byval;
	char		align;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			values[i] = convert(labels, values[i]);
	if (n == 0)
		return construct_empty_array(type);
	get_typlenbyvalalign(type, &len, &byval, &align);
	return construct_md_array(values, nulls, ARR_NDIM(array), ARR_DIMS(array), ARR_LBOUND(array),
							  type, len, byval, align);
}

/* As the array's own output function writes it, but for the labels. */
static MosqlBytes
output_labels(const MosqlTableColumn *column, Datum value)
{
	ArrayType  *texts = convert_array(column->labels, DatumGetArrayTypeP(value), label_to_text,
									  TEXTOID);
	char	   *text = OutputFunctionCall(unconstify(FmgrInfo *, &column->send),
										  PointerGetDatum(texts));

	return mosql_text_to_utf8(text, strlen(text));
}

/* ---- values to bytes ---- */

MosqlBytes
mosql_codec_bytes(const MosqlTableColumn *column, Datum value)
{
	struct varlena *varlena;
	const char *label;

	switch (column->codec)
	{
		case MOSQL_CODEC_UUID:
			return mosql_bytes(DatumGetUUIDP(value)->data, UUID_LEN);
		case MOSQL_CODEC_TEXT:
			varlena = PG_DETOAST_DATUM_PACKED(value);
			return mosql_text_to_utf8(VARDATA_ANY(varlena), VARSIZE_ANY_EXHDR(varlena));
		case MOSQL_CODEC_BYTEA:
			varlena = PG_DETOAST_DATUM_PACKED(value);
			return mosql_bytes(VARDATA_ANY(varlena), VARSIZE_ANY_EXHDR(varlena));
		case MOSQL_CODEC_BINARY:
			varlena = send_value(column, value);
			return mosql_bytes(VARDATA(varlena), VARSIZE(varlena) - VARHDRSZ);
		case MOSQL_CODEC_INOUT:
			return output_value(column, value);
		case MOSQL_CODEC_ENUM:
			label = mosql_label_stored(column->labels, DatumGetObjectId(value));
			return mosql_text_to_utf8(label, strlen(label));
		case MOSQL_CODEC_ENUMS:
			return output_labels(column, value);
		case MOSQL_CODEC_FIXED:
			break;
	}
	elog(ERROR, "column of type %u has no codec by reference", column->type);
}

/* Append compressed if that is shorter. */
static bool
put_compressed(const MosqlTableColumn *column, MosqlBytes bytes, StringInfo out)
{
	StringInfoData buf;
	int32		len;
	bool		shorter;

	initStringInfo(&buf);
	enlargeStringInfo(&buf, VARINT_MAX_BYTES + PGLZ_MAX_OUTPUT(bytes.len));
	mosql_varint_put(&buf, bytes.len);
	len = pglz_compress(bytes.data, bytes.len, buf.data + buf.len, PGLZ_strategy_default);
	shorter = len >= 0 && buf.len + len < bytes.len;
	if (shorter)
	{
		buf.len += len;
		mosql_column_put_compressed(out, column->id, mosql_bytes_of(&buf));
	}
	pfree(buf.data);
	return shorter;
}

static int64
fixed_to_int(const MosqlTableColumn *column, Datum value)
{
	switch (column->fixed_width)
	{
		case 1:
			return (signed char) DatumGetChar(value);
		case 2:
			return DatumGetInt16(value);
		case 4:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

void
mosql_codec_put(const MosqlTable *table, const MosqlTableColumn *column, Datum value,
				StringInfo out)
{
	MosqlBytes	bytes;

	if (column->codec == MOSQL_CODEC_FIXED)
	{
		mosql_column_put_int(out, column->id, fixed_to_int(column, value), column->fixed_width);
		return;
	}
	bytes = mosql_codec_bytes(column, value);
	if (column->codec == MOSQL_CODEC_UUID)
	{
		mosql_column_put_fixed(out, column->id, bytes.data, UUID_LEN);
		return;
	}
	check_length(table, column, bytes.len);
	if (bytes.len <= MOSQL_COMPRESS_MIN_BYTES || !put_compressed(column, bytes, out))
		mosql_column_put_bytes(out, column->id, bytes);
}

/* ---- bytes to values ---- */

/* Values that PostgreSQL's own functions never make are damage. */
static bool
is_valid_fixed(Oid type, int64 value)
{
	switch (type)
	{
		case BOOLOID:
			return value == 0 || value == 1;
		case DATEOID:
			return DATE_NOT_FINITE((DateADT) value) || IS_VALID_DATE((DateADT) value);
		case TIMEOID:
			return value >= 0 && value <= USECS_PER_DAY;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return TIMESTAMP_NOT_FINITE(value) || IS_VALID_TIMESTAMP(value);
		default:
			return true;
	}
}

static Datum
fixed_from_int(const MosqlTableColumn *column, int64 value)
{
	if (column->type == BOOLOID)
		return BoolGetDatum(value != 0);
	switch (column->fixed_width)
	{
		case 1:
			return CharGetDatum((char) value);
		case 2:
			return Int16GetDatum((int16) value);
		case 4:
			return Int32GetDatum((int32) value);
		default:
			return Int64GetDatum(value);
	}
}

static int
wire_width(MosqlWire wire)
{
	switch (wire)
	{
		case MOSQL_WIRE_1:
			return 1;
		case MOSQL_WIRE_2:
			return 2;
		case MOSQL_WIRE_4:
			return 4;
		case MOSQL_WIRE_8:
			return 8;
		case MOSQL_WIRE_16:
			return 16;
		default:
			return 0;
	}
}

bool
mosql_codec_accepts(const MosqlTableColumn *column, MosqlWire wire)
{
	if (wire == MOSQL_WIRE_NULL)
		return true;
	if (column->fixed_width > 0)
		return wire_width(wire) == column->fixed_width;
	return wire == MOSQL_WIRE_BYTES || wire == MOSQL_WIRE_COMPRESSED;
}

static Datum
make_varlena(MosqlBytes bytes)
{
	struct varlena *varlena = palloc(VARHDRSZ + bytes.len);

	SET_VARSIZE(varlena, VARHDRSZ + bytes.len);
	memcpy(VARDATA(varlena), bytes.data, bytes.len);
	return PointerGetDatum(varlena);
}

static MosqlBytes
text_or_damage(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes bytes)
{
	MosqlBytes	text = mosql_text_from_utf8(bytes);

	if (text.data == NULL)
		mosql_codec_damage(table, column, "The stored text is not valid UTF-8.");
	return text;
}

/* Whose value a type's function is reading. */
typedef struct Reading
{
	const MosqlTable *table;
	const MosqlTableColumn *column;
} Reading;

/* Text that is none of the type's where labels of an enum stand by name: perhaps only
 * not of this server's. */
static bool
may_be_label(const Reading *reading)
{
	return geterrcode() == ERRCODE_INVALID_TEXT_REPRESENTATION &&
		mosql_type_contains(reading->column->type, ANYENUMOID);
}

/*
 * Error context: bytes that a type's own function refuses are damage, too.  It
 * says so as if a client had sent them.  Errors of the surroundings (memory,
 * cancel requests) stay what they are.
 */
int			mosql_codec_refused;

static void
call_it_damage(void *arg)
{
	const Reading *reading = arg;
	int			class = ERRCODE_TO_CATEGORY(geterrcode());
	bool		label;
	char	   *table;
	char	   *column;

	if (class == ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) ||
		class == ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION))
		return;
	mosql_codec_refused = geterrcode();
	label = may_be_label(reading);
	table = get_rel_name(reading->table->relid);
	column = get_attname(reading->table->relid, reading->column->attnum, true);
	errcode(label ? ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE : ERRCODE_DATA_CORRUPTED);
	if (label)
		errhint("If another server has a label that this one lacks, use ALTER TYPE ... ADD VALUE here, too.");
	errcontext(label ? "value of column \"%s\" of foreign table \"%s\""
			   : "damaged value of column \"%s\" of foreign table \"%s\"",
			   column ? column : "?", table ? table : "?");
}

/*
 * Core reads its tables without a function call; ours run the CHECKs of domains inside of
 * arrays and composite values.  A domain's owner must not get at who reads.
 */
static Datum
as_reader(const MosqlTableColumn *column, Datum (*read) (const MosqlTableColumn *, void *),
		  void *stored)
{
	MosqlIdentity before;
	Datum		value;

	if (likely(!OidIsValid(column->reader)))
		return read(column, stored);
	mosql_identity_take(column->reader, &before);
	value = read(column, stored);
	mosql_identity_give_back(&before);
	return value;
}

static Datum
read_text(const MosqlTableColumn *column, void *text)
{
	return InputFunctionCall(unconstify(FmgrInfo *, &column->receive), text, column->ioparam,
							 column->typmod);
}

static Datum
binary_value(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes bytes)
{
	Reading		reading = {table, column};
	ErrorContextCallback context = {error_context_stack, call_it_damage, &reading};
	int			level = begin_reading(column->has_xml && xmloption != XMLOPTION_CONTENT);
	StringInfoData buf;
	Datum		value;

	/* a copy: receive functions may write into it, and want a zero at its end */
	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, bytes.data, bytes.len);
	error_context_stack = &context;
	value = as_reader(column, receive_value, &buf);
	error_context_stack = context.previous;
	end_reading(level);
	if (buf.cursor != buf.len)
		mosql_codec_damage(table, column, "Bytes are left over behind the value.");
	pfree(buf.data);
	return value;
}

/* The inverse of output_value(). */
static Datum
input_value(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes text)
{
	Reading		reading = {table, column};
	ErrorContextCallback context = {error_context_stack, call_it_damage, &reading};
	int			level = begin_portable_text();
	Datum		value;

	error_context_stack = &context;
	value = as_reader(column, read_text, pnstrdup(text.data, text.len));
	error_context_stack = context.previous;
	AtEOXact_GUC(true, level);
	return value;
}

/* The inverse of output_labels(). */
static Datum
input_labels(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes text)
{
	Reading		reading = {table, column};
	ErrorContextCallback context = {error_context_stack, call_it_damage, &reading};
	int			level = begin_reading(!Array_nulls);
	Datum		texts;

	error_context_stack = &context;
	texts = InputFunctionCall(unconstify(FmgrInfo *, &column->receive),
							  pnstrdup(text.data, text.len), TEXTOID, -1);
	error_context_stack = context.previous;
	end_reading(level);
	return PointerGetDatum(convert_array(column->labels, DatumGetArrayTypeP(texts),
										 label_from_text, column->labels->type));
}

static Datum
label_value(const MosqlTableColumn *column, MosqlBytes text)
{
	return ObjectIdGetDatum(mosql_label_oid(column->labels, pnstrdup(text.data, text.len)));
}

Datum
mosql_codec_value(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes bytes)
{
	pg_uuid_t  *uuid;

	switch (column->codec)
	{
		case MOSQL_CODEC_UUID:
			uuid = palloc(sizeof(pg_uuid_t));
			memcpy(uuid->data, bytes.data, UUID_LEN);
			return UUIDPGetDatum(uuid);
		case MOSQL_CODEC_TEXT:
			return make_varlena(text_or_damage(table, column, bytes));
		case MOSQL_CODEC_BYTEA:
			return make_varlena(bytes);
		case MOSQL_CODEC_BINARY:
			return binary_value(table, column, bytes);
		case MOSQL_CODEC_INOUT:
			return input_value(table, column, text_or_damage(table, column, bytes));
		case MOSQL_CODEC_ENUM:
			return label_value(column, text_or_damage(table, column, bytes));
		case MOSQL_CODEC_ENUMS:
			return input_labels(table, column, text_or_damage(table, column, bytes));
		case MOSQL_CODEC_FIXED:
			break;
	}
	elog(ERROR, "column of type %u has no codec by reference", column->type);
}

static MosqlBytes
decompress(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes in)
{
	uint64		len;
	char	   *raw;

	if (!mosql_varint_get(&in, &len) || len == 0 || len > MOSQL_VALUE_MAX_BYTES)
		mosql_codec_damage(table, column, "The length in front of the compressed bytes is wrong.");
	raw = palloc(len);
	if (pglz_decompress(in.data, in.len, raw, len, true) != (int32) len)
		mosql_codec_damage(table, column, "The compressed bytes do not decompress.");
	return mosql_bytes(raw, len);
}

Datum
mosql_codec_get(const MosqlTable *table, const MosqlTableColumn *column, const MosqlColumn *stored)
{
	if (!mosql_codec_accepts(column, stored->wire))
		mosql_codec_damage(table, column, "The stored width is not the type's.");
	if (column->fixed_width > 0)
	{
		int64		value;

		if (column->codec == MOSQL_CODEC_UUID)
			return mosql_codec_value(table, column, stored->value);
		value = mosql_read_int(stored->value.data, column->fixed_width);
		if (!is_valid_fixed(column->type, value))
			mosql_codec_damage(table, column, "The stored number is no value of the type.");
		return fixed_from_int(column, value);
	}
	if (stored->wire == MOSQL_WIRE_BYTES)
		return mosql_codec_value(table, column, stored->value);
	return mosql_codec_value(table, column, decompress(table, column, stored->value));
}
