"""Rules that each transaction alone keeps: write skew and phantoms break them."""
from .base import *

SHIFTS, ROOMS = 3, 3


class Skew(Together, Workload):
    """Doctors: one of three stays on call.  Rooms: no two bookings within three hours.
    Pairs: an id is in at most one of two tables.  Only SERIALIZABLE promises that."""

    name = "skew"
    tables = ("oncall (shift int KEY, doctor int KEY, present bool)",
              "booking (room int KEY, hour int KEY, who text)",
              "pair_a (id int KEY)", "pair_b (id int KEY)")
    levels = (SERIALIZABLE, REPEATABLE_READ)
    allowed = CONFLICTS + "|23505"

    def setup(self, conn):
        query(conn, f"INSERT INTO oncall SELECT s, d, true FROM generate_series(1, {SHIFTS}) s, "
              "generate_series(1, 3) d")

    def transaction(self, s):
        (self.doctors, self.rooms, self.pairs)[s.client // 2 % 3](s)

    def doctors(self, s):
        shift, doctor = s.rng.randint(1, SHIFTS), s.rng.randint(1, 3)
        present = s.query("SELECT count(*) FROM oncall WHERE shift = %s AND present", (shift,))[0][0]
        s.record("present", shift, present)
        if present > 1:
            s.execute("UPDATE oncall SET present = false WHERE shift = %s AND doctor = %s", (shift, doctor))
        else:
            s.execute("UPDATE oncall SET present = true WHERE shift = %s", (shift,))

    def rooms(self, s):
        room, hour = s.rng.randint(1, ROOMS), s.rng.randint(0, 400) + s.n // 10 * 40
        taken = s.query("SELECT count(*) FROM booking WHERE room = %s AND hour BETWEEN %s AND %s",
                        (room, hour - 2, hour + 2))[0][0]
        if taken == 0:
            s.execute("INSERT INTO booking VALUES (%s, %s, 'x')", (room, hour))

    def pairs(self, s):
        i = s.n
        self.meet(s)
        a, b = s.rng.sample(("pair_a", "pair_b"), 2)
        if not s.query(f"SELECT 1 FROM {a} WHERE id = %s", (i,)):
            s.execute(f"INSERT INTO {b} VALUES (%s)", (i,))

    def final(self, s):
        for shift, in s.query("SELECT shift FROM oncall GROUP BY 1 HAVING count(*) FILTER (WHERE present) = 0"):
            s.record("present", shift, 0)
        for room, x, y in s.query("SELECT x.room, x.hour, y.hour FROM booking x, booking y "
                                  "WHERE x.room = y.room AND y.hour > x.hour AND y.hour <= x.hour + 2"):
            s.record("overlap", room, [x, y])
        for i, in s.query("SELECT id FROM pair_a WHERE id IN (SELECT id FROM pair_b)"):
            s.record("both", "pair", i)

    @staticmethod
    def check(history, level=None, **_):
        found = []
        for t in history:
            if (level or history.header.get("level")) != SERIALIZABLE or t.outcome != checker.OK:
                continue
            for name, key, value, _ in t.ops:
                if name == "present" and value == 0:
                    found.append(checker.Anomaly("write-skew", f"shift {key} is deserted", [t]))
                elif name == "overlap":
                    found.append(checker.Anomaly("phantom", f"room {key} is booked at {value}", [t]))
                elif name == "both":
                    found.append(checker.Anomaly("write-skew", f"id {value} is in both tables", [t]))
        return found
