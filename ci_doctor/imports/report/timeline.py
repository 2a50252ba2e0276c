# SPDX-License-Identifier: Apache-2.0
"""Imports by thread in the Trace Event Format, which Perfetto and chrome://tracing open. Pure."""

from collections.abc import Iterable, Iterator

from ci_doctor.imports.record.events import Ask, Begin, Deadlock, End, ImportEvent, Wait
from ci_doctor.imports.record.trace import RecordedProcess, RecordedThread

Entry = dict[str, object]


def chrome_trace(processes: Iterable[RecordedProcess]) -> dict[str, object]:
    """The JSON object of all `processes`; times are microseconds since the first of them started.

    An import is a complete event of category "import", a wait one of category "wait" with the thread that it waited for,
    what CPython did to avoid a deadlock an instant. What has no end ends with the process, and has `unfinished`.
    """
    known = list(processes)
    origin = min((process.started_ns for process in known), default=0)
    return {
        "traceEvents": [
            entry for process in known for entry in _Drawing(process, origin).entries()
        ],
        "displayTimeUnit": "ms",
        "otherData": {"version": "1", "clock": "monotonic", "origin_ns": origin},
    }


class _Drawing:
    """One process."""

    def __init__(self, process: RecordedProcess, origin: int) -> None:
        self.process = process
        self.origin = origin
        last = max((event.t for event in process.events), default=process.started_ns)
        self.end = max(last, process.exited_ns or 0)

    def entries(self) -> Iterator[Entry]:
        """All events of the process, metadata first."""
        words = " ".join(self.process.argv) or self.process.executable
        yield self.metadata("process_name", 0, "name", f"{words[:200]} (pid {self.process.pid})")
        for thread in self.process.threads.values():
            yield from self.named(thread)
        by_thread: dict[int, list[ImportEvent]] = {}
        for event in self.process.events:
            by_thread.setdefault(event.n, []).append(event)
        for events in by_thread.values():
            yield from self.drawn(sorted(events, key=lambda event: event.k))

    def named(self, thread: RecordedThread) -> Iterator[Entry]:
        """The name and the place of a thread in the picture."""
        started = thread.started_at
        where = f", started at {started.file}:{started.line}" if started is not None else ""
        yield self.metadata("thread_name", thread.number, "name", thread.name + where)
        yield self.metadata("thread_sort_index", thread.number, "sort_index", thread.number)

    def drawn(self, events: list[ImportEvent]) -> Iterator[Entry]:
        """The imports, waits and instants of one thread, in the order in which they begin."""
        asks: dict[str, Ask] = {}
        open_at: list[tuple[Begin, Ask | None]] = []
        found: list[tuple[int, int, Entry]] = []
        for event in events:
            match event:
                case Ask():
                    asks[event.name] = event
                case Begin():
                    open_at.append((event, asks.get(event.name)))
                case End():
                    at = _index(open_at, event.name)
                    if at is not None:
                        begin, ask = open_at.pop(at)
                        found.append((begin.t, -event.t, self.imported(begin, ask, event)))
                case Wait():
                    found.append((event.t - event.waited_ns, -event.t, self.waited(event)))
                case Deadlock():
                    found.append((event.t, -event.t, self.avoided(event)))
                case _:
                    pass
        found += [(begin.t, -self.end, self.imported(begin, ask, None)) for begin, ask in open_at]
        found.sort(key=lambda entry: entry[:2])
        return (entry for _, _, entry in found)

    def imported(self, begin: Begin, ask: Ask | None, end: End | None) -> Entry:
        """One import as a complete event."""
        args: dict[str, object] = {"within": begin.within}
        if ask is not None:
            args |= {"file": ask.site.file, "line": ask.site.line}
        if end is None:
            args["unfinished"] = True
        else:
            args |= {"status": end.status, "replaced": end.replaced}
        return self.complete(
            begin, "import", begin.name, (begin.t, self.end if end is None else end.t), args
        )

    def waited(self, wait: Wait) -> Entry:
        """One wait as a complete event."""
        owner = self.process.threads.get(wait.owner) if wait.owner is not None else None
        args: dict[str, object] = {
            "outcome": wait.outcome,
            "owner": owner.name if owner is not None else None,
        }
        return self.complete(
            wait, "wait", f"wait for {wait.name}", (wait.t - wait.waited_ns, wait.t), args
        )

    def avoided(self, deadlock: Deadlock) -> Entry:
        """A deadlock that CPython avoided, as an instant that the whole process sees."""
        owner = self.process.threads.get(deadlock.owner) if deadlock.owner is not None else None
        return {
            "name": f"deadlock avoided at {deadlock.name}",
            "cat": "deadlock",
            "ph": "i",
            "s": "p",
            "ts": self.microseconds(deadlock.t),
            "pid": self.process.pid,
            "tid": deadlock.n,
            "args": {
                "held": list(deadlock.held),
                "owner": owner.name if owner is not None else None,
            },
        }

    def complete(
        self, event: ImportEvent, category: str, name: str, span: tuple[int, int], args: Entry
    ) -> Entry:
        """A complete event ("X") from `span[0]` to `span[1]`."""
        began, ended = span
        ts = self.microseconds(began)
        return {
            "name": name,
            "cat": category,
            "ph": "X",
            "ts": ts,
            "dur": round(self.microseconds(ended) - ts, 3),
            "pid": self.process.pid,
            "tid": event.n,
            "args": args,
        }

    def metadata(self, kind: str, tid: int, key: str, value: object) -> Entry:
        """A metadata event ("M")."""
        return {"name": kind, "ph": "M", "pid": self.process.pid, "tid": tid, "args": {key: value}}

    def microseconds(self, t: int) -> float:
        return round((t - self.origin) / 1000, 3)


def _index(open_at: list[tuple[Begin, Ask | None]], name: str) -> int | None:
    return next((at for at in range(len(open_at) - 1, -1, -1) if open_at[at][0].name == name), None)
