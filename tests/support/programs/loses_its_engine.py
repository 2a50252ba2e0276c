# SPDX-License-Identifier: Apache-2.0
"""PORT FATE: answers GET /health with 200, and /ask with 500, after its worker has ended with 3; by FATE it `ends` soon, `stays`, or `replaces` it. If it `raises`, the worker lives."""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

reading, writing = os.pipe()


def fork_worker() -> int:
    pid = os.fork()
    if pid == 0:
        os.read(reading, 1)
        os._exit(3)
    return pid


worker = fork_worker()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if sys.argv[2] == "raises" and self.path == "/ask":
            print(
                'Traceback (most recent call last):\n  File "engine.py", line 7, in step',
                file=sys.stderr,
            )
            print("RuntimeError: the generator has no offset", file=sys.stderr, flush=True)
        elif self.path == "/ask":
            os.write(writing, b"x")
            os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
            if sys.argv[2] == "ends":
                threading.Timer(0.5, os._exit, [1]).start()
            if sys.argv[2] == "replaces":
                fork_worker()
        self.send_response(500 if self.path == "/ask" else 200)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
