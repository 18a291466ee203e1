"""Jobs of the queue procrastinate, as its documents have them.

    procrastinate_app.py schema             make its tables, types, functions and triggers
    procrastinate_app.py defer FIRST LAST   jobs with these numbers; each fourth under one of five locks
    procrastinate_app.py work N             N at a time, until SIGTERM; looks every 0.2 s, for jobs whose lock
                                            was given back on another server, too

The database comes from PostgreSQL's environment variables.  Each job writes its number to the
table ran."""
import asyncio
import os
import sys

import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector())


@app.task(name="sum", queue="sums")
async def sum_up(key):
    async with app.connector.pool.connection() as conn:
        await conn.execute("INSERT INTO ran (key, who) VALUES (%s, %s)", (key, os.getpid()))


async def main(what, *args):
    async with app.open_async():
        if what == "schema":
            await app.schema_manager.apply_schema_async()
        elif what == "defer":
            for key in range(int(args[0]), int(args[1]) + 1):
                lock = f"lock {key % 5}" if key % 4 == 0 else None
                await sum_up.configure(lock=lock).defer_async(key=key)
        else:
            await app.run_worker_async(concurrency=int(args[0]), fetch_job_polling_interval=0.2)


asyncio.run(main(*sys.argv[1:]))
