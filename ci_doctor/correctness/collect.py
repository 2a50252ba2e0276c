# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends every request to a running server and keeps every answer."""

import asyncio
import errno
from collections.abc import Callable, Sequence

import httpx
import msgspec

from ci_doctor.correctness.canonical import NotAnAnswerError, canonicalise
from ci_doctor.correctness.requests import Request
from ci_doctor.correctness.samples import Sample
from ci_doctor.errors import InfraError

_JSON = {"content-type": "application/json"}
# An answer of a model is kilobytes, with logprobs of a long prompt some megabytes; what is larger must not fill our memory.
LARGEST_ANSWER = 64 * 1024 * 1024
METRICS_TIMEOUT_S = 10.0


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are sent: `concurrency` at a time, in the order of the file, each within `timeout_s` seconds."""

    base_url: str
    concurrency: int = 1
    timeout_s: float = 120.0

    def client(self) -> httpx.AsyncClient:
        """A client that ignores proxies, and opens a connection per request: a server may close one between two."""
        limits = httpx.Limits(max_connections=self.concurrency, max_keepalive_connections=0)
        return httpx.AsyncClient(base_url=self.base_url, limits=limits, trust_env=False, timeout=None)  # noqa: S113


async def collect(
    sender: Sender, requests: Sequence[Request], sample: Callable[..., Sample], keep: Callable[[Sample], None]
) -> None:
    """Send all `requests`; `keep` gets a sample for each as it arrives, an error being a sample too.

    `sample` makes a Sample of what is given here plus what the caller knows (arm, start, pass). What `keep` raises ends
    it, and is raised. Raises InfraError where we ourselves run out of file descriptors: no server is to blame for that.
    """
    gate = asyncio.Semaphore(sender.concurrency)
    try:
        async with sender.client() as client, asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(_one(client, gate, sender.timeout_s, request, sample, keep))
    except ExceptionGroup as errors:
        # Without its wrapping the one error boundary can tell a full disk from a bug of ours.
        raise errors.exceptions[0] from errors


async def _one(
    client: httpx.AsyncClient,
    gate: asyncio.Semaphore,
    timeout_s: float,
    request: Request,
    sample: Callable[..., Sample],
    keep: Callable[[Sample], None],
) -> None:
    async with gate:
        keep(sample(id=request.id, **await _ask(client, timeout_s, request)))


async def _ask(client: httpx.AsyncClient, timeout_s: float, request: Request) -> dict[str, object]:
    """The fields of a sample that the answer decides."""
    status = None
    try:
        # httpx's own limits are per read: a server that trickles bytes would never end.
        async with asyncio.timeout(timeout_s):
            async with client.stream("POST", request.path, content=request.content(), headers=_JSON) as response:
                status = response.status_code
                body = await _read(response)
        if status != 200:
            return {"status": status, "error": f"HTTP {status}: {body[:300].decode('utf-8', 'replace')}"}
        answer = canonicalise(body, request.choices)
    except TimeoutError:
        return {"status": status, "error": f"no answer in {timeout_s:g} s"}
    except (httpx.HTTPError, OSError) as error:
        if _out_of_descriptors(error):
            raise InfraError(
                "ci-doctor may open no more files and connections", hint="raise `ulimit -n`, or lower --concurrency"
            ) from error
        if isinstance(error, OSError):
            raise
        return {"status": status, "error": f"{type(error).__name__}: {error}".rstrip(": ")}
    except NotAnAnswerError as error:
        return {"status": status, "error": str(error)}
    return {
        "status": status,
        **{name: getattr(answer, name) for name in ("output", "digest", "asked", "empty", "meta")},
    }


def _out_of_descriptors(error: BaseException | None) -> bool:
    """Whether that is what an error goes back to: httpx hides it behind its own."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
            return True
        error = error.__cause__ or error.__context__
    return False


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise httpx.ReadError(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
    return bytes(body)


async def read_metrics(base_url: str) -> dict[str, float] | None:
    """Every metric on `/metrics`, its samples summed over labels; None where there is no such page."""
    try:
        async with (
            asyncio.timeout(METRICS_TIMEOUT_S),
            Sender(base_url=base_url).client() as client,
            client.stream("GET", "/metrics") as response,
        ):
            body = await _read(response)
    except (TimeoutError, httpx.HTTPError):
        return None
    return parse_metrics(body.decode("utf-8", "replace")) if response.status_code == 200 else None


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats/), labels summed away. Pure."""
    totals: dict[str, float] = {}
    for line in text.split("\n"):
        name, _, rest = line.partition("{") if "{" in line else line.partition(" ")
        value = rest.rpartition("}")[2].split() if "{" in line else rest.split()
        if line.startswith("#") or not name.strip() or not value:
            continue
        try:
            totals[name.strip()] = totals.get(name.strip(), 0.0) + float(value[0])
        except ValueError:
            continue
    return totals
