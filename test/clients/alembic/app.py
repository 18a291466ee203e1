"""Alembic's operations, what SQLAlchemy reflects after each, autogenerate's difference to the models, which is none in
the end, and what it would generate; the models' rows, server-side cursors, upserts, conflicts."""
import os
import pprint

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

ENGINE = sa.create_engine("postgresql+psycopg2://postgres@/", connect_args={
    "host": os.environ["PGHOST"], "port": os.environ["PGPORT"], "dbname": os.environ["PGDATABASE"]}, future=True)


def attempt(what, action):
    try:
        print(f"{what}: {action()}", flush=True)
    except sa.exc.DBAPIError as e:
        text = "" if e.orig.pgcode == "40001" else str(e.orig).strip().replace("\n", " | ")
        print(f"{what}: {e.orig.pgcode} {text}", flush=True)
    except Exception as e:
        print(f"{what}: {type(e).__name__} {e}", flush=True)


def create(op):
    mood = pg.ENUM("sad", "ok", name="mood")
    op.create_table("person",
        sa.Column("id", sa.Integer, sa.Identity(start=10, increment=2), primary_key=True),
        sa.Column("name", sa.String(40), nullable=False, comment="as written"),
        sa.Column("mail", sa.Text, unique=True),
        sa.Column("mood", mood, server_default="ok", nullable=False),
        sa.Column("words", pg.ARRAY(sa.Text), server_default="{}"),
        sa.Column("data", pg.JSONB, server_default=sa.text("'{}'::jsonb")),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.Column("upper", sa.Text, sa.Computed("upper(mail)", persisted=True)),
        sa.CheckConstraint("length(name) > 1", name="long_name"), comment="who is known")
    op.create_table("visit",
        sa.Column("person_id", sa.Integer, sa.ForeignKey("person.id", name="visit_person", ondelete="CASCADE", onupdate="SET NULL"), primary_key=True),
        sa.Column("day", sa.Date, primary_key=True), sa.Column("n", sa.Numeric(8, 2), server_default="0"))
    op.create_table("tag", sa.Column("id", sa.BigInteger, primary_key=True), sa.Column("name", sa.CHAR(3)), sa.UniqueConstraint("name", "id", name="tag_name"))
    op.create_index("person_mood", "person", ["mood", sa.text("name DESC")])
    op.create_index("person_late", "person", ["at"], postgresql_where=sa.text("mood = 'sad'"), postgresql_include=["name"])
    op.create_index("person_lower", "person", [sa.text("lower(mail)")], unique=True)
    op.create_index("person_words", "person", ["words"], postgresql_using="gin")
    op.execute("INSERT INTO person (name, mail, mood) SELECT 'n' || i, i || '@x', (ARRAY['sad', 'ok'])[1 + i % 2]::mood FROM generate_series(1, 50) i")
    op.execute("INSERT INTO visit SELECT id, '2024-01-01', id FROM person")


def rename(op):
    op.alter_column("person", "mail", new_column_name="email", existing_type=sa.Text)
    op.rename_table("tag", "label")
    op.execute("ALTER INDEX person_late RENAME TO person_sad")
    op.execute("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
    op.execute("ALTER TABLE label RENAME CONSTRAINT tag_name TO label_name")
    op.execute("ALTER SEQUENCE person_id_seq RENAME TO person_numbers")


def retype(op):
    op.alter_column("person", "name", type_=sa.Text, existing_nullable=False, comment="the name")
    op.alter_column("visit", "n", type_=sa.Integer, postgresql_using="n::integer * 2", server_default="1", nullable=False)
    op.alter_column("person", "data", type_=sa.Text, postgresql_using="data::text", server_default=None)
    op.alter_column("visit", "day", type_=sa.DateTime, postgresql_using="day + time '12:00'")
    op.add_column("person", sa.Column("rank", sa.SmallInteger, nullable=False, server_default="3"))
    op.add_column("person", sa.Column("boss", sa.Integer, sa.ForeignKey("person.id", name="person_boss", deferrable=True, initially="DEFERRED")))
    op.create_check_constraint("rank_small", "person", "rank < 100")
    op.create_table_comment("visit", "who came")


def keys(op):
    op.drop_constraint("visit_person", "visit", type_="foreignkey")
    op.drop_constraint("visit_pkey", "visit", type_="primary")
    op.add_column("visit", sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False))
    op.create_primary_key("visit_key", "visit", ["id"])
    op.create_unique_constraint("visit_once", "visit", ["person_id", "day"])
    op.create_foreign_key("visit_of", "visit", "person", ["person_id"], ["id"], ondelete="RESTRICT")
    op.drop_index("person_words")
    op.drop_constraint("long_name", "person")
    op.drop_column("person", "upper")
    op.alter_column("person", "id", type_=sa.BigInteger)
    op.alter_column("person", "boss", type_=sa.BigInteger)
    op.alter_column("visit", "person_id", type_=sa.BigInteger)
    op.drop_table("label")


def value(op):
    with op.get_context().autocommit_block():
        op.execute("ALTER TYPE mood ADD VALUE 'glad' AFTER 'fine'")


Base = orm.declarative_base()


class Person(Base):
    __tablename__ = "person"
    id = sa.Column(sa.BigInteger, sa.Identity(start=10, increment=2), primary_key=True)
    name = sa.Column(sa.Text, nullable=False, comment="the name")
    email = sa.Column(sa.Text)
    mood = sa.Column(pg.ENUM("sad", "fine", "glad", name="mood"), server_default="fine", nullable=False)
    words = sa.Column(pg.ARRAY(sa.Text), server_default="{}")
    data = sa.Column(sa.Text)
    at = sa.Column(sa.DateTime(timezone=True), server_default=sa.func.now())
    rank = sa.Column(sa.SmallInteger, nullable=False, server_default="3")
    boss = sa.Column(sa.ForeignKey("person.id", name="person_boss", deferrable=True, initially="DEFERRED"))
    visits = orm.relationship("Visit", back_populates="person")
    __table_args__ = (sa.UniqueConstraint("email", name="person_mail_key"), sa.Index("person_mood", "mood", sa.text("name DESC")),
                      sa.Index("person_sad", "at", postgresql_where=sa.text("mood = 'sad'"), postgresql_include=["name"]),
                      sa.Index("person_lower", sa.text("lower(email)"), unique=True), sa.CheckConstraint("rank < 100", name="rank_small"),
                      {"comment": "who is known"})


class Visit(Base):
    __tablename__ = "visit"
    id = sa.Column(sa.BigInteger, sa.Identity(always=True), primary_key=True)
    person_id = sa.Column(sa.ForeignKey("person.id", name="visit_of", ondelete="RESTRICT"), nullable=False)
    day = sa.Column(sa.DateTime, nullable=False)
    n = sa.Column(sa.Integer, nullable=False, server_default="1")
    person = orm.relationship(Person, back_populates="visits")
    __table_args__ = (sa.UniqueConstraint("person_id", "day", name="visit_once"), {"comment": "who came"})


def reflect():
    inspector = sa.inspect(ENGINE)
    print("enums:", inspector.get_enums(), "views:", inspector.get_view_names(), "sequences:", sorted(inspector.get_sequence_names()))
    for table in sorted(inspector.get_table_names()):
        print(table, inspector.get_table_comment(table), inspector.get_pk_constraint(table), inspector.get_table_options(table) if hasattr(inspector, "get_table_options") else "")
        for what in (inspector.get_columns, inspector.get_foreign_keys, inspector.get_unique_constraints, inspector.get_check_constraints, inspector.get_indexes):
            for thing in sorted(what(table), key=lambda t: str(t.get("name"))):
                print(" ", what.__name__, {k: str(v) for k, v in sorted(thing.items())})
    reflected = sa.MetaData()
    reflected.reflect(ENGINE)
    for table in reflected.sorted_tables:
        print(str(sa.schema.CreateTable(table).compile(ENGINE)).strip())
        for index in sorted(table.indexes, key=lambda i: i.name):
            print(sa.schema.CreateIndex(index).compile(ENGINE))


def migrate(step):
    def run():
        with ENGINE.connect() as connection:
            context = MigrationContext.configure(connection)
            with Operations.context(context) as op, context.begin_transaction():
                step(op)
            connection.commit()
    attempt("---- " + step.__name__, run)
    reflect()


def difference(metadata):
    with ENGINE.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return pprint.pformat(compare_metadata(context, metadata))


def generated():
    with ENGINE.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        script = produce_migrations(context, sa.MetaData())
        return render_python_code(script.upgrade_ops), render_python_code(script.downgrade_ops)


def rows():
    with orm.Session(ENGINE) as session:
        ann = Person(name="Ann", email="ann@x", mood="glad", words=["a", "b"], visits=[Visit(day="2024-02-01"), Visit(day="2024-02-02", n=5)])
        session.add_all([ann, Person(name="Bob", email="bob@x", boss=ann.id)])
        session.commit()
        attempt("id", lambda: (ann.id, [v.id for v in ann.visits]))
        ann.boss = ann.id
        session.commit()
    with ENGINE.begin() as c:
        insert = pg.insert(Person).values([{"name": "Cid", "email": "ann@x"}, {"name": "Dee", "email": "dee@x"}])
        attempt("upsert", lambda: c.execute(insert.on_conflict_do_update(index_elements=["email"], set_={"name": insert.excluded.name}).returning(Person.name, Person.rank)).all())
        attempt("many", lambda: c.execute(sa.insert(Person), [{"name": f"m{i}", "email": f"m{i}@x"} for i in range(500)]).rowcount)
        attempt("moods", lambda: c.execute(sa.select(Person.mood, sa.func.count()).group_by(Person.mood).order_by(Person.mood)).all())
        attempt("update from", lambda: c.execute(sa.update(Visit).where(Visit.person_id == Person.id, Person.mood == "glad").values(n=Visit.n + 1)).rowcount)
        attempt("delete using", lambda: c.execute(sa.delete(Visit).where(Visit.person_id == Person.id, Person.name.like("n1%"))).rowcount)
    with ENGINE.connect() as c:
        attempt("stream", lambda: sum(r.rank for r in c.execution_options(stream_results=True, max_row_buffer=50).execute(sa.select(Person.rank))))
    for what, statement in {"unique": "INSERT INTO person (name, email) VALUES ('x', 'bob@x')", "lower": "INSERT INTO person (name, email) VALUES ('x', 'BOB@x')",
                            "check": "UPDATE person SET rank = 200 WHERE name = 'Bob'", "always": "INSERT INTO visit VALUES (1, '2024-01-01', 1, 5)",
                            "fk": "INSERT INTO visit (person_id, day) VALUES (1, now())", "restrict": "DELETE FROM person WHERE name = 'Cid'"}.items():
        def run(statement=statement):
            with ENGINE.begin() as c:
                return c.execute(sa.text(statement)).rowcount
        attempt(what, run)

    def deferred():
        with ENGINE.begin() as c:
            c.execute(sa.text("UPDATE person SET boss = -1 WHERE name = 'Bob'"))
            c.execute(sa.text("UPDATE person SET boss = NULL WHERE name = 'Bob'"))
            return c.execute(sa.text("UPDATE person SET boss = -1 WHERE name = 'Bob'")).rowcount
    attempt("deferred", deferred)

    def conflict():
        one, two = (ENGINE.connect().execution_options(isolation_level="REPEATABLE READ") for _ in range(2))
        try:
            for c in (one, two):
                c.execute(sa.text("SELECT count(*) FROM person")).scalar()
            one.execute(sa.text("UPDATE person SET rank = 1 WHERE name = 'Bob'"))
            one.commit()
            return two.execute(sa.text("UPDATE person SET rank = 2 WHERE name = 'Bob'")).rowcount
        finally:
            one.close()
            two.close()
    attempt("conflict", conflict)


for step in (create, rename, retype, keys, value):
    migrate(step)
attempt("difference", lambda: difference(Base.metadata))
attempt("rows", rows)
for text in generated():
    print(text)
attempt("drop", lambda: Base.metadata.drop_all(ENGINE))
reflect()
