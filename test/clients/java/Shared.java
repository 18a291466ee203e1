import java.sql.*;
import java.util.*;

/** What the applications share: they say what they see, and what an error is. */
final class Shared {
    interface Action { Object run() throws Exception; }

    static final String URL = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");

    static Connection connect() throws SQLException {
        return DriverManager.getConnection(URL, "postgres", "");
    }

    static void attempt(String what, Action action) {
        try {
            System.out.println(what + ": " + action.run());
        } catch (Throwable e) {
            Throwable cause = e;
            while (!(cause instanceof SQLException) && cause.getCause() != null)
                cause = cause.getCause();
            if (cause instanceof SQLException s)
                System.out.println(what + ": " + s.getSQLState() + ("40001".equals(s.getSQLState()) ? "" : " " + s.getMessage().replace("\n", " | ")));
            else
                System.out.println(what + ": " + cause.getClass().getSimpleName() + " " + String.valueOf(cause.getMessage()).replace("\n", " | "));
        }
    }

    static List<String> rows(ResultSet r) throws SQLException {
        List<String> said = new ArrayList<>();
        while (r.next()) {
            List<String> row = new ArrayList<>();
            for (int i = 1; i <= r.getMetaData().getColumnCount(); i++)
                row.add(r.getString(i));
            said.add(row.toString());
        }
        return said;
    }

    static List<String> query(String sql) throws SQLException {
        try (Connection c = connect(); Statement s = c.createStatement()) {
            return s.execute(sql) ? rows(s.getResultSet()) : List.of(String.valueOf(s.getUpdateCount()));
        }
    }

    /** What DatabaseMetaData says of the tables of a schema. */
    static void reflect(String schema) throws SQLException {
        try (Connection c = connect()) {
            DatabaseMetaData m = c.getMetaData();
            List<String> tables = new ArrayList<>();
            try (ResultSet r = m.getTables(null, schema, "%", new String[] {"TABLE", "FOREIGN TABLE", "VIEW", "SEQUENCE"})) {
                while (r.next()) {
                    System.out.println("table: " + r.getString(3) + " " + r.getString(4) + " " + r.getString(5));
                    if (r.getString(4).equals("TABLE"))
                        tables.add(r.getString(3));
                }
            }
            for (String t : tables) {
                say(t + " column", m.getColumns(null, schema, t, "%"));
                say(t + " key", m.getPrimaryKeys(null, schema, t));
                say(t + " refers", m.getImportedKeys(null, schema, t));
                say(t + " referred", m.getExportedKeys(null, schema, t));
                say(t + " row id", m.getBestRowIdentifier(null, schema, t, DatabaseMetaData.bestRowSession, true));
                try (ResultSet r = m.getIndexInfo(null, schema, t, false, true)) {
                    while (r.next())        // not its cardinality and pages, which are estimates
                        System.out.println(t + " index: " + r.getBoolean(4) + " " + r.getString(6) + " " + r.getInt(7) + " " + r.getInt(8) + " "
                            + r.getString(9) + " " + r.getString(10) + " " + r.getString(13));
                }
                say(t + " privilege", m.getTablePrivileges(null, schema, t));
                say(t + " column privilege", m.getColumnPrivileges(null, schema, t, "%"));
            }
            say("type", m.getUDTs(null, schema, "%", null));
        }
    }

    private static void say(String what, ResultSet r) throws SQLException {
        try (r) {
            for (String row : rows(r))
                System.out.println(what + ": " + row.replace(System.getenv("PGDATABASE"), "DATABASE"));
        }
    }
}
