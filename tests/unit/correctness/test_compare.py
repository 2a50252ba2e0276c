# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.correctness.compare import Kind, Start, classify, clusters, explain, first_divergence
from ci_doctor.correctness.settings import Arm

A, B = Arm.BASELINE, Arm.CANDIDATE


def starts(baseline: list[str | None], candidate: list[str | None]) -> list[Start]:
    """A start an answer, to the one request `r`."""
    return [
        Start(arm=arm, number=number, answers={"r": answer})
        for arm, answers in ((A, baseline), (B, candidate))
        for number, answer in enumerate(answers, start=1)
    ]


@pytest.mark.parametrize(
    ("baseline", "candidate", "kind"),
    [
        (["x"], ["x"], Kind.EQUAL),
        (["x"], ["y"], Kind.CHANGED),
        (["x"], [None], Kind.CHANGED),
        (["x"], ["x", "y"], Kind.SOMETIMES),
        (["x"], ["x", None], Kind.SOMETIMES),
        (["x", "y"], ["y"], Kind.FLAKY),
        (["x", None], ["x"], Kind.FLAKY),
        (["x", "y"], ["z"], Kind.OWN),
        (["x", "y"], ["x", "z"], Kind.OWN),
        (["x", None], [None], Kind.OWN),
        ([None], ["x"], Kind.UNANSWERED),
        ([None], [None], Kind.UNANSWERED),
        (["x"], [], Kind.UNANSWERED),
        ([], ["x"], Kind.UNANSWERED),
        ([], [], Kind.UNANSWERED),
    ],
)
def test_how_the_arms_stand_to_each_other(baseline: list[str | None], candidate: list[str | None], kind: Kind) -> None:
    assert classify(["r"], starts(baseline, candidate)) == {"r": kind}


def test_a_request_that_no_start_knows_is_unanswered() -> None:
    assert classify(["other"], starts(["x"], ["x"])) == {"other": Kind.UNANSWERED}


def test_a_start_that_failed_for_an_outside_reason_does_not_count() -> None:
    outside = Start(arm=B, number=2, answers={"r": None}, failed=True, outside=True)
    assert classify(["r"], [*starts(["x"], ["x"]), outside]) == {"r": Kind.EQUAL}
    assert clusters([*starts(["x"], ["x"]), outside]) == (("A1", "B1"),)


def test_clusters_are_the_starts_that_answered_everything_alike() -> None:
    assert clusters(starts(["x", "y"], ["y", None, None])) == (("A1",), ("A2", "B1"), ("B2", "B3"))


def output(text: str = "said", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, **fields}], "completion_tokens": 3}


def test_the_first_differing_character_is_found_with_its_surroundings() -> None:
    found = first_divergence("r", output("one two three"), output("one two four"), width=5)
    assert (found.field, found.position) == ("text", 8)
    assert (found.before, found.baseline, found.candidate) == (" two ", "three", "four")


def test_an_answer_that_goes_on_parts_where_the_other_ends() -> None:
    found = first_divergence("r", output("one"), output("one two"))
    assert (found.position, found.baseline, found.candidate) == (3, "", " two")


@pytest.mark.parametrize(
    ("baseline", "candidate", "field"),
    [
        (output(finish_reason="stop"), output(finish_reason="length"), "choices[0].finish_reason"),
        (output(logprobs=[1, 2]), output(logprobs=[1, 3]), "choices[0].logprobs[1]"),
        (output(logprobs=[1, 2]), output(logprobs=[1]), "len(choices[0].logprobs)"),
        (output(logprobs=[0.0, 1]), output(logprobs=[-0.0, 1]), "choices[0].logprobs[0]"),
        (output(logprobs=[1, 1]), output(logprobs=[1, 1.0]), "choices[0].logprobs[1]"),
        (output(), {**output(), "completion_tokens": 4}, "completion_tokens"),
        (output(), output(stop_reason=2), "choices[0].stop_reason"),
    ],
)
def test_where_the_texts_agree_the_field_is_named(
    baseline: dict[str, Any], candidate: dict[str, Any], field: str
) -> None:
    found = first_divergence("r", baseline, candidate)
    assert found.field == field
    assert found.baseline != found.candidate


def test_a_lone_surrogate_can_be_shown() -> None:
    found = first_divergence("r", output("\ud800a"), output("\ud800b"))
    assert (found.before, found.baseline) == ("\\ud800", "a")


def test_every_kind_has_its_words() -> None:
    assert len({explain(kind) for kind in Kind}) == len(Kind)
