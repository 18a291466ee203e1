"""An application of SQLAlchemy: its tables, objects, reflection; Alembic compares the
models with the database.  Run by t/clients.py; PGHOST, PGPORT and PGDATABASE say where."""
import os

import alembic.autogenerate
import alembic.migration
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects.postgresql import insert

Base = orm.declarative_base()


class Author(Base):
    __tablename__ = "author"
    id = sa.Column(sa.Integer, primary_key=True)
    name = sa.Column(sa.String(40), nullable=False, unique=True)
    born = sa.Column(sa.Date, index=True)
    books = orm.relationship("Book", back_populates="author", cascade="all, delete-orphan")
    __table_args__ = (sa.Index("one_spelling", sa.func.lower(name), unique=True,
                               postgresql_where=born.is_(None)),
                      sa.Index("of_late", born, postgresql_where=born > "1900-01-01"))


class Book(Base):
    __tablename__ = "book"
    id = sa.Column(sa.BigInteger, primary_key=True)
    author_id = sa.Column(sa.ForeignKey("author.id"), nullable=False)
    title = sa.Column(sa.Text, nullable=False, comment="as printed")
    price = sa.Column(sa.Numeric(10, 2), server_default="0", nullable=False)
    author = orm.relationship(Author, back_populates="books")
    __table_args__ = (sa.UniqueConstraint("author_id", "title", name="one_of_a_title"),
                      sa.Index("by_price", price.desc(), title),
                      sa.CheckConstraint("price >= 0", name="not_negative"))


def unit_of_work(engine):
    with orm.Session(engine) as session:
        kant = Author(name="Kant", books=[Book(title="Kritik", price=10), Book(title="Prolegomena")])
        session.add_all([kant, Author(name="Hume", books=[Book(title="Enquiry", price=3)])])
        session.commit()
        kant.books[0].price += 1
        kant.books.pop(1)
        session.commit()
        rows = session.query(Author.name, Book.title, Book.price).join(Book).order_by(Book.price)
        assert [tuple(r) for r in rows] == [("Hume", "Enquiry", 3), ("Kant", "Kritik", 11)]
        session.add(Author(name="Kant"))
        try:
            session.commit()
            raise AssertionError("a second Kant")
        except sa.exc.IntegrityError:
            session.rollback()
        session.delete(session.query(Author).filter_by(name="Hume").one())
        session.commit()
        assert session.query(Book).count() == 1
        upsert = insert(Author).values([{"name": "Kant"}, {"name": "Zeno"}])
        upsert = upsert.on_conflict_do_update(index_elements=["name"],
                                              set_={"born": sa.text("'1724-04-22'")})
        session.execute(upsert)
        session.commit()
        spelling = insert(Author).values([{"name": "ZENO"}, {"name": "KANT"}]).on_conflict_do_nothing(
            index_elements=[sa.func.lower(Author.name)], index_where=Author.born.is_(None))
        assert session.execute(spelling).rowcount == 1
        session.execute(sa.delete(Author).where(Author.name == "KANT"))
        session.commit()
        assert sorted((a.name, str(a.born)) for a in session.query(Author)) == \
            [("Kant", "1724-04-22"), ("Zeno", "None")]


def reflection(engine):
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["author", "book"], inspector.get_table_names()
    assert inspector.get_pk_constraint("book")["constrained_columns"] == ["id"]
    assert [f["referred_table"] for f in inspector.get_foreign_keys("book")] == ["author"]
    assert [u["name"] for u in inspector.get_unique_constraints("book")] == ["one_of_a_title"]
    assert "by_price" in [i["name"] for i in inspector.get_indexes("book")]
    assert [c["name"] for c in inspector.get_check_constraints("book")] == ["not_negative"]
    reflected = sa.MetaData()
    reflected.reflect(engine)
    assert sorted(reflected.tables) == ["author", "book"]


def main():
    engine = sa.create_engine("postgresql+psycopg2://postgres@/", connect_args={
        "host": os.environ["PGHOST"], "port": os.environ["PGPORT"],
        "dbname": os.environ["PGDATABASE"]})
    Base.metadata.create_all(engine)
    unit_of_work(engine)
    reflection(engine)
    with engine.connect() as connection:
        context = alembic.migration.MigrationContext.configure(
            connection, opts={"compare_type": True})
        difference = alembic.autogenerate.compare_metadata(context, Base.metadata)
        assert not difference, difference
    Base.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []


main()
