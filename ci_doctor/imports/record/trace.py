# SPDX-License-Identifier: Apache-2.0
"""The trace of one process, read from its text.

A trace has one record a line: a Python tuple literal in ASCII, its kind first. Pure.
"""

import ast
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.imports.record.events import (
    Ask,
    Begin,
    Deadlock,
    End,
    Escape,
    HeldImport,
    ImportEvent,
    Order,
    RecordedThread,
    Site,
    Wait,
)

__all__ = ["RecordedProcess", "RecordedThread", "Site", "read_trace"]

EVENTS: dict[str, tuple[type[ImportEvent], tuple[str, ...]]] = {
    "ask": (Ask, ("name", "how", "file", "line", "module", "names", "within")),
    "begin": (Begin, ("name", "within")),
    "end": (End, ("name", "status", "replaced")),
    "wait": (Wait, ("name", "owner", "waited_ns", "outcome")),
    "deadlock": (Deadlock, ("name", "owner", "held")),
    "held": (HeldImport, ("name", "limit_ns", "met")),
}
FIELDS = {kind: ("t", "n", "k", *fields) for kind, (_, fields) in EVENTS.items()}
OTHERS = {
    "process": ("t", "pid", "parent_pid", "facts"),
    "thread": ("t", "n", "name", "parent", "file", "line", "module"),
    "order": ("n", "seen"),
    "escape": ("t", "n", "argv", "why"),
    "armed": ("t",),
    "exit": ("t",),
}
TO_JSON = str.maketrans("()", "[]")
decode = msgspec.json.Decoder(list[object]).decode


class RecordedProcess(Struct, frozen=True, kw_only=True):
    """One process. `events` are in the order of `t`, those of a thread in the order of `k`; `orders` in the order written.

    truncated: the last line was cut off. armed: the recorder watched imports, and did not fail before it could.
    exited_ns: None where the process ended without telling (kill -9, os._exit).
    threading: `threading` was loaded before the recorder was.
    """

    pid: int
    parent_pid: int
    executable: str
    argv: tuple[str, ...]
    version: str
    forked: bool
    threading: bool
    started_ns: int
    exited_ns: int | None = None
    threads: dict[int, RecordedThread]
    events: tuple[ImportEvent, ...] = ()
    orders: tuple[Order, ...] = ()
    escapes: tuple[Escape, ...] = ()
    truncated: bool = False
    armed: bool = True


def read_trace(text: str) -> RecordedProcess | None:
    """The process that wrote `text`; None where it ended before its first line was complete.

    A last line that is cut off is dropped, and `truncated` says so. Raises InfraError for any other line that is no record.
    """
    lines = text.split("\n")
    cut_off = lines.pop() != ""
    reader = _TraceReader()
    for number, line in enumerate(lines, start=1):
        try:
            reader.read(_values(line))
        except (
            ValueError,
            SyntaxError,
            TypeError,
            LookupError,
            RecursionError,
            MemoryError,
        ) as error:
            raise _unreadable(number, line) from error
    return reader.process(truncated=cut_off)


def _unreadable(number: int, line: str) -> InfraError:
    return InfraError(
        f"line {number} of an import trace is not a record: {line[:80]!r}",
        hint="record again into an empty directory; a full disk cuts traces in the middle",
    )


def _values(line: str) -> Sequence[object]:
    """The values of one line. A line that is as good as JSON is read as JSON, which is several times faster than `ast`."""
    if not any(mark in line for mark in '\\"{'):
        pieces = line.split("'")
        pieces[::2] = _as_json(pieces[::2])
        try:
            return decode('"'.join(pieces))
        except msgspec.DecodeError:
            pass  # `ast` tells whether it is a literal at all
    values = ast.literal_eval(line)
    if not isinstance(values, tuple):
        raise TypeError(line)
    return values


def _as_json(outside: list[str]) -> Iterator[str]:
    """The pieces of a tuple literal that lie outside of its strings."""
    for piece in outside:
        if piece == ", ":
            yield piece
        else:
            text = piece.translate(TO_JSON).replace(",]", "]").replace("None", "null")
            yield text.replace("True", "true").replace("False", "false")


class _TraceReader:
    """What has been read so far."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.threads: dict[int, RecordedThread] = {}
        self.events: list[ImportEvent] = []
        self.orders: list[Order] = []
        self.escapes: list[Escape] = []
        self.sites: dict[tuple[object, ...], Site] = {}
        self.pending: dict[int, object] = {}  # by thread, the order that its next event has

    def read(self, values: Sequence[object]) -> None:
        """Take one record. Raises what its bad form raises."""
        kind = str(values[0])
        event = EVENTS.get(kind)
        if event is None:
            self.read_other(kind, dict(zip(OTHERS[kind], values[1:], strict=True)))
            return
        fields = dict(zip(FIELDS[kind], values[1:], strict=True))
        if kind == "ask":
            fields["site"] = self.site(fields)
        made = msgspec.convert(fields, event[0])
        self.events.append(made)
        if made.n in self.pending:
            order = {"n": made.n, "k": made.k, "seen": self.pending.pop(made.n)}
            self.orders.append(msgspec.convert(order, Order))

    def site(self, fields: dict[str, object]) -> Site:
        """The place of a record; one value for the many records of one place."""
        key = (fields["file"], fields["line"], fields["module"])
        if key not in self.sites:
            self.sites[key] = msgspec.convert(
                dict(zip(("file", "line", "module"), key, strict=True)), Site
            )
        return self.sites[key]

    def read_other(self, kind: str, fields: dict[str, object]) -> None:
        """Take a record that is no event of a thread."""
        match kind:
            case "process":
                facts = fields.pop("facts")
                self.facts |= {
                    "started_ns": fields.pop("t"),
                    **fields,
                    **msgspec.convert(facts, dict[str, object]),
                }
            case "thread":
                site = self.site(fields) if fields["file"] else None
                thread = msgspec.convert(
                    {**fields, "number": fields["n"], "started_at": site}, RecordedThread
                )
                self.threads[thread.number] = thread
            case "order":
                self.pending[msgspec.convert(fields["n"], int)] = fields["seen"]
            case "armed":
                self.facts["armed"] = True
            case "escape":
                self.escapes.append(msgspec.convert(fields, Escape))
            case _:
                self.facts["exited_ns"] = msgspec.convert(fields["t"], int)

    def process(self, *, truncated: bool) -> RecordedProcess | None:
        """All of it as one value; None where the first record is not there."""
        if "pid" not in self.facts:
            return None
        unnamed = {
            event.n: RecordedThread(number=event.n, name=f"thread {event.n}")
            for event in self.events
        }
        return msgspec.structs.replace(
            msgspec.convert({"armed": False, **self.facts, "threads": {}}, RecordedProcess),
            threads=unnamed | self.threads,
            events=tuple(sorted(self.events, key=lambda event: event.t)),
            orders=tuple(self.orders),
            escapes=tuple(self.escapes),
            truncated=truncated,
        )
