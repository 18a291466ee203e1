#!/usr/bin/python3
"""A Redis server behind the path of a socket: what is written there is what others see by host and port; a connection that
broke is made anew; and who names a path that leads nowhere, or to a node of a cluster, is told so."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *


SOCKET = ("unixsocket socket", "unixsocketperm 777")


def refused(server, name, path):
    """(SQLSTATE, message) of a first statement by that path."""
    make_database(server, name, path)
    with contextlib.closing(server.connect(name)) as conn:
        return error_of(conn, "IMPORT FOREIGN SCHEMA public FROM SERVER redis INTO public")


def body():
    cluster = Cluster("socket", plain=True, settings=SOCKET)
    nodes = Cluster("sockets", primaries=1, settings=SOCKET)
    server = Server("socket")
    make_database(server, "by_path", cluster.socket(), {"namespace": "same"})
    make_database(server, "by_port", cluster.nodes, {"namespace": "same"})
    with contextlib.closing(server.connect("by_path")) as path:
        query(path, "SELECT mosql_fdw_enable('redis')")
    with contextlib.closing(server.connect("by_path")) as path, contextlib.closing(server.connect("by_port")) as port:
        query(path, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i")
        query(port, "IMPORT FOREIGN SCHEMA public FROM SERVER redis INTO public")
        query(port, "UPDATE t SET n = n + 1 WHERE id = 7")
        tap.equal(value(path, "SELECT n FROM t WHERE id = 7"), 8, "the same rows by path and by port")
        tap.equal(query(path, "SELECT host, port FROM mosql_fdw_get_connections()")[0], (cluster.socket(), 0), "a connection by path")
        cluster.ask(cluster.ports[0], "CLIENT", "KILL", "TYPE", "normal")
        tap.equal(value(path, "SELECT count(*) FROM t"), 1000, "a connection that broke is made anew")
    state, said = refused(server, "nowhere", cluster.socket() + "s")
    tap.ok(state == "08001" and cluster.socket() + "s" in said, "a path that leads nowhere", said)
    state, said = refused(server, "node", nodes.socket())
    tap.ok(state == "08001" and "host and port" in said, "a node of a cluster", said)


main(body)
