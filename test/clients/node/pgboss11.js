require("./pgboss10").run(11);
