import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.configuration.FluentConfiguration;

/** Flyway: versioned and repeatable migrations (V*.sql, R*.sql), validate, info, repair, baseline, clean. */
public final class FlywayApp {
    private static FluentConfiguration configured() {
        return Flyway.configure().dataSource(Shared.URL, "postgres", "").locations("classpath:flyway").cleanDisabled(false);
    }

    private static Object upTo(String version) {
        var done = configured().target(version).load().migrate();
        return done.success + " " + done.migrationsExecuted + " " + done.targetSchemaVersion;
    }

    public static void main(String[] args) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        for (String version : new String[] {"1", "2", "3", "4", "5", "6", "7"}) {
            Shared.attempt("---- migrate to " + version, () -> upTo(version));
            Shared.reflect("public");
        }
        Shared.attempt("migrate", () -> configured().load().migrate().migrationsExecuted);
        Shared.attempt("validate", () -> configured().load().validateWithResult().validationSuccessful);
        Shared.attempt("info", () -> {
            StringBuilder said = new StringBuilder();
            for (var i : configured().load().info().all())
                said.append(i.getVersion()).append(' ').append(i.getDescription()).append(' ').append(i.getState()).append("; ");
            return said;
        });
        Shared.attempt("repair", () -> configured().load().repair().repairActions.size());
        Shared.attempt("rows", () -> Shared.query("SELECT * FROM person ORDER BY 1"));
        Shared.attempt("rows", () -> Shared.query("SELECT * FROM orders ORDER BY 1 LIMIT 5"));
        Shared.attempt("rows", () -> Shared.query("SELECT * FROM totals ORDER BY 1"));
        Shared.attempt("history", () -> Shared.query("SELECT installed_rank, version, description, type, script, checksum, success FROM flyway_schema_history ORDER BY 1"));
        Shared.attempt("clean", () -> configured().load().clean().schemasCleaned);
        Shared.reflect("public");
        Shared.attempt("migrate again", () -> configured().load().migrate().migrationsExecuted);
        Shared.attempt("rows", () -> Shared.query("SELECT count(*) FROM orders"));
    }
}
