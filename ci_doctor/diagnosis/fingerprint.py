# SPDX-License-Identifier: Apache-2.0
"""Pure. A short name of a cause that stays the same across builds, hosts and versions."""

import hashlib
from collections.abc import Mapping

from ci_doctor.diagnosis.lines.normal_text import normal_text

_DIGITS = 16


def fingerprint(rule: str, fields: Mapping[str, str], message: str) -> str:
    """16 hexadecimal digits of the rule and of what it captures; of `message` without captures.

    rule: its id. fields: its named groups. message: the line without prefixes.
    """
    parts = [rule]
    if fields:
        for name in sorted(fields):
            value = normal_text(fields[name])
            parts.append(f"{name}={value}")
    else:
        parts.append(normal_text(message))
    digest = hashlib.sha256("\0".join(parts).encode())
    return digest.hexdigest()[:_DIGITS]
