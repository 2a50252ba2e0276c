# SPDX-License-Identifier: Apache-2.0
"""Proves the comparison in every run: one answer is changed in memory and must be detected. Pure.

A gate with a broken comparison passes everything. So the very functions that decide get a
difference that is certain.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment, SameAnswers, StartResult
from ci_doctor.correctness.settings import Arm, Policy
from ci_doctor.correctness.verdict.compare import classify
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.starts import Answer, DifferenceKind, outcomes
from ci_doctor.errors import InfraError
from ci_doctor.load.answer_items import items_of, with_other_item
from ci_doctor.load.canonical import digest
from ci_doctor.model.verdict import Verdict

# One more mark than a changed answer can collide with in practice: the first is taken whose answer
# no other start gave.
_MARKS = tuple(map(chr, range(0x2600, 0x2640)))
# The keys of an answer on the way to its text.
_WAY_TO_TEXT = ("choices", "message", "text", "content")


def canary_detected(experiment: Experiment, requests: Sequence[str]) -> bool:
    """Whether the comparison notices a candidate answer that is changed by one character.

    True if there is no answer to change. False if the answer can no longer be read: that proves
    nothing.
    """
    candidates = (
        each
        for each in experiment.compared
        if each.start.arm is Arm.CANDIDATE and not each.start.outside and each.start.answered
    )
    result = next(candidates, None)
    if result is None:
        return True
    start = result.start
    request = next(request for request, answer in start.answers.items() if answer)
    # Any answer will do: all of them go through the same comparison.
    number, first = next(iter(result.digests[request].items()))
    try:
        outcome_of = _outcomes(experiment, result, request, number)
        output = experiment.outputs[first]
        taken = {*outcomes(experiment.starts, request), outcome_of(output)}
        given = (outcome_of(_changed_answer(output, mark)) for mark in _MARKS)
        changed = next((each for each in given if each not in taken), None)
    except (KeyError, InfraError):
        return False
    if changed is None:
        return False
    flipped = replace(start, answers={**start.answers, request: changed})
    starts = [flipped if each is start else each for each in experiment.starts]
    kind = classify([request], starts)[request]
    # Under the policy `any` another pair of starts may agree, rightly.
    strict = replace(experiment.rules, policy=Policy.CONTROL)
    verdict = decide(starts, requests, strict, complete=True).verdict
    return kind is not DifferenceKind.EQUAL and verdict is not Verdict.PASS


def _outcomes(
    experiment: Experiment, result: StartResult, request: str, number: int
) -> Callable[[Mapping[str, Any]], Answer]:
    """The outcome of a start at the gate's level if its answer in one pass had been another."""
    comparison = experiment.comparison
    # Only under a limit does the outcome of one start depend on those before it.
    before: Sequence[StartResult] = ()
    if comparison.limit is not None:
        before = list(takewhile(lambda each: each is not result, experiment.compared))
    known = {
        each: experiment.outputs[each]
        for start in (*before, result)
        for each in start.digests.get(request, {}).values()
    }

    def outcome_of(changed: Mapping[str, Any]) -> Answer:
        own = digest(dict(changed))
        same = SameAnswers(comparison, {**known, own: changed})
        for each in before:
            same.outcome(request, each.digests.get(request, {}))
        return same.outcome(request, {**result.digests[request], number: own})

    return outcome_of


def _changed_answer(output: Mapping[str, Any], mark: str) -> Mapping[str, Any]:
    if items_of(output):
        return with_other_item(output, ord(mark))
    changed: dict[str, Any] = _changed(dict(output), mark)
    return changed


def _changed(value: Any, mark: str) -> Any:
    """A copy in which the last character of the first text is `mark`; without text it is added."""
    if isinstance(value, str):
        return f"{value[:-1]}{mark}"
    if isinstance(value, dict) and value:
        key = _key_to_text(value)
        return {**value, key: _changed(value[key], mark)}
    if isinstance(value, list) and value:
        first, *rest = value
        return [_changed(first, mark), *rest]
    return [value, mark]


def _key_to_text(value: Mapping[str, Any]) -> str:
    """The key that leads to the text of an answer; without one, the first key."""
    # A changed `index` or `role` would be a change of form, not of an answer.
    return next((key for key in _WAY_TO_TEXT if value.get(key)), next(iter(value)))
