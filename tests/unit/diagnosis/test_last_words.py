# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.last_words import quiet_lines, sounds_like_success


@pytest.mark.parametrize(
    "texts",
    [
        ["3 passed, 0 failed"],
        ["Errors: 0", "done in 3 s"],
        ["build finished", "", "----"],
        ["no problems found, bye"],
    ],
)
def test_a_summary_without_failures_sounds_like_success(texts: list[str]) -> None:
    assert sounds_like_success(texts)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", "---"],
        ["3 passed, 1 failed"],
        ["all tests passed", "error: upload refused"],
        ["loading the model"],
        ["done, exit status 2"],
    ],
)
def test_a_word_of_failure_or_no_word_at_all_is_no_success(texts: list[str]) -> None:
    assert not sounds_like_success(texts)


def test_only_the_last_lines_count() -> None:
    assert sounds_like_success(["error: it broke", *["working"] * 20, "all done"])


def test_lines_at_the_end_that_speak_of_no_failure_are_counted() -> None:
    assert quiet_lines(["error: a", "building", "---", "data"]) == 2
    assert quiet_lines(["done", "error: a"]) == 0
