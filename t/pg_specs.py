#!/usr/bin/python3
"""PostgreSQL's own isolation specs about row locks, from the source package of the PostgreSQL that
is tested, on tables of ours and on its own: each step's rows or SQLSTATE and notices, who waits, and
after which step he goes on must be the same.

What differs is listed here with the reason (docs/locking.md says it to users), and what cannot be
run on foreign tables.

    t/pg_specs.py [--all] [SPEC]...     by default some orders of the steps of each spec"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import isolation
from mosqltest import *
from postgres_source import source

SPECS = """aborted-keyrevoke deadlock-hard deadlock-simple deadlock-soft deadlock-soft-2 delete-abort-savept
    delete-abort-savept-2 eval-plan-qual eval-plan-qual-trigger fk-contention fk-deadlock fk-deadlock2 fk-snapshot
    insert-conflict-do-nothing insert-conflict-do-nothing-2 insert-conflict-do-update insert-conflict-do-update-2
    insert-conflict-do-update-3 insert-conflict-do-update-4 insert-conflict-specconflict lock-committed-keyupdate
    lock-committed-update lock-update-delete lock-update-traversal multixact-no-deadlock multixact-no-forget nowait
    nowait-2 nowait-3 nowait-4 nowait-5 propagate-lock-delete referential-integrity ri-trigger skip-locked
    skip-locked-2 skip-locked-3 skip-locked-4 tuplelock-conflict tuplelock-partition tuplelock-update
    tuplelock-upgrade-no-deadlock update-locked-tuple""".split()
A_FEW = 3                       # orders of each spec

# What PostgreSQL or docs/ddl.md forbids: the setup of these is refused.
FORBIDDEN = {
    "fk-snapshot": "no foreign key leads from or to a partitioned table of the server's own",
    "insert-conflict-specconflict": "no index on a function of the user's, which every server would have to compute alike",
}
NEWEST = "FOR KEY SHARE returns the newest version, above READ COMMITTED 40001"
QUEUE = "nobody overtakes who waits"
# (spec, part of the orders of its steps): how it differs, as docs/locking.md says
DIFFERS = {
    ("tuplelock-partition", ""): "ON CONFLICT DO UPDATE by way of a partitioned table is refused",
    ("eval-plan-qual", r"\btid"): "a ctid names no place",
    ("eval-plan-qual-trigger", r"s1_upd_a_tob s2_upd_all_data s1_c"): "a row whose key was changed is gone for who waited for it",
    ("lock-committed-update", r"s1u.* s1c "): NEWEST,
    ("lock-committed-keyupdate", r"s1u.* s1c "): NEWEST,
    ("lock-update-delete", r"s2_blocker3 s2c"): NEWEST,
    ("lock-update-traversal", r""): NEWEST,
    ("tuplelock-update", r""): NEWEST,
    ("tuplelock-upgrade-no-deadlock", r"s1_share s2_for_update s3_share|s1_keyshare s2_for_update s3_keyshare|s3_for_update s2_for_keyshare"): QUEUE,
}


def tolerated(spec, order, found, theirs):
    """Why this difference is none, or one that the documents tell; None: it is one."""
    for (name, part), why in DIFFERS.items():
        if name == spec.name and re.search(part, " ".join(order)):
            return why
    if found.keys() != theirs.keys() or any(isinstance(o[2], str) for o in [*found.values(), *theirs.values()]):
        return None
    if all(found[i][:2] == theirs[i][:2] and found[i][2][:2] == theirs[i][2][:2] for i in found):
        return "conditions are evaluated, and triggers fire, at other moments: notices"
    states = [{(spec.steps[order[i]][0], o[2][1]) for i, o in said.items() if o[2][1]} for said in (found, theirs)]
    if spec.serializable and {who for who, _ in states[0]} == {who for who, _ in states[1]}:
        return "SERIALIZABLE: the same transaction fails, at another step"
    if spec.name == "eval-plan-qual-trigger" and "40001" in {state for _, state in states[0]}:
        return "a volatile condition on a table with row triggers: 40001 if the row is newer"
    return None


def body():
    everything = "--all" in sys.argv
    chosen = [a for a in sys.argv[1:] if a != "--all"]
    cluster, server = Cluster("pgspecs", plain=True), Server("pgspecs")
    with contextlib.closing(server.connect()) as conn:
        where = source(value(conn, "SELECT current_setting('server_version_num')::int / 10000"), "src/test/isolation/specs")
        if where is None:
            tap.skip("PostgreSQL's isolation specs", "Debian's source package is not to be had")
            return
        query(conn, "CREATE DATABASE heap")
    make_database(server, "ours", cluster.nodes)
    with contextlib.closing(server.connect("ours")) as conn:
        query(conn, "SELECT mosql_fdw_enable('redis')")

    def heap():
        return server.connect("heap")

    def ours():
        return server.connect("ours")

    for name in chosen or SPECS:
        spec = isolation.Spec(os.path.join(where, name + ".spec"))
        orders = spec.permutations
        if not everything and not chosen:
            orders = orders[::-(-len(orders) // A_FEW)]
        with section(name):
            if name in FORBIDDEN:
                refused(spec, ours)
                continue
            for order in orders:
                compare(spec, order, heap, ours)
    tap.equal(server.crashes(), [], "no backend died")


def refused(spec, ours):
    try:
        isolation.Run(spec, ours, [])
        tap.ok(False, f"{spec.name}: is not forbidden any more")
    except psycopg2.Error as e:
        tap.ok(e.pgcode.startswith(("0A", "42", "55")), f"{spec.name}: {FORBIDDEN[spec.name]}", e)


def compare(spec, order, heap, ours):
    label = f"{spec.name}: {' '.join(order)}"
    try:
        theirs = isolation.Run(spec, heap, order).said
        found = isolation.Run(spec, ours, order, theirs).said
    except psycopg2.Error as e:
        tap.ok(False, label, e)
        return
    why = None if found == theirs else tolerated(spec, order, found, theirs)
    lines = [f"{order[i]}: {found.get(i)}, PostgreSQL's {theirs.get(i)}" for i in range(len(order)) if found.get(i) != theirs.get(i)]
    tap.ok(found == theirs or why, label + (f" (differs: {why})" if why else ""), "\n".join(lines))


main(body)
