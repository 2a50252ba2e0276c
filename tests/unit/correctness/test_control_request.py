# SPDX-License-Identifier: Apache-2.0
from typing import Any

from ci_doctor.correctness.control_request import control_requests, inside_requests, is_due
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart, ControlOutcome, ControlResult
from ci_doctor.load.requests import Request


def asked(identity: str, **body: Any) -> Request:
    return Request(id=identity, path="/v1/completions", body=body, line=1)


FIRST = asked("r0", prompt="one")
SECOND = asked("r1", prompt="two")
LABEL = asked("r2", prompt="three", max_tokens=1)


def test_the_answer_with_the_most_different_words_is_taken_and_then_another_prompt() -> None:
    variety = {"r0": (3, 90), "r1": (7, 40), "r2": (9, 99)}
    controls = list(control_requests([FIRST, SECOND, LABEL], variety))
    assert [each.original for each in controls] == ["r1", "r0"]
    assert [each.request.id for each in controls] == ["control:r1", "control:r0"]
    assert all(each.telling for each in controls), "a label would tell little"


def test_of_equal_answers_the_first_of_the_file_is_taken() -> None:
    controls = list(control_requests([FIRST, SECOND], {"r0": (2, 9), "r1": (2, 9)}))
    assert controls[0].original == "r0"


def test_one_request_gives_two_different_controls() -> None:
    first, second = control_requests([FIRST], {"r0": (1, 1)})
    assert first.request.body != second.request.body
    assert {first.original, second.original} == {"r0"}


def test_a_request_without_an_answer_or_a_prompt_gives_none() -> None:
    assert not list(control_requests([FIRST], {}))
    assert not list(control_requests([asked("r9", prompt_embeds="AA")], {"r9": (1, 1)}))


def test_a_label_tells_nothing_by_its_words() -> None:
    (first, _) = control_requests([LABEL], {"r2": (1, 1)})
    assert not first.telling
    assert not first.by_tokens


def test_a_word_that_a_system_message_may_demand_tells_nothing() -> None:
    user = {"role": "user", "content": "one"}
    body = {"messages": [{"role": "system", "content": "yes or no?"}, user]}
    chat = Request(id="c", path="/v1/chat/completions", body=body, line=1)
    assert not next(control_requests([chat], {"c": (1, 3)})).telling
    assert next(control_requests([chat], {"c": (5, 30)})).telling


def test_an_answer_that_repeats_the_prompt_is_no_control() -> None:
    assert not list(control_requests([asked("r9", prompt="x", echo=True)], {"r9": (9, 99)}))


def test_vectors_are_compared_by_their_numbers_and_tell() -> None:
    request = Request(id="e", path="/v1/embeddings", body={"input": "x"}, line=1)
    (first, _) = control_requests([request], {"e": (1, 1)})
    assert first.telling
    assert not first.by_tokens


def test_an_arm_gets_controls_until_one_decides() -> None:
    changed = ControlOutcome(result=ControlResult.CHANGED, request="r0")
    unanswered = ControlOutcome(result=ControlResult.UNANSWERED, request="r0", error="HTTP 500")
    starts = [ArmStart(arm=Arm.BASELINE, number=1, control=unanswered)]
    assert is_due(Arm.BASELINE, starts)
    starts.append(ArmStart(arm=Arm.BASELINE, number=2, control=changed))
    assert not is_due(Arm.BASELINE, starts)
    assert is_due(Arm.CANDIDATE, starts)


def test_another_middle_is_tried_in_two_short_prompts_and_in_two_long_ones() -> None:
    prompts = ["Hello there", *("Name a river and " + "a lake and " * count for count in (3, 5, 7))]
    asked_for = [asked(f"r{number}", prompt=each) for number, each in enumerate(prompts)]
    asked_for.append(asked("r9", prompt="a prompt that a server may cut " * 20))
    groups = list(inside_requests(asked_for, {each.id: (9, 40) for each in asked_for}))
    assert [[each.original for each in group] for group in groups] == [["r1", "r2"], ["r3", "r2"]]
    for control in (control for group in groups for control in group):
        original = next(each for each in asked_for if each.id == control.original)
        before, after = original.body["prompt"], control.request.body["prompt"]
        third = len(before) // 3
        assert len(after) == len(before)
        assert after != before
        assert (after[:third], after[-third:]) == (before[:third], before[-third:])


def test_a_label_has_no_control_inside() -> None:
    labels = [asked(f"r{number}", prompt=f"prompt {number}", max_tokens=1) for number in range(4)]
    assert not list(inside_requests(labels, {each.id: (1, 4) for each in labels}))
