"""The same program twice: in a database of PostgreSQL's own tables, and in one where plain CREATE TABLE makes
tables in Redis.  What it says must be the same."""
import concurrent.futures
import difflib
import os
import subprocess

from mosqltest import *

KINDS = ["heap", "ours"]


def make_both(server, cluster, name):
    """Databases NAME_heap and NAME_ours."""
    for kind in KINDS:
        with contextlib.closing(server.connect()) as conn:
            query(conn, f"CREATE DATABASE {name}_{kind}")
    with contextlib.closing(server.connect(dbname=f"{name}_ours")) as conn:
        query(conn, "CREATE EXTENSION mosql_fdw")
        query(conn, f"""CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw
                        OPTIONS (nodes '{cluster.nodes}', namespace '{name}')""")
        query(conn, "SELECT mosql_fdw_enable('redis')")


def say(server, db, command, cwd, settings, timeout):
    """What it prints; its exit code."""
    env = {**os.environ, "PGHOST": server.args["host"], "PGPORT": server.args["port"], "PGUSER": "postgres", "PGDATABASE": db, **settings}
    done = subprocess.run(command, cwd=cwd, env=env, timeout=timeout, text=True, errors="replace", stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.stdout.splitlines(), done.returncode, done.stderr


def same_twice(server, cluster, name, command, cwd=TOP, settings=None, timeout=600, also=None, mask=None):
    """Run it on both at once, and compare.  also(conn, db): lines more of each database; mask(lines): what of them
    is compared.  False, and a skipped test, where it does not run on PostgreSQL's own tables."""
    make_both(server, cluster, name)

    def both(kind):
        return say(server, f"{name}_{kind}", command, cwd, settings or {}, timeout)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        said = dict(zip(KINDS, pool.map(both, KINDS)))
    if not said["heap"][0] or said["heap"][1]:
        tap.skip(name, "it does not run on PostgreSQL's own tables: " + said["heap"][2].strip()[-200:].replace("\n", " "))
        return False
    lines = {kind: said[kind][0] for kind in KINDS}
    for kind in KINDS if also else []:
        with contextlib.closing(server.connect(dbname=f"{name}_{kind}")) as conn:
            lines[kind] = lines[kind] + also(conn, f"{name}_{kind}")
    if mask:
        lines = {kind: mask(lines[kind]) for kind in KINDS}
    differing = list(difflib.unified_diff(lines["heap"], lines["ours"], "PostgreSQL's own", "ours", lineterm="", n=1))
    tap.ok(not differing and said["ours"][1] == 0, f"{name}: {len(lines['ours'])} lines, the same", "\n".join(differing) or said["ours"][2])
    with contextlib.closing(server.connect(dbname=f"{name}_ours")) as conn:
        wrong = query(conn, "SELECT t.ftrelid::regclass::text, c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c")
        tap.ok(not wrong, f"{name}: the trees are sound", wrong)
        foreign = value(conn, "SELECT count(*) FROM pg_foreign_table")
        tap.note(f"{name}: {foreign} tables are left in Redis")
    return True
