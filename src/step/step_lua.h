/*
 * step_lua.h: the mini-transaction as one server-side script.
 *
 * Data-driven, so that every server caches one script.  KEYS[1] is the node; without KEYS there are
 * several steps, see "A message" below.  ARGV is laid out such that Lua builds no list of its own: names to read, and
 * fields to write, go to Redis as slices of ARGV.
 *
 *     ARGV[1]    the plan, bytes: six counts of 2 bytes, big-endian: compares C,
 *                bytes of compares B, reads R, conditional writes W, deletes D,
 *                sets S; 1 byte: 1 = read the whole hash, + 2 = do not count its
 *                fields; 1 byte: number N of distinct fields to read, 255 =
 *                all C + R + W stand there one by one; per compare 3 bytes: kind, + 128 if it has no bytes of its own (ABSENT, COUNT, or the same
 *                as those before), and offset (2; for RANGE the first: 1 = there is
 *                an upper bound, the second: 1 = claims do not count); per conditional write 1 byte: kind; unless N is
 *                255, C + R + W bytes: which of the N fields each one is
 *     then       N or C + R + W   fields to read
 *                B           bytes of the compares
 *                W           values of the conditional writes (all but SET and DELETE)
 *                D           fields to delete
 *                2 * S       field, value
 *                2 per RANGE upper, at_most
 *
 * Replies { -1 or the index of the compare that failed, HLEN, R values }.
 *
 * Everything is read before anything is written, and nothing that can fail
 * stands between two writes: a script that fails keeps what it wrote.  (Lack
 * of memory refuses a script's first write or none; a key of a foreign type
 * fails at the first read or write; the right to set is asked for before fields
 * are deleted, once in a call.)  Lua's own `<` on strings follows the
 * server's locale, hence less().  unpack() has room for fewer than 8000
 * values, hence the slices in LUA_STEP_EACH.
 *
 * A message: steps on any nodes of the server.  ARGV has for each the node's key, the number of its arguments, and
 * these as above.  Replies for each what is replied for one; nil: nothing was done, it is to be sent
 * alone; or an error behind a write, where one step alone would have ended as well.  Each runs under
 * pcall, and what ends it ends none of the others.  That comes before its first write: a
 * key that is not served here, because its slot is elsewhere, or on the move and the key not there; one of a
 * foreign type; bytes that do not decode; no memory; no rights.  Nor is done what follows when very much
 * was read: it all would be in the server's memory at a time.
 *
 * Nodes of a message are no KEYS, which a cluster wants in one slot: what a script calls may be in any
 * that the server serves (see one_step_lua.h).
 *
 * Race -- slots come one by one to another server.  Sent on to it by ASK, with ASKING before, a script
 * would find absent there what has not arrived of any of them, since that holds for all its commands.
 * A message, having no KEYS, is never sent on: its steps are, alone.
 */
#ifndef MOSQL_STEP_LUA_H
#define MOSQL_STEP_LUA_H

/*
 * The plan, and where its parts are: it is argv[o + 1].  Below, for the step of one node,
 * o is 0; a message has one per step, a commit in one step (one_step_lua.h) one per leaf.
 * `code`: its bytes; a call of byte() costs as much as a dozen look-ups there.
 */
#define LUA_STEP_PLAN \
"local code = {byte(plan, 1, 4000)}\n" \
"for x = 4001, #plan do code[x] = byte(plan, x) end\n" \
"local nc, nb, nr, nw = code[1] * 256 + code[2], code[3] * 256 + code[4], code[5] * 256 + code[6], code[7] * 256 + code[8]\n" \
"local nd, ns, flags, nn = code[9] * 256 + code[10], code[11] * 256 + code[12], code[13], code[14]\n" \
"local whole = flags % 2 == 1\n" \
 /* see LUA_PLACE */ \
"local places = nn < 255 and 14 + 3 * nc + nw\n" \
"if nn == 255 then nn = nc + nr + nw end\n" \
 /* the part with x = 1, 2, ... is argv[start + x] */ \
"local bytes = o + 1 + nn\n" \
"local values = bytes + nb\n" \
"local dels = values + nw\n" \
"local sets = dels + nd\n" \
"local extra = sets + 2 * ns\n"

/* Field x of compares, reads, writes, counted together, is this one of those that are read. */
#define LUA_PLACE(x) "(places and code[places + " x "] or " x ")"

/*
 * Lists, intents, and what claim.c says in C.  A function that a script makes costs 1,700 instructions, also
 * if nobody calls it: those that most calls do without are made where they are needed.
 */
#define LUA_STEP_TOOLS \
"local lists_kit\n" \
"local function lists()\n" \
"  if lists_kit then return lists_kit end\n" \
 /* memcmp(a, b) < 0, a prefix sorts first */ \
"  local function less(a, b)\n" \
"    local n = #a < #b and #a or #b\n" \
"    for x = 1, n do\n" \
"      local p, q = byte(a, x), byte(b, x)\n" \
"      if p ~= q then return p < q end\n" \
"    end\n" \
"    return #a < #b\n" \
"  end\n" \
 /* where an entry stands in a list of 16-byte entries, or nil */ \
"  local function find(list, entry)\n" \
"    for x = 1, #list, 16 do\n" \
"      if sub(list, x, x + 15) == entry then return x end\n" \
"    end\n" \
"  end\n" \
 /* where the intent of a transaction stands in an intents field, or nil */ \
"  local function intent(list, tx)\n" \
"    local x = 1\n" \
"    while x + 16 <= #list do\n" \
"      local next = #list + 1\n" \
"      if byte(list, x + 16) == 73 then\n"	/* 'I' */ \
"        next = x + 18 + (byte(list, x + 17) or #list)\n" \
"        if next > #list + 1 then return nil end\n" \
"      end\n" \
"      if sub(list, x, x + 15) == tx then return x, next end\n" \
"      x = next\n" \
"    end\n" \
"  end\n" \
 /* a row after increments: see mosql_step_add() */ \
"  local function add(row, val)\n" \
"    if less(sub(row, 1, 7), sub(val, 1, 7)) then row = sub(val, 1, 7) .. sub(row, 8) end\n" \
"    for x = 8, #val - 12, 13 do\n" \
"      local a, b, c, d, width = byte(val, x, x + 4)\n" \
"      local from = ((a * 256 + b) * 256 + c) * 256 + d + 1\n" \
"      if width <= 8 and from + width - 1 <= #row then\n" \
"        local carry, out = 0, ''\n" \
"        for y = width - 1, 0, -1 do\n" \
"          local sum = byte(row, from + y) + byte(val, x + 13 - width + y) + carry\n" \
"          carry = sum > 255 and 1 or 0\n" \
"          out = string.char(sum % 256) .. out\n" \
"        end\n" \
"        row = sub(row, 1, from - 1) .. out .. sub(row, from + width)\n" \
"      end\n" \
"    end\n" \
"    return row\n" \
"  end\n" \
"  lists_kit = {less = less, find = find, intent = intent, add = add}\n" \
"  return lists_kit\n" \
"end\n" \
 /* \
  * What claim.c says in C.  Functions are made where they are needed: most fields \
  * have no claims. \
  */ \
"local kit, woken\n" \
 /* is a field one lock, or one intent, of a transaction, and nothing else? */ \
"local function sole(field, tx)\n" \
"  if sub(field, 1, 16) ~= tx then return false end\n" \
"  local kind, size = byte(field, 17, 18)\n" \
"  if kind == 76 then return #field == 22 end\n"	/* 'L' */ \
"  return kind == 73 and #field == 18 + (size or 0)\n"	/* 'I' */ \
"    or kind and kind ~= 73 and kind ~= 87\n"	/* 'W' */ \
"end\n" \
"local function locks()\n" \
"  if kit then return kit end\n" \
"  woken = {}\n" \
"  local find = lists().find\n" \
"  local function claims(field)\n" \
"    local list, x = {}, 1\n" \
"    while x + 21 <= #field and (byte(field, x + 16) == 76 or byte(field, x + 16) == 87) do\n" \
"      list[#list + 1] = sub(field, x, x + 21)\n" \
"      x = x + 22\n" \
"    end\n" \
"    return list, sub(field, x)\n" \
"  end\n" \
 /* where the intent at x ends, and how strong it is; nil: it does not decode */ \
"  local function ending(list, x)\n" \
"    if x + 16 > #list then return nil end\n" \
"    if byte(list, x + 16) ~= 73 then return #list + 1, 4 end\n"	/* 'I' */ \
"    local next = x + 18 + (byte(list, x + 17) or #list)\n" \
"    if next > #list + 1 then return nil end\n" \
"    return next, 5\n" \
"  end\n" \
 /* has a transaction an intent in an intents field, or a claim? */ \
"  local function listed(field, tx)\n" \
"    local list, rest = claims(field)\n" \
"    for x = 1, #list do\n" \
"      if sub(list[x], 1, 16) == tx then return true end\n" \
"    end\n" \
"    local x = 1\n" \
"    while x <= #rest do\n" \
"      local next = ending(rest, x)\n" \
"      if not next then return false end\n" \
"      if sub(rest, x, x + 15) == tx then return true end\n" \
"      x = next\n" \
"    end\n" \
"    return false\n" \
"  end\n" \
"  local excluded = {'00010', '00111', '01111', '11111', '01110'}\n" \
 /* locks of tables, 11 to 18 */ \
"  for i, modes in ipairs({'00000001', '00000011', '00001111', '00011111', '00110111', '00111111', '01111111',\n" \
"                          '11111111'}) do\n" \
"    excluded[10 + i] = '1111111111' .. modes\n" \
"  end\n" \
"  local function excludes(wanted, there)\n" \
"    return byte(excluded[wanted] or '', there) ~= 48\n" \
"  end\n" \
"  local function blocked(list, rest, upto, owner, wanted)\n" \
"    for x = 1, wanted == 6 and 0 or #list do\n" \
"      if x >= upto and byte(list[x], 17) == 87 then break end\n" \
"      if sub(list[x], 1, 16) ~= owner and excludes(wanted, byte(list[x], 18)) then return true end\n" \
"    end\n" \
"    local x = 1\n" \
"    while x <= #rest do\n" \
"      local next, there = ending(rest, x)\n" \
"      if not next then return true end\n" \
"      if sub(rest, x, x + 15) ~= owner and excludes(wanted, there) then return true end\n" \
"      x = next\n" \
"    end\n" \
"    return false\n" \
"  end\n" \
"  local function claim(list, owner, kind)\n" \
"    for x = 1, #list do\n" \
"      if byte(list[x], 17) == kind and sub(list[x], 1, 16) == owner then return x end\n" \
"    end\n" \
"  end\n" \
 /* false if a lock that was there became stronger */ \
"  local function hold(list, new)\n" \
"    local at = claim(list, sub(new, 1, 16), 76)\n" \
"    if at then\n" \
"      local old = list[at]\n" \
"      if byte(old, 18) < byte(new, 18) then\n" \
"        list[at] = sub(old, 1, 17) .. sub(new, 18, 18) .. sub(old, 19)\n" \
"      end\n" \
"      return false\n" \
"    end\n" \
"    at = 1\n" \
"    while list[at] and byte(list[at], 17) ~= 87 do at = at + 1 end\n" \
"    table.insert(list, at, sub(new, 1, 16) .. 'L' .. sub(new, 18, 18) .. string.char(0, 0, 0, 0))\n" \
"    return true\n" \
"  end\n" \
 /* the field when all are let in who can be; who was is told at the end */ \
"  local function let_in(list, rest)\n" \
"    local x = 1\n" \
"    while x <= #list do\n" \
"      local c = list[x]\n" \
"      local owner = sub(c, 1, 16)\n" \
"      if byte(c, 17) ~= 87 or blocked(list, rest, x, owner, byte(c, 18)) then\n" \
"        x = x + 1\n" \
"      else\n" \
"        table.remove(list, x)\n" \
"        if hold(list, c) then x = x + 1 end\n" \
"        woken[#woken + 1] = owner .. sub(c, 19, 22)\n" \
"      end\n" \
"    end\n" \
"    return table.concat(list) .. rest\n" \
"  end\n" \
"  local function admits(field, asked)\n" \
"    local list, rest = claims(field)\n" \
"    local owner, wanted, upto = sub(asked, 1, 16), byte(asked, 17), 0\n" \
"    if #asked ~= 17 then return false end\n" \
"    local mine = claim(list, owner, 76)\n" \
"    local held = mine and byte(list[mine], 18) or 0\n" \
"    if held < (wanted == 5 and 3 or wanted) then upto = #list + 1 end\n" \
"    return not blocked(list, rest, upto, owner, wanted)\n" \
"  end\n" \
"  local function holds(field, asked)\n" \
"    local list = claims(field)\n" \
"    local mine = (#asked == 17 or #asked == 18) and claim(list, sub(asked, 1, 16), 76)\n" \
"    return mine and byte(list[mine], 18) >= byte(asked, 17) and\n" \
"      (#asked == 17 or byte(list[mine], 22) >= byte(asked, 17))\n" \
"  end\n" \
"  local function request(field, new)\n" \
"    if #new ~= 22 then return field end\n" \
"    local list, rest = claims(field)\n" \
"    local owner, kind, wanted = sub(new, 1, 16), byte(new, 17), byte(new, 18)\n" \
"    local mine = claim(list, owner, 76)\n" \
"    local held = mine and byte(list[mine], 18) or -1\n" \
"    if kind == 83 then\n"	/* 'S' */ \
"      if held > wanted then\n" \
"        list[mine] = sub(list[mine], 1, 17) .. sub(new, 18, 18) .. sub(list[mine], 19)\n" \
"      end\n" \
"      if mine and byte(list[mine], 22) > wanted then list[mine] = sub(list[mine], 1, 21) .. sub(new, 18, 18) end\n" \
"      local wait = claim(list, owner, 87)\n" \
"      if wait then table.remove(list, wait) end\n" \
"    elseif held < wanted and not claim(list, owner, 87) then\n" \
"      local at = #list + 1\n" \
"      for x = 1, mine and #list or 0 do\n" \
"        if byte(list[x], 17) == 87 and excludes(byte(list[x], 18), held) then\n" \
"          at = x\n" \
"          break\n" \
"        end\n" \
"      end\n" \
"      if not blocked(list, rest, at, owner, wanted) then\n" \
"        hold(list, new)\n" \
"      elseif kind == 87 then\n" \
"        table.insert(list, at, new)\n" \
"      end\n" \
"    end\n" \
"    mine = kind ~= 83 and claim(list, owner, 76)\n" \
"    if mine and byte(list[mine], 18) >= wanted and byte(list[mine], 22) < wanted then\n" \
"      list[mine] = sub(list[mine], 1, 21) .. sub(new, 18, 18)\n" \
"    end\n" \
"    return let_in(list, rest)\n" \
"  end\n" \
"  local function take(field, ids)\n" \
"    local list, rest = claims(field)\n" \
"    for x = #list, 1, -1 do\n" \
"      if find(ids, sub(list[x], 1, 16)) then table.remove(list, x) end\n" \
"    end\n" \
"    local left, x = '', 1\n" \
"    while x <= #rest do\n" \
"      local next = ending(rest, x)\n" \
"      if not next then break end\n" \
"      if not find(ids, sub(rest, x, x + 15)) then left = left .. sub(rest, x, next - 1) end\n" \
"      x = next\n" \
"    end\n" \
"    return let_in(list, left .. sub(rest, x))\n" \
"  end\n" \
  /* who was let in since is told of this field's row */ \
"  local function tell(from, field)\n" \
"    for x = from + 1, #woken do woken[x] = woken[x] .. field end\n" \
"  end\n" \
"  local function alone(field, tx)\n" \
"    local list, rest = claims(field)\n" \
"    return #list > 0 and rest == '' or sub(rest, 1, #tx) == tx\n" \
"  end\n" \
"  kit = {listed = listed, admits = admits, holds = holds, request = request, take = take, alone = alone,\n" \
"    tell = tell}\n" \
"  return kit\n" \
"end\n"

#define LUA_STEP_READ \
 /* read: v[x] is the value of field x; absent is false or nil */ \
"local v, all\n" \
"if whole then\n" \
"  all = call('HGETALL', key)\n" \
"  local map = {}\n" \
"  for x = 1, #all, 2 do map[all[x]] = all[x + 1] end\n" \
"  v = {}\n" \
"  for x = 1, nn do v[x] = map[argv[o + 1 + x]] or false end\n" \
"elseif nn > 0 then\n" \
"  v = call('HMGET', key, unpack(argv, o + 2, o + 1 + nn))\n" \
"end\n"

#define LUA_STEP_COMPARE \
 /* compare */ \
"local failed, at, want = -1, 15, ''\n" \
"for x = 1, nc do\n" \
"  local kind, hi, lo = code[at], code[at + 1], code[at + 2]\n" \
"  local val, ok = v[" LUA_PLACE("x") "], true\n" \
"  at = at + 3\n" \
"  if kind >= 128 then\n" \
"    kind = kind - 128\n" \
"  else\n" \
"    bytes = bytes + 1\n" \
"    want = argv[bytes]\n" \
"  end\n" \
"  if kind == 0 then\n"			/* ABSENT */ \
"    ok = not val\n" \
"  elseif kind == 1 then\n"		/* EQUAL */ \
"    local o = hi * 256 + lo\n" \
"    ok = val and sub(val, o + 1, o + #want) == want\n" \
"  elseif kind == 2 then\n"		/* AT_MOST */ \
"    local o = hi * 256 + lo\n" \
"    ok = not val or not lists().less(want, sub(val, o + 1, o + #want))\n" \
"  elseif kind == 3 then\n"		/* IN */ \
"    local o = hi * 256 + lo + 1\n" \
"    ok = val and #val >= o and string.find(want, sub(val, o, o), 1, true)\n" \
"  elseif kind == 4 then\n"		/* ONLY */ \
"    ok = not val or val == want\n" \
"  elseif kind == 6 then\n"		/* OPEN */ \
"    local o = hi * 256 + lo + 1\n" \
"    ok = not val or #val >= o and string.find(want, sub(val, o, o), 1, true)\n" \
"  elseif kind == 7 then\n"		/* LISTED */ \
"    ok = val and (sole(val, want) or lists().intent(val, want) or\n" \
"      (byte(val, 17) == 76 or byte(val, 17) == 87) and locks().listed(val, want))\n" \
"  elseif kind == 8 then\n"		/* WHOLE */ \
"    ok = val == want\n" \
"  elseif kind == 9 then\n"		/* ADMITS */ \
"    ok = not val or #want == 17 and sole(val, sub(want, 1, 16)) or locks().admits(val, want)\n" \
"  elseif kind == 10 then\n"		/* HOLDS */ \
"    ok = val and (#want == 17 and byte(val, 17) == 76 and sole(val, sub(want, 1, 16)) and byte(val, 18) >= byte(want, 17) or locks().holds(val, want))\n" \
"  elseif kind == 11 then\n"		/* COUNT */ \
"    ok = (all and #all / 2 or call('HLEN', key)) == hi * 256 + lo\n" \
"  else\n"						/* RANGE */ \
"    local less = lists().less\n" \
"    local low, upper, most = argv[o + 1 + " LUA_PLACE("x") "], argv[extra + 1], argv[extra + 2]\n" \
"    extra = extra + 2\n" \
"    local left = lo - 2\n"		/* own locks */ \
"    for y = 1, #all, 2 do\n" \
"      local field, stored = all[y], all[y + 1]\n" \
"      local prefix = byte(field, 1)\n" \
"      if prefix == 105 or prefix == 114 then\n"	/* 'i', 'r' */ \
"        local k = sub(field, 2)\n" \
"        if not less(k, low) and (hi == 0 or less(k, upper)) then\n" \
"          if prefix == 105 then\n" \
"            local claim = lo == 1 and byte(stored, 17)\n" \
"            if lo > 1 then\n" \
"              ok = byte(stored, 17) == 76 and sole(stored, want)\n" \
"              left = left - 1\n" \
"            elseif claim == 76 or claim == 87 then\n"	/* 'L', 'W' */ \
"              ok = locks().alone(stored, want)\n" \
"            else\n" \
"              ok = sub(stored, 1, #want) == want\n" \
"            end\n" \
"          else\n" \
"            ok = not less(most, sub(stored, 1, #most))\n"	/* '' <= '' */ \
"          end\n" \
"          if not ok then break end\n" \
"        end\n" \
"      end\n" \
"    end\n" \
"    if lo > 1 and left ~= 0 then ok = false end\n" \
"  end\n" \
"  if not ok then\n" \
"    failed = x - 1\n" \
"    break\n" \
"  end\n" \
"end\n"

/* Bytes of a row that who waits for it is told; less than 64 kB. */
#define LUA_TOLD_MOST	"4096"

/*
 * Tell the owner woken[x] on node `key`, when all is written: which of its waits is over (4 bytes), and its row as it is
 * now, the intents field behind its length (4 bytes), if that is short; else, and if a split moves the row, '1', for
 * it to look.  Refused, say, in a slot that is on its way: who waits looks.
 */
#define LUA_STEP_TELL \
"    local who, field = sub(woken[x], 1, 16), sub(woken[x], 22)\n" \
"    local list = string.gsub(who, '.', function(c) return string.format('%02x', byte(c)) end)\n" \
"    local said, now = '1', #woken[x] > 20 and redis.pcall('HMGET', key, 'i' .. field, 'r' .. field) or {}\n" \
"    local size = now[1] and #now[1] or 0\n" \
"    if size > 0 and size + (now[2] and #now[2] or 0) <= " LUA_TOLD_MOST " then\n" \
"      said = sub(woken[x], 17, 20) .. string.char(0, 0, (size - size % 256) / 256, size % 256) .. now[1] .. (now[2] or '')\n" \
"    end\n" \
"    list = key .. ':w:' .. list\n" \
"    redis.pcall('RPUSH', list, said)\n" \
"    redis.pcall('PEXPIRE', list, 60000)\n"

/* A command on list[from .. to], at most 7000 at once.  `wrote`: of this step, something is. */
#define LUA_STEP_EACH(command, list, from, to) \
"  for x = " from ", " to ", 7000 do\n" \
"    local last = " to "\n" \
"    call('" command "', key, unpack(" list ", x, x + 6999 < last and x + 6999 or last))\n" \
"    wrote = true\n" \
"  end\n"

#define LUA_STEP_WRITE \
 /* the reply's values: false, not nil, or the array would end there */ \
"local reply = nr > 3 and {failed, 0, false, false, false, false} or {failed, 0}\n" \
"for x = 1, nr do reply[2 + x] = v[" LUA_PLACE("nc + x") "] or false end\n" \
 /* write: deletes first, so that the hash never outgrows its final size */ \
"if failed < 0 then\n" \
"  local moresets, moredels\n" \
"  for x = 1, nw do\n" \
"    local kind, from = code[at], " LUA_PLACE("nc + nr + x") "\n" \
"    local field, old, val, new, gone = argv[o + 1 + from], v[from], argv[values + x]\n" \
"    at = at + 1\n" \
"    if kind == 2 then\n"		/* MAX */ \
"      if not old or lists().less(old, val) then new = val end\n" \
"    elseif kind == 3 then\n"	/* APPEND */ \
"      if not old then\n" \
"        new = val\n" \
"      elseif not lists().find(old, val) then\n" \
"        new = old .. val\n" \
"      end\n" \
"    elseif kind == 5 then\n"	/* CONCAT */ \
"      new = (old or '') .. val\n" \
"    elseif kind == 6 then\n"	/* UNLIST */ \
"      local y, z = nil, nil\n" \
"      if old and sole(old, val) then\n" \
"        new = ''\n" \
"      elseif old and (#val > 16 or byte(old, 17) == 76 or byte(old, 17) == 87) then\n" \
"        local tools = locks()\n" \
"        local before = #woken\n" \
"        new = tools.take(old, val)\n" \
"        tools.tell(before, field)\n" \
"      elseif old then\n" \
"        new, y, z = old, lists().intent(old, val)\n" \
"        while y do\n" \
"          new = sub(new, 1, y - 1) .. sub(new, z)\n" \
"          y, z = lists().intent(new, val)\n" \
"        end\n" \
"      end\n" \
"      if new == old then\n" \
"        new = nil\n" \
"      elseif new == '' then\n" \
"        gone = true\n" \
"      end\n" \
"    elseif kind == 8 then\n"	/* CLAIM */ \
"      if not old and #val == 22 and byte(val, 17) ~= 83 then\n"	/* 'S' */ \
"        local strength = sub(val, 18, 18)\n" \
"        new = sub(val, 1, 16) .. 'L' .. strength .. '\\0\\0\\0' .. strength\n" \
"      else\n" \
"        local tools = locks()\n" \
"        local before = #woken\n" \
"        new = tools.request(old or '', val)\n" \
"        tools.tell(before, field)\n" \
"      end\n" \
"      if new == (old or '') then\n" \
"        new = nil\n" \
"      elseif new == '' then\n" \
"        gone = true\n" \
"      end\n" \
"    elseif kind == 12 then\n"	/* MOVED */ \
"      locks()\n" \
"      for y = 1, old and #val or 0, 16 do woken[#woken + 1] = sub(val, y, y + 15) end\n" \
"      gone = old\n" \
"    elseif kind == 7 then\n"	/* ADD */ \
"      if old and #old >= 7 then new = lists().add(old, val) end\n" \
"    elseif old then\n"		/* REMOVE */ \
"      local y = lists().find(old, val)\n" \
"      if y and #old == 16 then\n" \
"        gone = true\n" \
"      elseif y then\n" \
"        new = sub(old, 1, y - 1) .. sub(old, y + 16)\n" \
"      end\n" \
"    end\n" \
"    if gone then\n" \
"      moredels = moredels or {}\n" \
"      moredels[#moredels + 1] = field\n" \
"    elseif new and moresets then\n" \
"      moresets[#moresets + 1] = field\n" \
"      moresets[#moresets + 1] = new\n" \
"    elseif new then\n" \
"      moresets = {field, new}\n" \
"    end\n" \
"  end\n" \
 /* who may not set is told before anything is deleted */ \
"  if (nd > 0 or moredels) and (ns > 0 or moresets) and not may_set then\n" \
"    may_set = not redis.acl_check_cmd or redis.acl_check_cmd('HSET', key, '', '')\n" \
"    if not may_set then call('HSET', key, '', '') end\n" \
"  end\n" \
"  if moredels then " LUA_STEP_EACH("HDEL", "moredels", "1", "#moredels") "  end\n" \
LUA_STEP_EACH("HDEL", "argv", "dels + 1", "dels + nd") \
LUA_STEP_EACH("HSET", "argv", "sets + 1", "sets + 2 * ns") \
"  if moresets then " LUA_STEP_EACH("HSET", "moresets", "1", "#moresets") "  end\n" \
"  for x = 1, woken and #woken or 0 do\n" LUA_STEP_TELL "  end\n" \
"end\n" \
 /* touch: what was seen gets into the replication stream */ \
"if flags >= 4 and (failed >= 0 or ns == 0) then\n" \
"  local m = call('HGET', key, 'm')\n" \
"  if m then call('HSET', key, 'm', m) end\n" \
"end\n" \
"if flags % 4 < 2 then reply[2] = call('HLEN', key) end\n"

/* Bytes that the steps of a message read; what is left is not done. */
#define LUA_MESSAGE_MOST_READ	"1048576"

static const char step_lua[] =
"local argv, byte, sub, call = ARGV, string.byte, string.sub, redis.call\n"
"local key, wrote, size, may_set\n"
LUA_STEP_TOOLS
"local function step(o)\n"
"local plan = argv[o + 1]\n"
LUA_STEP_PLAN LUA_STEP_READ
"local seen = all or v or {}\n"
"for x = 1, size and #seen or 0 do size = size + (seen[x] and #seen[x] or 0) end\n"
LUA_STEP_COMPARE LUA_STEP_WRITE
"return reply\n"
"end\n"
"key = KEYS[1]\n"
"if key then return step(0) end\n"
"local replies, o = {}, 0\n"
"size = 0\n"
"while o < #argv do\n"
"  local ok, reply = false, nil\n"
"  key, wrote, woken = argv[o + 1], false, woken and {}\n"
"  if size < " LUA_MESSAGE_MOST_READ " then ok, reply = pcall(step, o + 2) end\n"
"  if not ok then reply = wrote and {err = tostring(reply)} end\n"
"  replies[#replies + 1] = reply\n"
"  o = o + 2 + argv[o + 2]\n"
"end\n"
"return replies\n";

#endif							/* MOSQL_STEP_LUA_H */
