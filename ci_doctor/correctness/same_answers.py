# SPDX-License-Identifier: Apache-2.0
"""From what a start answered to its outcomes at the gate's level. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.comparison import AnswerLevel, Comparison
from ci_doctor.correctness.level_digests import level_digests
from ci_doctor.correctness.near_answers import NearAnswers
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.tally import outcome
from ci_doctor.correctness.verdict.starts import Answer

Outputs = Mapping[str, Mapping[str, Any]]
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

    For a start whose record does not hold them: one that an earlier version archived.
    """
    words: dict[str, Answer] = {}
    tokens: dict[str, Answer] = {}
    for request, answer in result.start.answers.items():
        words[request] = tokens[request] = None
        if answer is None:
            continue
        passes = result.digests[request]
        digests = {number: level_digests(outputs[each], each) for number, each in passes.items()}
        words[request] = outcome({at: each.words for at, each in digests.items()}, len(passes))
        tokens[request] = outcome({at: each.tokens for at, each in digests.items()}, len(passes))
    return {AnswerLevel.WORDS: words, AnswerLevel.TOKENS: tokens}
