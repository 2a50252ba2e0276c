# SPDX-License-Identifier: Apache-2.0
"""Pure. What a thread does in order: imports, thread starts, and waiting for threads."""

import ast

from msgspec import Struct

from ci_doctor.preload.audit.values import FunctionValue

# The arms of conditions that an event stands in: number of the condition, and its arm.
Arms = tuple[tuple[int, int], ...]
# The condition that stands for the choice of one function among those handed to other code.
CALLBACKS = 0


class SourceSite(Struct, frozen=True):
    """A place in the source; `line` is 1-based."""

    module: str
    file: str
    line: int


class ImportStatement(Struct, frozen=True, kw_only=True):
    """An import of `module`.

    `names` are taken from it. `direct`: the statement names it, rather than a submodule of it.
    """

    module: str
    site: SourceSite
    arms: Arms
    names: tuple[str, ...] = ()
    direct: bool = True

    @property
    def is_possible(self) -> bool:
        """Whether it is reached only if somebody calls a registered function."""
        return any(condition == CALLBACKS for condition, _ in self.arms)


class ModuleLoaded(Struct, frozen=True, kw_only=True):
    """The code of `module` has run to its end."""

    module: str


class ThreadStart(Struct, frozen=True, kw_only=True):
    """A thread is started.

    `made_by` is the call that made its object, for recognising it again. `targets` are the
    functions that it may run; none if they are not known, or `is_of_library`: then it runs code of
    the standard library. `trigger` is the module whose code was being run. `is_pool`: several
    threads may run the target. `is_possible`: only if somebody calls a registered function.
    """

    site: SourceSite
    kind: str
    made_by: ast.Call | None
    targets: tuple[FunctionValue, ...]
    target_text: str
    trigger: str
    at_import: bool
    arms: Arms
    is_pool: bool = False
    is_of_library: bool = False
    is_possible: bool = False


class ThreadJoin(Struct, frozen=True, kw_only=True):
    """The thread whose object `made_by` made has ended."""

    made_by: ast.Call
    arms: Arms


Event = ImportStatement | ModuleLoaded | ThreadStart | ThreadJoin


class Trace(Struct, frozen=True, kw_only=True):
    """The events of one thread. `loaded_before`: modules complete at its beginning."""

    events: tuple[Event, ...]
    loaded_before: frozenset[str] = frozenset()


def compatible(one: Arms, other: Arms) -> bool:
    """Whether one run can have both events."""
    arms = dict(one)
    return all(arms.get(condition, arm) == arm for condition, arm in other)


def complete_at(trace: Trace, position: int) -> frozenset[str]:
    """The modules that are completely loaded before the event at `position`."""
    done = {each.module for each in trace.events[:position] if isinstance(each, ModuleLoaded)}
    return trace.loaded_before | done


def running_at(trace: Trace, position: int) -> frozenset[str]:
    """The modules whose code is running at `position`: begun and not complete."""
    begun = {each.module for each in trace.events[:position] if isinstance(each, ImportStatement)}
    return frozenset(begun) - complete_at(trace, position)


def after(trace: Trace, position: int, start: ThreadStart) -> list[ImportStatement]:
    """The imports of the trace that may overlap with the thread started at `position`."""
    left = []
    for event in trace.events[position + 1 :]:
        if isinstance(event, ThreadJoin) and _ends(event, start):
            break
        if isinstance(event, ImportStatement) and compatible(start.arms, event.arms):
            left.append(event)
    return left


def _ends(join: ThreadJoin, start: ThreadStart) -> bool:
    """Whether the thread is waited for, whenever it is started."""
    return join.made_by is start.made_by and set(join.arms) <= set(start.arms)
