"""Acts on sockets: a server that accepts, and then says nothing more."""

import contextlib
import socket
import threading
from collections.abc import Iterator

# What PostgreSQL says after a login without a password: AuthenticationOk, ReadyForQuery.
# https://www.postgresql.org/docs/current/protocol-message-formats.html
LOGGED_IN = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"


@contextlib.contextmanager
def silent_server(greeting: bytes = b"") -> Iterator[str]:
    """The address of a database on it. greeting: the answer to the first message of each client."""
    clients: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):  # closed, at the end
                while True:
                    client, _ = server.accept()
                    clients.append(client)
                    client.recv(4096)
                    client.sendall(greeting)

        threading.Thread(target=serve, daemon=True).start()
        yield f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/h"
        server.shutdown(socket.SHUT_RDWR)
        for client in clients:
            client.close()
