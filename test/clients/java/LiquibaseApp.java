import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.sql.Connection;
import liquibase.*;
import liquibase.database.*;
import liquibase.database.jvm.JdbcConnection;
import liquibase.diff.compare.CompareControl;
import liquibase.diff.output.DiffOutputControl;
import liquibase.diff.output.changelog.DiffToChangeLog;
import liquibase.resource.ClassLoaderResourceAccessor;

/** Liquibase: change sets, one at a time, tags, rollback, the change log that it generates of the schema. */
public final class LiquibaseApp {
    interface Work { Object with(Liquibase l) throws Exception; }

    private static Object open(Work work) throws Exception {
        try (Connection c = Shared.connect()) {
            Database d = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(c));
            try (Liquibase l = new Liquibase("liquibase.xml", new ClassLoaderResourceAccessor(), d)) {
                return work.with(l);
            }
        }
    }

    private static Object generated(Liquibase l) throws Exception {
        var bytes = new ByteArrayOutputStream();
        var diff = l.diff(l.getDatabase(), null, new CompareControl());
        var out = new DiffToChangeLog(diff, new DiffOutputControl(false, false, false, null));
        out.setChangeSetAuthor("x");
        out.setIdRoot("1");
        out.print(new PrintStream(bytes), new liquibase.serializer.core.xml.XMLChangeLogSerializer());
        return bytes.toString();
    }

    public static void main(String[] args) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        Scope.child(java.util.Map.of(Scope.Attr.ui.name(), new liquibase.ui.LoggerUIService()), () -> {
            for (int i = 1; i <= 7; i++) {
                Shared.attempt("---- update " + i, () -> open(l -> { l.update(1, ""); return "done"; }));
                Shared.reflect("public");
            }
            Shared.attempt("unrun", () -> open(l -> l.listUnrunChangeSets(new Contexts(), new LabelExpression()).size()));
            Shared.attempt("log", () -> Shared.query("SELECT id, author, orderexecuted, exectype, md5sum, tag FROM databasechangelog ORDER BY orderexecuted"));
            Shared.attempt("rows", () -> Shared.query("SELECT id, name, email, rank, note FROM person ORDER BY id"));
            Shared.attempt("rows", () -> Shared.query("SELECT line, weight FROM place ORDER BY line LIMIT 5"));
            Shared.attempt("numbers", () -> Shared.query("SELECT count(DISTINCT number), min(number), max(number) FROM place"));
            Shared.attempt("owners", () -> Shared.query("SELECT * FROM owner ORDER BY 1"));
            Shared.attempt("next", () -> Shared.query("SELECT nextval('counted')"));
            Shared.attempt("generated", () -> open(LiquibaseApp::generated));
            Shared.attempt("drop all", () -> open(l -> { l.dropAll(); return "done"; }));
            Shared.reflect("public");
            Shared.attempt("update", () -> open(l -> { l.update(4, ""); return "done"; }));
            Shared.attempt("rollback", () -> open(l -> { l.rollback("filled", ""); return "done"; }));
            Shared.attempt("rollback", () -> open(l -> { l.rollback(3, ""); return "done"; }));
            Shared.reflect("public");
        });
    }
}
