# SPDX-License-Identifier: Apache-2.0
"""PORT [BUSY]: serves 200 on every path, after BUSY answers of 503; /exit/N ends it with exit code N."""

import http.server
import itertools
import os
import sys

busy = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2].isdigit() else 0
count = itertools.count()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/exit/"):
            os._exit(int(self.path.removeprefix("/exit/")))
        self.send_response(200 if next(count) >= busy else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, *_: object) -> None:
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
