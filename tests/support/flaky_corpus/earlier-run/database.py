"""A test inserts a row with a fixed key into a database that stays."""

import sqlite3


def test_insert() -> None:
    connection = sqlite3.connect("shop.db")
    connection.execute("create table if not exists orders (id integer primary key)")
    connection.execute("insert into orders values (1)")
    connection.commit()
    assert connection.execute("select count(*) from orders").fetchone() == (1,)
    connection.close()
