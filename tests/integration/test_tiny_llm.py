# SPDX-License-Identifier: Apache-2.0
"""The example server, run as real processes: what it promises its readers is so."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytestmark = [pytest.mark.integration, pytest.mark.nightly]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tiny-llm"
REQUESTS = [json.loads(line) for line in (EXAMPLE / "prompts.jsonl").read_text().splitlines()]
START_LIMIT_S = 180.0  # guards against hanging only
COMPLETIONS = "/v1/completions"
HELLO = {"prompt": "Hello", "max_tokens": 8, "temperature": 0}


@dataclass(frozen=True)
class Reply:
    """An HTTP reply."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Running:
    """A server that has answered /health with 200."""

    process: subprocess.Popen[str]
    port: int

    def call(self, method: str, path: str, body: str | None = None) -> Reply:
        """Make one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return Reply(response.status, response.read().decode())
        finally:
            connection.close()

    def post(self, path: str, **body: object) -> Reply:
        """POST the keyword arguments as JSON."""
        return self.call("POST", path, json.dumps(body))

    def metric(self, name: str) -> int:
        """Return the value of one counter."""
        lines = self.call("GET", "/metrics").text.splitlines()
        return int(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_healthy(server: Running) -> None:
    """Ask for /health until it is 200, for as long as the process lives."""
    deadline = time.monotonic() + START_LIMIT_S
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            if server.call("GET", "/health").status == 200:
                return
        except ConnectionRefusedError:
            time.sleep(0.01)  # only to leave the CPU to the server
    pytest.fail(f"not healthy; exit status {server.process.poll()}")


@contextmanager
def serving(*flags: str) -> Iterator[Running]:
    """Run the server from another directory and end it with SIGTERM."""
    port = free_port()
    command = [sys.executable, str(EXAMPLE / "server.py"), "--port", str(port), *flags]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd="/", stdout=pipe, stderr=pipe, text=True)
    server = Running(process, port)
    try:
        wait_until_healthy(server)
        yield server
    finally:
        process.terminate()
        try:
            process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


def choice_of(server: Running, request: dict[str, Any]) -> str:
    """Send one shipped request; return its choice (text and logprobs) as sent."""
    chat = request["path"] != COMPLETIONS
    reply = server.post(request["path"], **request["body"], logprobs=True if chat else 1)
    assert reply.status == 200, reply.text
    return json.dumps(reply.json["choices"])


def answers(server: Running) -> list[str]:
    """Send the shipped requests, 40 in flight; return their choices in file order."""
    with ThreadPoolExecutor(40) as pool:
        return list(pool.map(lambda request: choice_of(server, request), REQUESTS))


@cache
def answers_of_a_start(*flags: str) -> list[str]:
    """Return the answers of one start; each combination of flags is started once."""
    with serving(*flags) as server:
        return answers(server)


def text_of(choices: str) -> str:
    """Return the generated text of a recorded answer."""
    choice = json.loads(choices)[0]
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


def differing(one: list[str], other: list[str]) -> int:
    """Count the requests whose texts differ."""
    return sum(text_of(a) != text_of(b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server for tests that do not need one of their own."""
    with serving("--plan", "split4") as running:
        yield running


def test_two_starts_with_one_plan_answer_bitwise_alike(server: Running) -> None:
    assert answers(server) == answers_of_a_start("--plan", "split4")


def test_the_batch_a_request_shares_does_not_change_its_answer(server: Running) -> None:
    alone = [choice_of(server, request) for request in REQUESTS[::3]]
    assert alone == answers_of_a_start("--plan", "split4")[::3]


def test_two_plans_answer_some_but_not_all_requests_differently() -> None:
    split4, split16 = (answers_of_a_start("--plan", plan) for plan in ("split4", "split16"))
    assert 20 <= differing(split4, split16) <= 70


def test_in_float32_two_plans_hardly_ever_differ() -> None:
    one, other = (
        answers_of_a_start("--plan", plan, "--dtype", "float32") for plan in ("split4", "split16")
    )
    assert differing(one, other) <= 2


def test_turn_takes_plans_from_the_list_in_a_circle() -> None:
    for turn, plan in ((1, "split1"), (2, "split8"), (3, "split1")):
        with serving("--plan", "split1,split8", "--turn", str(turn)) as running:
            assert f'plan="{plan}"' in running.call("GET", "/metrics").text


def test_auto_picks_a_known_plan() -> None:
    with serving() as running:
        assert 'plan="split' in running.call("GET", "/metrics").text


def test_kv_reuse_hits_and_changes_no_bit() -> None:
    with serving("--plan", "split4", "--kv-reuse") as running:
        assert answers(running) == answers_of_a_start("--plan", "split4")
        assert running.metric("tiny_llm:kv_reuse_hit_tokens_total") > 1000
        last = REQUESTS[-1]
        usage = running.post(last["path"], **last["body"]).json["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] > 0


def test_without_kv_reuse_no_token_is_cached(server: Running) -> None:
    first = server.post(COMPLETIONS, **REQUESTS[0]["body"]).json
    again = server.post(COMPLETIONS, **REQUESTS[0]["body"]).json
    assert again["choices"] == first["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert server.metric("tiny_llm:kv_reuse_hit_tokens_total") == 0


def test_stale_kv_reuse_answers_many_requests_differently() -> None:
    right = answers_of_a_start("--plan", "split4")
    stale = answers_of_a_start("--plan", "split4", "--kv-reuse=stale")
    assert 20 <= differing(right, stale) <= 80
    assert [len(text_of(a)) for a in stale] == [len(text_of(a)) for a in right]


def test_a_completion_looks_like_openais(server: Running) -> None:
    body = server.post(COMPLETIONS, **HELLO, model="tiny-llm").json
    assert body["id"].startswith("cmpl-")
    assert body["object"] == "text_completion"
    assert body["model"] == "tiny-llm"
    (choice,) = body["choices"]
    assert len(choice["text"]) == 8
    assert (choice["index"], choice["finish_reason"]) == (0, "length")
    assert choice["logprobs"] is None
    counts = [body["usage"][f"{kind}_tokens"] for kind in ("prompt", "completion", "total")]
    assert counts == [5, 8, 13]


def test_a_chat_completion_looks_like_openais(server: Running) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    body = server.post("/v1/chat/completions", messages=messages, max_tokens=4).json
    assert body["id"].startswith("chatcmpl-")
    assert body["object"] == "chat.completion"
    (choice,) = body["choices"]
    assert choice["message"]["role"] == "assistant"
    assert len(choice["message"]["content"]) == 4


@pytest.mark.parametrize("as_list", [False, True])
def test_a_stop_string_ends_the_text_before_it(server: Running, as_list: bool) -> None:
    whole = server.post(COMPLETIONS, **HELLO).json["choices"][0]["text"]
    word = whole[3:5]
    body = server.post(COMPLETIONS, **HELLO, stop=[word] if as_list else word).json
    (choice,) = body["choices"]
    assert choice["text"] == whole[: whole.index(word)]
    assert choice["finish_reason"] == "stop"


def test_one_connection_carries_many_requests(server: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=180)
    for path, status in ((COMPLETIONS, 200), ("/nowhere", 404), (COMPLETIONS, 200)):
        connection.request("POST", path, json.dumps(HELLO))
        response = connection.getresponse()
        response.read()
        assert (response.status, response.will_close) == (status, False)
    connection.close()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": "a", "temperature": 0.7}, "greedy only"),
        ({"prompt": "a", "stream": True}, "streaming"),
        ({"prompt": "a", "n": 2}, "n must be 1"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a" * 600}, "context length"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "a", "stop": 3}, "stop"),
        ([], "JSON object"),
    ],
)
def test_a_request_it_cannot_serve_is_a_400_in_openais_shape(
    server: Running, body: object, words: str
) -> None:
    reply = server.call("POST", COMPLETIONS, json.dumps(body))
    error = reply.json["error"]
    assert (reply.status, error["code"], error["type"]) == (400, 400, "BadRequestError")
    assert words in error["message"]


@pytest.mark.parametrize("raw", ["{", "", "\x00", "[" * 100_000])
def test_a_body_that_is_not_json_is_a_400(server: Running, raw: str) -> None:
    reply = server.call("POST", COMPLETIONS, raw)
    assert reply.status == 400
    assert "not JSON" in reply.json["error"]["message"]


def test_an_unknown_path_or_model_is_a_404(server: Running) -> None:
    replies = [
        server.call("GET", "/nowhere"),
        server.post("/nowhere", **HELLO),
        server.post(COMPLETIONS, **HELLO, model="another"),
    ]
    assert [reply.status for reply in replies] == [404, 404, 404]
    assert all(reply.json["error"]["type"] == "NotFoundError" for reply in replies)


def test_it_lists_its_model(server: Running) -> None:
    assert server.call("GET", "/v1/models").json["data"][0]["id"] == "tiny-llm"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_traceback(number: signal.Signals) -> None:
    with serving("--plan", "split1") as running, ThreadPoolExecutor(1) as pool:
        busy = pool.submit(running.post, COMPLETIONS, prompt="On and on", max_tokens=500)
        while running.metric("tiny_llm:generation_tokens_total") == 0:
            assert running.process.poll() is None
        running.process.send_signal(number)
        _, errors = running.process.communicate(timeout=180)
        assert (running.process.returncode, errors) == (0, "")
        assert isinstance(busy.exception(timeout=180), (OSError, http.client.HTTPException))


def test_an_unknown_plan_exits_2_and_names_the_known_ones() -> None:
    command = [sys.executable, str(EXAMPLE / "server.py"), "--plan", "split4,split5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 2
    assert "unknown plan 'split5'" in done.stderr
    assert "split1, split4, split8, split16" in done.stderr
