"""Jobs that are taken with SKIP LOCKED, and tickets drawn under FOR UPDATE: what locks are for."""
from .base import *

WAITING = 60                    # jobs at first
HOLD = 0.02                     # seconds at most for which a worker holds what it has locked


class Jobs(Workload):
    """A worker locks the first job that nobody has, does it, draws a ticket (it reads the
    last one under FOR UPDATE, thinks, and writes one more) and deletes the job.  So
    no job is done twice and no two tickets are the same, whoever dies while he holds locks."""

    name = "jobs"
    tables = ("job (id bigint KEY, pad text)", "ticket (name text KEY, n bigint)")
    clients = 8
    levels = (READ_COMMITTED, REPEATABLE_READ)

    def setup(self, conn):
        query(conn, f"INSERT INTO job SELECT -g, '' FROM generate_series(1, {WAITING}) g")
        query(conn, "INSERT INTO ticket VALUES ('last', 0)")

    def transaction(self, s):
        if s.client % 3 == 1:
            self.put(s)
        elif s.rng.random() < 0.2:
            self.change_mind(s)
        else:
            self.take(s)

    @staticmethod
    def put(s):
        for _ in range(s.rng.randint(1, 4)):
            job = s.element()
            s.execute("INSERT INTO job VALUES (%s, %s)", (job, "x" * s.rng.randrange(200)))
            s.record("put", "job", job)

    @staticmethod
    def lock(s):
        """The job that is locked, or None."""
        rows = s.query("SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
        time.sleep(s.rng.random() * HOLD)
        return rows[0][0] if rows else None

    def take(self, s):
        job = self.lock(s)
        if job is not None:
            last = s.query("SELECT n FROM ticket WHERE name = 'last' FOR UPDATE")[0][0]
            time.sleep(s.rng.random() * HOLD)
            s.execute("UPDATE ticket SET n = %s WHERE name = 'last'", (last + 1,))
            s.record("draw", "ticket", last + 1)
            s.execute("DELETE FROM job WHERE id = %s", (job,))
            s.record("take", "job", job)

    def change_mind(self, s):
        """Lock one in a savepoint, give it back, and take one."""
        s.execute("SAVEPOINT before")
        self.lock(s)
        s.execute("ROLLBACK TO before")
        self.take(s)

    def final(self, s):
        s.record("last", "ticket", s.query("SELECT n FROM ticket")[0][0])
        s.record("left", "job", [id for id, in s.query("SELECT id FROM job ORDER BY id")])

    @staticmethod
    def check(history, level=None, **_):
        found, puts, takes, draws = [], {}, {}, {}
        for t in history:
            for name, _, v, _ in t.ops:
                if t.outcome != checker.FAIL and name in ("put", "take", "draw"):
                    {"put": puts, "take": takes, "draw": draws}[name].setdefault(v, []).append(t)
        for what, which, wrong in (("job", takes, "duplicate"), ("ticket", draws, "lost-update")):
            for v, by in which.items():
                sure = [t for t in by if t.outcome == checker.OK]
                if len(sure) > 1:
                    found.append(checker.Anomaly(wrong, f"{what} {v} is taken twice", sure))
        for v, by in takes.items():
            if v not in puts and not -WAITING <= v < 0:
                found.append(checker.Anomaly("garbage", f"job {v} was never there", by))
        for t in history:
            for name, _, v, _ in t.ops if t.final else ():
                if name == "last":
                    found += Jobs._all_tickets(t, v, draws)
                elif name == "left":
                    found += Jobs._all_jobs(t, set(v), puts, takes)
        return found

    @staticmethod
    def _all_tickets(t, last, draws):
        """Those up to the last, each by somebody, and no others."""
        sure = {n for n, by in draws.items() if any(x.outcome == checker.OK for x in by)}
        gone = sorted(n for n in sure if n > last)
        never = [n for n in range(1, last + 1) if n not in draws]
        return [checker.Anomaly("lost", f"ticket {n} is drawn, and the last is {last}", [t]) for n in gone[:1]] + \
               [checker.Anomaly("garbage", f"nobody drew ticket {n}, and the last is {last}", [t]) for n in never[:1]]

    @staticmethod
    def _all_jobs(t, left, puts, takes):
        """Each job that was put is there, or was taken."""
        found = []
        sure = {v for v, by in puts.items() if by[0].outcome == checker.OK} | set(range(-WAITING, 0))
        for v in sorted(sure - left - set(takes))[:1]:
            found.append(checker.Anomaly("lost", f"job {v} is gone, and nobody took it", [t]))
        for v in sorted(v for v in left if any(x.outcome == checker.OK for x in takes.get(v, ())))[:1]:
            found.append(checker.Anomaly("lost", f"job {v} was taken, and is still there", [t]))
        for v in sorted(left - set(puts) - set(range(-WAITING, 0)))[:1]:
            found.append(checker.Anomaly("garbage", f"job {v} was never put there", [t]))
        return found
