"""pgqueuer: its installer (tables, enums, triggers, partial indexes), upgrades that change nothing, its settings of
durability; jobs that run, fail, wait, are unique and cancelled; what its statistics say."""
import asyncio
import datetime
import os

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

JOBS = 200


async def connect():
    return await asyncpg.connect(host=os.environ["PGHOST"], port=os.environ["PGPORT"], user="postgres", database=os.environ["PGDATABASE"])


async def attempt(what, action):
    try:
        print(f"{what}: {await action}", flush=True)
    except Exception as e:
        print(f"{what}: {getattr(e, 'sqlstate', type(e).__name__)} {e}", flush=True)


async def worker(ran, drained):
    conn = await connect()
    pgq = PgQueuer(AsyncpgDriver(conn))

    @pgq.entrypoint("sum")
    async def add(job):
        ran.append(int(job.payload))

    @pgq.entrypoint("fails")
    async def fail(job):
        raise ValueError("no")

    @pgq.entrypoint("held", on_failure="hold")
    async def hold(job):
        raise ValueError("held")

    @pgq.entrypoint("alone", concurrency_limit=1)
    async def alone(job):
        ran.append(int(job.payload))

    task = asyncio.create_task(pgq.run(batch_size=10, dequeue_timeout=datetime.timedelta(seconds=1)))
    await drained.wait()
    pgq.shutdown.set()
    await asyncio.wait_for(task, 60)
    await conn.close()


async def statistics(conn, queries):
    await attempt("sizes", sizes(queries))
    rows = await conn.fetch("SELECT entrypoint, status::text, count(*) AS n FROM pgqueuer_log GROUP BY 1, 2 ORDER BY 1, 2")
    print("log:", [tuple(r) for r in rows])


async def sizes(queries):
    return sorted((q.entrypoint, q.status, q.priority, q.count) for q in await queries.queue_size())


async def main():
    conn = await connect()
    queries = Queries(AsyncpgDriver(conn))
    await attempt("install", queries.install())
    await attempt("installed", queries.schema_is_installed())
    await attempt("upgrade", queries.upgrade())
    await attempt("upgrade again", queries.upgrade())
    plan = await queries.plan_upgrade()
    print("left:", plan)
    await attempt("durability", queries.alter_durability())
    await attempt("autovacuum", queries.optimize_autovacuum())
    await attempt("autovacuum back", queries.optimize_autovacuum_rollback())
    for what in ("pgqueuer", "pgqueuer_log", "pgqueuer_statistics", "pgqueuer_schedules", "none"):
        await attempt(f"has {what}", queries.has_table(what))
    await attempt("has column", queries.table_has_column("pgqueuer", "execute_after"))
    await attempt("has trigger", queries.has_trigger("tg_pgqueuer_changed"))
    await attempt("enum", queries.has_user_defined_enum("queued", "pgqueuer_status"))
    print("schema:", sorted((t.table_name, str(t.persistence)) for t in await queries.schema_info()))
    ids = await queries.enqueue(["sum"] * JOBS, [str(n).encode() for n in range(JOBS)], [n % 3 for n in range(JOBS)])
    print("enqueued:", len(ids), ids[0], ids[-1])
    await attempt("fails", queries.enqueue("fails", b"", 0))
    await attempt("held", queries.enqueue("held", b"", 0))
    await attempt("alone", queries.enqueue(["alone"] * 5, [b"1000"] * 5, [0] * 5))
    await attempt("later", queries.enqueue("sum", b"-1", 0, execute_after=datetime.timedelta(days=1)))
    await attempt("keyed", queries.enqueue("sum", b"2000", 0, dedupe_key="k"))
    await attempt("keyed again", queries.enqueue("sum", b"2001", 0, dedupe_key="k"))
    await attempt("sizes", sizes(queries))
    ran, drained = [], asyncio.Event()
    workers = [asyncio.create_task(worker(ran, drained)) for _ in range(3)]
    for _ in range(600):
        await asyncio.sleep(0.1)
        if len(ran) >= JOBS + 6 and await conn.fetchval("SELECT count(*) FROM pgqueuer WHERE status IN ('queued', 'picked')") == 1:
            break
    drained.set()
    await asyncio.gather(*workers)
    print("ran:", len(ran), len(set(ran)), sum(ran))
    await statistics(conn, queries)
    await attempt("failed", failed(queries))
    await attempt("cancel", queries.mark_job_as_cancelled([ids[-1] + 9]))
    await attempt("clear", queries.clear_queue("sum"))
    await attempt("sizes", sizes(queries))
    await attempt("uninstall", queries.uninstall())
    await attempt("installed", queries.schema_is_installed())
    await attempt("install", queries.install())
    await conn.close()


async def failed(queries):
    return [(j.entrypoint, j.status) for j in await queries.list_failed_jobs()]


asyncio.run(main())
