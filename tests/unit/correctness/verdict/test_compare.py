# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Kind, Start, classify, clusters, explain

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
def test_how_the_arms_stand_to_each_other(
    baseline: list[str | None], candidate: list[str | None], kind: Kind
) -> None:
    assert classify(["r"], starts(baseline, candidate)) == {"r": kind}


def test_a_request_that_no_start_knows_is_unanswered() -> None:
    assert classify(["other"], starts(["x"], ["x"])) == {"other": Kind.UNANSWERED}


def test_a_start_that_failed_for_an_outside_reason_does_not_count() -> None:
    outside = Start(arm=B, number=2, answers={"r": None}, failed=True, outside=True)
    assert classify(["r"], [*starts(["x"], ["x"]), outside]) == {"r": Kind.EQUAL}
    assert clusters([*starts(["x"], ["x"]), outside]) == (("A1", "B1"),)


def test_clusters_are_the_starts_that_answered_everything_alike() -> None:
    assert clusters(starts(["x", "y"], ["y", None, None])) == (("A1",), ("A2", "B1"), ("B2", "B3"))


def test_every_kind_has_its_words() -> None:
    assert len({explain(kind) for kind in Kind}) == len(Kind)
