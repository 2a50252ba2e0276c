# SPDX-License-Identifier: Apache-2.0
"""Pure. A short name of a cause that stays the same across builds, hosts and versions."""

import hashlib
from collections.abc import Mapping
from typing import Final

from ci_doctor.diagnosis.lines.normal_text import normal_text

_DIGITS = 16
# Captures of which the number is the name: Xid 79 is another fault than Xid 48.
_CODES: Final = frozenset({"code", "signal", "status", "xid"})
# Captures that say of which kind a failure is. Two failures of a kind differ by their messages.
_KINDS: Final = frozenset({"code", "exception", "file", "kind", "result", "thread", "type"})


def fingerprint(rule: str, fields: Mapping[str, str], message: str, subject: str = "") -> str:
    """16 hexadecimal digits of the rule, of what it captures, and of `subject`.

    rule: its id. fields: its named groups. message: the line without prefixes; it counts if the
    groups are none, or tell only the kind of the failure. subject: what the line is about if it
    does not say so itself, as the test whose assertion it is.
    """
    parts = [rule, *(f"{name}={_value(name, fields[name])}" for name in sorted(fields))]
    if fields.keys() <= _KINDS:
        parts.append(normal_text(message))
    if subject:
        parts.append(normal_text(subject))
    digest = hashlib.sha256("\0".join(parts).encode())
    return digest.hexdigest()[:_DIGITS]


def _value(name: str, text: str) -> str:
    if name in _CODES:
        return text
    return normal_text(text)
