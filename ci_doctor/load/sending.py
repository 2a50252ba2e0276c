# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends requests to a running server, each within a time of its own; reads its metrics page."""

import asyncio
import contextlib
import errno
import math
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import lru_cache
from typing import Protocol

import httpx
from msgspec import Struct, structs

from ci_doctor.errors import InfraError
from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.requests import Request, read_answer
from ci_doctor.load.schema import begins_as_stream, is_event_stream
from ci_doctor.system import clock
from ci_doctor.system.processes.cpu_wait import CpuWaits, extended

FIRST_S = 0.1
LONGEST_S = 5.0


def wait_before_retry(status: int, retry_after: str | None, tries: int) -> float | None:
    """Seconds to wait after try number `tries` (from 1) was answered by `status`.

    None if it is not to be repeated. Retry-After in seconds is honoured, but no wait is shorter
    than FIRST_S. Without it, or if it is something else, waits double from FIRST_S to LONGEST_S.
    """
    if status != 429 and (status != 503 or retry_after is None):
        return None
    text = (retry_after or "").strip()
    # isdigit() alone takes digits of other scripts; ten digits are centuries.
    if text.isascii() and text.isdigit():
        return max(float(text), FIRST_S) if len(text) < 10 else math.inf
    # No random part, which a client of many servers needs: a run must repeat itself.
    return min(LONGEST_S, FIRST_S * 2.0 ** min(tries - 1, 10))


# Each request reads the waits at its start, and a thousand may start in a second.
_OLDEST_S = 1.0


@contextlib.asynccontextmanager
async def time_limit(limit_s: float, waits: CpuWaits | None = None) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but seconds in which those of `waits` had no CPU do not count.

    Without `waits` all seconds count. Raises TimeoutError.
    """
    if waits is None:
        async with asyncio.timeout(limit_s):
            yield
        return
    loop = asyncio.get_running_loop()
    began = loop.time()
    before = waits.now(oldest_s=_OLDEST_S)
    timer: asyncio.TimerHandle

    def check() -> None:
        nonlocal timer
        end = began + extended(limit_s, waits.since(before))
        if end > loop.time():
            timer = loop.call_at(end, check)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_at(began + limit_s, check)
        try:
            yield
        finally:
            timer.cancel()


_HEADERS = (
    ("content-type", "application/json"),
    ("accept", "*/*"),
    ("connection", "close"),
    ("user-agent", "ci-doctor"),
)
# An answer of a model is kilobytes, with logprobs of a long prompt some megabytes. What is larger
# must not fill our memory.
LARGEST_ANSWER = 64 * 1024 * 1024
# Forty such answers at once would take gigabytes until they are compared: a few are read at a time.
_LARGE = 2 * 1024 * 1024
_LARGE_AT_ONCE = 2
_SHOWN_OF_A_BODY = 300
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})  # of this process, of the machine


class Sender(Struct, frozen=True, kw_only=True):
    """How requests are sent: `concurrency` at a time, in the order of the file.

    Each has `timeout_s` seconds. Those in which the processes of `waits` had no CPU do not count.

    With `comes_again` a request is sent again if the server answers "later" (429, or 503 with a
    time). Not if it is measured how fast a server refuses.
    """

    base_url: str
    concurrency: int = 1
    timeout_s: float = 120.0
    comes_again: bool = False
    waits: CpuWaits | None = None

    def client(self) -> httpx.AsyncClient:
        """A client for `ask`; it ignores proxies.

        A server may close an idle connection at any time, and that cannot be told from one that fails: so
        none is kept, and each request has its own. How many it sends at a time, and for how long, we decide.
        """
        return httpx.AsyncClient(
            base_url=self.base_url,
            headers={"connection": "close"},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
            # The bundle of certificates is read at once, in 20 ms, and plain HTTP needs none of it.
            verify=self.base_url.startswith("https:"),
            timeout=None,  # noqa: S113 - there is a deadline for the whole answer
        )

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator["Ask"]:
        """What sends a request, as `ask`, over one client."""
        large = asyncio.Semaphore(_LARGE_AT_ONCE)
        async with self.client() as client:
            yield lambda request: ask(client, self, request, large)


class Reply(Struct, frozen=True, kw_only=True):
    """The result of a request: exactly one of `answer` and `error` (a sentence) is set.

    `status` is HTTP's. `sent_at` and `ended_at` are monotonic seconds, of the first try and of the
    last. `hung`: it was given up at its time limit. `tries` counts the attempts: more than one if
    the server answered "later" (429, or 503 with a time).
    """

    id: str
    sent_at: float
    ended_at: float
    status: int | None = None
    answer: Canonical | None = None
    error: str | None = None
    hung: bool = False
    tries: int = 1


Ask = Callable[[Request], Awaitable[Reply]]


class Asking(Protocol):
    """Whatever makes requests, `concurrency` at a time: a Sender, or a command for each."""

    @property
    def concurrency(self) -> int:
        """How many requests are under way at once."""

    def asking(self) -> contextlib.AbstractAsyncContextManager[Ask]:
        """What makes one request, inside the block."""


async def send_all(
    sender: Asking, requests: Sequence[Request], keep: Callable[[Reply], None]
) -> None:
    """Send all `requests`; `keep` gets a reply for each as it arrives, also for an error.

    What `keep` raises ends it, and is raised. Raises InfraError as `ask` does.
    """
    remaining = iter(requests)

    async def one_after_another() -> None:
        for request in remaining:
            keep(await ask_one(request))

    try:
        async with sender.asking() as ask_one, asyncio.TaskGroup() as group:
            # They share the iterator: the next request goes to whoever is free first.
            workers = min(sender.concurrency, len(requests))
            for _ in range(workers):
                group.create_task(one_after_another())
    except ExceptionGroup as errors:
        # Unwrapped: the error boundary must be able to tell a full disk from a bug of ours.
        raise errors.exceptions[0] from errors


async def ask(
    client: httpx.AsyncClient,
    sender: Sender,
    request: Request,
    large: asyncio.Semaphore | None = None,
) -> Reply:
    """Send one request and wait at most the sender's `timeout_s` for its whole answer.

    All tries and waits are included. Of large answers only as many are held at once as the
    semaphore `large` allows. Raises InfraError if we ourselves run out of file descriptors: no
    server is to blame for that.
    """
    # A server that is always faster than we are would leave no turn to anything else.
    await asyncio.sleep(0)
    exchange = _Exchange(request, large)
    timeout_s = sender.timeout_s
    deadline = exchange.sent_at + timeout_s if sender.comes_again else None
    try:
        # httpx's own limits are per read: a server that trickles bytes would never end.
        async with time_limit(timeout_s, sender.waits):
            response, body = await exchange.last_response(client, deadline)
        return exchange.succeeded(_canonical(request, response, body))
    except TimeoutError:
        return exchange.failed(f"no answer in {timeout_s:g} s", hung=True)
    except NotAnAnswerError as error:
        return exchange.failed(str(error))
    except (httpx.HTTPError, OSError) as error:
        if _is_out_of_descriptors(error):
            raise InfraError(
                "ci-doctor may open no more files and connections",
                hint="raise `ulimit -n`, or lower --concurrency",
            ) from error
        if isinstance(error, OSError):
            raise
        return exchange.failed(f"{type(error).__name__}: {error}".rstrip(": "))


def _canonical(request: Request, response: httpx.Response, body: bytes) -> Canonical:
    """The answer in a response. Raises NotAnAnswerError if there is none."""
    status = response.status_code
    if status != 200:
        shown = body[:_SHOWN_OF_A_BODY].decode("utf-8", "replace")
        raise NotAnAnswerError(f"HTTP {status}: {shown}")
    # A stream that was asked for may come under another content type: the proxies for disaggregated
    # prefill of vLLM and LMCache send theirs as application/json.
    is_unnamed = bool(request.body.get("stream")) and begins_as_stream(body)
    streamed = is_event_stream(response.headers.get("content-type", "")) or is_unnamed
    return read_answer(request, body, streamed=streamed)


class _Exchange:
    """One request with all its tries, and the state of it so far."""

    def __init__(self, request: Request, large: asyncio.Semaphore | None) -> None:
        self.sent_at = clock.now()
        self._request = request
        self._large = large
        self._status: int | None = None
        self._tries = 0

    def succeeded(self, answer: Canonical) -> Reply:
        if self._tries > 1:
            # Beside the answer, and not compared: how busy a server was is no difference.
            meta = {**answer.meta, "tries": self._tries}
            answer = structs.replace(answer, meta=meta)
        return self._reply(answer=answer)

    def failed(self, error: str, *, hung: bool = False) -> Reply:
        if self._tries > 1:
            error = f"{error} ({self._tries} tries)"
        return self._reply(error=error, hung=hung)

    def _reply(
        self, *, answer: Canonical | None = None, error: str | None = None, hung: bool = False
    ) -> Reply:
        return Reply(
            id=self._request.id,
            sent_at=self.sent_at,
            ended_at=clock.now(),
            status=self._status,
            answer=answer,
            error=error,
            hung=hung,
            tries=self._tries,
        )

    async def last_response(
        self, client: httpx.AsyncClient, deadline: float | None
    ) -> tuple[httpx.Response, bytes]:
        """The response and its body, of the last try.

        That is the one whose response is not "later", or which leaves no time for another before
        `deadline`. Without a `deadline` there is only one.
        """
        while True:
            self._tries += 1
            self._status = None
            response, body = await self._try(client)
            if deadline is None:
                return response, body
            later = response.headers.get("retry-after")
            wait_s = wait_before_retry(response.status_code, later, self._tries)
            if wait_s is None or clock.now() + wait_s >= deadline:
                return response, body
            await asyncio.sleep(wait_s)

    async def _try(self, client: httpx.AsyncClient) -> tuple[httpx.Response, bytes]:
        url = _url(client.base_url, self._request.path)
        content = self._request.content()
        # Not build_request(), which merges the client's headers, cookies and parameters anew for
        # each request.
        request = httpx.Request(self._request.method, url, headers=_HEADERS, content=content)
        response = await client.send(request, stream=True)
        try:
            self._status = response.status_code
            body = await read_body(response, self._large)
        finally:
            await response.aclose()
        return response, body


@lru_cache(maxsize=256)
def _url(base: httpx.URL, path: str) -> httpx.URL:
    return httpx.URL(str(base).rstrip("/") + path)


def _is_out_of_descriptors(error: BaseException | None) -> bool:
    """Whether that is the cause of an error: httpx wraps it in its own."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS:
            return True
        error = error.__cause__ or error.__context__
    return False


async def read_body(response: httpx.Response, large: asyncio.Semaphore | None = None) -> bytes:
    """The whole body; a large one is read on once the semaphore `large` allows it.

    Raises httpx.ReadError if it is larger than LARGEST_ANSWER.
    """
    body = bytearray()
    async with contextlib.AsyncExitStack() as turn:
        async for chunk in response.aiter_bytes():
            body += chunk
            if large is not None and len(body) > _LARGE:
                await turn.enter_async_context(large)
                large = None
            if len(body) > LARGEST_ANSWER:
                raise httpx.ReadError(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
    return bytes(body)


# --- a server's metrics page ---


METRICS_TIMEOUT_S = 10.0
_LABEL = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class MetricSample(Struct, frozen=True):
    """One line of a metrics page: a metric's value under its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


async def read_metrics(
    base_url: str, limit_s: float = METRICS_TIMEOUT_S
) -> dict[str, float] | None:
    """Every metric on `/metrics`, its samples summed over labels.

    None if there is no such page within `limit_s` seconds.
    """
    samples = await read_samples(base_url, limit_s)
    return None if samples is None else _summed(samples)


async def read_samples(
    base_url: str, limit_s: float = METRICS_TIMEOUT_S
) -> tuple[MetricSample, ...] | None:
    """Every sample on `/metrics`; None if there is no such page within `limit_s` seconds."""
    try:
        async with (
            asyncio.timeout(limit_s),
            Sender(base_url=base_url).client() as client,
            client.stream("GET", "/metrics") as response,
        ):
            body = await read_body(response)
    except (TimeoutError, httpx.HTTPError):
        return None
    if response.status_code != 200:
        return None
    return tuple(parse_samples(body.decode("utf-8", "replace")))


def _summed(samples: Iterable[MetricSample]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for each in samples:
        totals[each.name] = totals.get(each.name, 0.0) + each.value
    return totals


def parse_samples(text: str) -> Iterator[MetricSample]:
    """Each sample of a text in Prometheus' format.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    for line in text.split("\n"):
        if line.startswith("#"):
            continue
        name, labels, rest = _parts(line)
        # A time may follow the value; an empty line has neither.
        words = rest.split()
        try:
            value = float(words[0])
        except (ValueError, IndexError):
            continue
        if name:
            yield MetricSample(name, labels, value)


def parse_selector(text: str) -> tuple[str, dict[str, str]]:
    """The name and the labels of `hits{kind="hit"}`. Raises ValueError if it is neither."""
    if "{" not in text:
        return text.strip(), {}
    name, labels, rest = _parts(text)
    inside = text[text.index("{") + 1 : text.rindex("}")] if "}" in text else "="
    # Every equals sign outside of the values belongs to a label.
    if rest.strip() or not name or _LABEL.sub("", inside).strip(" ,"):
        raise ValueError(f"`{text}` is no metric with labels")
    return name, labels


def _parts(line: str) -> tuple[str, dict[str, str], str]:
    """A sample's name, its labels, and what follows: its value and perhaps a time."""
    if "{" in line:
        name, _, rest = line.partition("{")
        # The last brace: a label's value may hold one.
        inside, _, rest = rest.rpartition("}")
        labels = {key: _ESCAPED.sub(_character, value) for key, value in _LABEL.findall(inside)}
        return name.strip(), labels, rest
    name, _, rest = line.partition(" ")
    return name.strip(), {}, rest


def _character(match: re.Match[str]) -> str:
    return {"n": "\n"}.get(match[1], match[1])
