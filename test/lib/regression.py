"""PostgreSQL's regression suite (src/test/regress), a file at a time: what psql says after each line of it,
and how what one database says differs from what another one does."""
import collections
import os
import re
import subprocess

SECONDS = 1200          # has a file
# PostgreSQL's statement succeeds and ours fails; the other way round; both fail, with other SQLSTATEs; other
# rows; other text of \\d; other notices.  The order of rows that no ORDER BY asks for, and plans, may differ.
KINDS = ["refused", "allowed", "error", "rows", "described", "notices"]
SETTINGS = dict(lc_messages="C", lc_monetary="C", lc_numeric="C", lc_time="C", bytea_output="hex", timezone_abbreviations="Default",
                timezone="PST8PDT", datestyle="Postgres, MDY", intervalstyle="postgres_verbose")


def schedule(where):
    """The files of the suite, in the order in which they run one by one."""
    with open(os.path.join(where, "parallel_schedule")) as f:
        return [name for line in f if line.startswith("test:") for name in line.split()[1:]]


def make_database(conn, name):
    """As pg_regress makes it."""
    with conn.cursor() as cur:
        cur.execute(f"CREATE DATABASE {name} TEMPLATE template0 LOCALE 'C'")
        for setting, v in SETTINGS.items():
            cur.execute(f"ALTER DATABASE {name} SET {setting} = '{v}'")


def lines_of(path):
    """A file's lines without what says nothing, or would hide the SQLSTATEs."""
    with open(path, errors="surrogateescape") as f:
        return [line.rstrip("\n") for line in f
                if line.strip() and not re.match(r"\s*--|\\(un)?set (VERBOSITY|SHOW_CONTEXT)", line)]


def run(where, name, args, dbname):
    """[(line of the file, lines that psql said after it)]"""
    lines = lines_of(os.path.join(where, "sql", name + ".sql"))
    env = dict(os.environ, PG_ABS_SRCDIR=where, PG_ABS_BUILDDIR=where, PG_LIBDIR=where, PG_DLSUFFIX=".so",
               PGHOST=args["host"], PGPORT=args["port"], PGUSER=args["user"], LC_ALL="C", PGAPPNAME="regress/" + name)
    psql = ["psql", "-Xaq", "-v", "VERBOSITY=verbose", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on", "-d", dbname]
    try:
        said = subprocess.run(psql, input="\n".join(lines).encode(errors="surrogateescape") + b"\n", env=env, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    except subprocess.TimeoutExpired as e:
        said = (e.stdout or b"") + b"ERROR:  took too long\n"
    return by_line(lines, said.decode(errors="surrogateescape").splitlines())


def by_line(lines, said):
    """psql repeats each line that it reads (-a), but for data of COPY: so what stands between two of them
    answers the first."""
    lines, answers = echoed(lines), []
    for text in said:
        if len(answers) < len(lines) and text == lines[len(answers)]:
            answers.append((text, []))
        elif text.strip() and answers:
            answers[-1][1].append(text.rstrip())
    return answers + [(line, []) for line in lines[len(answers):]]


def echoed(lines):
    copies, kept = False, []
    for line in lines:
        if copies:
            copies = line != "\\."
            continue
        kept.append(line)
        copies = re.search(r"\bfrom\s+stdin\b.*;\s*$", line, re.I)
    return kept


def judged(said):
    """An answer without what may differ: of a message its severity and SQLSTATE stay."""
    kept, message = [], False
    for text in said:
        if message:
            message = not text.startswith("LOCATION: ")
            continue
        found = re.match(r"(?:psql:\S+ )?(ERROR|FATAL|NOTICE|WARNING|INFO|LOG):  (\w{5}): ", text)
        message = bool(found)
        kept.append(f"{found[1]}:  {found[2]}" if found else text)
    return kept


def kind(line, theirs, ours):
    """How an answer differs, in a word or two; None: it does not."""
    theirs, ours = judged(theirs), judged(ours)
    if theirs == ours:
        return None
    errors = [next((t.split()[1] for t in said if re.match(r"(ERROR|FATAL):  ", t)), None) for said in (theirs, ours)]
    if errors[0] != errors[1]:
        return "refused" if not errors[0] else "allowed" if not errors[1] else "error"
    if errors[0]:
        return None
    if any("QUERY PLAN" in t for t in theirs + ours):
        return "plan"
    if collections.Counter(theirs) == collections.Counter(ours):
        return "order"
    rows = [[t for t in said if not re.match(r"(NOTICE|WARNING|INFO|LOG):", t)] for said in (theirs, ours)]
    if rows[0] == rows[1]:
        return "notices"
    return "described" if line.lstrip().startswith("\\d") else "rows"


def differences(theirs, ours):
    """{kind: [(statement, their answer, our answer)]}"""
    found, statement = collections.defaultdict(list), []
    for (line, said), (_, own) in zip(theirs, ours):
        statement.append(line)
        what = kind(line, said, own)
        if what:
            found[what].append(("\n".join(statement), said, own))
        if said or own or line.rstrip().endswith(";"):
            statement = []
    return found


def accepted(path):
    """{file: ({kind: how many}, why)} of a list: name, a number for each of KINDS, or "-": none is run; why."""
    found = {}
    with open(path) as f:
        for line in f:
            words = line.split(None, len(KINDS) + 1)
            if line.startswith("#") or not words:
                continue
            if words[1] == "-":
                found[words[0]] = None, line.split(None, 2)[2].strip()
            else:
                found[words[0]] = dict(zip(KINDS, map(int, words[1:len(KINDS) + 1]))), words[-1].strip()
    return found
