// graphile-worker, as its documents have it: what it says is compared with what it says of PostgreSQL's own tables.
const { Pool } = require("pg");
const { run, makeWorkerUtils, Logger } = require("graphile-worker");

const pause = ms => new Promise(done => setTimeout(done, ms));

async function main() {
    const pgPool = new Pool({ max: 8 });
    const logger = new Logger(() => () => {});
    const utils = await makeWorkerUtils({ pgPool, logger });
    const keyed = [];
    let done = 0, failed = 0;

    pgPool.on("error", e => console.log("error", e.message));
    await utils.migrate();
    const runner = await run({
        pgPool, logger, concurrency: 4, pollInterval: 200, noHandleSignals: true, taskList: {
            sums: async () => { done++; },
            fails: async () => { failed++; throw new Error("no"); },
            keyed: async payload => { keyed.push(payload.v); },
        }
    });
    for (let n = 0; n < 30; n++)
        await utils.addJob("sums", { n }, { priority: n % 3, queueName: n % 2 ? "one" : undefined });
    await utils.addJob("fails", {}, { maxAttempts: 1 });
    const soon = new Date(Date.now() + 5000);       // not before it has been replaced
    await utils.addJob("keyed", { v: 1 }, { jobKey: "k", runAt: soon });
    await utils.addJob("keyed", { v: 2 }, { jobKey: "k", jobKeyMode: "replace", runAt: soon });
    await utils.addJob("keyed", { v: 3 }, { jobKey: "k", jobKeyMode: "preserve_run_at", runAt: soon });
    await utils.addJobs([{ identifier: "sums", payload: {} }, { identifier: "sums", payload: {} }]);
    const late = await utils.addJob("sums", {}, { runAt: new Date(Date.now() + 600000) });
    await utils.rescheduleJobs([late.id], { priority: 5 });
    console.log("completed", (await utils.completeJobs([late.id])).length);
    for (let i = 0; i < 600 && (done < 32 || failed < 1 || keyed.length < 1); i++)
        await pause(100);
    await pause(500);
    await runner.stop();
    await utils.cleanup();
    console.log("done", done, "failed", failed, "keyed", JSON.stringify(keyed));
    for (const sql of [
        "SELECT task_identifier, attempts, last_error FROM graphile_worker.jobs ORDER BY 1",
        "SELECT count(*)::int FROM graphile_worker.migrations",
        "SELECT relname, relkind, relrowsecurity FROM pg_class WHERE relnamespace = 'graphile_worker'::regnamespace ORDER BY 1",
    ])
        (await pgPool.query(sql)).rows.forEach(row => console.log(JSON.stringify(row)));
    await pgPool.end();
}

main().then(() => process.exit(0), e => { console.log(e.message); process.exit(1); });
