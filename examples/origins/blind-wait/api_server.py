# SPDX-License-Identifier: Apache-2.0
"""Stands for an API server: api_server.py PORT ENGINE_PORT. It listens once its engine does, and has patience."""

import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Health(BaseHTTPRequestHandler):
    """Answers every GET with 200."""

    def do_GET(self) -> None:
        """Say that all is well."""
        self.send_response(200)
        self.end_headers()


def engine_listens(port: int) -> bool:
    """Whether the engine takes a connection."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


print("server: waiting for the engine", flush=True)
while not engine_listens(int(sys.argv[2])):
    time.sleep(0.1)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
