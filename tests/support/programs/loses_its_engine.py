# SPDX-License-Identifier: Apache-2.0
"""PORT FATE: answers GET /health with 200, and /ask with 500, after its worker has ended with 3; by FATE it `ends` soon, or `stays`."""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

reading, writing = os.pipe()
worker = os.fork()
if worker == 0:
    os.read(reading, 1)
    os._exit(3)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/ask":
            os.write(writing, b"x")
            os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
            if sys.argv[2] == "ends":
                threading.Timer(0.5, os._exit, [1]).start()
        self.send_response(500 if self.path == "/ask" else 200)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
