# SPDX-License-Identifier: Apache-2.0
"""Imports by thread in the Trace Event Format of Perfetto and chrome://tracing. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ci_doctor.imports.record.events import Ask, Begin, Deadlock, End, ImportEvent, Wait
from ci_doctor.imports.record.recorded import RecordedProcess, RecordedThread

Entry = dict[str, object]
TOOL = "ci-doctor"  # by which `check_timeline` recognises a file of ours
# Viewers show the name of a process in one line.
_ARGV_SHOWN = 200


def chrome_trace(processes: Iterable[RecordedProcess]) -> dict[str, object]:
    """The JSON object of all `processes`; times are microseconds since the first of them started.

    An import is a complete event of category "import". A wait is one of category "wait" and names
    the thread that it waited for. A deadlock that CPython avoided is an instant. What has no end
    ends with the process, and has `unfinished`.
    """
    in_order = list(processes)
    # Viewers show microseconds as floats: times since the boot would lose their digits.
    origin = min((process.started_ns for process in in_order), default=0)
    entries: list[Entry] = []
    for process in in_order:
        entries += _ProcessTimeline(process, origin).entries()
    return {
        "traceEvents": entries,
        "displayTimeUnit": "ms",
        "otherData": {"version": "1", "clock": "monotonic", "origin_ns": origin, "tool": TOOL},
    }


class _Span(NamedTuple):
    """One entry of a thread's row, and when it begins and ends."""

    began_ns: int
    ended_ns: int
    entry: Entry


class _ProcessTimeline:
    """The entries of one process."""

    def __init__(self, process: RecordedProcess, origin: int) -> None:
        self.process = process
        self.origin = origin
        # A process that was killed has no `exited_ns`: its newest event is the last thing known.
        last = max((event.t for event in process.events), default=process.started_ns)
        self.end = max(last, process.exited_ns or 0)

    def entries(self) -> Iterator[Entry]:
        """All entries of the process, metadata first."""
        yield self._process_name()
        for thread in self.process.threads.values():
            yield from self._names(thread)
        by_thread: dict[int, list[ImportEvent]] = defaultdict(list)
        for event in self.process.events:
            by_thread[event.n].append(event)
        for events in by_thread.values():
            events.sort(key=lambda event: event.k)
            yield from self._spans(events)

    def _process_name(self) -> Entry:
        # A program that embeds Python has no argv.
        command = " ".join(self.process.argv) or self.process.executable
        name = f"{command[:_ARGV_SHOWN]} (pid {self.process.pid})"
        return self._metadata("process_name", 0, "name", name)

    def _names(self, thread: RecordedThread) -> Iterator[Entry]:
        """The name and the row of a thread."""
        name = thread.name
        site = thread.started_at
        if site is not None:
            name += f", started at {site.file}:{site.line}"
        yield self._metadata("thread_name", thread.number, "name", name)
        yield self._metadata("thread_sort_index", thread.number, "sort_index", thread.number)

    def _spans(self, events: list[ImportEvent]) -> list[Entry]:
        """The imports, waits and instants of one thread, in the order in which they begin."""
        spans = [self._import(*parts) for parts in _imports(events)]
        for event in events:
            if isinstance(event, Wait):
                spans.append(self._wait(event))
            elif isinstance(event, Deadlock):
                spans.append(self._deadlock(event))
        # Of two that begin together the longer one is outside: viewers need it first to nest them.
        spans.sort(key=lambda span: (span.began_ns, -span.ended_ns))
        return [span.entry for span in spans]

    def _import(self, begin: Begin, ask: Ask | None, end: End | None) -> "_Span":
        args: Entry = {"within": begin.within}
        if ask is not None:
            args["file"] = ask.site.file
            args["line"] = ask.site.line
        if end is None:
            args["unfinished"] = True
            ended_ns = self.end
        else:
            args["status"] = end.status
            args["replaced"] = end.replaced
            ended_ns = end.t
        entry = {"name": begin.name, "cat": "import", "tid": begin.n, "args": args}
        return self._complete(begin.t, ended_ns, entry)

    def _wait(self, wait: Wait) -> "_Span":
        args: Entry = {
            "outcome": wait.outcome,
            "owner": self._thread_name(wait.owner),
        }
        entry: Entry = {
            "name": f"wait for {wait.name}",
            "cat": "wait",
            "tid": wait.n,
            "args": args,
        }
        # It is recorded at its end only.
        began_ns = wait.t - wait.waited_ns
        return self._complete(began_ns, wait.t, entry)

    def _deadlock(self, deadlock: Deadlock) -> "_Span":
        """An instant ("i") across the whole process ("p")."""
        entry: Entry = {
            "name": f"deadlock avoided at {deadlock.name}",
            "cat": "deadlock",
            "ph": "i",
            "s": "p",
            "ts": self._microseconds(deadlock.t),
            "pid": self.process.pid,
            "tid": deadlock.n,
            "args": {"held": list(deadlock.held), "owner": self._thread_name(deadlock.owner)},
        }
        return _Span(deadlock.t, deadlock.t, entry)

    def _complete(self, began_ns: int, ended_ns: int, entry: Entry) -> "_Span":
        """A complete event ("X") with the fields of `entry`."""
        ts = self._microseconds(began_ns)
        entry["ph"] = "X"
        entry["ts"] = ts
        entry["dur"] = round(self._microseconds(ended_ns) - ts, 3)
        entry["pid"] = self.process.pid
        return _Span(began_ns, ended_ns, entry)

    def _metadata(self, kind: str, tid: int, key: str, value: object) -> Entry:
        """A metadata event ("M")."""
        return {"name": kind, "ph": "M", "pid": self.process.pid, "tid": tid, "args": {key: value}}

    def _thread_name(self, n: int | None) -> str | None:
        if n is None or n not in self.process.threads:
            return None
        return self.process.threads[n].name

    def _microseconds(self, t: int) -> float:
        return round((t - self.origin) / 1000, 3)


def _imports(events: list[ImportEvent]) -> Iterator[tuple[Begin, Ask | None, End | None]]:
    """The imports of one thread: its begins, the request before each, and the end of each."""
    asks: dict[str, Ask] = {}
    unfinished: list[tuple[Begin, Ask | None]] = []
    for event in events:
        if isinstance(event, Ask):
            asks[event.name] = event
        elif isinstance(event, Begin):
            unfinished.append((event, asks.get(event.name)))
        elif isinstance(event, End):
            innermost = _take_innermost(unfinished, event.name)
            if innermost is not None:
                yield *innermost, event
    for begin, ask in unfinished:
        yield begin, ask, None


def _take_innermost(
    unfinished: list[tuple[Begin, Ask | None]], name: str
) -> tuple[Begin, Ask | None] | None:
    """Remove the newest begin of `name`, and return it; None if there is none."""
    for at in reversed(range(len(unfinished))):
        if unfinished[at][0].name == name:
            return unfinished.pop(at)
    return None
