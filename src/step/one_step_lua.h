/*
 * one_step_lua.h: a whole commit, or what of it is on the clock's server, as one server-side script.
 *
 * What the steps of prepare compare, for each leaf; what decide compares; then the timestamp,
 * and the rows as apply would leave them: code/history.c and code/increment.c say in C what
 * the functions here do, and test/unit/test_step.c compares them.
 *
 *     KEYS       c, s, e, p of the clock
 *     ARGV[1]    n, the attempt's number
 *         [2]    schema version
 *         [3]    session
 *         [4]    lease length
 *         [5]    number of records to drop, D
 *         [6]    participants, as decide has them
 *         [7]    schema version when the transaction began, or 0, as decide has it
 *         [8]    1 for all snapshots, as decide has it
 *         then   D numbers of records to drop
 *                per leaf its key, and a step: step_lua.h
 *
 * Leaves are no KEYS, which a cluster wants in one slot.  What a script calls may be in any that the
 * node serves; else, or if the key is missing in a slot that is on the move, the call is an error: the
 * first call for a leaf is its read, before anything is written, and while a script runs no slot moves.
 *
 * The conditional writes of these steps are UNLIST and the kinds that need the timestamp:
 * VERSION, TOMBSTONE, INCREMENT; and before one of these MAX, which writes nothing by itself: the row
 * that counts where there is none.  Replies {0, schema, ts, newest snapshots, oldest, per
 * leaf: meta, HLEN or 0}, snapshots if there are participants;
 * {MosqlDecision, schema} for what decide refuses; {5, schema, leaf, compare, meta} for a compare that failed, the first
 * of its leaf, and {6} for what is better done in more than one step: nothing was written then, except that the clock
 * was taken over.
 *
 * As in step_lua.h, nothing that can fail stands behind a write that counts: all is read, and all
 * new rows are made, before; and no command stands behind the record that was not called, or asked
 * for, before it, so that a user who may not call it is refused before anything is written.  Times that no
 * clock gives, because the clock's keys are damaged, would destroy rows: they are left to the
 * ordinary way, which places intents before it asks.
 */
#ifndef MOSQL_ONE_STEP_LUA_H
#define MOSQL_ONE_STEP_LUA_H

#include "step/clock_lua.h"
#include "step/step_lua.h"

/*
 * What few rows take: those with a history, or with increments in flight, or where a snapshot is registered.
 *
 * varint(): number and place behind it; nil if it does not decode, or is larger than any length or
 * tag here (`most` bytes).  versions(): of a row, newest first, each {from, to, live, columns}, and
 * whether it is truncated; nil if it does not decode.  prune(): as supersede(), by the registered snapshots,
 * of which `oldest` is the least and `newest` the greatest; each version is asked for at the clock.
 * in_flight(): how much the increments in an intents field may change a column together; nil if
 * there is something else.  Times in rows have 7 bytes.
 */
#define LUA_ROW_TOOLS \
"local function rows()\n" \
"  if tools then return tools end\n" \
"  local floor = math.floor\n" \
"  local function time_at(s, x)\n" \
"    local a, b, c, d, e, f, g = byte(s, x, x + 6)\n" \
"    return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g\n" \
"  end\n" \
"  local function stamp(n)\n" \
"    local low = n % 4294967296\n" \
"    return sub(four((n - low) / 4294967296), 2) .. four(low)\n" \
"  end\n" \
"  local function varint(s, x, most)\n" \
"    local value, unit = 0, 1\n" \
"    for y = x, x + most - 1 do\n" \
"      local b = byte(s, y)\n" \
"      if not b or b == 0 and y > x then return nil end\n" \
"      value = value + b % 128 * unit\n" \
"      if b < 128 then return value, y + 1 end\n" \
"      unit = unit * 128\n" \
"    end\n" \
"  end\n" \
"  local function put_varint(n)\n" \
"    local out = ''\n" \
"    while n >= 128 do\n" \
"      out = out .. char(n % 128 + 128)\n" \
"      n = floor(n / 128)\n" \
"    end\n" \
"    return out .. char(n)\n" \
"  end\n" \
"  local function versions(row)\n" \
"    local kind = sub(row, 8, 8)\n" \
"    if kind == 'L' or kind == 'T' then\n" \
"      return {{time_at(row, 1), 0, kind == 'L', sub(row, 9)}}, true\n" \
"    end\n" \
"    local size, x = varint(row, 9, 5)\n" \
"    if not size or x + size > #row then return nil end\n" \
"    local list = {{time_at(row, 1), 0, kind == 'l', sub(row, x, x + size - 1)}}\n" \
"    local truncated = byte(row, x + size) == 1\n" \
"    x = x + size + 1\n" \
"    while x <= #row do\n" \
"      if x + 15 > #row then return nil end\n" \
"      local from, to, live = time_at(row, x), time_at(row, x + 7), byte(row, x + 14) == 76\n" \
"      local n, y = varint(row, x + 15, 5)\n" \
"      if not n or y + n - 1 > #row or from >= to or to > list[#list][1] then return nil end\n" \
"      list[#list + 1] = {from, to, live, sub(row, y, y + n - 1)}\n" \
"      x = y + n\n" \
"    end\n" \
"    return list, truncated\n" \
"  end\n" \
"  local function needed(version)\n" \
"    if version[1] > newest or version[2] <= oldest then return false end\n" \
"    if version[1] <= oldest or version[2] > newest then return true end\n" \
"    asked = asked + 1\n" \
"    return #call('ZRANGEBYSCORE', KEYS[4], text(version[1]), '(' .. text(version[2]), 'LIMIT', 0, 1) > 0\n" \
"  end\n" \
"  local function prune(old, live, columns)\n" \
"    local list, truncated, kept = {}, false, {}\n" \
"    if old then\n" \
"      list, truncated = versions(old)\n" \
"      if not list then return nil end\n" \
"      list[1][2] = issued\n" \
"    end\n" \
"    local first = list[#list]\n" \
"    if not truncated and (not first or first[1] > 0) then\n" \
"      list[#list + 1] = {0, first and first[1] or issued, false, ''}\n" \
"    end\n" \
"    for x = 1, #list do\n" \
"      if needed(list[x]) then kept[#kept + 1] = list[x] end\n" \
"    end\n" \
"    local n = #kept\n" \
"    if n == 0 or kept[n][1] > 0 then\n" \
"      truncated = true\n" \
"    elseif kept[n][2] == (n > 1 and kept[n - 1][1] or issued) then\n" \
"      kept[n] = nil\n" \
"    end\n" \
"    if #kept == 0 and truncated then return ts7 .. (live and 'L' or 'T') .. columns end\n" \
"    local out = {ts7, live and 'l' or 't', put_varint(#columns), columns, truncated and char(1) or char(0)}\n" \
"    for x = 1, #kept do\n" \
"      local v = kept[x]\n" \
"      out[5 + x] = stamp(v[1]) .. stamp(v[2]) .. (v[3] and 'L' or 'T') .. put_varint(#v[4]) .. v[4]\n" \
"    end\n" \
"    return table.concat(out)\n" \
"  end\n" \
"  local function in_flight(field, column)\n" \
"    local x, sum = 1, 0\n" \
"    while x <= #field do\n" \
"      local kind = byte(field, x + 16)\n" \
"      if kind == 76 or kind == 87 then\n"	/* 'L', 'W' */ \
"        x = x + 22\n" \
"      elseif kind == 73 then\n"	/* 'I' */ \
"        local y = x + 18\n" \
"        x = y + (byte(field, x + 17) or #field)\n" \
"        while y < x do\n" \
"          local tag, z = varint(field, y, 5)\n" \
"          local delta\n" \
"          if not tag then return nil end\n" \
"          delta, y = varint(field, z, 10)\n" \
"          if not delta then return nil end\n" \
"          if floor(tag / 8) == column then sum = sum + delta / 2 + 1 end\n" \
"        end\n" \
"      else\n" \
"        return nil\n" \
"      end\n" \
"    end\n" \
"    return sum\n" \
"  end\n" \
"  tools = {varint = varint, versions = versions, prune = prune, in_flight = in_flight, time_at = time_at}\n" \
"  return tools\n" \
"end\n"

/*
 * supersede(): the row with a version of time `issued` on top, pruned by the registered snapshots; '' if the
 * row goes as a whole, and the purge mark is raised; nil if `old` does not decode, or is no older.
 * increment(): a row's columns with increments added; nil if one may not fit, whichever of those in flight
 * commit.  Sums are exact, but with those in flight, where they are kept far from the bound.  Of the list
 * `incs`: 4 bytes column, 1 byte width, 8 bytes delta, big-endian.  rows(): see LUA_ROW_TOOLS.
 */
#define LUA_ROWS \
"local char, tools = string.char, nil\n" \
"local function four(n)\n"	/* bytes of a number below 2^32 */ \
"  local a, b, c = n % 16777216, n % 65536, n % 256\n" \
"  return char((n - a) / 16777216, (a - b) / 65536, (b - c) / 256, c)\n" \
"end\n" \
"local ts7 = sub(four((issued - issued % 4294967296) / 4294967296), 2) .. four(issued % 4294967296)\n" \
LUA_ROW_TOOLS \
"local function supersede(old, live, columns)\n" \
"  if old then\n" \
"    local a, b, c, d, e, f, g, kind = byte(old, 1, 8)\n" \
"    if kind ~= 76 and kind ~= 84 and kind ~= 108 and kind ~= 116 then return nil end\n"	/* 'L', 'T', 'l', 't' */ \
"    if (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g >= issued then return nil end\n" \
"  end\n" \
"  if not live and oldest >= issued then return '' end\n" \
"  if newest == 0 then return ts7 .. (live and 'L' or 'T') .. columns end\n" \
"  return rows().prune(old, live, columns)\n" \
"end\n" \
"local function increment(columns, incs, intents)\n" \
"  local x, wanted = 1, {}\n" \
"  for z = 1, #incs, 13 do\n" \
"    local a, b, c, d = byte(incs, z, z + 3)\n" \
"    wanted[((a * 256 + b) * 256 + c) * 256 + d] = z + 4\n" \
"  end\n" \
"  while x <= #columns do\n" \
"    local tag, y = byte(columns, x), x + 1\n" \
"    if tag > 127 then tag, y = rows().varint(columns, x, 5) end\n" \
"    if not tag then return nil end\n" \
"    local wire, size = tag % 8, 0\n" \
"    if wire < 5 then\n" \
"      size = 2 ^ wire\n" \
"    elseif wire < 7 then\n" \
"      size = byte(columns, y)\n" \
"      y = y + 1\n" \
"      if size and size > 127 then size, y = rows().varint(columns, y - 1, 5) end\n" \
"      if not size then return nil end\n" \
"    end\n" \
"    if y + size - 1 > #columns then return nil end\n" \
"    local z = wanted[(tag - wire) / 8]\n" \
"    if z and wire < 7 then\n" \
"      if wire > 4 or size ~= byte(incs, z) then return nil end\n" \
"      local a, b, c, d, e, f, g, h = byte(incs, z + 1, z + 8)\n" \
"      local high, low = ((a * 256 + b) * 256 + c) * 256 + d, ((e * 256 + f) * 256 + g) * 256 + h\n" \
"      if a > 127 then high = high - 4294967296 end\n" \
"      a, b, c, d, e, f, g, h = byte(columns, y, y + size - 1)\n" \
"      local old, rest = a > 127 and a - 256 or a, 0\n"	/* old * 2^32 + rest */ \
"      if size == 8 then\n" \
"        old, rest = ((old * 256 + b) * 256 + c) * 256 + d, ((e * 256 + f) * 256 + g) * 256 + h\n" \
"      else\n" \
"        if size > 1 then old = old * 256 + b end\n" \
"        if size == 4 then old = (old * 256 + c) * 256 + d end\n" \
"        old, rest = old < 0 and -1 or 0, old % 4294967296\n" \
"      end\n" \
"      local bound = 2 ^ (8 * size - 1)\n" \
"      if intents then\n" \
"        local others = rows().in_flight(intents, (tag - wire) / 8)\n" \
"        if not others or math.abs(old * 4294967296 + rest) + math.abs(high * 4294967296 + low) + others >\n" \
"            bound * 0.999 then\n" \
"          return nil\n" \
"        end\n" \
"      end\n" \
"      high, low = high + old, low + rest\n" \
"      if low >= 4294967296 then high, low = high + 1, low - 4294967296 end\n" \
"      local sum = size == 8 and high * 4294967296 or high * 4294967296 + low\n"	/* may round up */ \
"      if sum < -bound or sum >= bound then return nil end\n" \
"      local new = size == 8 and four(high % 4294967296) .. four(low) or sub(four(low), 5 - size)\n" \
"      columns = sub(columns, 1, y - 1) .. new .. sub(columns, y + size)\n" \
"    end\n" \
"    x = y + size\n" \
"  end\n" \
"  return columns\n" \
"end\n"

/* What a clock may say; doubles are exact up to there and beyond. */
#define LUA_SANE(time) "(" time " > 0 and " time " < 2 ^ 52)"

/* Old bytes that are read, and versions asked for. */
#define LUA_MOST_OLD		"262144"
#define LUA_MOST_ASKED		"4096"

static const char one_step_lua[] =
LUA_HEAD LUA_NOW
"local byte = string.byte\n"
"local s = call('HMGET', KEYS[2], 'lease', argv[1], unpack(argv, 9, 8 + argv[5]))\n"
"local c = call('HMGET', KEYS[1], 'last', 'schema', 'node', 'leapt')\n"
"local p = call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')\n"
"local newest, oldest, asked = 0, math.huge, 0\n"
"if p[2] then newest, oldest = p[2] + 0, call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2] + 0 end\n"
LUA_TAKE_OVER
"local lease, schema = s[1], c[2] or '0'\n"
"local leap = (leapt == 1 and c[1] or c[4] or 0) + 0\n"
"if s[2] then return {sub(s[2], 1, 1) == 'C' and 6 or 1, schema} end\n"
"if not lease or lease + 0 < now then return {2, schema} end\n"
"if argv[7] ~= '0' and (leap > argv[7] + 0 or schema + 0 < argv[7] + 0) then return {4, schema} end\n"
"if schema ~= argv[2] then return {3, schema} end\n"
"local issued = (c[1] or 0) + 1\n"
"issued = issued > now and issued or now\n"
"if not " LUA_SANE("issued") " or p[2] and not (" LUA_SANE("newest") " and " LUA_SANE("oldest") ") then\n"
"  return {6, schema}\n"
"end\n"
LUA_ROWS LUA_STEP_TOOLS
/* leaves: of each its key, meta, how many fields it will have, or false, who is woken before and after it, fields to
 * delete, or false; then, up to [6], fields to set and their values; one that sets no more than one does not grow */
"local leaves, o, size = {}, 8 + argv[5], 0\n"
"while o < #argv do\n"
"  o = o + 1\n"
"  local key, plan = argv[o], argv[o + 1]\n"
LUA_STEP_PLAN LUA_STEP_READ LUA_STEP_COMPARE
"  if failed >= 0 then return {5, schema, #leaves, failed, v[" LUA_PLACE("nc + 1") "] or false} end\n"
"  local brought\n"
"  local leaf = {key, v[" LUA_PLACE("nc + 1") "] or false, flags % 4 < 2 and call('HLEN', key), woken and #woken or 0, 0,\n"
"    7, false, false, false}\n"
"  local n = 7\n"
"  for x = 1, nw do\n"
"    local kind, from = code[at], " LUA_PLACE("nc + nr + x") "\n"
"    local field, old, val = argv[o + 1 + from], v[from], argv[values + x]\n"
"    local new\n"
"    old = brought and brought[field] or old\n"
"    size = size + (old and #old or 0)\n"
"    if size > " LUA_MOST_OLD " or asked > " LUA_MOST_ASKED " then return {6, schema} end\n"
"    at = at + 1\n"
"    if kind == 2 then\n"		/* MAX: what the row is, where it is absent, before it gets a version */
"      brought = brought or {}\n"
"      brought[field] = old or val\n"
"    elseif kind == 6 then\n"		/* UNLIST */
"      new = ''\n"
"      if old and not sole(old, val) then\n"
"        local tools = locks()\n"
"        local let_in = #woken\n"
"        new = tools.take(old, val)\n"
"        tools.tell(let_in, field)\n"
"      end\n"
"    elseif kind == 9 then\n"	/* VERSION */
"      new = supersede(old, true, val)\n"
"    elseif kind == 10 then\n"	/* TOMBSTONE */
"      new = supersede(old, false, '')\n"
"      if new == '' then\n"
"        local purged = call('HGET', key, 'p')\n"
"        if purged and (#purged < 7 or rows().time_at(purged, 1) >= issued) then return {6, schema} end\n"
"        if not leaf.purges then\n"
"          leaf.purges = true\n"
"          leaf[n + 1] = 'p'\n"
"          leaf[n + 2] = ts7\n"
"          n = n + 2\n"
"          if leaf[3] and not purged then leaf[3] = leaf[3] + 1 end\n"
"        end\n"
"      end\n"
"    elseif kind == 11 then\n"	/* INCREMENT */
"      local columns\n"
"      if old and byte(old, 8) == 76 then\n"	/* 'L' */
"        columns = sub(old, 9)\n"
"      elseif old then\n"
"        columns = rows().versions(old)\n"
"        columns = columns and columns[1][4]\n"	/* that it is live was compared */
"      end\n"
"      local name, intents = 'i' .. sub(field, 2), nil\n"
"      for y = 1, nn do\n"		/* it was compared */
"        if argv[o + 1 + y] == name then intents = v[y] end\n"
"      end\n"
"      columns = columns and increment(columns, val, intents)\n"
"      new = columns and supersede(old, true, columns)\n"
"    end\n"
"    if not new and kind ~= 2 then return {6, schema} end\n"
"    if new == '' then\n"
"      leaf[7] = leaf[7] or {}\n"
"      leaf[7][#leaf[7] + 1] = field\n"
"    elseif new then\n"
"      leaf[n + 1] = field\n"
"      leaf[n + 2] = new\n"
"      n = n + 2\n"
"    end\n"
"    if leaf[3] and new then leaf[3] = leaf[3] + (new == '' and 0 or 1) - (v[from] and 1 or 0) end\n"
"  end\n"
"  leaf[5] = woken and #woken or 0\n"
"  leaf[6] = n\n"
"  leaves[#leaves + 1] = leaf\n"
"  o = extra\n"
"end\n"
 /* who applies the rest prunes by a list */
"local list, least = {}, false\n"
"if argv[6] ~= '' then\n"
LUA_SNAPSHOTS
"  list, least = snapshots(KEYS[4], argv[8] == '1')\n"
"end\n"
 /* write; what comes before the record does no harm alone */
"local ts = text(issued)\n"
"call('HSET', KEYS[1], 'last', ts, 'decided', ts)\n"
LUA_EXTEND_ONE("lease", "argv[4]", "KEYS[2]", "KEYS[3]", "argv[3]")
LUA_DROP("9", "8 + argv[5]", "s", "6", "leap")
"for y = 1, #leaves do\n"	/* and write to leaves?  No pattern of keys tells one from another */
"  if leaves[y][6] > 7 or leaves[y][7] then\n"
"    local may = redis.acl_check_cmd and redis.acl_check_cmd('HDEL', leaves[y][1], '')\n"
"    if not may then call('HDEL', leaves[y][1], '') end\n"
"    break\n"
"  end\n"
"end\n"
"call('HSET', KEYS[2], argv[1], 'C' .. ts .. ' ' .. argv[6])\n"
"local reply = {0, schema, ts, list, least}\n"
"for y = 1, #leaves do\n"
"  local leaf = leaves[y]\n"
"  local key = leaf[1]\n"
"  if leaf[7] then call('HDEL', key, unpack(leaf[7])) end\n"
"  if leaf[6] > 7 then call('HSET', key, unpack(leaf, 8, leaf[6])) end\n"
"  for x = leaf[4] + 1, leaf[5] do\n" LUA_STEP_TELL "  end\n"
"  reply[4 + 2 * y] = leaf[2]\n"
"  reply[5 + 2 * y] = leaf[3] or 0\n"
"end\n"
"return reply\n";

#endif							/* MOSQL_ONE_STEP_LUA_H */
