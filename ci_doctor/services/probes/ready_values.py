# SPDX-License-Identifier: Apache-2.0
"""The single values of a `ready`; each function raises ValueError for the user. Pure."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import SplitResult

from ci_doctor.model.parse_duration import parse_duration

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


def file(text: str) -> str:
    """The path of a file."""
    if not text or "\0" in text:
        raise ValueError("ready: `file` names no file")
    return text


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


def variable(name: str | None) -> str | None:
    """The name of an environment variable."""
    if name is not None and not _VARIABLE.fullmatch(name):
        # The text may be the secret itself: it is not shown.
        raise ValueError(
            "ready: `authorization` takes the name of an environment variable, not the value to "
            "send"
        )
    return name


def duration(key: str, value: Any) -> float:
    """Seconds."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"ready: `{key}`: {error}") from error


def attempt(value: Any) -> float:
    """Seconds, more than none."""
    seconds = duration("attempt_timeout", value)
    if seconds <= 0:
        raise ValueError("ready: `attempt_timeout` leaves an attempt no time")
    return seconds
