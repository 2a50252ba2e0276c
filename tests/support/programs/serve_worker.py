# SPDX-License-Identifier: Apache-2.0
"""PORT TRAIT... FOLDER: a worker behind a router, whose answer is a function of the prompt; it counts its starts in FOLDER.

A trait is NAME, or NAME@START for one start only.
"""

import hashlib
import http.server
import json
import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[-1])
STARTS = FOLDER / f"{Path(sys.argv[0]).stem}.starts"
with STARTS.open("a") as file:
    file.write("x")
START = str(STARTS.stat().st_size)
TRAITS = {
    word.partition("@")[0] for word in sys.argv[2:-1] if word.partition("@")[2] in {"", START}
}
SHARED = (
    Path("/dev/shm") / f"ci-doctor-test-{hashlib.sha256(str(FOLDER).encode()).hexdigest()[:12]}"
)
asked = [0]


def answer(prompt: str) -> dict[str, Any]:
    salt = "other" if "other" in TRAITS else ""
    text = hashlib.sha256(f"{salt}{prompt}".encode()).hexdigest()
    for trait, worse in (("empty", ""), ("one-answer", "!" * 64), ("cut", text[:9])):
        if trait in TRAITS:
            text = worse
    choice = {"text": [text] if "list" in TRAITS else text, "finish_reason": "stop"}
    value: dict[str, Any] = {"model": "tiny", "choices": [choice]}
    if "other-model" in TRAITS:
        value["model"] = "tinier"
    if "error-in-200" in TRAITS:
        value["error"] = {"message": "the engine is dead"}
    return value


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/metrics":
            count = 3 if "loses-a-worker" in TRAITS else 4
            self.reply(
                200, "".join(f'workers_alive{{worker="{each}"}} 1\n' for each in range(count))
            )
        else:
            self.reply(
                503 if "never-ready" in TRAITS or ("falls-ill" in TRAITS and asked[0]) else 200,
                "ready",
            )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked[0] += 1
        if "slow" in TRAITS:
            time.sleep(0.2)
        if "silent" in TRAITS:
            threading.Event().wait()
        if "unsteady" in TRAITS and body["prompt"] == "p0":
            body["prompt"] = str(asked[0])
        self.reply(500 if "fails" in TRAITS else 200, json.dumps(answer(body["prompt"])))

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def leave_a_daemon(server: Server) -> None:
    """A grandchild in a session of its own, whose parent has ended, with the listening socket."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    while True:
        signal.pause()


def leave_a_child() -> None:
    if os.fork() == 0:
        while True:
            signal.pause()


def hold_open() -> object:
    shared = SHARED.open("wb+")
    shared.write(b"x" * (4 << 20))
    shared.flush()
    return shared


def hold_shared_memory() -> mmap.mmap:
    with SHARED.open("wb+") as shared:
        shared.write(b"x" * (4 << 20))
        shared.flush()
        return mmap.mmap(shared.fileno(), 0)


if "deaf" in TRAITS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "dies" in TRAITS:
    raise RuntimeError("the engine could not be loaded again")
if "child" in TRAITS:
    leave_a_child()
held: object = hold_shared_memory() if "shm" in TRAITS else None
if "shm-open" in TRAITS:
    held = hold_open()
server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
if "daemon" in TRAITS:
    leave_a_daemon(server)
server.serve_forever()
