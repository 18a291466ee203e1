"""A network of this machine's own, to be torn: each Redis node and each PostgreSQL
server in a network namespace, all behind one router, which drops what is to be lost.

    router --- veth --- namespace 1   10.x.y.2
           --- veth --- namespace 2   10.x.y.3  ...
           --- veth --- this process  10.x.y.1, which is never cut off

A cut is a routing rule of the router, "from A to B blackhole": packets vanish without
a word, as on a broken line; nobody gets an RST or an ICMP message.  A cut in one
direction only is possible.  Unix sockets do not care, so that clients reach
PostgreSQL all the time.  Needs root and iproute2.
"""
import os
import random
import shutil
import subprocess

from mosqltest import stop_at_end


def unavailable():
    """Why there can be no such network here; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "network namespaces need iproute2"
    try:
        Net("probe").stop()
    except RuntimeError as e:
        return str(e).strip()
    return None


def ip(*args, check=True):
    done = subprocess.run(("ip",) + args, capture_output=True, text=True, timeout=30)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(args)}: {done.stderr}")
    return done.stdout


class Net:
    def __init__(self, name, size=0):
        self.name = f"mosql-{os.getpid()}-{name}"
        self.names = []
        self.cuts = []
        self.outside = f"mq{os.getpid()}"       # our end of the way to the router
        self.subnet = self._free_subnet()
        stop_at_end(self)
        try:
            self._router()
            for _ in range(size):
                self.add()
        except Exception:
            self.stop()
            raise

    @staticmethod
    def _free_subnet():
        taken = ip("route", "show")
        while True:
            subnet = f"10.{random.randrange(100, 250)}.{random.randrange(1, 250)}"
            if subnet not in taken:
                return subnet

    def _router(self):
        r = self.router = self.name + "-router"
        ip("netns", "add", r)
        ip("-n", r, "link", "set", "lo", "up")
        ip("netns", "exec", r, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        ip("link", "add", self.outside, "type", "veth", "peer", "name", "outside", "netns", r)
        ip("-n", r, "link", "set", "outside", "up")
        ip("-n", r, "route", "add", f"{self.subnet}.1", "dev", "outside")
        ip("-n", r, "addr", "add", f"{self.subnet}.254/32", "dev", "lo")
        ip("addr", "add", f"{self.subnet}.1/32", "dev", self.outside)
        ip("link", "set", self.outside, "up")
        ip("route", "add", f"{self.subnet}.254", "dev", self.outside)
        ip("route", "add", f"{self.subnet}.0/24", "via", f"{self.subnet}.254", "src", f"{self.subnet}.1")

    def add(self):
        """One more namespace; its number."""
        i = len(self.names)
        name, address, link = f"{self.name}-{i}", self.address(i), f"to{i}"
        ip("netns", "add", name)
        self.names.append(name)
        ip("link", "add", link, "netns", self.router, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", self.router, "link", "set", link, "up")
        ip("-n", self.router, "route", "add", address, "dev", link)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "addr", "add", address + "/32", "dev", "eth0")
        ip("-n", name, "route", "add", f"{self.subnet}.254", "dev", "eth0")
        ip("-n", name, "route", "add", "default", "via", f"{self.subnet}.254")
        return i

    def address(self, i):
        return f"{self.subnet}.{i + 2}"

    def place(self, i):
        """As script/cluster start --in wants it."""
        return f"{self.names[i]}={self.address(i)}"

    def cut(self, a, b, one_way=False):
        """Nothing arrives any more from a at b, and from b at a (unless one_way)."""
        for x, y in ((a, b),) if one_way else ((a, b), (b, a)):
            rule = ("from", self.address(x), "to", self.address(y), "blackhole")
            ip("-n", self.router, "rule", "add", *rule)
            self.cuts.append(rule)

    def isolate(self, group):
        """Cut everybody in the group off from everybody outside it."""
        for a in group:
            for b in range(len(self.names)):
                if b not in group:
                    self.cut(a, b)

    def heal(self):
        while self.cuts:
            ip("-n", self.router, "rule", "del", *self.cuts.pop(), check=False)

    def stop(self):
        ip("link", "del", self.outside, check=False)
        for name in self.names + [self.router]:
            ip("netns", "del", name, check=False)
        self.names = []
