# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends requests to a running server, each within a time of its own."""

import asyncio
import errno
from collections.abc import Callable, Sequence

import httpx
from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.load.canonical import Canonical, NotAnAnswerError, canonicalise
from ci_doctor.load.requests import Request
from ci_doctor.system import clock

_JSON = {"content-type": "application/json"}
# An answer of a model is kilobytes, with logprobs of a long prompt some megabytes; what is larger must not fill our memory.
LARGEST_ANSWER = 64 * 1024 * 1024


class Sender(Struct, frozen=True, kw_only=True):
    """How requests are sent: `concurrency` at a time, in the order of the file, each within `timeout_s` seconds."""

    base_url: str
    concurrency: int = 1
    timeout_s: float = 120.0

    def client(self) -> httpx.AsyncClient:
        """A client that ignores proxies, and opens a connection per request: a server may close one between two."""
        limits = httpx.Limits(max_connections=self.concurrency, max_keepalive_connections=0)
        return httpx.AsyncClient(base_url=self.base_url, limits=limits, trust_env=False, timeout=None)  # noqa: S113


class Reply(Struct, frozen=True, kw_only=True):
    """What became of a request: exactly one of `answer` and `error` (a sentence) is set; `status` is HTTP's.

    `sent_at` and `ended_at` are monotonic seconds. One that is `hung` was given up at its time limit.
    """

    id: str
    sent_at: float
    ended_at: float
    status: int | None = None
    answer: Canonical | None = None
    error: str | None = None
    hung: bool = False


async def send_all(sender: Sender, requests: Sequence[Request], keep: Callable[[Reply], None]) -> None:
    """Send all `requests`; `keep` gets a reply for each as it arrives, an error being one too.

    What `keep` raises ends it, and is raised. Raises InfraError as `ask`.
    """
    gate = asyncio.Semaphore(sender.concurrency)

    async def one(request: Request) -> None:
        async with gate:
            keep(await ask(client, sender.timeout_s, request))

    try:
        async with sender.client() as client, asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(one(request))
    except ExceptionGroup as errors:
        # Without its wrapping the one error boundary can tell a full disk from a bug of ours.
        raise errors.exceptions[0] from errors


async def ask(client: httpx.AsyncClient, timeout_s: float, request: Request) -> Reply:
    """Send one request and wait at most `timeout_s` for its whole answer.

    Raises InfraError where we ourselves run out of file descriptors: no server is to blame for that.
    """
    sent_at = clock.now()
    status: int | None = None

    def reply(*, answer: Canonical | None = None, error: str | None = None, hung: bool = False) -> Reply:
        return Reply(
            id=request.id,
            sent_at=sent_at,
            ended_at=clock.now(),
            status=status,
            answer=answer,
            error=error,
            hung=hung,
        )

    try:
        # httpx's own limits are per read: a server that trickles bytes would never end.
        async with asyncio.timeout(timeout_s):
            async with client.stream("POST", request.path, content=request.content(), headers=_JSON) as response:
                status = response.status_code
                body = await read_body(response)
        if status != 200:
            return reply(error=f"HTTP {status}: {body[:300].decode('utf-8', 'replace')}")
        return reply(answer=canonicalise(body, request.choices))
    except TimeoutError:
        return reply(error=f"no answer in {timeout_s:g} s", hung=True)
    except (httpx.HTTPError, OSError) as error:
        if _out_of_descriptors(error):
            raise InfraError(
                "ci-doctor may open no more files and connections", hint="raise `ulimit -n`, or lower --concurrency"
            ) from error
        if isinstance(error, OSError):
            raise
        return reply(error=f"{type(error).__name__}: {error}".rstrip(": "))
    except NotAnAnswerError as error:
        return reply(error=str(error))


def _out_of_descriptors(error: BaseException | None) -> bool:
    """Whether that is what an error goes back to: httpx hides it behind its own."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
            return True
        error = error.__cause__ or error.__context__
    return False


async def read_body(response: httpx.Response) -> bytes:
    """The whole body. Raises httpx.ReadError where it is larger than LARGEST_ANSWER."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise httpx.ReadError(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
    return bytes(body)
