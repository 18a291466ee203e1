"""Transfers between accounts that are spread over several leaves."""
from .base import *
from .mix import MIXED

ACCOUNTS, MONEY = 300, 100
PAIRS = 3


class Bank(Workload):
    """Transfers by increments, by values that the client computed (FOR UPDATE keeps
    them honest under READ COMMITTED), and by moving an account to another key.  An
    account is id / 10; entry is the journal.  Every scan is one snapshot."""

    name = "bank"
    tables = ("account (id int KEY, balance int)",
              "entry (client int KEY, n int KEY, a int, b int, amount int)")
    clients = 8
    allowed = CONFLICTS + "|23505"         # two that move an account to the same key

    def setup(self, conn):
        query(conn, f"INSERT INTO account SELECT g * 10, {MONEY} FROM generate_series(1, {ACCOUNTS}) g")

    def transaction(self, s):
        (self.increments, self.look, self.values, self.move)[s.client // 2 % 4](s)

    @staticmethod
    def pick(s):
        """A few hot accounts, and all others."""
        a, b = s.rng.sample(range(1, ACCOUNTS + 1), 2)
        if s.rng.random() < 0.3:
            a = s.rng.randint(1, 5)
        return a, b if a != b else a % ACCOUNTS + 1

    def journal(self, s, a, b, n):
        s.execute("INSERT INTO entry VALUES (%s, %s, %s, %s, %s)", (s.client, s.n, a, b, n))
        s.record("transfer", f"{s.client}.{s.n}", [a, b, n])

    def increments(self, s):
        a, b = self.pick(s)
        n = s.rng.randint(1, 9)
        for account, change in ((a, -n), (b, n)):
            if s.execute("UPDATE account SET balance = balance + %s WHERE id BETWEEN %s AND %s",
                         (change, account * 10, account * 10 + 9)) != 1:
                raise Rollback
        self.journal(s, a, b, n)

    def values(self, s):
        a, b = self.pick(s)
        n = s.rng.randint(1, 9)
        lock = " FOR UPDATE" if s.level == READ_COMMITTED else ""
        rows = {i // 10: (i, balance) for i, balance in s.query(
            "SELECT id, balance FROM account WHERE id BETWEEN %s AND %s OR id BETWEEN %s AND %s ORDER BY id" + lock,
            (a * 10, a * 10 + 9, b * 10, b * 10 + 9))}
        for account, change in ((a, -n), (b, n)):
            i, balance = rows[account] if account in rows else (0, 0)
            if s.execute("UPDATE account SET balance = %s WHERE id = %s", (balance + change, i)) != 1:
                raise Rollback
        self.journal(s, a, b, n)

    def move(self, s):
        a, _ = self.pick(s)
        moved = s.query("DELETE FROM account WHERE id BETWEEN %s AND %s RETURNING id, balance",
                        (a * 10, a * 10 + 9))
        if not moved:
            raise Rollback
        (old, balance), = moved
        s.execute("INSERT INTO account VALUES (%s, %s)", (a * 10 + (old + 1) % 10, balance))

    def look(self, s):
        for _ in range(1 if s.level == READ_COMMITTED else s.rng.randint(1, 3)):
            total = "SELECT sum(balance), count(*), sum(id / 10 * balance) FROM "
            s.record("total", "account", [int(x or 0) for x in s.query(total + s.rng.choice((
                "account", "(SELECT * FROM account ORDER BY id DESC) x")))[0]])
            if s.level != READ_COMMITTED and s.rng.random() < 0.3:
                moved = s.query("SELECT coalesce(sum(amount * (b - a)), 0) FROM entry")[0][0]
                s.record("moved", "entry", int(moved))

    def final(self, s):
        balances = {}
        for i, balance in s.query("SELECT id, balance FROM account"):
            balances.setdefault(i // 10, []).append(balance)
        s.record("balances", "account", sorted(balances.items()))
        s.record("entries", "entry", [list(r) for r in s.query("SELECT client, n, a, b, amount FROM entry")])

    @staticmethod
    def check(history, level=None, **_):
        found = []
        opening = sum(MONEY * a for a in range(1, ACCOUNTS + 1))

        def wrong(name, text, t):
            found.append(checker.Anomaly(name, text, [t]))
        transfers = {op[1]: (t, op[2]) for t in history for op in t.ops if op[0] == "transfer"}
        for t in history:
            before, moved = None, None
            for name, key, value, _ in t.ops:
                if name == "total":
                    if value[:2] != [ACCOUNTS * MONEY, ACCOUNTS]:
                        wrong("total", f"the sum of {value[1]} accounts is {value[0]}", t)
                    if before is not None and (level or t.level) != READ_COMMITTED and value != before:
                        wrong("non-repeatable", f"a scan gives {before}, then {value}", t)
                    before = value
                elif name == "moved":
                    moved = value
                elif name == "balances":
                    Bank._books(dict(map(tuple, value)), t, wrong)
                elif name == "entries":
                    Bank._journal(value, transfers, t, wrong)
            if before is not None and moved is not None and before[2] != opening + moved:
                wrong("G-single", f"the accounts say {before[2] - opening} was moved, the journal {moved}", t)
        return found

    @staticmethod
    def _books(balances, t, wrong):
        """In the end each account has its balance by the journal."""
        wanted = {a: MONEY for a in range(1, ACCOUNTS + 1)}
        for _, _, a, b, n in next(op[2] for op in t.ops if op[0] == "entries"):
            wanted[a] -= n
            wanted[b] += n
        for a in wanted:
            if balances.get(a) != [wanted[a]]:
                wrong("total", f"account {a} has {balances.get(a)}, by the journal {wanted[a]}", t)

    @staticmethod
    def _journal(entries, transfers, t, wrong):
        """Acknowledged transfers are in the journal, failed ones are not."""
        there = {f"{client}.{n}": [a, b, amount] for client, n, a, b, amount in entries}
        for key, (by, transfer) in transfers.items():
            if by.outcome == checker.OK and there.get(key) != transfer:
                wrong("lost", f"transfer {key}, {transfer}, is {there.get(key)}", by)
            if by.outcome == checker.FAIL and key in there:
                wrong("G1a", f"transfer {key} failed, and is there", by)


class MixBank(Bank):
    """Each transaction at its own level.  Withdrawals from one of a pair of accounts may
    overdraw it as long as the two together are not below zero; these are SERIALIZABLE,
    deposits are not: no snapshot may show a pair below zero."""

    name = "mixbank"
    levels = (MIXED,)
    tables = Bank.tables + ("twin (pair int KEY, id int KEY, balance int)",)

    def setup(self, conn):
        super().setup(conn)
        query(conn, f"INSERT INTO twin SELECT p, i, 10 FROM generate_series(1, {PAIRS}) p, generate_series(1, 2) i")

    def level_of(self, s):
        s.what = s.rng.choice(("increments", "look", "values", "move", "withdraw", "withdraw", "deposit", "twins"))
        level = s.rng.choice(LEVELS)
        return SERIALIZABLE if s.what == "withdraw" else level

    def transaction(self, s):
        getattr(self, s.what)(s)

    def withdraw(self, s):
        pair, i, n = s.rng.randint(1, PAIRS), s.rng.randint(1, 2), s.rng.randint(1, 12)
        if s.rng.random() < 0.5:
            balance = dict(s.query("SELECT id, balance FROM twin WHERE pair = %s", (pair,)))
        else:
            balance = {x: s.query("SELECT balance FROM twin WHERE pair = %s AND id = %s", (pair, x))[0][0]
                       for x in (1, 2)}
        s.record("twins", pair, sum(balance.values()))
        if sum(balance.values()) < n:
            raise Rollback
        if s.rng.random() < 0.5:
            s.execute("UPDATE twin SET balance = balance - %s WHERE pair = %s AND id = %s", (n, pair, i))
        else:
            s.execute("UPDATE twin SET balance = %s WHERE pair = %s AND id = %s", (balance[i] - n, pair, i))
        s.record("deposit", pair, -n)

    def deposit(self, s):
        pair, i, n = s.rng.randint(1, PAIRS), s.rng.randint(1, 2), s.rng.randint(1, 6)
        if s.rng.random() < 0.5:
            s.execute("UPDATE twin SET balance = balance + %s WHERE pair = %s AND id = %s", (n, pair, i))
        else:
            balance = s.query("SELECT balance FROM twin WHERE pair = %s AND id = %s FOR UPDATE", (pair, i))[0][0]
            s.execute("UPDATE twin SET balance = %s WHERE pair = %s AND id = %s", (balance + n, pair, i))
        s.record("deposit", pair, n)

    def twins(self, s):
        for pair, total in s.query("SELECT pair, sum(balance) FROM twin GROUP BY 1"):
            s.record("twins", pair, int(total))

    def final(self, s):
        super().final(s)
        self.twins(s)

    @staticmethod
    def check(history, level=None, **_):
        found = Bank.check(history, level)
        sure, unsure = {}, {}
        for t in history:
            for name, pair, n, _ in t.ops:
                if name == "twins" and n < 0:
                    found.append(checker.Anomaly("write-skew", f"pair {pair} has {n}", [t]))
                elif name == "deposit" and t.outcome == checker.OK:
                    sure[pair] = sure.get(pair, 0) + n
                elif name == "deposit" and t.outcome == checker.INFO:
                    unsure.setdefault(pair, []).append(n)
        for t in history:
            for name, pair, n, _ in t.ops if t.final else ():
                maybe = unsure.get(pair, [])
                low = 20 + sure.get(pair, 0) + sum(x for x in maybe if x < 0)
                high = 20 + sure.get(pair, 0) + sum(x for x in maybe if x > 0)
                if name == "twins" and not low <= n <= high:
                    found.append(checker.Anomaly("lost", f"pair {pair} has {n} in the end, wanted {low} to {high}", [t]))
        return found
