# SPDX-License-Identifier: Apache-2.0
"""What `ready` means: a readiness probe as written and as understood. Pure."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.model.words import did_you_mean, nearest, parse_duration

FORMS = (
    '"/health", http://HOST:PORT/PATH, tcp://HOST:PORT, unix:PATH, log:REGEX, exec:COMMAND, '
    "file:PATH"
)
_STATUS = re.compile(r"[1-5](?:\d\d|xx)", re.ASCII | re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 9110, 5.6.2
_NO_HOST = re.compile(r"[^\w.:%-]")
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_METHOD = re.compile(r"[A-Za-z]+", re.ASCII)
_HTTP_UNIX = "http+unix"
_LONGEST_SOCKET = 107  # bytes of sun_path without its end (unix(7))


class NoProbeError(ValueError):
    """`text` is no probe at all; `key` is where it stands."""

    def __init__(self, text: str, why: str = f"is none of {FORMS}", key: str = "ready") -> None:
        super().__init__(f'{key} = "{text}" {why}')
        self.text = text
        self.why = why

    @property
    def hint(self) -> str | None:
        """What to write; None if no probe is like it."""
        scheme, _, rest = self.text.partition(":")
        if scheme.lower() in {"grpc", "grpcs"}:
            # By weight: grpcio and protobuf are 22 MB, and a server that speaks gRPC has them.
            line = grpc_line(rest.strip("/"))
            return f"ci-doctor itself speaks no gRPC; with the server's grpcio: {line}"
        meant = _meant(self.text)
        return None if meant is None else f'did you mean "{meant}"?'


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
        raise NoProbeError(text)
    if not port:
        raise ValueError(f'ready = "{text}" names no port from 1 to 65535')
    return address.hostname, port


def grpc_line(address: str) -> str:
    """The `exec` probe that asks grpc.health.v1.Health, as docs/probes.md has it."""
    call = (
        f"c = grpc.insecure_channel('{address}').unary_unary('/grpc.health.v1.Health/Check'); "
        "sys.exit(list(c(b'', timeout=4)) != [8, 1] and 'not serving')"
    )
    return f'exec:python3 -c "import grpc, sys; {call}"'


# Other words for a kind of probe.
_OTHER_WORDS = {
    "cmd": "exec",
    "command": "exec",
    "shell": "exec",
    "path": "file",
    "port": "tcp",
    "regex": "log",
    "sock": "unix",
    "socket": "unix",
}
_ADDRESS = re.compile(r"(?P<host>[\w.-]*|\[[\da-fA-F:]+\]):\d+(?P<path>/\S*)?")
_PATH = re.compile(r"(?!localhost\b)[A-Za-z][\w-]*(/[\w.-]+)*(\?\S*)?")
_WORD = re.compile(r"(?P<word>[A-Za-z+]+)(\s*:\s*|\s+|(?=//))(?P<slashes>/{0,3})(?P<rest>.+)")
_PROGRAM = re.compile(r"(\./\S+|curl|wget|nc|sh|bash|python3?) .+")


def _meant(text: str) -> str | None:
    """The probe that `text` is most like, if there is one that can be made."""
    text = text.strip()
    address, word = _ADDRESS.fullmatch(text), _WORD.fullmatch(text)
    guess = ""
    if address is not None:
        scheme = "http" if address["path"] else "tcp"
        guess = f"{scheme}://{'' if address['host'] else '127.0.0.1'}{text}"
    elif _PROGRAM.fullmatch(text):
        guess = f"exec:{text}"
    elif _PATH.fullmatch(text) and text not in _WRITTEN:
        guess = f"/{text}"
    elif word is not None and not text.startswith(_HTTP_UNIX):
        typed = word["word"].lower()
        forms = (*_WRITTEN, "https")
        # The word itself may be right, and what follows it wrong.
        known = _OTHER_WORDS.get(typed) or (typed if typed in forms else nearest(typed, forms))
        if known is not None:
            slashes = "//" if known in {"http", "https"} else word["slashes"]
            guess = f"{known}:{slashes}{word['rest']}"
    try:
        parse_ready(guess, 1, directory=Path("/"))
    except ValueError:
        return None
    return guess if guess != text else None


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
_ONLY_HTTP = ("status", "body", "headers", "authorization", "method", "send")


class ReadySpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table form of `ready`: `all`, `any` or one kind of probe (docs/probes.md).

    `http` is a path or a URL, `tcp` HOST:PORT, `unix` a socket's path; `all` and `any` are further
    probes. `status`, `body` (a regex for the answer), `headers`, `authorization` (the name of an
    environment variable), `method` and `send` (a text, or a table that is sent as JSON) go with
    `http` alone. Durations are seconds or text.
    """

    http: str | None = None
    tcp: str | None = None
    unix: str | None = None
    log: str | None = None
    exec: str | list[str] | None = None
    file: str | None = None
    all: "list[str | ReadySpec] | None" = None
    any: "list[str | ReadySpec] | None" = None
    status: int | str | list[int | str] = "2xx"
    body: str | None = None
    headers: dict[str, str] = {}
    authorization: str | None = None
    method: str | None = None
    send: str | dict[str, Any] | None = None
    ready_for: str | int | float = 0
    attempt_timeout: str | int | float = "5s"


class Scheme(StrEnum):
    """The kinds of readiness probe."""

    HTTP = "http"
    TCP = "tcp"
    UNIX = "unix"
    LOG = "log"
    EXEC = "exec"
    FILE = "file"
    ALL = "all"
    ANY = "any"


_GROUPS = frozenset({Scheme.ALL, Scheme.ANY})
# Those that a text can name.
_WRITTEN = tuple(scheme for scheme in Scheme if scheme not in _GROUPS)


class ReadinessProbe(Struct, frozen=True, kw_only=True):
    """A readiness probe, understood and with every placeholder replaced.

    `host` and `port` are of HTTP and TCP, and of the first of `parts` that has them; `path` (with
    its query), `tls`, `status` ("200", "2xx"), `body`, `headers`, `authorization` (a variable's
    name, never its value), `method` and `sent` of HTTP; `socket` of UNIX, and of HTTP over one;
    `pattern` of LOG, `words` of EXEC, `file` of FILE, `parts` of ALL and ANY. The probe must hold
    for `ready_for_s` seconds; one attempt takes `attempt_s` seconds at most.
    """

    scheme: Scheme
    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False
    socket: Path | None = None
    status: tuple[str, ...] = ("2xx",)
    body: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    authorization: str | None = None
    method: str = "GET"
    sent: str | None = None
    pattern: str = ""
    words: tuple[str, ...] = ()
    file: Path | None = None
    parts: "tuple[ReadinessProbe, ...]" = ()
    ready_for_s: float = 0.0
    attempt_s: float = 5.0

    @property
    def is_network(self) -> bool:
        """Whether it connects to `host` and `port`."""
        return bool(self.host)

    @property
    def authority(self) -> str:
        """`127.0.0.1:8000`, `[::1]:8000`; `localhost` on a unix socket, which has no name."""
        return f"{written_host(self.host)}:{self.port}" if self.host else "localhost"

    def leaves(self) -> "Iterator[ReadinessProbe]":
        """The probes that it is made of; itself, if it is one."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def own(self) -> "Iterator[ReadinessProbe]":
        """Those that only the service itself may answer.

        Of `all` that is the first with an address, since others may be of what it needs. Of `any` it is each: nobody
        knows which one will answer.
        """
        if self.scheme is Scheme.ALL:
            for part in self.parts:
                found = tuple(part.own())
                if found:
                    yield from found
                    return
        elif self.scheme is Scheme.ANY:
            for part in self.parts:
                yield from part.own()
        elif self.host or self.socket:
            yield self

    def describe(self) -> str:
        """The probe in a message: `http://127.0.0.1:8000/health`, `log /regex/`, `exec ./check`."""
        match self.scheme:
            case Scheme.HTTP:
                verb = "" if self.method == "GET" else f"{self.method} "
                place = f"http{'s' if self.tls else ''}://{self.authority}"
                if self.socket is not None:
                    place = f"{_HTTP_UNIX}://{quote(str(self.socket), safe='')}"
                text = f"{verb}{place}{self.path}"
            case Scheme.TCP:
                text = f"tcp://{self.authority}"
            case Scheme.UNIX:
                text = f"unix:{self.socket}"
            case Scheme.LOG:
                text = f"log /{self.pattern}/"
            case Scheme.EXEC:
                text = f"exec {shlex.join(self.words)}"
            case Scheme.FILE:
                text = f"file {self.file}"
            case _:
                text = f"{self.scheme} of {', '.join(part.describe() for part in self.parts)}"
        return text

    def accepts(self, status: int) -> bool:
        """Whether an answer with this HTTP status is a good one."""
        text = str(status)
        return text in self.status or f"{text[0]}xx" in self.status

    def authorization_value(self, environment: Mapping[str, str]) -> str | None:
        """What to send as Authorization: never show it.

        Raises ValueError, which names the variable, if that is not set or cannot be sent.
        """
        for part in self.parts:
            part.authorization_value(environment)
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
    scheme, target = _the_one(spec)
    _refuse_keys(spec, scheme)
    if spec.authorization is not None and not _VARIABLE.fullmatch(spec.authorization):
        # The text may be the secret itself: it is not shown.
        raise ValueError(
            "ready: `authorization` takes the name of an environment variable, not the value to "
            "send"
        )
    ready_for_s = duration("ready_for", spec.ready_for)
    if scheme in _GROUPS:
        parts = tuple(_parts(scheme, target, port, directory, fill))
        return msgspec.structs.replace(_group(scheme, parts), ready_for_s=ready_for_s)
    attempt_s = duration("attempt_timeout", spec.attempt_timeout)
    if attempt_s <= 0:
        raise ValueError("ready: `attempt_timeout` leaves an attempt no time")
    sent = spec.send
    if isinstance(sent, dict):
        sent = msgspec.json.encode(sent).decode()
    method = spec.method or ("GET" if sent is None else "POST")
    if not _METHOD.fullmatch(method):
        raise ValueError(f"ready: `method` = {method!r} is no HTTP method, such as POST")
    return msgspec.structs.replace(
        _aim(scheme, target, port, directory, fill),
        status=statuses(spec.status),
        body=None if spec.body is None else regex("body", fill(spec.body)),
        headers=headers(spec.headers, fill),
        authorization=spec.authorization,
        method=method.upper(),
        sent=None if sent is None else fill(sent),
        ready_for_s=ready_for_s,
        attempt_s=attempt_s,
    )


def _parts(
    scheme: Scheme, given: list[Any], port: int, directory: Path, fill: Callable[[str], str]
) -> Iterator[ReadinessProbe]:
    if not given:
        raise ValueError(f"ready: `{scheme}` is empty; it takes a list of probes")
    for each in given:
        part = parse_ready(each, port, directory=directory, fill=fill)
        if part.ready_for_s:
            raise ValueError(f"ready: `ready_for` is about the whole: write it beside `{scheme}`")
        yield part


def _group(scheme: Scheme, parts: tuple[ReadinessProbe, ...]) -> ReadinessProbe:
    # One after the other, or all at once.
    attempt_s = (sum if scheme is Scheme.ALL else max)(part.attempt_s for part in parts)
    reached = next((part for part in parts if part.is_network), parts[0])
    return ReadinessProbe(
        scheme=scheme,
        parts=parts,
        host=reached.host,
        port=reached.port,
        tls=reached.tls,
        attempt_s=attempt_s,
    )


def addresses(ready: str | ReadySpec) -> Iterator[str]:
    """The addresses of HTTP and TCP in `ready`, placeholders still in them.

    Raises ValueError as `read_ready`.
    """
    spec = read_ready(ready)
    for part in (*(spec.all or ()), *(spec.any or ())):
        yield from addresses(part)
    address = spec.tcp if spec.http is None else spec.http
    if address is not None and not address.startswith(f"{_HTTP_UNIX}:"):
        yield address


def read_ready(ready: str | ReadySpec) -> ReadySpec:
    """The table that a text stands for: `/health`, a URL, `log:…`, or an inline TOML table.

    Raises ValueError as `parse_ready`.
    """
    if isinstance(ready, ReadySpec):
        return ready
    if ready.lstrip().startswith("{"):
        return _read_table(ready.strip())
    scheme, colon, rest = ready.partition(":")
    if ready.startswith("/") or scheme in {"http", "https", _HTTP_UNIX}:
        return ReadySpec(http=ready)
    if not colon or scheme not in _WRITTEN:
        raise NoProbeError(ready)
    if scheme in {Scheme.TCP, Scheme.UNIX}:
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


def _the_one(spec: ReadySpec) -> tuple[Scheme, Any]:
    given = []
    for scheme in Scheme:
        target = getattr(spec, scheme)
        if target is not None:
            given.append((scheme, target))
    if len(given) == 1:
        return given[0]
    names = " and ".join((scheme for scheme, _ in given)) if given else "none"
    raise ValueError(
        f"ready needs exactly one of {', '.join(Scheme)}; it holds {names}. "
        "`all` and `any` take several probes"
    )


def _refuse_keys(spec: ReadySpec, scheme: Scheme) -> None:
    """Raise ValueError for keys that are about another kind of probe."""
    plain = ReadySpec()
    for key in _ONLY_HTTP:
        if scheme is not Scheme.HTTP and getattr(spec, key) != getattr(plain, key):
            raise ValueError(f"ready: `{key}` is about HTTP, and there is none with `{scheme}`")
    if scheme in _GROUPS and spec.attempt_timeout != plain.attempt_timeout:
        raise ValueError(f"ready: `attempt_timeout` is of one probe: write it inside `{scheme}`")


def _aim(
    scheme: Scheme, given: Any, port: int, directory: Path, fill: Callable[[str], str]
) -> ReadinessProbe:
    """The probe with what it is aimed at, and nothing else."""
    if scheme is Scheme.EXEC:
        return ReadinessProbe(scheme=Scheme.EXEC, words=words(given, fill))
    target = fill(given)
    if scheme is Scheme.HTTP:
        is_unix = target.startswith(f"{_HTTP_UNIX}:")
        return _http_unix(target, directory) if is_unix else _http(target, port)
    match scheme:
        case Scheme.TCP:
            return _tcp(target)
        case Scheme.UNIX:
            return ReadinessProbe(scheme=scheme, socket=_socket(target, directory))
        case Scheme.LOG:
            return ReadinessProbe(scheme=scheme, pattern=regex("log", target))
        case _:
            if not target or "\0" in target:
                raise ValueError("ready: `file` names no file")
            return ReadinessProbe(scheme=scheme, file=directory / target)


def _socket(text: str, directory: Path) -> Path:
    if not text or "\0" in text:
        raise ValueError("ready: `unix` names no socket")
    path = directory / text
    if len(str(path).encode()) > _LONGEST_SOCKET:
        raise ValueError(
            f"ready: {path} is no unix socket: its path may have {_LONGEST_SOCKET} bytes (unix(7))"
        )
    return path


def _http_unix(text: str, directory: Path) -> ReadinessProbe:
    """`http+unix://%2Frun%2Fserver.sock/health`: the path of the socket stands where a host would."""
    address = urlsplit(text)
    socket = unquote(address.netloc)
    if not socket or _UNPRINTABLE.search(text):
        why = "does not tell the socket from the path; write %2F for each / of the socket"
        raise NoProbeError(text, why)
    path = address.path or "/"
    if address.query:
        path += f"?{address.query}"
    return ReadinessProbe(scheme=Scheme.HTTP, socket=_socket(socket, directory), path=path)


def _http(text: str, port: int) -> ReadinessProbe:
    if _UNPRINTABLE.search(text):
        raise ValueError(
            f"ready = {text!r} holds a space or a control character; write %20 for a space"
        )
    if text.startswith("/"):
        return ReadinessProbe(scheme=Scheme.HTTP, host="127.0.0.1", port=port, path=text)
    address = urlsplit(text)
    if address.scheme not in {"http", "https"}:
        raise NoProbeError(text)
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
        raise NoProbeError(text)
    host, number = host_and_port(address, text, default=None)
    return ReadinessProbe(scheme=Scheme.TCP, host=host, port=number)
