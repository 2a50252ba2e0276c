# SPDX-License-Identifier: Apache-2.0
"""Builds the text of a trace, an event at a time, as the recorder writes it."""

from ci_doctor.imports.hazards import find_hazards
from ci_doctor.imports.trace import RecordedProcess, read_trace
from ci_doctor.model.facts.import_race import Hazard

MS = 1_000_000
STATUSES = ("failed", "missing", "found")


class Trace:
    """A process whose events are one millisecond apart."""

    def __init__(self, pid: int = 100, started_ns: int = 1000 * MS) -> None:
        self.now = started_ns
        self.counts: dict[int, int] = {}
        facts = {
            "executable": "/py",
            "argv": ("py", "app.py"),
            "version": "3.11.7",
            "forked": False,
            "threading": True,
        }
        self.lines = [repr(("process", self.now, pid, 1, facts))]
        self.loading: dict[int, list[str]] = {}
        self.thread(0, "MainThread", None)

    def thread(
        self, n: int, name: str, parent: int | None, file: str = "", line: int = 0, module: str = ""
    ) -> None:
        """A thread; it is ordered after what its parent has done so far."""
        self.lines.append(repr(("thread", self.now, n, name, parent, file, line, module)))
        if parent is not None:
            self.after(n, parent)

    def background(self, module: str = "__main__") -> None:
        """A thread that the first one starts in app.py."""
        self.thread(1, "Thread-1", 0, "app.py", 5, module)

    def after(self, n: int, other: int) -> None:
        """All that `other` has done so far comes before what `n` does next."""
        self.lines.append(repr(("order", n, {other: self.counts.get(other, 0)})))

    def event(self, kind: str, n: int, *values: object) -> None:
        """The next event of a thread."""
        self.now += MS
        self.counts[n] = self.counts.get(n, 0) + 1
        self.lines.append(repr((kind, self.now, n, self.counts[n], *values)))

    def within(self, n: int) -> str | None:
        """What the thread loads now."""
        loading = self.loading.get(n)
        return loading[-1] if loading else None

    def ask(
        self,
        n: int,
        name: str,
        *names: str,
        how: str = "statement",
        line: int = 0,
        file: str | None = None,
    ) -> None:
        """A thread asks for a module, in the module that it loads."""
        within = self.within(n)
        where = file or (f"{within}.py" if within else "app.py")
        self.event("ask", n, name, how, where, line or 10 + n, within or "__main__", names, within)

    def begin(self, n: int, name: str) -> None:
        """It goes to load it."""
        self.event("begin", n, name, self.within(n))
        self.loading.setdefault(n, []).append(name)

    def end(self, n: int, status: str = "loaded", *, replaced: bool = False) -> None:
        """The innermost load of the thread ends."""
        self.event("end", n, self.loading[n].pop(), status, replaced)

    def load(
        self, n: int, name: str, *names: str, replaced: bool = False, status: str = "loaded"
    ) -> None:
        """It asks for a module, and loads it, which asks for nothing."""
        self.ask(n, name, *names)
        self.begin(n, name)
        self.end(n, status, replaced=replaced)

    def text(self, *, exited: bool = True) -> str:
        """All of it."""
        lines = [*self.lines, repr(("exit", self.now + MS))] if exited else self.lines
        return "\n".join(lines) + "\n"

    def process(self) -> RecordedProcess:
        """As it is read."""
        process = read_trace(self.text())
        assert process is not None
        return process


def played(text: str) -> Trace:
    """A trace by its events: `thread; 1 load lazy replaced; 0 after 1; 0 ask lazy Thing`."""
    trace = Trace()
    for step in text.split("; "):
        match step.split():
            case [n, "load" | "end" as event, *words]:
                status = next((each for each in words if each in STATUSES), "loaded")
                name = words[:1] if event == "load" else []
                getattr(trace, event)(int(n), *name, status=status, replaced="replaced" in words)
            case [n, "ask", name, *names]:
                trace.ask(int(n), name, *names)
            case [n, "import_module", name]:
                trace.ask(int(n), name, how="importlib")
            case [n, "begin" | "after" as event, word]:
                getattr(trace, event)(int(n), word if event == "begin" else int(word))
            case [n, "ended"]:
                trace.lines.append(repr(("ended", trace.now, int(n))))
            case [n, "reload", name]:
                trace.event("reload", int(n), name, "app.py", 30, "__main__")
            case words:
                trace.background(*words[1:])
    return trace


def only_hazard(trace: Trace) -> Hazard:
    """The one hazard that is found in it."""
    hazards = find_hazards(trace.process()).hazards
    assert len(hazards) == 1, hazards
    return hazards[0]


def cycle(foreground: str, *, gate: bool = False) -> Trace:
    """A thread imports a, which imports b, which imports a; then the main one `foreground`."""
    loads = "1 ask a; 1 begin a; 1 ask b; 1 begin b; 1 ask a; 1 end; 1 end"
    if gate:
        loads = f"1 ask gate; 1 begin gate; {loads}; 1 end"
    return played(f"thread; {loads}; 0 ask {foreground}")
