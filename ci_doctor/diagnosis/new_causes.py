# SPDX-License-Identifier: Apache-2.0
"""Pure. Names fatal causes in lines as they are written, each once."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.exception_line import is_exception
from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.literal_search import fast_engine
from ci_doctor.diagnosis.strongest_match import RuleMatch, strongest_match
from ci_doctor.model.fingerprint import fingerprint

_FATAL = frozenset({Role.CAUSE, Role.FAILURE})
# What shows that an error before it was not survived.
_ENDS = frozenset({Role.SYMPTOM, Role.END})
_READ = _FATAL | _ENDS | {Role.ERROR}
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


class NewCause(Struct, frozen=True, kw_only=True):
    """A cause that has appeared: its log, its line, its rule, and what the rule captures."""

    log: str
    line: int
    clean: CleanLine
    rule: LogRule
    fields: dict[str, str]
    fingerprint: str


class CauseWatch:
    """Give it the new lines of logs; it gives back the causes that nobody was told of.

    A line that names a cause or a failure counts at once. A mere error counts if the next thing in
    its log is a symptom or the end of a step: servers log errors that they survive. The exception
    of a traceback counts at once if its program has just said that it ends by it, and in the end
    if nothing follows it.
    """

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._engine = fast_engine(rules.literals)
        self._known: set[str] = set()
        self._pending: dict[str, NewCause] = {}
        # By log: its last mere error, the number of its last line, and of the last one that announced an end.
        self._latest: dict[str, NewCause] = {}
        self._last: dict[str, int] = {}
        self._announced: dict[str, int] = {}

    def take(self, log: str, lines: Sequence[TextLine]) -> Iterator[NewCause]:
        """The new causes in `lines`, which the log of this name has got."""
        announcing = [line.number for line in lines if _ENDS_BY.search(line.content)]
        for line, indices in self._hit_lines(lines):
            while announcing and announcing[0] <= line.number:
                self._announced[log] = announcing.pop(0)
            clean = clean_line(line.content)
            # The line below a header, which may be the cause, may not be written yet.
            match = strongest_match(self._rules, sorted(indices), clean.texts, _READ)
            if match is None:
                continue
            cause = self._cause(log, line, clean, match)
            yield from self._decided(cause)
        for number in announcing:
            self._announced[log] = number
        if lines:
            self._last[log] = lines[-1].number

    def rest(self) -> Iterator[NewCause]:
        """The causes with which a log ends, to be called when no more lines come."""
        for log, cause in self._latest.items():
            if self._last[log] - cause.line <= _LINES_OF_END:
                yield from self._unknown(cause)
        self._latest.clear()

    def _decided(self, cause: NewCause) -> Iterator[NewCause]:
        role = cause.rule.role
        if role is Role.ERROR and self._is_announced(cause):
            yield from self._unknown(cause)
            return
        if role is Role.ERROR:
            self._latest[cause.log] = cause
            self._pending.setdefault(cause.log, cause)
            return
        pending = self._pending.pop(cause.log, None)
        if role in _ENDS and pending is not None:
            yield from self._unknown(pending)
        if role in _FATAL:
            yield from self._unknown(cause)

    def _is_announced(self, cause: NewCause) -> bool:
        """Whether `cause` is the exception of a traceback by which its program says that it ends."""
        begin = self._announced.get(cause.log)
        if begin is None or not 0 <= cause.line - begin <= _LINES_OF_TRACEBACK:
            return False
        return is_exception(cause.clean.message, 0, is_certain=False)

    def _unknown(self, cause: NewCause) -> Iterator[NewCause]:
        if cause.fingerprint in self._known:
            return
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known.add(cause.fingerprint)
        yield cause

    def _cause(self, log: str, line: TextLine, clean: CleanLine, match: RuleMatch) -> NewCause:
        return NewCause(
            log=log,
            line=line.number,
            clean=clean,
            rule=match.rule,
            fields=match.fields,
            fingerprint=fingerprint(match.rule.id, match.fields, clean.message),
        )

    def _hit_lines(self, lines: Sequence[TextLine]) -> Iterator[tuple[TextLine, set[int]]]:
        """The lines that hold a literal, in order, with the rules to try on each."""
        starts = []
        offset = 0
        for line in lines:
            starts.append(offset)
            offset += len(line.content) + 1
        block = b"\n".join(line.content for line in lines)
        indices_of: dict[int, set[int]] = {}
        for literal, position in self._engine(block):
            index = bisect_right(starts, position) - 1
            indices_of.setdefault(index, set()).update(self._rules.rules_of[literal])
        for index in sorted(indices_of):
            yield lines[index], indices_of[index]
