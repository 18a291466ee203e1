"""A transaction over several tables, leaves and Redis nodes, on which a backend is
killed or paused; whoever looks can tell how much of it there is."""
from mosqltest import *

ACCOUNTS, BALANCE = 700, 1000
NEW_ROWS = 300                  # more than two leaves' worth: splits
BIG_ROWS = 34000                # more leaves than an inner node has children
TOUCHED = (3, 180, 350, 520, 690)

DDL = """
CREATE FOREIGN TABLE acct (id int OPTIONS (key 'true') NOT NULL, bal int, note text) SERVER redis;
CREATE FOREIGN TABLE cnt (name text OPTIONS (key 'true') NOT NULL, n bigint) SERVER redis;
CREATE FOREIGN TABLE ledger (id int OPTIONS (key 'true') NOT NULL, tag text, amount int) SERVER redis;
CREATE FOREIGN TABLE swap (id int OPTIONS (key 'true') NOT NULL, note text) SERVER redis;
CREATE FOREIGN TABLE big (tag int OPTIONS (key 'true') NOT NULL, id int OPTIONS (key 'true') NOT NULL) SERVER redis;
"""
TABLES = ("acct", "cnt", "ledger", "swap", "big")


def fill(conn):
    query(conn, f"""
        INSERT INTO acct SELECT g, {BALANCE}, '' FROM generate_series(1, {ACCOUNTS}) g;
        INSERT INTO cnt VALUES ('a', 0), ('b', 0);
        INSERT INTO ledger SELECT g * 100000, '', 0 FROM generate_series(1, 300) g;
        INSERT INTO swap SELECT g, '' FROM generate_series(1, 10) g;""")


def write_few():
    """From now on so few rows that a commit can be one step."""
    global NEW_ROWS
    NEW_ROWS = 20


def transaction(conn, tag, number):
    """The victim's work; keys of the new rows depend on number only."""
    a, b, c, d, e = TOUCHED
    query(conn, f"""
        UPDATE acct SET bal = bal - 10 WHERE id = {a};
        UPDATE acct SET bal = bal + 10 WHERE id = {e};
        UPDATE acct SET note = '{tag}' WHERE id IN ({b}, {c}, {d});
        UPDATE cnt SET n = n + 1 WHERE name = 'a';
        UPDATE cnt SET n = n - 1 WHERE name = 'b';
        DELETE FROM swap WHERE id = (SELECT min(id) FROM swap);
        INSERT INTO swap SELECT max(id) + 1, '{tag}' FROM swap;
        SELECT sum(bal) FROM acct WHERE id BETWEEN 100 AND 400;
        INSERT INTO ledger SELECT (g * 7919 % 30000000) * 10 + {number % 10}, '{tag}', 1
            FROM generate_series({number} * {NEW_ROWS} + 1, ({number} + 1) * {NEW_ROWS}) g;""")


def seen(conn, tag, big=None):
    """How much of a transaction there is: '' nothing, 'all', or what is wrong."""
    query(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    total = value(conn, "SELECT sum(bal) FROM acct")
    notes = value(conn, "SELECT count(*) FROM acct WHERE note = %s", (tag,))
    rows = value(conn, "SELECT count(*) FROM ledger WHERE tag = %s", (tag,))
    swaps, mine = query(conn, "SELECT count(*), count(*) FILTER (WHERE note = %s) FROM swap", (tag,))[0]
    counts = value(conn, "SELECT sum(n) FROM cnt")
    loaded = None if big is None else value(conn, "SELECT count(*) FROM big WHERE tag = %s", (big,))
    query(conn, "COMMIT")
    if total != ACCOUNTS * BALANCE or swaps != 10 or counts != 0:
        return f"sums: {total}, {swaps}, {counts}"
    if (notes, rows, mine) == (0, 0, 0) and loaded in (None, 0):
        return ""
    if (notes, rows, mine) == (3, NEW_ROWS, 1) and loaded in (None, BIG_ROWS):
        return "all"
    return f"half: notes {notes}, rows {rows}, swap {mine}, big {loaded}"


def until_committed(conn, sql, deadline):
    """Seconds from now until it commits; None if it does not in time."""
    state = None
    while time.monotonic() < deadline:
        _, state = attempt(conn, "BEGIN; " + sql + "; COMMIT")
        if state is None:
            return time.monotonic(), None
        attempt(conn, "ROLLBACK")
        if state not in (CONFLICT, DEADLOCK):
            break
    return None, state


class Proceed:
    """Clients of the other server, each on one row, one on all of them."""

    def __init__(self, server, db):
        a, b, c, d, e = TOUCHED
        self.sql = [f"UPDATE acct SET note = note WHERE id = {i}" for i in TOUCHED]
        self.sql += [f"UPDATE acct SET bal = bal - 1 WHERE id = {a}; "
                     f"UPDATE acct SET bal = bal + 1 WHERE id = {e}",
                     "UPDATE cnt SET n = n + 1 WHERE name = 'a'; UPDATE cnt SET n = n - 1 WHERE name = 'b'",
                     "UPDATE acct SET bal = bal WHERE id IN (%d, %d, %d, %d, %d); "
                     "UPDATE cnt SET n = n; UPDATE swap SET note = note" % TOUCHED]
        self.conns = [server.connect(db) for _ in range(len(self.sql) + 1)]
        for c in self.conns:
            query(c, "SELECT count(*) FROM acct; SELECT count(*) FROM cnt; SELECT count(*) FROM swap")

    def run(self, since, tag, number):
        """When the slowest had committed, who did not, and what became of the
        victim's transaction when it was tried again: None or an SQLSTATE."""
        results = [None] * len(self.conns)

        def one(i):
            if i < len(self.sql):
                results[i] = until_committed(self.conns[i], self.sql[i], since + LONG_WAIT)
            else:
                results[i] = self.again(since + LONG_WAIT, tag, number)
        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(self.conns))]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        stuck = [(s, r) for s, r in zip(self.sql + ["once more"], results) if not r or r[0] is None]
        who = self.sql + ["the same transaction"]
        slowest = max((r[0] - since, w) for r, w in zip(results, who) if r and r[0])
        return slowest, stuck, results[-1] and results[-1][1]

    def again(self, deadline, tag, number):
        """The victim's client asks the other server: the same keys."""
        state = None
        while time.monotonic() < deadline:
            try:
                query(self.conns[-1], "BEGIN")
                transaction(self.conns[-1], tag, number)
                query(self.conns[-1], "COMMIT")
                return time.monotonic(), None
            except psycopg2.Error as e:
                state = state_of(self.conns[-1], e)
                attempt(self.conns[-1], "ROLLBACK")
                if state == "23505":
                    return time.monotonic(), state
                if state not in (CONFLICT, DEADLOCK):
                    break
        return None, state

    def close(self):
        for c in self.conns:
            c.close()


def touch(conn):
    """Change every row, and insert those that were deleted once more."""
    query(conn, "INSERT INTO swap SELECT g, '' FROM generate_series("
          "(SELECT greatest(min(id) - 3, 1) FROM swap), (SELECT min(id) - 1 FROM swap)) g")
    query(conn, "DELETE FROM swap WHERE id < (SELECT max(id) - 9 FROM swap)")
    query(conn, "UPDATE acct SET note = note; UPDATE cnt SET n = n; UPDATE swap SET note = note; "
          "UPDATE ledger SET tag = tag")
    query(conn, "DELETE FROM big")


def leftovers(conn):
    """All that mosql_fdw_check() finds, of all tables."""
    return {(t,) + f for t in TABLES for fs in findings(conn, t) for f in fs}
