# SPDX-License-Identifier: Apache-2.0
"""Proves the comparison in every run: one answer is changed in memory, and must be found. Pure.

A gate whose comparison is broken passes everything; so the very functions that decide are shown a difference that is known.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.tally import outcome
from ci_doctor.correctness.verdict.compare import Answer, ArmStart, DifferenceKind, classify
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.errors import InfraError
from ci_doctor.load.canonical import digest
from ci_doctor.model.verdict import Verdict

# As many characters as an answer may differ by from those of other starts; one that nobody gave is taken.
_MARKS = tuple(map(chr, range(0x2600, 0x2640)))


def canary_found(experiment: Experiment, requests: Sequence[str]) -> bool:
    """Whether a candidate answer that is changed by one character is found; True where there is none to change.

    One that can no longer be read proves nothing: False.
    """
    result = next((each for each in experiment.compared if _is_answered(each.start)), None)
    if result is None:
        return True
    request = next(
        request for request, answer in result.start.answers.items() if answer is not None
    )
    digests = result.digests[request]
    number, first = next(iter(digests.items()))

    def over_passes(changed: str) -> Answer:
        return outcome({**digests, number: changed}, len(digests))

    try:
        output = experiment.outputs[first]
    except (KeyError, InfraError):
        return False
    return canary(
        experiment.starts, requests, experiment.rules, result.start, request, output, over_passes
    )


def _is_answered(start: ArmStart) -> bool:
    return start.arm is Arm.CANDIDATE and not start.outside and start.answered > 0


def canary(  # noqa: PLR0913, PLR0917 - what a start said, and beside what
    starts: Sequence[ArmStart],
    requests: Sequence[str],
    rules: Rules,
    start: ArmStart,
    request: str,
    output: Mapping[str, Any],
    over_passes: Callable[[str], Answer] = str,
) -> bool:
    """Whether `output`, the answer of `start` to `request`, is told from itself with one character changed.

    `over_passes` makes the start's outcome of the changed digest. That must differ, the request must be of a kind that
    says "not equal", and the verdict must not be `pass`.
    """
    taken = {start.answers.get(request) for start in starts} | {over_passes(digest(dict(output)))}
    made = (over_passes(digest(_changed(dict(output), mark))) for mark in _MARKS)
    changed = next((each for each in made if each not in taken), None)
    if changed is None:
        return False
    flipped = replace(start, answers={**start.answers, request: changed})
    shown = [flipped if each is start else each for each in starts]
    kind = classify([request], shown)[request]
    verdict = decide(shown, requests, replace(rules, policy=Policy.CONTROL), complete=True).verdict
    return kind is not DifferenceKind.EQUAL and verdict is not Verdict.PASS


def _changed(value: Any, mark: str) -> Any:
    """A copy whose first text ends with `mark` instead of its last character, or holds it where there is no text."""
    if isinstance(value, str):
        return f"{value[:-1]}{mark}"
    if isinstance(value, dict) and value:
        key = next(
            (key for key in ("choices", "message", "text", "content") if value.get(key)),
            next(iter(value)),
        )
        return {**value, key: _changed(value[key], mark)}
    if isinstance(value, list) and value:
        return [_changed(value[0], mark), *value[1:]]
    return [value, mark]
