//! An application of sqlx: migrations forth and back, what it describes of queries, rows, streams, COPY, notifications.
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions, PgRow};
use sqlx::{Acquire, Column, Connection, Executor, Row, TypeInfo};

type Said = Result<String, sqlx::Error>;

#[derive(Debug, Clone, Copy, PartialEq, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Ok,
    Happy,
}

fn say(what: &str, said: Said) {
    match said {
        Ok(text) => println!("{what}: {text}"),
        Err(sqlx::Error::Database(e)) if e.code().as_deref() == Some("40001") => println!("{what}: 40001"),
        Err(sqlx::Error::Database(e)) => println!("{what}: {:?} {} {:?} {:?} {:?}", e.code(), e.message(), e.constraint(), e.table(), e.kind()),
        Err(e) => println!("{what}: {e}"),
    }
}

/// What the macros of sqlx ask at compile time: types, and which columns may be null, of which plans are a part.
async fn describe(pool: &PgPool, sql: &str) -> Said {
    let mut c = pool.acquire().await?;
    let d = c.describe(sql).await?;
    let columns: Vec<String> = d.columns().iter().enumerate()
        .map(|(i, c)| format!("{} {} {:?}", c.name(), c.type_info().name(), d.nullable(i))).collect();
    let asked = d.parameters().map(|p| p.map_left(|t| t.iter().map(|t| t.name().to_string()).collect::<Vec<_>>()));
    Ok(format!("{columns:?} {asked:?}"))
}

fn all(rows: Vec<PgRow>) -> String {
    rows.iter().map(|r| (0..r.len()).map(|i| r.try_get_unchecked::<Option<String>, _>(i).ok().flatten().unwrap_or("-".into()))
        .collect::<Vec<_>>().join(",")).collect::<Vec<_>>().join(" ")
}

async fn rows(pool: &PgPool, sql: &str) -> Said {
    Ok(all(pool.fetch_all(sqlx::raw_sql(sql)).await?))
}

async fn migrations(pool: &PgPool) -> Said {
    let m = sqlx::migrate::Migrator::new(std::path::Path::new(&format!("{}/migrations", env!("CARGO_MANIFEST_DIR")))).await?;
    m.run(pool).await?;
    m.run(pool).await?;
    rows(pool, "SELECT version::text || description || success FROM _sqlx_migrations ORDER BY 1").await
}

async fn undo(pool: &PgPool, to: i64) -> Said {
    let m = sqlx::migrate::Migrator::new(std::path::Path::new(&format!("{}/migrations", env!("CARGO_MANIFEST_DIR")))).await?;
    m.undo(pool, to).await?;
    rows(pool, "SELECT version::text FROM _sqlx_migrations ORDER BY 1").await
}

async fn insert(pool: &PgPool, name: &str, mood: Mood) -> Said {
    let id: i64 = sqlx::query_scalar("INSERT INTO person (name, mood, words) VALUES ($1, $2, $3) RETURNING id")
        .bind(name).bind(mood).bind(vec!["a", name]).fetch_one(pool).await?;
    Ok(id.to_string())
}

async fn moods(pool: &PgPool) -> Said {
    let found: Vec<(i64, Mood, Vec<String>)> = sqlx::query_as("SELECT id, mood, words FROM person ORDER BY mood, id LIMIT 4").fetch_all(pool).await?;
    Ok(format!("{found:?}"))
}

async fn unnest(pool: &PgPool) -> Said {
    let done = sqlx::query("INSERT INTO visit (person, at_day, n) SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[]) ON CONFLICT (person, at_day) DO UPDATE SET n = visit.n + excluded.n")
        .bind((0..300).map(|i| 1 + i % 2).collect::<Vec<i64>>()).bind((0..300).map(|i| i / 2).collect::<Vec<i32>>()).bind(vec![2i64; 300]).execute(pool).await?;
    Ok(done.rows_affected().to_string())
}

async fn stream(pool: &PgPool) -> Said {
    let (mut n, mut sum) = (0, 0);
    let mut s = sqlx::query_as::<_, (i32, i64)>("SELECT at_day, n FROM visit ORDER BY person, at_day").fetch(pool);
    while let Some((d, v)) = s.try_next().await? {
        n += d;
        sum += v;
    }
    Ok(format!("{n} {sum}"))
}

async fn nested(pool: &PgPool) -> Said {
    let mut tx = pool.begin().await?;
    sqlx::query("UPDATE person SET name = 'x' WHERE id = 1").execute(&mut *tx).await?;
    let mut inner = tx.begin().await?;
    let failed = sqlx::query("INSERT INTO visit VALUES (99, 1, 1)").execute(&mut *inner).await.is_err();
    inner.rollback().await?;
    let name: String = sqlx::query_scalar("SELECT name FROM person WHERE id = 1").fetch_one(&mut *tx).await?;
    drop(tx);
    let after: String = sqlx::query_scalar("SELECT name FROM person WHERE id = 1").fetch_one(pool).await?;
    Ok(format!("{failed} {name} {after}"))
}

async fn conflict(pool: &PgPool) -> Said {
    let (mut a, mut b) = (pool.acquire().await?, pool.acquire().await?);
    for c in [&mut a, &mut b] {
        c.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        c.execute("SELECT sum(n) FROM visit").await?;
    }
    a.execute("UPDATE visit SET n = 0 WHERE at_day = 1").await?;
    a.execute("COMMIT").await?;
    let said = b.execute("UPDATE visit SET n = 1 WHERE at_day = 1").await;
    b.execute("ROLLBACK").await?;
    said?;
    Ok("none".into())
}

async fn copied(pool: &PgPool) -> Said {
    let mut c = pool.acquire().await?;
    let mut copy = c.copy_in_raw("COPY visit (person, at_day, n) FROM STDIN (FORMAT csv)").await?;
    copy.send("1,1000,5\n2,1000,6\n".as_bytes()).await?;
    let n = copy.finish().await?;
    let out: Vec<u8> = c.copy_out_raw("COPY (SELECT person, n FROM visit WHERE at_day = 1000 ORDER BY 1) TO STDOUT").await?
        .try_fold(Vec::new(), |mut v, b| async move { v.extend_from_slice(&b); Ok(v) }).await?;
    Ok(format!("{n} {:?}", String::from_utf8_lossy(&out)))
}

async fn listened(pool: &PgPool) -> Said {
    let mut l = PgListener::connect_with(pool).await?;
    l.listen("visited").await?;
    pool.execute("INSERT INTO visit VALUES (1, 2000, 1)").await?;
    Ok(l.recv().await?.payload().to_string())
}

async fn altered(pool: &PgPool) -> Said {
    let mut c = pool.acquire().await?;
    let ask = "SELECT * FROM visit WHERE person = $1 ORDER BY at_day LIMIT 1";
    let before = sqlx::query(ask).bind(1i64).fetch_one(&mut *c).await?.len();
    pool.execute("ALTER TABLE visit ADD COLUMN why text DEFAULT 'none', ALTER COLUMN n TYPE numeric USING n / 2.0").await?;
    let then = sqlx::query(ask).bind(1i64).fetch_one(&mut *c).await.map(|r| r.len());
    c.clear_cached_statements().await?;
    let after = sqlx::query(ask).bind(1i64).fetch_one(&mut *c).await?.len();
    Ok(format!("{before} {:?} {after}", then.map_err(|e| e.to_string())))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sqlx::Error> {
    let options = PgConnectOptions::new().host(&std::env::var("PGHOST").unwrap());
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await?;
    say("migrations", migrations(&pool).await);
    for (name, mood) in [("Ann", Mood::Happy), ("Bob", Mood::Sad), ("Cid", Mood::Ok), ("Ann", Mood::Ok)] {
        say("insert", insert(&pool, name, mood).await);
    }
    say("moods", moods(&pool).await);
    say("unnest", unnest(&pool).await);
    say("unnest", unnest(&pool).await);
    say("stream", stream(&pool).await);
    say("nested", nested(&pool).await);
    say("conflict", conflict(&pool).await);
    say("copied", copied(&pool).await);
    say("listened", listened(&pool).await);
    for sql in ["SELECT id, name, mood, words, settings FROM person WHERE id = $1 AND mood = $2",
                "SELECT p.name, v.n FROM person p LEFT JOIN visit v ON v.person = p.id WHERE v.at_day < $1",
                "SELECT p.name, v.n, v.at_day FROM visit v FULL JOIN person p ON v.person = p.id",
                "INSERT INTO visit (person, at_day, n) VALUES ($1, $2, $3) RETURNING *",
                "SELECT count(*), max(n), sum(n) AS s, 1 AS one FROM visit GROUP BY person",
                "UPDATE person SET settings = $1 WHERE id = $2 RETURNING settings, lower(name) AS l"] {
        say("describe", describe(&pool, sql).await);
    }
    say("altered", altered(&pool).await);
    say("columns", rows(&pool, "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position").await);
    say("undo", undo(&pool, 2).await);
    say("undo", undo(&pool, 0).await);
    say("left", rows(&pool, "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'").await);
    say("migrations", migrations(&pool).await);
    let mut c = sqlx::postgres::PgConnection::connect_with(&pool.connect_options()).await?;
    say("ping", c.ping().await.map(|_| "answered".to_string()));
    Ok(())
}
