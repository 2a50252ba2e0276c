"""A test binds a fixed port."""

import socket


def test_listens() -> None:
    with socket.create_server(("127.0.0.1", 47000)) as server:
        assert server.getsockname()[1] == 47000
