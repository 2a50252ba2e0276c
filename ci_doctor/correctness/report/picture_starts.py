# SPDX-License-Identifier: Apache-2.0
"""The rows of the picture about starts, and about how many requests differ between them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

from ci_doctor.correctness.report.clusters import groups_of
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import (
    ArmStart,
    DifferenceKind,
    answering,
    counted,
    of_arm,
)
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.table import Row, row

_STABLE = (DifferenceKind.EQUAL, DifferenceKind.CHANGED, DifferenceKind.SOMETIMES)
_VARYING = (DifferenceKind.FLAKY, DifferenceKind.OWN)
_NAMED = 4
_GROUP_CELLS = 50


def start_rows(experiment: Experiment) -> Iterator[Row]:
    """Which starts there are, whether they answered, and which of them answered alike."""
    yield row("starts", _starts(experiment.starts))
    yield row("answered", _answered(experiment.starts))
    groups = []
    for names in groups_of(experiment):
        group = "{" + _span(names) + "}"
        groups.append(group)
    if groups:
        yield row("clusters", _fitting(groups))


def _starts(starts: Sequence[ArmStart]) -> str:
    today = [start for start in starts if not start.archived]
    arms = []
    for arm in Arm:
        names = _span(_names(of_arm(today, arm)))
        arms.append(names or "none")
    words = " | ".join(arms)
    archived = [start for start in starts if start.archived]
    if archived:
        words += f"   archived {_span(_names(archived))}"
        if _set_aside(starts):
            words += ", set aside: today's baseline answers otherwise"
    return words


def _set_aside(starts: Sequence[ArmStart]) -> bool:
    """Whether the archived starts do not count."""
    usable = sum(not start.outside for start in starts)
    return len(counted(starts)) < usable


def _names(starts: Iterable[ArmStart]) -> list[str]:
    return [start.name for start in starts]


def _answered(starts: Sequence[ArmStart]) -> str:
    total = max(len(start.answers) for start in starts)
    counts = {start.answered for start in starts}
    if len(counts) == 1:
        return f"{counts.pop()}/{total} each"
    less = []
    for start in starts:
        if start.answered < total:
            share = f"{start.name} {start.answered}/{total}"
            less.append(share)
    words = ", ".join(less[:_NAMED])
    more = len(less) - _NAMED
    if more > 0:
        words += f", {more} more starts less"
    # If no start answered everything, there are no others.
    return f"{words}, the others all" if total in counts else words


def _span(names: Sequence[str]) -> str:
    """`A1 A2 A3`, or `A1-A8` for many in a row."""
    whole = " ".join(names)
    if len(names) <= _NAMED + 1:
        return whole
    letter = names[0][0]
    first = int(names[0][1:])
    row = [f"{letter}{first + index}" for index in range(len(names))]
    return f"{row[0]}-{row[-1]}" if whole == " ".join(row) else whole


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
    counts = {differing(one, other) for one, other in pairs}
    if not counts:
        return ""
    least = min(counts)
    most = max(counts)
    return f"{arms} {least}" if least == most else f"{arms} {least} to {most}"


def differing(one: ArmStart, other: ArmStart) -> int:
    """How many requests two starts answered differently."""
    count = 0
    for request, answer in one.answers.items():
        count += answer != other.answers.get(request)
    return count


def _kind_counts(decision: Decision) -> list[str]:
    words = []
    for word, kinds in (("stable", _STABLE), ("varying", _VARYING)):
        parts = []
        for kind in kinds:
            count = decision.count(kind)
            if count:
                part = f"{count} {kind}"
                parts.append(part)
        if parts:
            words.append(f"{decision.count(*kinds)} {word} ({', '.join(parts)})")
    unanswered = decision.count(DifferenceKind.UNANSWERED)
    if unanswered:
        words.append(f"{unanswered} unanswered")
    if decision.test:
        words.append(f"{len(decision.test.disputed)} disputed")
    return words
