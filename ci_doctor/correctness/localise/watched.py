# SPDX-License-Identifier: Apache-2.0
"""When one start shows a difference, and what a search makes of all its starts. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.localise.noise import ENDS, NoisySearch
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import Answer, ArmStart

# An answer of the baseline is one that two of its starts gave: one alone may be the very flake.
_TWICE = 2
# A request that more of the baseline's starts answer otherwise tells little.
_NOISY = 1 / 3

# git-bisect(1): a script that ends so says that this commit cannot be tested.
_UNTESTABLE = 125


class PlannedStart(Struct, frozen=True, kw_only=True):
    """A start to make: its arm and number (`B3`), and the point of the search that it is made at."""

    arm: Arm
    number: int
    point: int

    @property
    def name(self) -> str:
        """`A1`, `B3`."""
        return f"{self.arm.letter}{self.number}"


class StartEvidence(Struct, frozen=True, kw_only=True):
    """What came of a planned start: its `result`, or why nothing can be started at that point."""

    planned: PlannedStart
    result: StartResult | None = None
    broken: str = ""


class Watched(Struct, frozen=True, kw_only=True):
    """The baseline's answers to each request that is watched, and how many requests are not.

    Those that no start of it answered are `unanswered`; the others, whose answers do not repeat, `noisy`.
    """

    answers: Mapping[str, frozenset[Answer]]
    noisy: int = 0
    unanswered: int = 0

    def differing(self, start: ArmStart) -> tuple[str, ...]:
        """The watched requests that the start answers otherwise, or not at all."""
        return tuple(
            request
            for request, accepted in self.answers.items()
            if start.answers.get(request) not in accepted
        )


def watched(requests: Sequence[str], good: Sequence[ArmStart], bad: Sequence[ArmStart]) -> Watched:
    """What is watched after some starts of both ends.

    An answer is the baseline's if two of its starts gave it, and no smaller share of them than of the
    other end's: a fault that shows in a good start, too, is none of its answers. A request that more than
    a third of the baseline's starts answer otherwise is not watched.
    """
    answers: dict[str, frozenset[Answer]] = {}
    noisy = unanswered = 0
    for request in requests:
        ours = Counter(start.answers.get(request) for start in good)
        theirs = Counter(start.answers.get(request) for start in bad)
        accepted = frozenset(
            answer
            for answer, count in ours.items()
            if answer is not None
            and count >= _TWICE
            and count * max(1, len(bad)) >= theirs[answer] * len(good)
        )
        others = sum(count for answer, count in ours.items() if answer not in accepted)
        if ours.keys() <= {None}:
            unanswered += 1
        elif not accepted or others > _NOISY * len(good):
            noisy += 1
        else:
            answers[request] = accepted
    return Watched(answers=answers, noisy=noisy, unanswered=unanswered)


class ReplayedSearch(Struct, frozen=True, kw_only=True):
    """What a search makes of its evidence: which starts show the difference, None for one that cannot tell."""

    search: NoisySearch
    watched: Watched | None
    shown: Mapping[str, bool | None]
    differing: Mapping[str, tuple[str, ...]]


def replayed(
    search: NoisySearch, evidence: Sequence[StartEvidence], requests: Sequence[str]
) -> ReplayedSearch:
    """Give all evidence to a new search. Pure.

    A start that failed shows the difference, if the bad end fails too, or the good one does; elsewhere it
    cannot be tested. One that ended for a reason outside the change is no evidence.
    """
    space = search.space
    usable: list[tuple[PlannedStart, StartResult]] = []
    for each in evidence:
        if each.broken:
            search.skip(each.planned.point)
        elif each.result is not None and each.result.counts and not each.result.start.outside:
            usable.append((each.planned, each.result))
    of = {
        end: [result for planned, result in usable if planned.point == end][:ENDS]
        for end in (space.good, space.bad)
    }
    shown: dict[str, bool | None] = {}
    differing: dict[str, tuple[str, ...]] = {}
    looks: Watched | None = None
    is_ready = min(len(each) for each in of.values()) >= ENDS
    if is_ready:
        answering = {
            end: [each.start for each in results if not each.start.failed]
            for end, results in of.items()
        }
        looks = watched(requests, answering[space.good], answering[space.bad])
    fails = any(result.start.failed for result in of[space.bad])
    for planned, result in usable:
        at_end = planned.point in {space.good, space.bad}
        untestable = result.failure is not None and result.failure.exit_code == _UNTESTABLE
        if result.start.failed and not at_end and (untestable or not fails):
            search.skip(planned.point)
            shown[planned.name] = None
            continue
        if looks is None and not result.start.failed:
            # Until both ends have their first starts, nothing but their number counts.
            search.results.append((planned.point, False))
            continue
        names = () if looks is None or result.start.failed else looks.differing(result.start)
        is_shown = result.start.failed or bool(names)
        search.add(planned.point, shown=is_shown)
        shown[planned.name], differing[planned.name] = is_shown, names
    return ReplayedSearch(search=search, watched=looks, shown=shown, differing=differing)
