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


def after_another(_prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return bool(before)


def after_another_prompt(prompt: str, _concurrency: int, before: Sequence[str]) -> bool:
    return any(each[0] != prompt[0] for each in before)


def in_a_batch(_prompt: str, concurrency: int, _before: Sequence[str]) -> bool:
    return concurrency > 1


def in_a_full_batch(_prompt: str, concurrency: int, _before: Sequence[str]) -> bool:
    return concurrency > 3


@pytest.mark.parametrize(
    ("fault", "first_pass", "condition"),
    [
        (always, True, ReducedCondition(request="r0", prefix=1)),
        (whole_prompt_of_r0, True, ALONE),
        (long_prompts, True, ReducedCondition(request="r0", prefix=32)),
        (asked_before, False, ReducedCondition(request="r0", prefix=1, passes=2)),
        (beginning_asked_before, False, ReducedCondition(request="r0", prefix=1, passes=2)),
        (after_another, True, ReducedCondition(request="r0", prefix=1, passes=2)),
        (after_another_prompt, True, ReducedCondition()),
        (in_a_batch, True, ReducedCondition(concurrency=2)),
        (in_a_full_batch, True, ReducedCondition(concurrency=4)),
    ],
)
def test_two_pairs_of_starts_and_one_to_confirm_find_the_smallest_condition(
    fault: Fault, first_pass: bool, condition: ReducedCondition
) -> None:
    found = smallest(searched(subject(), fault, first_pass=first_pass, pairs=3))
    assert found is not None
    assert (found.condition, found.fresh) == (condition, True)


def test_a_cache_that_answers_a_known_beginning_wrongly_is_not_taken_for_a_short_prompt() -> None:
    # In the first pair every shorter prompt is wrong in its first pass, because the whole one came before.
    results = searched(subject(), beginning_asked_before, first_pass=False, pairs=1)
    before = smallest(results)
    assert before is not None
    assert (before.condition.passes, before.fresh) == (1, False)
    results = searched(subject(), beginning_asked_before, first_pass=False, pairs=2)
    first = ReducedCondition(request="r0", prefix=1)
    (short,) = (each for each in results if each.condition == first)
    assert short.standing is ReducedStanding.EQUAL
    assert "after other requests" in short.why
    # The other lengths are of the same kind, and none of them is tried again.
    assert next_steps(subject(), results) == ()


def test_one_pair_is_enough_for_a_request_whose_whole_prompt_differs_alone() -> None:
    results = searched(subject(), whole_prompt_of_r0, first_pass=True, pairs=1)
    assert next_steps(subject(), results) == ()


def test_one_pass_sends_nothing_twice() -> None:
    one = subject(passes=1)
    for step in next_steps(one, of_experiment(one, first_pass=True)):
        assert step.condition.passes == 1


def test_only_what_stands_first_in_a_start_is_fresh_and_the_longest_prompt_comes_first() -> None:
    steps = next_steps(subject(), of_experiment(subject(), first_pass=True))
    assert [step.fresh for step in steps[:4]] == [True, True, False, False]
    assert [step.condition.prefix for step in steps[::2]] == [None, 32, 16, 8, 4, 2, 1]
    # What is not fresh is made as fresh as the server's own reset can.
    assert [step.sent.resets for step in steps[:4]] == [False, True, True, True]


def test_a_prompt_that_cannot_be_cut_is_sent_whole() -> None:
    whole = subject(length=None)
    steps = next_steps(whole, of_experiment(whole, first_pass=True))
    assert [step.condition for step in steps] == [ALONE, ReducedCondition(request="r0", passes=2)]


def tried(of: LocalisedDifference, *conditions: ReducedCondition) -> tuple[ReducedResult, ...]:
    equal = [ReducedResult(condition=each, standing=ReducedStanding.EQUAL) for each in conditions]
    return merged(of_experiment(of, first_pass=True), equal)


def test_one_request_or_one_at_a_time_leaves_nothing_to_try_after_the_first_pair() -> None:
    single = subject(requests=(subject().request,), concurrency=1)
    assert next_steps(single, tried(single, single.alone)) == ()
    slow = subject(concurrency=1)
    assert next_steps(slow, tried(slow, slow.alone)) == ()


def test_what_needs_a_second_pass_is_looked_for_in_a_second_pass_at_each_concurrency() -> None:
    equal = ReducedResult(condition=ALONE, standing=ReducedStanding.EQUAL)
    results = merged(of_experiment(subject(), first_pass=False), (equal,))
    steps = next_steps(subject(), results)
    conditions = [(step.condition.concurrency, step.condition.passes) for step in steps]
    assert conditions == [(1, 1), (1, 2), (2, 2)]
