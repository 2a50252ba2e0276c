# SPDX-License-Identifier: Apache-2.0
"""Reads the end of a log, a bounded part of it, for the lines that say why its process ended."""

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from ci_doctor.diagnosis.diagnosis import Diagnosis, diagnose_logs, diagnosis_of, load_rules
from ci_doctor.diagnosis.finality import went_on
from ci_doctor.diagnosis.log_rules import RuleSet
from ci_doctor.diagnosis.log_story import LogStory, read_story
from ci_doctor.diagnosis.log_text import Excerpt, LogText, lines_around
from ci_doctor.diagnosis.rank import Candidate
from ci_doctor.diagnosis.scan import search_for
from ci_doctor.errors import ConfigError
from ci_doctor.model.cause import Cause
from ci_doctor.system.files.access import open_at_once
from ci_doctor.system.files.bounded_log import BLOCK_BYTES, is_sparse
from ci_doctor.system.secrets.private_keys import without_key_lines

# A server takes longer to start than this. A start that is quicker pays nothing.
PREPARE_AFTER_S: Final = 0.25

# Whoever needs the rules while they are being prepared waits, rather than prepare them twice.
_LOCK = threading.Lock()


def prepared_rules() -> RuleSet:
    """The rules of ci-doctor, with all that a scan makes of them; quick after the first time."""
    with _LOCK:
        rules = load_rules()
        search_for(rules)
        return rules


# A server that dies has said why in its last words; reading more would hold up its group.
_TAIL_BYTES = 1024 * 1024
_COUNTED_BYTES = 16 * 1024 * 1024
_END_BYTES = 400
_CHUNK_BYTES = 1024 * 1024


class LogEnd(Struct, frozen=True, kw_only=True):
    """The end of a log: the lines that say why it ends, and their cause if one can be named."""

    excerpt: Excerpt = Excerpt()
    cause: Cause | None = None


class _Tail(Struct, frozen=True, kw_only=True):
    """The last whole lines of a file; `lines_before` is None if nobody counted."""

    content: bytes
    lines_before: int | None


# Last words as many servers have them: the rules that are tried on these are compiled by them.
_TYPICAL = _Tail(
    content=b"""\
ERROR 11-21 09:30:12 [core.py:718] EngineCore failed to start.
Traceback (most recent call last):
  File "engine.py", line 7, in load
    import torch
ImportError: libcudart.so.12: cannot open shared object file: No such file or directory
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use
RuntimeError: Engine core initialization failed. See root cause above.
error: unrecognized arguments: --typo
fatal error: Segmentation fault (core dumped)
ValueError: failed
""",
    lines_before=0,
)


def prepare_in_background() -> None:
    """Load all that `read_log_end` needs, in a thread; returns at once.

    A death is explained without waiting for it, and the end of the process does not wait either.
    """
    threading.Thread(target=_prepare, daemon=True, name="log-rules").start()


def _prepare() -> None:
    # Whoever needs them gets the same error, and reports it.
    with suppress(ConfigError, OSError):
        _end_of(_TYPICAL, Path("typical.log"), None)


def read_log_end(path: Path, fatal: str | None = None) -> LogEnd:
    """The last 1 MiB of the log at `path`, diagnosed; `fatal` as in `lines_around`.

    Line numbers are those of the whole file. They are None beyond 16 MiB, and if the middle of the
    file was freed. A file that cannot be read has no lines.
    """
    try:
        tail = _read_tail(path)
    except OSError:
        return LogEnd()
    return _end_of(tail, path, fatal)


def _end_of(tail: _Tail, path: Path, fatal: str | None) -> LogEnd:
    text = tail.content.decode(errors="replace")
    lines = text.split("\n")
    with ExitStack() as stack:
        log = _copied(path, tail, stack)
        story = read_story(log, 0, prepared_rules())
        diagnosis = _of_the_end(story, log, lines)
    excerpt = lines_around(
        text, diagnosis.best, ends_traceback=diagnosis.ends_traceback, fatal=fatal
    )
    return LogEnd(excerpt=_numbered(excerpt, tail.lines_before), cause=diagnosis.cause)


def _of_the_end(story: LogStory, log: LogText, lines: Sequence[str]) -> Diagnosis:
    """The diagnosis of `log`; by its last words if its program went on after what ranks first."""
    first = diagnosis_of([story], [log])
    if first.cause is None:
        return first
    named = _named_by(first.cause, story.candidates)
    if named is None or not went_on(named, story.candidates, lines):
        return first
    later = tuple(each for each in story.candidates if each.line.number > named.line.number)
    last = diagnosis_of([structs.replace(story, candidates=later)], [log])
    named = None if last.cause is None else _named_by(last.cause, later)
    return first if named is None or went_on(named, later, lines) else last


def _named_by(cause: Cause, candidates: Sequence[Candidate]) -> Candidate | None:
    """The first candidate at the line of `cause`; of an inner cause, which may be none, the last above it."""
    line = cause.place.line or 0
    at = [each for each in candidates if each.line.number == line]
    above = [each for each in candidates if each.line.number < line]
    return next(iter([*at, *above[-1:]]), None)


def cause_among(paths: Sequence[Path]) -> Cause | None:
    """The cause that the ends of several logs name together; None if none does.

    Its line is counted from where the reading began. A log that cannot be read is left out.
    """
    with ExitStack() as stack:
        logs = []
        for path in paths:
            with suppress(OSError):
                logs.append(_copied(path, _read_tail(path), stack))
        return diagnose_logs(logs, prepared_rules()).cause


def _copied(path: Path, tail: _Tail, stack: ExitStack) -> LogText:
    """The end of a log as a log of its own."""
    # A log may be cut and may grow while it is read; a copy does neither. In memory, since the disk
    # may be what is full.
    copy = stack.enter_context(FileIO(os.memfd_create("log"), "r+b"))
    copy.write(tail.content)
    return LogText(str(path), copy, len(tail.content))


def _numbered(excerpt: Excerpt, lines_before: int | None) -> Excerpt:
    """`excerpt` with the line numbers of the whole file."""
    if excerpt.line is None or excerpt.end_line is None or lines_before is None:
        return structs.replace(excerpt, line=None, end_line=None)
    line, end_line = excerpt.line + lines_before, excerpt.end_line + lines_before
    return structs.replace(excerpt, line=line, end_line=end_line)


def _read_tail(path: Path) -> _Tail:
    # A FIFO cannot be read from its end: its seek raises OSError.
    with open(open_at_once(path), "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        has_freed_part = is_sparse(file.fileno())
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - _TAIL_BYTES)
        # Counting reads everything before the tail, and a freed part has lost its lines.
        before = None
        if start <= _COUNTED_BYTES and not has_freed_part:
            before = _count_lines(file, start)
        file.seek(start)
        content = file.read(_TAIL_BYTES)
    if has_freed_part:
        # What follows the last freed block.
        end = start + len(content)
        _, freed, content = content.rpartition(b"\0" * BLOCK_BYTES)
        start = end - len(content) if freed else start
    if start:
        # Without the first line, of which only the end was read: an empty one keeps the count. A
        # file of one line, such as a progress bar, keeps its very end.
        _, newline, rest = content.partition(b"\n")
        content = newline + rest if newline else content[-_END_BYTES:]
    # A freed part reads as NULs (fallocate(2)), which nobody wrote.
    content = content.replace(b"\0", b"")
    # Before anything is cut out of it: a piece of a key tells nobody any more what it is.
    return _Tail(content=without_key_lines(content), lines_before=before)


def _count_lines(file: RawIOBase, size: int) -> int:
    """How many newlines the first `size` bytes hold."""
    count = 0
    file.seek(0)
    # The log may be cut off while it is read.
    while size > 0 and (chunk := file.read(min(_CHUNK_BYTES, size))):
        count += chunk.count(b"\n")
        size -= len(chunk)
    return count
