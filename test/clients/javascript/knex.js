// An application of Knex: migrations, columnInfo, queries, batches, streams and transactions.
const knexOf = require("knex");
const { attempt, run } = require("./lib");

const knex = knexOf({ client: "pg", connection: {}, pool: { min: 1, max: 4 } });

const migrations = {
    "01_create": {
        up: async k => {
            await k.schema.createTable("users", t => {
                t.increments("id");
                t.string("email").notNullable().unique();
                t.enu("role", ["user", "admin"], { useNative: true, enumName: "user_role" }).notNullable().defaultTo("user");
                t.enu("kind", ["a", "b"]).defaultTo("a");
                t.jsonb("settings").defaultTo("{}");
                t.specificType("words", "text[]").comment("what he says");
                t.boolean("active").notNullable().defaultTo(true);
                t.decimal("balance", 12, 2).defaultTo(0);
                t.timestamps(true, true);
                t.comment("who uses it");
            });
            await k.schema.createTable("posts", t => {
                t.uuid("id").primary().defaultTo(k.raw("gen_random_uuid()"));
                t.integer("user_id").unsigned().notNullable().references("id").inTable("users").onDelete("CASCADE").onUpdate("CASCADE");
                t.text("title").notNullable();
                t.text("body");
                t.smallint("stars");
                t.integer("views").notNullable().defaultTo(0);
                t.date("day");
                t.index(["user_id", "title"], "posts_by_user");
                t.unique(["user_id", "day"], { indexName: "one_a_day", predicate: k.whereNotNull("day") });
                t.check("?? >= 0", ["views"], "views_positive");
            });
            await k.schema.createTable("tags", t => {
                t.bigIncrements("id");
                t.string("name", 30).notNullable();
                t.index(k.raw("lower(name)"), "tags_lower");
            });
            await k.schema.createTable("post_tags", t => {
                t.uuid("post_id").references("posts.id").onDelete("cascade");
                t.bigInteger("tag_id").references("tags.id").onDelete("restrict");
                t.primary(["post_id", "tag_id"]);
            });
        },
        down: k => k.schema.dropTable("post_tags").dropTable("tags").dropTable("posts").dropTable("users").raw("DROP TYPE user_role"),
    },
    "02_alter": {
        up: async k => {
            await k.schema.alterTable("users", t => {
                t.string("email", 100).notNullable().alter();
                t.bigInteger("balance").notNullable().defaultTo(7).alter();
                t.text("kind").alter();
                t.timestamp("last_seen").defaultTo(k.fn.now());
                t.integer("age").notNullable().defaultTo(18);
                t.renameColumn("active", "enabled");
                t.dropColumn("words");
            });
            await k.schema.alterTable("posts", t => {
                t.dropIndex(["user_id", "title"], "posts_by_user");
                t.index("title", "posts_by_title", { predicate: k.whereRaw("views > 3") });
                t.check("views < 1000000", undefined, "views_below");
            });
        },
        down: async k => {
            await k.schema.alterTable("users", t => {
                t.renameColumn("enabled", "active");
                t.dropColumn("age");
                t.dropColumn("last_seen");
            });
        },
    },
    "03_alter_posts": {
        up: async k => {
            await k("posts").update({ body: "" }).whereNull("body");
            await k.schema.alterTable("posts", t => {
                t.setNullable("title");
                t.dropNullable("body");
                t.decimal("stars", 4, 1).alter();
                t.string("slug").unique();
            });
            await k.schema.alterTable("posts", t => t.dropChecks("views_positive"));
            await attempt("drop unique", () => k.schema.alterTable("posts", t => t.dropUnique(["user_id", "day"], "one_a_day")));
        },
        down: k => k.schema.alterTable("posts", t => t.dropColumn("slug")),
        config: { transaction: false },
    },
    "04_rename": {
        up: async k => {
            await k.schema.renameTable("tags", "labels");
            await k.schema.raw("ALTER TYPE user_role RENAME VALUE 'admin' TO 'root'");
            await k.schema.raw("ALTER TABLE posts RENAME CONSTRAINT posts_user_id_foreign TO posts_owner");
            await k.schema.raw("ALTER INDEX tags_lower RENAME TO labels_lower");
            await k.schema.alterTable("post_tags", t => { t.dropForeign("tag_id"); t.dropPrimary(); });
            await k.schema.alterTable("post_tags", t => { t.increments("id"); t.unique(["post_id", "tag_id"], { deferrable: undefined }); });
            await k.schema.alterTable("post_tags", t => t.foreign("tag_id").references("labels.id").deferrable("deferred"));
        },
        down: async k => {
            await k.schema.alterTable("post_tags", t => { t.dropForeign("tag_id"); t.dropUnique(["post_id", "tag_id"]); t.dropColumn("id"); });
            await k.schema.renameTable("labels", "tags");
            await k.schema.alterTable("post_tags", t => { t.primary(["post_id", "tag_id"]); t.foreign("tag_id").references("tags.id"); });
        },
    },
    "05_value": {
        up: k => k.schema.raw("ALTER TYPE user_role ADD VALUE 'guest' BEFORE 'user'"),
        down: async () => {},
        config: { transaction: false },
    },
    "06_views": {
        up: k => k.schema.createView("owners", v => { v.columns(["email", "n"]);
            v.as(k("users").leftJoin("posts", "users.id", "posts.user_id").select("email").count("posts.id").groupBy("email")); })
            .createTableLike("users_copy", "users").dropTable("users_copy"),
        down: k => k.schema.dropView("owners"),
    },
};

const source = {
    getMigrations: async () => Object.keys(migrations),
    getMigrationName: m => m,
    getMigration: async m => migrations[m],
};

async function reflect() {
    for (const t of ["users", "posts", "tags", "labels", "post_tags"]) {
        await attempt(`has ${t}`, () => knex.schema.hasTable(t));
        await attempt(`columns of ${t}`, async () => Object.entries(await knex(t).columnInfo()).sort());
    }
    await attempt("has column", () => knex.schema.hasColumn("users", "enabled"));
}

async function use() {
    const ids = await knex("users").insert([{ email: "a@x", words: ["x", "y"] }, { email: "b@x", role: "admin", settings: { a: [1] } }]).returning("id");
    await attempt("ids", () => ids);
    await attempt("unique", () => knex("users").insert({ email: "a@x" }));
    await attempt("check of enu", () => knex("users").insert({ email: "c@x", kind: "z" }));
    await attempt("enum", () => knex("users").insert({ email: "c@x", role: "z" }));
    await attempt("fk", () => knex("posts").insert({ user_id: 99, title: "t" }));
    await attempt("batch", async () => (await knex.batchInsert("posts", Array.from({ length: 500 }, (_, i) => ({
        user_id: 1 + i % 2, title: "t" + i, views: i, stars: i % 5 })), 120).returning("views")).length);
    await attempt("day", () => knex("posts").insert([{ user_id: 1, title: "d", day: "2024-01-01" }]).returning("day"));
    await attempt("one a day", () => knex("posts").insert([{ user_id: 1, title: "d2", day: "2024-01-01" }]));
    await attempt("merge", () => knex("users").insert({ email: "a@x", balance: 5 }).onConflict("email").merge().returning(["id", "balance"]));
    await attempt("merge where", () => knex("users").insert({ email: "a@x", balance: 50 }).onConflict("email").merge(["balance"]).where("users.balance", "<", 1));
    await attempt("ignore", () => knex("users").insert({ email: "a@x" }).onConflict().ignore());
    await attempt("sum", () => knex("posts").sum("views as s").count("* as n").avg("stars as a").groupBy("user_id").orderBy("user_id"));
    await attempt("increment", () => knex("posts").where("views", ">", 490).increment("views", 1000).returning("views").then(r => r.map(x => x.views).sort()));
    await attempt("with", () => knex.with("w", knex("posts").where("views", "<", 3)).select("views").from("w").orderBy("views"));
    await attempt("stream", async () => {
        let n = 0;
        for await (const row of knex("posts").select("views").orderBy("views").stream({ highWaterMark: 10 })) n += row.views;
        return n;
    });
    await attempt("rolled back", () => knex.transaction(async t => {
        await t("users").update({ balance: 1 });
        await t.transaction(async s => { await s("users").update({ balance: 2 }); throw new Error("no"); }).catch(() => {});
        const [{ balance }] = await t("users").select("balance").limit(1);
        throw new Error("balance " + balance);
    }));
    await attempt("conflict", async () => {
        const one = await knex.transaction({ isolationLevel: "repeatable read" }), two = await knex.transaction({ isolationLevel: "repeatable read" });
        try {
            await one("users").select(); await two("users").select();
            await one("users").where({ id: 1 }).update({ balance: 8 }); await one.commit();
            await two("users").where({ id: 1 }).update({ balance: 9 }); await two.commit();
        } catch (e) { await two.rollback(); throw e; }
    });
    await attempt("skip locked", () => knex.transaction(async t => {
        await t("users").where({ id: 1 }).forUpdate();
        return knex.transaction(s => s("users").select("id").orderBy("id").forUpdate().skipLocked());
    }));
    await attempt("tags", () => knex("tags").insert([{ name: "A" }, { name: "B" }]).returning("*"));
    await attempt("post tags", async () => (await knex("post_tags").insert(knex("posts").select("id", knex.raw("1")).limit(20))).rowCount);
    await attempt("restrict", () => knex("tags").delete());
    await attempt("json", () => knex("users").whereJsonPath("settings", "$.a[0]", "=", 1).select("id"));
}

run(async () => {
    for (const name of Object.keys(migrations)) {
        await attempt("---- " + name, () => knex.migrate.up({ migrationSource: source, name }));
        await reflect();
        if (name === "01_create")
            await use();
    }
    await attempt("owners", () => knex("owners").orderBy("email"));
    await attempt("guest", () => knex("users").insert({ email: "g@x", role: "guest" }).returning(["id", "role"]));
    await attempt("roles", () => knex("users").select("role").orderBy("role"));
    await attempt("deferred", () => knex.transaction(async t => { await t("labels").where({ id: 1 }).delete(); await t("post_tags").where({ tag_id: 1 }).delete(); return "gone"; }));
    await attempt("delete", () => knex("users").where({ id: 1 }).delete());
    await attempt("posts left", () => knex("posts").count());
    await attempt("truncate", () => knex("post_tags").truncate().then(r => r.rowCount));
    await attempt("status", () => knex.migrate.list({ migrationSource: source }).then(([done, todo]) => [done.length, todo.length]));
    await attempt("rollback", () => knex.migrate.down({ migrationSource: source, name: "06_views" }));
    await attempt("rollback", () => knex.migrate.down({ migrationSource: source, name: "04_rename" }));
    await attempt("rollback", () => knex.migrate.down({ migrationSource: source, name: "02_alter" }));
    await reflect();
});
