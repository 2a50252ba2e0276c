# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of requests whose answers differ, and finds where they diverge."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.alignment import (
    AlignedRow,
    manner,
    place,
    rows_around,
    side_lines,
    sides,
)
from ci_doctor.correctness.report.divergence import Divergence, first_divergence, no_answer
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.pairs import AnswerPair, StartDigests, telling_pairs
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.errors import InfraError

# The order in which differing requests are shown: what tells most comes first.
TELLING = (
    DifferenceKind.CHANGED,
    DifferenceKind.OWN,
    DifferenceKind.SOMETIMES,
    DifferenceKind.FLAKY,
)
_HARDEST = tuple(Hardness)
# The first lookup in an archived start unpacks all of it.
_ARCHIVED_LOOKUPS = 40

_Outputs = Mapping[str, Mapping[str, Any]]


class AnswerDifference(Struct, frozen=True, kw_only=True):
    """A request whose answers differ, the pair that shows most of it, and where that diverges."""

    request: str
    kind: DifferenceKind
    pair: AnswerPair
    divergence: Divergence


def counted_results(experiment: Experiment) -> list[StartResult]:
    """The starts that are evidence, those of today before archived ones."""
    names = {start.name for start in counted(experiment.starts)}
    results = [result for result in experiment.compared if result.start.name in names]
    # The sort is stable: today's and the archived starts keep the order in which they were made.
    results.sort(key=lambda result: result.start.archived)
    return results


def differences(
    experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> tuple[AnswerDifference, ...]:
    """Every request that differs, the hardest first, what only the baseline shows last.

    At most three outputs are read for each, and none is kept.
    """
    results = counted_results(experiment)
    differing = []
    archived = 0
    for request in requests:
        kind = decision.kinds.get(request)
        if kind not in TELLING:
            continue
        pairs = telling_pairs(kind, _digests(results, request))
        if not pairs:
            continue
        from_archive = any(each.archived for each in pairs)
        archived += from_archive
        if from_archive and archived > _ARCHIVED_LOOKUPS:
            pair = pairs[0]
            divergence = _unread()
        else:
            pair, divergence = _latest(experiment.outputs, pairs)
        difference = AnswerDifference(request=request, kind=kind, pair=pair, divergence=divergence)
        differing.append(difference)
    return tuple(sorted(differing, key=_order))


def _digests(results: Sequence[StartResult], request: str) -> list[StartDigests]:
    """What each start answered to one request."""
    starts = []
    for result in results:
        start = result.start
        digests = result.digests.get(request, {})
        starts.append(
            StartDigests(
                name=start.name,
                arm=start.arm,
                digests=digests,
                outcome=start.answers.get(request),
                archived=start.archived,
            )
        )
    return starts


def _order(difference: AnswerDifference) -> tuple[bool, int, int]:
    return (
        difference.kind is DifferenceKind.FLAKY,
        _HARDEST.index(difference.divergence.hardness),
        TELLING.index(difference.kind),
    )


def _latest(outputs: _Outputs, pairs: Sequence[AnswerPair]) -> tuple[AnswerPair, Divergence]:
    """Of two pairs with the same right answer, the one that diverges last.

    The baseline answer nearest to the candidate's shows best what is the candidate's own.
    """
    latest = pairs[0]
    # Looked up once for all pairs: an archived output costs a decompression.
    right = _look_up(outputs, latest.right)
    left = _look_up(outputs, latest.left)
    last = _diverge(left, right, latest)
    for pair in pairs[1:]:
        left = _look_up(outputs, pair.left)
        divergence = _diverge(left, right, pair)
        if _position(divergence) > _position(last):
            latest = pair
            last = divergence
    return latest, last


def _position(divergence: Divergence) -> int:
    # A divergence without a position was not read, or is of another field: any other says more.
    if divergence.position is None:
        return -1
    return divergence.position


def _diverge(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, pair: AnswerPair
) -> Divergence:
    if pair.left is None or pair.right is None:
        return no_answer(left, right)
    if left is None or right is None:
        return _unread()
    return first_divergence(left, right)


def _look_up(outputs: _Outputs, digest: str | None) -> Mapping[str, Any] | None:
    """An output, or None if it can no longer be read."""
    if digest is None:
        return None
    try:
        return outputs[digest]
    except (KeyError, InfraError):
        # The verdict was made from digests. It stands without the texts.
        return None


def _unread() -> Divergence:
    return Divergence(field="answer", hardness=Hardness.UNKNOWN)


def logprob_rows(outputs: _Outputs, difference: AnswerDifference) -> tuple[AlignedRow, ...]:
    """The tokens around a difference; reads two outputs."""
    left = _look_up(outputs, difference.pair.left)
    right = _look_up(outputs, difference.pair.right)
    if left is None or right is None:
        return ()
    return rows_around(left, right, difference.divergence)


def divergence_lines(difference: AnswerDifference) -> Iterator[str]:
    """Where two answers diverge, in three lines."""
    at = difference.divergence
    pair = difference.pair
    where = place(at)
    how = manner(at)
    if how:
        where = f"{where}, {how}"
    yield f"request {difference.request}: {pair.first} against {pair.second}, {where}"
    yield from side_lines(sides(at, pair.first, pair.second))
