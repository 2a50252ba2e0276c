# SPDX-License-Identifier: Apache-2.0
"""Finds Python tracebacks in the lines of a log. Pure."""

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct, field

from ci_doctor.diagnosis.exception_line import is_exception, is_pointer
from ci_doctor.diagnosis.lines.writer_prefix import Prefixed, without_prefixes

_HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):")
# Web pages and some log viewers lose the indentation. faulthandler's frames have no comma.
_FRAME = re.compile(r'(?:  |)File "(?P<file>[^"]*)", line \d+(?:,|$)')
_LINK = re.compile(
    r"The above exception was the (?P<direct>direct cause) of the following exception:"
    r"|During handling of the above exception, another exception occurred:"
)


class ChainLink(StrEnum):
    """How an exception follows an earlier one: raised from it, or while it was handled."""

    DIRECT = "direct"
    DURING = "during"


class Traceback(Struct, frozen=True, kw_only=True):
    """A complete traceback: the indices of its first line and of its exception's first line.

    With `is_pointer` the exception only points to another traceback. `has_header` is False for
    frames without the line that begins a traceback, as Python prints for a SyntaxError. follows:
    the index of the exception that this one follows by `link`, None without one. files: those of
    its frames, the innermost last.
    """

    start: int
    exception: int
    has_header: bool
    is_pointer: bool
    follows: int | None = None
    link: ChainLink | None = None
    files: tuple[str, ...] = ()


class _Begun(Struct, kw_only=True):
    """A traceback whose exception has not come yet."""

    start: int
    has_header: bool
    follows: int | None = None
    link: ChainLink | None = None
    files: list[str] = field(default_factory=list)


class _Writer(Struct, kw_only=True):
    """What one writer has printed, by the column at which the lines of a traceback begin.

    ended: the index of the last exception. linked: the same, once the words that announce the next
    traceback of the chain have come.
    """

    begun: dict[int, _Begun] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    linked: dict[int, tuple[int, ChainLink]] = field(default_factory=dict)


def tracebacks(lines: Sequence[str]) -> list[Traceback]:
    """Every complete traceback in `lines`, in order of their first lines.

    What a logger puts before each line is skipped: known prefixes are removed, a traceback begins
    at the column of its header or first frame, and all of its lines are read from that column on.
    Lines in between that belong to other writers are passed over.
    """
    reader = TracebackReader()
    for index, line in enumerate(lines):
        reader.read(index, line)
    return sorted(reader.complete, key=lambda each: each.start)


class TracebackReader:
    """Reads lines one by one; `complete` grows by each traceback whose exception has come."""

    def __init__(self) -> None:
        self.complete: list[Traceback] = []
        # Apart, because processes that log with different prefixes interleave.
        self._writers: dict[str, _Writer] = {}
        # Where the last header stands: index, writer, column.
        self._header: tuple[int, _Writer, int] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a traceback waits for its exception, or a chain for its next traceback."""
        return any(writer.begun or writer.linked for writer in self._writers.values())

    def read(self, index: int, line: str) -> None:
        """Take the next line; indices grow."""
        prefixed = without_prefixes(line)
        writer = self._writers.setdefault(_name_of(prefixed), _Writer())
        text = prefixed.message
        header = _HEADER.search(text)
        if header is not None:
            self._begin(writer, header.start(), index)
            return
        frame = _FRAME.search(text)
        if frame is not None:
            self._add_frame(writer, frame, index)
            return
        link = _LINK.search(text)
        if link is not None:
            _note_link(writer, link)
            return
        for column in _columns_ended_by(writer, text, index):
            self.complete.append(_ended(writer, column, index, text))

    def _begin(self, writer: _Writer, column: int, index: int) -> None:
        """A header cuts off what has begun at its column or before it: those lines hold it too."""
        # Of a list, since a dict must not change while it is read.
        for other in list(writer.begun):
            if other <= column:
                del writer.begun[other]
        follows, link = writer.linked.pop(column, (None, None))
        writer.begun[column] = _Begun(start=index, has_header=True, follows=follows, link=link)
        self._header = (index, writer, column)

    def _add_frame(self, writer: _Writer, frame: re.Match[str], index: int) -> None:
        column = frame.start()
        if column not in writer.begun:
            writer.begun[column] = self._begun_before(index)
        writer.begun[column].files.append(frame["file"])

    def _begun_before(self, index: int) -> _Begun:
        """The traceback of a header on the line before, at another column or of another writer.

        `[… TP0] Scheduler hit an exception: Traceback …` is one record of a logger: only its first
        line has the prefix.
        """
        if self._header is not None:
            start, writer, column = self._header
            if start == index - 1 and column in writer.begun:
                return writer.begun.pop(column)
        return _Begun(start=index, has_header=False)


def _name_of(prefixed: Prefixed) -> str:
    """Which lines belong together: those of one process, logged from one place."""
    return f"{prefixed.writer or ''} {prefixed.place or ''}"


def _note_link(writer: _Writer, words: re.Match[str]) -> None:
    """Remember that the exception that ended at the column of `words` is followed by another."""
    column = words.start()
    exception = writer.ended.get(column)
    if exception is None:
        return
    link = ChainLink.DURING
    if words["direct"] is not None:
        link = ChainLink.DIRECT
    writer.linked[column] = (exception, link)


def _columns_ended_by(writer: _Writer, text: str, index: int) -> list[int]:
    """At which columns `text` is the exception of a traceback that has begun there."""
    ended = []
    for column, begun in writer.begun.items():
        if not begun.files or index == begun.start:
            continue
        if is_exception(text, column, is_certain=begun.has_header):
            ended.append(column)
    return ended


def _ended(writer: _Writer, column: int, index: int, text: str) -> Traceback:
    begun = writer.begun.pop(column)
    writer.ended[column] = index
    return Traceback(
        start=begun.start,
        exception=index,
        has_header=begun.has_header,
        is_pointer=is_pointer(text),
        follows=begun.follows,
        link=begun.link,
        files=tuple(begun.files),
    )
