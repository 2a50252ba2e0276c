# SPDX-License-Identifier: Apache-2.0
"""PORT TRAIT... FOLDER: a worker behind a router, whose answer is a function of the prompt; it counts its starts in FOLDER.

A trait is NAME, or NAME@START for one start only.
"""

import hashlib
import json
import mmap
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.support.programs import small_http
else:
    import small_http

FOLDER = sys.argv[-1]
with open(f"{FOLDER}/serve_worker.starts", "a") as file:  # noqa: PTH123 -- pathlib takes as long as all the rest
    file.write("x")
    START = str(file.tell())
TRAITS = {
    word.partition("@")[0] for word in sys.argv[2:-1] if word.partition("@")[2] in {"", START}
}
SHARED = f"/dev/shm/ci-doctor-test-{hashlib.sha256(FOLDER.encode()).hexdigest()[:12]}"
# An engine thinks while its client waits. Without it a load that is to last a second is hundreds of requests, and all of
# that second is CPU.
THINKS_S = 0.05
asked = [0]
SINCE = [0.0]
# Seconds between two answers of the first start: on a busy machine they grow, and a slow start must be slower by as much.
PERIOD = f"{FOLDER}/serve_worker.period"


def answer(prompt: str) -> dict[str, object]:
    text = hashlib.sha256(prompt.encode()).hexdigest()
    if "empty" in TRAITS:
        text = ""
    choice = {"text": [text] if "list" in TRAITS else text, "finish_reason": "stop"}
    value: dict[str, object] = {"model": "tiny", "choices": [choice]}
    if "other-model" in TRAITS:
        value["model"] = "tinier"
    if "error-in-200" in TRAITS:
        value["error"] = {"message": "the engine is dead"}
    return value


def pace() -> float:
    """How long an answer takes: of four at once, `slow` gives a third of the answers of the first start at most."""
    if "slow" in TRAITS:
        with open(PERIOD) as file:  # noqa: PTH123
            return max(0.3, 12 * float(file.read()))
    SINCE[0] = SINCE[0] or time.monotonic()
    return THINKS_S


def note_period() -> None:
    with open(f"{PERIOD}.{threading.get_ident()}", "w") as file:  # noqa: PTH123
        file.write(str((time.monotonic() - SINCE[0]) / asked[0]))
    os.replace(file.name, PERIOD)  # noqa: PTH105


class Handler(small_http.Handler):
    def get(self) -> None:
        if self.path == "/metrics":
            count = 3 if "loses-a-worker" in TRAITS else 4
            self.say(200, "".join(f'workers_alive{{worker="{each}"}} 1\n' for each in range(count)))
        else:
            self.say(
                503 if "never-ready" in TRAITS or ("falls-ill" in TRAITS and asked[0]) else 200,
                "ready",
            )

    def post(self) -> None:
        body = json.loads(self.body())
        asked[0] += 1
        time.sleep(pace())
        if "silent" in TRAITS:
            threading.Event().wait()
        if "unsteady" in TRAITS and body["prompt"] == "p0":
            body["prompt"] = str(asked[0])
        self.say(500 if "fails" in TRAITS else 200, json.dumps(answer(body["prompt"])))
        if START == "1":
            note_period()

    def say(self, status: int, text: str) -> None:
        self.reply(status, text.encode())


def leave_a_daemon(server: small_http.Server) -> None:
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
    shared = open(SHARED, "wb+")  # noqa: PTH123, SIM115
    shared.write(b"x" * (4 << 20))
    shared.flush()
    return shared


def hold_shared_memory() -> mmap.mmap:
    with open(SHARED, "wb+") as shared:  # noqa: PTH123
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
server = small_http.Server(("127.0.0.1", int(sys.argv[1])), Handler)
if "daemon" in TRAITS:
    leave_a_daemon(server)
server.serve_forever()
