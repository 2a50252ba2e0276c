# SPDX-License-Identifier: Apache-2.0
"""Proves the comparison in every run: one answer is changed in memory, and must be found. Pure.

A gate whose comparison is broken passes everything; so the very functions that decide are shown a difference that is known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.compare import Kind, Start, classify
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.load.canonical import digest
from ci_doctor.model.verdict import Verdict

# As many characters as an answer may differ by from those of other starts; one that nobody gave is taken.
_MARKS = tuple(map(chr, range(0x2600, 0x2640)))


def canary_found(experiment: Experiment, requests: Sequence[str]) -> bool:
    """Whether a candidate answer that is changed by one character is found; True where there is none to change."""
    result = next((each for each in experiment.compared if _is_answered(each.start)), None)
    if result is None:
        return True
    request = next(request for request, answer in result.start.answers.items() if answer is not None)
    output = experiment.outputs[next(iter(result.digests[request].values()))]
    return canary(experiment.starts, requests, experiment.rules, result.start, request, output)


def _is_answered(start: Start) -> bool:
    return start.arm is Arm.CANDIDATE and not start.outside and start.answered > 0


def canary(
    starts: Sequence[Start],
    requests: Sequence[str],
    rules: Rules,
    start: Start,
    request: str,
    output: Mapping[str, Any],
) -> bool:
    """Whether `output`, the answer of `start` to `request`, is told from itself with one character changed.

    The changed digest must differ, the request must be of a kind that says "not equal", and the verdict must not be
    `pass`.
    """
    taken = {start.answers.get(request) for start in starts} | {digest(dict(output))}
    changed = next((made for mark in _MARKS if (made := digest(_changed(dict(output), mark))) not in taken), None)
    if changed is None:
        return False
    flipped = replace(start, answers={**start.answers, request: changed})
    shown = [flipped if each is start else each for each in starts]
    kind = classify([request], shown)[request]
    verdict = decide(shown, requests, replace(rules, policy=type(rules.policy).CONTROL), complete=True).verdict
    return kind is not Kind.EQUAL and verdict is not Verdict.PASS


def _changed(value: Any, mark: str) -> Any:
    """A copy whose first text ends with `mark` instead of its last character, or holds it where there is no text."""
    if isinstance(value, str):
        return f"{value[:-1]}{mark}"
    if isinstance(value, dict) and value:
        key = next((key for key in ("choices", "message", "text", "content") if value.get(key)), next(iter(value)))
        return {**value, key: _changed(value[key], mark)}
    if isinstance(value, list) and value:
        return [_changed(value[0], mark), *value[1:]]
    return [value, mark]
