// An application of Sequelize: sync, migrations by the query interface, describeTable, records and transactions.
const { Sequelize, DataTypes, Op, Transaction, literal, fn, col } = require("sequelize");
const { attempt, run } = require("./lib");

const db = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, "", {
    host: process.env.PGHOST, port: process.env.PGPORT, dialect: "postgres", logging: false, pool: { max: 4 } });
const q = db.getQueryInterface();

const User = db.define("User", {
    email: { type: DataTypes.STRING(100), allowNull: false, unique: true },
    role: { type: DataTypes.ENUM("user", "admin"), allowNull: false, defaultValue: "user" },
    tags: { type: DataTypes.ARRAY(DataTypes.TEXT), defaultValue: [], comment: "what he reads" },
    settings: DataTypes.JSONB,
    token: { type: DataTypes.UUID, defaultValue: literal("gen_random_uuid()") },
    balance: { type: DataTypes.DECIMAL(10, 2), allowNull: false, defaultValue: 0 },
}, { paranoid: true, comment: "who uses it", indexes: [
    { fields: ["role", { name: "createdAt", order: "DESC" }] },
    { fields: ["settings"], using: "gin" },
    { name: "active_mail", unique: true, fields: [fn("lower", col("email"))], where: { deletedAt: null } } ] });
const Post = db.define("Post", {
    id: { type: DataTypes.UUID, primaryKey: true, defaultValue: DataTypes.UUIDV4 },
    title: { type: DataTypes.TEXT, allowNull: false },
    views: { type: DataTypes.INTEGER, defaultValue: 0 },
    stars: DataTypes.SMALLINT,
    period: DataTypes.RANGE(DataTypes.DATEONLY),
}, { version: true, underscored: true });
const Tag = db.define("Tag", { name: { type: DataTypes.CITEXT, unique: "tag_name" } }, { timestamps: false });
User.hasMany(Post, { foreignKey: { name: "userId", allowNull: false }, onDelete: "CASCADE" });
Post.belongsTo(User, { foreignKey: "userId" });
Post.belongsToMany(Tag, { through: "PostTags" });
Tag.belongsToMany(Post, { through: "PostTags" });

const TABLES = ["Users", "posts", "Tags", "PostTags", "people"];

const byName = rows => rows.sort((a, b) => (a.name || a.constraintName) < (b.name || b.constraintName) ? -1 : 1);

async function reflect() {
    await attempt("tables", async () => (await q.showAllTables()).sort());
    for (const t of TABLES) {
        await attempt(`describe ${t}`, () => q.describeTable(t));
        await attempt(`indexes ${t}`, async () => byName(await q.showIndex(t)).map(({ definition, fields, name, unique, primary }) => ({ definition, fields, name, unique, primary })));
        await attempt(`constraints ${t}`, async () => byName((await q.showConstraint(t)).filter(c => !/_not_null$/.test(c.constraintName)))
            .map(c => ({ ...c, constraintCatalog: "", tableCatalog: "" })));
        await attempt(`references ${t}`, async () => (await q.getForeignKeyReferencesForTable(t)).map(r => ({ ...r, constraintCatalog: "", tableCatalog: "", referencedTableCatalog: "" })));
    }
}

async function use() {
    await attempt("create", async () => (await User.create({ email: "a@x", tags: ["x"], settings: { a: 1 } })).id);
    await attempt("bulk", async () => (await User.bulkCreate([{ email: "b@x" }, { email: "c@x", role: "admin" }])).map(u => u.id));
    await attempt("unique", () => User.create({ email: "a@x" }));
    await attempt("enum", () => User.create({ email: "d@x", role: "root" }, { validate: false }));
    await attempt("ignore", async () => (await User.bulkCreate([{ email: "a@x" }, { email: "e@x" }], { ignoreDuplicates: true })).length);
    await attempt("upsert", async () => { const [u, made] = await User.upsert({ email: "a@x", balance: 5 }); return [u.id, u.balance, made]; });
    await attempt("update on duplicate", async () => (await User.bulkCreate([{ email: "b@x", balance: 9 }], { updateOnDuplicate: ["balance"] })).length);
    const a = await User.findOne({ where: { email: "a@x" } });
    await attempt("posts", async () => (await Post.bulkCreate(Array.from({ length: 200 }, (_, i) => ({
        title: "t" + i, views: i, stars: i % 5, userId: a.id, period: ["2024-01-01", "2024-02-01"] })))).length);
    await attempt("fk", () => Post.create({ title: "x", userId: 99 }));
    await attempt("find or create", async () => { const [t, made] = await Tag.findOrCreate({ where: { name: "News" } }); return [t.id, made]; });
    await attempt("find or create", async () => { const [t, made] = await Tag.findOrCreate({ where: { name: "NEWS" } }); return [t.id, made]; });
    await attempt("tagged", async () => { const p = await Post.findOne({ where: { views: 3 } }); await p.addTag(1); return (await p.getTags()).map(t => t.name); });
    await attempt("version", async () => { const p = await Post.findOne({ where: { views: 3 } }), o = await Post.findOne({ where: { views: 3 } });
        await p.update({ stars: 7 }); await o.update({ stars: 8 }); });
    await attempt("include", async () => (await User.findAll({ include: { model: Post, where: { views: { [Op.gt]: 195 } }, required: false }, order: ["id", [Post, "views"]] }))
        .map(u => [u.email, u.Posts.map(p => p.views)]));
    await attempt("count", () => Post.findAndCountAll({ limit: 2, offset: 3, order: ["views"], attributes: ["views"], raw: true }));
    await attempt("group", () => Post.findAll({ attributes: ["stars", [fn("sum", col("views")), "v"]], group: ["stars"], order: ["stars"], raw: true }));
    await attempt("array", () => User.count({ where: { tags: { [Op.contains]: ["x"] } } }));
    await attempt("json", () => User.count({ where: { "settings.a": 1 } }));
    await attempt("range", () => Post.count({ where: { period: { [Op.contains]: "2024-01-15" } } }));
    await attempt("increment", async () => (await a.increment("balance", { by: 2 })).balance);
    await attempt("destroyed", async () => { await User.destroy({ where: { email: "c@x" } }); return [await User.count(), await User.count({ paranoid: false })]; });
    await attempt("transaction", () => db.transaction(async t => {
        const u = await User.findByPk(a.id, { transaction: t, lock: t.LOCK.UPDATE });
        await u.update({ balance: 100 }, { transaction: t });
        return (await db.query('SELECT id FROM "Users" ORDER BY id FOR UPDATE SKIP LOCKED', { type: "SELECT" })).length;
    }));
    await attempt("conflict", async () => {
        const level = { isolationLevel: Transaction.ISOLATION_LEVELS.SERIALIZABLE };
        const one = await db.transaction(level), two = await db.transaction(level);
        try {
            const s1 = await User.sum("balance", { transaction: one }), s2 = await User.sum("balance", { transaction: two });
            await User.update({ balance: s1 }, { where: { email: "a@x" }, transaction: one });
            await User.update({ balance: s2 }, { where: { email: "b@x" }, transaction: two });
            await one.commit();
            await two.commit();
        } catch (e) { await two.rollback().catch(() => {}); throw e; }
    });
}

const STEPS = {
    "add columns": async t => {
        await q.addColumn("Users", "age", { type: DataTypes.INTEGER, allowNull: false, defaultValue: 18 }, { transaction: t });
        await q.addColumn("Users", "boss", { type: DataTypes.INTEGER, references: { model: "Users", key: "id" }, onDelete: "SET NULL", onUpdate: "CASCADE" }, { transaction: t });
        await q.addColumn("posts", "state", { type: DataTypes.ENUM("draft", "done"), defaultValue: "draft", comment: "how far" }, { transaction: t });
    },
    "change columns": async t => {
        await q.changeColumn("Users", "email", { type: DataTypes.TEXT, allowNull: false }, { transaction: t });
        await q.changeColumn("Users", "role", { type: DataTypes.ENUM("user", "admin", "root"), allowNull: false, defaultValue: "user" }, { transaction: t });
        await q.changeColumn("Users", "balance", { type: DataTypes.DOUBLE, allowNull: true, defaultValue: null }, { transaction: t });
        await q.changeColumn("posts", "stars", { type: DataTypes.BIGINT, allowNull: false, defaultValue: 1 }, { transaction: t });
        await q.changeColumn("posts", "title", { type: DataTypes.STRING(200), unique: true }, { transaction: t });
        await q.changeColumn("posts", "views", { type: "TEXT USING views::text" }, { transaction: t });
    },
    "enum value": async () => { await db.query(`ALTER TYPE "enum_Users_role" ADD VALUE IF NOT EXISTS 'guest' BEFORE 'user'`); },
    "renames": async t => {
        await q.renameColumn("Users", "token", "key", { transaction: t });
        await q.renameColumn("posts", "views", "seen", { transaction: t });
        await q.renameTable("Tags", "labels", { transaction: t });
        await q.renameTable("labels", "Tags", { transaction: t });
        await db.query(`ALTER TYPE "enum_posts_state" RENAME VALUE 'done' TO 'finished'`, { transaction: t });
    },
    "constraints": async t => {
        await q.addConstraint("posts", { type: "check", name: "stars_small", fields: ["stars"], where: { stars: { [Op.lt]: 10 } }, transaction: t });
        await q.addConstraint("posts", { type: "unique", name: "title_version", fields: ["title", "version"], transaction: t });
        await q.removeConstraint("posts", "title_version", { transaction: t });
        await q.removeConstraint("PostTags", "PostTags_pkey", { transaction: t });
        await q.addConstraint("PostTags", { type: "primary key", name: "by_tag", fields: ["tag_id", "post_id"], transaction: t });
        await q.removeConstraint("posts", "posts_user_id_fkey", { transaction: t });
        await q.addConstraint("posts", { type: "foreign key", name: "post_of", fields: ["user_id"], references: { table: "Users", field: "id" }, onDelete: "restrict", onUpdate: "no action", transaction: t });
        await q.addIndex("posts", { fields: ["seen"], name: "seen_index", where: { stars: { [Op.gt]: 2 } }, transaction: t });
        await q.addIndex("posts", ["stars", "seen"], { transaction: t });
        await q.removeIndex("Users", "active_mail", { transaction: t });
        await q.removeIndex("posts", ["stars", "seen"], { transaction: t });
    },
    "drops": async t => {
        await q.removeColumn("Users", "boss", { transaction: t });
        await q.removeColumn("posts", "period", { transaction: t });
        await q.removeColumn("posts", "state", { transaction: t });
        await q.createTable("people", { id: { type: DataTypes.BIGINT, autoIncrement: true, autoIncrementIdentity: true, primaryKey: true },
            name: { type: DataTypes.STRING, defaultValue: "x" }, at: { type: DataTypes.DATE, defaultValue: literal("now()") } }, { transaction: t });
        await q.bulkInsert("people", [{ name: "a" }, { name: "b" }], { transaction: t });
    },
};

run(async () => {
    await db.query("CREATE EXTENSION IF NOT EXISTS citext");
    await attempt("sync", async () => { await db.sync(); });
    await reflect();
    await use();
    for (const [name, step] of Object.entries(STEPS)) {
        await attempt("---- " + name, () => name === "enum value" ? step() : db.transaction(step));
        await reflect();
    }
    await attempt("people", () => db.query("SELECT id, name FROM people ORDER BY id", { type: "SELECT" }));
    await attempt("stars", () => db.query("UPDATE posts SET stars = 10 WHERE seen = 3"));
    await attempt("restrict", () => db.query('DELETE FROM "Users"'));
    await attempt("seen", () => db.query("SELECT count(seen), max(seen) FROM posts", { type: "SELECT" }));
    await attempt("alter sync", async () => { await db.sync({ alter: true }); });
    await reflect();
    await attempt("truncate", async () => { await User.truncate({ cascade: true, restartIdentity: true }); return User.count(); });
    await attempt("after", async () => (await User.create({ email: "z@x" })).id);
    await attempt("drop", async () => { await q.dropAllTables(); await q.dropAllEnums(); return q.showAllTables(); });
});
