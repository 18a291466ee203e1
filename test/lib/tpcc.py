"""TPC-C with one warehouse, for the test (t/tpcc.py) and the benchmark (bench/tpcc).

The nine tables with the foreign keys that sysbench-tpcc gives them; the five transactions as
scripts of pgbench, statement by statement, as a client says them that knows no procedures; the
consistency conditions of the specification (3.3.2).

What differs from the specification: no terminals, keying or thinking; one warehouse, so nothing
is remote.  The items of an order come in ascending order, as from a client that sorts them lest
it meets deadlocks; ORDERLY = False for one that does not."""
import os
import re
import subprocess

DISTRICTS = 10
LINES = 15                      # of an order, at most; 5 at least
WEIGHTS = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}


class Scale:
    """Of the warehouse: customers and orders are those of one district."""

    def __init__(self, items=100000, customers=3000):
        self.items, self.customers = items, customers
        self.delivered = customers * 7 // 10        # orders of the load; the others are new
        self.names = min(1000, customers)


# ---- tables ----

ADDRESS = "{0}_street_1 varchar(20), {0}_street_2 varchar(20), {0}_city varchar(20), {0}_state char(2), {0}_zip char(9)"
DISTS = [f"s_dist_{d:02}" for d in range(1, DISTRICTS + 1)]

SCHEMA = f"""
CREATE TABLE warehouse (w_id smallint PRIMARY KEY, w_name varchar(10), {ADDRESS.format("w")},
    w_tax numeric(4, 4), w_ytd numeric(12, 2));
CREATE TABLE district (d_w_id smallint, d_id smallint, d_name varchar(10), {ADDRESS.format("d")},
    d_tax numeric(4, 4), d_ytd numeric(12, 2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id),
    FOREIGN KEY (d_w_id) REFERENCES warehouse);
CREATE TABLE customer (c_w_id smallint, c_d_id smallint, c_id int, c_first varchar(16), c_middle char(2),
    c_last varchar(16), {ADDRESS.format("c")}, c_phone char(16), c_since timestamp, c_credit char(2),
    c_credit_lim numeric(12, 2), c_discount numeric(4, 4), c_balance numeric(12, 2), c_ytd_payment numeric(12, 2),
    c_payment_cnt int, c_delivery_cnt int, c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id),
    FOREIGN KEY (c_w_id, c_d_id) REFERENCES district);
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE history (h_c_id int, h_c_d_id smallint, h_c_w_id smallint, h_d_id smallint, h_w_id smallint,
    h_date timestamp, h_amount numeric(6, 2), h_data varchar(24),
    FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer, FOREIGN KEY (h_w_id, h_d_id) REFERENCES district);
CREATE TABLE orders (o_w_id smallint, o_d_id smallint, o_id int, o_c_id int, o_entry_d timestamp,
    o_carrier_id smallint, o_ol_cnt smallint, o_all_local smallint, PRIMARY KEY (o_w_id, o_d_id, o_id),
    FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer);
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
CREATE TABLE new_orders (no_w_id smallint, no_d_id smallint, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id),
    FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders);
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price numeric(5, 2), i_data varchar(50));
CREATE TABLE stock (s_w_id smallint, s_i_id int, s_quantity smallint, {", ".join(d + " char(24)" for d in DISTS)},
    s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id),
    FOREIGN KEY (s_w_id) REFERENCES warehouse, FOREIGN KEY (s_i_id) REFERENCES item);
CREATE INDEX stock_item ON stock (s_i_id);
CREATE TABLE order_line (ol_w_id smallint, ol_d_id smallint, ol_o_id int, ol_number smallint, ol_i_id int,
    ol_supply_w_id smallint, ol_delivery_d timestamp, ol_quantity smallint, ol_amount numeric(6, 2),
    ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number),
    FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders, FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock);
CREATE INDEX order_line_stock ON order_line (ol_supply_w_id, ol_i_id);
"""
TABLES = ("warehouse", "district", "customer", "history", "orders", "new_orders", "item", "stock", "order_line")

SYLLABLES = "ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING']"


def last_name(number):
    """SQL for the name of this number, an expression."""
    return " || ".join(f"({SYLLABLES})[{number} / {part} % 10 + 1]" for part in (100, 10, 1))


def load(scale):
    """SQL that fills the tables, one statement each."""
    address = "'street', 'road', 'city', 'ST', '123411111'"
    district = f"generate_series(1, {DISTRICTS}) d"
    customers = f"{district}, generate_series(1, {scale.customers})"
    return f"""
INSERT INTO warehouse SELECT 1, 'one', {address}, 0.1, {scale.customers * DISTRICTS * 10};
INSERT INTO district SELECT 1, d, 'name', {address}, 0.1, {scale.customers * 10}, {scale.customers + 1} FROM {district};
INSERT INTO item SELECT i, i % 10000, 'item ' || i, 1 + i % 9900 / 100.0, repeat('data ', 8) FROM generate_series(1, {scale.items}) i;
INSERT INTO customer SELECT 1, d, c, 'first ' || c * 7919 % 1000, 'OE', {last_name(f"((c - 1) % {scale.names})")}, {address},
    '0123456789012345', now(), CASE WHEN c % 10 = 0 THEN 'BC' ELSE 'GC' END, 50000, 0.1, -10, 10, 1, 0, repeat('c_data ', 50)
    FROM {customers} c;
INSERT INTO history SELECT c, d, 1, d, 1, now(), 10, 'history' FROM {customers} c;
INSERT INTO orders SELECT 1, d, o, (o * 7919) % {scale.customers} + 1, now(), CASE WHEN o <= {scale.delivered} THEN o % 10 + 1 END,
    5 + o % 11, 1 FROM {customers} o;
INSERT INTO new_orders SELECT 1, d, o FROM {district}, generate_series({scale.delivered + 1}, {scale.customers}) o;
INSERT INTO stock SELECT 1, i, 10 + i % 91, {", ".join(["repeat('d', 24)"] * DISTRICTS)}, 0, 0, 0, repeat('data ', 8)
    FROM generate_series(1, {scale.items}) i;
INSERT INTO order_line SELECT 1, d, o, l, (d * 7919 + o * 104729 + l * 1299709) % {scale.items} + 1, 1,
    CASE WHEN o <= {scale.delivered} THEN now() END, 5, CASE WHEN o <= {scale.delivered} THEN 0 ELSE 1 + l END, repeat('d', 24)
    FROM {customers} o, generate_series(1, 5 + o % 11) l;
""" + " ".join(f"ANALYZE {t};" for t in TABLES)


# ---- transactions ----

def nurand(name, a, low, high):
    return (f"\\set r1 random(0, {a})\n\\set r2 random({low}, {high})\n"
            f"\\set {name} (((:r1 | :r2) + 7) % ({high} - {low} + 1)) + {low}\n")


def line(k, scale, orderly):
    """Of a new order, the k-th."""
    share = scale.items // LINES
    low, high = ((k - 1) * share + 1, k * share) if orderly else (1, scale.items)
    return f"""\\if :lines >= {k}
{nurand("item", 8191, low, high)}\\if :wrong and :lines = {k}
\\set item 0
\\endif
\\set quantity random(1, 10)
SELECT i_price, i_name, i_data FROM item WHERE i_id = :item \\aset
\\if :item > 0
SELECT s_quantity, s_data, ({"ARRAY[" + ", ".join(DISTS) + "]"})[:d] AS dist FROM stock WHERE s_w_id = 1 AND s_i_id = :item FOR UPDATE \\gset
\\set left case when :s_quantity - :quantity >= 10 then :s_quantity - :quantity else :s_quantity - :quantity + 91 end
UPDATE stock SET s_quantity = :left, s_ytd = s_ytd + :quantity, s_order_cnt = s_order_cnt + 1 WHERE s_w_id = 1 AND s_i_id = :item;
INSERT INTO order_line VALUES (1, :d, :o_id, {k}, :item, 1, NULL, :quantity, :i_price::numeric * :quantity::numeric, :dist);
\\endif
\\endif
"""


def new_order(scale, orderly):
    return f"""\\set d random(1, {DISTRICTS})
\\set lines random(5, {LINES})
\\set wrong random(1, 100) = 1
{nurand("c", 1023, 1, scale.customers)}BEGIN;
SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = 1 AND c_w_id = w_id AND c_d_id = :d AND c_id = :c \\gset
SELECT d_next_o_id AS o_id, d_tax FROM district WHERE d_w_id = 1 AND d_id = :d FOR UPDATE \\gset
UPDATE district SET d_next_o_id = :o_id + 1 WHERE d_w_id = 1 AND d_id = :d;
INSERT INTO orders VALUES (1, :d, :o_id, :c, now(), NULL, :lines, 1);
INSERT INTO new_orders VALUES (1, :d, :o_id);
{"".join(line(k, scale, orderly) for k in range(1, LINES + 1))}\\if :wrong
ROLLBACK;
\\else
COMMIT;
\\endif
"""


def customer(scale):
    """Four in ten by number, the others by name, the one in the middle; into :c."""
    named = f"c_w_id = 1 AND c_d_id = :d AND c_last = {last_name('(:name)::int')}"
    return f"""\\set by_name random(1, 10) > 4
{nurand("c", 1023, 1, scale.customers)}{nurand("name", 255, 0, scale.names - 1)}\\if :by_name
SELECT count(*) AS namesakes FROM customer WHERE {named} \\gset
\\set skip :namesakes / 2
SELECT c_id AS c FROM customer WHERE {named} ORDER BY c_first OFFSET :skip LIMIT 1 \\gset
\\endif
"""


def payment(scale):
    this = "c_w_id = 1 AND c_d_id = :d AND c_id = :c"
    paid = "c_balance = c_balance - :cents / 100.0, c_ytd_payment = c_ytd_payment + :cents / 100.0, c_payment_cnt = c_payment_cnt + 1"
    return f"""\\set d random(1, {DISTRICTS})
\\set cents random(100, 500000)
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + :cents / 100.0 WHERE w_id = 1;
SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = 1 \\gset
UPDATE district SET d_ytd = d_ytd + :cents / 100.0 WHERE d_w_id = 1 AND d_id = :d;
SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district WHERE d_w_id = 1 AND d_id = :d \\gset
{customer(scale)}SELECT c_first, c_middle, c_last, c_street_1, c_city, c_phone, c_credit = 'BC' AS bad, c_credit_lim, c_discount, c_balance,
    c_since FROM customer WHERE {this} FOR UPDATE \\gset
\\if :bad
SELECT c_data FROM customer WHERE {this} \\gset
UPDATE customer SET {paid}, c_data = left(:c || ' ' || :d || ' 1 ' || :cents || ' | ' || :c_data, 500) WHERE {this};
\\else
UPDATE customer SET {paid} WHERE {this};
\\endif
INSERT INTO history VALUES (:c, :d, 1, :d, 1, now(), :cents / 100.0, :w_name || '    ' || :d_name);
COMMIT;
"""


def order_status(scale):
    return f"""\\set d random(1, {DISTRICTS})
\\set o_id 0
BEGIN;
{customer(scale)}SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = 1 AND c_d_id = :d AND c_id = :c \\gset
SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = 1 AND o_d_id = :d AND o_c_id = :c ORDER BY o_id DESC LIMIT 1 \\aset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = 1 AND ol_d_id = :d AND ol_o_id = :o_id;
COMMIT;
"""


def delivery(scale):
    of = "{0}_w_id = 1 AND {0}_d_id = {1} AND {0}_{2}id = :o_id"
    return "\\set carrier random(1, 10)\nBEGIN;\n" + "".join(f"""\\set o_id 0
SELECT no_o_id AS o_id FROM new_orders WHERE no_w_id = 1 AND no_d_id = {d} ORDER BY no_o_id LIMIT 1 FOR UPDATE \\aset
\\if :o_id > 0
DELETE FROM new_orders WHERE {of.format("no", d, "o_")};
SELECT o_c_id FROM orders WHERE {of.format("o", d, "")} \\gset
UPDATE orders SET o_carrier_id = :carrier WHERE {of.format("o", d, "")};
UPDATE order_line SET ol_delivery_d = now() WHERE {of.format("ol", d, "o_")};
SELECT sum(ol_amount) AS amount FROM order_line WHERE {of.format("ol", d, "o_")} \\gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = 1 AND c_d_id = {d} AND c_id = :o_c_id;
\\endif
""" for d in range(1, DISTRICTS + 1)) + "COMMIT;\n"


def stock_level(scale):
    return f"""\\set d random(1, {DISTRICTS})
\\set threshold random(10, 20)
BEGIN;
SELECT d_next_o_id AS o_id FROM district WHERE d_w_id = 1 AND d_id = :d \\gset
SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = 1 AND ol_d_id = :d AND ol_o_id < :o_id AND ol_o_id >= :o_id - 20
    AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < :threshold;
COMMIT;
"""


def scripts(scale, orderly=True):
    """Name -> script."""
    return {"new_order": new_order(scale, orderly), "payment": payment(scale), "order_status": order_status(scale),
            "delivery": delivery(scale), "stock_level": stock_level(scale)}


# ---- the consistency conditions ----

def checks(scale):
    """Name -> query of what is wrong: no rows.  (Condition 11 holds after the load alone.)"""
    paid = "(SELECT h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS paid FROM history GROUP BY 1, 2) h"
    bought = """(SELECT o_d_id AS d, o_c_id AS c, sum(ol_amount) AS bought FROM orders JOIN order_line
        ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2) b"""
    return {
        "1: w_ytd = sum(d_ytd)":
            "SELECT w_ytd FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district)",
        "2: d_next_o_id - 1 = max(o_id) = max(no_o_id)":
            """SELECT d_id, d_next_o_id, o, n FROM district LEFT JOIN (SELECT o_d_id, max(o_id) AS o FROM orders GROUP BY 1) x ON o_d_id = d_id
               LEFT JOIN (SELECT no_d_id, max(no_o_id) AS n FROM new_orders GROUP BY 1) y ON no_d_id = d_id
               WHERE d_next_o_id - 1 IS DISTINCT FROM o OR n <> o""",
        "3: new orders without a gap":
            "SELECT no_d_id, count(*) FROM new_orders GROUP BY 1 HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
        "4: sum(o_ol_cnt) = count of order_line":
            """SELECT * FROM (SELECT o_d_id AS d, sum(o_ol_cnt) AS n FROM orders GROUP BY 1) x FULL JOIN
               (SELECT ol_d_id AS d, count(*) AS n FROM order_line GROUP BY 1) y USING (d) WHERE x.n IS DISTINCT FROM y.n""",
        "5: no carrier, a new order":
            """SELECT o_d_id, o_id, no_o_id FROM orders FULL JOIN new_orders ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
               WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL) OR o_id IS NULL""",
        "6: o_ol_cnt = count of the order's lines":
            """SELECT * FROM orders FULL JOIN (SELECT ol_d_id, ol_o_id, count(*) AS n FROM order_line GROUP BY 1, 2) l
               ON ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_ol_cnt IS DISTINCT FROM n""",
        "7: no carrier, no delivery":
            """SELECT ol_d_id, ol_o_id, ol_number FROM order_line JOIN orders ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
               WHERE (o_carrier_id IS NULL) <> (ol_delivery_d IS NULL)""",
        "8: w_ytd = sum(h_amount)":
            "SELECT w_ytd FROM warehouse WHERE w_ytd <> (SELECT sum(h_amount) FROM history)",
        "9: d_ytd = sum(h_amount)":
            """SELECT d_id, d_ytd, paid FROM district JOIN (SELECT h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1) h
               ON h_d_id = d_id WHERE d_ytd <> paid""",
        "10: c_balance = bought - paid":
            f"""SELECT c_d_id, c_id, c_balance, bought, paid FROM customer LEFT JOIN {paid} ON h.d = c_d_id AND h.c = c_id
                LEFT JOIN {bought} ON b.d = c_d_id AND b.c = c_id WHERE c_balance <> coalesce(bought, 0) - coalesce(paid, 0)""",
        "12: c_balance + c_ytd_payment = bought":
            f"""SELECT c_d_id, c_id, c_balance, c_ytd_payment, bought FROM customer LEFT JOIN {bought} ON b.d = c_d_id AND b.c = c_id
                WHERE c_balance + c_ytd_payment <> coalesce(bought, 0)""",
        "stock has given what the lines say":
            f"""SELECT s_i_id, s_ytd, n, s_order_cnt, k FROM stock LEFT JOIN (SELECT ol_i_id, sum(ol_quantity) AS n, count(*) AS k
                FROM order_line WHERE ol_o_id > {scale.customers} GROUP BY 1) l ON ol_i_id = s_i_id
                WHERE s_ytd <> coalesce(n, 0) OR s_order_cnt <> coalesce(k, 0)""",
    }


# ---- running them ----

class Clients:
    """pgbench with scripts, for some seconds or so many transactions each; where: a directory for them; env: which database."""

    def __init__(self, where, scripts, clients, env, *, seconds=None, transactions=None, seed=None):
        files = []
        os.makedirs(where, exist_ok=True)
        for name, script in scripts.items():
            path = os.path.join(where, name + ".sql")
            with open(path + ".new", "w") as f:
                f.write(script)
            os.replace(path + ".new", path)     # the clients before may be reading it
            files += ["-f", f"{path}@{WEIGHTS[name]}"]
        self.process = subprocess.Popen(
            ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", "1", "--max-tries=1", "--failures-detailed",
             *(["-T", str(seconds)] if seconds else ["-t", str(transactions)]),
             *(["--random-seed", str(seed)] if seed is not None else []), *files],
            env={**os.environ, **env}, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def stop(self):
        self.process.kill()

    def result(self, timeout):
        """What pgbench says in the end, as a Result."""
        return Result(self.process.communicate(timeout=timeout)[0], self.process.returncode)


class Result:
    """done: transactions that succeeded, by name; failed: by SQLSTATE.  Other errors end a client, and pgbench with 2."""

    def __init__(self, said, returncode):
        self.said, self.returncode = said, returncode
        self.done, self.failed = {}, {}
        for name, n in re.findall(r"/([a-z_]+)\.sql\n(?: - weight.*\n)? - (\d+) transactions", said):
            self.done[name] = int(n)
        for state, kind in ("40001", "serialization"), ("40P01", "deadlock"):
            found = re.search(rf"^number of {kind} failures: (\d+)", said, re.M)
            if found and int(found[1]):
                self.failed[state] = int(found[1])
        tps = re.search(r"^tps = ([\d.]+)", said, re.M)
        self.per_second = float(tps[1]) if tps else 0
