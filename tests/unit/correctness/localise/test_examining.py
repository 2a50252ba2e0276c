# SPDX-License-Identifier: Apache-2.0
"""A cause foretells what later starts show; each of its conditions counts for itself."""

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import Cause
from ci_doctor.correctness.localise.examining import chance, examined, mixed, telling_order
from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.traits import CausePart, SendTable
from tests.unit.correctness.localise.subjects import (
    BODIES,
    MIXED,
    Body,
    prompted,
    searched,
    sends_of,
    subject,
)

ANY = CausePart("any", "any request", 0, -1)


def part(words: str, places: Sequence[int]) -> CausePart:
    return CausePart(words, words, 1, sum(1 << at for at in places))


def test_all_that_differ_are_among_those_with_a_condition_by_chance_as_often_as_fisher_says() -> (
    None
):
    assert chance(differing=3, of=3, equal=3) == 1 / 20
    assert chance(differing=1, of=1, equal=99) == 1 / 100
    # Where all sends have the condition, nothing is shown of it.
    assert chance(differing=5, of=5, equal=0) == 1


def test_of_two_conditions_that_come_together_alone_neither_is_tested() -> None:
    """It differs behind the 5th send, and each of these comes after a certain other: either may be idle."""
    requests = prompted(f"r{at}" for at in range(12))
    lane = sends_of(*((f"r{at}", at > 5, "x") for at in range(12)))
    table = SendTable([lane], requests, requests, {})
    late, after = part("late", range(6, 12)), part("after", range(6, 12))
    both = CausePart("both", "both", 2, late.mask, both=(late, after))
    for context, is_passed in ((late, True), (both, False)):
        cause = Cause(target=ANY, context=context)
        exam = examined(cause, table, [(0, len(lane))], table.wrong, (1 << 12) - 1)
        assert exam.is_passed is is_passed


def test_of_two_orders_the_one_is_sent_that_parts_the_cause_from_another() -> None:
    """In both orders it foretells five of ten to differ; of the second one the rival foretells something else."""
    requests = prompted(f"r{at}" for at in range(20))
    sends = [
        replace(each, wrong=None) for each in sends_of(*((name, False, "x") for name in requests))
    ]
    table = SendTable([sends[:10], sends[10:]], requests, requests, {})
    cause = Cause(target=ANY, context=part("the cause", [*range(5), *range(10, 15)]))
    rival = Cause(target=ANY, context=part("the rival", [*range(5), *range(12, 17)]))
    assert telling_order(cause, [rival], table, [0, 10, 20]) == 1
    assert telling_order(cause, [], table, [0, 10, 20]) == 0
    unsure = replace(rival, context=replace(rival.context, unsure=-1))
    assert telling_order(cause, [unsure], table, [0, 10, 20]) == 0


def test_what_a_request_holds_is_not_tested_by_the_same_request_again() -> None:
    requests = prompted("abc")
    lane = sends_of(*(("abc"[at % 3], at % 3 == 0, "x") for at in range(30)))
    table = SendTable([lane], requests, requests, {})
    cause = Cause(target=part("with a", range(0, 30, 3)), context=ANY)
    exam = examined(cause, table, [(0, 30)], table.wrong, (1 << 30) - 1)
    assert exam.chance == 1 / 3


def test_requests_are_mixed_of_two_of_one_api_with_what_belongs_together() -> None:
    bodies: list[Body] = [
        *MIXED,
        {"prompt": "Go on.", "stream": True, "stream_options": {"include_usage": True}},
    ]
    of = subject(bodies=bodies)
    made = mixed(of.requests, of.request, random.Random(0), 1)
    prompts = {str(each.body.get("prompt")) for each in of.requests}
    assert any("prompt" in each.body and str(each.body["prompt"]) not in prompts for each in made)
    for each in made:
        assert ("messages" in each.body) == (each.path == "/v1/chat/completions")
        assert ("stream" in each.body) == ("stream_options" in each.body)


def test_a_cause_is_tested_once_it_has_foretold_later_sends() -> None:
    bodies = [{**each, "stop": ["#"]} if at in {1, 5} else each for at, each in enumerate(BODIES)]
    search = searched(subject(["r1", "r5"], bodies), lambda _b, x, _w: "stop" in x)
    conclusion = search.conclusion()
    assert conclusion.cause == "requests with `stop` differ (only `stop` ['#'] was sent)"
    assert conclusion.is_tested
    assert min(conclusion.exam.differing, conclusion.exam.equal) > 1


def test_an_examination_sends_what_parts_the_cause_from_others_that_fit() -> None:
    """All that is sampled has another `top_k`, too; what is sampled before is the cause."""
    sampled, shared = {"temperature": 0.7, "top_k": 40}, {"prompt": "What is up here?"}
    bodies = [
        *({**each, "temperature": 0} for each in BODIES),
        {**shared, "max_tokens": 20, **sampled},
        {**shared, "max_tokens": 21, "temperature": 0},
        {**shared, "max_tokens": 22, **sampled},
    ]

    def kept(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        came = [each for each in before if each["prompt"] == body["prompt"]]
        return not body.get("temperature") and any(each.get("temperature") for each in came)

    conclusion = searched(subject(["r8"], bodies), kept).conclusion()
    assert conclusion.cause is not None
    assert "top_k" not in " ".join([conclusion.cause, *conclusion.rivals])


def with_both(key: str) -> LocalisationSearch:
    """The search for a fault of `stop` and another key, which three requests have."""
    bodies = [{**each, key: "one"} if at in {1, 3, 5} else each for at, each in enumerate(BODIES)]
    return searched(subject(["r5"], bodies), lambda _b, x, _w: {"stop", key} <= x.keys())


@pytest.mark.nightly
def test_what_no_copy_lacks_is_tested_by_mixed_requests() -> None:
    """Copies of a request keep its user."""
    search = with_both("user")
    conclusion = search.conclusion()
    assert conclusion.cause != "requests with `stop` differ" or not conclusion.is_tested, conclusion
    assert any(name.startswith("mix ") for each in search.results for name in each.trial.names)


@pytest.mark.nightly
def test_an_adapter_is_a_parameter_where_some_requests_have_none() -> None:
    cause = "requests with `model` and `stop` differ (only `stop` ['#'] was sent)"
    assert with_both("model").conclusion().cause == cause
