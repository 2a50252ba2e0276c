# SPDX-License-Identifier: Apache-2.0
"""Pure. A short name of a cause that stays the same across builds, hosts and versions."""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

_DIGITS = 16
# Captures of which the number is the name: Xid 79 is another fault than Xid 48.
_CODES: Final = frozenset({"code", "signal", "status", "xid"})
# Captures that say of which kind a failure is. Two failures of a kind differ by their messages.
_KINDS: Final = frozenset({"code", "exception", "file", "kind", "result", "thread", "type"})

# In this order: a time holds digits, an address holds hexadecimal ones, a path holds versions.
_VARYING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    # The host of an address with a port, of one without a domain, and of a private one.
    (
        re.compile(
            r"(?<=://)(?:[^\s/@'\"]{1,80}@)?(?:[\w.-]+:\d+|[\w-]+|\d+(?:\.\d+){3}|\[[0-9a-fA-F:]+\](?::\d+)?"
            r"|[\w.-]+\.(?:internal|local|lan))(?=[/\s'\"<>)\],]|$)"
        ),
        "<host>",
    ),
    # `(host, 29500)`, as sockets and torch write an address.
    (re.compile(r"\('?[\w.:-]+'?, \d{2,5}\)"), "(<address>)"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\[[0-9a-fA-F:]+(?:%\w+)?\]:\d+"), "<address>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    # A path keeps its last part: checkouts and interpreters lie elsewhere on each agent.
    (re.compile(r"(?:\b[A-Za-z]:)?(?:[\w.@+~$-]*[\\/])+(?=[\w.@+~<-])"), ""),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<hash>"),
    # Names that tempfile and multiprocessing.shared_memory make up.
    (re.compile(r"\b(tmp|psm_|wnsm_|pymp-|mp-)[a-z0-9_]{6,12}\b"), r"\1<id>"),
    (
        re.compile(r"\bip-\d+-\d+-\d+-\d+[\w.-]*|\b[\w-]+(?:\.[\w-]+)*\.(?:internal|local|lan)\b"),
        "<host>",
    ),
    # `2.7.0`, `v1.2.3rc1+cu128`, `12.8`
    (
        re.compile(r"\bv?\d+(?:\.\d+)+(?:[.-]?(?:a|b|rc|dev|post|alpha|beta)\.?\d*)*(?:\+[\w.]+)?"),
        "<n>",
    ),
    # Which of several equal workers it was: `rank3`, `Worker_TP0`, `GPU 2`, pytest-xdist's `gw1`.
    (
        re.compile(
            r"(?i)(?<![a-z])(rank|worker|[tdpe]p|gpu|device|cuda|node|thread|core|process|gw|pid)"
            r"([ _:#=-]?)\d+\b"
        ),
        r"\1\2<n>",
    ),
    # `fp8` and `CS0103` are names, `10s` is a number.
    (re.compile(r"(?<![A-Za-z_\d])\d+(?:[.,]\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)


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


def normal_text(text: str) -> str:
    """`text` without times, hashes, addresses, numbers, versions and directories.

    What names things stays: words, exceptions, tests, files, modules.
    """
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text.strip()
