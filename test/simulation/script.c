/*
 * script.c: the scripts of a Redis server, run by the same Lua (5.1).
 *
 * One interpreter serves all servers; which scripts a server knows is its own list.
 */
#include "sim.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "step/step_int.h"

static lua_State *lua;
static SimClient *caller;		/* whose script runs */

/* ---- answers of commands, as Lua values ---- */

#define DEPTH_MAX	4

typedef struct LuaAnswer
{
	SimAnswer	answer;
	int			depth;
	struct
	{
		int			left;
		int			at;
	}			arrays[DEPTH_MAX];
	bool		failed;
} LuaAnswer;

/* A value is on the stack: it is the answer, or the next element of an array. */
static void
pushed(LuaAnswer *to)
{
	while (to->depth > 0)
	{
		lua_rawseti(lua, -2, ++to->arrays[to->depth - 1].at);
		if (--to->arrays[to->depth - 1].left > 0)
			return;
		to->depth--;			/* this array is complete, and a value itself */
	}
}

static void
lua_answer_integer(SimAnswer *to, int64 value)
{
	lua_pushnumber(lua, (double) value);
	pushed((LuaAnswer *) to);
}

static void
lua_answer_bulk(SimAnswer *to, MosqlBytes value)
{
	if (value.data != NULL)
		lua_pushlstring(lua, value.data, value.len);
	else
		lua_pushboolean(lua, false);
	pushed((LuaAnswer *) to);
}

static void
lua_answer_array(SimAnswer *answer, int n)
{
	LuaAnswer  *to = (LuaAnswer *) answer;

	if (n < 0)
	{
		lua_answer_bulk(answer, MOSQL_ABSENT);
		return;
	}
	lua_createtable(lua, n, 0);
	if (n == 0)
		pushed(to);
	else
	{
		to->arrays[to->depth].left = n;
		to->arrays[to->depth++].at = 0;
	}
}

static void
lua_answer_status(SimAnswer *to, const char *text)
{
	lua_newtable(lua);
	lua_pushstring(lua, text);
	lua_setfield(lua, -2, "ok");
	pushed((LuaAnswer *) to);
}

static void
lua_answer_error(SimAnswer *answer, const char *text)
{
	LuaAnswer  *to = (LuaAnswer *) answer;

	lua_newtable(lua);
	lua_pushstring(lua, text);
	lua_setfield(lua, -2, "err");
	to->failed = true;
	pushed(to);
}

static int
run_command(bool protected)
{
	LuaAnswer	to = {{lua_answer_integer, lua_answer_bulk, lua_answer_array, lua_answer_status,
	lua_answer_error}};
	static MosqlBytes argv[8000];
	int			argc = lua_gettop(lua);

	for (int i = 0; i < argc; i++)
	{
		size_t		len;
		const char *data = lua_tolstring(lua, i + 1, &len);

		if (data == NULL)
			return luaL_error(lua, "Lua redis() command arguments must be strings or integers");
		argv[i] = mosql_bytes(data, len);
	}
	luaL_checkstack(lua, 20, "too deep");
	sim_execute(caller, argc, argv, &to.answer);
	if (to.failed && !protected)
	{
		lua_getfield(lua, -1, "err");
		return lua_error(lua);
	}
	return 1;
}

static int
redis_call(lua_State *state)
{
	return run_command(false);
}

static int
redis_pcall(lua_State *state)
{
	return run_command(true);
}

void
sim_script_init(void)
{
	lua = luaL_newstate();
	luaL_openlibs(lua);
	lua_newtable(lua);
	lua_pushcfunction(lua, redis_call);
	lua_setfield(lua, -2, "call");
	lua_pushcfunction(lua, redis_pcall);
	lua_setfield(lua, -2, "pcall");
	lua_setglobal(lua, "redis");
}

/* ---- the script's answer ---- */

static void
answer_with(SimAnswer *to)
{
	size_t		len;
	const char *text;
	int			n = 0;

	switch (lua_type(lua, -1))
	{
		case LUA_TNUMBER:
			to->integer(to, (int64) lua_tonumber(lua, -1));
			break;
		case LUA_TSTRING:
			text = lua_tolstring(lua, -1, &len);
			to->bulk(to, mosql_bytes(text, len));
			break;
		case LUA_TBOOLEAN:
			if (lua_toboolean(lua, -1))
				to->integer(to, 1);
			else
				to->bulk(to, MOSQL_ABSENT);
			break;
		case LUA_TTABLE:
			lua_getfield(lua, -1, "err");
			if (lua_isstring(lua, -1))
				to->error(to, lua_tostring(lua, -1));
			lua_pop(lua, 1);
			lua_getfield(lua, -1, "err");
			if (lua_isstring(lua, -1))
			{
				lua_pop(lua, 1);
				break;
			}
			lua_pop(lua, 1);
			for (;; n++)
			{
				lua_rawgeti(lua, -1, n + 1);
				if (lua_isnil(lua, -1))
					break;
				lua_pop(lua, 1);
			}
			lua_pop(lua, 1);
			to->array(to, n);
			for (int i = 1; i <= n; i++)
			{
				lua_rawgeti(lua, -1, i);
				answer_with(to);
				lua_pop(lua, 1);
			}
			break;
		default:
			to->bulk(to, MOSQL_ABSENT);
	}
}

/* ---- EVAL, EVALSHA ---- */

static bool
knows(const SimServer *server, const char *sha)
{
	for (int i = 0; i < server->nscripts; i++)
		if (memcmp(server->scripts[i], sha, 40) == 0)
			return true;
	return false;
}

static void
learn(SimServer *server, const char *sha)
{
	if (knows(server, sha))
		return;
	server->scripts = realloc(server->scripts, (server->nscripts + 1) * sizeof(server->scripts[0]));
	memcpy(server->scripts[server->nscripts], sha, 40);
	server->scripts[server->nscripts++][40] = '\0';
}

/* The function on the stack. */
static void
find_function(const char *sha, MosqlBytes source)
{
	lua_getfield(lua, LUA_REGISTRYINDEX, sha);
	if (!lua_isnil(lua, -1))
		return;
	lua_pop(lua, 1);
	if (luaL_loadbuffer(lua, source.data, source.len, "@user_script") != 0)
		sim_fail("a script does not compile: %s", lua_tostring(lua, -1));
	lua_pushvalue(lua, -1);
	lua_setfield(lua, LUA_REGISTRYINDEX, sha);
}

static void
set_list(const char *name, int n, const MosqlBytes *values)
{
	lua_createtable(lua, n, 0);
	for (int i = 0; i < n; i++)
	{
		lua_pushlstring(lua, values[i].len > 0 ? values[i].data : "", values[i].len);
		lua_rawseti(lua, -2, i + 1);
	}
	lua_setglobal(lua, name);
}

/* The name of a source.  There are few, and each comes again and again. */
static const char *
name_of(MosqlBytes source)
{
	static struct
	{
		char	   *data;
		size_t		len;
		char		sha[41];
	}			known[64];
	int			i = 0;

	while (i < lengthof(known) - 1 && known[i].data != NULL &&
		   (known[i].len != source.len || memcmp(known[i].data, source.data, source.len) != 0))
		i++;
	if (known[i].data == NULL || known[i].len != source.len || memcmp(known[i].data, source.data, source.len) != 0)
	{
		free(known[i].data);
		known[i].data = memcpy(malloc(source.len + 1), source.data, source.len);
		known[i].len = source.len;
		mosql_sha1_hex(source.data, source.len, known[i].sha);
	}
	return known[i].sha;
}

void
sim_script(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to)
{
	int			nkeys = atoi(argv[2].data);
	char		sha[41];

	if (argv[0].len == 4)
	{
		strlcpy(sha, name_of(argv[1]), sizeof(sha));
		learn(client->server, sha);
	}
	else
	{
		memcpy(sha, argv[1].data, 40);
		sha[40] = '\0';
		if (!knows(client->server, sha))
		{
			to->error(to, "NOSCRIPT No matching script. Please use EVAL.");
			return;
		}
	}
	find_function(sha, argv[1]);
	set_list("KEYS", nkeys, argv + 3);
	set_list("ARGV", argc - 3 - nkeys, argv + 3 + nkeys);
	caller = client;
	client->in_script = true;
	client->script_wrote = false;
	if (lua_pcall(lua, 0, 1, 0) != 0)
		to->error(to, lua_tostring(lua, -1));
	else
		answer_with(to);
	client->in_script = false;
	lua_settop(lua, 0);
}
