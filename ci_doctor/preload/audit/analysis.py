# SPDX-License-Identifier: Apache-2.0
"""Reads source files: the threads that an entry point starts, and the imports that they race."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from ci_doctor.preload.audit.entry_points import EntryPoint
from ci_doctor.preload.audit.events import (
    ImportStatement,
    SourceSite,
    ThreadStart,
    Trace,
    after,
    compatible,
    complete_at,
    running_at,
)
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.races import RacedModule, RaceHazard, races
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.values import ClassValue, InstanceValue, Scope, Value
from ci_doctor.preload.audit.walk import Walk

# Threads that threads start, and thread starts of one entry point that are compared in pairs.
_DEEPEST = 2
_MOST_PAIRED = 40


class Rival(Struct, frozen=True, kw_only=True):
    """What else imports at the same time, and the modules that both import."""

    name: str
    raced: tuple[RacedModule, ...]


class AuditedStart(Struct, frozen=True, kw_only=True):
    """A thread start that an entry point reaches.

    `imports` are the modules that the thread imports and that were not complete before. `running`
    are modules whose import was going on.
    """

    entry: str
    start: ThreadStart
    imports: tuple[str, ...]
    running: frozenset[str]
    rivals: tuple[Rival, ...]


class _AuditedThread(Struct, frozen=True, kw_only=True):
    start: ThreadStart
    position: int
    trace: Trace
    complete: frozenset[str]


class Analysis:
    """The audit of one package; what was resolved for one entry point serves the next."""

    def __init__(self, resolver: Resolver, limits: Limits, over: Callable[[], bool]) -> None:
        self._resolver = resolver
        self._limits = limits
        self._over = over

    def entry(self, entry: EntryPoint) -> list[AuditedStart]:
        """The thread starts that `entry` reaches, in the order in which they happen."""
        starts: list[AuditedStart] = []
        self._audit(entry.label, "the main thread", self._trace_of(entry), starts, depth=0)
        return starts

    def _trace_of(self, entry: EntryPoint) -> Trace:
        main = entry.module if entry.is_main else ""
        walk = Walk(self._resolver, self._limits, self._over, main=main, trigger=entry.module)
        walk.load(entry.module, SourceSite(entry.module, "", 0))
        scope = self._resolver.module_scope(entry.module)
        if entry.attribute and scope is not None:
            self._call(walk, entry.attribute, scope)
        if entry.attribute or entry.is_main:
            walk.calls.run_callbacks()
        return walk.trace

    def _call(self, walk: Walk, attribute: str, scope: Scope) -> None:
        """Call `function`, `object.method`, or `Class.method` of a new object."""
        first, *rest = attribute.split(".")
        values = self._resolver.lookup(first, scope)
        for name in rest:
            attributes: list[Value] = []
            for value in values:
                holder = value
                if isinstance(value, ClassValue):
                    walk.calls.call(value, None, scope)
                    holder = InstanceValue(value, None, scope)
                attributes += self._resolver.attribute(holder, name)
            values = tuple(attributes)
        for value in values:
            walk.calls.call(value, None, scope)

    def _audit(
        self, entry: str, rival: str, trace: Trace, starts: list[AuditedStart], *, depth: int
    ) -> None:
        threads = list(self._threads(trace))
        for number, thread in enumerate(threads):
            others = threads[number + 1 : number + 1 + _MOST_PAIRED]
            starts.append(self._audited(entry, rival, trace, thread, others))
            if depth < _DEEPEST:
                inner = f"the thread started at {_place(thread.start)}"
                self._audit(entry, inner, thread.trace, starts, depth=depth + 1)

    def _threads(self, trace: Trace) -> Iterator[_AuditedThread]:
        for position, event in enumerate(trace.events):
            if not isinstance(event, ThreadStart):
                continue
            complete = complete_at(trace, position)
            walk = Walk(
                self._resolver,
                self._limits,
                self._over,
                loaded=complete,
                running=running_at(trace, position),
                trigger=event.trigger,
            )
            for target in event.targets:
                walk.calls.call(target, None, target.scope)
            yield _AuditedThread(
                start=event, position=position, trace=walk.trace, complete=complete
            )

    def _audited(
        self,
        entry: str,
        rival: str,
        trace: Trace,
        thread: _AuditedThread,
        others: Sequence[_AuditedThread],
    ) -> AuditedStart:
        start = thread.start
        mine = _new_imports(_imports(thread.trace), thread.complete)
        going_on = _new_imports(after(trace, thread.position, start), thread.complete)
        running = running_at(trace, thread.position)
        # The main thread goes on with what it is importing now.
        begun = [each for each in _imports(trace) if each.module in running]
        rivals = [Rival(name=rival, raced=self._races([*begun, *going_on], mine))]
        if start.is_pool:
            again = self._harmful(mine, mine, {RaceHazard.REPLACES_ITSELF})
            rivals.append(Rival(name="another thread of the pool", raced=again))
        for other in others:
            if compatible(start.arms, other.start.arms) and other.start.site != start.site:
                theirs = _new_imports(_imports(other.trace), other.complete)
                name = f"the thread started at {_place(other.start)}"
                raced = self._harmful(theirs, mine, set(RaceHazard) - {RaceHazard.SAFE})
                rivals.append(Rival(name=name, raced=raced))
        return AuditedStart(
            entry=entry,
            start=start,
            imports=tuple(dict.fromkeys(each.module for each in mine)),
            running=running,
            rivals=tuple(each for each in rivals if each.raced),
        )

    def _races(
        self, here: Sequence[ImportStatement], there: Sequence[ImportStatement]
    ) -> tuple[RacedModule, ...]:
        return races(self._resolver.library, here, there)

    def _harmful(
        self,
        here: Sequence[ImportStatement],
        there: Sequence[ImportStatement],
        wanted: set[RaceHazard],
    ) -> tuple[RacedModule, ...]:
        return tuple(each for each in self._races(here, there) if each.hazard in wanted)


def _imports(trace: Trace) -> list[ImportStatement]:
    return [event for event in trace.events if isinstance(event, ImportStatement)]


def _new_imports(
    imports: Sequence[ImportStatement], complete: frozenset[str]
) -> list[ImportStatement]:
    return [each for each in imports if each.module not in complete]


def _place(start: ThreadStart) -> str:
    return f"{start.site.module}:{start.site.line}"
