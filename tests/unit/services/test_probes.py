# SPDX-License-Identifier: Apache-2.0
"""The cause that a probe reports is the most telling answer, and never what the deadline has cut."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.ports import reserve_port
from ci_doctor.services.probe import (
    ProbeAnswer,
    ProbeContext,
    Telling,
    more_telling,
    wait_until_ready,
)
from ci_doctor.services.ready import ReadySpec, parse_ready
from ci_doctor.system import clock

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
LIMIT_S = 180.0  # guards against hanging only
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]


class Attempts(BusyTimeout):
    """A time limit that is over after `count` attempts, however long a busy machine takes for them."""

    def __init__(self, count: int) -> None:
        super().__init__(LIMIT_S)
        self._left = count

    def attempt_s(self, longest_s: float) -> float:
        return longest_s

    def left_s(self) -> float:
        self._left -= 1
        return float(self._left)


def answer(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}\r\n".encode() + body


class Server:
    """Gives `answers` one after the other, the last one for ever, and keeps what it was asked."""

    def __init__(self, answers: Sequence[bytes], *, stay: bool = False) -> None:
        self.answers = answers
        self.stay = stay
        self.requests: list[bytes] = []
        self.times: list[float] = []
        self.done = asyncio.Event()
        self.begun = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.times.append(clock.now())
        self.writers.append(writer)
        self.begun.set()
        number = len(self.times) - 1
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError:  # the client had nothing to send
            writer.close()
            return
        writer.write(self.answers[min(number, len(self.answers) - 1)])
        await writer.drain()
        if self.stay:  # a keep-alive server: the end of the body is not the end of the connection
            await self.done.wait()
        writer.close()


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """The port of a server that does this with each connection."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def ask_at(
    serve: Serve,
    limit: float | BusyTimeout = LIMIT_S,
    done: asyncio.Event | None = None,
    **table: Any,
) -> str | None:
    """What asking a server that does this at / comes to; `done` is set afterwards."""

    async def run() -> str | None:
        async with serving(serve) as port:
            probe = parse_ready(ReadySpec(http="/", **table), port, directory=Path())
            seen = await wait_until_ready(probe, limit)
            if done is not None:
                done.set()
            return seen

    return asyncio.run(run())


def ask(
    answers: Sequence[bytes],
    limit: float | BusyTimeout = LIMIT_S,
    *,
    environment: dict[str, str] | None = None,
    stay: bool = False,
    path: str = "/health?x=1",
    on_answer: Callable[[str], None] = lambda _: None,
    **table: Any,
) -> tuple[str | None, Server]:
    """What asking a server that gives `answers` at `path` comes to; `table` are keys of `ready`."""

    async def run() -> tuple[str | None, Server]:
        scene = Server(answers, stay=stay)
        async with serving(scene.serve) as port:
            probe = parse_ready(ReadySpec(http=path, **table), port, directory=Path())
            context = ProbeContext(environment=environment or {})
            seen = await wait_until_ready(probe, limit, context, on_answer=on_answer)
            scene.done.set()
            await scene.begun.wait()
            for writer in scene.writers:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            return seen, scene

    return asyncio.run(run())


def probe_text(text: str, limit_s: float, context: ProbeContext | None = None) -> str | None:
    probe = parse_ready(text, 0, directory=Path())
    return asyncio.run(wait_until_ready(probe, limit_s, context or ProbeContext()))


@pytest.mark.parametrize(
    "first_line", [b"HTTP/1.1 200 OK", b"HTTP/1.0 204 No Content", b"HTTP/1.1 299"]
)
def test_an_answer_of_200_to_299_is_ready(first_line: bytes) -> None:
    seen, server = ask([first_line + b"\r\n\r\n"])
    assert seen is None
    assert server.requests[0].startswith(b"GET /health?x=1 HTTP/1.1\r\nHost: 127.0.0.1:")


def test_what_becomes_ready_is_noticed_within_100_ms() -> None:
    seen, server = ask([BUSY] * 30 + [OK])
    assert seen is None
    gaps = sorted(
        later - earlier for earlier, later in zip(server.times, server.times[1:], strict=False)
    )
    assert gaps[len(gaps) // 2] <= 0.1


def test_proxies_have_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")
    assert ask([OK])[0] is None


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (BUSY, "HTTP status 503"),
        (
            answer(b"", status="307 Temporary Redirect", headers="Location: /x\r\n"),
            "HTTP status 307",
        ),
        (b"", "the connection was closed without an answer"),
        (b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP"),
        (b"x" * 200_000, "the answer is not HTTP"),
    ],
)
def test_what_was_seen_last_is_told_when_time_is_up(answered: bytes, told: str) -> None:
    assert (ask([answered], Attempts(3))[0] or "").startswith(told)


def test_only_the_statuses_that_are_named_are_good_ones() -> None:
    assert ask([answer(b"", status="401 Unauthorized")], status=["2xx", 401])[0] is None
    assert ask([OK], Attempts(1), status=204)[0] == "HTTP status 200, and not 204"


CHUNKED = answer(
    b'7;x=y\r\n{"data"\r\nD\r\n: [{"id": 1}]\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n',
    headers="transfer-encoding: Chunked\r\n",
)


@pytest.mark.parametrize(
    "answered",
    [
        answer(b'{"data": [{"id": 1}]}'),
        answer(b'{"data": [{"id": 1}]}', headers="Content-Length: 21\r\n"),
        CHUNKED,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + CHUNKED,
    ],
)
def test_a_body_is_read_however_it_is_sent(answered: bytes) -> None:
    assert ask([answered], body='"id": 1')[0] is None


def test_a_body_ends_where_its_length_says_and_not_with_the_connection() -> None:
    answered = [answer(b"ready", headers="Content-Length: 5\r\n")]
    assert ask(answered, body="^ready$", stay=True)[0] is None
    assert ask([CHUNKED], body="data", stay=True)[0] is None


@pytest.mark.parametrize(
    ("answered", "table", "told"),
    [
        (
            answer(b"loading\n40 %"),
            {"body": "READY"},
            "the body does not match /READY/: loading 40 %",
        ),
        (answer(b""), {"body": "READY"}, "the body does not match /READY/: it is empty"),
        (
            answer(b"cut", headers="Content-Length: 99\r\n"),
            {"body": "cut"},
            "the connection was closed in the middle of the answer",
        ),
        (
            answer(b"zz\r\n", headers="Transfer-Encoding: chunked\r\n"),
            {"body": "x"},
            "the answer is no proper HTTP: illegal chunk header",
        ),
        (answer(b"x" * 2_000_000), {"body": "ready"}, "the body does not match /ready/: xxx"),
        (
            answer(b"X: y\r\n" * 20_000),
            {"body": "ready"},
            "the answer is no proper HTTP: Receive buffer too long",
        ),
    ],
)
def test_a_body_that_is_not_the_wanted_one_is_told(
    answered: bytes, table: dict[str, Any], told: str
) -> None:
    headless = answered.replace(b"\r\n\r\n", b"\r\n", 1) if told.endswith("too long") else answered
    seen = ask([headless], Attempts(1), **table)[0] or ""
    assert seen.startswith(told)
    assert len(seen) < 300


def test_headers_and_authorization_are_sent() -> None:
    seen, server = ask(
        [OK],
        headers={"x-tenant": "a", "accept": "text/plain"},
        authorization="KEY",
        environment={"KEY": "abc"},
    )
    assert seen is None
    lines = server.requests[0].decode().splitlines()
    assert {
        "X-Tenant: a",
        "Accept: text/plain",
        "Authorization: Bearer abc",
        "Connection: close",
    } <= set(lines)
    assert "Accept: */*" not in lines


def test_a_secret_that_comes_back_is_not_told() -> None:
    body = answer(b"you are Bearer hunter2, hunter2")
    seen, _ = ask(
        [body], Attempts(1), body="never", authorization="KEY", environment={"KEY": "hunter2"}
    )
    assert (seen or "").endswith("you are ***, ***")


def test_a_variable_that_is_missing_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="KEY"):
        ask([OK], authorization="KEY")


def test_a_server_that_never_answers_costs_no_more_than_the_limit() -> None:
    # On a busy machine an attempt has its full time.
    idle = BusyTimeout(0.1, waited=lambda: 0.0)
    assert ask([b""], idle, stay=True)[0] == "no answer within 0.1 s"


def test_one_hanging_attempt_does_not_hold_up_the_next() -> None:
    asked = 0
    first = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await first.wait()
        writer.write(OK)
        writer.close()

    assert ask_at(serve, done=first, attempt_timeout="50ms") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_closed_port_is_told_as_refused(host: str) -> None:
    port = reserve_port()
    try:
        assert probe_text(f"tcp://{host}:{port.number}", 0.05) == "connection refused"
    finally:
        port.release()


def test_a_name_that_does_not_exist_is_told() -> None:
    assert (probe_text("tcp://no-such-host.invalid:1", 0.0) or "").startswith("no answer")


def test_tcp_is_ready_when_it_accepts() -> None:
    async def run() -> str | None:
        async with serving(lambda _, writer: writer.close()) as port:
            probe = parse_ready(f"tcp://localhost:{port}", 0, directory=Path())
            return await wait_until_ready(probe, LIMIT_S)

    assert asyncio.run(run()) is None


def test_a_limit_of_nothing_leaves_the_only_attempt_a_second() -> None:
    assert ask([b""], 0.0, stay=True)[0] == "no answer within 1 s"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("unix:{socket}", None),
        ("http+unix://{quoted}/health", None),
        ("http+unix://{quoted}/other", "HTTP status 404"),
        ("unix:{socket}.no", "no answer: [Errno 2] No such file or directory"),
    ],
)
def test_a_unix_socket_takes_a_connection_or_http(text: str, told: str | None) -> None:
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n") if text.startswith("http") else b"GET /health"
        writer.write(OK if b"GET /health" in head else answer(b"", status="404 Not Found"))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        served.set()

    async def run() -> str | None:
        # A path under pytest's own directory may be longer than a socket's name may be.
        with tempfile.TemporaryDirectory() as folder:
            socket = f"{folder}/x.sock"
            filled = text.format(socket=socket, quoted=quote(socket, safe=""))
            probe = parse_ready(filled, 0, directory=Path())
            async with await asyncio.start_unix_server(serve, socket):
                seen = await wait_until_ready(probe, Attempts(1))
                if not text.endswith(".no"):
                    await served.wait()
                return seen

    assert asyncio.run(run()) == told


def test_a_request_may_have_a_body_and_its_first_token_is_enough() -> None:
    stream = answer(b'data: {"text": "a"}\n\n', headers="Content-Type: text/event-stream\r\n")
    seen, server = ask([stream], stay=True, send={"prompt": "Hi", "n": 1}, body='"text"')
    assert seen is None
    head = server.requests[0].decode()
    assert head.startswith("POST /health?x=1 HTTP/1.1\r\n")
    assert "Content-Type: application/json\r\nContent-Length: 21\r\n" in head
    seen, server = ask([OK], send="a=b", method="put", headers={"Content-Type": "text/x"})
    assert server.requests[0].startswith(b"PUT ")
    assert b"Content-Type: text/x\r\nContent-Length: 3\r\n" in server.requests[0]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("{ all = ['file:{here}', 'file:/'] }", None),
        ("{ all = ['file:{here}', 'file:/no', 'file:/nor'] }", "file /no: /no: no such file"),
        ("{ any = ['file:/no', 'file:{here}'] }", None),
        ("{ any = ['file:/no', { all = ['file:/', 'file:/nor'] }] }", "; file /nor: /nor: no such"),
    ],
)
def test_all_of_several_probes_hold_or_any(table: str, told: str | None, tmp_path: Path) -> None:
    seen = probe_text(table.replace("{here}", str(tmp_path)), 0.0)
    assert seen is None if told is None else told in str(seen)


def test_any_holds_as_soon_as_one_holds_while_another_hangs() -> None:
    async def run() -> str | None:
        asked = asyncio.Event()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await reader.read()
            writer.close()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asked.wait()
            writer.write(OK)
            await reader.read()
            writer.close()

        async with serving(hang) as silent, serving(serve) as good:
            parts: list[str | ReadySpec] = [
                ReadySpec(http=f"http://127.0.0.1:{port}/", attempt_timeout=LIMIT_S)
                for port in (silent, good)
            ]
            probe = parse_ready(ReadySpec(any=parts), 1, directory=Path())
            began = clock.now()
            seen = await wait_until_ready(probe, LIMIT_S)
            assert clock.now() - began < LIMIT_S, "the attempt of the other one was awaited"
            return seen

    assert asyncio.run(run()) is None


# --- a busy machine ---


def starved(limit_s: float) -> BusyTimeout:
    """A limit on a machine on which everybody waits for a CPU all the time."""
    began = clock.now()
    return BusyTimeout(limit_s, waited=lambda: clock.now() - began)


def test_a_busy_machine_makes_nobody_never_ready() -> None:
    assert ask([BUSY] * 20 + [OK], starved(0.05))[0] is None


def test_an_attempt_that_was_starved_does_not_count() -> None:
    asked = 0
    answered = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:  # it gets no answer in its time
            await answered.wait()
        writer.write(OK)
        writer.close()

    assert (ask_at(serve, starved(0.0), answered), asked) == (None, 2)


# --- holding for a while ---


def test_a_probe_must_hold_as_long_as_asked_and_a_failure_starts_it_anew() -> None:
    seen, server = ask([OK, OK, BUSY, OK], ready_for="150ms")
    assert seen is None
    assert server.times[-1] - server.times[3] >= 0.14


def test_what_holds_too_short_is_told() -> None:
    seen, _ = ask([OK], Attempts(3), ready_for="60s")
    assert (seen or "").endswith("and must be for 60 s")


def test_a_server_that_is_loading_is_asked_again_and_what_is_seen_on_the_way_is_told() -> None:
    told: list[str] = []
    assert ask([BUSY, b"", b"rubbish\n", OK], on_answer=told.append)[0] is None
    assert told == [
        "HTTP status 503",
        "the connection was closed without an answer",
        "the answer is not HTTP",
    ]


# --- files and logs ---


def when(change: Any, text: str, **context: Any) -> str | None:
    """What a probe comes to, that waits first and sees `change` then."""

    async def run() -> str | None:
        waiting = asyncio.Event()
        probe = parse_ready(text, 0, directory=Path())
        asked = asyncio.create_task(
            wait_until_ready(
                probe, LIMIT_S, ProbeContext(**context), on_answer=lambda _: waiting.set()
            )
        )
        await waiting.wait()
        change()
        return await asked

    return asyncio.run(run())


def test_a_file_is_ready_when_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    assert probe_text(f"file:{path}", 0) == f"{path}: no such file or directory"
    assert when(path.touch, f"file:{path}") is None
    assert probe_text(f"file:{path}", 0) is None


def test_a_log_is_ready_when_a_line_matches(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    context = ProbeContext(log=log)
    assert probe_text("log:ready", 0, context) == f"cannot read {log}: No such file or directory"
    log.write_text("\n")
    assert "nothing was written yet" in str(probe_text("log:ready", 0, context))
    log.write_text("loading 40 %\n")
    told = f"no line of {log} matches /ready/; its last line is: loading 40 %"
    assert probe_text("log:ready", 0, context) == told
    with log.open("ab", buffering=0) as file:
        assert (
            when(lambda: file.write(b"is rea") and file.write(b"dy"), "log:is ready", log=log)
            is None
        )
    assert probe_text("log:is ready", 0, context) is None


def test_a_log_that_is_being_flooded_is_searched_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 8_000_000 + b"\nready\n")
    assert probe_text("log:^ready$", 20, ProbeContext(log=log)) is None


def test_a_probe_that_cannot_work_here_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="needs a log"):
        probe_text("log:x", 0)
    with pytest.raises(UsageError, match="cannot be run here"):
        probe_text("exec:true", 0)


@pytest.mark.parametrize("length", ["9" * 15, "2000000000"])
def test_a_huge_length_of_a_body_is_read_up_to_the_bound(length: str) -> None:
    body = answer(b"ready", headers=f"Content-Length: {length}\r\n")
    assert ask([body], Attempts(1), body="ready")[0] == (
        "the connection was closed in the middle of the answer"
    )


@pytest.mark.parametrize("length", ["-5", "5, 6", "\u00b2", "five", "", "9" * 5000])
def test_a_length_that_is_no_number_is_told(length: str) -> None:
    body = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nready".encode("latin-1")
    seen = ask([body], Attempts(1), body="ready", stay=True)[0] or ""
    assert seen.startswith("the answer is no proper HTTP: ")


@pytest.mark.parametrize(
    ("table", "outcome"),
    [
        ({"status": "101"}, None),
        ({"status": "101", "body": "x"}, "the body does not match /x/: it is empty"),
        ({}, "HTTP status 101"),
    ],
)
def test_a_server_that_switches_the_protocol_ends_the_attempt(
    table: dict[str, Any], outcome: str | None
) -> None:
    switch = answer(b"", status="101 Switching Protocols", headers="Upgrade: websocket\r\n")
    headers = {"upgrade": "websocket"}
    assert ask([switch], Attempts(1), headers=headers, **table)[0] == outcome


@pytest.mark.parametrize(
    "headers",
    [{"transfer-encoding": "gzip"}, {"content-length": "five"}, {"content-length": "5"}],
)
def test_headers_of_no_proper_request_are_the_cause(headers: dict[str, str]) -> None:
    cause = ask([OK], Attempts(1), headers=headers)[0] or ""
    assert cause.startswith("the request is no proper HTTP: ")


def test_another_protocol_is_recognised_byte_by_byte() -> None:
    closed = asyncio.Event()

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            for each in b"HELO\r\n":
                writer.write(bytes([each]))
                await writer.drain()
                await asyncio.sleep(0)
        await closed.wait()
        writer.close()

    assert ask_at(greet, Attempts(1), closed) == "the answer is not HTTP"


def test_what_no_request_can_hold_is_sent_in_percent() -> None:
    seen, server = ask([OK], path="/ä%20?q=ö")
    assert seen is None
    assert server.requests[0].startswith(b"GET /%C3%A4%20?q=%C3%B6 HTTP/1.1\r\n")


class LittleTimeAtLast(BusyTimeout):
    """Time enough for the first attempt, and next to none for the second and last."""

    def __init__(self) -> None:
        super().__init__(LIMIT_S)
        self.attempts = 0

    def attempt_s(self, longest_s: float) -> float:
        self.attempts += 1
        return LIMIT_S if self.attempts == 1 else min(longest_s, 0.05)

    def left_s(self) -> float:
        return LIMIT_S if self.attempts == 1 else 0.0


def test_a_status_is_the_cause_and_not_the_attempt_that_the_deadline_cut() -> None:
    asked = 0
    silent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        if asked > 1:
            await silent.wait()
        writer.write(answer(b"", status="401 Unauthorized"))
        await writer.drain()
        writer.close()

    assert ask_at(serve, LittleTimeAtLast(), silent) == "HTTP status 401"


REFUSED = ProbeAnswer(text="connection refused", telling=Telling.ABSENT)
SILENT = ProbeAnswer(text="no answer within 2 s", telling=Telling.SILENT)
CUT = ProbeAnswer(text="no answer within 0.14 s", telling=Telling.SILENT, cut=True)
BUSY_ANSWERS = ProbeAnswer(text="HTTP status 503")
DENIED = ProbeAnswer(text="HTTP status 401")


@pytest.mark.parametrize(
    ("answers", "cause"),
    [
        ([DENIED, CUT], "HTTP status 401"),
        ([REFUSED, DENIED, CUT], "HTTP status 401"),
        ([BUSY_ANSWERS, DENIED], "HTTP status 401"),
        ([SILENT, SILENT, CUT], "no answer within 2 s"),
        ([REFUSED, SILENT], "no answer within 2 s"),
        ([CUT], "no answer within 0.14 s"),
        ([REFUSED], "connection refused"),
        ([BUSY_ANSWERS, REFUSED], "HTTP status 503"),
        ([BUSY_ANSWERS, SILENT], "HTTP status 503"),
        ([REFUSED, CUT], "connection refused"),
        ([CUT, REFUSED], "connection refused"),
    ],
)
def test_the_cause_is_the_most_telling_answer(answers: Sequence[ProbeAnswer], cause: str) -> None:
    best = None
    for answer in answers:
        best = more_telling(best, answer)
    assert best is not None
    assert best.text == cause
