"""The workloads by name; Run drives one."""
from .append import Append
from .base import Rollback, Run, Session, Workload
from .register import Register

WORKLOADS = {w.name: w for w in (Append, Register)}
