# SPDX-License-Identifier: Apache-2.0
"""Which lines of a log tell why its process ended, and whether the cause lies outside the change. Pure."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

_LAST_LINES = 15
_FRAME_LINES = 4  # the innermost two frames: where, and the code there
_LINES_AFTER = 3  # an exception's message may run on
_LONGEST_LINE = 500

_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|$)")
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]"
)


class Excerpt(Struct, frozen=True, kw_only=True):
    """Neighbouring lines of a text, the first of them 1-based at `line`; empty lines are left out of `lines`."""

    line: int
    end_line: int
    lines: tuple[str, ...]


class _Cause(Struct, frozen=True, kw_only=True):
    pattern: re.Pattern[str]
    reason: str
    about_port: bool = False


class OutsideCause(Struct, frozen=True, kw_only=True):
    """What a log claims to have ended its process. With `about_port`, `port` is the one it names, if it names one."""

    reason: str
    about_port: bool = False
    port: int | None = None


# Only what no change under test can plainly have brought about. "CUDA out of memory" is not here: a change that needs
# more memory says the same, and an outside cause is retried, which would hide it.
_OUTSIDE = (
    _Cause(
        pattern=re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE),
        reason="the address that it wants to listen on is in use",
        about_port=True,
    ),
    _Cause(
        pattern=re.compile(r"no space left on device|ENOSPC", re.IGNORECASE),
        reason="no space is left on a disk",
    ),
    _Cause(
        pattern=re.compile(r"disk quota exceeded|EDQUOT", re.IGNORECASE),
        reason="a disk quota is used up",
    ),
    _Cause(
        pattern=re.compile(r"cannot allocate memory|ENOMEM", re.IGNORECASE),
        reason="the host is out of memory",
    ),
    _Cause(
        # vllm/v1/worker/utils.py request_memory: measured before the server has taken any memory for itself.
        pattern=re.compile(
            r"free memory on device .{0,80} on startup is less than desired", re.IGNORECASE
        ),
        reason="another process holds the GPU's memory",
    ),
    _Cause(
        pattern=re.compile(
            r"no CUDA GPUs are available|CUDA-capable device\(s\) is/are busy", re.IGNORECASE
        ),
        reason="no GPU is available",
    ),
)
_PORT = re.compile(r"(?:\bport[ =:]+|[\w\])'*:]:|', )(\d{2,5})\b(?!\.\d)", re.IGNORECASE)

# vLLM's API server ends with such a line; the traceback that it points to stands earlier.
_POINTS_ELSEWHERE = re.compile(
    r"see (?:root cause|stack trace|the (?:logs?|error)s?) above", re.IGNORECASE
)


def root_lines(text: str) -> Excerpt:
    """The lines of `text` that say why it ends.

    The final line of the last traceback that does not merely point to another one, with the innermost frames before it
    and the rest of its message; without any traceback, the last 15 lines that are not empty. A prefix that a logger
    puts before each line is seen through. Escape sequences are removed, lines cut at 500 characters.
    """
    lines = [_printable(line) for line in text.split("\n")]
    ends = list(_traceback_ends(lines))
    chosen = next(
        (end for end in reversed(ends) if not _POINTS_ELSEWHERE.search(lines[end[1]])), None
    )
    if chosen is None and ends:
        chosen = ends[-1]
    if chosen is None:
        filled = [index for index, line in enumerate(lines) if line.strip()]
        return _excerpt(
            lines,
            filled[-_LAST_LINES] if len(filled) >= _LAST_LINES else (filled or [0])[0],
            len(lines) - 1,
        )
    start, end = chosen
    return _excerpt(lines, max(start, end - _FRAME_LINES), min(end + _LINES_AFTER, len(lines) - 1))


def outside_cause(lines: Sequence[str]) -> OutsideCause | None:
    """The cause outside the change that root lines name; None where they name none."""
    for line in reversed(lines):
        for cause in _OUTSIDE:
            if cause.pattern.search(line):
                port = _PORT.search(line) if cause.about_port else None
                return OutsideCause(
                    reason=cause.reason,
                    about_port=cause.about_port,
                    port=int(port[1]) if port else None,
                )
    return None


def _printable(line: str) -> str:
    # A progress bar overwrites its own line: what was on screen last is what counts.
    shown = line.rstrip("\r").rpartition("\r")[2]
    return _ESCAPES.sub("", shown)[:_LONGEST_LINE].rstrip()


def _traceback_ends(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(index of the traceback's first line, index of its exception's line) for each that is whole."""
    for start, line in enumerate(lines):
        prefix = line.find(_TRACEBACK)
        if prefix < 0:
            continue
        for index in range(start + 1, len(lines)):
            rest = lines[index][prefix:]
            if _TRACEBACK in rest:
                break
            if _EXCEPTION.match(rest) and index > start + 1:
                yield start, index
                break


def _excerpt(lines: Sequence[str], first: int, last: int) -> Excerpt:
    kept = [index for index in range(first, last + 1) if lines[index].strip()]
    if not kept:
        return Excerpt(line=1, end_line=1, lines=())
    return Excerpt(
        line=kept[0] + 1, end_line=kept[-1] + 1, lines=tuple(lines[index] for index in kept)
    )
