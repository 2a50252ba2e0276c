# SPDX-License-Identifier: Apache-2.0
"""Recognises log lines that name a cause outside the change under test. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct


class OutsideCause(Struct, frozen=True, kw_only=True):
    """What a log claims to have ended its process.

    With `about_port`, `port` is the one that the line names, or None if it names none.
    """

    reason: str
    about_port: bool = False
    port: int | None = None


class _Pattern(Struct, frozen=True, kw_only=True):
    pattern: re.Pattern[str]
    reason: str
    about_port: bool = False


# Only what no change under test can plainly have brought about. "CUDA out of memory" is not here: a
# change that needs more memory says the same, and an outside cause is retried, which would hide it.
_OUTSIDE = (
    _Pattern(
        pattern=re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE),
        reason="the address that it wants to listen on is in use",
        about_port=True,
    ),
    _Pattern(
        pattern=re.compile(r"no space left on device|ENOSPC", re.IGNORECASE),
        reason="no space is left on a disk",
    ),
    _Pattern(
        pattern=re.compile(r"disk quota exceeded|EDQUOT", re.IGNORECASE),
        reason="a disk quota is used up",
    ),
    _Pattern(
        pattern=re.compile(r"cannot allocate memory|ENOMEM", re.IGNORECASE),
        reason="the host is out of memory",
    ),
    _Pattern(
        # vllm/v1/worker/utils.py request_memory: measured before the server has taken any memory.
        pattern=re.compile(
            r"free memory on device .{0,80} on startup is less than desired", re.IGNORECASE
        ),
        reason="another process holds the GPU's memory",
    ),
    _Pattern(
        pattern=re.compile(
            r"no CUDA GPUs are available|CUDA-capable device\(s\) is/are busy", re.IGNORECASE
        ),
        reason="no GPU is available",
    ),
)
# `port: 8000`, `127.0.0.1:8000`, `('127.0.0.1', 8000)`; not the start of a version or an address.
_PORT = re.compile(r"(?:\bport[ =:]+|[\w\])'*:]:|', )(\d{2,5})\b(?!\.\d)", re.IGNORECASE)


def outside_cause(lines: Sequence[str]) -> OutsideCause | None:
    """The cause outside the change that the last of such `lines` names; None if none names one."""
    for line in reversed(lines):
        cause = cause_in(line)
        if cause is not None:
            return cause
    return None


def cause_in(line: str) -> OutsideCause | None:
    """The cause outside the change that this one line names, if any."""
    for cause in _OUTSIDE:
        if cause.pattern.search(line) is None:
            continue
        port = None
        if cause.about_port:
            port = _port_in(line)
        return OutsideCause(reason=cause.reason, about_port=cause.about_port, port=port)
    return None


def _port_in(line: str) -> int | None:
    number = _PORT.search(line)
    if number is None:
        return None
    return int(number[1])
