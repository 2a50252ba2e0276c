# SPDX-License-Identifier: Apache-2.0
"""PORT NOTE SECONDS refuses|busy: answers 200 to everything after SECONDS; before, it does not listen or answers 503.

The monotonic time (ns) from which on it answers 200 is in NOTE.
"""

import os
import socket
import sys
import time

port, note, seconds, before = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
ready_at = time.monotonic_ns() + int(seconds * 1e9)


def write(at: int) -> None:
    file = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(file, b"%d" % at)
    os.close(file)


if before == "refuses":
    time.sleep(seconds)
    ready_at = time.monotonic_ns()
    server = socket.create_server(("127.0.0.1", port))
else:
    server = socket.create_server(("127.0.0.1", port))
write(ready_at)
while True:
    connection, _ = server.accept()
    connection.settimeout(1)
    status = b"200 OK" if time.monotonic_ns() >= ready_at else b"503 Loading"
    try:
        connection.recv(65536)
        connection.sendall(
            b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    except OSError:
        pass
    connection.close()
