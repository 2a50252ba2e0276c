# SPDX-License-Identifier: Apache-2.0
"""PORT [--late] FOLDER: a store of lines over TCP.

`put KEY VALUE` is answered by `ok`, `get KEY` by the value or by an empty line. A put is on the disk before
its `ok`. With `--late` it is written when seven more have come: that is the bug.
"""

import os
import socketserver
import sys
import threading
from pathlib import Path

LATE = "--late" in sys.argv
PATH = Path(sys.argv[-1], "store.txt")
HELD_BACK = 7 if LATE else 0
lock = threading.Lock()
values: dict[str, str] = {}
waiting: list[str] = []


def put(key: str, value: str) -> None:
    """Keep a value, and write it to the disk at once or with later ones."""
    with lock:
        values[key] = value
        waiting.append(f"{key} {value}\n")
        while len(waiting) > HELD_BACK:
            log.write(waiting.pop(0))
            log.flush()
            os.fsync(log.fileno())


class Handler(socketserver.StreamRequestHandler):
    """Answers the lines of one client."""

    def handle(self) -> None:
        """Until it closes the connection."""
        for line in self.rfile:
            word, *rest = line.decode().split()
            if word == "put":
                put(*rest)
                self.wfile.write(b"ok\n")
            else:
                self.wfile.write(values.get(rest[0], "").encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    """A thread for each client."""

    allow_reuse_address = True
    daemon_threads = True


with PATH.open("a+") as log:
    log.seek(0)
    # A kill may have cut the last line: it was never acknowledged.
    for line in log.read().splitlines(keepends=True):
        if line.endswith("\n"):
            written, content = line.split()
            values[written] = content
    with Server(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        server.serve_forever()
