# SPDX-License-Identifier: Apache-2.0
"""What `ready` means: a readiness probe as written and as understood. Pure."""

import re
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.model.quantities import parse_duration
from ci_doctor.model.words import did_you_mean

FORMS = '"/health", http://HOST:PORT/PATH, tcp://HOST:PORT, log:REGEX, exec:COMMAND, file:PATH'
_STATUS = re.compile(r"[1-5](?:\d\d|xx)", re.ASCII | re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 9110, 5.6.2
_NO_HOST = re.compile(r"[^\w.:%-]")
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def words(text: str | list[str], fill: Callable[[str], str]) -> tuple[str, ...]:
    """The words of a command, split as a shell would, then filled."""
    try:
        split = shlex.split(text) if isinstance(text, str) else text
    except ValueError as error:
        raise ValueError(f"ready: `exec` cannot be split into words: {error}") from error
    filled = tuple(map(fill, split))
    # execve(2) takes no empty name, and a NUL would end a word.
    if not filled or not filled[0] or "\0" in "".join(filled):
        raise ValueError("ready: `exec` names no command")
    return filled


def host_and_port(address: SplitResult, text: str, default: int | None) -> tuple[str, int]:
    """Of an address that `text` writes; `default` is the port if it names none."""
    if "@" in address.netloc:
        raise ValueError(
            "ready: an address cannot hold a user or a password; name a variable in `authorization`"
        )
    try:
        port = address.port
    except ValueError:  # no number, or beyond 65535
        port = 0
    if port is None:
        port = default
    if not address.hostname or _NO_HOST.search(address.hostname):
        no_address(text)
    if not port:
        raise ValueError(f'ready = "{text}" names no port from 1 to 65535')
    return address.hostname, port


def no_address(text: str) -> NoReturn:
    """Raise for a `ready` that is no probe at all."""
    raise ValueError(f'ready = "{text}" is none of {FORMS}')


def regex(key: str, text: str) -> str:
    """`text`, which compiles and is not empty."""
    if not text:
        raise ValueError(f"ready: `{key}` is an empty regular expression, which matches everything")
    try:
        re.compile(text, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"ready: `{key}` = {text!r} is no regular expression: {error}") from error
    return text


def statuses(given: int | str | list[int | str]) -> tuple[str, ...]:
    """`200`, `2xx` and their like, as text."""
    # A single status is written without a list.
    if not isinstance(given, list):
        given = [given]
    texts = tuple(str(value).lower() for value in given)
    for text in texts:
        if not _STATUS.fullmatch(text):
            raise ValueError(
                f'ready: `status` holds {text}, which is neither an HTTP status nor a class ("2xx")'
            )
    if not texts:
        raise ValueError("ready: `status` is empty, so that no answer could be a good one")
    return texts


def headers(given: Mapping[str, str], fill: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    """Names and filled values that HTTP can carry."""
    filled = []
    for name, text in given.items():
        value = fill(text).strip()
        # A line end in a value would let it write further headers, or a second request.
        if not _HEADER.fullmatch(name) or not value.isprintable():
            raise ValueError(
                f"ready: `headers`: {name!r} is no HTTP header, or its value holds a control "
                "character"
            )
        filled.append((name, value))
    return tuple(filled)


def duration(key: str, value: Any) -> float:
    """Seconds."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"ready: `{key}`: {error}") from error


# In a request line these would end the path, or begin another header.
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
_ONLY_HTTP = ("status", "body", "headers", "authorization")


class ReadySpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table form of `ready`: one of `http`, `tcp`, `log`, `exec`, `file` (docs/probes.md).

    `http` is a path or a URL, `tcp` HOST:PORT. `status`, `body` (a regex), `headers` and
    `authorization` (the name of an environment variable) go with `http` alone. Durations are seconds or text.
    """

    http: str | None = None
    tcp: str | None = None
    log: str | None = None
    exec: str | list[str] | None = None
    file: str | None = None
    status: int | str | list[int | str] = "2xx"
    body: str | None = None
    headers: dict[str, str] = {}
    authorization: str | None = None
    ready_for: str | int | float = 0
    attempt_timeout: str | int | float = "5s"


class Scheme(StrEnum):
    """The kinds of readiness probe."""

    HTTP = "http"
    TCP = "tcp"
    LOG = "log"
    EXEC = "exec"
    FILE = "file"


class ReadinessProbe(Struct, frozen=True, kw_only=True):
    """A readiness probe, understood and with every placeholder replaced.

    `host` and `port` are of HTTP and TCP; `path` (with its query), `tls`, `status` ("200", "2xx"),
    `body`, `headers` and `authorization` (a variable's name, never its value) of HTTP;
    `pattern` of LOG, `words` of EXEC, `file` of FILE. The probe must hold for `ready_for_s`
    seconds; one attempt takes `attempt_s` seconds at most.
    """

    scheme: Scheme
    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False
    status: tuple[str, ...] = ("2xx",)
    body: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    authorization: str | None = None
    pattern: str = ""
    words: tuple[str, ...] = ()
    file: Path | None = None
    ready_for_s: float = 0.0
    attempt_s: float = 5.0

    @property
    def is_network(self) -> bool:
        """Whether it connects to `host` and `port`."""
        return self.scheme in {Scheme.HTTP, Scheme.TCP}

    @property
    def authority(self) -> str:
        """`127.0.0.1:8000`, `[::1]:8000`."""
        return f"{written_host(self.host)}:{self.port}"

    def describe(self) -> str:
        """The probe in a message: `http://127.0.0.1:8000/health`, `log /regex/`, `exec ./check`."""
        match self.scheme:
            case Scheme.HTTP:
                scheme = "https" if self.tls else "http"
                return f"{scheme}://{self.authority}{self.path}"
            case Scheme.TCP:
                return f"tcp://{self.authority}"
            case Scheme.LOG:
                return f"log /{self.pattern}/"
            case Scheme.EXEC:
                return f"exec {shlex.join(self.words)}"
            case Scheme.FILE:
                return f"file {self.file}"

    def accepts(self, status: int) -> bool:
        """Whether an answer with this HTTP status is a good one."""
        text = str(status)
        return text in self.status or f"{text[0]}xx" in self.status

    def authorization_value(self, environment: Mapping[str, str]) -> str | None:
        """What to send as Authorization: never show it.

        Raises ValueError, which names the variable, if that is not set or cannot be sent.
        """
        if self.authorization is None:
            return None
        value = environment.get(self.authorization, "").strip()
        if not value:
            raise ValueError(
                f"authorization names the variable {self.authorization}, which is not set"
            )
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the variable {self.authorization} holds what no HTTP header can")
        # With a blank it names its scheme already, as in `Basic dXNlcjpwYXNz` (RFC 9110, 11.6.2).
        if " " in value:
            return value
        return f"Bearer {value}"


def written_host(host: str) -> str:
    """`host` as it stands before a port: an IPv6 address in brackets (RFC 3986, 3.2.2)."""
    return f"[{host}]" if ":" in host else host


def unfilled(text: str) -> str:
    """`text` as it is, for a `ready` without placeholders."""
    return text


def parse_ready(
    ready: str | ReadySpec, port: int, *, directory: Path, fill: Callable[[str], str] = unfilled
) -> ReadinessProbe:
    """The probe that `ready` describes.

    A bare path means 127.0.0.1:`port`; `file` is relative to `directory`. `fill` replaces
    placeholders in every text. Raises ValueError with a sentence for the user.
    """
    spec = read_ready(ready)
    scheme, text = _the_one(spec)
    if scheme is not Scheme.HTTP:
        _refuse_http_keys(spec, scheme)
    body = None if spec.body is None else regex("body", fill(spec.body))
    if spec.authorization is not None and not _VARIABLE.fullmatch(spec.authorization):
        # The text may be the secret itself: it is not shown.
        raise ValueError(
            "ready: `authorization` takes the name of an environment variable, not the value to "
            "send"
        )
    attempt_s = duration("attempt_timeout", spec.attempt_timeout)
    if attempt_s <= 0:
        raise ValueError("ready: `attempt_timeout` leaves an attempt no time")
    return msgspec.structs.replace(
        _aim(scheme, text, port, directory, fill),
        status=statuses(spec.status),
        body=body,
        headers=headers(spec.headers, fill),
        authorization=spec.authorization,
        ready_for_s=duration("ready_for", spec.ready_for),
        attempt_s=attempt_s,
    )


def read_ready(ready: str | ReadySpec) -> ReadySpec:
    """The table that a text stands for: `/health`, a URL, `log:…`, or an inline TOML table.

    Raises ValueError as `parse_ready`.
    """
    if isinstance(ready, ReadySpec):
        return ready
    if ready.lstrip().startswith("{"):
        return _read_table(ready.strip())
    scheme, colon, rest = ready.partition(":")
    if ready.startswith("/") or scheme in {"http", "https"}:
        return ReadySpec(http=ready)
    if not colon or scheme not in set(Scheme):
        raise ValueError(f'ready = "{ready}" is none of {FORMS}')
    if scheme == Scheme.TCP:
        rest = rest.removeprefix("//")
    return msgspec.convert({scheme: rest}, decodable(ReadySpec))


def _read_table(text: str) -> ReadySpec:
    # Only few probes are written as a table on a command line; the import costs milliseconds.
    import tomllib

    try:
        table = tomllib.loads(f"ready = {text}")["ready"]
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"ready = {text} is no inline TOML table: {error}") from error
    for key in table:
        if key not in ReadySpec.__struct_fields__:
            raise ValueError(
                f"ready: unknown key `{key}`; {did_you_mean(key, ReadySpec.__struct_fields__)}"
            )
    try:
        return msgspec.convert(table, decodable(ReadySpec))
    except msgspec.ValidationError as error:
        raise ValueError(f"ready = {text}: {error}") from error


def _the_one(spec: ReadySpec) -> tuple[Scheme, str | list[str]]:
    given = []
    for scheme in Scheme:
        text = getattr(spec, scheme)
        if text is not None:
            given.append((scheme, text))
    if len(given) == 1:
        return given[0]
    names = " and ".join((scheme for scheme, _ in given)) if given else "none"
    raise ValueError(f"ready needs exactly one of {', '.join(Scheme)}; it holds {names}")


def _refuse_http_keys(spec: ReadySpec, scheme: Scheme) -> None:
    plain = ReadySpec()
    for key in _ONLY_HTTP:
        if getattr(spec, key) != getattr(plain, key):
            raise ValueError(
                f"ready: `{key}` is about an HTTP answer, and there is none with `{scheme}`"
            )


def _aim(
    scheme: Scheme, text: str | list[str], port: int, directory: Path, fill: Callable[[str], str]
) -> ReadinessProbe:
    """The probe with what it is aimed at, and nothing else."""
    if isinstance(text, list) or scheme is Scheme.EXEC:
        return ReadinessProbe(scheme=Scheme.EXEC, words=words(text, fill))
    target = fill(text)
    match scheme:
        case Scheme.HTTP:
            return _http(target, port)
        case Scheme.TCP:
            return _tcp(target)
        case Scheme.LOG:
            return ReadinessProbe(scheme=scheme, pattern=regex("log", target))
        case _:
            if not target or "\0" in target:
                raise ValueError("ready: `file` names no file")
            return ReadinessProbe(scheme=scheme, file=directory / target)


def _http(text: str, port: int) -> ReadinessProbe:
    if _UNPRINTABLE.search(text):
        raise ValueError(
            f"ready = {text!r} holds a space or a control character; write %20 for a space"
        )
    if text.startswith("/"):
        return ReadinessProbe(scheme=Scheme.HTTP, host="127.0.0.1", port=port, path=text)
    address = urlsplit(text)
    if address.scheme not in {"http", "https"}:
        no_address(text)
    tls = address.scheme == "https"
    default = 443 if tls else 80
    host, number = host_and_port(address, text, default=default)
    path = address.path or "/"
    if address.query:
        path += f"?{address.query}"
    return ReadinessProbe(scheme=Scheme.HTTP, host=host, port=number, path=path, tls=tls)


def _tcp(text: str) -> ReadinessProbe:
    # urlsplit() takes what stands before a colon for the scheme, as in `localhost:8000`.
    url = f"tcp://{text}" if not text.startswith("tcp://") else text
    address = urlsplit(url)
    if address.path or address.query:
        no_address(text)
    host, number = host_and_port(address, text, default=None)
    return ReadinessProbe(scheme=Scheme.TCP, host=host, port=number)
