# SPDX-License-Identifier: Apache-2.0
"""The traces of recorded processes: their records, and how they are read from files. Reads files."""

import ast
import signal as signals
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError
from ci_doctor.model.facts.import_race import Escape, Site

How = Literal["statement", "importlib"]
LoadStatus = Literal["loaded", "failed", "missing", "found"]
WaitOutcome = Literal["same", "replaced", "removed"]


class ImportEvent(Struct, frozen=True, kw_only=True):
    """Event `k` of thread `n`, at `t` nanoseconds."""

    t: int
    n: int
    k: int


class Ask(ImportEvent, frozen=True, kw_only=True):
    """The thread requests module `name` at `site`.

    how: "statement" if CPython's C code hands the module out, "importlib" if the Python half of the
    import system does. names: the from-list. within: the innermost module that the thread then is
    loading. The recorder writes one record per (n, within, name, how): later requests of the
    same kind are not recorded.
    """

    name: str
    how: How
    site: Site
    names: tuple[str, ...] = ()
    within: str | None = None


class Begin(ImportEvent, frozen=True, kw_only=True):
    """`name` is not loaded yet: the thread starts to load it, or to wait for another that does."""

    name: str
    within: str | None = None


class End(ImportEvent, frozen=True, kw_only=True):
    """The end of the thread's `Begin` of `name`.

    status: "loaded" (this thread executed the module), "failed" (its code raised), "missing" (no
    such module), "found" (another thread had loaded it). replaced: at the end `sys.modules` held
    another object than the one that the import system had created.
    """

    name: str
    status: LoadStatus
    replaced: bool


class Wait(ImportEvent, frozen=True, kw_only=True):
    """The thread waited `waited_ns` for `name`, which thread `owner` was loading; it ended at `t`.

    outcome: the thread received the object in `sys.modules` ("same"), the discarded object
    ("replaced"), or a module whose import has failed ("removed").
    """

    name: str
    owner: int | None
    waited_ns: int
    outcome: WaitOutcome


class Deadlock(ImportEvent, frozen=True, kw_only=True):
    """CPython let the thread continue without the lock of `name`, to avoid a deadlock.

    Thread `owner` held that lock; this thread held the locks of the modules `held`. raised: the
    import ended with importlib's `_DeadlockError`; otherwise the thread received the module as it
    was.
    """

    name: str
    owner: int | None
    held: tuple[str, ...]
    raised: bool = False


class Missing(ImportEvent, frozen=True, kw_only=True):
    """The thread read `attribute` of module `name`, which had no such name yet.

    The thread had been handed the incomplete module, or one that is no longer in `sys.modules`.
    `*` stands for the names of a `from m import *`.
    """

    name: str
    attribute: str
    site: Site


class Reload(ImportEvent, frozen=True, kw_only=True):
    """The thread begins to execute the loaded module `name` again, by `importlib.reload`."""

    name: str
    site: Site


class HeldImport(ImportEvent, frozen=True, kw_only=True):
    """The recorder delayed the thread at module `name` by at most `limit_ns`.

    met: another thread arrived during the delay.
    """

    name: str
    limit_ns: int
    met: bool


class Order(Struct, frozen=True, kw_only=True):
    """The vector clock of thread `n` from its event `k` on, until its next `Order`.

    The first `clock[m]` events of each other thread `m` came before.
    """

    n: int
    k: int
    clock: dict[int, int]


class RecordedThread(Struct, frozen=True, kw_only=True):
    """One thread, by its number; thread `parent` started it at `started_at`.

    Both are None for the first thread, and if they are not known. ended_ns: None for a thread whose
    end is not known.
    """

    number: int
    name: str
    parent: int | None = None
    started_at: Site | None = None
    started_ns: int = 0
    ended_ns: int | None = None


class RecordedProcess(Struct, frozen=True, kw_only=True):
    """One process. `events` are in the order of `t`, those of one thread in the order of `k`.

    orders: in the order in which they were written. threading: `threading` was loaded before the
    recorder. absent: by module, the names that it never had, even once it was complete. unjudged:
    what the recorder cannot follow in this process, such as greenlets. loaders: the module of the loader,
    by module, where it is none of importlib's for files. truncated: the last line was
    cut off. armed: the recorder watched imports; False if it
    failed before it could. exited_ns: None if the process ended without notice (kill -9, os._exit).
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
    absent: frozenset[tuple[str, str]] = frozenset()
    unjudged: tuple[str, ...] = ()
    loaders: dict[str, str] = {}
    truncated: bool = False
    armed: bool = True

    def count_loaded(self, name: str | None = None) -> int:
        """How many modules its threads executed to the end, or how often they executed `name`."""
        ends = [each for each in self.events if isinstance(each, End) and each.status == "loaded"]
        return sum(name in {None, each.name} for each in ends)


class RecordedRun(Struct, frozen=True, kw_only=True):
    """A run that has ended, and its recorded Python processes in the order of their starts.

    exit_code: None if a signal ended the command. signal: the name of that signal. Both are None if
    the status is not known. unreadable: the name of each trace that cannot be read, and the reason.
    outlived: names of processes that outlived the command and were stopped. timed_out: the time
    limit ended the command. received: the signal to ci-doctor itself that ended the command.
    """

    processes: tuple[RecordedProcess, ...]
    exit_code: int | None
    signal: str | None
    duration_s: float
    unreadable: tuple[str, ...] = ()
    outlived: tuple[str, ...] = ()
    timed_out: bool = False
    received: signals.Signals | None = None

    @property
    def command_failed(self) -> bool:
        """Whether the command failed by itself; one that the time limit ended did not."""
        return not self.timed_out and self.exit_code != 0

    def describe_end(self) -> str:
        """How the command ended, for a person: `exit code 1`, `SIGSEGV`."""
        if self.signal is not None:
            return self.signal
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        return "an unknown status"


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
    "thread": ("started_ns", "n", "name", "parent", "file", "line", "module"),
    "ended": ("t", "n"),
    "order": ("n", "clock"),
    "escape": ("t", "n", "argv", "why"),
    "absent": ("name", "attribute"),
    "unjudged": ("why",),
    "loader": ("name", "module"),
    "armed": ("t",),
    "exit": ("t",),
}
# What the recorder writes outside of strings, and the same in JSON.
_JSON: Final = (
    ("(", "["),
    (",)", "]"),
    (")", "]"),
    ("None", "null"),
    ("True", "true"),
    ("False", "false"),
)
_decode = msgspec.json.Decoder(decodable(list[object])).decode
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
            raise InfraError(
                f"line {number} of an import trace is not a record: {line[:80]!r}",
                hint="record again into an empty directory; a full disk cuts traces in the middle",
            ) from error
    return reader.process(truncated=cut_off)


def _values(line: str) -> Sequence[object]:
    """The values of one line.

    Most lines differ from JSON only outside of their strings. Those are read as JSON, several times
    faster than by `ast`.
    """
    # A backslash or a double quote has another meaning in JSON; a dict may have keys of numbers.
    if not any(mark in line for mark in '\\"{'):
        # Every second piece is the inside of a string, which must stay as it is.
        pieces = line.split("'")
        for index in range(0, len(pieces), 2):
            for python, json in _JSON:
                pieces[index] = pieces[index].replace(python, json)
        try:
            return _decode('"'.join(pieces))
        except msgspec.DecodeError:
            pass  # `ast` decides whether it is a literal at all
    values = ast.literal_eval(line)
    if not isinstance(values, tuple):
        raise TypeError(line)
    return values


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
        if kind not in _EVENTS:
            self.read_other(kind, dict(zip(_OTHERS[kind], values[1:], strict=True)))
            return
        event_type, names = _EVENTS[kind]
        fields = dict(zip(names, values[1:], strict=True))
        if "file" in fields:
            fields["site"] = self.site(fields)
        event = msgspec.convert(fields, decodable(event_type))
        self.events.append(event)
        # The vector clock was written just before it.
        if event.n in self.pending:
            order = {"n": event.n, "k": event.k, "clock": self.pending.pop(event.n)}
            self.orders.append(msgspec.convert(order, decodable(Order)))

    def site(self, fields: dict[str, object]) -> Site:
        """The place of a record; one value for the many records of one place."""
        file, line, module = fields["file"], fields["line"], fields["module"]
        if (file, line, module) not in self.sites:
            place = {"file": file, "line": line, "module": module}
            self.sites[file, line, module] = msgspec.convert(place, decodable(Site))
        return self.sites[file, line, module]

    def read_other(self, kind: str, fields: dict[str, object]) -> None:  # noqa: C901 - a case a record
        """Take a record that is not an event of a thread."""
        match kind:
            case "process":
                self.facts["started_ns"] = fields.pop("t")
                self.facts |= msgspec.convert(fields.pop("facts"), decodable(dict[str, object]))
                self.facts |= fields
            case "thread":
                if fields["file"]:
                    fields["started_at"] = self.site(fields)
                thread = msgspec.convert(
                    {"number": fields["n"], **fields}, decodable(RecordedThread)
                )
                self.threads[thread.number] = thread
            case "ended":
                number = msgspec.convert(fields["n"], decodable(int))
                ended_ns = msgspec.convert(fields["t"], decodable(int))
                thread = self.threads[number]
                self.threads[number] = msgspec.structs.replace(thread, ended_ns=ended_ns)
            case "order":
                self.pending[msgspec.convert(fields["n"], decodable(int))] = fields["clock"]
            case "escape":
                self.escapes.append(msgspec.convert(fields, decodable(Escape)))
            case "absent":
                self.absent.add((str(fields["name"]), str(fields["attribute"])))
            case "unjudged":
                self.unjudged.append(str(fields["why"]))
            case "loader":
                self.loaders[str(fields["name"])] = str(fields["module"])
            case "armed":
                self.facts["armed"] = True
            case _:
                self.facts["exited_ns"] = msgspec.convert(fields["t"], decodable(int))

    def process(self, *, truncated: bool) -> RecordedProcess | None:
        """All records as one value; None if the first record is missing."""
        if "pid" not in self.facts:
            return None
        threads = {
            n: RecordedThread(number=n, name=f"thread {n}")
            for n in dict.fromkeys(event.n for event in self.events)
        }
        return msgspec.structs.replace(
            msgspec.convert(self.facts, decodable(RecordedProcess)),
            threads=threads | self.threads,
            events=tuple(sorted(self.events, key=lambda event: event.t)),
            orders=tuple(self.orders),
            escapes=tuple(self.escapes),
            absent=frozenset(self.absent),
            unjudged=tuple(self.unjudged),
            loaders=self.loaders,
            truncated=truncated,
        )


def read_traces(directory: Path) -> tuple[tuple[RecordedProcess, ...], tuple[str, ...]]:
    """The processes that wrote traces into `directory`, and why other traces cannot be read.

    The processes are in the order of their starts. A process that ended before its first line was
    complete had not imported anything yet, and is in neither.
    """
    processes = []
    unreadable = []
    for path in sorted(directory.glob("*.trace")):
        try:
            process = read_trace(path.read_text(encoding="ascii", errors="replace"))
        except (InfraError, OSError) as error:
            unreadable.append(f"{path.name}: {error}")
            continue
        if process is not None:
            processes.append(process)
    # The names of the files begin with pids, which say nothing about the order of starts.
    processes.sort(key=lambda process: process.started_ns)
    return tuple(processes), tuple(unreadable)
