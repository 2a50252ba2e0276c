# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends requests to a running server, each within a time of its own."""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache

import httpx
from msgspec import Struct, structs

from ci_doctor.errors import InfraError
from ci_doctor.load.canonical import Canonical, NotAnAnswerError, canonicalise
from ci_doctor.load.connections import open_client
from ci_doctor.load.event_stream import is_event_stream
from ci_doctor.load.requests import Request
from ci_doctor.load.retrying import wait_before_retry
from ci_doctor.load.streamed import canonicalise_stream
from ci_doctor.system import clock

_HEADERS = (
    ("content-type", "application/json"),
    ("accept", "*/*"),
    ("connection", "close"),
    ("user-agent", "ci-doctor"),
)
# An answer of a model is kilobytes, with logprobs of a long prompt some megabytes; what is larger must not fill our memory.
LARGEST_ANSWER = 64 * 1024 * 1024
# Forty such answers at once would take gigabytes until they are compared: a few are read at a time.
_LARGE = 2 * 1024 * 1024
_LARGE_AT_ONCE = 2


class Sender(Struct, frozen=True, kw_only=True):
    """How requests are sent: `concurrency` at a time, in the order of the file, each within `timeout_s` seconds.

    With `comes_again` a request is sent again where the server says "later" (429, or 503 with a time): not where it is
    asked how fast a server refuses.
    """

    base_url: str
    concurrency: int = 1
    timeout_s: float = 120.0
    comes_again: bool = False

    def client(self) -> httpx.AsyncClient:
        """A client for `ask`; see `open_client`."""
        return open_client(self.base_url)


class Reply(Struct, frozen=True, kw_only=True):
    """What became of a request: exactly one of `answer` and `error` (a sentence) is set; `status` is HTTP's.

    `sent_at` and `ended_at` are monotonic seconds, of the first try and of the last. One that is `hung` was given up at
    its time limit. `tries` counts the attempts: more than one where the server said "later" (429, or 503 with a time).
    """

    id: str
    sent_at: float
    ended_at: float
    status: int | None = None
    answer: Canonical | None = None
    error: str | None = None
    hung: bool = False
    tries: int = 1


async def send_all(
    sender: Sender, requests: Sequence[Request], keep: Callable[[Reply], None]
) -> None:
    """Send all `requests`; `keep` gets a reply for each as it arrives, an error being one too.

    What `keep` raises ends it, and is raised. Raises InfraError as `ask`.
    """
    waiting = iter(requests)
    large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def one_after_another() -> None:
        for request in waiting:
            keep(await ask(client, sender, request, large))

    try:
        async with sender.client() as client, asyncio.TaskGroup() as group:
            for _ in range(min(sender.concurrency, len(requests))):
                group.create_task(one_after_another())
    except ExceptionGroup as errors:
        # Without its wrapping the one error boundary can tell a full disk from a bug of ours.
        raise errors.exceptions[0] from errors


async def ask(
    client: httpx.AsyncClient,
    sender: Sender,
    request: Request,
    large: asyncio.Semaphore | None = None,
) -> Reply:
    """Send one request and wait at most the sender's `timeout_s` for its whole answer, all tries and waits included.

    Of answers that are `large` only as many are held at once as the semaphore allows.

    Raises InfraError where we ourselves run out of file descriptors: no server is to blame for that.
    """
    await asyncio.sleep(
        0
    )  # a server that is always faster than we are would leave no turn to anything else
    asking, timeout_s = _Asking(request, large), sender.timeout_s
    deadline = asking.sent_at + timeout_s if sender.comes_again else None
    try:
        # httpx's own limits are per read: a server that trickles bytes would never end.
        async with asyncio.timeout(timeout_s):
            response, body = await asking.answered(client, deadline)
        if response.status_code != 200:
            return asking.failed(
                f"HTTP {response.status_code}: {body[:300].decode('utf-8', 'replace')}"
            )
        streamed = is_event_stream(response.headers.get("content-type", ""))
        return asking.succeeded(
            (canonicalise_stream if streamed else canonicalise)(body, request.choices)
        )
    except TimeoutError:
        return asking.failed(f"no answer in {timeout_s:g} s", hung=True)
    except (httpx.HTTPError, OSError) as error:
        if _out_of_descriptors(error):
            raise InfraError(
                "ci-doctor may open no more files and connections",
                hint="raise `ulimit -n`, or lower --concurrency",
            ) from error
        if isinstance(error, OSError):
            raise
        return asking.failed(f"{type(error).__name__}: {error}".rstrip(": "))
    except NotAnAnswerError as error:
        return asking.failed(str(error))


class _Asking:
    """One request on its way, and what is known of it so far."""

    def __init__(self, request: Request, large: asyncio.Semaphore | None) -> None:
        self.sent_at = clock.now()
        self._request = request
        self._large = large
        self._status: int | None = None
        self._tries = 0

    def succeeded(self, answer: Canonical) -> Reply:
        if self._tries > 1:
            answer = structs.replace(answer, meta={**answer.meta, "tries": self._tries})
        return self._reply(answer=answer)

    def failed(self, error: str, *, hung: bool = False) -> Reply:
        tries = f" ({self._tries} tries)" if self._tries > 1 else ""
        return self._reply(error=f"{error}{tries}", hung=hung)

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

    async def answered(
        self, client: httpx.AsyncClient, deadline: float | None
    ) -> tuple[httpx.Response, bytes]:
        """The response and its body, of the last try: the server says no more "later", or there is no time left for it.

        Without a `deadline` there is only one.
        """
        url, content = _url(client.base_url, self._request.path), self._request.content()
        while True:
            self._tries += 1
            self._status = None
            # Not build_request(), which merges the client's headers, cookies and parameters anew for each request.
            request = httpx.Request("POST", url, headers=_HEADERS, content=content)
            response = await client.send(request, stream=True)
            try:
                self._status = response.status_code
                body = await read_body(response, self._large)
            finally:
                await response.aclose()
            if deadline is None:
                return response, body
            later = response.headers.get("retry-after")
            wait = wait_before_retry(
                response.status_code, later, self._tries, datetime.fromisoformat(clock.timestamp())
            )
            if wait is None or clock.now() + wait >= deadline:
                return response, body
            await asyncio.sleep(wait)


@lru_cache(maxsize=256)
def _url(base: httpx.URL, path: str) -> httpx.URL:
    return httpx.URL(str(base).rstrip("/") + path)


def _out_of_descriptors(error: BaseException | None) -> bool:
    """Whether that is what an error goes back to: httpx hides it behind its own."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
            return True
        error = error.__cause__ or error.__context__
    return False


async def read_body(response: httpx.Response, large: asyncio.Semaphore | None = None) -> bytes:
    """The whole body; a `large` one is read on when it is its turn.

    Raises httpx.ReadError where it is larger than LARGEST_ANSWER.
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
