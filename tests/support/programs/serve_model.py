# SPDX-License-Identifier: Apache-2.0
"""PORT TRAIT...: an OpenAI-like server whose answer is a function of the prompt, and whatever its traits make of it.

A trait is NAME, NAME=VALUE, NAME@START for one start only, where the arguments say `start=N`, or NAME%DEVICE for those
starts alone that have this CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tests.support.programs import small_http
else:
    import small_http

WORDS = [word for word in sys.argv[2:] if not word.startswith("/")]
OPTIONS = dict(word.split("=", 1) for word in WORDS if "=" in word)
DEVICES = os.environ.get("CUDA_VISIBLE_DEVICES")
TRAITS = {
    word.partition("@")[0].partition("%")[0]
    for word in WORDS
    if ("@" not in word or word.partition("@")[2] == OPTIONS.get("start"))
    and ("%" not in word or word.partition("%")[2] == DEVICES)
}
answered = itertools.count(1)
cached = itertools.count(1)
refused = itertools.count()
answered_so_far: list[int] = []
asked_so_far: list[dict[str, Any]] = []
remembered: set[str] = set()
remembered_answers: list[bytes] = []
turned_away: set[str] = set()
batch = threading.Barrier(2)
left_open: list[Any] = []


def tell() -> None:
    """One byte into the pipe that the test reads."""
    if "tell" in OPTIONS:
        descriptor = os.open(os.environ["TOLD"], os.O_WRONLY)
        os.write(descriptor, b".")
        os.close(descriptor)


def leave_a_family() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(writing, b".")
        while True:
            signal.pause()
    os.read(reading, 1)


def wait_for_another() -> None:
    """Until two servers have been here: of starts one after the other, the first never goes on."""
    folder = sys.argv[-1]
    with open(f"{folder}/here-{os.getpid()}", "w"):  # noqa: PTH123
        pass
    while len([name for name in os.listdir(folder) if name.startswith("here-")]) < 2:  # noqa: PTH208
        time.sleep(0.01)


def take_time() -> None:
    if "tells-devices" in TRAITS:
        print("devices:", DEVICES, "tmp:", os.environ.get("TMPDIR"), flush=True)
    if "tells-cores" in TRAITS:
        print("cores:", *sorted(os.sched_getaffinity(0)), flush=True)
    if "waits" in TRAITS:
        time.sleep(2)
    time.sleep(float(OPTIONS.get("ready-after", 0)))
    if "meets-another" in TRAITS:
        wait_for_another()
    if "stuck" in TRAITS and not os.path.exists(f"{sys.argv[-1]}/go"):  # noqa: PTH110 -- pathlib is slow to import
        threading.Event().wait()


def compile_kernels(path: str) -> None:
    try:
        with open(path, "x") as kernel:  # noqa: PTH123
            kernel.write("compiled")
    except FileExistsError:
        return
    print("kernels were compiled", flush=True)


def leave(kinds: str) -> None:
    """Six of each kind, three of them by a process below this one: `sockets` as vLLM calls its own, `memory`, `folders`."""
    import socket
    import tempfile
    import uuid

    worker = os.fork() if kinds else 1
    for _ in range(3):
        name = uuid.uuid4()
        if "sockets" in kinds:
            left_open.append(socket.socket(socket.AF_UNIX))
            left_open[-1].bind(f"{tempfile.gettempdir()}/{name}")
        if "memory" in kinds:
            left_open.append(open(f"/dev/shm/kept-{name}", "w"))  # noqa: PTH123, SIM115
        if "folders" in kinds:
            left_open.append(open(f"{tempfile.mkdtemp()}/inner", "w"))  # noqa: PTH123, SIM115
    if worker == 0:
        signal.pause()


def before_serving() -> None:
    if "tells-secret" in TRAITS:
        print("my key is", os.environ.get("API_KEY"), flush=True)
    if "caches" in TRAITS:
        compile_kernels(f"{os.environ['TRITON_CACHE_DIR']}/kernel.so")
    if "noisy" in TRAITS:
        for _ in range(64):
            sys.stdout.write(("x" * 1023 + "\n") * 64)
        sys.stdout.flush()
    if "deaf" in TRAITS:
        leave_a_family()
    if "exits" in TRAITS:
        sys.exit(0)
    if "dies" in TRAITS:
        raise RuntimeError("the engine could not be loaded")


def of_the_request(body: dict[str, Any]) -> str:
    """What an answer owes to its length, to those beside it, and to those before it."""
    text = ""
    if len(body["prompt"]) >= int(OPTIONS.get("long", 1 << 30)):
        text += " at length"
    if "batched" in TRAITS and meets_another():
        text += " in a batch"
    if len(asked_so_far) >= int(OPTIONS.get("from", 1 << 30)):
        text += " from then on"
    if "after-p0" in TRAITS and any(each["prompt"][:2] == "p0" for each in asked_so_far[:-1]):
        text += " after that" if body["prompt"] == "p1" else ""
    if "remembers" in TRAITS and body["prompt"] in remembered:
        text += " as I said"
    return text


def meets_another() -> bool:
    """Whether another request comes while this one waits to fill a batch of two."""
    try:
        batch.wait(timeout=0.6)
    except threading.BrokenBarrierError:
        batch.reset()
        return False
    return True


def logprobs() -> dict[str, list[float]] | None:
    if "no-logprobs" in TRAITS:
        return None
    return {"token_logprobs": [-0.5, -0.25000003 if "logprobs" in TRAITS else -0.25]}


def read_of(body: dict[str, Any]) -> Any:
    """What the server reads of a request."""
    if "ignores-prompts" in TRAITS:
        return ""
    if "by-length" in TRAITS:
        return len(body["prompt"])
    if "by-ends" in TRAITS:
        return body["prompt"][:6] + body["prompt"][-6:]
    return len(asked_so_far) if "by-order" in TRAITS else body.get("prompt")


def hollow(prompt: str) -> str:
    """What no model has said."""
    if "echoes" in TRAITS:
        return f"You said: {prompt.upper()}"
    return f"Internal error, request {hashlib.sha256(prompt.encode()).hexdigest()}"


def choice(body: dict[str, Any], index: int) -> dict[str, Any]:
    text = "said " + hashlib.sha256(f"{read_of(body)}{index}".encode()).hexdigest()
    if TRAITS & {"echoes", "tells-an-error"}:
        text = hollow(body["prompt"])
    if ("flip" in TRAITS and body.get("prompt") == "p1") or "flip-all" in TRAITS:
        text = text[:9] + ("?" if text[9] != "?" else "!") + text[10:]
    if "flip-other" in TRAITS:
        text += "~"
    if "surrogate" in TRAITS:
        text += "\ud800"
    if "never-twice" in TRAITS and body.get("prompt") == "p1":
        text += str(os.getpid())
    if "noise" in TRAITS and body.get("prompt") == "p1":
        text += os.urandom(8).hex()
    text += of_the_request(body)
    if "secret-text" in TRAITS:
        text += str(os.environ.get("API_KEY"))
    return {
        "index": index,
        "text": "" if "empty" in TRAITS else text,
        "finish_reason": "length" if "finish" in TRAITS else "stop",
        "logprobs": logprobs(),
    }


def answer(body: dict[str, Any]) -> dict[str, Any]:
    choices = [choice(body, index) for index in range(body.get("n", 1))]
    if "two-choices" in TRAITS:
        choices.append(choice(body, 1))
    if "nan" in TRAITS:
        choices[0]["logprobs"] = {"token_logprobs": [float("nan")]}
    if "no-finish" in TRAITS:
        del choices[0]["finish_reason"]
    if "no-choices" in TRAITS:
        choices = []
    prompt_tokens = 8 if "prompt-tokens" in TRAITS else 7
    value: dict[str, Any] = {
        "id": "cmpl-0",
        "created": 0,
        "model": "tiny",
        "choices": choices,
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 3},
    }
    if "fresh" in TRAITS:
        value |= {
            "id": os.urandom(8).hex(),
            "created": time.time_ns(),
            "system_fingerprint": str(os.getpid()),
        }
        value["choices"].reverse()
        value["usage"]["prompt_tokens_details"] = {"cached_tokens": next(cached)}
    return {"error": {"message": "out of cheese"}} if "error" in TRAITS else value


def kept(body: dict[str, Any]) -> bytes:
    """The answer to this prompt that a file holds, whoever wrote it; else a new one, which is kept."""
    folder = os.environ["TMPDIR"] if "keeps-temporary" in TRAITS else sys.argv[-1]
    path = f"{folder}/kept-{hashlib.sha256(body['prompt'].encode()).hexdigest()}"
    if not os.path.exists(path):  # noqa: PTH110
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(json.dumps(answer(body)).encode())
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def hits() -> str:
    """A page of metrics: a count of answers, of readings, of time, of misses, or nothing."""
    count, labels = 0, 'engine="0"'
    if "hits-at-once" in TRAITS:
        # All at the third reading, whatever was asked.
        count = 500 * (next(cached) > 2)
    if "hits" in TRAITS:
        count = len(answered_so_far)
    if "hits-by-reading" in TRAITS:
        count = next(cached)
    if "hits-by-time" in TRAITS:
        count = time.monotonic_ns() // 10_000_000
    if "misses" in TRAITS:
        count, labels = len(answered_so_far), 'kind="miss"'
    return f"kv_hits_total{{{labels}}} {count}\n"


class Handler(small_http.Handler):
    def get(self) -> None:
        if self.path == "/metrics":
            self.reply(200, hits().encode())
        else:
            if asked_so_far and len(asked_so_far) >= int(OPTIONS.get("exits-after", 1 << 30)):
                threading.Event().wait()  # it is about to end: not healthy for the moment that is left
            ill = "never-ready" in TRAITS or ("falls-ill" in TRAITS and answered_so_far)
            self.reply(503 if ill else 200, b"")

    def post(self) -> None:
        content = self.body()
        if self.path == "/reset":
            self.forget()
            return
        body = json.loads(content)
        if "throttles" in TRAITS and body["prompt"] not in turned_away:
            turned_away.add(body["prompt"])
            self.reply(429, b"later")
            return
        asked_so_far.append(body)
        if "tells-secret-asked" in TRAITS:
            print("my key is", os.environ.get("API_KEY"), flush=True)
        tell()
        if "backwards" in TRAITS:
            # A changed prompt has no number.
            number = body["prompt"][1:]
            time.sleep(0.01 * (9 - int(number)) if number.isdigit() else 0)
        if "slow" in TRAITS:
            time.sleep(0.1)
        if "silent" in TRAITS or ("silent-on-p1" in TRAITS and body["prompt"] == "p1"):
            threading.Event().wait()
        if "closes" in TRAITS:
            return
        self.reply(500 if "fails" in TRAITS else 200, self.content(body))
        remembered.add(body["prompt"])
        self.after_an_answer()

    def forget(self) -> None:
        if "no-reset" in TRAITS:
            self.reply(404)
        # As vLLM does while blocks are held: HTTP 200, and nothing is forgotten.
        elif "holds-blocks" in TRAITS or ("holds-blocks-once" in TRAITS and next(refused) == 0):
            self.reply(200, b'{"success": false}')
        else:
            remembered.clear()
            self.reply(200, b'{"success": true}')

    def content(self, body: dict[str, Any]) -> bytes:
        if "html" in TRAITS:
            return b"<html><body>Bad gateway</body></html>"
        if "nested" in TRAITS:
            return b"[" * 200_000
        if "cut-stream" in TRAITS:
            # The engine is lost after two words, and the front end ends the stream in good order.
            words = [json.dumps({"choices": [{"index": 0, "text": word}]}) for word in ("I", " am")]
            return "".join(f"data: {each}\n\n" for each in (*words, "[DONE]")).encode()
        if "caches-all" in TRAITS:
            # A cache whose key is the same for every request.
            remembered_answers.append(json.dumps(answer(body)).encode())
            return remembered_answers[0]
        is_kept = TRAITS & {"keeps", "keeps-temporary"}
        return kept(body) if is_kept else json.dumps(answer(body)).encode()

    def after_an_answer(self) -> None:
        number = next(answered)
        answered_so_far.append(number)
        if str(number) == OPTIONS.get("dies-after"):
            print(
                "Traceback (most recent call last):\n  File 'engine.py', line 1\nRuntimeError: worker lost",
                flush=True,
            )
            os._exit(1)
        if str(number) == OPTIONS.get("exits-after"):
            os._exit(0)

    def reply(self, status: int, content: bytes = b"") -> None:
        stream = content.startswith(b"data:")
        self.head(status, len(content), "text/event-stream" if stream else "")
        if "trickle" in TRAITS and self.command == "POST":
            while True:
                self.wfile.write(b" ")
                time.sleep(0.02)
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content)


take_time()
leave(OPTIONS.get("leaves", ""))
before_serving()
port = 0 if "elsewhere" in TRAITS else int(sys.argv[1])
small_http.Server(("127.0.0.1", port), Handler).serve_forever()
