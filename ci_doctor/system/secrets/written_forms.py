# SPDX-License-Identifier: Apache-2.0
"""Pure. The ways in which a secret's value may be written in a text."""

import base64
import re
import shlex
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import msgspec

from ci_doctor.system.secrets.spans import PLACEHOLDER

SHORTEST_BYTES = 6  # the agent's own limit
_SHORTEST_LINE = 16  # of a key in several lines; shorter lines ("-----") are in many texts
_SHORTEST_BASE64 = 8
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_SHELL_SPECIAL = re.compile(r"([^\w@%+=:,./-])")
# Values of settings whose name only resembles a secret's. To hide them everywhere would make a
# report unreadable.
COMMON = frozenset(
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
        "missing",
        "nothing",
        "optional",
        "python",
        "required",
        "system",
        "unknown",
        "unlimited",
        PLACEHOLDER,
        "redacted",
        "redacted]",
        "[redacted",
    }
)


def written_forms(value: str) -> Iterator[bytes]:
    """The ways in which `value` may stand in a text, each of at least six bytes.

    As it is; URL-encoded; escaped for JSON, Python and shells; base64 at any offset; and each
    long line of it. A short or common value has none.
    """
    value = value.strip()
    if len(to_bytes(value)) < SHORTEST_BYTES or value.lower() in COMMON:
        return
    distinct = dict.fromkeys((*_texts(value), *_base64_forms(value)))
    for form in distinct:
        if len(form) >= SHORTEST_BYTES:
            yield form


def to_bytes(text: str) -> bytes:
    """UTF-8; lone surrogates pass, since a variable's bytes need not be UTF-8 (PEP 383)."""
    return text.encode("utf-8", "surrogatepass")


def _texts(value: str) -> Iterator[bytes]:
    raw = to_bytes(value)
    yield raw
    for line in value.splitlines():
        if len(line.strip()) >= _SHORTEST_LINE:
            yield to_bytes(line.strip())
    yield to_bytes(value.replace("\n", "\r\n"))
    yield quote(raw, safe="").encode()
    yield quote(raw).encode()
    yield quote_plus(raw).encode()
    yield to_bytes(repr(value)[1:-1])
    # Three ways to quote for a shell: shlex's, a closed and reopened quote, backslashes.
    if "'" in value:
        yield to_bytes(shlex.quote(value)[1:-1])
    yield to_bytes(value.replace("'", "'\\''"))
    yield to_bytes(_SHELL_SPECIAL.sub(r"\\\1", value))
    yield msgspec.json.encode(raw.decode(errors="replace"))[1:-1]
    if not value.isascii():
        import json

        yield ascii(value)[1:-1].encode()
        yield json.dumps(value)[1:-1].encode()


def _base64_forms(value: str) -> Iterator[bytes]:
    raw = to_bytes(value)
    for offset in range(3):
        core = _base64_core(raw, offset)
        if len(core) >= _SHORTEST_BASE64:
            yield core
            yield core.translate(_URL_SAFE)


def _base64_core(raw: bytes, offset: int) -> bytes:
    """The characters of base64 that `raw` alone decides, if it begins at byte `offset` of three.

    Those at either end also hold bits of the neighbours, as of `user:` before a password.
    """
    first = -(-offset * 4 // 3)
    last = (offset + len(raw)) * 8 // 6
    return base64.b64encode(bytes(offset) + raw)[first:last]
