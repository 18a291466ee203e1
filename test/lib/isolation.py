"""Isolation specs as PostgreSQL's isolationtester reads them (src/test/isolation/README), run
on connections of ours: what each step gives, who waits, and after which step he goes on."""
import itertools
import os
import queue
import re
import threading
import time

from mosqltest import attempt, query, value

WAITS = "waits"
PATIENCE = 30.0         # what is to come back has so long
STUCK = 6.0             # who waits for a lock for so long is not to come back
LOCKED = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
BLOCKED = "SELECT pg_catalog.pg_isolation_test_session_is_blocked(%s, %s)"


class Spec:
    """setup, teardown: lists of SQL; sessions: {name: (setup, {step: SQL}, teardown)};
    permutations: lists of (step, [who must be done first])."""

    def __init__(self, path):
        self.name = os.path.basename(path)[:-len(".spec")]
        with open(path) as f:
            text = re.sub(r"\bINCLUDE *\([^)]*\)", "", f.read())    # of a key, whose rows have all columns
        self.setup, self.teardown, self.sessions, self.permutations = [], [], {}, []
        self.serializable = "SERIALIZABLE" in text
        tokens = [m[0] for m in re.finditer(r'#[^\n]*|\{[^}]*\}|"[^"]*"|[A-Za-z_][\w]*|\d+|[(),*]', text) if m[0][0] != "#"]
        at, session = 0, None
        while at < len(tokens):
            word = tokens[at]
            if word in ("setup", "teardown"):
                sql = tokens[at + 1][1:-1]
                if session is None:
                    (self.setup if word == "setup" else self.teardown).append(sql)
                else:
                    session[word] = sql
                at += 2
            elif word == "session":
                session = {"setup": None, "teardown": None, "steps": {}}
                self.sessions[tokens[at + 1].strip('"')] = session
                at += 2
            elif word == "step":
                session["steps"][tokens[at + 1].strip('"')] = tokens[at + 2][1:-1]
                at += 3
            elif word == "permutation":
                at = self._permutation(tokens, at + 1)
            else:
                raise ValueError(f"{path}: {word}")
        self.steps = {step: (who, sql) for who, s in self.sessions.items() for step, sql in s["steps"].items()}
        if not self.permutations:
            self.permutations = self._all_orders()

    def _permutation(self, tokens, at):
        steps = []
        while at < len(tokens) and tokens[at] not in ("permutation", "setup", "session", "step"):
            if tokens[at] == "(":           # blockers: they order what is printed, which is not compared
                at = tokens.index(")", at) + 1
            else:
                steps.append(tokens[at].strip('"'))
                at += 1
        self.permutations.append(steps)
        return at

    def _all_orders(self):
        order = [i for i, s in enumerate(self.sessions.values()) for _ in s["steps"]]
        lists = [list(s["steps"]) for s in self.sessions.values()]
        found = []
        for who in sorted(set(itertools.permutations(order))):
            taken = [iter(steps) for steps in lists]
            found.append([next(taken[i]) for i in who])
        return found


class Session:
    """A connection with a thread of its own: steps are asked for, and their outcome, what run(conn, sql)
    gives, is waited for."""

    def __init__(self, conn, run):
        self.conn, self.pid, self.run = conn, conn.info.backend_pid, run
        self.todo, self.done, self.step = queue.Queue(), queue.Queue(), None
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        while (sql := self.todo.get()) is not None:
            self.done.put(self.run(self.conn, sql))

    def ask(self, step, sql):
        self.step = step
        self.todo.put(sql)

    def outcome(self, seconds):
        """None: it is not done by then."""
        try:
            found = self.done.get(timeout=seconds)
        except queue.Empty:
            return None
        self.step = None
        return found

    def close(self):
        if self.step:
            self.conn.cancel()
            self.outcome(PATIENCE)
        self.todo.put(None)
        self.conn.close()


def attempt_with_notices(conn, sql):
    del conn.notices[:]
    rows, state = attempt(conn, sql)
    return plain(rows), state, [n.split(":", 1)[1].strip() for n in conn.notices if n.startswith("NOTICE")]


def plain(rows):
    """Rows as text, in an order of their own: a heap's is the order in which it was written."""
    return rows and sorted(tuple("ctid" if re.fullmatch(r"\(\d+,\d+\)", str(v)) else str(v) for v in row) for row in rows)


class Run:
    """One order of steps.  model: what the same has given elsewhere, so that only what is to wait
    there is waited for to wait here."""

    def __init__(self, spec, connect, order, model=None):
        self.spec, self.order, self.model = spec, order, model
        self.said = {}          # number of the step: [did it wait, after which step it was done, its outcome]
        self.control = connect()
        self.sessions = {}
        try:
            for sql in spec.setup:
                query(self.control, sql)
            for name, s in spec.sessions.items():
                self.sessions[name] = Session(connect(), attempt_with_notices)
                if s["setup"]:
                    query(self.sessions[name].conn, s["setup"])
            self.pids = [s.pid for s in self.sessions.values()]
            self._steps()
        finally:
            for name, s in self.sessions.items():
                s.close()
            attempt(self.control, "ROLLBACK")
            for sql in spec.teardown:
                attempt(self.control, sql)
            self.control.close()

    def _blocked(self, session):
        if self.model is None:
            return value(self.control, BLOCKED, (session.pid, self.pids))
        return value(self.control, LOCKED, (session.pid,))

    def _done(self, number, outcome, after, waited):
        """Whether one was seen to wait whom a deadlock ends says how fast the machine is."""
        deadlock = not isinstance(outcome, str) and outcome[1] == "40P01"
        self.said[number] = [waited and not deadlock, after, outcome]

    def _settle(self, session, number, patient):
        """Until it is done, or waits: then False."""
        began = time.monotonic()
        pause = .002
        while (outcome := session.outcome(pause)) is None:
            pause = min(pause * 2, .05)
            waited = time.monotonic() - began
            if waited > PATIENCE or ((not patient or waited > STUCK) and self._blocked(session)):
                return None
        return outcome

    def _expects(self, number, after):
        return self.model is not None and number in self.model and self.model[number][1] == after

    def _steps(self):
        running = {}            # session: number of its step
        for number, step in enumerate(self.order):
            who, sql = self.spec.steps[step]
            session = self.sessions[who]
            if session in running:          # it must go on by itself: a timeout, a deadlock
                outcome = session.outcome(PATIENCE)
                self._done(running.pop(session), outcome or WAITS, number - 1, True)
                if outcome is None:
                    return
            session.ask(step, sql)
            outcome = self._settle(session, number, self._expects(number, number) and not self.model[number][0])
            if outcome is not None:
                self._done(number, outcome, number, False)
            else:
                running[session] = number
            for other, its in list(running.items()):
                if other is session:
                    continue
                outcome = self._settle(other, its, self._expects(its, number))
                if outcome is not None:
                    self._done(running.pop(other), outcome, number, True)
        for session, number in running.items():
            self._done(number, session.outcome(PATIENCE) or WAITS, len(self.order) - 1, True)
