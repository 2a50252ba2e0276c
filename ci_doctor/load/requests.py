# SPDX-License-Identifier: Apache-2.0
"""Reads the requests file: one JSON object a line.

`{"id": "r0", "path": "/v1/completions", "body": {...}}`
"""

import json
import re
import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import Canonical, Protocol
from ci_doctor.load.protocols import BY_NAME, COMPLETIONS, USUAL_PATHS, of_answer, of_path
from ci_doctor.load.schema import parse_json, parse_value, why_no_json
from ci_doctor.model.words import did_you_mean
from ci_doctor.system.files.access import near_path

DEFAULT_PATH = "/v1/completions"
KEYS = ("id", "path", "body", "protocol", "method")
POST = "POST"
METHODS = (POST, "GET")
_EXAMPLE = '{"id": "r0", "path": "/v1/completions", "body": {…}}'
_ONE_A_LINE = f"write one JSON object a line: {_EXAMPLE}"
# Names that files of other tools have for ours; what they have beside an id belongs into the body.
_ELSEWHERE = {
    "custom_id": "id",
    "request_id": "id",
    "url": "path",
    "endpoint": "path",
    "request": "body",
    "payload": "body",
    "json": "body",
}
_OF_BODY = {"prompt", "messages", "input", "inputs", "text", "model", "max_tokens", "temperature"}
_BEGIN = re.compile(r"\S")
_MOST_NAMES = 1000
_FILES_SHOWN = 5
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
    text = _text(path)
    requests = []
    # Not splitlines(): JSON strings may hold U+2028 and the like as they are.
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                requests.append(_parse(line, number, path))
            except ConfigError:
                # The first request tells whether the file is meant as JSON lines at all.
                if not requests:
                    _check_form(text, path)
                raise
    if not requests:
        # Of no requests all answers are equal, and that would pass.
        raise UsageError(
            f"{path}: holds no requests",
            hint="an empty requests file can prove nothing; add one object a line",
        )
    _check_unique(requests, path)
    return _selected(requests, only, path)


def require_file(path: Path, origin: str) -> None:
    """Raise UsageError if there is no such file. `origin` is the place that names it."""
    if path.exists():
        return
    hint = near_file(path) or (
        "write a file with one JSON object a line; `ci-doctor init` proposes one"
    )
    raise UsageError(f"{path}: no such file; it is named by {origin}", hint=hint)


def near_file(path: Path) -> str | None:
    """A hint for a path without a file: one of nearly its name, else the JSON lines beside it."""
    near = near_path(path)
    if near is not None:
        return near
    for directory in (path.parent, Path()):
        names = _names(directory)
        if of_lines := [str(directory / each) for each in names if each.endswith(".jsonl")]:
            return f"JSON lines are in {', '.join(of_lines[:_FILES_SHOWN])}"
    return None


def _names(directory: Path) -> list[str]:
    """The names of files in a directory, of a large one only some; none if it cannot be read."""
    try:
        entries = islice(directory.iterdir(), _MOST_NAMES)
        return sorted(each.name for each in entries if each.is_file())
    except OSError:
        return []


def _text(path: Path) -> str:
    """The text of a requests file. Raises UsageError."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        inside = [str(path / each) for each in _names(path) if each.endswith(".jsonl")]
        hint = f"name a file in it: {', '.join(inside[:_FILES_SHOWN])}" if inside else _ONE_A_LINE
        raise UsageError(f"{path}: a directory, and no file of requests", hint=hint) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path}: cannot be read: {why}", hint="name a file of JSON lines with --requests"
        ) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        hint = "save it as UTF-8"
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            hint = f"it is UTF-16: iconv -f UTF-16 -t UTF-8 {path} > {path.stem}-utf8.jsonl"
        elif content.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
            hint = "it is compressed: unpack it first"
        raise UsageError(f"{path}:{line}: no text in UTF-8", hint=hint) from error


def _check_form(text: str, path: Path) -> None:
    """Raise ConfigError if a file is JSON or YAML, but no JSON lines."""
    values = _values(text)
    first = values[0] if len(values) == 1 else None
    lists = (
        {key: each for key, each in first.items() if _is_of_objects(each)}
        if isinstance(first, dict)
        else {}
    )
    what = jq = None
    if _is_of_objects(first):
        what, jq = "a JSON array", ".[]"
    elif isinstance(first, dict) and lists and first.keys().isdisjoint({*KEYS, *_OF_BODY}):
        what, jq = (
            f"one JSON object with the array `{next(iter(lists))}`",
            f'."{next(iter(lists))}"[]',
        )
    elif values and len(values) != sum(bool(line.strip()) for line in text.split("\n")):
        what, jq = "JSON with other line ends", "."
    elif path.suffix in {".yaml", ".yml"} or text.startswith(("- ", "---")):
        what = "YAML"
    if what is not None:
        hint = (
            f"write one JSON object a line: jq -c {shlex.quote(jq)} {shlex.quote(str(path))} > {shlex.quote(path.stem)}-lines.jsonl"
            if jq
            else _ONE_A_LINE
        )
        raise ConfigError(f"{path}: {what}, and not one JSON object a line", hint=hint)


def _is_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _values(text: str) -> list[Any]:
    """The JSON values of a text, one after another; none if it is anything else."""
    decoder, values, at = json.JSONDecoder(), [], 0
    try:
        while (begin := _BEGIN.search(text, at)) is not None:
            value, at = decoder.raw_decode(text, begin.start())
            values.append(value)
    except (ValueError, RecursionError):
        return []
    return values


def _parse(line: str, number: int, path: Path) -> Request:
    where = f"{path}:{number}"
    value = _object(line, where)
    for key in value:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS)
            if key in _ELSEWHERE:
                hint = f"it is `{_ELSEWHERE[key]}` here: {_EXAMPLE}"
            elif key in _OF_BODY:
                hint = f"what is sent to the server stands in `body`: {_EXAMPLE}"
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
        usual += "" if usual.endswith(("?", ".")) else "."
        raise ConfigError(
            f"{where}: no protocol is known for the path `{path}`",
            hint=f'{usual} For a path of its own, name its protocol: "protocol": "chat", or "json" for any JSON',
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
        hint = _ONE_A_LINE
        if line.rstrip().endswith(","):
            hint = "write one JSON object a line, without a comma after it"
        elif line.lstrip().startswith(("#", "//")):
            hint = "JSON has no comments: remove the line"
        raise ConfigError(f"{where}: not JSON: {why_no_json(error)}", hint=hint) from error
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: not a JSON object", hint=_ONE_A_LINE)
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
