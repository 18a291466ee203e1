#!/usr/bin/python3
"""PostgreSQL's own regression suite, from the source package of the PostgreSQL that is tested: each file
on tables that plain CREATE TABLE made in Redis, and on PostgreSQL's own.  Statements whose outcome
differs are counted by file and by kind; test/lib/pg_regress.txt says how many may, and why.  More of them fail.

    t/pg_regress.py [--all] [FILE]...

By default the files marked in that list with a star; --all: the whole suite, in its order.  What differs is
in tmp/pg_regress/FILE.diff."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import regression
from mosqltest import *
from postgres_source import source

LIST = os.path.join(TOP, "test", "lib", "pg_regress.txt")
FOLDER = os.path.join(TOP, "tmp", "pg_regress")
SETUP = "test_setup"            # the tables that many files read


def body():
    chosen = [a for a in sys.argv[1:] if a != "--all"]
    accepted = regression.accepted(LIST)
    servers = {name: Server("pgregress-" + name, ["max_prepared_transactions=2"]) for name in ("heap", "ours")}
    cluster = Cluster("pgregress", plain=True)
    with contextlib.closing(servers["heap"].connect()) as conn:
        version = value(conn, "SELECT current_setting('server_version_num')::int / 10000")
        where = version == 15 and source(version, "src/test/regress")
    if not where:
        tap.skip("PostgreSQL's regression suite", "the list is that of PostgreSQL 15" if version != 15 else
                 "Debian's source package is not to be had")
        return
    for server in servers.values():
        with contextlib.closing(server.connect()) as conn:
            regression.make_database(conn, "regression")
    with contextlib.closing(servers["ours"].connect("regression")) as conn:
        query(conn, f"""CREATE EXTENSION mosql_fdw;
            CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes '{cluster.nodes}', namespace 'regression');
            GRANT USAGE ON FOREIGN SERVER redis TO PUBLIC;
            SELECT mosql_fdw_enable('redis')""")
    os.makedirs(FOLDER, exist_ok=True)
    for name in regression.schedule(where):
        counts, why = accepted.get(name, ({}, ""))
        if name == SETUP or (name in chosen if chosen else "--all" in sys.argv or why.startswith("*")):
            if counts is None:
                tap.skip(name, why)
            else:
                judge(name, play(where, name, servers), counts, why)
    tap.equal(servers["ours"].crashes(), [], "no backend died")


def play(where, name, servers):
    """{kind: [(statement, their answer, our answer)]}, also in a file."""
    said = {}

    def one(side):
        said[side] = regression.run(where, name, servers[side].args, "regression")
    threads = [threading.Thread(target=one, args=(side,)) for side in servers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    found = regression.differences(said["heap"], said["ours"])
    with open(os.path.join(FOLDER, name + ".diff"), "w", errors="surrogateescape") as f:
        for what in sorted(found):
            for line, theirs, ours in found[what]:
                f.write(f"---- {what}\n{line}\n" + "".join(f"< {t}\n" for t in theirs) + "".join(f"> {t}\n" for t in ours))
    return found


def judge(name, found, counts, why):
    numbers = {what: len(found.get(what, [])) for what in regression.KINDS}
    line = f"{name} {' '.join(str(n) for n in numbers.values())}"
    more = {what: f"{n}, listed {counts.get(what, 0)}" for what, n in numbers.items() if n > counts.get(what, 0)}
    tap.ok(not more, line + (f" ({why})" if any(numbers.values()) and why else ""), more)


main(body)
