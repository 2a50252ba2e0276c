"""A test talks to a service that it does not start."""

import socket


def test_greets() -> None:
    with socket.create_connection(("127.0.0.1", 48000), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert connection.recv(4) == b"HTTP"
