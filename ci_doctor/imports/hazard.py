# SPDX-License-Identifier: Apache-2.0
"""Pure. What a kind of import hazard is: its finder, rule, words, delays and remedy beside one another."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ci_doctor.imports.locks import ComparisonBudget, Forest, Graph, History
from ci_doctor.imports.trace import ImportEvent
from ci_doctor.model.facts.import_race import Closeness, Hazard
from ci_doctor.model.finding import Rule

# A second run is not as fast as the first one: twice the recorded gap, and a second more for a
# loaded machine.
_FACTOR = 2.0
_MARGIN_S = 1.0
_SHORTEST_S = 2.0
_LONGEST_S = 30.0


class Hold(Struct, frozen=True, kw_only=True):
    """One delay that the recorder makes, of at most `limit_s` seconds.

    The recorder's module `_ci_doctor_hold` describes the modes. `y` is empty in mode `exec`.
    """

    mode: Literal["exec", "together", "late"]
    x: str
    y: str = ""
    limit_s: float

    def text(self) -> str:
        """The form in CI_DOCTOR_IMPORT_RACE_HOLD."""
        # The recorder splits it at blanks, so that nothing may be empty.
        y = self.y or "-"
        return f"{self.mode} {self.x} {y} {self.limit_s:g}"

    def describe(self) -> str:
        """For a person."""
        if self.mode == "exec":
            return f"holding {self.x} until another thread asks for it"
        both = f"holding {self.x} and {self.y} until two threads have one each"
        if self.mode == "together":
            return both
        return f"{both}, {self.x} last"


class ProcessImports(Struct, frozen=True, kw_only=True):
    """What the hazards of a process are found in.

    forests: what each thread would lock. The budgets are apart, so that many self-replacing modules
    do not hide the cycles, nor the other way round.
    """

    history: History
    graph: Graph
    forests: Sequence[Forest]
    replacing: ComparisonBudget
    crossing: ComparisonBudget


class HazardKind(Struct, frozen=True, kw_only=True):
    """Why two threads can break an import. CPython's module locks make every other case safe.

    find: the hazards of a process; kinds may share it. what: what is special about the modules, in
    words: `{first}`, `{last}`, `{all}` of them. threads: words in place of the usual ones. delays:
    those that can make it happen, in the order in which to try them; none if no run decides it.
    hands_out: whether an event shows that a thread received a wrong module. is_harm: whether that is
    harm, even if no name is missed. advice: what to do in place of an import on the main thread.
    is_preloadable: whether a preload ends it. has_fix: an interpreter with gh-143650 is immune.
    """

    name: str
    rule: Rule
    find: Callable[[ProcessImports], Iterator[Hazard]]
    what: str
    threads: str | None = None
    delays: Callable[[Hazard], tuple[Hold, ...]]
    hands_out: Callable[[Hazard, ImportEvent], bool]
    is_harm: bool = False
    advice: str | None = None
    is_preloadable: bool = True
    has_fix: bool = False


def limit_s(hazard: Hazard) -> float:
    """How many seconds to delay: the other thread arrives as late as it did in the recording."""
    gap_s = abs(hazard.margin_ns or 0) / 1e9
    wanted_s = _FACTOR * gap_s + _MARGIN_S
    return round(min(max(wanted_s, _SHORTEST_S), _LONGEST_S), 1)


def while_it_runs(hazard: Hazard) -> tuple[Hold, ...]:
    """The delay for one module: it is enough that the other thread requests it while its code runs."""
    return (Hold(mode="exec", x=hazard.modules[0], limit_s=limit_s(hazard)),)


def no_delay(_: Hazard) -> tuple[Hold, ...]:
    """For what needs no delay to meet a thread that has the module: any run may show nothing."""
    return ()


_RANKS = {closeness: rank for rank, closeness in enumerate(Closeness)}


def badness(hazard: Hazard) -> tuple[int, bool, int]:
    """The sort key of "worst first", in the order of `Closeness`; then by the smallest margin.

    An unknown margin comes after the known ones.
    """
    distance_ns = abs(hazard.margin_ns or 0)
    return _RANKS[hazard.closeness], hazard.margin_ns is None, distance_ns
