// An application of TypeORM: synchronize, migrations by the query runner, its log of the schema, records.
require("reflect-metadata");
const { DataSource, EntitySchema, Table, TableColumn, TableForeignKey, TableIndex, TableUnique, TableCheck, IsNull, MoreThan } = require("typeorm");
const { attempt, run } = require("./lib");

const User = new EntitySchema({
    name: "User", tableName: "user", columns: {
        id: { type: "int", primary: true, generated: "increment" },
        email: { type: "varchar", length: 100, unique: true },
        name: { type: "text", nullable: true, comment: "how he is called" },
        role: { type: "enum", enum: ["user", "admin"], default: "user" },
        roles: { type: "enum", enum: ["a", "b"], array: true, default: [] },
        settings: { type: "jsonb", default: {} },
        balance: { type: "numeric", precision: 12, scale: 2, default: 0 },
        createdAt: { type: "timestamptz", createDate: true },
        updatedAt: { type: "timestamp", updateDate: true, precision: 3 },
        deletedAt: { type: "timestamptz", deleteDate: true, nullable: true },
        version: { type: "int", version: true },
    },
    indices: [{ name: "by_name", columns: ["name"], where: '"deletedAt" IS NULL' }, { columns: ["role", "balance"] }],
    checks: [{ expression: '"balance" >= -100' }],
    relations: { posts: { type: "one-to-many", target: "Post", inverseSide: "author" } },
});
const Post = new EntitySchema({
    name: "Post", tableName: "post", columns: {
        id: { type: "uuid", primary: true, generated: "uuid" },
        title: { type: "varchar" },
        body: { type: "text", default: "" },
        views: { type: "bigint", default: 0 },
        words: { type: "text", array: true, nullable: true },
        day: { type: "date", default: () => "CURRENT_DATE" },
        length: { type: "int", generatedType: "STORED", asExpression: "length(title)" , nullable: true},
    },
    uniques: [{ name: "one_title", columns: ["author", "title"] }],
    relations: {
        author: { type: "many-to-one", target: "User", inverseSide: "posts", onDelete: "CASCADE", nullable: false, joinColumn: { name: "authorId" } },
        tags: { type: "many-to-many", target: "Tag", joinTable: { name: "post_tags" } },
    },
});
const Tag = new EntitySchema({
    name: "Tag", tableName: "tag", columns: {
        id: { type: "bigint", primary: true, generated: "identity", generatedIdentity: "BY DEFAULT" },
        name: { type: "citext", unique: true },
    },
});
const Pair = new EntitySchema({
    name: "Pair", tableName: "pair", columns: { a: { type: "int", primary: true }, b: { type: "varchar", primary: true }, v: { type: "float8", nullable: true } },
});

// the same later on: entities have changed
const changed = JSON.parse(JSON.stringify([User, Post, Tag, Pair].map(e => e.options)));
const db = entities => new DataSource({ type: "postgres", host: process.env.PGHOST, port: +process.env.PGPORT, username: "postgres", password: "",
    database: process.env.PGDATABASE, entities, migrations: [], uuidExtension: "pgcrypto", installExtensions: true });

function later() {
    const [user, post, tag, pair] = changed;
    post.columns.day.default = () => "CURRENT_DATE";
    user.columns.role.enum = ["user", "editor", "admin"];
    user.columns.age = { type: "smallint", default: 18 };
    user.columns.name.comment = "his name";
    delete user.columns.roles;
    user.indices.pop();
    user.checks[0].expression = '"balance" >= -50';
    post.columns.body.type = "varchar";
    post.columns.views.default = 1;
    post.columns.slug = { type: "varchar", nullable: true, unique: true };
    post.relations.author.onDelete = "RESTRICT";
    tag.columns.kind = { type: "enum", enum: ["x", "y"], enumName: "tag_kind", nullable: true };
    pair.columns.c = { type: "int", primary: true, default: 0 };
    pair.columns.v.type = "numeric";
    return changed.map(o => new EntitySchema(o));
}

async function schemaLog(ds) {
    const log = await ds.driver.createSchemaBuilder().log();
    return log.upQueries.map(q => q.query);
}

const byName = things => things.sort((a, b) => a.name < b.name ? -1 : 1);

async function tables(ds) {
    const q = ds.createQueryRunner(), found = await q.getTables(["user", "post", "tag", "pair", "post_tags"]);
    await q.release();
    return byName(found).map(t => [t.name.split(".").pop(), t.comment, byName(t.columns), byName(t.indices), byName(t.foreignKeys).map(f => [f.name, f.columnNames, f.referencedTableName,
        f.referencedColumnNames, f.onDelete, f.onUpdate]), byName(t.uniques), byName(t.checks)]);
}

async function use(ds) {
    const users = ds.getRepository("User"), posts = ds.getRepository("Post"), tags = ds.getRepository("Tag");
    await attempt("save", async () => (await users.save([{ email: "a@x", name: "A", roles: ["a"] }, { email: "b@x", role: "admin", settings: { k: 1 } }])).map(u => [u.id, u.version, u.balance]));
    await attempt("unique", () => users.insert({ email: "a@x" }));
    await attempt("check", () => users.insert({ email: "c@x", balance: -1000 }));
    await attempt("upsert", async () => (await users.upsert([{ email: "a@x", name: "AA" }, { email: "d@x" }], ["email"])).identifiers);
    await attempt("or ignore", async () => (await ds.createQueryBuilder().insert().into("User").values([{ email: "a@x" }, { email: "e@x" }]).orIgnore().returning("id").execute()).raw);
    await attempt("posts", async () => (await posts.save(Array.from({ length: 100 }, (_, i) => ({ title: "t" + i, views: i, words: ["w" + i], author: { id: 1 }, day: "2024-01-01" })), { chunk: 30 })).length);
    await attempt("generated", () => posts.find({ select: { title: true, length: true }, order: { views: "ASC" }, take: 2, skip: 9 }));
    await attempt("fk", () => posts.insert({ title: "x", author: { id: 99 } }));
    await attempt("tags", async () => { const t = await tags.save([{ name: "News" }, { name: "Old" }]); const p = await posts.findOneBy({ title: "t5" }); p.tags = t; await posts.save(p); return t.map(x => x.id); });
    await attempt("citext", () => tags.insert({ name: "NEWS" }));
    await attempt("relations", async () => (await posts.find({ relations: { tags: true, author: true }, where: { tags: { name: "news" } } })).map(p => [p.title, p.author.email, p.tags.length]));
    await attempt("builder", () => users.createQueryBuilder("u").leftJoin("u.posts", "p").select(["u.email AS email", "count(p.id) AS n", "sum(p.views) AS v"]).groupBy("u.id").orderBy("u.id").getRawMany());
    await attempt("count", () => posts.countBy({ views: MoreThan("90") }));
    await attempt("soft", async () => { await users.softDelete({ email: "d@x" }); return [await users.count(), await users.count({ withDeleted: true })]; });
    await attempt("version", async () => { const u = await users.findOneBy({ id: 1 }); u.name = "B"; return (await users.save(u)).version; });
    await attempt("stream", async () => { let n = 0; for await (const r of await posts.createQueryBuilder("p").select("p.views", "v").stream()) n += +r.v; return n; });
    await attempt("nested", () => ds.transaction(async m => {
        await m.update("User", 1, { name: "C" });
        await m.transaction(async n => { await n.update("User", 1, { name: "D" }); throw new Error("no"); }).catch(() => {});
        return (await m.findOneBy("User", { id: 1 })).name;
    }));
    await attempt("lock", () => ds.transaction(async m => (await m.find("User", { lock: { mode: "pessimistic_write", onLocked: "skip_locked" }, order: { id: "ASC" } })).map(u => u.id)));
    await attempt("conflict", () => ds.transaction("SERIALIZABLE", async m => {
        const before = await m.sum("User", "balance");
        await users.update(1, { balance: 7 });
        await m.update("User", 1, { balance: before + 1 });
    }));
    await attempt("pairs", async () => (await ds.getRepository("Pair").insert([{ a: 1, b: "x" }, { a: 1, b: "y", v: 1.5 }])).identifiers);
}

async function byHand(ds) {
    const q = ds.createQueryRunner();
    const step = (what, action) => attempt("by hand: " + what, async () => { await action(); });
    await step("create", () => q.createTable(new Table({ name: "stock", columns: [
        { name: "id", type: "int", isPrimary: true, isGenerated: true, generationStrategy: "increment" },
        { name: "code", type: "varchar", length: "20", isUnique: true }, { name: "n", type: "int", default: 0 },
        { name: "kind", type: "enum", enum: ["p", "q"], isNullable: true }, { name: "user_id", type: "int", isNullable: true } ] })));
    await step("rows", () => q.query(`INSERT INTO stock (code, n, kind) SELECT i::text, i, CASE WHEN i % 2 = 0 THEN 'p' ELSE 'q' END::stock_kind_enum FROM generate_series(1, 50) i`));
    await step("rename table", () => q.renameTable("stock", "ware"));
    await step("rename column", () => q.renameColumn("ware", "code", "label"));
    await step("retype", () => q.changeColumn("ware", "n", new TableColumn({ name: "n", type: "bigint", default: 5, isNullable: true })));
    await step("enum", () => q.changeColumn("ware", "kind", new TableColumn({ name: "kind", type: "enum", enum: ["p", "q", "r"], isNullable: true })));
    await step("add", () => q.addColumn("ware", new TableColumn({ name: "at", type: "timestamptz", default: "now()" })));
    await step("fk", () => q.createForeignKey("ware", new TableForeignKey({ columnNames: ["user_id"], referencedTableName: "user", referencedColumnNames: ["id"], onDelete: "SET NULL", onUpdate: "CASCADE" })));
    await step("index", () => q.createIndex("ware", new TableIndex({ columnNames: ["n", "kind"], where: "n > 3" })));
    await step("unique", () => q.createUniqueConstraint("ware", new TableUnique({ columnNames: ["n", "label"] })));
    await step("check", () => q.createCheckConstraint("ware", new TableCheck({ expression: "n < 1000" })));
    await step("key", () => q.updatePrimaryKeys("ware", [new TableColumn({ name: "id", type: "int" }), new TableColumn({ name: "label", type: "varchar" })]));
    await step("drop key", () => q.dropPrimaryKey("ware"));
    await step("create key", () => q.createPrimaryKey("ware", ["label"]));
    await step("drop column", () => q.dropColumn("ware", "at"));
    await attempt("by hand: table", async () => { const t = await q.getTable("ware"); return [t.name, byName(t.columns), byName(t.indices), byName(t.uniques), byName(t.checks)]; });
    await attempt("by hand: kinds", () => q.query("SELECT kind, count(*), max(label) FROM ware GROUP BY 1 ORDER BY 1"));
    await step("drop", () => q.dropTable("ware"));
    await q.release();
}

run(async () => {
    let ds = db([User, Post, Tag, Pair]);
    await ds.initialize();
    await attempt("schema", () => schemaLog(ds));
    await attempt("synchronize", async () => { await ds.synchronize(); });
    await attempt("nothing left", () => schemaLog(ds));
    await use(ds);
    await attempt("tables", () => tables(ds));
    await ds.destroy();
    ds = db(later());
    await ds.initialize();
    await attempt("changes", () => schemaLog(ds));
    await attempt("synchronize", async () => { await ds.synchronize(); });
    await attempt("nothing left", () => schemaLog(ds));
    await attempt("tables", () => tables(ds));
    await attempt("users", () => ds.query('SELECT id, email, role, age, version FROM "user" ORDER BY id'));
    await attempt("restrict", () => ds.query('DELETE FROM "user"'));
    await byHand(ds);
    await attempt("clear", async () => { await ds.getRepository("Pair").clear(); return ds.getRepository("Pair").count(); });
    await attempt("drop", async () => { await ds.dropDatabase(); return (await ds.query("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")); });
    await attempt("synchronize again", async () => { await ds.synchronize(true); });
    await attempt("nothing left", () => schemaLog(ds));
});
