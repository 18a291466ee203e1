/*
 * clock_lua.h: the clock's steps as server-side scripts.
 *
 * Times and timestamps are microseconds, near 2^51: Lua's numbers (doubles)
 * hold them exactly, but tostring() would round them to 14 digits, hence
 * text(), by halves, as %d is no more than 32 bits for some (and %.0f takes seven times as long).  A session is dead when its lease is missing or lies in the past.
 * As in step_lua.h, what can fail comes before the first write.
 */
#ifndef MOSQL_CLOCK_LUA_H
#define MOSQL_CLOCK_LUA_H

#include "base/limits.h"

/*
 * How far `last` leaps: more than the clocks of any two servers differ, and than
 * a predecessor may have issued unreplicated beyond its own time.
 */
#define MOSQL_CLOCK_LEAP_US "2000000"

/* Session ids by the time: see mosql_clock_floor() in step_int.h. */
#define MOSQL_CLOCK_EPOCH_US "1767225600000000"
#define MOSQL_CLOCK_ID_US "128"
#define MOSQL_CLOCK_IDS "17592186044416"

#define LUA_HEAD \
"local call, sub, argv = redis.call, string.sub, ARGV\n" \
"local function text(x)\n" \
"  x = x + 0\n" \
"  if x < 100000000 then return string.format('%d', x) end\n" \
"  return string.format('%d%08d', (x - x % 100000000) / 100000000, x % 100000000)\n" \
"end\n"

#define LUA_NOW \
"local time = call('TIME')\n" \
"local now = time[1] * 1000000 + time[2]\n"

/* INFO is the only thing that tells a primary from the one before it; who may not call it
 * is refused the step. */
#define LUA_ME \
"local info = redis.pcall('INFO', 'replication')\n" \
"if type(info) ~= 'string' then return info end\n" \
"local at = string.find(info, 'master_replid:', 1, true)\n" \
"local to = at and string.find(info, '\\r', at, true)\n"	/* a pattern takes five times as long */ \
"local me = to and sub(info, at + 14, to - 1) or '-'\n"

/*
 * Who issues is another primary than before (failover, slot moved, restart), or is primary once more:
 * its time may be behind, and what its predecessor issued last it may not know.  So
 * `last` leaps ahead of both, and the schema version with it (rule 16; where there is
 * none yet, nobody knows a definition).  KEYS[1]: c;
 * c[1] to c[3]: last, schema, and the master_replid of who issued.
 *
 * How far: mosql_clock_leap() in step_int.h says why.
 */
#define LUA_TAKE_OVER \
LUA_ME \
"local leapt = 0\n" \
"if c[1] and c[3] ~= me then\n" \
"  local last, version = c[1] + 0, (c[2] or 0) + 0\n" \
"  local l = call('HMGET', KEYS[1], 'leapt', 'took')\n" \
"  local to, took = (l[1] or 0) + 0, (l[2] or 0) + 0\n" \
"  if now > took and last < 2 * to - took then last = last + math.floor((now - took) / 2) end\n" \
"  last = (last > now and last or now) + " MOSQL_CLOCK_LEAP_US "\n" \
"  c[1] = text(last)\n" \
"  if version > 0 then c[2] = text(version >= last and version + 1 or last) end\n" \
"  call('HSET', KEYS[1], 'node', me, 'last', c[1], 'schema', c[2] or '0',\n" \
"       'leapt', c[1], 'took', text(now))\n" \
"  leapt = 1\n" \
"end\n"

/*
 * Records of commits that this process has decided, numbered argv[first .. last], are dropped; records[x - shift] is argv[x]'s.
 * Of what was decided before `leap`, where the clock leapt to last,
 * the intents may be back, in a dump, when their owner has seen them go: such a record stays
 * until its session is reaped (rule 5).  KEYS[2]: s.
 */
#define LUA_DROP(first, last, records, shift, leap) \
"local over = {}\n" \
"for x = " first ", " last " do\n" \
"  local record = " records "[x - " shift "]\n" \
"  local ts = record and string.match(record, '^C(%d+) ')\n" \
"  if ts and ts + 0 > " leap " then over[#over + 1] = argv[x] end\n" \
"end\n" \
"if #over > 0 then call('HDEL', KEYS[2], unpack(over)) end\n"

/* dead: of a lease as stored */
#define LUA_DEAD \
"local function dead(lease) return not lease or lease + 0 < now end\n"

/* Sessions' leases are no longer than this; those of prefixes are. */
#define MOSQL_CLOCK_LEASE_US "60000000"

/* extend(), and what it does in place: a lease with less than half of its length left, or impossibly long */
#define LUA_EXTEND_ONE(lease, length, session, ends, sid) \
"  if " lease " - now < " length " / 2 or " lease " - now > " MOSQL_CLOCK_LEASE_US " then\n" \
"    local to = text(now + " length ")\n" \
"    call('HSET', " session ", 'lease', to)\n" \
"    call('ZADD', " ends ", to, " sid ")\n" \
"  end\n"
#define LUA_EXTEND \
"local function extend(lease, length, session, ends, sid)\n" \
LUA_EXTEND_ONE("lease", "length", "session", "ends", "sid") \
"end\n"

/*
 * snapshots(): the newest of those that are registered, or all, and, if there may be more, the
 * oldest; scores.
 */
#define LUA_SNAPSHOTS \
"local function snapshots(key, all)\n" \
"  local newest, list = call('ZREVRANGE', key, 0, all and -1 or " CppAsString2(MOSQL_CLOCK_NEWEST) " - 1, 'WITHSCORES'), {}\n" \
"  for x = 2, #newest, 2 do list[x / 2] = newest[x] end\n" \
"  if all or #list < " CppAsString2(MOSQL_CLOCK_NEWEST) " then return list, false end\n" \
"  return list, call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]\n" \
"end\n"

/*
 * forget(): a session's lease, "aborted" records, snapshots (names: all members
 * of the snapshots) and index entry; committed records stay, and the session
 * is among the dead then.  So it is if there is nothing of it: a slot that is on its way
 * here may bring it later.
 */
#define LUA_FORGET \
"local function remove(command, key, fields)\n" \
"  for x = 1, #fields, 7000 do\n" \
"    call(command, key, unpack(fields, x, x + 6999 < #fields and x + 6999 or #fields))\n" \
"  end\n" \
"end\n" \
"local function forget(sid, session, ends, snapshots, deads, names)\n" \
"  local fields, gone, mine = call('HGETALL', session), {}, {}\n" \
"  local keep = #fields == 0\n" \
"  for x = 1, #fields, 2 do\n" \
"    if sub(fields[x + 1], 1, 1) == 'C' then keep = true else gone[#gone + 1] = fields[x] end\n" \
"  end\n" \
"  local prefix = sid .. '.'\n" \
"  for x = 1, #names do\n" \
"    if sub(names[x], 1, #prefix) == prefix then mine[#mine + 1] = names[x] end\n" \
"  end\n" \
"  call('ZREM', ends, sid)\n" \
"  remove('HDEL', session, gone)\n" \
"  remove('ZREM', snapshots, mine)\n" \
"  if keep then call('SADD', deads, sid) end\n" \
"end\n"

/*
 * sweep(): forget up to limit sessions that ran out; returns how many index
 * entries had ended.  KEYS[2] to [4]: e, p, d; argv[1]: prefix of session keys.
 * A lease further away than it was ever long (the server's time was ahead for a
 * while) is cut to its length: who lives extends it, and who is dead ends (rule 24).
 *
 * The keys of sessions are made up here, not declared: Redis Cluster allows
 * that as long as they are in the slot of the declared ones.  LUA_AT_REST comes first.
 */
#define LUA_SWEEP \
"local function sweep(limit)\n" \
"  local ended = call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(now), 'LIMIT', 0, limit)\n" \
"  local n = #ended\n" \
"  local far = call('ZREVRANGEBYSCORE', KEYS[2], '+inf',\n" \
"    '(' .. text(now + " MOSQL_CLOCK_LEASE_US "), 'LIMIT', 0, limit)\n" \
"  for x = 1, #far do ended[n + x] = far[x] end\n" \
"  local names = #ended > 0 and call('ZRANGE', KEYS[3], 0, -1)\n" \
"  for x = 1, #ended do\n" \
"    local session = argv[1] .. ended[x]\n" \
"    local s = call('HMGET', session, 'lease', 'span')\n" \
"    local lease, span = s[1], (s[2] or " MOSQL_CLOCK_LEASE_US ") + 0\n" \
"    if dead(lease) then\n" \
"      forget(ended[x], session, KEYS[2], KEYS[3], KEYS[4], names)\n" \
"    else\n" \
"      if lease - now > span then\n" \
"        lease = text(now + span)\n" \
"        call('HSET', session, 'lease', lease)\n" \
"      end\n" \
"      call('ZADD', KEYS[2], lease, ended[x])\n" \
"    end\n" \
"  end\n" \
"  return n\n" \
"end\n"

/*
 * While a slot moves, its old node refuses a script the keys that it does not have any more, in
 * the middle, and its new one finds nothing where a key has yet to come: a session that lives
 * would be forgotten there.  Both refuse a command with two keys of which one is not there.
 * So such a one comes before anything is written, and the client tries again later, as with
 * declared keys.  argv[1]: prefix of session keys, which is no key itself.
 */
#define LUA_AT_REST \
"if type(redis.pcall('EXISTS', argv[1], KEYS[1])) == 'table' then\n" \
"  return {err = 'TRYAGAIN The slot of the clock is being moved'}\n" \
"end\n"

/*
 * KEYS: c, e, p, d.  ARGV: prefix of session keys, lease length, format,
 * sessions to sweep, 1 if the database may be founded, who it is.  Replies {0, sid, schema},
 * {1, format found} or {2}: there is no database yet.  Nothing is drawn beyond the
 * last id there may be: then sid is what it would have been.
 */
static const char open_lua[] =
LUA_HEAD LUA_AT_REST LUA_NOW LUA_DEAD LUA_FORGET LUA_SWEEP
"local c = call('HMGET', KEYS[1], 'last', 'schema', 'node', 'format', 'sid')\n"
"if c[4] and c[4] ~= argv[3] then return {1, c[4]} end\n"
"if not c[4] and argv[5] ~= '1' then return {2} end\n"
LUA_TAKE_OVER
"local sid, issued = (c[5] or 0) + 1, (c[1] or 0) + 0\n"
"issued = issued > now and issued or now\n"
"local least = math.floor((issued - " MOSQL_CLOCK_EPOCH_US ") / " MOSQL_CLOCK_ID_US ")\n"
"sid = text(sid > least and sid or least)\n"
"if sid + 0 >= " MOSQL_CLOCK_IDS " then return {0, sid, '0'} end\n"
"call('HSET', KEYS[1], 'format', argv[3], 'sid', sid)\n"
"if not c[1] then call('HSET', KEYS[1], 'node', me, 'last', '0') end\n"
"local lease = text(now + argv[2])\n"
"call('HSET', argv[1] .. sid, 'lease', lease, 'span', argv[2], 'who', argv[6])\n"
"call('ZADD', KEYS[2], lease, sid)\n"
"sweep(argv[4])\n"
"return {0, sid, c[2] or '0'}\n";

/* KEYS: c, e, p, d.  ARGV: prefix of session keys, sessions to sweep. */
static const char expire_lua[] =
LUA_HEAD LUA_AT_REST LUA_NOW LUA_DEAD LUA_FORGET LUA_SWEEP
"return sweep(argv[2])\n";

/* KEYS: s, e, p, d.  ARGV: sid. */
static const char close_lua[] =
LUA_HEAD LUA_FORGET
"forget(argv[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], call('ZRANGE', KEYS[3], 0, -1))\n"
"return 0\n";

/*
 * KEYS: c, s, e, p.  ARGV: sid, member of the snapshot, lease length.
 * Replies {0, S, schema, 1 if the clock was taken over} or {1, schema} for a
 * dead session.
 */
static const char snapshot_lua[] =
LUA_HEAD LUA_NOW LUA_DEAD LUA_EXTEND
"local lease = call('HGET', KEYS[2], 'lease')\n"
"local c = call('HMGET', KEYS[1], 'last', 'schema', 'node')\n"
LUA_TAKE_OVER
"local schema = c[2] or '0'\n"
"if dead(lease) then return {1, schema} end\n"
"local last = (c[1] or 0) + 0\n"
"local S = text(last > now and last or now)\n"
"if call('ZADD', KEYS[4], 'NX', S, argv[2]) == 1 then\n"
"  call('HSET', KEYS[1], 'last', S)\n"
"else\n"
"  S = text(call('ZSCORE', KEYS[4], argv[2]))\n"
"end\n"
"extend(lease, argv[3] + 0, KEYS[2], KEYS[3], argv[1])\n"
"return {0, S, schema, leapt}\n";

/*
 * KEYS: c, s, e, p.  ARGV: n, schema, 1 if the schema changes, sid, lease
 * length, participants, the schema when the transaction began (0: whatever it was), 1 for all
 * snapshots, then the numbers of records to drop.
 * Replies {0, schema, ts, last, newest snapshots, oldest} or {MosqlDecision, schema}.  What a damaged
 * key can make fail stands before the record: what a script has written stays.
 */
static const char decide_lua[] =
LUA_HEAD LUA_NOW LUA_DEAD LUA_EXTEND LUA_SNAPSHOTS
"local s = call('HMGET', KEYS[2], 'lease', argv[1], unpack(argv, 9))\n"
"local c = call('HMGET', KEYS[1], 'last', 'schema', 'node', 'leapt')\n"
LUA_TAKE_OVER
"local lease, record, schema = s[1], s[2], c[2] or '0'\n"
"local leap = (leapt == 1 and c[1] or c[4] or 0) + 0\n"
LUA_DROP("9", "#argv", "s", "6", "leap")
"if record then\n"
"  local ts = string.match(record, '^C(%d+) ')\n"
"  if not ts then return {1, schema} end\n"
"  return {0, schema, ts, c[1], snapshots(KEYS[4], argv[8] == '1')}\n"
"end\n"
"if dead(lease) then return {2, schema} end\n"
"local forgotten = argv[7] ~= '0' and (leap > argv[7] + 0 or schema + 0 < argv[7] + 0)\n"
"if forgotten or schema ~= argv[2] then\n"
"  extend(lease, argv[5] + 0, KEYS[2], KEYS[3], argv[4])\n"
"  return {forgotten and 4 or 3, schema}\n"
"end\n"
"local issued = (c[1] or 0) + 1\n"
"issued = issued > now and issued or now\n"
"local ts = text(issued)\n"
"local newest, oldest = snapshots(KEYS[4], argv[8] == '1')\n"
"extend(lease, argv[5] + 0, KEYS[2], KEYS[3], argv[4])\n"
"if argv[3] == '1' then\n"
"  schema = text(schema + 1 > issued and schema + 1 or issued)\n"
"  call('HSET', KEYS[1], 'last', ts, 'decided', ts, 'schema', schema)\n"
"else\n"
"  call('HSET', KEYS[1], 'last', ts, 'decided', ts)\n"
"end\n"
"call('HSET', KEYS[2], argv[1], 'C' .. ts .. ' ' .. argv[6])\n"
"return {0, schema, ts, ts, newest, oldest}\n";

/*
 * KEYS: c, p, then s per record.  ARGV: n per record.
 * These three reply {unknown, last, newest snapshots, oldest, record ...}.
 */
static const char status_lua[] =
LUA_HEAD LUA_SNAPSHOTS
"local reply = {0, call('HGET', KEYS[1], 'last'), snapshots(KEYS[2])}\n"
"for x = 1, #argv do reply[4 + x] = call('HGET', KEYS[2 + x], argv[x]) end\n"
"return reply\n";

/*
 * KEYS: c, p, s, e.  ARGV: n, sid.  The index entry is only missing when the
 * session is already forgotten; with it somebody will forget this record too.
 */
static const char abort_lua[] =
LUA_HEAD LUA_SNAPSHOTS
"local newest, oldest = snapshots(KEYS[2])\n"
"local record = 'A'\n"
"if call('HSETNX', KEYS[3], argv[1], 'A') == 1 then\n"
"  call('ZADD', KEYS[4], 'NX', 0, argv[2])\n"
"else\n"
"  record = call('HGET', KEYS[3], argv[1])\n"
"end\n"
"return {0, call('HGET', KEYS[1], 'last'), newest, oldest, record}\n";

/* KEYS: c, p, s.  ARGV: n. */
static const char settle_lua[] =
LUA_HEAD LUA_NOW LUA_DEAD LUA_SNAPSHOTS
"local newest, oldest = snapshots(KEYS[2])\n"
"local s = call('HMGET', KEYS[3], 'lease', argv[1])\n"
"local record, unknown = s[2], 0\n"
"if not record or record == 'A' then\n"
"  if dead(s[1]) then\n"
"    unknown = 1\n"
"  elseif not record then\n"
"    record = 'A'\n"
"    call('HSET', KEYS[3], argv[1], 'A')\n"
"  end\n"
"end\n"
"return {unknown, call('HGET', KEYS[1], 'last'), newest, oldest, record}\n";

/* KEYS: c, s.  ARGV: n per record, fewer than 7000.  Who has not taken over drops nothing. */
static const char drop_lua[] =
LUA_HEAD
"local c = call('HMGET', KEYS[1], 'node', 'leapt')\n"
LUA_ME
"if c[1] ~= me then return 0 end\n"
"local records = call('HMGET', KEYS[2], unpack(argv))\n"
LUA_DROP("1", "#argv", "records", "0", "(c[2] or 0) + 0")
"return 0\n";

/*
 * KEYS: s, d, o.  ARGV: sid, n per record.  Replies 0 if the session lives.
 * A record's outcome is logged before it goes: the first write, and the only
 * one that may be refused for lack of memory.
 */
static const char reap_lua[] =
LUA_HEAD LUA_NOW LUA_DEAD
"if not dead(call('HGET', KEYS[1], 'lease')) then return 0 end\n"
"if #argv > 1 then call('HDEL', KEYS[1], 'lease') end\n"	/* rule 16 */
"for x = 2, #argv do\n"
"  local record = call('HGET', KEYS[1], argv[x])\n"
"  if record and sub(record, 1, 1) == 'C' then\n"
"    call('ZADD', KEYS[3], text(now), argv[1] .. '.' .. argv[x])\n"
"    call('HDEL', KEYS[1], argv[x])\n"
"  end\n"
"end\n"
"local left = call('HVALS', KEYS[1])\n"
"for x = 1, #left do\n"
"  if sub(left[x], 1, 1) == 'C' then return 1 end\n"
"end\n"
"call('UNLINK', KEYS[1])\n"	/* what was not there yet when it was forgotten */
"call('SREM', KEYS[2], argv[1])\n"
"return 1\n";

/* KEYS: c, p.  Replies {last, schema, all snapshots, 1 if the clock was taken over}. */
static const char snapshots_lua[] =
LUA_HEAD LUA_NOW LUA_SNAPSHOTS
"local all = snapshots(KEYS[2], true)\n"
"local c = call('HMGET', KEYS[1], 'last', 'schema', 'node')\n"
LUA_TAKE_OVER
"return {c[1] or '0', c[2] or '0', all, leapt}\n";

/* KEYS: c, e.  Replies {highest id, the ids that are not forgotten}. */
static const char sessions_lua[] =
LUA_HEAD
"return {call('HGET', KEYS[1], 'sid') or '0', call('ZRANGE', KEYS[2], 0, -1)}\n";

#endif							/* MOSQL_CLOCK_LUA_H */
