# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.verdict.starts import ControlTry, control_outcome, with_inside
from ci_doctor.model.facts.correctness import ControlOutcome, ControlResult

CHANGED = ControlTry(request="r0", telling=True, same=False)
SAME = ControlTry(request="r1", telling=True, same=True)
LABEL = ControlTry(request="r2", telling=False, same=True)
FAILED = ControlTry(request="r3", telling=True, error="HTTP 500")


@pytest.mark.parametrize(
    ("tries", "result", "request_id"),
    [
        ([], ControlResult.IMPOSSIBLE, ""),
        ([CHANGED], ControlResult.CHANGED, "r0"),
        ([SAME, CHANGED], ControlResult.CHANGED, "r0"),
        ([FAILED, CHANGED], ControlResult.CHANGED, "r0"),
        ([SAME, SAME], ControlResult.SAME, "r1"),
        ([SAME, FAILED], ControlResult.SAME, "r1"),
        ([LABEL, SAME], ControlResult.SAME, "r1"),
        ([LABEL, LABEL], ControlResult.UNDECIDED, "r2"),
        ([LABEL, FAILED], ControlResult.UNDECIDED, "r2"),
        ([FAILED, FAILED], ControlResult.UNANSWERED, "r3"),
    ],
)
def test_only_a_changed_answer_shows_that_a_prompt_was_read(
    tries: list[ControlTry], result: ControlResult, request_id: str
) -> None:
    outcome = control_outcome(tries)
    assert (outcome.result, outcome.request) == (result, request_id)
    assert outcome.in_words()


def test_the_error_of_a_control_is_told() -> None:
    assert "HTTP 500" in control_outcome([FAILED]).in_words()


@pytest.mark.parametrize(
    ("same", "result"),
    [
        ((True, True), ControlResult.PARTLY),
        ((True, False), ControlResult.CHANGED),
        ((None, None), ControlResult.CHANGED),
    ],
)
def test_a_prompt_with_another_middle_must_change_the_answer_too(
    same: tuple[bool | None, ...], result: ControlResult
) -> None:
    changed = ControlOutcome(result=ControlResult.CHANGED, request="r0")
    tries = []
    for each in same:
        error = "no answer" if each is None else None
        tries.append(ControlTry(request="r1", telling=True, same=each, error=error))
    assert with_inside(changed, tries).result is result
