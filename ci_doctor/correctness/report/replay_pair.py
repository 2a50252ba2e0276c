# SPDX-License-Identifier: Apache-2.0
"""Which two answers of a recorded request a replay shows, and where they diverge. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.divergence import Divergence, first_divergence, no_answer
from ci_doctor.correctness.report.pairs import AnswerPair, StartDigests, telling_pairs
from ci_doctor.correctness.report.recorded import RecordedRequest, StartSamples
from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean


def choose_pair(recorded: RecordedRequest, names: Sequence[str] = ()) -> AnswerPair | None:
    """Two answers to show: of the named starts (of one: two passes), else the most telling pair.

    None if all answers are the same and nothing is named. Raises UsageError for an unknown start.
    """
    if not names:
        return _most_telling(recorded)
    by_name = {start.name: start for start in recorded.starts}
    for name in names:
        if name not in by_name:
            raise _unknown(name, recorded, list(by_name))
    return _pair(by_name[names[0]], by_name[names[-1]])


def _most_telling(recorded: RecordedRequest) -> AnswerPair | None:
    """Two starts that differ, else two passes of one start, else None."""
    answers = []
    outcomes = recorded.outcomes
    for start in recorded.starts:
        digests = StartDigests(
            name=start.name, arm=start.arm, digests=start.digests, outcome=outcomes[start.name]
        )
        answers.append(digests)
    for pair in telling_pairs(recorded.kind, answers):
        return pair
    for start in recorded.starts:
        passes = _pair(start, start)
        if passes is not None and passes.left != passes.right:
            return passes
    return None


def _unknown(name: str, recorded: RecordedRequest, names: Sequence[str]) -> UsageError:
    hint = did_you_mean(name, names)
    if name.startswith(("a", "b")):
        hint = f"its archived starts are not in {SAMPLES}"
    return UsageError(f"no start `{name}` got the request {recorded.request}", hint=hint)


def _pair(first: StartSamples, second: StartSamples) -> AnswerPair | None:
    """The first pass in which two starts differ, or their first pass.

    Of one start: its first pass and the first pass that differs from it, or its second pass. None
    if it has a single pass.
    """
    numbers = sorted({*first.samples, *second.samples})
    passes = [(number, number) for number in numbers]
    if first is second:
        passes = [(numbers[0], number) for number in numbers[1:]]
    pairs = []
    for one, other in passes:
        pair = AnswerPair(
            first=first.name,
            second=second.name,
            number=one,
            other=other,
            left=first.digests.get(one),
            right=second.digests.get(other),
        )
        if pair.left != pair.right:
            return pair
        pairs.append(pair)
    return pairs[0] if pairs else None


def names_of(pair: AnswerPair) -> tuple[str, str]:
    """The names of the two sides: starts, or passes if both are one start."""
    if pair.first != pair.second:
        return pair.first, pair.second
    other = pair.other or pair.number
    left = f"{pair.first} pass {pair.number}"
    right = f"{pair.second} pass {other}"
    return left, right


def samples_of(recorded: RecordedRequest, pair: AnswerPair) -> tuple[Sample | None, Sample | None]:
    """The two samples of a pair; None for a pass that the start did not reach."""
    samples = {start.name: start.samples for start in recorded.starts}
    # Without a pass of its own, the second answer is of the same pass as the first.
    other = pair.other or pair.number
    left = samples[pair.first].get(pair.number)
    right = samples[pair.second].get(other)
    return left, right


def outputs_of(
    recorded: RecordedRequest, pair: AnswerPair
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The two answers of a pair; None is no answer."""
    left, right = samples_of(recorded, pair)
    return _output(left), _output(right)


def _output(sample: Sample | None) -> Mapping[str, Any] | None:
    if sample is None:
        return None
    return sample.output


def divergence_of(recorded: RecordedRequest, pair: AnswerPair, width: int) -> Divergence:
    """Where the two answers of `pair` diverge, with `width` characters around it."""
    left, right = outputs_of(recorded, pair)
    if left is None or right is None:
        return no_answer(left, right, width)
    return first_divergence(left, right, width)
