import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Hibernate: the schema that it makes, validates and updates; entities, batches, locks, versions. */
public final class HibernateApp {
    public enum Genre { NOVEL, POEM, PLAY }

    @Embeddable
    public static class Address { public String street; public String city; }

    @Entity(name = "Author")
    @Table(name = "author", indexes = {@Index(name = "by_born", columnList = "born desc, name")}, uniqueConstraints = @UniqueConstraint(name = "one_mail", columnNames = "mail"))
    public static class Author {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) public Long id;
        @Column(nullable = false, length = 80) public String name;
        public String mail;
        public LocalDate born;
        @Embedded public Address address;
        @Version public int version;
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("price") public List<Book> books = new ArrayList<>();
        @ElementCollection public Set<String> nicknames = new TreeSet<>();
        @ElementCollection @MapKeyColumn(name = "lang") @Column(name = "says") public Map<String, String> mottos = new TreeMap<>();
    }

    @Entity(name = "Book")
    @org.hibernate.annotations.Check(name = "price_positive", constraints = "price >= 0")
    public static class Book {
        @Id @GeneratedValue(strategy = GenerationType.UUID) public UUID id;
        @ManyToOne(optional = false, fetch = FetchType.LAZY) @JoinColumn(foreignKey = @ForeignKey(name = "book_author")) public Author author;
        @Column(nullable = false) public String title;
        @Enumerated(EnumType.STRING) @org.hibernate.annotations.JdbcTypeCode(org.hibernate.type.SqlTypes.NAMED_ENUM) public Genre genre = Genre.NOVEL;
        @Enumerated(EnumType.STRING) public Genre second;
        @Column(precision = 10, scale = 2) @org.hibernate.annotations.ColumnDefault("0") public BigDecimal price = BigDecimal.ZERO;
        @Lob @org.hibernate.annotations.JdbcTypeCode(java.sql.Types.LONGVARCHAR) public String text;
        public byte[] cover;
        public OffsetDateTime at = OffsetDateTime.of(2024, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC);
        public Duration length;
        @org.hibernate.annotations.JdbcTypeCode(org.hibernate.type.SqlTypes.JSON) public Map<String, Object> data;
        public List<String> words = new ArrayList<>();
        @ManyToMany public Set<Tag> tags = new HashSet<>();
    }

    @Entity(name = "Tag")
    public static class Tag {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) public Integer id;
        @Column(unique = true) public String name;
    }

    @Entity(name = "Party") @Inheritance(strategy = InheritanceType.JOINED)
    public static class Party { @Id @GeneratedValue(strategy = GenerationType.IDENTITY) public Long id; public String name; }

    @Entity(name = "Company")
    public static class Company extends Party { public String vat; }

    /** The table author as a later version of the program wants it. */
    @Entity(name = "Later") @Table(name = "author", indexes = @Index(name = "by_town", columnList = "town"))
    public static class Later {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) public Long id;
        public String name;
        public String town;
        @ManyToOne public Tag favourite;
    }

    private static SessionFactory factory(String ddl, Class<?>... entities) {
        Configuration c = new Configuration().setProperty("hibernate.connection.url", Shared.URL).setProperty("hibernate.connection.username", "postgres")
            .setProperty("hibernate.connection.password", "").setProperty("hibernate.hbm2ddl.auto", ddl).setProperty("hibernate.jdbc.batch_size", "50")
            .setProperty("hibernate.order_inserts", "true");
        for (Class<?> e : entities)
            c.addAnnotatedClass(e);
        return c.buildSessionFactory();
    }

    interface Work { Object with(Session s) throws Exception; }

    private static void in(SessionFactory f, String what, Work work) {
        Shared.attempt(what, () -> {
            try (Session s = f.openSession()) {
                s.beginTransaction();
                try {
                    Object said = work.with(s);
                    s.getTransaction().commit();
                    return said;
                } catch (Throwable e) {
                    if (s.getTransaction().isActive())
                        s.getTransaction().rollback();
                    throw e;
                }
            }
        });
    }

    private static Author author(String name, String mail) {
        Author a = new Author();
        a.name = name;
        a.mail = mail;
        a.born = LocalDate.of(1724, 4, 22);
        a.address = new Address();
        a.address.city = "K";
        a.nicknames.addAll(List.of("one", "two"));
        a.mottos.put("de", "Sapere");
        return a;
    }

    private static Book book(Author a, String title, int price) {
        Book b = new Book();
        b.author = a;
        b.title = title;
        b.price = BigDecimal.valueOf(price);
        b.data = Map.of("n", price);
        b.words.addAll(List.of("x", title));
        b.cover = new byte[] {0, 1, (byte) price};
        b.length = Duration.ofMinutes(price);
        b.text = "text";
        a.books.add(b);
        return b;
    }

    private static void use(SessionFactory f) {
        in(f, "persist", s -> {
            Author a = author("Kant", "kant@x");
            for (int i = 0; i < 120; i++)
                book(a, "Kritik " + i, i).genre = Genre.values()[i % 3];
            s.persist(a);
            s.persist(author("Hume", "hume@x"));
            Tag t = new Tag();
            t.name = "old";
            s.persist(t);
            a.books.get(0).tags.add(t);
            Company c = new Company();
            c.name = "C";
            c.vat = "1";
            s.persist(c);
            return a.id + " " + t.id + " " + c.id;
        });
        in(f, "unique", s -> { s.persist(author("Other", "kant@x")); return null; });
        in(f, "check", s -> { s.persist(book(s.find(Author.class, 1L), "cheap", -1)); return null; });
        in(f, "fk", s -> s.createNativeMutationQuery("insert into book (id, author_id, title) values (gen_random_uuid(), 99, 'x')").executeUpdate());
        in(f, "query", s -> s.createQuery("select b.genre, count(b), sum(b.price) from Book b group by b.genre order by b.genre", Object[].class).list().stream().map(Arrays::toString).toList());
        in(f, "join fetch", s -> s.createQuery("select distinct a from Author a left join fetch a.books order by a.id", Author.class).list().stream().map(a -> a.name + a.books.size() + a.nicknames + a.mottos).toList());
        in(f, "polymorphic", s -> s.createQuery("from Party", Party.class).list().stream().map(p -> p.getClass().getSimpleName() + p.name).toList());
        in(f, "pages", s -> s.createQuery("select b.title from Book b order by b.price desc", String.class).setFirstResult(3).setMaxResults(4).list());
        in(f, "scroll", s -> {
            int n = 0;
            try (var r = s.createQuery("from Book b order by b.price", Book.class).setFetchSize(20).scroll()) {
                while (r.next())
                    n += r.get().price.intValue();
                r.first();
                return n + " " + r.get().title + " " + Arrays.toString(r.get().cover) + r.get().data + r.get().words + r.get().length;
            }
        });
        in(f, "lock", s -> s.createQuery("from Author a order by a.id", Author.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).list().size());
        in(f, "skip locked", s -> s.createQuery("from Author a order by a.id", Author.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).setHint("jakarta.persistence.lock.timeout", -2).list().size());
        in(f, "version", s -> {
            Author a = s.find(Author.class, 1L);
            try (Session t = f.openSession()) {
                t.beginTransaction();
                t.find(Author.class, 1L).name = "Immanuel";
                t.getTransaction().commit();
            }
            a.name = "Nobody";
            s.flush();
            return null;
        });
        in(f, "update", s -> s.createMutationQuery("update Book b set b.price = b.price + 1, b.second = b.genre where b.genre = PLAY").executeUpdate());
        in(f, "upsert", s -> s.createMutationQuery("insert into Tag (id, name) values (7, 'new'), (8, 'old') on conflict (name) do update set name = excluded.name || '2'").executeUpdate());
        in(f, "upserted", s -> s.createQuery("select t.id || t.name from Tag t order by t.id", String.class).list());
        in(f, "merge", s -> s.createMutationQuery("insert into Tag (id, name) values (9, 'new') on conflict do nothing").executeUpdate());
        in(f, "orphans", s -> { Author a = s.find(Author.class, 1L); a.books.subList(100, a.books.size()).clear(); s.flush(); return s.createQuery("select count(*) from Book", Long.class).uniqueResult(); });
        in(f, "bulk delete", s -> s.createMutationQuery("delete from Book b where b.price > 90").executeUpdate());
        in(f, "stateless", s -> { try (var l = f.openStatelessSession()) { l.beginTransaction(); Tag t = new Tag(); t.name = "s"; l.insert(t); t.name = "t"; l.update(t); l.getTransaction().commit(); return t.id; } });
    }

    public static void main(String[] args) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        Class<?>[] all = {Author.class, Book.class, Tag.class, Party.class, Company.class};
        Shared.attempt("create", () -> { try (SessionFactory f = factory("create", all)) { use(f); } return "done"; });
        Shared.reflect("public");
        Shared.attempt("validate", () -> { factory("validate", all).close(); return "done"; });
        Shared.attempt("update", () -> { factory("update", Later.class, Tag.class).close(); return "done"; });
        Shared.reflect("public");
        Shared.attempt("update again", () -> { factory("update", all).close(); return "done"; });
        Shared.attempt("validate", () -> { factory("validate", Later.class, Tag.class).close(); return "done"; });
        Shared.attempt("sequence", () -> Shared.query("SELECT nextval('author_seq')"));
        Shared.attempt("drop", () -> { factory("create-drop", all).close(); return "done"; });
        Shared.reflect("public");
    }
}
