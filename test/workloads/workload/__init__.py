"""The workloads by name; Run drives one.  README.md tells about each."""
from .append import Append
from .bank import Bank, MixBank
from .base import Rollback, Run, Session, Workload
from .counter import Counter
from .cycle import Cycle
from .fork import Fork
from .jobs import Jobs
from .mix import MIXED, Mix
from .own import Own
from .phantom import Phantom
from .queue import Queue
from .register import Register
from .ring import Ring
from .skew import Skew
from .unique import Unique

WORKLOADS = {w.name: w for w in (Append, Register, Cycle, Fork, Phantom, Mix, Skew, Bank, MixBank,
                                 Counter, Ring, Unique, Queue, Jobs, Own)}
