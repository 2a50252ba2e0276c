# SPDX-License-Identifier: Apache-2.0
"""Reads logs while they are written, until a signal comes, and names each fatal cause as it appears."""

import asyncio
import contextlib
import glob
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

from ahocorasick_rs import BytesAhoCorasick
from msgspec import Struct

from ci_doctor.diagnosis.conclusion import cause_of_line
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.log_rules import LogRule, Role, RuleSet
from ci_doctor.diagnosis.log_text import LONGEST_LINE_BYTES, TextLine, clean_line
from ci_doctor.diagnosis.open_log import STANDARD_INPUT, expand
from ci_doctor.diagnosis.rules import rule_of
from ci_doctor.diagnosis.scan import strongest
from ci_doctor.diagnosis.tracebacks import is_exception
from ci_doctor.errors import UsageError
from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts.diagnose import FollowFacts
from ci_doctor.model.outcome import Failure, Outcome, signal_kind
from ci_doctor.render.formatting import amount
from ci_doctor.system.files.growing import FileWatch, GrowingFile
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.private_keys import first_words

# What is read before the caller and the event loop get their turn: some milliseconds of work.
_TURN_BYTES = 1024 * 1024


class NewLines(Struct, frozen=True, kw_only=True):
    """Lines that one of the logs has got.

    log: its index in the paths that are followed. lines: whole ones, in order; their numbers and
    offsets count from the start of the file, anew if it was truncated or replaced.
    """

    log: int
    lines: tuple[TextLine, ...]


async def follow(paths: Sequence[Path]) -> AsyncGenerator[NewLines, None]:
    """New lines of the logs at `paths`: first what they hold already, then what is written.

    A file that does not exist yet is waited for. A file that replaces another (log rotation) is
    read from its start, after the rest of the old one. A truncated file is read from its start;
    this is noticed only if it is shorter than what was read before. A line without a newline is
    handed out when it is finished, or in pieces with one number once it exceeds 64 KiB.
    """
    changed = asyncio.Event()
    logs = [_GrowingLog(path) for path in paths]
    watches = [FileWatch(path, changed.set) for path in paths]
    try:
        while True:
            changed.clear()
            for index, log in enumerate(logs):
                for lines in log.new_lines():
                    yield NewLines(log=index, lines=lines)
                    await asyncio.sleep(0)
            await changed.wait()
    finally:
        for watch in watches:
            watch.close()
        for log in logs:
            log.file.close()


class _GrowingLog:
    """A file, how far it was read, and the line that is not finished yet."""

    def __init__(self, path: Path) -> None:
        self.file = GrowingFile(path)
        self._start_again()

    def _start_again(self) -> None:
        self._offset = 0
        self._number = 1
        self._unfinished = b""

    def new_lines(self) -> Iterator[tuple[TextLine, ...]]:
        """The lines since the last call, in turns."""
        while piece := self.file.read(_TURN_BYTES):
            if self.file.is_restarted:
                self.file.is_restarted = False
                self._start_again()
            lines = tuple(self._take(piece))
            if lines:
                yield lines

    def _take(self, piece: bytes) -> Iterator[TextLine]:
        """The lines that `piece` finishes."""
        whole = (self._unfinished + piece).split(b"\n")
        self._unfinished = whole.pop()
        for content in whole:
            yield from self._pieces(content)
            self._offset += 1
            self._number += 1
        while len(self._unfinished) > LONGEST_LINE_BYTES:
            content = self._unfinished[:LONGEST_LINE_BYTES]
            self._unfinished = self._unfinished[LONGEST_LINE_BYTES:]
            yield from self._pieces(content)

    def _pieces(self, content: bytes) -> Iterator[TextLine]:
        for start in range(0, max(1, len(content)), LONGEST_LINE_BYTES):
            yield TextLine(self._number, self._offset, content[start : start + LONGEST_LINE_BYTES])
            self._offset += len(content[start : start + LONGEST_LINE_BYTES])


_FATAL = frozenset({Role.CAUSE, Role.FAILURE})
# What shows that an error before it was not survived.
_ENDS = frozenset({Role.SYMPTOM, Role.END})
_READ = _FATAL | _ENDS | {Role.ERROR, Role.NOISE}
# What a program says when an exception ends it: words of vLLM and SGLang, and what
# multiprocessing and threading print above the traceback.
_ENDS_BY: Final = re.compile(
    rb"hit an exception|encountered a fatal error|failed to start|background task failed"
    rb"|WorkerProc failed|Unhandled (?:error|exception)|Uncaught exception|(?:^|\) )Process [\w.-]+:$"
)
_LINES_OF_TRACEBACK: Final = 400
_LINES_OF_END: Final = 3
# Fingerprints that are remembered; a log that runs for weeks must not fill the memory.
_REMEMBERED = 10_000


class CauseWatch:
    """Give it the new lines of logs; it gives back the causes that nobody was told of.

    A line that names a cause or a failure counts at once. A mere error counts if the next thing in
    its log is a symptom or the end of a step: servers log errors that they survive. The exception
    of a traceback counts at once if its program has just said that it ends by it, and in the end
    if nothing follows it.
    """

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._literals = list(rules.by_literal)
        self._engine = BytesAhoCorasick(self._literals)
        self._known: set[str] = set()
        self._pending: dict[str, Cause] = {}
        # By log: its last mere error, the number of its last line, and of the last one that announced an end.
        self._latest: dict[str, tuple[int, Cause]] = {}
        self._last: dict[str, int] = {}
        self._announced: dict[str, int] = {}

    def take(self, log: str, lines: Sequence[TextLine]) -> Iterator[Cause]:
        """The new causes in `lines`, which the log of this name has got."""
        announcing = [line.number for line in lines if _ENDS_BY.search(line.content)]
        for line, candidates in self._hit_lines(lines):
            while announcing and announcing[0] <= line.number:
                self._announced[log] = announcing.pop(0)
            clean = clean_line(line.content)
            # The line below a header, which may be the cause, may not be written yet.
            matches = [
                (rule, fields)
                for rule, fields in self._rules.matching(candidates, clean.texts)
                if rule.next_line is None and rule.role in _READ
            ]
            best = strongest([rule for rule, _ in matches])
            if best is None:
                continue
            rule, fields = matches[best]
            place = LogLine(file=log, line=line.number, text=clean.text, message=clean.message)
            cause = cause_of_line(rule, clean, fields, place)
            yield from self._decided(log, line.number, rule.role, cause)
        for number in announcing:
            self._announced[log] = number
        if lines:
            self._last[log] = lines[-1].number

    def rest(self) -> Iterator[Cause]:
        """The causes with which a log ends, to be called when no more lines come."""
        for log, (line, cause) in self._latest.items():
            if self._last[log] - line <= _LINES_OF_END:
                yield from self._unknown(cause)
        self._latest.clear()

    def _decided(self, log: str, line: int, role: Role, cause: Cause) -> Iterator[Cause]:
        if role is not Role.ERROR:
            pending = self._pending.pop(log, None)
            if role in _ENDS and pending is not None:
                yield from self._unknown(pending)
            if role in _FATAL:
                yield from self._unknown(cause)
            return
        # The exception of a traceback by which its program says that it ends.
        begin = self._announced.get(log, -1)
        is_announced = begin >= 0 and 0 <= line - begin <= _LINES_OF_TRACEBACK
        if is_announced and is_exception(cause.place.message, 0, is_certain=False):
            yield from self._unknown(cause)
            return
        self._latest[log] = (line, cause)
        self._pending.setdefault(log, cause)

    def _unknown(self, cause: Cause) -> Iterator[Cause]:
        if cause.fingerprint in self._known:
            return
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known.add(cause.fingerprint)
        yield cause

    def _hit_lines(self, lines: Sequence[TextLine]) -> Iterator[tuple[TextLine, list[LogRule]]]:
        """The lines that hold a literal, in order, with the rules to try on each."""
        starts = list(accumulate((len(line.content) + 1 for line in lines), initial=0))
        block = b"\n".join(line.content for line in lines)
        rules_at: dict[int, dict[str, LogRule]] = {}
        for literal, position, _ in self._engine.find_matches_as_indexes(block, overlapping=True):
            on_line = rules_at.setdefault(bisect_right(starts, position) - 1, {})
            on_line |= {rule.id: rule for rule in self._rules.by_literal[self._literals[literal]]}
        for index in sorted(rules_at):
            yield lines[index], list(rules_at[index].values())


def follow_logs(
    names: Sequence[str],
    rules: tuple[Path, ...],
    interruption: Interruption,
    on_cause: Callable[[Cause], None],
) -> Outcome:
    """Follow the logs `names` until `interruption`, and give each new cause to `on_cause`.

    A file that does not exist yet is waited for. Raises UsageError for what cannot be followed,
    ConfigError if one of the files `rules` has a mistake.
    """
    paths = _paths(names)
    watch = CauseWatch(load_rules(rules))
    causes: list[Cause] = []

    def take(named: Iterable[Cause]) -> None:
        for cause in named:
            causes.append(cause)
            on_cause(cause)

    async def follow_all() -> None:
        with interruption.watch():
            async with contextlib.aclosing(follow(paths)) as growth:
                async for news in growth:
                    take(watch.take(str(paths[news.log]), news.lines))

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(follow_all())
    take(watch.rest())
    return _outcome(paths, causes, interruption)


def _paths(names: Sequence[str]) -> list[Path]:
    if STANDARD_INPUT in names:
        raise UsageError("--follow reads files, and no stdin", hint="name the file that is written")
    paths: list[Path] = []
    for name in names:
        expanded = expand([name])
        logs = expanded.names
        # A plain name is that of a file to come.
        if not logs and not Path(name).is_dir() and not glob.has_magic(name):
            logs = (name,)
        if not logs:
            raise UsageError(f"{name}: {expanded.unreadable.get(name, 'no log')}")
        for log in map(Path, logs):
            # A new line of a pipe is gone once it is read, and a device may have no end.
            if log.exists() and not log.is_file():
                raise UsageError(
                    f"{log}: not a regular file",
                    hint="`tee FILE` writes a file beside a pipe",
                )
            paths.append(log)
    return paths


def _outcome(paths: Sequence[Path], causes: Sequence[Cause], interruption: Interruption) -> Outcome:
    received = interruption.received
    error = None
    if received is not None:
        error = Failure(message=f"ended by {received.name}", kind=signal_kind(received.name))
    findings = tuple(
        rule_of(cause.class_).finding(
            f"{cause.title}: {first_words(cause.place.message, 300)}",
            evidence=(cause.place.evidence,),
            remedy=cause.remedy or None,
        )
        for cause in causes
    )
    return Outcome(
        verdict=None,
        summary=f"{amount(len(causes), 'cause')} named in {amount(len(paths), 'log')}",
        error=error,
        findings=findings,
        facts=FollowFacts(causes=tuple(causes)),
    )
