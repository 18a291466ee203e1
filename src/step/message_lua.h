/*
 * message_lua.h: several steps for keys of one server as one server-side script.
 *
 *     KEYS[1]    the first step's node
 *     ARGV       per step: its node's key, the number of its arguments, and these as step_lua.h
 *                has them
 *
 * Replies, per step: what the script of one step replies; nil: nothing was done, it is to be sent
 * alone; or an error behind a write, where the script of one step would have ended as well.
 *
 * Each step is one for itself: it runs under pcall, and what ends it ends none of the others.  What can
 * end it comes before its first write (step_lua.h): a key that is not served here, because its
 * slot is elsewhere, or on the move and the key not there; one of a foreign type; bytes that do not decode; no
 * memory; no rights.  Sent alone it is redirected, or reported, as ever.
 *
 * Other nodes than the first are no KEYS, which a cluster wants in one slot: see one_step_lua.h.
 *
 * Race -- slots come one by one to the server that the first node's slot is on its way to.  ASKING
 * would hold for all of a script's commands there, so that nodes of another slot which have not
 * arrived look absent, as if they had never been.  A message is never sent on so: its steps are, alone.
 */
#ifndef MOSQL_MESSAGE_LUA_H
#define MOSQL_MESSAGE_LUA_H

#include "step/step_lua.h"

static const char message_lua[] =
"local argv, byte, sub, call = ARGV, string.byte, string.sub, redis.call\n"
"local key, wrote\n"
LUA_STEP_TOOLS LUA_STEP_ADD LUA_STEP_EACH("    wrote = true\n")
"local function step(o)\n"
"local plan = argv[o + 1]\n"
LUA_STEP_PLAN LUA_STEP_READ LUA_STEP_COMPARE LUA_STEP_WRITE
"return reply\n"
"end\n"
"local replies, o = {}, 0\n"
"while o < #argv do\n"
"  key, wrote, woken = argv[o + 1], false, woken and {}\n"
"  local ok, reply = pcall(step, o + 2)\n"
"  if not ok then\n"
"    reply = wrote and (type(reply) == 'table' and reply or {err = tostring(reply)})\n"
"  end\n"
"  replies[#replies + 1] = reply\n"
"  o = o + 2 + argv[o + 2]\n"
"end\n"
"return replies\n";

#endif							/* MOSQL_MESSAGE_LUA_H */
