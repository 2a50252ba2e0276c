# SPDX-License-Identifier: Apache-2.0
"""Reads the requests file: one JSON object a line.

`{"id": "r0", "path": "/v1/completions", "body": {...}}`
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.load.canonical import Canonical, Protocol, parse_value
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols import BY_NAME, COMPLETIONS, USUAL_PATHS, of_answer, of_path
from ci_doctor.load.schema import parse_json
from ci_doctor.model.words import did_you_mean

DEFAULT_PATH = "/v1/completions"
KEYS = ("id", "path", "body", "protocol", "method")
POST = "POST"
METHODS = (POST, "GET")
# What a URL's path may hold (RFC 3986); a second slash at its beginning would name another host.
# httpx takes 65,536 characters, address included.
_PATH = re.compile(r"/(?!/)[!-~]{0,60000}")


class Request(Struct, frozen=True, kw_only=True):
    """One request. `id` is the client's own and aligns the answers; `line` is that of the file.

    `protocol` names how the answer is read; None: as the path tells. A GET has an empty `body`.
    """

    id: str
    path: str
    body: dict[str, Any]
    line: int
    protocol: str | None = None
    method: str = POST

    def content(self) -> bytes:
        """The body as it is sent: ASCII, so that a lone surrogate in a prompt survives."""
        if self.method != POST:
            return b""
        return json.dumps(self.body).encode("ascii")

    def rare_parts(self) -> dict[str, str]:
        """The protocol and the method where the file names them, for what identifies a request.

        What earlier versions wrote knows neither, and stays the same.
        """
        method = None if self.method == POST else self.method
        parts = {"protocol": self.protocol, "method": method}
        return {key: value for key, value in parts.items() if value is not None}


def read_requests(path: Path, only: Sequence[str] = ()) -> tuple[Request, ...]:
    """The requests of a file, or those with the ids in `only`.

    Raises UsageError for a missing, empty or wrong file.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot be read: {error}", hint="name a JSONL file with --requests"
        ) from error
    requests = []
    # Not splitlines(): JSON strings may hold U+2028 and the like as they are.
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            requests.append(_parse(line, number, path))
    if not requests:
        # Of no requests all answers are equal, and that would pass.
        raise UsageError(
            f"{path}: holds no requests",
            hint="an empty requests file can prove nothing; add one object a line",
        )
    _check_unique(requests, path)
    return _selected(requests, only, path)


def _parse(line: str, number: int, path: Path) -> Request:
    where = f"{path}:{number}"
    value = _object(line, where)
    for key in value:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS)
            raise ConfigError(f"{where}: unknown key `{key}`", hint=hint)
    path_of_url = _url_path(value.get("path", DEFAULT_PATH), where)
    method = _method(value.get("method", POST), where)
    return Request(
        id=_identity(value.get("id"), where),
        path=path_of_url,
        body=_body(value.get("body"), where, method),
        line=number,
        protocol=_protocol(value.get("protocol"), path_of_url, where),
        method=method,
    )


def _method(value: Any, where: str) -> str:
    if value not in METHODS:
        raise ConfigError(
            f"{where}: `method` must be {' or '.join(METHODS)}", hint="leave it out for a POST"
        )
    return str(value)


def _identity(value: Any, where: str) -> str:
    # Printable: it stands in reports, in names of test cases and on the terminal.
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ConfigError(
            f"{where}: `id` must be a text of printable characters", hint='write "id": "r0"'
        )
    return value


def _url_path(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise ConfigError(
            f"{where}: `path` must be the path of a URL, from its first /",
            hint='write "path": "/v1/completions"',
        )
    return value


def _protocol(value: Any, path: str, where: str) -> str | None:
    """The protocol that a line names; None if its path tells. Raises ConfigError without either."""
    if value is None:
        if of_path(path) is not None:
            return None
        usual = did_you_mean(path, USUAL_PATHS) or f"answers are read from {', '.join(USUAL_PATHS)}"
        raise ConfigError(
            f"{where}: no protocol is known for the path `{path}`",
            hint=f'{usual}; for a path of its own, name its protocol: "protocol": "chat", or "json" for any JSON',
        )
    if not isinstance(value, str) or value not in BY_NAME:
        near = did_you_mean(str(value), tuple(BY_NAME))
        raise ConfigError(
            f"{where}: there is no protocol `{value}`",
            hint=near or f"known protocols: {', '.join(BY_NAME)}",
        )
    return value


def _body(value: Any, where: str, method: str) -> dict[str, Any]:
    if method != POST:
        if value:
            raise ConfigError(
                f"{where}: a {method} has no `body`",
                hint="put its values into the path: /items?q=a",
            )
        return {}
    if not isinstance(value, dict):
        raise ConfigError(
            f"{where}: `body` must be an object",
            hint='write "body": {"prompt": "…", "max_tokens": 16}',
        )
    return value


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except ValueError as error:
        raise ConfigError(
            f"{where}: not JSON: {error}", hint="write one JSON object a line"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(
            f"{where}: not a JSON object",
            hint='write {"id": "r0", "path": "/v1/completions", "body": {…}}',
        )
    return value


def _check_unique(requests: Sequence[Request], path: Path) -> None:
    first: dict[str, int] = {}
    for request in requests:
        line = first.setdefault(request.id, request.line)
        if line != request.line:
            raise ConfigError(
                f"{path}:{request.line}: id `{request.id}` is already used in line {line}",
                hint="answers are matched by id; give each request its own",
            )


def _selected(requests: Sequence[Request], only: Sequence[str], path: Path) -> tuple[Request, ...]:
    if not only:
        return tuple(requests)
    ids = [request.id for request in requests]
    for identity in only:
        if identity not in ids:
            # The first ids only: to compare a word with thousands would take long.
            hint = did_you_mean(identity, ids[:50])
            raise UsageError(f"{path}: no request has the id `{identity}`", hint=hint)
    # In the order of the file, which the order of `only` does not change.
    return tuple(request for request in requests if request.id in only)


def protocol_of(request: Request) -> Protocol:
    """The protocol that a request names, or that of its path.

    A path that no protocol serves is read as a completion's: `read_requests` refuses it, so only
    requests that were made by hand have one.
    """
    if request.protocol is not None:
        return BY_NAME[request.protocol]
    return of_path(request.path) or COMPLETIONS


def read_answer(request: Request, body: bytes, *, streamed: bool) -> Canonical:
    """The answer to `request`. Raises NotAnAnswerError if `body` is no whole answer."""
    protocol = protocol_of(request)
    if not streamed:
        return protocol.read(parse_value(body), request.body)
    if protocol.fold is None:
        raise NotAnAnswerError(f"a stream, and {protocol.name} answers are never streamed")
    return protocol.read(protocol.fold(body), request.body)


def read_collected(body: bytes) -> Canonical:
    """An answer whose request is not known, by its shape. Raises NotAnAnswerError."""
    value = parse_value(body)
    protocol = of_answer(value) or COMPLETIONS
    return protocol.read(value, None)
