# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: requests to Buildkite's REST API, bounded in time and bytes. And the job's log, by it or by the agent's file."""

import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import httpx

import os
import stat
from pathlib import Path

from ci_doctor.buildkite.agent import ApiTime
from ci_doctor.system import clock

# --- one HTTP request, bounded in time and bytes; a failure is a sentence ---
# No message holds a header or an address: a token may stand in either.

_TOO_MANY = 429
_RESETS = ("ratelimit-reset", "ratelimit-user-reset")
_SECONDS = re.compile(r"[0-9]{1,6}")
_RETRIED = frozenset({_TOO_MANY, 500, 502, 503, 504})


class RequestLimits(Struct, frozen=True, kw_only=True):
    """Seconds of one try and of all, tries, seconds between tries, bytes of a reply."""

    try_s: float = 5.0
    all_s: float = 15.0
    tries: int = 3
    pause_s: float = 1.0
    reply_bytes: int = 64 * 1024 * 1024


class HttpReply(Struct, frozen=True, kw_only=True):
    """What a service answered; `problem` is None for a status below 300.

    headers: by their names in lower case.
    """

    status: int | None = None
    body: bytes = b""
    headers: Mapping[str, str] = {}
    problem: str | None = None


def get(
    url: str, limits: RequestLimits, *, headers: Mapping[str, str], most_s: float = math.inf
) -> HttpReply:
    """The reply of the service at `url`; tried again if it is busy, broken or not reachable.

    most_s: for all tries together, if that is less than their limit. Redirects are not followed: the headers hold a token.
    """
    # Raw bytes below: a compressed reply could trickle for ever without a byte of its content.
    own = {**headers, "Accept-Encoding": "identity"}
    deadline = time.monotonic() + min(limits.all_s, most_s)
    number = 0
    while True:
        number += 1
        reply = _try(url, limits, own, left_s=deadline - time.monotonic())
        may_help = reply.status is None or reply.status in _RETRIED
        if reply.problem is None or not may_help:
            return reply
        pause_s = max(limits.pause_s * number, _reset_s(reply))
        if number >= limits.tries or deadline - time.monotonic() <= pause_s:
            return reply
        time.sleep(pause_s)


def _reset_s(reply: HttpReply) -> float:
    """Seconds until Buildkite's limits of requests are over (docs/apis/rest-api/rate-limits)."""
    if reply.status != _TOO_MANY:
        return 0.0
    waits = [reply.headers.get(name, "") for name in _RESETS]
    return max((float(text) for text in waits if _SECONDS.fullmatch(text)), default=0.0)


def _try(
    url: str, limits: RequestLimits, headers: Mapping[str, str], *, left_s: float
) -> HttpReply:
    """One try in a thread, which is left behind at the end of its time.

    httpx bounds each read of a socket, and no name's resolution. So a service whose headers
    trickle, or a resolver that is silent, would end no try.
    """
    # Its certificates take a while to load, and that time is not the service's.
    began = time.monotonic()
    client = _client()
    if isinstance(client, HttpReply):
        return client
    left_s = min(limits.try_s, left_s - (time.monotonic() - began))
    if left_s <= 0:
        return HttpReply(problem="the time for it is over")
    ask = partial(client.stream, "GET", url, headers=headers, timeout=left_s)
    replies: list[HttpReply] = []
    end = time.monotonic() + left_s
    thread = threading.Thread(
        target=lambda: replies.append(_exchange(client, ask, end, limits)), daemon=True
    )
    thread.start()
    thread.join(left_s)
    return replies[0] if replies else HttpReply(problem=_no_answer(limits))


def _client() -> "httpx.Client | HttpReply":
    """A client, or why there is none: a proxy of the environment that httpx cannot use."""
    import httpx

    try:
        return httpx.Client()
    # ImportError: of a SOCKS proxy. OSError: certificates that are not there.
    except (httpx.InvalidURL, ImportError, ValueError, OSError) as error:
        return HttpReply(status=0, problem=_impossible(error))


def _exchange(
    client: "httpx.Client",
    ask: "Callable[[], AbstractContextManager[httpx.Response]]",
    end: float,
    limits: RequestLimits,
) -> HttpReply:
    import httpx

    try:
        with client, ask() as response:
            return _read(response, end, limits)
    except httpx.TimeoutException:
        return HttpReply(problem=_no_answer(limits))
    except httpx.ConnectError as error:
        return HttpReply(problem=_unreachable(error))
    # ValueError: an address or a token that no request can hold.
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        return HttpReply(problem=_impossible(error))


def _read(response: "httpx.Response", end: float, limits: RequestLimits) -> HttpReply:
    """The whole reply. httpx's own limits are per read: a service that trickles would never end."""
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > limits.reply_bytes:
            return HttpReply(status=response.status_code, problem="the answer is too large")
        if time.monotonic() > end:
            return HttpReply(problem=_no_answer(limits))
    problem = None if response.is_success else f"HTTP {response.status_code}"
    return HttpReply(
        status=response.status_code,
        body=bytes(body),
        headers=dict(response.headers),
        problem=problem,
    )


def _unreachable(error: BaseException) -> str:
    """Why there is no connection, by what httpx and httpcore were raised from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return "no encrypted connection (TLS)"
        if isinstance(cause, socket.gaierror):
            return "its name has no address"
        cause = cause.__cause__ or cause.__context__
    return "no connection"


def _impossible(error: Exception) -> str:
    return f"no request is possible ({type(error).__name__})"


def _no_answer(limits: RequestLimits) -> str:
    return f"no whole answer within {limits.try_s:g} s"


# --- where Buildkite's REST API is, by the job's variables, and the token for it ---

# The names that Buildkite's own command line reads (github.com/buildkite/cli, internal/config).
ENDPOINT_VARIABLE: Final = "BUILDKITE_REST_API_ENDPOINT"
TOKEN_VARIABLE: Final = "BUILDKITE_API_TOKEN"  # noqa: S105 - the variable's name
_ENDPOINT: Final = "https://api.buildkite.com"
BUILD: Final = (
    ("organizations", "BUILDKITE_ORGANIZATION_SLUG"),
    ("pipelines", "BUILDKITE_PIPELINE_SLUG"),
    ("builds", "BUILDKITE_BUILD_NUMBER"),
)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
JOB: Final = (*BUILD, ("jobs", "BUILDKITE_JOB_ID"))
Resource = tuple[tuple[str, str], ...]


def token(environ: Mapping[str, str]) -> str:
    """The token without the white space around it; empty if there is none."""
    return environ.get(TOKEN_VARIABLE, "").strip()


def missing_variables(environ: Mapping[str, str], resource: Resource) -> list[str]:
    """The variables of `resource`, BUILD or JOB, that are not set or empty."""
    return [variable for _, variable in resource if not environ.get(variable)]


def endpoint(environ: Mapping[str, str]) -> str:
    """Where the API is: Buildkite's own address, or what the variable names."""
    return environ.get(ENDPOINT_VARIABLE) or _ENDPOINT


def refusal(environ: Mapping[str, str]) -> str | None:
    """Why no token is sent to the endpoint; None if nobody reads it on the way there.

    That is https with a host, or a server on this machine, as in tests.
    """
    try:
        parts = urlsplit(endpoint(environ))
        scheme, host = parts.scheme, parts.hostname
    except ValueError:  # an odd address in brackets
        scheme, host = "", None
    if (scheme == "https" and host is not None) or (scheme == "http" and host in _LOOPBACK):
        return None
    return f"{ENDPOINT_VARIABLE} is no https address, so the token is not sent there"


def address(environ: Mapping[str, str], resource: Resource) -> str:
    """The address of `resource`, of which no variable is missing.

    The endpoint may end in `/v2` or not, as Buildkite's own command line takes it.
    """
    path = endpoint(environ).rstrip("/").removesuffix("/v2") + "/v2"
    for kind, variable in resource:
        path += f"/{kind}/{quote(environ[variable], safe='')}"
    return path


# --- the output of a job's command within the job's log, by the marks of the agent ---
# The agent writes `~~~ Running commands` before the command, and `The command exited with status 1`
# after one that failed; what hooks print stands before and after that. From
# github.com/buildkite/agent, internal/job/executor.go: defaultCommandPhase, executeHook, CommandPhase.

# `\x1b_bk;t=1700000000000\x07` stands at the beginning of lines (managing_log_output.md).
_STAMPS: Final = rb"(?:\x1b_bk;t=\d+\x07)*"
_STAMP: Final = re.compile(b"^" + _STAMPS)
_BEGIN: Final = re.compile(
    rb"^" + _STAMPS + rb"~~~ Running (?:commands|script|batch script"
    rb"|(?:agent|global|repository|local|plugin [^\n]{1,100}) command hook)[ \r]*\n",
    re.MULTILINE,
)
# Its colour and its `🚨 Error: ` stand before it.
_END: Final = re.compile(
    rb"^[^\n]{0,80}?The command (?:exited with status -?\d+|was interrupted by a signal)[^\n]*\n?",
    re.MULTILINE,
)


class CommandOutput(Struct, frozen=True, kw_only=True):
    """What a command wrote; `problem` says what of it may be missing, None if nothing is."""

    content: bytes
    problem: str | None = None


def command_output(log: bytes, *, is_whole: bool = True) -> CommandOutput | None:
    """The output of the command in `log`; None if the log does not show where it begins.

    is_whole: `log` holds the job's log from its start. The command itself may print such marks: the
    first beginning and the last end count.
    """
    begin = _BEGIN.search(log)
    if begin is None and is_whole:
        return None
    start = begin.end() if begin is not None and is_whole else 0
    end = None
    for match in _END.finditer(log, start):
        end = match.end()
    if not is_whole:
        problem = "only the end of the job's log was read"
    elif end is None:
        problem = "the agent had not yet written how the command ended"
    else:
        problem = None
    return CommandOutput(content=log[start:end], problem=problem)


def without_echo(output: CommandOutput, command: str) -> CommandOutput:
    """`output` without `command` at its beginning, which the agent prints behind `$ `. Pure."""
    echoed = f"$ {command}".rstrip().encode().split(b"\n")
    lines = output.content.split(b"\n")
    begins = [_STAMP.sub(b"", line).rstrip() for line in lines[: len(echoed)]]
    if begins != [line.rstrip() for line in echoed]:
        return output
    return replace(output, content=b"\n".join(lines[len(echoed) :]))


# --- reads the job's log that the agent keeps beside the job, while the job runs ---
# The agent sets BUILDKITE_JOB_LOG_TMPFILE under its option `enable-job-log-tmpfile` (off by default).
# https://buildkite.com/docs/pipelines/configure/environment-variables#BUILDKITE_JOB_LOG_TMPFILE

VARIABLE = "BUILDKITE_JOB_LOG_TMPFILE"
MOST_BYTES = 64 * 1024 * 1024
# The agent passes output on as it comes; the last of it is a moment behind.
_WAIT_S = 2.0
_PAUSE_S = 0.1


def read_log_file(
    environ: Mapping[str, str], *, wait_s: float = _WAIT_S, most_bytes: int = MOST_BYTES
) -> CommandOutput | str | None:
    """The command's output, a sentence on why it cannot be had, or None without such a file.

    Waits up to `wait_s` seconds for the end of the output; reads the last `most_bytes` bytes.
    """
    name = environ.get(VARIABLE)
    if not name:
        return None
    try:
        return _until_whole(Path(name), most_bytes, wait_s)
    except OSError as error:
        return f"the job's log {name} cannot be read: {error.strerror or error}"


def _until_whole(path: Path, most_bytes: int, wait_s: float) -> CommandOutput | str:
    """Read again whenever the file has grown, until the end of the output is there."""
    deadline = clock.now() + wait_s
    known_bytes = -1
    output = None
    while True:
        size = path.stat().st_size
        if size != known_bytes:
            known_bytes = size
            output = _output_in(path, most_bytes)
        if output is not None and output.problem is None:
            return output
        if clock.now() >= deadline:
            return output or "the job's log does not show where the command begins"
        # Twenty looks at a size at most. inotify(7) would need the event loop, for nothing more.
        time.sleep(_PAUSE_S)


def _output_in(path: Path, most_bytes: int) -> CommandOutput | None:
    # Not a pipe, at which an open would wait.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is not a regular file")
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - most_bytes)
        file.seek(start)
        return command_output(file.read(most_bytes), is_whole=start == 0)


# --- reads the job's log by Buildkite's REST API, where the job has a token for it ---
# GET /v2/organizations/…/pipelines/…/builds/…/jobs/…/log.txt needs a token with the scope
# `read_build_logs` (https://buildkite.com/docs/apis/rest-api/jobs). The token never stands in a
# message.

_MOST_BYTES = 8 * 1024 * 1024
_ALL_S = 10.0
_OK = 200


def request_log(
    environ: Mapping[str, str], *, all_s: float = _ALL_S, most_bytes: int = _MOST_BYTES
) -> CommandOutput | str | None:
    """The command's output, a sentence on why it cannot be had, or None without a token.

    At most the last `most_bytes` bytes of the log, in `all_s` seconds.
    """
    secret = token(environ)
    if not secret or missing_variables(environ, JOB):
        return None
    refused = refusal(environ)
    if refused is not None:
        return f"the job's log cannot be had from the API: {refused}"
    url = f"{address(environ, JOB)}/log.txt"
    headers = {"Authorization": f"Bearer {secret}", "Range": f"bytes=-{most_bytes}"}
    limits = RequestLimits(try_s=all_s, all_s=all_s, tries=1, reply_bytes=most_bytes)
    api_time = ApiTime.of_job(environ)
    with api_time.counted():
        reply = get(url, limits, headers=headers, most_s=api_time.left_s())
    if reply.problem is not None:
        return f"the job's log cannot be had from the API: {reply.problem}"
    # `bytes 0-99/100` (RFC 9110, 14.4): from the start of the log.
    is_whole = reply.status == _OK or reply.headers.get("content-range", "").startswith("bytes 0-")
    output = command_output(reply.body, is_whole=is_whole)
    return output or "the job's log does not show where the command begins"
