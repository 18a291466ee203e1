"""Migrations as Prisma Migrate emits them, applied as it does: each file is one query, under an advisory lock,
and a row of _prisma_migrations.  Rows are there before the columns change, and are shown afterwards."""
import glob
import hashlib
import os
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
from mosqltest import *
from reflection import reflect

MIGRATIONS = """CREATE TABLE _prisma_migrations (
    id                      VARCHAR(36) PRIMARY KEY NOT NULL,
    checksum                VARCHAR(64) NOT NULL,
    finished_at             TIMESTAMPTZ,
    migration_name          VARCHAR(255) NOT NULL,
    logs                    TEXT,
    rolled_back_at          TIMESTAMPTZ,
    started_at              TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count     INTEGER NOT NULL DEFAULT 0
)"""

# after the migration of that name
STATEMENTS = {
    "01_init": [
        """INSERT INTO "User" ("email", "name", "role", "updatedAt") VALUES ('a@x', 'A', 'ADMIN', '2024-01-01'), ('b@x', NULL, 'USER', '2024-01-02')
           RETURNING "id", "role" """,
        """INSERT INTO "Profile" ("bio", "userId", "settings") VALUES ('one', 1, '{"a": 1}') RETURNING "id" """,
        """INSERT INTO "Post" ("id", "title", "content", "status", "rating", "keywords", "authorId")
           SELECT ('00000000-0000-0000-0000-0000000000' || i)::uuid, 'Title ' || i, 'text', 'published', i / 3.0, ARRAY['k' || i, 'all'], 1
           FROM generate_series(10, 30) i""",
        """INSERT INTO "Tag" ("name") VALUES ('x'), ('y') RETURNING "id" """,
        """INSERT INTO "_PostToTag" SELECT "id", 1 FROM "Post" """,
        """INSERT INTO "Vote" SELECT "id", 2, 1 FROM "Post" """,
        """INSERT INTO "Vote" SELECT "id", 2, 1 FROM "Post" LIMIT 1""",
        """INSERT INTO "User" ("email", "updatedAt") VALUES ('a@x', now())""",
        """INSERT INTO "Post" ("title", "authorId") VALUES ('none', 99)""",
        """SELECT count(*) FROM "Post" WHERE "keywords" @> '{k12}'""",
        """DELETE FROM "User" WHERE "id" = 1""",
    ],
    "02_enum_value": ["""UPDATE "User" SET "role" = 'MODERATOR' WHERE "id" = 2 RETURNING "id", "role" """],
    "03_enum_redefined": ["""SELECT "id", "role" FROM "User" ORDER BY "role" """,
                          """UPDATE "User" SET "role" = 'GUEST'"""],
    "04_columns": ["""UPDATE "Post" SET "content" = NULL""",
                   """SELECT "title", "views", "score", "slug", "publishedAt" FROM "Post" ORDER BY "title" LIMIT 3"""],
    "05_keys": ["""SELECT * FROM "Tag" ORDER BY 1""",
                """SELECT count(*), count(DISTINCT "id"), max("id") FROM "Vote" """,
                """INSERT INTO "_PostToTag" SELECT * FROM "_PostToTag" LIMIT 1"""],
    "06_defaults": ["""INSERT INTO "Profile" ("userId") VALUES (2) RETURNING "id", "number" """,
                    """SELECT "serial", "slug", "status" FROM "Post" ORDER BY "serial" LIMIT 4""",
                    """SELECT count(DISTINCT "serial") FROM "Post" """,
                    """INSERT INTO "User" ("email") VALUES ('A@X')""",
                    """UPDATE "Post" SET "views" = -1"""],
    "07_schemas": ["""INSERT INTO "audit"."Entry" ("action", "userId", "where", "mail", "at", "day")
                      VALUES ('CREATE', 1, '10.0.0.1', 'Me@X', '2024-02-03', '2024-02-03') RETURNING *""",
                   """INSERT INTO "audit"."Entry" ("action", "userId", "mail") VALUES ('CREATE', 1, 'ME@x')""",
                   """SELECT count(*) FROM "Opinion" """],
    "08_key_of_user": ["""SELECT "id", "email", "role" FROM "User" ORDER BY "id" """,
                       """SELECT DISTINCT "authorId" FROM "Post" """,
                       """SELECT "where" FROM "audit"."Entry" """,
                       """UPDATE "User" SET "id" = 'one' WHERE "id" = '1'""",
                       """SELECT DISTINCT "authorId" FROM "Post" """],
    "09_drop": ["""INSERT INTO "Post" ("id", "title", "slug", "serial") SELECT "id", "title", "slug" || '2', "serial" + 100 FROM "Post" """,
                """SELECT count(*) FROM "Post" """,
                """DELETE FROM "User" WHERE "id" = 'one'""",
                """DELETE FROM "audit"."Entry" """,
                """DELETE FROM "User" WHERE "id" = 'one'""",
                """SELECT count(*) FROM "Post" WHERE "authorId" IS NULL"""],
}


def say(conn, sql):
    state, said = error_of(conn, sql)
    print(state or "ok", said if said is not None else "", flush=True)


def migrate(conn, path):
    name = os.path.basename(path)[:-4]
    with open(path) as f:
        script = f.read()
    print("----", name)
    query(conn, "SELECT pg_advisory_lock(72707369)")
    id = str(uuid.uuid4())
    query(conn, "INSERT INTO _prisma_migrations (id, checksum, migration_name) VALUES (%s, %s, %s)",
          (id, hashlib.sha256(script.encode()).hexdigest(), name))
    say(conn, script)
    query(conn, "UPDATE _prisma_migrations SET finished_at = now(), applied_steps_count = applied_steps_count + 1 WHERE id = %s", (id,))
    query(conn, "SELECT pg_advisory_unlock(72707369)")
    for statement in STATEMENTS[name]:
        say(conn, statement)
    print("\n".join(reflect(conn, os.environ["PGDATABASE"])))


conn = psycopg2.connect("")
conn.autocommit = True
query(conn, MIGRATIONS)
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*.sql"))):
    migrate(conn, path)
say(conn, "SELECT migration_name, applied_steps_count, finished_at IS NOT NULL FROM _prisma_migrations ORDER BY 1")
