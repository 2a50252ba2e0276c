# SPDX-License-Identifier: Apache-2.0
"""Which starts count as evidence, and how the arms compare on each request. Pure.

Archived starts count unless today's baseline answers otherwise. The identity covers what can be read
before a start. Two machines may agree in all of it and still answer otherwise. So the baseline starts
of today are held against the archived ones, in two ways: an answer that they do not share at all, and
a mix of answers that an exact test tells apart.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.mix_test import Column, Labels, Traits, mix_test
from ci_doctor.correctness.verdict.starts import Answer, ArmStart, DifferenceKind, of_arm, outcomes
from ci_doctor.model.facts.correctness import ArchiveDrift

# By request; None is a missing answer.
Answers = Mapping[str, str | None]

# Two: the difference of a single start could be noise.
_FEWEST_TODAY = 2

# With fewer of today's starts the test could hardly reach its level.
_FEWEST_TESTED = 3

# The archive is a help. It may go for less than a verdict needs, and yet not for every coincidence.
_LEVEL = 0.01


def archive_drift(archived: Sequence[Answers], today: Sequence[Answers]) -> ArchiveDrift | None:
    """The drift between archived baseline starts and today's; None if there is none to see.

    Each start is its answers by request. Starts of today without any answer must be left out. A
    missing answer speaks of no machine. Fewer than two starts of today show nothing.
    """
    if not archived or len(today) < _FEWEST_TODAY:
        return None
    return _drift(_Compared(archived, today))


class _Compared:
    """The starts of one comparison, as a key: the same objects, and not equal ones.

    A decision asks several times, and to compare ten thousand answers takes as long as the test.
    """

    def __init__(self, archived: Sequence[Answers], today: Sequence[Answers]) -> None:
        self.archived = tuple(archived)
        self.today = tuple(today)

    def __hash__(self) -> int:
        return hash(self._identities())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Compared) and self._identities() == other._identities()

    def _identities(self) -> tuple[int, tuple[int, ...]]:
        # The key keeps the starts alive, so that no other one gets their identity.
        return len(self.archived), tuple(map(id, (*self.archived, *self.today)))


@lru_cache(maxsize=2)
def _drift(compared: _Compared) -> ArchiveDrift | None:
    archived, today = compared.archived, compared.today
    rows = _varying([*archived, *today])
    request = _never_shared(rows, len(archived))
    if request is not None:
        return ArchiveDrift(request=request, today=len(today), p=None)
    if len(today) < _FEWEST_TESTED:
        return None
    return _other_mix(rows, len(archived), len(today))


def _varying(starts: Sequence[Answers]) -> dict[str, list[str | None]]:
    """The requests on which the starts do not all agree, each with its answer in every start."""
    first = starts[0]
    requests: set[str] = set()
    for answers in starts[1:]:
        # Most starts are equal, and that is known at once: there may be ten thousand requests.
        if answers != first:
            requests.update(request for request, _ in first.items() ^ answers.items())
    return {
        request: [answers.get(request) for answers in starts]
        for request in first
        if request in requests
    }


def _never_shared(rows: Mapping[str, list[str | None]], archived: int) -> str | None:
    """The first request on which archived starts repeat themselves, and today's share no answer.

    The first `archived` answers of each row are the archive's.
    """
    # Archived starts that never repeat an answer could not have shared one with today's either.
    most = archived // 2 + 1
    for request, given in rows.items():
        before = set(given[:archived])
        now = set(given[archived:]) - {None}
        if now and len(before) <= most and now.isdisjoint(before):
            return request
    return None


def _other_mix(
    rows: Mapping[str, list[str | None]], archived: int, today: int
) -> ArchiveDrift | None:
    """What the test says: the request whose answers line up best with the labels, and p."""
    total = archived + today
    columns = _columns(rows, total)
    if 1 / math.comb(total, today) > _LEVEL or not columns:
        return None
    given = Traits(
        columns=tuple(Column(mask=mask, requests=(request,)) for mask, request in columns.items())
    )
    label = (False,) * archived + (True,) * today
    test = mix_test(given, Labels(candidate=label, block=(0,) * total))
    if test.p > _LEVEL:
        return None
    return ArchiveDrift(request=test.requests[0], today=today, p=test.p)


def _columns(rows: Mapping[str, list[str | None]], starts: int) -> dict[int, str]:
    """The different sets of starts that give one answer to a request, and their first request.

    A set is a mask: bit i is start i.
    """
    columns: dict[int, str] = {}
    everything = (1 << starts) - 1
    for request, given in rows.items():
        masks: dict[str | None, int] = {}
        for index, answer in enumerate(given):
            masks[answer] = masks.get(answer, 0) | 1 << index
        masks.pop(None, None)
        for mask in masks.values():
            # Of a set and its complement one is enough: they correlate alike.
            side = mask if mask & 1 else mask ^ everything
            columns.setdefault(side, request)
    return columns


def classify(requests: Sequence[str], starts: Sequence[ArmStart]) -> dict[str, DifferenceKind]:
    """The kind of every request over the starts that count as evidence (see `counted`)."""
    usable = counted(starts)
    baseline = of_arm(usable, Arm.BASELINE)
    candidate = of_arm(usable, Arm.CANDIDATE)
    return {
        request: _kind(outcomes(baseline, request), outcomes(candidate, request))
        for request in requests
    }


def counted(starts: Iterable[ArmStart]) -> list[ArmStart]:
    """The starts whose answers count as evidence.

    Left out are starts that failed for a reason outside the change. If today's baseline answers
    otherwise than the archive (see `drift_of`), the archived starts are left out too: then this is
    another machine, whatever its identity says. (After that choice the test over the remaining
    starts is not exact; but it removes evidence against the candidate as well as evidence for it.)
    """
    usable = [start for start in starts if not start.outside]
    if drift_of(usable) is None:
        return usable
    return [start for start in usable if not start.archived]


def drift_of(starts: Iterable[ArmStart]) -> ArchiveDrift | None:
    """How today's baseline starts answer otherwise than the archived ones; None if they do not.

    A candidate may differ for the change itself: only baseline starts speak for the machine.
    """
    usable = [start for start in of_arm(starts, Arm.BASELINE) if not start.outside]
    archived = [start.answers for start in usable if start.archived]
    today = [start.answers for start in usable if not start.archived and start.answered]
    return archive_drift(archived, today)


def _kind(baseline: set[Answer], candidate: set[Answer]) -> DifferenceKind:
    """The kind by the outcomes of both arms.

    None (no answer) is an outcome like any other, with one exception: a baseline start without an
    answer never excuses a candidate without one.
    """
    answers = baseline - {None}
    if not answers or not candidate:
        return DifferenceKind.UNANSWERED
    if len(baseline) > 1:
        return DifferenceKind.FLAKY if candidate <= answers else DifferenceKind.OWN
    if candidate <= baseline:
        return DifferenceKind.EQUAL
    return DifferenceKind.SOMETIMES if candidate & baseline else DifferenceKind.CHANGED


def answering(starts: Iterable[ArmStart]) -> list[ArmStart]:
    """The counted starts with an answer: two that answered nothing neither agree nor differ."""
    return [start for start in counted(starts) if start.answered]


def clusters(starts: Sequence[ArmStart]) -> tuple[tuple[str, ...], ...]:
    """The names of the starts that answered everything alike, grouped; by first appearance."""
    groups: dict[tuple[tuple[str, Answer], ...], list[str]] = {}
    for start in counted(starts):
        groups.setdefault(tuple(sorted(start.answers.items())), []).append(start.name)
    return tuple(map(tuple, groups.values()))


_IN_WORDS = {
    DifferenceKind.EQUAL: "the same in every start of both arms",
    DifferenceKind.UNANSWERED: "answered by no baseline start, or never sent to the candidate",
    DifferenceKind.FLAKY: "the baseline differs from itself; the candidate shows nothing of its own",
    DifferenceKind.OWN: "the baseline differs from itself; the candidate shows an output of its own",
    DifferenceKind.SOMETIMES: "the baseline is always the same; the candidate is only sometimes the same as it",
    DifferenceKind.CHANGED: "the baseline is always the same; the candidate is never the same as it",
}


def explain(kind: DifferenceKind) -> str:
    """A kind in words."""
    return _IN_WORDS[kind]
