# SPDX-License-Identifier: Apache-2.0
"""The rows of the picture about starts, and about how many requests differ between them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

from ci_doctor.correctness.report.clusters import groups_of
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import answering, counted
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import (
    ArmStart,
    DifferenceKind,
    independent_builds,
    of_arm,
)
from ci_doctor.model.table import Row, row
from ci_doctor.render.formatting import amount

_STABLE = (DifferenceKind.EQUAL, DifferenceKind.CHANGED, DifferenceKind.SOMETIMES)
_VARYING = (DifferenceKind.FLAKY, DifferenceKind.OWN)
_NAMED = 4
_GROUP_CELLS = 50


def start_rows(experiment: Experiment) -> Iterator[Row]:
    """Which starts there are, whether they answered, and which of them answered alike."""
    starts = experiment.starts
    yield row("starts", _starts(starts))
    yield row("answered", _answered(starts))
    groups = []
    for names in groups_of(experiment):
        span = _span(names)
        groups.append(f"{{{span}}}")
    if groups:
        yield row("clusters", _fitting(groups))


def _starts(starts: Sequence[ArmStart]) -> str:
    words = " | ".join(_arm_words(starts))
    archived = [start.name for start in starts if start.archived]
    builds = amount(independent_builds(starts), "build")
    if not archived:
        return words
    words = f"{words}   archived {_span(archived)} of {builds}"
    if _set_aside(starts):
        # Their answers are in no figure below: without the reason they would seem forgotten.
        words = f"{words}, set aside: today's baseline answers otherwise"
    return words


def _arm_words(starts: Sequence[ArmStart]) -> list[str]:
    """The names of today's starts, arm by arm."""
    today = [start for start in starts if not start.archived]
    words = []
    for arm in Arm:
        names = [start.name for start in of_arm(today, arm)]
        words.append(_span(names) or "none")
    return words


def _set_aside(starts: Sequence[ArmStart]) -> bool:
    """Whether the archived starts do not count."""
    usable = sum(not start.outside for start in starts)
    return len(counted(starts)) < usable


def _answered(starts: Sequence[ArmStart]) -> str:
    total = max(len(start.answers) for start in starts)
    counts = {start.answered for start in starts}
    if len(counts) == 1:
        common = counts.pop()
        return f"{common}/{total} each"
    words = _incomplete(starts, total)
    # If no start answered everything, there are no others.
    if total in counts:
        return f"{words}, the others all"
    return words


def _incomplete(starts: Sequence[ArmStart], total: int) -> str:
    """The starts that answered less than everything, at most _NAMED by name."""
    less = []
    for start in starts:
        answered = start.answered
        if answered < total:
            share = f"{start.name} {answered}/{total}"
            less.append(share)
    words = ", ".join(less[:_NAMED])
    more = len(less) - _NAMED
    if more > 0:
        return f"{words}, {more} more starts less"
    return words


def _span(names: Sequence[str]) -> str:
    """`A1 A2 A3`, or `A1-A8` for many in a row."""
    whole = " ".join(names)
    if len(names) <= _NAMED + 1:
        return whole
    letter = names[0][0]
    first = int(names[0][1:])
    last = first + len(names) - 1
    numbers = range(first, last + 1)
    row = " ".join(f"{letter}{number}" for number in numbers)
    # With a gap in the numbers, or with both arms, a span would name starts that are not there.
    if whole != row:
        return whole
    return f"{letter}{first}-{letter}{last}"


def _fitting(groups: Sequence[str]) -> str:
    """As many groups as fit on a line, at least one, and how many more there are."""
    shown = groups[0]
    for number, group in enumerate(groups[1:], start=1):
        longer = f"{shown}  {group}"
        if len(longer) + 2 > _GROUP_CELLS:
            return f"{shown}  and {len(groups) - number} more"
        shown = longer
    return shown


def request_rows(starts: Sequence[ArmStart], decision: Decision) -> Iterator[Row]:
    """How many requests differ, between which starts, and of what kind they are."""
    counts = _differing_counts(answering(starts))
    if counts:
        total = len(decision.kinds) or len(starts[0].answers)
        yield row("differing", f"{'   '.join(counts)}   of {total} requests")
    kinds = _kind_counts(decision)
    if kinds:
        yield row("requests", ", ".join(kinds))


def _differing_counts(starts: Sequence[ArmStart]) -> list[str]:
    """`A/A 1 to 3`: the least and the most requests that differ, between the starts of two arms."""
    baseline = of_arm(starts, Arm.BASELINE)
    candidate = of_arm(starts, Arm.CANDIDATE)
    words = [
        _spread("A/A", combinations(baseline, 2)),
        _spread("A/B", product(baseline, candidate)),
        _spread("B/B", combinations(candidate, 2)),
    ]
    return [word for word in words if word]


def _spread(arms: str, pairs: Iterable[tuple[ArmStart, ArmStart]]) -> str:
    counts = [differing(one, other) for one, other in pairs]
    if not counts:
        return ""
    least = min(counts)
    most = max(counts)
    if least == most:
        return f"{arms} {least}"
    return f"{arms} {least} to {most}"


def differing(one: ArmStart, other: ArmStart) -> int:
    """How many requests two starts answered differently."""
    count = 0
    for request, answer in one.answers.items():
        count += answer != other.answers.get(request)
    return count


def _kind_counts(decision: Decision) -> list[str]:
    words = []
    for word, kinds in (("stable", _STABLE), ("varying", _VARYING)):
        parts = _parts(decision, kinds)
        if parts:
            total = decision.count(*kinds)
            words.append(f"{total} {word} ({parts})")
    unanswered = decision.count(DifferenceKind.UNANSWERED)
    if unanswered:
        words.append(f"{unanswered} unanswered")
    # Disputed requests are a choice of those above: they come last, and add nothing to the total.
    if decision.test:
        disputed = len(decision.test.disputed)
        words.append(f"{disputed} disputed")
    return words


def _parts(decision: Decision, kinds: Sequence[DifferenceKind]) -> str:
    parts = []
    for kind in kinds:
        count = decision.count(kind)
        if count:
            part = f"{count} {kind}"
            parts.append(part)
    return ", ".join(parts)
