# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import (
    ArmStart,
    DifferenceKind,
    classify,
    clusters,
    explain,
)

A, B = Arm.BASELINE, Arm.CANDIDATE


def starts(baseline: list[str | None], candidate: list[str | None]) -> list[ArmStart]:
    """A start an answer, to the one request `r`."""
    return [
        ArmStart(arm=arm, number=number, answers={"r": answer})
        for arm, answers in ((A, baseline), (B, candidate))
        for number, answer in enumerate(answers, start=1)
    ]


@pytest.mark.parametrize(
    ("baseline", "candidate", "kind"),
    [
        (["x"], ["x"], DifferenceKind.EQUAL),
        (["x"], ["y"], DifferenceKind.CHANGED),
        (["x"], [None], DifferenceKind.CHANGED),
        (["x"], ["x", "y"], DifferenceKind.SOMETIMES),
        (["x"], ["x", None], DifferenceKind.SOMETIMES),
        (["x", "y"], ["y"], DifferenceKind.FLAKY),
        (["x", None], ["x"], DifferenceKind.FLAKY),
        (["x", "y"], ["z"], DifferenceKind.OWN),
        (["x", "y"], ["x", "z"], DifferenceKind.OWN),
        (["x", None], [None], DifferenceKind.OWN),
        ([None], ["x"], DifferenceKind.UNANSWERED),
        ([None], [None], DifferenceKind.UNANSWERED),
        (["x"], [], DifferenceKind.UNANSWERED),
        ([], ["x"], DifferenceKind.UNANSWERED),
        ([], [], DifferenceKind.UNANSWERED),
    ],
)
def test_how_the_arms_stand_to_each_other(
    baseline: list[str | None], candidate: list[str | None], kind: DifferenceKind
) -> None:
    assert classify(["r"], starts(baseline, candidate)) == {"r": kind}


def test_a_request_that_no_start_knows_is_unanswered() -> None:
    assert classify(["other"], starts(["x"], ["x"])) == {"other": DifferenceKind.UNANSWERED}


def test_a_start_that_failed_for_an_outside_reason_does_not_count() -> None:
    outside = ArmStart(arm=B, number=2, answers={"r": None}, failed=True, outside=True)
    assert classify(["r"], [*starts(["x"], ["x"]), outside]) == {"r": DifferenceKind.EQUAL}
    assert clusters([*starts(["x"], ["x"]), outside]) == (("A1", "B1"),)


def test_clusters_are_the_starts_that_answered_everything_alike() -> None:
    assert clusters(starts(["x", "y"], ["y", None, None])) == (("A1",), ("A2", "B1"), ("B2", "B3"))


def test_every_kind_has_its_words() -> None:
    assert len({explain(kind) for kind in DifferenceKind}) == len(DifferenceKind)
