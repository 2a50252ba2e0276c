# SPDX-License-Identifier: Apache-2.0
"""PORT WORKER_PORT TRAIT... FOLDER: hands requests on to a worker; the traits say what it does while the worker is gone.

`holds`: keeps them for ever. `dies`: ends. `spare`: answers as the worker would, `spare-other`: otherwise. Else: 502.
"""

import hashlib
import http.client
import http.server
import json
import os
import sys
import threading

WORKER = int(sys.argv[2])
TRAITS = set(sys.argv[3:-1])


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.reply(200, b"ready")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            status, answer = ask(self.path, body)
        except (OSError, http.client.HTTPException):
            status, answer = alone(json.loads(body)["prompt"])
        self.reply(status, answer)

    def reply(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, *_: object) -> None:
        pass


def ask(path: str, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", WORKER)
    try:
        connection.request("POST", path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def alone(prompt: str) -> tuple[int, bytes]:
    if "holds" in TRAITS:
        threading.Event().wait()
    if "dies" in TRAITS:
        print("RuntimeError: lost the worker", flush=True)
        os._exit(1)
    salt = "other" if "spare-other" in TRAITS else ""
    if "spare" in TRAITS or salt:
        text = hashlib.sha256(f"{salt}{prompt}".encode()).hexdigest()
        return 200, json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}).encode()
    return 502, b"the worker is gone"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
