# SPDX-License-Identifier: Apache-2.0
"""Which starts count, and how the arms compare: the archive is off if today's baseline answers otherwise."""

import random

import pytest

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import (
    Answers,
    archive_drift,
    classify,
    clusters,
    counted,
    drift_of,
    explain,
)
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind
from ci_doctor.model.facts.correctness import ArchiveDrift

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


def answering(letters: str, request: str = "r") -> list[Answers]:
    """A start a letter; `-` is a missing answer."""
    return [{request: None if letter == "-" else letter} for letter in letters]


def archived_and_fresh(archived: str, today: str, candidate: str = "") -> list[ArmStart]:
    made = []
    for arm, letters, is_archived in (
        (Arm.BASELINE, archived, True),
        (Arm.BASELINE, today, False),
        (Arm.CANDIDATE, candidate, False),
    ):
        for number, answers in enumerate(answering(letters), 1):
            made.append(ArmStart(arm=arm, number=number, answers=answers, archived=is_archived))
    return made


@pytest.mark.parametrize(
    ("archived", "today", "drifted"),
    [
        pytest.param("aaa", "aa", False, id="all-agree"),
        pytest.param("aaa", "x", False, id="one-start-could-be-noise"),
        pytest.param("aaa", "xx", True, id="two-share-nothing"),
        pytest.param("aaa", "xy", True, id="two-share-nothing-and-differ"),
        pytest.param("aaa", "x-", True, id="a-missing-answer-is-not-shared"),
        pytest.param("aaa", "--", False, id="missing-answers-speak-of-no-machine"),
        pytest.param("aaa", "xa", False, id="one-is-shared"),
        pytest.param("abc", "xx", False, id="an-archive-that-never-repeats-itself"),
        pytest.param("", "xx", False, id="no-archive"),
    ],
)
def test_two_starts_of_today_that_share_no_answer_with_the_archive(
    archived: str, today: str, *, drifted: bool
) -> None:
    drift = archive_drift(answering(archived), answering(today))
    if drifted:
        expected = ArchiveDrift(request="r", today=len(today), p=None)
        assert drift == expected
    else:
        assert drift is None


def test_a_mix_that_chance_does_not_make_is_drift() -> None:
    # One of nine archived starts shows x; four of five today's do.
    drift = archive_drift(answering("xaaaaaaaaa" * 2), answering("xxxxa"))
    assert drift is not None
    assert drift.request == "r"
    assert drift.p is not None
    assert 0 < drift.p <= 0.01


def test_the_p_value_is_that_of_fishers_test_for_one_request() -> None:
    drift = archive_drift(answering("a" * 12), answering("xxxa"))
    assert drift is not None
    # phi^2 is largest for the 13 labelings that hold all three x, of comb(16, 4).
    assert drift.p == pytest.approx(13 / 1820)


@pytest.mark.parametrize(
    ("archived", "today"),
    [
        pytest.param("xaxaxaxaxa", "xxxa", id="modes-that-the-archive-has-too"),
        pytest.param("aaaaaaaaaaaaaaaaaaaa", "aaaax", id="one-start-of-its-own"),
        pytest.param("aaaaaa", "xxxa", id="too-few-starts-for-the-level"),
        pytest.param("aaaaaaaaaaaaaaaaaaaa", "a--", id="missing-answers"),
    ],
)
def test_what_chance_makes_is_no_drift(archived: str, today: str) -> None:
    assert archive_drift(answering(archived), answering(today)) is None


def test_the_request_that_lines_up_best_is_named() -> None:
    archived: list[Answers] = [{"noise": "ab"[i % 2], "moved": "a"} for i in range(12)]
    today: list[Answers] = [{"noise": "ab"[i % 2], "moved": "xxxa"[i]} for i in range(4)]
    drift = archive_drift(archived, today)
    assert drift is not None
    assert drift.request == "moved"


def test_noise_is_rarely_drift() -> None:
    """Exchangeable starts: at most as often as the level says (0.01), whatever the noise."""
    source = random.Random(5)
    found = 0
    for _ in range(200):
        made: list[Answers] = []
        for _ in range(16):
            rate = source.choice([0.1, 0.5])
            made.append({f"r{i}": "x" if source.random() < rate else "a" for i in range(8)})
        drift = archive_drift(made[:12], made[12:])
        found += drift is not None and drift.p is not None
    # The chance of more than 7 of 200 at 0.01 is 0.001.
    assert found <= 7


def test_archived_starts_count_unless_todays_baseline_drifted() -> None:
    same = archived_and_fresh("aaa", "aa", "x")
    assert counted(same) == same
    assert drift_of(same) is None
    other = archived_and_fresh("aaa", "xx", "x")
    assert counted(other) == other[3:]
    assert drift_of(other) == ArchiveDrift(request="r", today=2, p=None)


def test_the_candidate_does_not_speak_for_the_machine() -> None:
    other = archived_and_fresh("aaa", "a", "xxx")
    assert counted(other) == other


def test_a_start_that_failed_for_an_outside_reason_is_no_evidence_of_drift() -> None:
    outside = ArmStart(arm=Arm.BASELINE, number=2, answers={"r": "x"}, failed=True, outside=True)
    assert counted([*archived_and_fresh("aaa", "x"), outside]) == archived_and_fresh("aaa", "x")
