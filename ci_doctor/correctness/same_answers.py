# SPDX-License-Identifier: Apache-2.0
"""From what a start answered to its outcomes at the gate's level, within a limit if there is one. Pure.

Being near is not transitive: 0.1 is near 0.2, 0.2 is near 0.3, and 0.1 may not be near 0.3. So the
answers to a request are taken in the order in which they were given. The first is an outcome. Each
later one belongs to the earliest outcome whose first answer it is near, or else is a new outcome.
The labels of the arms play no part in it, so a permutation of the labels leaves it as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import AnswerLevel, Comparison, NumberLimit
from ci_doctor.correctness.tally import level_digests, outcome
from ci_doctor.correctness.verdict.starts import Answer
from ci_doctor.load.answer_items import AnswerParts, parts
from ci_doctor.load.canonical import encode

Outputs = Mapping[str, Mapping[str, Any]]


class NearAnswers:
    """The outcomes of each request so far, by the digest of the first answer of each.

    Only digests are kept. `outputs` holds the answers by their digests.
    """

    def __init__(self, limit: NumberLimit, outputs: Outputs) -> None:
        self._limit = limit
        self._outputs = outputs
        self._firsts: dict[str, list[str]] = {}

    def outcome(self, request: str, digest: str) -> str:
        """The outcome that an answer belongs to. Raises what a look-up in `outputs` raises."""
        firsts = self._firsts.setdefault(request, [])
        # Nearly always: then nothing is read.
        if digest in firsts:
            return digest
        if firsts:
            answer = parts(self._outputs[digest])
            for first in firsts:
                if are_near(answer, parts(self._outputs[first]), self._limit):
                    return first
        firsts.append(digest)
        return digest


def are_near(left: AnswerParts, right: AnswerParts, limit: NumberLimit) -> bool:
    """Whether words and tokens are the same, and every number is within the limit."""
    return (
        limit.allows(left.numbers, right.numbers)
        and len(left.alternatives) == len(right.alternatives)
        and all(
            _list_alike(ours, theirs, limit)
            for ours, theirs in zip(left.alternatives, right.alternatives, strict=True)
        )
        and encode([left.words, left.tokens]) == encode([right.words, right.tokens])
    )


def _list_alike(left: Mapping[str, float], right: Mapping[str, float], limit: NumberLimit) -> bool:
    """Whether two lists of alternatives are the same within the limit.

    A token that only one side lists may have been the last of the other: it is then at most as
    probable there as the least probable one listed, and its distance is at least the one to that.
    """
    if not left or not right:
        return not left and not right
    common = [token for token in left if token in right]
    if not limit.allows([left[each] for each in common], [right[each] for each in common]):
        return False
    return _rest_is_near(left, right, limit) and _rest_is_near(right, left, limit)


def _rest_is_near(
    listed: Mapping[str, float], other: Mapping[str, float], limit: NumberLimit
) -> bool:
    least = min(other.values())
    alone = [number for token, number in listed.items() if token not in other]
    above = [number for number in alone if number > least]
    return limit.allows(above, [least] * len(above))


Levels = Mapping[AnswerLevel, Mapping[str, Answer]]


class SameAnswers:
    """Which answers count as the same in one experiment.

    It takes the starts in the order in which they were made, archived ones first: under a limit an
    outcome depends on the starts before it.
    """

    def __init__(self, comparison: Comparison, outputs: Outputs) -> None:
        self._level = comparison.level
        self._outputs = outputs
        self._near = None
        if comparison.limit is not None:
            self._near = NearAnswers(comparison.limit, outputs)

    def at_gate(self, result: StartResult) -> StartResult:
        """The result as the verdict needs it: its answers are outcomes at the gate's level.

        The next start may only be given once this one is made. A start that is no evidence stays as
        it is. Raises InfraError if an answer can no longer be read.
        """
        if not result.counts:
            return result
        start = result.start
        levels = start.levels
        if self._level is not AnswerLevel.NUMBERS and self._level not in levels:
            levels = levels_of(result, self._outputs)
        levels = {**levels, AnswerLevel.NUMBERS: start.answers}
        answers = levels[self._level]
        if self._near is not None:
            answers = self._within_limit(result, self._near)
        return replace(result, start=replace(start, answers=answers, levels=levels))

    def _within_limit(self, result: StartResult, near: NearAnswers) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        for request, answer in result.start.answers.items():
            answers[request] = None
            if answer is None:
                continue
            passes = result.digests[request]
            outcomes = {number: near.outcome(request, passes[number]) for number in sorted(passes)}
            answers[request] = outcome(outcomes, len(passes))
        return answers


class ChangedAnswer(Struct, frozen=True, kw_only=True):
    """Another answer to a request in one pass: its output, and the digest of that."""

    request: str
    number: int
    output: Mapping[str, Any]
    digest: str


def changed_outcome(experiment: Experiment, result: StartResult, changed: ChangedAnswer) -> Answer:
    """The outcome of `result` at the gate's level if one of its answers had been another.

    Raises InfraError if an answer can no longer be read.
    """
    comparison = experiment.comparison
    outputs = _OneMore(changed, experiment.outputs)
    same = SameAnswers(comparison, outputs)
    # Only under a limit does the outcome of one start depend on those before it.
    before: Sequence[StartResult] = () if comparison.limit is None else experiment.compared
    for each in before:
        if each is result:
            break
        same.at_gate(_alone(each, changed.request, each.digests.get(changed.request, {})))
    passes = {**result.digests[changed.request], changed.number: changed.digest}
    judged = same.at_gate(_alone(result, changed.request, passes))
    return judged.start.answers[changed.request]


class _OneMore(Mapping[str, Mapping[str, Any]]):
    """The outputs of an experiment, and that of a changed answer."""

    def __init__(self, changed: ChangedAnswer, outputs: Outputs) -> None:
        self._changed = changed
        self._outputs = outputs

    def __getitem__(self, digest: str) -> Mapping[str, Any]:
        if digest == self._changed.digest:
            return self._changed.output
        return self._outputs[digest]

    def __iter__(self) -> Iterator[str]:
        yield from {**dict.fromkeys(self._outputs), self._changed.digest: None}

    def __len__(self) -> int:
        return len(list(iter(self)))


def _alone(result: StartResult, request: str, passes: Mapping[int, str]) -> StartResult:
    """A start that got one request alone, as it was before it came to the gate's level."""
    start = result.start
    answer = None
    if start.answers.get(request) is not None:
        answer = outcome(passes, len(passes))
    alone = replace(start, answers={request: answer}, levels={})
    return replace(result, start=alone, digests={request: passes})


def levels_of(result: StartResult, outputs: Outputs) -> Levels:
    """The outcomes of words and tokens of a start, from its outputs.

    For a start whose answers are not its own: one of them was changed, or it was read from samples alone.
    """
    levels: dict[AnswerLevel, dict[str, Answer]] = {AnswerLevel.WORDS: {}, AnswerLevel.TOKENS: {}}
    for request, answer in result.start.answers.items():
        passes = {} if answer is None else result.digests[request]
        digests = {number: level_digests(outputs[each], each) for number, each in passes.items()}
        words = {at: each.words for at, each in digests.items()}
        tokens = {at: each.tokens for at, each in digests.items()}
        # A pass without an answer leaves none.
        most = len(passes) or 1
        levels[AnswerLevel.WORDS][request] = outcome(words, most)
        levels[AnswerLevel.TOKENS][request] = outcome(tokens, most)
    return levels
