#!/usr/bin/python3
"""Somebody else writes under our keys, or deletes them.

Whatever is damaged and however: a statement that needs it fails with XX001 that
names the key (or 42P01 where a whole table is gone), one that does not need it
works, mosql_fdw_check() finds it; nothing crashes and nothing hangs.  When the
bytes are as they were, so is everything else.
    t/damage.py [SEED [ROUNDS]]
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

DB = "damage"
DDL = """
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int, s text, v numeric, a int[], ts timestamptz) SERVER redis;
CREATE FOREIGN TABLE other (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
"""
ROWS = 400
# What a statement on damaged data may end with.  40001: damage that looks like
# the doings of another transaction that never ends; 22003: a number that is as
# good as any, but too large to be added to; 72000: a row from the future.
DAMAGE = "XX001|42P01"
LOOKS_SOUND = "XX001|42P01|40001|23505|42P16|72000|0A000|22003"
LIMIT = 8.0


def statements(rng):
    i = rng.randint(1, ROWS)
    return [
        ("scan", "SELECT count(*), sum(n), max(s), max(v), max(a), max(ts) FROM t"),
        ("backwards", "SELECT * FROM t ORDER BY id DESC LIMIT 50"),
        ("get", f"SELECT * FROM t WHERE id = {i}"),
        ("increment", f"UPDATE t SET n = n + 1 WHERE id = {i}"),
        ("update", "UPDATE t SET s = s"),
        ("insert", f"INSERT INTO t SELECT g, 0 FROM generate_series({ROWS + 1}, {ROWS + 5}) g"),
        ("delete", f"DELETE FROM t WHERE id > {ROWS}"),
        ("other", "UPDATE other SET n = n + 1"),
        ("dump", "SELECT count(*) FROM mosql_fdw_dump('t')"),
    ]


class Data:
    """Redis keys of the namespace, with copies of their contents."""

    def __init__(self, redis, conn):
        self.r = redis
        self.conn = conn
        self.save()

    def save(self):
        self.keys = sorted(self.r("KEYS", "*"))
        self.copies = {k: self.r("DUMP", k) for k in self.keys}
        dump = query(self.conn, "SELECT level, node FROM mosql_fdw_dump('t')")
        self.nodes = {n.encode(): level for level, n in dump}

    def restore(self):
        self.r("FLUSHALL")
        for k, copy in self.copies.items():
            self.r("RESTORE", k, 0, copy)


def mutate(rng, old):
    """Other bytes."""
    kind = rng.randrange(6)
    b = bytearray(old)
    if kind == 0 and b:                         # a flipped bit
        b[rng.randrange(len(b))] ^= 1 << rng.randrange(8)
    elif kind == 1 and b:                       # cut off
        del b[rng.randrange(len(b)):]
    elif kind == 2:                             # something behind
        b += rng.randbytes(rng.randint(1, 20))
    elif kind == 3 and b:                       # something in between
        at = rng.randrange(len(b))
        b[at:at] = rng.randbytes(rng.randint(1, 5))
    elif kind == 4 and b:                       # a few other bytes
        for _ in range(rng.randint(1, 4)):
            b[rng.randrange(len(b))] = rng.choice((0, 0x7f, 0x80, 0xff, rng.randrange(256)))
    else:
        b = bytearray(rng.randbytes(rng.choice((0, 1, 7, 16, 100, 5000))))
    return bytes(b)


def run_all(server, rng, conns, allowed, name):
    """All statements in an old session and in a new one; [(what, state, text)]."""
    seen, bad = [], []
    fresh = server.connect(DB)
    for conn in (fresh, conns[0]):
        for what, sql in statements(rng):
            started = time.monotonic()
            state, text = error_of(conn, sql)
            took = time.monotonic() - started
            seen.append((what, state, text))
            if state == "gone":
                bad.append(f"{what}: the backend died")
                conns[0] = server.connect(DB) if conn is conns[0] else conns[0]
                server.wait_up()
                break
            if state is not None and not re.fullmatch(allowed, state):
                bad.append(f"{what}: {state}: {text}")
            if state == "XX001" and "damage" not in text and "{" not in text:
                bad.append(f"{what}: names no key: {text}")
            if took > LIMIT:
                bad.append(f"{what}: takes {took:.1f} s ({state})")
    fresh.close()
    return seen, bad


def checked(server):
    """What mosql_fdw_check() says of both tables, or its error."""
    with contextlib.closing(server.connect(DB)) as c:
        out = []
        for t in ("t", "other"):
            state, rows = error_of(c, f"SELECT * FROM mosql_fdw_check('{t}')")
            out += [(t, state, rows)] if state else [(t,) + r for r in rows]
        return out


def known(server, data, conns):
    """Each kind of damage once."""
    r = data.r
    clock = b"damage:{damage.clock}:c"
    leaves = [k for k, level in data.nodes.items() if level == 0]
    root = next(k for k, level in data.nodes.items() if level > 0)
    definitions = b"damage:{0000000000000001}"
    leaf = leaves[len(leaves) // 2]
    fields = r("HGETALL", leaf)
    fields = dict(zip(fields[::2], fields[1::2]))
    row = next(f for f in sorted(fields) if f.startswith(b"r"))
    intent = b"i" + row[1:]
    cases = [
        ("a leaf is gone", lambda: r("DEL", leaf)),
        ("a leaf is a string", lambda: r("SET", leaf, "x")),
        ("a leaf is a list", lambda: (r("DEL", leaf), r("RPUSH", leaf, "x"))),
        ("a leaf without meta", lambda: r("HDEL", leaf, "m")),
        ("a leaf's meta is garbage", lambda: r("HSET", leaf, "m", "garbage")),
        ("a leaf's meta is empty", lambda: r("HSET", leaf, "m", "")),
        ("another leaf's bytes", lambda: r("RESTORE", leaf, 0, data.copies[leaves[0]], "REPLACE")),
        ("the root's bytes in a leaf", lambda: r("RESTORE", leaf, 0, data.copies[root], "REPLACE")),
        ("a row is garbage", lambda: r("HSET", leaf, row, "garbage")),
        ("a row is empty", lambda: r("HSET", leaf, row, "")),
        ("a row under a wrong key", lambda: r("HSET", leaf, b"r\xff\xff", fields[row])),
        ("a row under an empty key", lambda: r("HSET", leaf, b"r", fields[row])),
        ("an intent is garbage", lambda: r("HSET", leaf, intent, "garbage")),
        ("an unknown field", lambda: r("HSET", leaf, "z", "1")),
        ("an empty field name", lambda: r("HSET", leaf, "", "1")),
        ("read marks are garbage", lambda: r("HSET", leaf, "l", "garbage")),
        ("a purge mark is garbage", lambda: r("HSET", leaf, "p", "x")),
        ("the root is gone", lambda: r("DEL", root)),
        ("the root is a string", lambda: r("SET", root, "x")),
        ("the root without children", lambda: r("HDEL", root, "s")),
        ("the root's children are garbage", lambda: r("HSET", root, "s", "garbage")),
        ("the root's meta is garbage", lambda: r("HSET", root, "m", "garbage")),
        ("a leaf's bytes in the root", lambda: r("RESTORE", root, 0, data.copies[leaf], "REPLACE")),
        ("the definitions are gone", lambda: r("DEL", definitions)),
        ("the definitions' root is garbage", lambda: r("HSET", definitions, "s", "garbage")),
        ("the clock is a string", lambda: r("SET", clock, "x")),
        ("the clock's format is unknown", lambda: r("HSET", clock, "format", "99")),
        ("everything is gone", lambda: r("FLUSHALL")),
    ]
    harmless = ("an unknown field", "an empty field name", "a purge mark is garbage")
    rng = random.Random(1)
    for name, damage in cases:
        damage()
        # 23505: the delete before could not find the rows that are inserted again
        seen, bad = run_all(server, rng, conns, LOOKS_SOUND if "clock" in name else DAMAGE + "|23505", name)
        states = sorted({s for _, s, _ in seen if s})
        found = checked(server)
        data.restore()
        tap.ok(not bad, f"{name}: {' '.join(states) or 'no error'}", "\n".join(bad))
        if "clock" not in name:
            noticed = any(t == "t" for t, *_ in found)
            tap.ok(noticed or name in harmless, f"{name}: mosql_fdw_check() says so", found)
            tap.ok(states or name in harmless, f"{name}: somebody is told")
        if not re.search("definition|clock|everything", name):
            wrong = [s for s in seen if s[0] == "other" and s[1]]
            tap.ok(not wrong, f"{name}: another table is used as before", wrong)
        good, bad = run_all(server, rng, conns, "", name)
        tap.ok(not bad, f"{name}: mended, all is well", "\n".join(bad))
        data.restore()


def fuzz(server, data, conns, seed, rounds):
    rng = random.Random(seed)
    bad_rounds = silent = 0
    for i in range(rounds):
        key = rng.choice([k for k in data.keys if b"clock" not in k or rng.random() < 0.1])
        kind = data.r("TYPE", key)
        what = f"round {i}, {key!r}"
        if kind != b"hash" or rng.random() < 0.05:
            data.r("DEL", key)
            if rng.random() < 0.5:
                data.r("SET", key, mutate(rng, b"some"))
        else:
            fields = data.r("HGETALL", key)
            fields = sorted(zip(fields[::2], fields[1::2]))
            special = [f for f in fields if f[0] in (b"m", b"s", b"l", b"p")]
            name, old = rng.choice(special if special and rng.random() < 0.5 else fields)
            new = mutate(rng, old)
            if rng.random() < 0.2:
                data.r("HDEL", key, name)
                name = mutate(rng, name)
            data.r("HSET", key, name, new)
            what += f", field {name!r}, {old!r} -> {new!r}"
        seen, bad = run_all(server, rng, conns, LOOKS_SOUND, what)
        if not any(s for _, s, _ in seen):
            silent += 1
        data.restore()
        if bad:
            bad_rounds += 1
            if bad_rounds <= 5:
                tap.note(what + "\n" + "\n".join(bad))
    tap.ok(bad_rounds == 0, f"{rounds} random damages: errors as they should be",
           f"{bad_rounds} rounds with others; seed {seed}")
    tap.note(f"{silent} of {rounds} went unnoticed: values that are as valid as the old ones")
    good, bad = run_all(server, rng, conns, "", "after")
    tap.ok(not bad, "mended, all is well", "\n".join(bad))


def body():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else int(time.time())
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    tap.note(f"seed {seed}")
    plain = Cluster("damage", plain=True)
    server = Server("damage")
    for engine in ENGINES:
        with section(engine):
            plain.ask(plain.ports[0], "FLUSHALL")
            make_database(server, DB, plain.nodes,
                          {"atomic": engine, "command_timeout": "1500", "namespace": DB}, DDL)
            with contextlib.closing(server.connect()) as c:
                query(c, f"ALTER DATABASE {DB} SET mosql_fdw.commit_timeout = 1000")
            conn = server.connect(DB)
            query(conn, f"INSERT INTO t SELECT g, g, repeat(chr(65 + g % 26), g % 50), g / 7.0, "
                  f"array[g, NULL, -g], timestamptz '2024-01-01' + g * interval '1 day' "
                  f"FROM generate_series(1, {ROWS}) g; INSERT INTO other SELECT g, 0 FROM generate_series(1, 5) g")
            time.sleep(0.2)
            data = Data(Redis(plain.ports[0]), conn)
            conns = [conn]
            known(server, data, conns)
            fuzz(server, data, conns, seed, rounds)
    tap.equal(server.crashes(), [], "no backend died")


main(body)
