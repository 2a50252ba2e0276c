# SPDX-License-Identifier: Apache-2.0
"""Proves the comparison in every run: one answer is changed in memory and must be detected. Pure.

A gate with a broken comparison passes everything. So the very functions that decide get a
difference that is certain.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.tally import ChangedAnswer, changed_outcome
from ci_doctor.correctness.verdict.compare import classify
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.starts import Answer, ArmStart, DifferenceKind, outcomes
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

    def outcome_of(changed: Mapping[str, Any]) -> Answer:
        other = ChangedAnswer(
            request=request, number=number, output=changed, digest=digest(dict(changed))
        )
        return changed_outcome(experiment, result, other)

    try:
        output = experiment.outputs[first]
        return canary(
            experiment.starts, requests, experiment.rules, start, request, output, outcome_of
        )
    except (KeyError, InfraError):
        return False


def _own_digest(output: Mapping[str, Any]) -> Answer:
    return digest(dict(output))


def canary(  # noqa: PLR0913, PLR0917 - an answer, whose it is, and what it is compared with
    starts: Sequence[ArmStart],
    requests: Sequence[str],
    rules: Rules,
    start: ArmStart,
    request: str,
    output: Mapping[str, Any],
    outcome_of: Callable[[Mapping[str, Any]], Answer] = _own_digest,
) -> bool:
    """Whether the comparison notices one changed character in `output`.

    That is the answer of `start` to `request`; `outcome_of` turns the changed output into the
    start's outcome at the gate's level. The outcome must differ, the kind of the request must not be "equal", and the
    verdict must not be `pass`.
    """
    changed = _unused_outcome(starts, request, output, outcome_of)
    if changed is None:
        return False
    flipped = replace(start, answers={**start.answers, request: changed})
    with_canary = [flipped if each is start else each for each in starts]
    kind = classify([request], with_canary)[request]
    # Under the policy `any` another pair of starts may agree, rightly.
    strict = replace(rules, policy=Policy.CONTROL)
    verdict = decide(with_canary, requests, strict, complete=True).verdict
    return kind is not DifferenceKind.EQUAL and verdict is not Verdict.PASS


def _unused_outcome(
    starts: Sequence[ArmStart],
    request: str,
    output: Mapping[str, Any],
    outcome_of: Callable[[Mapping[str, Any]], Answer],
) -> Answer:
    """The outcome of the changed answer; None if every change gives an outcome that exists."""
    taken = outcomes(starts, request)
    taken.add(outcome_of(output))
    changed = (outcome_of(_changed_answer(output, mark)) for mark in _MARKS)
    return next((each for each in changed if each not in taken), None)


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
