# SPDX-License-Identifier: Apache-2.0
"""Proves the comparison in every run: one answer is changed in memory and must be detected. Pure.

A gate with a broken comparison passes everything. So the very functions that decide get a
difference that is certain.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.tally import outcome
from ci_doctor.correctness.verdict.compare import (
    Answer,
    ArmStart,
    DifferenceKind,
    classify,
    outcomes,
)
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.errors import InfraError
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
    result = _first_answered_candidate(experiment)
    if result is None:
        return True
    start = result.start
    request = next(request for request, answer in start.answers.items() if answer)
    digests = result.digests[request]
    # Any answer will do: all of them go through the same comparison.
    number, first = next(iter(digests.items()))

    def over_passes(changed: str) -> Answer:
        return outcome({**digests, number: changed}, len(digests))

    try:
        output = experiment.outputs[first]
    except (KeyError, InfraError):
        return False
    return canary(
        experiment.starts, requests, experiment.rules, start, request, output, over_passes
    )


def _first_answered_candidate(experiment: Experiment) -> StartResult | None:
    for result in experiment.compared:
        start = result.start
        if start.arm is Arm.CANDIDATE and not start.outside and start.answered > 0:
            return result
    return None


def canary(  # noqa: PLR0913, PLR0917 - an answer, whose it is, and what it is compared with
    starts: Sequence[ArmStart],
    requests: Sequence[str],
    rules: Rules,
    start: ArmStart,
    request: str,
    output: Mapping[str, Any],
    over_passes: Callable[[str], Answer] = str,
) -> bool:
    """Whether the comparison notices one changed character in `output`.

    That is the answer of `start` to `request`; `over_passes` turns the changed digest into the
    start's outcome. The outcome must differ, the kind of the request must not be "equal", and the
    verdict must not be `pass`.
    """
    changed = _unused_outcome(starts, request, output, over_passes)
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
    over_passes: Callable[[str], Answer],
) -> Answer:
    """The outcome of the changed answer; None if every change gives an outcome that exists."""
    taken = outcomes(starts, request)
    taken.add(over_passes(digest(dict(output))))
    for mark in _MARKS:
        changed = over_passes(digest(_changed(dict(output), mark)))
        if changed not in taken:
            return changed
    return None


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
    for key in _WAY_TO_TEXT:
        # A changed `index` or `role` would be a change of form, not of an answer.
        if value.get(key):
            return key
    return next(iter(value))
