# SPDX-License-Identifier: Apache-2.0
"""What a secret looks like: the names that hold one, the forms its value is written in, the places in a text it stands in."""

import base64
import re
import shlex
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

import msgspec

PLACEHOLDER = "[redacted]"

# The agent's own list, and what it lacks:
# https://buildkite.com/docs/pipelines/configure/managing-log-output#redacted-environment-variables
_STEMS = (
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "PRIVATE_KEY",
    "SSH_KEY",
    "ACCESS_KEY",
    "SECRET_KEY",
    "API_KEY",
    "CONNECTION_STRING",
    "CREDENTIALS",
    "DSN",
)
# In every text that _STEMS or _HEADER find anything in.
_ROOTS = (
    "passw",
    "passphrase",
    "secret",
    "token",
    "key",
    "connection",
    "credentials",
    "dsn",
    "authorization",
)
SHORTEST = 6  # bytes; the agent's own limit
# Values of settings whose name only sounds like a secret; hiding them everywhere would make a report unreadable.
_COMMON = frozenset(
    {
        "absent",
        "always",
        "anonymous",
        "default",
        "disable",
        "disabled",
        "enable",
        "enabled",
        "example",
        "localhost",
    }
    | {"missing", "nothing", "optional", "python", "required", "system", "unknown", "unlimited"}
    | {PLACEHOLDER, "redacted", "redacted]", "[redacted"}
)
_ADDRESS = re.compile(r"\bhttps?://(?P<user>[^\s/'\":@]{0,256}:)?(?P<secret>[^\s/?#'\"]{1,1024})@")
_USER_AND_PASSWORD = re.compile(r"://[^\s/'\":@]{0,256}:(?P<secret>[^\s/?#'\"]{1,1024})@")
_HEADER = re.compile(
    r"(?P<head>\b(?:(?:proxy-)?authorization|(?:x-)?(?:api-key|auth-token)|private-token)['\"]?\s{0,8}[:=]\s{0,8}['\"]?"
    r"(?:(?:bearer|basic|token)\s{1,8})?+(?:token=['\"]?)?+)(?!\[redacted\])(?P<secret>[^\s'\",;]+)",
    re.IGNORECASE,
)
# One shell word on one line, or what stands up to the next space or quote.
_VALUE = r"""(?:(?:'[^'\n]{0,8192}'|"(?:[^"\\\n]|\\.){0,8192}")++|[^\s'"`]++|['"]\S*+)"""


def name_pattern(globs: tuple[str, ...] = ()) -> str:
    """A regular expression (case ignored) for the name of a variable or option that holds a secret.

    `globs` are more names as BUILDKITE_REDACTED_VARS has them; only `*` and `?` are special. `-` stands for `_` too.
    """
    names = [
        r"(?:[\w-]{0,120}[-_])?(?:" + "|".join(stem.replace("_", "[-_]") for stem in _STEMS) + ")"
    ]
    for glob in globs:
        parts = {"*": r"[\w-]{0,120}", "?": r"[\w-]", "_": "[-_]"}
        names.append("".join(parts.get(character, re.escape(character)) for character in glob))
    return f"(?:{'|'.join(names)})"


def assignment(names: str) -> re.Pattern[str]:
    """`NAME=value`, `"NAME": "value"`, `--name value`, `'--name', 'value'`, with `head` before and `value`."""
    return re.compile(
        rf"""(?<![\w-])(?P<head>
            (?:--)?{names}(?:=|['"]?\s{{0,8}}[:=]\s{{0,8}}(?=['"]))      # any value, or a quoted one after a blank or a colon
            |--{names}(?:[ ]{{1,8}}(?!--)|['"],\s{{0,8}}(?=['"](?!--)))  # the next word of a command line
        )(?P<value>(?!=){_VALUE})""",
        re.IGNORECASE | re.VERBOSE,
    )


def hide_places(text: str, assignments: re.Pattern[str], *, more_names: bool) -> str:
    """`text` without the values of secret names, the credentials of HTTP headers and those in URLs.

    `more_names`: `assignments` knows names beyond the built-in ones.
    """
    lowered = text.lower()
    if more_names or any(
        root in lowered for root in _ROOTS
    ):  # most texts have none, and this is ten times as fast
        text = assignments.sub(lambda match: match["head"] + _same_quotes(match["value"]), text)
        text = _HEADER.sub(lambda match: match["head"] + PLACEHOLDER, text)
    if "://" in text and "@" in text:
        text = _ADDRESS.sub(_hidden_address, text)
        text = _USER_AND_PASSWORD.sub(_hidden_address, text)
    return text


def _same_quotes(value: str) -> str:
    """The placeholder in the quotes of `value`. An empty value and one that only names a variable hide nothing."""
    if value in {"''", '""'} or re.fullmatch(r"\"?\$(?:\w+|\{\w+\})\"?", value):
        return value
    mark = value[0] if value[0] in "'\"" and value.endswith(value[0]) and len(value) > 1 else ""
    return f"{mark}{PLACEHOLDER}{mark}"


def _hidden_address(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    whole = match.group()
    return whole[: start - match.start()] + PLACEHOLDER + whole[end - match.start() :]


def values(environment: Mapping[str, str], names: re.Pattern[str]) -> Iterator[str]:
    """The secrets in `environment`: values of secret names, and passwords in the URLs of any."""
    for name, value in environment.items():
        if names.fullmatch(name):
            yield value
        elif "://" in value:
            yield from (match["secret"] for match in _USER_AND_PASSWORD.finditer(value))


def forms(value: str) -> Iterator[bytes]:
    """The ways in which `value` may stand in a text, each of at least six bytes.

    As it is, URL-encoded, escaped for JSON, Python and shells, in base64 at any offset; and each long line of it.
    """
    value = value.strip()
    if len(_bytes(value)) < SHORTEST or value.lower() in _COMMON:
        return
    lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= 16]
    raw = _bytes(value)
    written = [
        value,
        *lines,
        value.replace("\n", "\r\n"),
        shlex.quote(value)[1:-1] if "'" in value else value,
    ]
    written += [
        quote(raw, safe=""),
        quote(raw),
        quote_plus(raw),
        repr(value)[1:-1],
        value.replace("'", "'\\''"),
    ]
    written += [
        re.sub(r"([^\w@%+=:,./-])", r"\\\1", value),
        msgspec.json.encode(raw.decode(errors="replace")).decode()[1:-1],
    ]
    if not value.isascii():
        import json

        written += [ascii(value)[1:-1], json.dumps(value)[1:-1]]
    found = [_bytes(text) for text in written]
    found += [core for offset in range(3) for core in _base64_cores(raw, offset)]
    yield from (form for form in dict.fromkeys(found) if len(form) >= SHORTEST)


def _base64_cores(raw: bytes, offset: int) -> Iterator[bytes]:
    """The part of base64 that `raw` alone decides, where it begins `offset` bytes into a group of three."""
    first = -(-offset * 4 // 3)
    last = (offset + len(raw)) * 8 // 6
    encoded = base64.b64encode(bytes(offset) + raw)[first:last]
    if len(encoded) >= 8:
        yield encoded
        yield encoded.translate(bytes.maketrans(b"+/", b"-_"))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
