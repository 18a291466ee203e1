#!/usr/bin/python3
"""Somebody else writes under our keys, or deletes them.

Whatever is damaged and however: a statement that needs it fails with XX001 that
names the key (or 42P01 where a whole table is gone), one that does not need it
works, mosql_fdw_check() finds it; nothing crashes and nothing hangs.  When the
bytes are as they were, so is everything else.

Three sorts: each kind of damage once; bytes that decode and lead in circles, to
nowhere or beyond all bounds; random changes, by a seed that is printed.
    t/damage.py [SEED [ROUNDS]]
"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

DB = "damage"
DDL = """
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int, s text, v numeric, a int[], ts timestamptz) SERVER redis;
CREATE FOREIGN TABLE k (a text OPTIONS (key 'true') COLLATE "C" NOT NULL, b numeric OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
CREATE FOREIGN TABLE other (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
"""
ROWS = 400
# What a statement on damaged data may end with.  40001: damage that looks like
# the doings of another transaction that never ends; 22003: a number that is as
# good as any, but too large to be added to; 72000: a row from the future; 55006:
# a node that somebody seems to be working on; 08P01: Redis answers nonsense; 08007: the
# decision was made, and its answer is damaged.
DAMAGE = "XX001|42P01"
LOOKS_SOUND = "XX001|42P01|40001|23505|42P16|72000|0A000|22003|55006|08P01|08007"
# IMPORT makes SQL of what it finds: names and types that there are not.
IMPORT = "|42601|42602|42704|42701|42P07|42P16|3F000|42622|42611|42804"
LIMIT = 60.0                    # seconds that a statement may take, mostly 3 at most: a loop has no end


def statements(rng):
    i = rng.randint(1, ROWS)
    return [
        ("scan", "SELECT count(*), sum(n), max(s), max(v), max(a), max(ts) FROM t"),
        ("backwards", "SELECT * FROM t ORDER BY id DESC LIMIT 50"),
        ("range", f"SELECT * FROM t WHERE id BETWEEN {i} AND {i + 90}"),
        ("get", f"SELECT * FROM t WHERE id = {i}"),
        ("increment", f"UPDATE t SET n = n + 1 WHERE id = {i}"),
        ("update", "UPDATE t SET s = s"),
        ("insert", f"INSERT INTO t SELECT g, 0 FROM generate_series({ROWS + 1}, {ROWS + 5}) g"),
        ("delete", f"DELETE FROM t WHERE id > {ROWS}"),
        ("block", f"BEGIN; UPDATE t SET n = 1 WHERE id = {i}; UPDATE k SET v = v; COMMIT"),
        ("texts", "SELECT * FROM k ORDER BY a"),
        ("other", "UPDATE other SET n = n + 1"),
        ("dump", "SELECT count(*) FROM mosql_fdw_dump('t')"),
        ("check", "SELECT count(*) FROM mosql_fdw_check('t')"),
        ("analyze", "ANALYZE t"),
        ("import", "BEGIN; CREATE SCHEMA imported; IMPORT FOREIGN SCHEMA public FROM SERVER redis INTO imported; ROLLBACK"),
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


def run_all(server, rng, conns, allowed, name, fresh=True):
    """All statements in a new session, some of them in an old one (only there,
    unless fresh); [(what, state, text)] of all, and what is wrong."""
    seen, bad = [], []
    new = server.connect(DB) if fresh else None
    for conn in (new, conns[0]):
        if conn is None:
            continue
        todo = statements(rng)
        if conn is conns[0]:
            todo = [t for t in todo if t[0] == "get" or rng.random() < 0.4]
        for what, sql in todo:
            started = time.monotonic()
            state, text = error_of(conn, sql)
            took = time.monotonic() - started
            seen.append((what, state, text))
            if state == "gone":
                bad.append(f"{what}: the backend died")
                conns[0] = server.connect(DB) if conn is conns[0] else conns[0]
                server.wait_up()
                break
            if state is not None and sql.startswith("BEGIN"):
                error_of(conn, "ROLLBACK")
            if state is not None and not re.fullmatch(allowed + (IMPORT if allowed and what == "import" else ""), state):
                bad.append(f"{what}: {state}: {text}")
            if state == "XX001" and "damage" not in text and "{" not in text:
                bad.append(f"{what}: names no key: {text}")
            if took > LIMIT:
                bad.append(f"{what}: takes {took:.1f} s ({state})")
        state, text = error_of(conn, "SELECT 1")
        if state:
            bad.append(f"the session is of no use afterwards: {state}: {text}")
    if new is not None:
        new.close()
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
        # 40001: perhaps the table was truncated; who tries again is told
        states = LOOKS_SOUND if "clock" in name else DAMAGE + "|23505" + "|40001" * name.endswith("is gone")
        seen, bad = run_all(server, rng, conns, states, name)
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
        good, bad = run_all(server, rng, conns, "", name, fresh=False)
        tap.ok(not bad, f"{name}: mended, all is well", "\n".join(bad))
        data.restore()


# ---- bytes that decode ----

def take_varint(b, at):
    n = shift = 0
    while True:
        n |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128:
            return n, at


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


class Meta:
    """docs/format.md: the meta field."""

    def __init__(self, b):
        self.generation, self.format, self.level, self.state, flags, self.tree = struct.unpack(">QBBcBQ", b[:20])
        at, self.right, self.other, self.high, self.split = 20, 0, 0, None, None
        if flags & 1:
            self.right, at = struct.unpack(">Q", b[at:at + 8])[0], at + 8
        if flags & 2:
            self.other, at = struct.unpack(">Q", b[at:at + 8])[0], at + 8
        self.low, at = self.key(b, at)
        if flags & 4:
            self.high, at = self.key(b, at)
        if flags & 8:
            self.split, at = self.key(b, at)

    @staticmethod
    def key(b, at):
        n, at = take_varint(b, at)
        return b[at:at + n], at + n

    def bytes(self):
        flags = (self.right != 0) | (self.other != 0) << 1 | (self.high is not None) << 2 | (self.split is not None) << 3
        out = struct.pack(">QBBcBQ", self.generation + 1, self.format, self.level, self.state, flags, self.tree)
        for i in (self.right, self.other):
            out += struct.pack(">Q", i) if i else b""
        for k in (self.low, self.high, self.split):
            out += varint(len(k)) + k if k is not None else b""
        return out


def children_of(s):
    n, at = take_varint(s, 0)
    out = []
    for _ in range(n):
        k, at = Meta.key(s, at)
        out.append((k, struct.unpack(">Q", s[at:at + 8])[0]))
        at += 8
    return out


def children_bytes(children):
    return varint(len(children)) + b"".join(varint(len(k)) + k + struct.pack(">Q", i) for k, i in children)


def key_of(node):
    return b"damage:{%016x}" % node


def node_of(key):
    return int(key[8:24], 16)


def misleading(data):
    """Damage that decodes: (name, what to do with a random generator)."""
    r = data.r
    leaves = [k for k, level in data.nodes.items() if level == 0]
    root = next(k for k, level in data.nodes.items() if level > 0)
    clock = b"damage:{damage.clock}:"

    def change(key, **fields):
        m = Meta(r("HGET", key, "m"))
        for name, value in fields.items():
            setattr(m, name, value)
        r("HSET", key, "m", m.bytes())

    def two(rng):
        a, b = sorted(rng.sample(range(len(leaves)), 2))
        return leaves[a], leaves[b]

    def back(rng):
        a, b = two(rng)
        change(b, right=node_of(a), high=b"\xff\xff")

    def dead_circle(rng):
        a, b = two(rng)
        change(a, state=b"X", other=node_of(b))
        change(b, state=b"X", other=node_of(a))

    def splitting(rng):
        a, b = two(rng)
        m = Meta(r("HGET", a, "m"))
        change(a, state=b"S", split=m.low + b"\x01", other=node_of(b))

    def swap(rng, field):
        a, b = two(rng)
        va, vb = r("HGET", a, field), r("HGET", b, field)
        r("HSET", a, field, vb)
        r("HSET", b, field, va)

    def swap_rows(rng):
        a, b = two(rng)
        fa, fb = (rng.choice([f for f in r("HKEYS", k) if f[:1] == b"r" and len(f) > 1]) for k in (a, b))
        va, vb = r("HGET", a, fa), r("HGET", b, fb)
        r("HSET", a, fa, vb)
        r("HSET", b, fb, va)

    def move_row(rng):
        a, b = two(rng)
        f = rng.choice([f for f in r("HKEYS", a) if f[:1] == b"r" and len(f) > 1])
        r("HSET", b, f, r("HGET", a, f))

    def new_children(rng, how):
        r("HSET", root, "s", children_bytes(how(children_of(r("HGET", root, "s")))))
        change(root)

    def any_row(rng):
        k = rng.choice(leaves)
        return k, rng.choice([f for f in r("HKEYS", k) if f[:1] == b"r" and len(f) > 1])

    def row_bytes(rng, make):
        k, f = any_row(rng)
        r("HSET", k, f, make(r("HGET", k, f)))

    def intent(rng, make):
        k, f = any_row(rng)
        r("HSET", k, b"i" + f[1:], make(rng))

    def definition(rng, old, new):
        for k in (k for k in data.keys if b"clock" not in k):
            for f in r("HKEYS", k):
                if f[:2] == b"rT" and b"\0\x01t\0\x01" in f:
                    v = r("HGET", k, f)
                    assert old in v, v
                    r("HSET", k, f, v.replace(old, new, 1))

    txid = struct.pack(">QQ", 999999, 7)
    future = struct.pack(">Q", (1 << 56) - 2)[1:]
    return [
        ("a right sibling further left", back),
        ("a leaf that is its own right sibling", lambda g: (lambda k: change(k, right=node_of(k), high=b"\xff\xff"))(g.choice(leaves))),
        ("a right sibling that is the root", lambda g: change(g.choice(leaves), right=node_of(root), high=b"\xff\xff")),
        ("two dead leaves, each the heir of the other", dead_circle),
        ("a dead leaf whose heir is the root", lambda g: change(g.choice(leaves), state=b"X", other=node_of(root))),
        ("a split into a leaf that is in use", splitting),
        ("a split into nothing", lambda g: (lambda k: change(k, state=b"S", split=Meta(r("HGET", k, "m")).low + b"\x01", other=77 << 24))(g.choice(leaves))),
        ("fences out of order", lambda g: change(leaves[1], low=b"\xf0")),
        ("a gap between fences", lambda g: change(leaves[1], low=Meta(r("HGET", leaves[1], "m")).low + b"\0")),
        ("the level of an inner node in a leaf", lambda g: change(g.choice(leaves), level=1)),
        ("a root of level 8", lambda g: change(root, level=8)),
        ("another tree's leaf", lambda g: change(g.choice(leaves), tree=4711)),
        ("two leaves' metas exchanged", lambda g: swap(g, "m")),
        ("two leaves' rows exchanged", swap_rows),
        ("a row in a leaf further right", move_row),
        ("a root that is its own child", lambda g: new_children(g, lambda c: c[:1] + [(c[1][0], node_of(root))] + c[2:])),
        ("all children are the same leaf", lambda g: new_children(g, lambda c: [(k, c[0][1]) for k, _ in c])),
        ("children exchanged", lambda g: new_children(g, lambda c: [(k, c[-1 - i][1]) for i, (k, _) in enumerate(c)])),
        ("a child that does not exist", lambda g: new_children(g, lambda c: c[:1] + [(c[1][0], 77 << 24)] + c[2:])),
        ("a root with 2^60 children", lambda g: r("HSET", root, "s", varint(1 << 60) + b"\0" * 64)),
        ("a separator of 2^60 bytes", lambda g: r("HSET", root, "s", b"\x02" + varint(1 << 60) + b"x" * 64)),
        ("a row of 2^60 bytes", lambda g: row_bytes(g, lambda v: v[:7] + b"l" + varint(1 << 60) + v[8:])),
        ("a compressed value of 2^60 bytes", lambda g: row_bytes(g, lambda v: v[:8] + b"\x1e" + varint(12) + varint(1 << 60) + b"\0\0\0")),
        ("a compressed value of 60 MB that is not", lambda g: row_bytes(g, lambda v: v[:8] + b"\x1e" + varint(6) + varint(60 << 20) + b"\0\0")),
        ("a version from the future", lambda g: row_bytes(g, lambda v: future + v[7:])),
        ("a version from before all commits", lambda g: row_bytes(g, lambda v: b"\0" * 7 + v[7:])),
        ("a history of 3000 versions", lambda g: row_bytes(g, lambda v: v[:7] + b"l" + varint(len(v) - 8) + v[8:] + b"\x01" + b"".join(
            struct.pack(">Q", 5001 - i)[1:] + struct.pack(">Q", 5002 - i)[1:] + b"T\0" for i in range(3000)))),
        ("an intent of nobody", lambda g: intent(g, lambda g: txid + b"D")),
        ("a thousand increments of nobody", lambda g: intent(g, lambda g: b"".join(struct.pack(">QQ", 999999, i) + b"I\x02\x12\x02" for i in range(1000)))),
        ("increments of another width", lambda g: intent(g, lambda g: txid + b"I\x02\x13\x02")),
        ("the clock is far ahead", lambda g: r("HSET", clock + b"c", "last", 1 << 57)),
        ("the clock's last time is no number", lambda g: r("HSET", clock + b"c", "last", "x")),
        ("sessions are no numbers", lambda g: r("HSET", clock + b"c", "sid", "-5")),
        ("a snapshot is no whole number", lambda g: r("ZADD", clock + b"p", "5.5", "1.1")),
        ("a snapshot far ahead", lambda g: r("ZADD", clock + b"p", 1 << 60, "1.1")),
        ("the index of sessions is a string", lambda g: r("SET", clock + b"e", "x")),
        ("the snapshots are a list", lambda g: (r("DEL", clock + b"p"), r("RPUSH", clock + b"p", "x"))),
        ("a definition with another root", lambda g: definition(g, struct.pack(">Q", node_of(root)), struct.pack(">Q", 4711 << 24))),
        ("a definition with SQL for a type", lambda g: definition(g, b"\x07integer", b"\x07int --,")),
        ("a definition with a second key column", lambda g: definition(g, b"\x00\x00\x01n", b"\x00\x01\x01n")),
    ]


# As valid as what was there, for all that a table and the clock's times can tell.
SOUND = ("two leaves' rows exchanged", "a history of 3000 versions", "sessions are no numbers",
         "the clock's last time is no number", "a snapshot is no number")


def mislead(server, data, conns, seed):
    """Each once; what mosql_fdw_check() must notice has no errors but findings."""
    rng = random.Random(seed)
    for name, damage in misleading(data):
        started = time.monotonic()
        damage(rng)
        seen, bad = run_all(server, rng, conns, LOOKS_SOUND, name)
        states = sorted({s for _, s, _ in seen if s})
        data.restore()
        damage(rng)
        found = checked(server)
        data.restore()
        tap.ok(not bad, f"{name}: {' '.join(states) or 'no error'}", "\n".join(bad))
        if name not in SOUND:
            tap.ok(any(t != "other" for t, *_ in found), f"{name}: mosql_fdw_check() says so", found)
        if time.monotonic() - started > 3:
            tap.note(f"{name}: {time.monotonic() - started:.1f} s")
    good, bad = run_all(server, rng, conns, "", "after")
    tap.ok(not bad, "mended, all is well", "\n".join(bad))
    data.restore()


def decided(server, data, engine):
    """What is registered at the clock does not decode, which shows in the answer to the
    decision: COMMIT must not say that it failed.  Engine watch reads it before it writes anything, and fails."""
    r, key = data.r, b"damage:{damage.clock}:p"
    with contextlib.closing(server.connect(DB)) as c, contextlib.closing(server.connect(DB)) as d:
        for value_ in (-5, 1 << 60):
            before = value(c, "SELECT n FROM other WHERE id = 3")
            value(d, "SELECT n FROM other WHERE id = 3")
            r("ZADD", key, value_, "1.1")
            state, text = error_of(c, "UPDATE other SET n = 1 + n * 1 WHERE id = 3")
            r("ZREM", key, "1.1")
            if engine == "watch":
                tap.ok(state == "XX001" and "damaged clock" in text, f"a snapshot {value_}: COMMIT fails", (state, text))
                tap.equal(value(d, "SELECT n FROM other WHERE id = 3"), before, f"a snapshot {value_}: and nothing is committed")
                continue
            tap.ok(state == "08007" and "damaged clock" in text, f"a snapshot {value_}: COMMIT does not know", (state, text))
            tx = re.search(r"outcome of transaction ([0-9.]+)", text)
            fate = tx and value(d, "SELECT mosql_fdw_transaction_status('redis', %s)", (tx[1],))
            tap.equal((fate, value(d, "SELECT n FROM other WHERE id = 3")), ("committed", before + 1),
                      f"a snapshot {value_}: it is committed, and the row is there")
            tap.equal(value(c, "SELECT n FROM other WHERE id = 3"), before + 1, "... for its own session, too")


def values(server, data, conns):
    """Values that no type of theirs has: mosql_fdw_check() names the column."""
    r = data.r
    leaf = [k for k, level in data.nodes.items() if level == 0][1]
    row = sorted(f for f in r("HKEYS", leaf) if f[:1] == b"r" and len(f) > 1)[3]
    good = r("HGET", leaf, row)
    head = good[:8]
    cases = [
        ("text that is no UTF-8", head + b"\x1d\x02\xff\xfe", '"s"'),
        ("a numeric that is none", head + b"\x25\x03abc", '"v"'),
        ("an array that is cut off", head + b"\x2d\x06\0\0\0\x01\0\0", '"a"'),
        ("a time beyond all", head + b"\x33\x7f\xff\xff\xff\xff\xff\xff\x00", '"ts"'),
        ("an old version's text", good[:7] + b"l" + varint(len(good) - 8) + good[8:] + b"\x01" +
         struct.pack(">Q", 5)[1:] + struct.pack(">Q", 9)[1:] + b"L\x04\x1d\x02\xff\xfe", '"s"'),
    ]
    for name, bytes_, column in cases:
        r("HSET", leaf, row, bytes_)
        found = checked(server)
        tap.ok(any(f[0] == "t" and f[1] == "broken" and column in f[3] for f in found if len(f) > 3) and
               not any(f[0] == "other" for f in found), f"{name}: mosql_fdw_check() names the column", found)
        data.restore()
    # the key of a text column is in the row as well only where bytes are lost:
    # numeric, whose scale is kept there
    (leaf_k,) = [n.encode() for (n,) in query(conns[0], "SELECT node FROM mosql_fdw_dump('k') WHERE level = 0")]
    rows = sorted(f for f in r("HKEYS", leaf_k) if f[:1] == b"r" and len(f) > 1)
    r("HSET", leaf_k, rows[0], r("HGET", leaf_k, rows[1]))
    with contextlib.closing(server.connect(DB)) as c:
        found = query(c, "SELECT * FROM mosql_fdw_check('k')")
        tap.ok(any("another key" in f[2] for f in found), "a row under another's key: mosql_fdw_check() says so", found)
    data.restore()
    # words of a definition become SQL: no more of it than a type's name
    catalog, field = next((k, f) for k in data.keys if b"clock" not in k for f in r("HKEYS", k)
                          if f[:2] == b"rT" and b"\0\x01t\0\x01" in f)
    stored = r("HGET", catalog, field)
    r("HSET", catalog, field, stored.replace(b"timestamp with time zone", b"int, x int CHECK (false)"))
    with contextlib.closing(server.connect(DB)) as c:
        query(c, "CREATE SCHEMA injected")
        state, text = error_of(c, "IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO injected")
        query(c, "DROP SCHEMA injected CASCADE")
        tap.ok(state == "42601" and "int, x int" in text, "IMPORT takes a type for a type", (state, text))
    data.restore()
    tap.equal(checked(server), [], "mended, nothing is found")


# ---- random bytes ----

def damage_randomly(rng, data):
    """One random change; what it was."""
    key = rng.choice([k for k in data.keys if b"clock" not in k or rng.random() < 0.1])
    if data.r("TYPE", key) != b"hash" or rng.random() < 0.05:
        data.r("DEL", key)
        if rng.random() < 0.5:
            data.r("SET", key, mutate(rng, b"some"))
        return repr(key)
    fields = data.r("HGETALL", key)
    fields = sorted(zip(fields[::2], fields[1::2]))
    special = [f for f in fields if f[0] in (b"m", b"s", b"l", b"p")]
    name, old = rng.choice(special if special and rng.random() < 0.5 else fields)
    new = mutate(rng, old)
    if rng.random() < 0.2:
        data.r("HDEL", key, name)
        name = mutate(rng, name)
    data.r("HSET", key, name, new)
    return f"{key!r}, field {name!r}, {old!r} -> {new!r}"


def fuzz(server, data, conns, seed, rounds):
    rng = random.Random(seed)
    bad_rounds = silent = 0
    for i in range(rounds):
        what = f"round {i}: "
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            what += damage_randomly(rng, data) + "; "
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
    data.restore()


def neighbours(server, data):
    """A leaf that a snapshot comes back to is read as a whole: rows in it that are sound are found all the same."""
    leaf = min(k for k, level in data.nodes.items() if level == 0)
    data.r("HSET", leaf, "x1", "of no kind")
    with contextlib.closing(server.connect(DB, level="REPEATABLE READ")) as c:
        c.autocommit = False
        for i in 1, 2, 3:
            tap.equal(attempt(c, f"SELECT n FROM t WHERE id = {i}"), ([(i,)], None), f"beside damage, row {i} of a snapshot")
    data.restore()


def formats(server, r, c):
    """A definition has the lowest format that says all; one that nobody knows yet is refused."""
    def stored():
        return next(((k, f, r("HGET", k, f)) for k in r("KEYS", "*") if b"clock" not in k and r("TYPE", k) == b"hash"
                     for f in r("HKEYS", k) if f[:2] == b"rT" and b"formats\0\x01" in f), (None, None, b""))

    def has_format(format):     # columns 1, of 2 bytes, and 2, of 8; a commit may be said before its last write
        found = re.search(rb"\x09\0(.)\x13", stored()[2])
        return found and found[1][0] == format
    for sql, format in (("CREATE FOREIGN TABLE formats (id int OPTIONS (key 'true'), ip inet, a int) SERVER redis", 2),
                        ("CREATE INDEX byip ON formats (a, ip)", 4), ("DROP INDEX byip", 2),
                        ("CREATE INDEX byip ON formats ((host(ip)::inet))", 4), ("DROP INDEX byip", 2),
                        ("ALTER TABLE formats DROP CONSTRAINT formats_pkey, ADD PRIMARY KEY (ip)", 4),
                        ("ALTER TABLE formats ALTER ip TYPE text", 2)):
        query(c, sql)
        tap.ok(wait_until(lambda: has_format(format)), f"format {format} after {sql}")
    key, field, row = stored()
    r("HSET", key, field, re.sub(rb"\x09\0.\x13", b"\x09\0\x06\x13", row, count=1))
    with contextlib.closing(server.connect(DB)) as d:
        state, text = error_of(d, "SELECT * FROM formats")
        tap.ok(state == "0A000" and "format 6" in text and "newer mosql_fdw" in text, "one that is not known is refused",
               (state, text))
    r("HSET", key, field, row)
    query(c, "DROP FOREIGN TABLE formats")


def body():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 25
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
                  f"FROM generate_series(1, {ROWS}) g; INSERT INTO other SELECT g, 0 FROM generate_series(1, 5) g; "
                  f"INSERT INTO k SELECT chr(96 + g), g + 0.50, 'v' || g FROM generate_series(1, 20) g")
            formats(server, Redis(plain.ports[0]), conn)
            wait_until(lambda: all(findings(conn, t) == ([], []) for t in ("t", "k", "other")))     # all is applied
            data = Data(Redis(plain.ports[0]), conn)
            conns = [conn]
            known(server, data, conns)
            mislead(server, data, conns, seed)
            decided(server, data, engine)
            neighbours(server, data)
            values(server, data, conns)
            fuzz(server, data, conns, seed, rounds)
    tap.equal(server.crashes(), [], "no backend died")


main(body)
