#!/usr/bin/python3
"""The checkers, checked: bad histories are found out, and good ones are not blamed.

    test/workloads/validate.py [--seed N] [--histories N]

N histories (default 70) of each kind, from a simulated database (checker/simulate.py),
right ones at each isolation level and with each anomaly put in at a random place; and
for each workload with a rule of its own (bank, counter, ...) records that keep and that
break the rule.  Everything follows from the seed (default 1)."""
import argparse
import os
import random
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), d) for d in (".", "../lib")]
import checker
from checker.simulate import LEVELS, MUTATIONS, TEMPLATES, simulate, strew
from checker.verdict import names
from mosqltest import main, tap
from workload import WORKLOADS

OK, FAIL, INFO = checker.OK, checker.FAIL, checker.INFO


def stronger(level):
    return LEVELS[LEVELS.index(level):]


def expect(kind, wrong, count):
    tap.ok(not wrong, f"{kind}: {count} histories", "\n".join(wrong[:3]))


def good(args):
    for level in LEVELS + (None,):
        wrong, shown = [], set()
        for i in range(args.histories):
            rng = random.Random(f"{args.seed} good {level} {i}")
            history = simulate(rng, level)
            found = checker.check(history)
            if found:
                wrong.append(f"number {i}: {found[0]}")
            shown |= names(checker.check(history, level=LEVELS[-1]))
        expect(f"right at {level or 'levels of their own'}, nothing is found", wrong, args.histories)
        wanted = {"READ COMMITTED": {"G-single", "lost-update", "G2-item", "non-repeatable"},
                  "REPEATABLE READ": {"G2-item"}, None: {"G-single", "G2-item"}}.get(level)
        if wanted:
            tap.ok(wanted <= shown, f"right at {level or 'levels of their own'}, as SERIALIZABLE these show "
                   f"{sorted(wanted)}", sorted(shown))
        if level == "REPEATABLE READ":
            tap.ok(not {n for n in shown if not n.startswith("G2")},
                   "snapshots show nothing but two rw edges in a row", sorted(shown))


def templates(args):
    plain = {(level, i): simulate(random.Random(f"{args.seed} plain {level} {i}"), level, transactions=30)
             for level in LEVELS for i in range(args.histories // 2)}
    for number, (name, weakest, text, final) in enumerate(TEMPLATES):
        wrong, count = [], 0
        for level in LEVELS:
            for i in range(args.histories // 2):
                rng = random.Random(f"{args.seed} {text} {level} {i}")
                history = plain[level, i].copy()
                strew(rng, history, text, final, 1 + number, level)
                found = checker.check(history)
                count += 1
                if level in stronger(weakest) and name not in names(found):
                    wrong.append(f"{level}, number {i}: found only {names(found)}")
                elif level not in stronger(weakest) and found:
                    wrong.append(f"{level} permits this, number {i}: found {found[0]}")
        expect(f"{name}: {text}", wrong, count)


def mutations(args):
    for wanted, mutate in MUTATIONS:
        wrong, count = [], 0
        for i in range(args.histories * 2):
            rng = random.Random(f"{args.seed} {mutate.__name__} {i}")
            history = simulate(rng, LEVELS[i % 3], transactions=60)
            try:
                mutate(rng, history)
            except IndexError:          # nothing there to choose from
                continue
            count += 1
            found = names(checker.check(history))
            if not found & wanted:
                wrong.append(f"number {i}: found {found}")
        expect(f"{' or '.join(sorted(wanted))} by {mutate.__name__[1:]}", wrong, count)
        tap.ok(count >= args.histories, f"{mutate.__name__[1:]}: can be done to most histories", count)


def special():
    """Single cases that no random history promises to meet."""
    def t(id, *ops, **kw):
        kw = {"begin": 0, "end": 9} | kw
        return checker.Transaction(id, [list(op) for op in ops], **kw)

    def case(what, wanted, *transactions, **how):
        found = names(checker.check(transactions, **how))
        tap.equal(found, wanted, what)
    case("an append of unknown outcome may be there", set(),
         t(1, ("append", "x", 1, 0), outcome=INFO), t(2, ("list", "x", [1], 0), begin=10, end=11))
    case("or not", set(),
         t(1, ("append", "x", 1, 0), outcome=INFO), t(2, ("list", "x", [], 0), begin=10, end=11))
    case("or come late", set(),
         t(1, ("append", "x", 1, 0), outcome=INFO), t(2, ("list", "x", [], 0), begin=10, end=11),
         t(3, ("list", "x", [1], 0), begin=12, end=13))
    case("but not go again", {"G-single-rt"},
         t(1, ("append", "x", 1, 0), outcome=INFO), t(2, ("list", "x", [1], 0), begin=10, end=11),
         t(3, ("list", "x", [], 0), begin=12, end=13))
    case("nor be there in half", {"G-single"},
         t(1, ("append", "x", 1, 0), ("write", "y", 2, 1), outcome=INFO),
         t(2, ("list", "x", [1], 0), ("read", "y", None, 1), begin=10, end=11))
    half = (t(1, ("append", "x", 1, 0), ("add", "y", 2, 1)),
            t(2, ("list", "x", [1], 0), ("scan", "y", [], 0), level="READ COMMITTED"))
    case("one statement of READ COMMITTED sees one state", {"G-single"}, *half)
    half[1].ops[1][3] = 1
    case("and its statements see no earlier one than those before", {"G-single"}, *half)
    half[1].ops.reverse()
    half[1].ops[0][3], half[1].ops[1][3] = 0, 1
    case("but they may see later ones", set(), *half)
    case("a transaction that failed saw one snapshot, too", {"G-single"},
         t(1, ("append", "x", 1, 0), ("append", "y", 2, 1)),
         t(2, ("list", "x", [1], 0), ("list", "y", [], 1), outcome=FAIL),
         t(3, ("list", "y", [2], 0), begin=10, end=11))
    skew = (t(1, ("read", "x", None, 0), ("write", "y", 2, 1)), t(2, ("read", "y", None, 0), ("write", "x", 1, 1)))
    case("write skew among SERIALIZABLE", {"G2-item"}, *skew)
    skew[1].level = "REPEATABLE READ"
    case("is none if one of them is not", set(), *skew)
    case("stale reads are allowed where real time does not count", set(),
         t(1, ("append", "x", 1, 0), end=1), t(2, ("list", "x", [], 0), begin=2, end=3),
         t(3, ("list", "x", [1], 0), begin=4, end=5), real_time=False)


# ---- rules of single workloads ----

class Record:
    """Builds a serial history of a workload: each transaction begins after the last."""

    def __init__(self, name):
        self.name, self.at, self.history = name, 0.0, checker.History(level="SERIALIZABLE", workload=name)

    def __call__(self, *ops, client=0, outcome=OK, **kw):
        t = checker.Transaction(len(self.history) + 1, [[*op, 0] for op in ops], outcome, self.at, self.at + 1,
                                client=client, **kw)
        self.at += 2
        self.history.transactions.append(t)
        return t

    def names(self):
        return names(WORKLOADS[self.name].check(self.history))


def rule(name, wanted, spoil, build, seeds=40):
    """Histories made by build(record, rng); spoil(record, rng) breaks some."""
    wrong = []
    for seed in range(seeds):
        rng, record = random.Random(f"{name} {seed}"), Record(name)
        build(record, rng)
        if record.names():
            wrong.append(f"right, and found {record.names()}")
        spoil(record, rng)
        if wanted not in record.names():
            wrong.append(f"number {seed}: found {record.names()}")
    expect(f"{name}: {wanted} by {spoil.__name__.strip('_')}, and nothing without", wrong, seeds)


def some(rng, record, *names, final=None):
    """One operation of these names, with its transaction."""
    return rng.choice([(t, op) for t in record.history for op in t.ops
                       if op[0] in names and final in (None, t.final)])


def bank_history(r, rng):
    accounts = {a: 100 for a in range(1, 301)}
    moved, entries = 0, []

    def look(**kw):
        total = ["total", "account", [sum(accounts.values()), 300, sum(a * b for a, b in accounts.items())]]
        r(total, ["moved", "entry", moved], total, **kw)
    for n in range(30):
        a, b, x = rng.randint(1, 300), rng.randint(1, 300), rng.randint(1, 9)
        outcome = rng.choice((OK, OK, OK, FAIL, INFO))
        r(["transfer", f"0.{n}", [a, b, x]], outcome=outcome)
        if outcome == OK or outcome == INFO and rng.random() < 0.5:
            accounts[a] -= x
            accounts[b] += x
            moved += x * (b - a)
            entries.append([0, n, a, b, x])
        look()
    r(["balances", "account", [[a, [b]] for a, b in accounts.items()]], ["entries", "entry", entries], final=True)


def bank_rules():
    def lost_half(r, rng):
        some(rng, r, "total")[1][2][0] += 3

    def missing_row(r, rng):
        some(rng, r, "total")[1][2][1] -= 1

    def drift(r, rng):
        some(rng, r, "balances")[1][2][7][1][0] += 1

    def lost_entry(r, rng):
        entries = some(rng, r, "entries")[1][2]
        n = next(op[1] for t in r.history for op in t.ops if op[0] == "transfer" and t.outcome == OK)
        entries[:] = [e for e in entries if f"0.{e[1]}" != n]

    def ghost(r, rng):
        t, op = some(rng, r, "transfer")
        t.outcome = FAIL
        some(rng, r, "entries")[1][2].append([0, int(op[1][2:]), *op[2]])

    def half(r, rng):
        some(rng, r, "moved")[1][2] += 5

    def two(r, rng):
        t, op = some(rng, r, "total")
        t.ops[0] = [op[0], op[1], [op[2][0], op[2][1], op[2][2] + 1], 0]

    for wanted, spoil in (("total", lost_half), ("total", missing_row), ("total", drift), ("lost", lost_entry),
                          ("G1a", ghost), ("G-single", half), ("non-repeatable", two)):
        rule("bank", wanted, spoil, bank_history)

    def twins(r, rng):
        bank_history(r, rng)
        last = r.history.transactions.pop()
        held = 20
        for _ in range(20):
            n = rng.randint(-5, 9)
            if held + n >= 0:
                held += n
                r(["deposit", 1, n])
            r(["twins", 1, held])
        r.history.transactions.append(last)
        last.ops.append(["twins", 1, held, 0])

    def below(r, rng):
        some(rng, r, "twins", final=False)[1][2] = -1

    def gone(r, rng):
        some(rng, r, "twins", final=True)[1][2] += 1
    rule("mixbank", "write-skew", below, twins)
    rule("mixbank", "lost", gone, twins)


def counter_rules():
    def build(r, rng):
        n = 0
        for _ in range(40):
            change, outcome = rng.randint(-5, 9), rng.choice((OK, OK, FAIL))
            r(["plus", "hot.n", change], outcome=outcome)
            n += change if outcome == OK else 0
            r(["value", "hot.n", n], ["balance", "m", 0])

    def low(r, rng):
        some(rng, r, "value")[1][2] -= 1

    def high(r, rng):
        some(rng, r, "value")[1][2] += 1

    def torn(r, rng):
        some(rng, r, "balance")[1][2] += rng.choice((-2, 1))
    for wanted, spoil in (("lost", low), ("garbage", high), ("G-single", torn)):
        rule("counter", wanted, spoil, build)
    r = Record("counter")
    r(["plus", "hot.n", 4], outcome=INFO)
    r(["plus", "hot.n", -1], outcome=INFO)
    for n in (-1, 0, 3, 4):
        r(["value", "hot.n", n])
    tap.equal(r.names(), set(), "counter: increments of unknown outcome may count or not")
    r(["value", "hot.n", 5])
    tap.equal(r.names(), {"garbage"}, "counter: but not twice")


def ring_rules():
    def build(r, rng):
        nodes = [(i + 1) % 30 for i in range(30)]
        for _ in range(20):
            a = rng.randrange(30)
            b = nodes[a]
            c = nodes[b]
            d = nodes[c]
            nodes[a], nodes[c], nodes[b] = c, b, d
            r(["ring", "node", list(nodes)])

    def lose(r, rng):
        nodes = some(rng, r, "ring")[1][2]
        nodes[rng.randrange(30)] = None

    def split(r, rng):
        nodes = some(rng, r, "ring")[1][2]
        a = rng.randrange(30)
        nodes[a] = nodes[nodes[a]]
    rule("ring", "ring", lose, build)
    rule("ring", "ring", split, build)


def unique_rules():
    def build(r, rng):
        owner, count = None, 0
        for _ in range(60):
            count += 1
            what = rng.random()
            if what < 0.4 and owner is None:
                owner = count
                r(["insert", 50, owner])
            elif what < 0.4:
                r(["insert", 50, count], outcome=FAIL, error="23505")
            elif what < 0.6 and owner is not None:
                r(["free", 50, [owner, 1]])
                owner = None
            elif what < 0.7:
                r(["insert", 50, count], outcome=FAIL, error="40001")
            else:
                r(["owner", 50, owner])
        r(["insert", 50, count + 1]) if owner is None else None
        owner = owner or count + 1
        r(["owner", 50, owner])
        r(["owner", 50, owner], final=True)

    def second(r, rng):
        r(["insert", 50, 1000])

    def nobody(r, rng):
        r(["insert", 100, 1000], outcome=FAIL, error="23505")

    def vanish(r, rng):
        r.history.transactions[-1].ops[0][2] = None

    def failed(r, rng):
        r(["insert", 50, 1000], outcome=FAIL, error="40001")
        r(["owner", 50, 1000])

    def ghost(r, rng):
        owner = r.history.transactions[-1].ops[0][2]
        r(["free", 50, [owner, 1]])
        r(["owner", 50, owner])

    def stolen(r, rng):
        r(["free", 50, [r.history.transactions[-1].ops[0][2], 0]])
    for wanted, spoil in (("duplicate", second), ("garbage", nobody), ("lost", vanish), ("G1a", failed),
                          ("stale-read", ghost), ("lost", stolen)):
        rule("unique", wanted, spoil, build)


def queue_rules():
    def build(r, rng):
        waiting, last = [(g, -g) for g in range(150)], 149
        for i in range(80):
            if rng.random() < 0.6:
                outcome = rng.choice((OK, OK, FAIL, INFO))
                r(["put", last + 1, 100 + i], outcome=outcome)
                if outcome == OK or outcome == INFO and rng.random() < 0.5:
                    last += 1
                    waiting.append((last, 100 + i))
            elif len(waiting) > 1:
                r(["take", *waiting.pop(0)], client=rng.randrange(3))
        r(["left", "queue", [list(w) for w in waiting]], final=True)

    def twice(r, rng):
        t, op = some(rng, r, "take")
        r([*op[:3]], client=7)

    def lose(r, rng):
        left = some(rng, r, "left")[1][2]
        r.history.transactions.insert(0, checker.Transaction("new", [["put", 900, 900, 0]]))

    def failed(r, rng):
        op = some(rng, r, "take")[1]
        t = next((t for t in r.history for o in t.ops if o[0] == "put" and o[2] == op[2]), None)
        if t is None:                       # the first was there before all
            op[1], op[2] = 950, 950
            t = checker.Transaction("new", [["put", 950, 950, 0]])
            r.history.transactions.insert(0, t)
        t.outcome = FAIL

    def invent(r, rng):
        op = some(rng, r, "take")[1]
        op[2] = 9999

    def still(r, rng):
        op = some(rng, r, "take")[1]
        some(rng, r, "left")[1][2].append([op[1], op[2]])

    def overtake(r, rng):
        r.at = 2000
        r(["put", 2000, 2000])
        r(["put", 2001, 2001])
        r(["take", 2001, 2001], client=8)
        r(["take", 2000, 2000], client=9)

    def backwards(r, rng):
        r.at = 2000
        r(["put", 2001, 2001], client=6)
        r(["take", 2001, 2001], client=8)
        r(["put", 2000, 2000], client=6)
        r(["take", 2000, 2000], client=8)
    for wanted, spoil in (("duplicate", twice), ("lost", lose), ("G1a", failed), ("garbage", invent),
                          ("lost", still), ("order", overtake), ("order", backwards)):
        rule("queue", wanted, spoil, build)


def jobs_rules():
    def build(r, rng):
        waiting, last = list(range(-60, 0)), 0
        for i in range(80):
            outcome = rng.choice((OK, OK, OK, FAIL, INFO))
            happens = outcome == OK or outcome == INFO and rng.random() < 0.5
            if rng.random() < 0.5:
                r(["put", "job", i], outcome=outcome)
                waiting += [i] if happens else []
            else:
                r(["draw", "ticket", last + 1], ["take", "job", waiting[0]], outcome=outcome)
                if happens:
                    last += 1
                    waiting.pop(0)
        r(["last", "ticket", last], ["left", "job", waiting], final=True)

    def again(name):
        def spoil(r, rng):
            op = rng.choice([op for t in r.history for op in t.ops if op[0] == name and t.outcome == OK])
            r([*op[:3]], client=7)
        spoil.__name__ = f"{name}_again"
        return spoil

    def lose(r, rng):
        some(rng, r, "left")[1][2].remove(lost(r))

    def lost(r):
        """A job that is left and surely was put."""
        unsure = {op[2] for t in r.history for op in t.ops if op[0] == "put" and t.outcome != OK}
        return next(v for t in r.history for op in t.ops if op[0] == "left" for v in reversed(op[2]) if v not in unsure)

    def still(r, rng):
        job = rng.choice([op[2] for t in r.history for op in t.ops if op[0] == "take" and t.outcome == OK])
        some(rng, r, "left")[1][2].append(job)

    def invent(r, rng):
        some(rng, r, "left")[1][2].append(9999)

    def forget(r, rng):
        some(rng, r, "last")[1][2] = 0

    def skip(r, rng):
        some(rng, r, "last")[1][2] += 200
    for wanted, spoil in (("duplicate", again("take")), ("lost-update", again("draw")), ("lost", lose), ("lost", still),
                          ("garbage", invent), ("lost", forget), ("garbage", skip)):
        rule("jobs", wanted, spoil, build)


def skew_rules():
    def build(r, rng):
        for _ in range(20):
            r(["present", rng.randint(1, 3), rng.randint(1, 3)])

    def deserted(r, rng):
        some(rng, r, "present")[1][2] = 0

    def overlap(r, rng):
        r(["overlap", 1, [7, 8]], final=True)

    def both(r, rng):
        r(["both", "pair", 7], final=True)
    for wanted, spoil in (("write-skew", deserted), ("phantom", overlap), ("write-skew", both)):
        rule("skew", wanted, spoil, build)


def body():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--histories", type=int, default=70)
    args = p.parse_args()
    tap.note(f"--seed {args.seed} --histories {args.histories}")
    good(args)
    templates(args)
    mutations(args)
    special()
    for rules in (bank_rules, counter_rules, ring_rules, unique_rules, queue_rules, jobs_rules, skew_rules):
        rules()


main(body)
