# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import pytest

from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
    ReducedCondition,
    ReducedResult,
    ReducedStanding,
    merged,
    smallest,
)
from ci_doctor.correctness.localise.steps import next_steps
from ci_doctor.load.requests import Request
from tests.unit.correctness.localise.subjects import Fault, of_experiment, searched, subject

ALONE = ReducedCondition(request="r0")


def always(_prompt: str, _concurrency: int, _before: Sequence[str]) -> bool:
    return True


def whole_prompt_of_r0(prompt: str, _concurrency: int, _before: Sequence[str]) -> bool:
    return prompt == "a" * 64


def long_prompts(prompt: str, _concurrency: int, _before: Sequence[str]) -> bool:
    return len(prompt) > 20


def asked_before(prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return prompt in before


def beginning_asked_before(prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return any(each.startswith(prompt[:16]) for each in before)


def in_a_batch(_prompt: str, concurrency: int, _before: Sequence[str]) -> bool:
    return concurrency > 1


def in_a_full_batch(_prompt: str, concurrency: int, _before: Sequence[str]) -> bool:
    return concurrency > 3


def beginning_of_another(prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return any(each[:8] == prompt[:8] and each != prompt for each in before)


def from_the_tenth(_prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return len(before) >= 9


def the_first_answer(_prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return not before


def after_two(prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return prompt[0] == "d" and {"b" * 64, "c" * 64} <= set(before)


@pytest.mark.parametrize(
    ("fault", "first_pass", "condition"),
    [
        (always, True, ReducedCondition(request="r0", prefix=1)),
        (whole_prompt_of_r0, True, ALONE),
        (long_prompts, True, ReducedCondition(request="r0", prefix=32)),
        (the_first_answer, True, ALONE),
        (asked_before, False, ReducedCondition(request="r0", passes=2)),
        (beginning_asked_before, False, ReducedCondition(request="r0", passes=2)),
        (from_the_tenth, False, ReducedCondition(request="r0", passes=10)),
        (after_two, True, ReducedCondition(request="r3", before=("r1", "r2"))),
        (in_a_batch, True, ReducedCondition(request="r0", beside=("r1",), concurrency=2)),
        (
            in_a_full_batch,
            True,
            ReducedCondition(request="r0", beside=("r1", "r2", "r3"), concurrency=4),
        ),
    ],
)
def test_starts_that_get_nothing_else_find_the_smallest_condition(
    fault: Fault, first_pass: bool, condition: ReducedCondition
) -> None:
    found = smallest(searched(subject(), fault, first_pass=first_pass, pairs=6))
    assert found is not None
    assert found.fresh
    assert found.condition in {condition, _in_other_words(condition)}


def _in_other_words(condition: ReducedCondition) -> ReducedCondition:
    """Sent again, or after as many others: both have the same size."""
    others = ("r1", "r2", "r3", "r4")[: condition.passes - 1]
    return ReducedCondition(request=condition.request, before=others)


def test_a_cache_of_beginnings_is_localised_to_the_two_prompts_that_share_one() -> None:
    requests = tuple(
        Request(id=f"r{number}", path="/v1/completions", body={"prompt": prompt}, line=number + 1)
        for number, prompt in enumerate(("once upon a time", "x", "y", "once upon a hill"))
    )
    of = subject(request=requests[3], requests=requests, differing=("r3",))
    found = smallest(searched(of, beginning_of_another, first_pass=True, pairs=6))
    assert found is not None
    assert found.condition == ReducedCondition(request="r3", before=("r0",))


def test_the_first_answer_of_a_start_differs_whichever_request_it_answers() -> None:
    results = searched(subject(), the_first_answer, first_pass=True, pairs=6)
    standing = {each.condition: each.standing for each in results}
    assert standing[ReducedCondition(request="r1")] is ReducedStanding.DIFFERS
    assert standing[ReducedCondition(request="r0", before=("r1",))] is ReducedStanding.EQUAL


def test_every_length_at_the_border_is_tried_in_a_start_of_its_own() -> None:
    results = searched(subject(), long_prompts, first_pass=True, pairs=6)
    fresh = {each.condition.prefix for each in results if each.fresh and each.condition.request}
    assert {None, 32, 16} <= fresh


def test_a_stream_is_also_asked_for_in_one_piece() -> None:
    first = subject().request
    streamed = Request(id="r0", path=first.path, body={**first.body, "stream": True}, line=1)
    of = subject(request=streamed, requests=(streamed, *subject().requests[1:]))
    results = searched(of, always, first_pass=True, pairs=6)
    assert ReducedCondition(request="r0", without="stream") in {each.condition for each in results}


def test_the_first_pair_sends_the_request_alone_as_often_as_the_run_had_sent_any() -> None:
    steps = next_steps(subject(), of_experiment(subject(), first_pass=False))
    assert [step.condition.passes for step in steps] == list(range(1, 11))
    assert all(step.fresh and step.condition.request == "r0" for step in steps)
    assert [step.sent.resets for step in steps[:2]] == [False, True]


def tried(of: LocalisedDifference, *conditions: ReducedCondition) -> tuple[ReducedResult, ...]:
    equal = [ReducedResult(condition=each, standing=ReducedStanding.EQUAL) for each in conditions]
    return merged(of_experiment(of, first_pass=True), equal)


def test_one_request_leaves_nothing_to_try_after_the_first_pair() -> None:
    single = subject(requests=(subject().request,), concurrency=1)
    assert next_steps(single, tried(single, single.alone)) == ()


def test_what_needs_a_second_pass_is_looked_for_in_a_second_pass_at_each_concurrency() -> None:
    of = subject()
    one, two = ReducedCondition(), ReducedCondition(passes=2)
    equal = [
        ReducedResult(condition=each, standing=ReducedStanding.EQUAL) for each in (ALONE, one, two)
    ]
    results = merged(of_experiment(of, first_pass=False), equal)
    conditions = [
        (each.condition.concurrency, each.condition.passes) for each in next_steps(of, results)
    ]
    assert conditions == [(2, 1), (2, 2)]
