# SPDX-License-Identifier: Apache-2.0
"""The trace of one process, read from its text. Pure.

A trace has one record a line: a Python tuple literal in ASCII, the kind of the record first.
"""

import ast
from collections.abc import Iterable, Sequence

import msgspec

from ci_doctor.errors import InfraError
from ci_doctor.imports.record.events import (
    Ask,
    Begin,
    Deadlock,
    End,
    HeldImport,
    ImportEvent,
    Missing,
    Order,
    Reload,
    Site,
    Wait,
)
from ci_doctor.imports.record.recorded import Escape, RecordedProcess, RecordedThread

_EVENTS: dict[str, tuple[type[ImportEvent], tuple[str, ...]]] = {
    "ask": (Ask, ("t", "n", "k", "name", "how", "file", "line", "module", "names", "within")),
    "begin": (Begin, ("t", "n", "k", "name", "within")),
    "end": (End, ("t", "n", "k", "name", "status", "replaced")),
    "wait": (Wait, ("t", "n", "k", "name", "owner", "waited_ns", "outcome")),
    "deadlock": (Deadlock, ("t", "n", "k", "name", "owner", "held", "raised")),
    "missing": (Missing, ("t", "n", "k", "name", "attribute", "file", "line", "module")),
    "reload": (Reload, ("t", "n", "k", "name", "file", "line", "module")),
    "held": (HeldImport, ("t", "n", "k", "name", "limit_ns", "met")),
}
_OTHERS = {
    "process": ("t", "pid", "parent_pid", "facts"),
    "thread": ("t", "n", "name", "parent", "file", "line", "module"),
    "order": ("n", "clock"),
    "escape": ("t", "n", "argv", "why"),
    "absent": ("name", "attribute"),
    "unjudged": ("why",),
    "loader": ("name", "module"),
    "armed": ("t",),
    "exit": ("t",),
}
_BRACKETS = str.maketrans("()", "[]")
_decode = msgspec.json.Decoder(list[object]).decode
# What `ast.literal_eval` and the conversion raise for a line that is not a record.
_BAD_RECORD = (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError)


def read_trace(text: str) -> RecordedProcess | None:
    """The process that wrote `text`; None if it ended before its first line was complete.

    A last line that is cut off is dropped, and `truncated` is set. Raises InfraError if any other
    line is not a record.
    """
    lines = text.split("\n")
    # Each record ends with a newline: a process that is killed may leave half a record at the end.
    cut_off = lines.pop() != ""
    reader = _TraceReader()
    for number, line in enumerate(lines, start=1):
        try:
            reader.read(_values(line))
        except _BAD_RECORD as error:
            raise _unreadable(number, line) from error
    return reader.process(truncated=cut_off)


def _unreadable(number: int, line: str) -> InfraError:
    return InfraError(
        f"line {number} of an import trace is not a record: {line[:80]!r}",
        hint="record again into an empty directory; a full disk cuts traces in the middle",
    )


def _values(line: str) -> Sequence[object]:
    """The values of one line.

    Most lines differ from JSON only outside of their strings. Those are read as JSON, several times
    faster than by `ast`.
    """
    # A backslash or a double quote has another meaning in JSON; a dict may have keys of numbers.
    if not any(mark in line for mark in '\\"{'):
        # Every second piece is the inside of a string, which must stay as it is.
        pieces = line.split("'")
        pieces[::2] = _as_json(pieces[::2])
        try:
            return _decode('"'.join(pieces))
        except msgspec.DecodeError:
            pass  # `ast` decides whether it is a literal at all
    values = ast.literal_eval(line)
    if not isinstance(values, tuple):
        raise TypeError(line)
    return values


def _as_json(outside: Iterable[str]) -> list[str]:
    """The pieces of a tuple literal outside of its strings, in JSON."""
    converted = []
    for piece in outside:
        text = piece
        if piece != ", ":  # by far the most common one
            text = text.translate(_BRACKETS).replace(",]", "]").replace("None", "null")
            text = text.replace("True", "true").replace("False", "false")
        converted.append(text)
    return converted


class _TraceReader:
    """The records read so far."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {"armed": False, "threads": {}}
        self.threads: dict[int, RecordedThread] = {}
        self.events: list[ImportEvent] = []
        self.orders: list[Order] = []
        self.escapes: list[Escape] = []
        self.absent: set[tuple[str, str]] = set()
        self.unjudged: list[str] = []
        self.loaders: dict[str, str] = {}
        self.sites: dict[tuple[object, ...], Site] = {}
        self.pending: dict[int, object] = {}  # by thread, the clock of its next event

    def read(self, values: Sequence[object]) -> None:
        """Take one record. Raises one of `_BAD_RECORD`."""
        kind = str(values[0])
        if kind in _EVENTS:
            event_type, names = _EVENTS[kind]
            self.read_event(event_type, dict(zip(names, values[1:], strict=True)))
        else:
            self.read_other(kind, dict(zip(_OTHERS[kind], values[1:], strict=True)))

    def read_event(self, event_type: type[ImportEvent], fields: dict[str, object]) -> None:
        """Take an event, and the vector clock that was written just before it."""
        if "file" in fields:
            fields["site"] = self.site(fields)
        event = msgspec.convert(fields, event_type)
        self.events.append(event)
        if event.n in self.pending:
            order = {"n": event.n, "k": event.k, "clock": self.pending.pop(event.n)}
            self.orders.append(msgspec.convert(order, Order))

    def site(self, fields: dict[str, object]) -> Site:
        """The place of a record; one value for the many records of one place."""
        file, line, module = fields["file"], fields["line"], fields["module"]
        if (file, line, module) not in self.sites:
            place = {"file": file, "line": line, "module": module}
            self.sites[file, line, module] = msgspec.convert(place, Site)
        return self.sites[file, line, module]

    def read_other(self, kind: str, fields: dict[str, object]) -> None:  # noqa: C901 - a case a record
        """Take a record that is not an event of a thread."""
        match kind:
            case "process":
                self.facts["started_ns"] = fields.pop("t")
                self.facts |= msgspec.convert(fields.pop("facts"), dict[str, object])
                self.facts |= fields
            case "thread":
                if fields["file"]:
                    fields["started_at"] = self.site(fields)
                thread = msgspec.convert({"number": fields["n"], **fields}, RecordedThread)
                self.threads[thread.number] = thread
            case "order":
                self.pending[msgspec.convert(fields["n"], int)] = fields["clock"]
            case "escape":
                self.escapes.append(msgspec.convert(fields, Escape))
            case "absent":
                self.absent.add((str(fields["name"]), str(fields["attribute"])))
            case "unjudged":
                self.unjudged.append(str(fields["why"]))
            case "loader":
                self.loaders[str(fields["name"])] = str(fields["module"])
            case _:
                self.read_moment(kind, fields["t"])

    def read_moment(self, kind: str, t: object) -> None:
        """Take `armed` or `exit`, of which only the time is recorded."""
        if kind == "armed":
            self.facts["armed"] = True
        else:
            self.facts["exited_ns"] = msgspec.convert(t, int)

    def process(self, *, truncated: bool) -> RecordedProcess | None:
        """All records as one value; None if the first record is missing."""
        if "pid" not in self.facts:
            return None
        threads: dict[int, RecordedThread] = {}
        for event in self.events:
            if event.n not in threads:
                threads[event.n] = RecordedThread(number=event.n, name=f"thread {event.n}")
        return msgspec.structs.replace(
            msgspec.convert(self.facts, RecordedProcess),
            threads=threads | self.threads,
            events=tuple(sorted(self.events, key=lambda event: event.t)),
            orders=tuple(self.orders),
            escapes=tuple(self.escapes),
            absent=frozenset(self.absent),
            unjudged=tuple(self.unjudged),
            loaders=self.loaders,
            truncated=truncated,
        )
