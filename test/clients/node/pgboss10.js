// pg-boss 10 and later, whose table of jobs has a partition for each queue, as its documents have it.
const { Client } = require("pg");

const pause = ms => new Promise(done => setTimeout(done, ms));

async function main(version) {
    const Boss = require("pg-boss-" + version);
    const boss = new Boss({ host: process.env.PGHOST, port: +process.env.PGPORT, user: process.env.PGUSER, database: process.env.PGDATABASE,
        monitorStateIntervalSeconds: 1, maintenanceIntervalSeconds: 1 });
    const got = [];
    boss.on("error", e => console.log("error", e.message));
    await boss.start();
    for (const [name, policy] of [["sums", "standard"], ["short", "short"], ["single", "singleton"], ["state", "stately"], ["dead", "standard"]])
        await boss.createQueue(name, { policy });
    await boss.createQueue("fails", { policy: "standard", deadLetter: "dead", retryLimit: 0 });
    await boss.createQueue("sums", { policy: "standard" });
    await boss.work("sums", { pollingIntervalSeconds: 0.5, batchSize: 5 }, async jobs => {
        for (const job of jobs) {
            got.push(job.data.n);
            if (job.data.n === 3 && got.filter(n => n === 3).length === 1)
                throw new Error("once more");
        }
    });
    for (let n = 0; n < 20; n++)
        await boss.send("sums", { n }, { retryLimit: 1 });
    for (const queue of ["short", "single", "state"])
        for (const options of [{ singletonKey: "k" }, { singletonSeconds: 60 }, {}])
            for (let n = 0; n < 2; n++)
                console.log("sent", queue, JSON.stringify(options), await boss.send(queue, {}, options) !== null);
    for (const queue of ["short", "single", "state"]) {
        const jobs = [...await boss.fetch(queue, { batchSize: 5 }), ...await boss.fetch(queue, { batchSize: 5 })];
        console.log("fetched", queue, jobs.length);
        if (jobs.length > 0)
            await boss.complete(queue, jobs.map(job => job.id));
    }
    await boss.send("fails", { a: 1 });
    const [failing] = await boss.fetch("fails");
    await boss.fail("fails", failing.id, { why: "no" });
    console.log("dead", (await boss.fetch("dead"))[0].data.a);
    if (version === 10)
        await boss.insert([{ name: "sums", data: { n: 100 } }, { name: "sums", data: { n: 101 } }]);
    else
        await boss.insert("sums", [{ data: { n: 100 } }, { data: { n: 101 } }]);
    await boss.schedule("short", "* * * * *", {});
    await boss.subscribe("event", "state");
    await boss.publish("event", {});
    if (version === 10)
        console.log("waiting", await boss.getQueueSize("state"));
    console.log("there", (await boss.getSchedules()).length, (await boss.getQueues()).length);
    const id = await boss.send("dead", {});
    await boss.cancel("dead", id);
    await boss.resume("dead", id);
    await boss.cancel("dead", id);
    console.log("state", (await boss.getJobById("dead", id)).state);
    for (let i = 0; i < 200 && new Set(got).size < 22; i++)
        await pause(100);
    console.log("got", new Set(got).size);
    await boss.unschedule("short");
    await boss.createQueue("empty", { policy: "short" });
    await boss.deleteQueue("empty");
    console.log("queues", (await boss.getQueues()).map(queue => queue.name).sort().join(" "));
    await boss.stop({ graceful: true, timeout: 5000 });
    await pause(1000);

    const client = new Client();
    await client.connect();
    const { rows } = await client.query(`SELECT name, state, count(*)::int FROM pgboss.job
        WHERE name IN ('short', 'state', 'dead', 'fails') GROUP BY 1, 2 ORDER BY 1, 2`);
    rows.forEach(row => console.log(JSON.stringify(row)));
    await client.end();
}

exports.run = version => main(version).then(() => process.exit(0), e => { console.log(e.message); process.exit(1); });

if (require.main === module)
    exports.run(10);
