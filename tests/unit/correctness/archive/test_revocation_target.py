# SPDX-License-Identifier: Apache-2.0
"""Which commit or build a word names; a word that could mean two is refused."""

import pytest

from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.archive.revocation_target import revocation_target
from ci_doctor.correctness.archive.surveyed_start import SurveyedStart
from ci_doctor.errors import UsageError

ONE = "abcdef0" + "1" * 33
TWO = "abcdef0" + "2" * 33
BASE = "9" * 40


def start(number: int, origin: BuildOrigin | None) -> SurveyedStart:
    return SurveyedStart(
        file=f"identity-x/start-{number}.jsonl.gz",
        recorded_at="2026-11-21T07:50:12Z",
        build=f"build {number} of main",
        origin=origin,
    )


STARTS = (
    start(43, BuildOrigin(id="0190-43-x", number=43, commit=TWO, baseline_commit=BASE)),
    start(42, BuildOrigin(id="0190-42-x", number=42, commit=ONE, baseline_commit=BASE)),
    start(42, BuildOrigin(id="0190-42-x", number=42, commit=ONE, baseline_commit=BASE)),
    start(41, None),
)


@pytest.mark.parametrize(
    ("word", "commit", "build", "count"),
    [
        pytest.param(ONE, ONE, None, 2, id="commit"),
        pytest.param(ONE[:8], ONE, None, 2, id="beginning-of-a-commit"),
        pytest.param(ONE[:8].upper(), ONE, None, 2, id="capitals"),
        pytest.param(BASE[:7], BASE, None, 3, id="commit-of-the-baseline"),
        pytest.param("0190-42-x", None, "0190-42-x", 2, id="build"),
        pytest.param("0190-43", None, "0190-43-x", 1, id="beginning-of-a-build"),
        pytest.param("42", None, "0190-42-x", 2, id="number"),
    ],
)
def test_a_word_names_a_commit_or_a_build(
    word: str, commit: str | None, build: str | None, count: int
) -> None:
    target = revocation_target(word, STARTS)
    assert (target.commit, target.build, len(target.starts)) == (commit, build, count)


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        pytest.param("abcdef0", "names several", "write more", id="ambiguous"),
        pytest.param("abcdef01f", "holds no start", f"commit {TWO[:12]}", id="near"),
        pytest.param("abcdef", "holds no start", "at least 7 characters", id="too-short"),
        pytest.param("fffffff", "holds no start", "the newest are", id="unknown"),
        pytest.param("44", "holds no start", "the newest are", id="unknown-number"),
        pytest.param("", "holds no start", "at least 7 characters", id="nothing"),
    ],
)
def test_any_other_word_is_refused_with_what_there_is(word: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        revocation_target(word, STARTS)
    assert hint in str(error.value.hint)


def test_two_builds_of_one_number_are_told_apart_by_their_id() -> None:
    other = start(42, BuildOrigin(id="0191-of-another-pipeline", number=42))
    with pytest.raises(UsageError, match="names several"):
        revocation_target("42", (*STARTS, other))


def test_starts_that_name_no_build_can_only_be_removed() -> None:
    with pytest.raises(UsageError) as error:
        revocation_target("abcdef01", STARTS[3:])
    assert "remove its file" in str(error.value.hint)
