"""bench.py: measures and reports; script/bench starts the servers and calls it.

All systems are measured in turn within each round, so that whatever else the
machine does meets all of them; a figure is the median over the rounds.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TMP = HERE.parent / "tmp" / "bench"
RESULTS = HERE / "results"
NODES = os.environ["MOSQL_NODES"]

NAMES = {
    "native": "PostgreSQL",
    "postgres_fdw": "postgres_fdw",
    "script": "mosql_fdw, script",
    "watch": "mosql_fdw, watch",
    "limit": "protocol, no SQL",
}
PARTS = ["load", "memory", "scan", "alter", "trips", "index_build", "index_load", "index_update", "lookup",
         "index_trips", "select", "tpcb"]

# Tables indexed0, indexed1, indexed3: so many indexes besides the key, and so many rows.
INDEXES = [0, 1, 3]
INDEXED_ROWS = 100_000

# What a pgbench_accounts row holds: aid, bid, abalance, filler.
ROW_BYTES = 4 + 4 + 4 + 84


# ---- running things ----

def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def sql(database, text):
    done = run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-f", "-", text=text)
    return done.stdout.strip()


def timed(database, statement, warm_up="SELECT 1"):
    """Seconds that one statement takes in a session that is warm."""
    out = sql(database, f"{warm_up} \\g /dev/null\n\\timing on\n{statement}\n")
    return float(re.findall(r"^Time: ([0-9.]+) ms", out, re.M)[-1]) / 1000


def redis_memory():
    total = 0
    for node in NODES.split(","):
        host, port = node.rsplit(":", 1)
        cli = shutil.which("redis-cli") or "valkey-cli"
        info = run(cli, "-h", host, "-p", port, "info", "memory").stdout
        total += int(re.search(r"^used_memory:(\d+)", info, re.M).group(1))
    return total


def progress(text):
    print(f"\r\033[K{text}" if sys.stderr.isatty() else text, file=sys.stderr,
          end="" if sys.stderr.isatty() else "\n", flush=True)


# ---- the tables ----

PLAIN_TABLES = """
CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88)) WITH (fillfactor = 100);
CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
"""

MOSQL_TABLES = """
CREATE FOREIGN TABLE pgbench_branches (
    bid int OPTIONS (key 'true') NOT NULL, bbalance int, filler char(88)) SERVER bench;
CREATE FOREIGN TABLE pgbench_tellers (
    tid int OPTIONS (key 'true') NOT NULL, bid int, tbalance int, filler char(84)) SERVER bench;
CREATE FOREIGN TABLE pgbench_accounts (
    aid int OPTIONS (key 'true') NOT NULL, bid int, abalance int, filler char(84)) SERVER bench;
CREATE FOREIGN TABLE pgbench_history (
    tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)) SERVER bench;
"""

TRUNCATE = "TRUNCATE pgbench_accounts;"


def indexed_tables(foreign):
    out = ""
    for n in INDEXES:
        key = "OPTIONS (key 'true') NOT NULL" if foreign else "PRIMARY KEY"
        out += (f"CREATE {'FOREIGN ' if foreign else ''}TABLE indexed{n} (id int {key}, a int, b int, c int, "
                f"filler char(60)) {'SERVER bench' if foreign else ''};\n")
        out += "".join(f"CREATE INDEX ON indexed{n} ({column});\n" for column in "abc"[:n])
    return out


def create(system):
    sql("postgres", f"CREATE DATABASE {system}")
    if system == "native":
        sql(system, PLAIN_TABLES + indexed_tables(False))
    elif system == "postgres_fdw":
        sql("postgres", "CREATE DATABASE remote")
        sql("remote", PLAIN_TABLES + indexed_tables(False))
        sql(system, f"""
            CREATE EXTENSION postgres_fdw;
            CREATE SERVER bench FOREIGN DATA WRAPPER postgres_fdw OPTIONS (
                host '127.0.0.1', port '{os.environ["PGPORT"]}', dbname 'remote',
                batch_size '1000', fetch_size '10000');
            CREATE USER MAPPING FOR CURRENT_USER SERVER bench OPTIONS (user 'postgres');
            IMPORT FOREIGN SCHEMA public FROM SERVER bench INTO public;""")
    else:
        sql(system, f"""
            CREATE EXTENSION mosql_fdw;
            CREATE SERVER bench FOREIGN DATA WRAPPER mosql_fdw OPTIONS (
                nodes '{NODES}', namespace 'bench_{system}', atomic '{system}');
            {MOSQL_TABLES} {indexed_tables(True)}""")


def insert_accounts(rows):
    return ("INSERT INTO pgbench_accounts SELECT aid, (aid - 1) / 100000 + 1, 0, '' "
            f"FROM generate_series(1, {rows}) aid;")


def fill(system, scale):
    """Everything but accounts, as pgbench -i has it; then statistics."""
    sql(system, f"""
        INSERT INTO pgbench_branches SELECT bid, 0, NULL FROM generate_series(1, {scale}) bid;
        INSERT INTO pgbench_tellers SELECT tid, (tid - 1) / 10 + 1, 0, NULL
            FROM generate_series(1, {scale * 10}) tid;""")
    for database in {"native": ["native"], "postgres_fdw": ["remote"]}.get(system, []):
        sql(database, "VACUUM ANALYZE")
    if system != "native":
        sql(system, "ANALYZE pgbench_accounts")
    sql("postgres", "CHECKPOINT")


# ---- the measurements: each returns a figure for one system, once ----

def measure_load(system, options):
    rows = options.scale * 100_000
    data = TMP / "accounts.tsv"
    if not data.exists() or data.stat().st_size == 0 or options.data_rows != rows:
        with open(data, "w") as out:
            out.writelines(f"{aid}\t{(aid - 1) // 100000 + 1}\t0\t\n" for aid in range(1, rows + 1))
        options.data_rows = rows
    sql(system, TRUNCATE)
    yield "COPY", rows / timed(system, f"\\copy pgbench_accounts FROM '{data}'")
    sql(system, TRUNCATE)
    yield "INSERT … SELECT", rows / timed(system, insert_accounts(rows))


def measure_memory(system, options):
    rows = options.scale * 100_000
    sql(system, TRUNCATE)
    time.sleep(1)
    before = redis_memory()
    sql(system, insert_accounts(rows))
    time.sleep(1)
    return (redis_memory() - before) / rows


def measure_scan(system, options):
    rows = options.scale * 100_000
    warm_up = "SELECT FROM pgbench_accounts WHERE aid = 1"
    what = "SELECT count(*), sum(abalance) FROM pgbench_accounts"
    low, high = rows // 4 + 1, rows * 3 // 4
    yield "all rows", rows / timed(system, f"{what};", warm_up)
    yield "half, by range", (high - low + 1) / timed(
        system, f"{what} WHERE aid BETWEEN {low} AND {high};", warm_up)


def measure_alter(system):
    """Milliseconds of ALTER TABLE of accounts; in the end it is as it was."""
    table = "ALTER TABLE pgbench_accounts"
    for what, change in (("ADD COLUMN", "ADD COLUMN later int"),
                         ("ADD COLUMN … DEFAULT", "ADD COLUMN seven int NOT NULL DEFAULT 7"),
                         ("RENAME COLUMN", "RENAME COLUMN later TO last"),
                         ("DROP COLUMN", "DROP COLUMN last, DROP COLUMN seven"),
                         ("SET NOT NULL", "ALTER bid SET NOT NULL")):
        yield what, 1000 * timed(system, f"{table} {change};", "SELECT FROM pgbench_accounts WHERE aid = 1")
    sql(system, f"{table} ALTER bid DROP NOT NULL")


def indexes(n):
    return {0: "no index", 1: "1 index"}.get(n, f"{n} indexes")


def measure_index_load(system):
    for n in INDEXES:
        sql(system, f"TRUNCATE indexed{n}")
        yield indexes(n), INDEXED_ROWS / timed(
            system, f"INSERT INTO indexed{n} SELECT i, i * 7919 % {INDEXED_ROWS}, i % 1000, -i, '' "
            f"FROM generate_series(1, {INDEXED_ROWS}) i;", f"SELECT FROM indexed{n} WHERE id = 1")


def measure_index_trips(system):
    """Each operation in a transaction of its own, so that COMMIT's are in it, if it writes."""
    for n in INDEXES:
        if sql(system, f"SELECT count(*) FROM indexed{n}") == "0":
            sql(system, f"INSERT INTO indexed{n} SELECT i, i * 7919 % {INDEXED_ROWS}, i % 1000, -i, '' "
                f"FROM generate_series(1, {INDEXED_ROWS}) i; ANALYZE indexed{n}")

    def count(text):
        return round_trips(system, lambda i: text.format(i=i * 997) + " \\g /dev/null\n", 100)

    yield "SELECT by key", count("SELECT b FROM indexed3 WHERE id = {i}")
    yield "by index", count("SELECT b FROM indexed3 WHERE a = {i}")
    yield "index only", count("SELECT a FROM indexed3 WHERE a = {i}")
    for n in INDEXES:
        yield f"UPDATE, {indexes(n)}", count(f"UPDATE indexed{n} SET a = a + 1 - {{i}} % 3 WHERE id = {{i}}")
    yield "ON CONFLICT DO UPDATE", count("INSERT INTO indexed1 (id, a) VALUES ({i}, {i}) "
                                         "ON CONFLICT (id) DO UPDATE SET a = excluded.a + 1")


def run_script(system, clients, options, script):
    path = TMP / "script.sql"
    path.write_text(f"\\set id random(1, {INDEXED_ROWS})\n\\set v random(1, {INDEXED_ROWS})\n{script};\n")
    return measure_pgbench(system, clients, options, "-f", str(path))


def measure_lookup(system, clients, options):
    """In the tables as loaded, where each value of a is there once; then upserts into another."""
    for n in INDEXES:
        sql("remote" if system == "postgres_fdw" else system, f"ANALYZE indexed{n}")
    yield "primary key", run_script(system, clients, options, "SELECT b FROM indexed3 WHERE id = :id")
    yield "index", run_script(system, clients, options, "SELECT b FROM indexed3 WHERE a = :id")
    yield "index only", run_script(system, clients, options, "SELECT a FROM indexed3 WHERE a = :id")
    if system != "postgres_fdw":
        yield "ON CONFLICT DO UPDATE", run_script(
            system, clients, options, "INSERT INTO indexed1 (id, a) VALUES (:id, :v) "
            "ON CONFLICT (id) DO UPDATE SET a = excluded.a")


def measure_index_update(system, clients, options):
    for n in INDEXES:
        yield indexes(n), run_script(system, clients, options, f"UPDATE indexed{n} SET a = :v WHERE id = :id")


def measure_index_build(system, options):
    """CREATE INDEX on accounts: alone, and while 4 clients run TPC-B."""
    rows = options.scale * 100_000
    create = "CREATE INDEX CONCURRENTLY built ON pgbench_accounts (bid, aid) INCLUDE (abalance);"
    warm_up = "SELECT FROM pgbench_accounts WHERE aid = 1"
    yield "alone", rows / timed(system, create, warm_up), None
    sql(system, "DROP INDEX built")
    before, _ = measure_pgbench(system, 4, options)
    clients = subprocess.Popen(
        ["pgbench", "-n", "-M", "prepared", "-c", "4", "-j", str(min(4, os.cpu_count())), "-T", "600", "-P", "1",
         "--max-tries=1", system], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    seconds = timed(system, create, warm_up)
    clients.send_signal(signal.SIGINT)
    said = clients.communicate()[1]
    sql(system, "DROP INDEX built")
    yield "while 4 clients write", rows / seconds, None
    during = [float(tps) for tps in re.findall(r"([0-9.]+) tps", said)][2:]
    failed = sum(int(n) for n in re.findall(r"([0-9]+) failed", said))
    done = sum(float(tps) for tps in re.findall(r"([0-9.]+) tps", said))
    if during:
        yield "their transactions/s, % of those before", 100 * statistics.mean(during) / before, \
            100 * failed / max(done, 1)


TPCB = """
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = {aid};
SELECT abalance FROM pgbench_accounts WHERE aid = {aid} \\g /dev/null
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = {tid};
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({tid}, 1, {aid}, 1, now());
END;
"""


def round_trips(system, text, times=1, inside=""):
    """Of one operation in a warm session; text may be made of its number, from 1."""
    body = "".join(text(i + 1) if callable(text) else text for i in range(times))
    warm = body if times > 1 else ""
    out = sql(system, f"""{warm}
        {inside} SELECT value AS before FROM mosql_fdw_stats() WHERE name = 'round_trips' \\gset
        {body} SELECT value - :before FROM mosql_fdw_stats() WHERE name = 'round_trips';
        {"ROLLBACK;" if inside else ""}""")
    return int(out.splitlines()[-1]) / times


def measure_trips(system, options):
    def count(*args, **options):
        return round_trips(system, *args, **options)

    def read(i):
        return f"SELECT abalance FROM pgbench_accounts WHERE aid = {i * 997 + 1} \\g /dev/null\n"

    def commit(rows):
        return count("COMMIT;", inside=f"""BEGIN;
            UPDATE pgbench_accounts SET filler = 'x' WHERE aid BETWEEN 1000 AND {999 + rows};""")

    yield "SELECT by key", count(read, 100)
    yield "COMMIT, read only", count("COMMIT;", inside=f"BEGIN; {read(5)}")
    yield "COMMIT, 1 row", commit(1)
    yield "COMMIT, 1000 rows", commit(1000)
    yield "COMMIT, 20000 rows", commit(20000)
    yield "TPC-B transaction", count(lambda i: TPCB.format(aid=i * 997 + 1, tid=i % 10 + 1), 100)


def measure_pgbench(system, clients, options, *arguments):
    """(tps of successful transactions, percent failed)"""
    if system == "limit":
        out = run(str(TMP / "limit"), "--nodes", NODES, "--scale", str(options.scale),
                  "--clients", str(clients), "--seconds", str(options.time)).stdout
        return float(re.search(r"tps ([0-9.]+)", out).group(1)), 0.0
    out = run("pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j",
              str(min(clients, os.cpu_count())), "-T", str(options.time), "--max-tries=1",
              *arguments, system).stdout
    failed = re.search(r"number of failed transactions: \d+ \(([0-9.]+)%\)", out)
    return float(re.search(r"^tps = ([0-9.]+)", out, re.M).group(1)), float(failed.group(1))


# ---- collecting ----

class Figures:
    """Figures by (part, what, system): all rounds; read as medians."""

    def __init__(self):
        self.runs = {}

    def add(self, part, what, system, value, failed=None):
        self.runs.setdefault((part, str(what), system), []).append((value, failed))

    def get(self, part, what, system):
        runs = self.runs.get((part, str(what), system))
        return statistics.median(v for v, _ in runs) if runs else None

    def failed(self, part, what, system):
        runs = self.runs.get((part, str(what), system), [])
        known = [f for _, f in runs if f is not None]
        return statistics.mean(known) if known else None

    def whats(self, part):
        return list(dict.fromkeys(w for p, w, _ in self.runs if p == part))

    def systems(self, part):
        return [s for s in NAMES if any(p == part and s == t for p, _, t in self.runs)]


def measure_all(options):
    figures = Figures()
    systems = [s for s in options.systems if s != "limit"]
    ours = [s for s in systems if s in ("script", "watch")]

    for system in systems:
        create(system)
    if "limit" in options.systems:
        run(str(TMP / "limit"), "--nodes", NODES, "--scale", str(options.scale), "--load")

    if "load" in options.parts:
        for r in range(options.rounds):
            for system in systems:
                progress(f"load {r + 1}/{options.rounds}: {NAMES[system]}")
                for what, value in measure_load(system, options):
                    figures.add("load", what, system, value)
    if "memory" in options.parts:
        for system in ours:
            progress(f"memory: {NAMES[system]}")
            figures.add("memory", "bytes per row", system, measure_memory(system, options))
    for system in systems:
        if sql(system, "SELECT FROM pgbench_accounts LIMIT 1; SELECT count(*) FROM pgbench_accounts") \
                .splitlines()[-1] != str(options.scale * 100_000):
            sql(system, TRUNCATE + insert_accounts(options.scale * 100_000))
        fill(system, options.scale)
    if "scan" in options.parts:
        for r in range(options.rounds):
            for system in systems:
                progress(f"scan {r + 1}/{options.rounds}: {NAMES[system]}")
                for what, value in measure_scan(system, options):
                    figures.add("scan", what, system, value)
    if "alter" in options.parts:
        for r in range(options.rounds):
            for system in [s for s in systems if s != "postgres_fdw"]:
                progress(f"alter {r + 1}/{options.rounds}: {NAMES[system]}")
                for what, value in measure_alter(system):
                    figures.add("alter", what, system, value)
    if "index_build" in options.parts:
        for r in range(options.rounds):
            for system in [s for s in systems if s != "postgres_fdw"]:
                progress(f"index build {r + 1}/{options.rounds}: {NAMES[system]}")
                for what, value, failed in measure_index_build(system, options):
                    figures.add("index_build", what, system, value, failed)
    if {"index_load", "lookup", "index_update"} & set(options.parts):
        for r in range(options.rounds):
            for system in systems:
                progress(f"indexes {r + 1}/{options.rounds}: {NAMES[system]}")
                for what, value in measure_index_load(system):
                    figures.add("index_load", what, system, value)
                for part, measure in (("lookup", measure_lookup), ("index_update", measure_index_update)):
                    for what, (tps, failed) in measure(system, 4, options) if part in options.parts else ():
                        figures.add(part, what, system, tps, failed)
    if "index_trips" in options.parts:
        for system in ours:
            progress(f"round trips, indexes: {NAMES[system]}")
            for what, value in measure_index_trips(system):
                figures.add("index_trips", what, system, value)
    if "trips" in options.parts:
        for system in ours:
            progress(f"round trips: {NAMES[system]}")
            for what, value in measure_trips(system, options):
                figures.add("trips", what, system, value)
    for part, arguments in (("select", ["-S"]), ("tpcb", [])):
        if part not in options.parts:
            continue
        for r in range(options.rounds):
            for clients in options.clients:
                for system in options.systems if part == "tpcb" else systems:
                    progress(f"{part} {r + 1}/{options.rounds}, {column(part, clients)}: {NAMES[system]}")
                    tps, failed = measure_pgbench(system, clients, options, *arguments)
                    figures.add(part, clients, system, tps, failed)
        if part == "tpcb":
            for system in systems:
                check_sums(system)
    progress("\n" if sys.stderr.isatty() else "measured")
    return figures


def check_sums(system):
    sums = sql(system, """
        SELECT sum(abalance) FROM pgbench_accounts UNION SELECT sum(tbalance) FROM pgbench_tellers
        UNION SELECT sum(bbalance) FROM pgbench_branches UNION SELECT sum(delta) FROM pgbench_history""")
    if len(sums.splitlines()) != 1:
        sys.exit(f"{NAMES[system]}: the sums of accounts, tellers, branches and history differ: {sums}")


# ---- reporting ----

TITLES = {
    "tpcb": "TPC-B, scale {scale}, -M prepared: transactions per second",
    "select": "SELECT by key, pgbench -S -M prepared: transactions per second",
    "load": "Loading {rows} accounts: rows per second",
    "scan": "SELECT count(*), sum(abalance): rows per second, one backend",
    "trips": "Round trips to Redis",
    "index_trips": "Round trips to Redis of one statement, commit included, 100 000 rows",
    "alter": "ALTER TABLE at {rows} rows: milliseconds",
    "index_build": "CREATE INDEX CONCURRENTLY on {rows} accounts: rows per second",
    "index_load": "INSERT … SELECT of 100 000 rows, by secondary indexes: rows per second",
    "index_update": "UPDATE of an indexed column, 4 clients, by secondary indexes: transactions per second",
    "lookup": "One row of 100 000, 4 clients: transactions per second",
    "memory": "Memory in Redis per row",
}
NOTES = {
    "scan": "postgres_fdw lets the other server add up; only the sums travel.",
    "tpcb": "Failed: serialization errors, which pgbench does not retry here and does not count as transactions.",
    "load": "postgres_fdw with batch_size 1000.",
    "lookup": "postgres_fdw has no ON CONFLICT DO UPDATE.",
}
HEADS = {"tpcb": "{} clients", "select": "{} clients"}


def number(value):
    if value is None:
        return "–"
    if value < 100:
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:,.0f}".replace(",", " ")


def column(part, what):
    head = HEADS.get(part, "{}").format(what)
    return "1 client" if head == "1 clients" else head


def cell(figures, part, what, system):
    value = figures.get(part, what, system)
    text = number(value)
    failed = figures.failed(part, what, system)
    if part in ("tpcb", "index_build") and system != "limit" and failed is not None:
        text += f", {failed:.0f} % failed" if failed >= 0.5 or failed == 0 else f", {failed:.1f} % failed"
    if part == "memory" and value is not None:
        text += f" ({value / ROW_BYTES:.2f} × its {ROW_BYTES} bytes of data)"
    return text


def ratio(figures, part, what, system, base):
    a, b = figures.get(part, what, system), figures.get(part, what, base)
    return f"{a / b:.2f} ×" if a is not None and b else "–"


def tables(figures, options):
    """[(title, header, rows, note)] for every part that was measured."""
    out = []
    for part in reversed(PARTS):
        systems, whats = figures.systems(part), figures.whats(part)
        if not systems:
            continue
        title = TITLES[part].format(scale=options.scale, rows=number(options.scale * 100_000))
        header = [""] + [column(part, w) for w in whats]
        rows = [[NAMES[s]] + [cell(figures, part, w, s) for w in whats] for s in systems]
        for s in ("script", "watch"):
            for base in ("native", "postgres_fdw"):
                if part not in ("memory", "trips", "index_trips", "alter") and s in systems and base in systems:
                    rows.append([f"{s} / {NAMES[base]}"] +
                                [ratio(figures, part, w, s, base) for w in whats])
        out.append((title, header, rows, NOTES.get(part, "") if "postgres_fdw" in systems else ""))
    return out


def facts(options):
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "date": datetime.datetime.now().isoformat(timespec="minutes"),
        "commit": os.environ["MOSQL_COMMIT"],
        "postgresql": sql("postgres", "SHOW server_version").split()[0],
        "redis": os.environ.get("REDIS_VERSION", ""),
        "redis nodes": len(NODES.split(",")),
        "cpu": f"{os.cpu_count()} × {cpu.group(1) if cpu else platform.machine()}",
        "kernel": platform.release().split("-")[0],
        "scale": options.scale,
        "seconds per run": options.time,
        "rounds": options.rounds,
        "load average before": options.load_average,
    }


def print_tables(figures, options, about):
    print("  ".join(f"{k} {v}" for k, v in about.items()))
    for title, header, rows, note in tables(figures, options):
        width = [max(len(r[i]) for r in [header] + rows) for i in range(len(header))]
        print(f"\n{title}\n")
        for row in [header] + rows:
            print("  " + "  ".join(c.rjust(w) if i else c.ljust(w)
                                   for i, (c, w) in enumerate(zip(row, width))).rstrip())
        if note:
            print(f"\n  {note}")


def panels_of(figures):
    return [p for p in ("tpcb", "select", "load", "scan") if figures.systems(p)]


def write_markdown(figures, options, about, path):
    lines = ["# Benchmark", "", "All in one run on one machine, systems interleaved; medians.", ""]
    lines += [f"- {k}: {v}" for k, v in about.items()]
    if panels_of(figures):
        lines += ["", f"![bars]({path.stem}.png)"]
    for title, header, rows, note in tables(figures, options):
        lines += ["", f"## {title}", "", "| " + " | ".join(header) + " |",
                  "|---" + "|--:" * (len(header) - 1) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows] + (["", note] if note else [])
    path.write_text("\n".join(lines) + "\n")


def write_json(figures, about, path):
    path.write_text(json.dumps({
        "about": about,
        "figures": [{"part": part, "what": what, "system": system,
                     "median": figures.get(part, what, system),
                     "failed_percent": figures.failed(part, what, system),
                     "rounds": [v for v, _ in runs]}
                    for (part, what, system), runs in figures.runs.items()],
    }, indent=1) + "\n")


COLORS = {"native": "#9aa5b1", "postgres_fdw": "#4a6fa5", "script": "#d1495b",
          "watch": "#edae49", "limit": "#ffffff"}


def short(value):
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:.{1 if value < 10 * factor else 0}f}{unit}"
    return f"{value:.0f}"


def plot(figures, options, about, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    plt.rcParams.update({"font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False,
                         "axes.spines.left": False, "font.family": "DejaVu Sans"})
    panels = panels_of(figures)
    if not panels:
        return
    across = min(2, len(panels))
    down = (len(panels) + across - 1) // across
    fig, axes = plt.subplots(down, across, figsize=(6.6 * across, 3.9 * down), squeeze=False)
    legend = {}

    for ax, part in zip(axes.flat, panels):
        systems, whats = figures.systems(part), figures.whats(part)
        width = 0.84 / len(systems)
        top = 0
        for i, system in enumerate(systems):
            for j, what in enumerate(whats):
                value = figures.get(part, what, system)
                if value is None:
                    continue
                top = max(top, value)
                bar = ax.bar(j + (i - (len(systems) - 1) / 2) * width, value, width * 0.92,
                             color=COLORS[system], edgecolor="#555555" if system == "limit" else "none",
                             linewidth=0.8, hatch="////" if system == "limit" else None, zorder=2)
                legend.setdefault(NAMES[system], bar)
                label = short(value)
                if system in ("script", "watch") and figures.get(part, what, "postgres_fdw"):
                    label += f"\n{value / figures.get(part, what, 'postgres_fdw'):.1f}×"
                failed = figures.failed(part, what, system)
                if failed is not None and failed >= 0.5:
                    label += f"\n{failed:.0f} %\nfailed"
                ax.annotate(label, (bar[0].get_x() + bar[0].get_width() / 2, value), ha="center",
                            va="bottom", fontsize=7, color="#333333", xytext=(0, 2),
                            textcoords="offset points", linespacing=1.15)
        title = TITLES[part].format(scale=options.scale, rows=number(options.scale * 100_000))
        ax.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=12)
        ax.set_xticks(range(len(whats)), [column(part, w) for w in whats])
        ax.set_ylim(0, top * 1.18)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v) if v else "0"))
        ax.tick_params(length=0, colors="#444444")
        ax.grid(axis="y", color="#e6e6e6", zorder=0)
        ax.set_axisbelow(True)
    for ax in list(axes.flat)[len(panels):]:
        ax.set_visible(False)
    fig.legend(legend.values(), legend.keys(), loc="upper center", ncol=len(legend), frameon=False,
               bbox_to_anchor=(0.5, 1.0))
    fig.text(0.995, 0.004, f"× = against postgres_fdw    PostgreSQL {about['postgresql']}, "
             f"{about['redis']} × {about['redis nodes']}, {about['cpu']}", ha="right", fontsize=7.5,
             color="#777777")
    fig.tight_layout(rect=(0, 0.015, 1, 0.955), h_pad=2.2, w_pad=2.5)
    fig.savefig(path, dpi=130)


def main():
    def names(allowed):
        def parse(text):
            chosen = text.split(",")
            for c in chosen:
                if c not in allowed:
                    raise argparse.ArgumentTypeError(f"{c} is none of {', '.join(allowed)}")
            return [a for a in allowed if a in chosen]
        return parse

    parser = argparse.ArgumentParser(prog="script/bench")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--time", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--clients", default=[1, 4, 16], type=lambda t: [int(c) for c in t.split(",")])
    parser.add_argument("--systems", default=list(NAMES), type=names(list(NAMES)))
    parser.add_argument("--parts", default=PARTS, type=names(PARTS))
    parser.add_argument("--name", default="latest")
    options = parser.parse_args()
    options.time = options.time or (3 if options.quick else 10)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.data_rows = 0
    options.load_average = round(os.getloadavg()[0], 1)

    figures = measure_all(options)
    about = facts(options)
    RESULTS.mkdir(exist_ok=True)
    write_json(figures, about, RESULTS / f"{options.name}.json")
    write_markdown(figures, options, about, RESULTS / f"{options.name}.md")
    plot(figures, options, about, RESULTS / f"{options.name}.png")
    print_tables(figures, options, about)
    print(f"\nwritten: bench/results/{options.name}.*")


if __name__ == "__main__":
    main()
