"""Statements of migrations that people write by hand: what each says, notices too, and what the schema is after each
file.  A statement ends with a semicolon at the end of a line, and the next begins at the start of one."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
from mosqltest import *
from reflection import reflect


def run(conn, sql):
    del conn.notices[:]
    with conn.cursor() as cur:
        try:
            cur.execute(sql)
            said = f"{cur.statusmessage} {cur.fetchall() if cur.description else ''}"
        except psycopg2.Error as e:
            said = f"{e.pgcode} " + ("" if e.pgcode == "40001" else str(e).split("HINT:")[0].strip().replace("\n", " | "))
    print(" ".join(sql.split())[:100], "->", said, *(" ".join(n.split()) for n in conn.notices), flush=True)


def main():
    conn = psycopg2.connect("")
    conn.autocommit = True
    for part in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*.sql"))):
        with open(part) as f:
            text = f.read()
        print("====", os.path.basename(part))
        for statement in filter(str.strip, re.split(r"(?<=;)\n(?=\S)", text)):
            run(conn, statement)
        print("\n".join(reflect(conn, os.environ["PGDATABASE"])))


main()
