// pg-boss, as its documents have it: what it says is compared with what it says of PostgreSQL's own tables.
const { Client } = require("pg");
const Boss = require("pg-boss");

const pause = ms => new Promise(done => setTimeout(done, ms));

async function main() {
    const boss = new Boss({ host: process.env.PGHOST, port: +process.env.PGPORT, user: process.env.PGUSER, database: process.env.PGDATABASE,
        monitorStateIntervalSeconds: 1, maintenanceIntervalSeconds: 1 });
    const got = [];
    boss.on("error", e => console.log("error", e.message));
    await boss.start();
    await boss.work("sums", { newJobCheckInterval: 100, teamSize: 5 }, async job => {
        got.push(job.data.n);
        if (job.data.n === 3)
            throw new Error("once more");
    });
    for (let n = 0; n < 20; n++)
        await boss.send("sums", { n }, { retryLimit: 1 });
    for (const options of [{ singletonKey: "k" }, { singletonSeconds: 60 }, {}])
        for (let n = 0; n < 2; n++)
            console.log("sent", JSON.stringify(options), await boss.send("one" + Object.keys(options), {}, options) !== null);
    await boss.insert([{ name: "many", data: {} }, { name: "many", data: {} }]);
    const fetched = await boss.fetch("many", 2);
    await boss.complete(fetched.map(job => job.id));
    console.log("fetched", fetched.length);
    await boss.schedule("later", "* * * * *", {});
    await boss.subscribe("event", "listener");
    await boss.publish("event", {});
    console.log("waiting", await boss.getQueueSize("listener"), (await boss.getSchedules()).length);
    const id = await boss.send("cancelled", {});
    await boss.cancel(id);
    await boss.resume(id);
    await boss.cancel(id);
    console.log("state", (await boss.getJobById(id)).state);
    for (let i = 0; i < 100 && got.length < 21; i++)
        await pause(100);
    console.log("got", got.length, new Set(got).size);
    await boss.stop({ graceful: true, timeout: 5000 });
    await pause(1000);

    const client = new Client();
    await client.connect();
    const { rows } = await client.query(`SELECT name, state, count(*)::int FROM pgboss.job
        WHERE name NOT LIKE '\\_\\_%' GROUP BY 1, 2 ORDER BY 1, 2`);
    rows.forEach(row => console.log(JSON.stringify(row)));
    await client.end();
}

main().then(() => process.exit(0), e => { console.log(e.message); process.exit(1); });
