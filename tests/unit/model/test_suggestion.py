# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.suggestion import did_you_mean


@pytest.mark.parametrize(
    ("word", "names", "hint"),
    [
        ("retrys", ["requests", "retries"], "did you mean `retries`?"),
        ("x", ["b", "a"], "known names: a, b"),
        ("x", [], None),
        ("", ["a"], "known names: a"),
    ],
)
def test_the_nearest_name_or_all_of_them(word: str, names: list[str], hint: str | None) -> None:
    assert did_you_mean(word, names) == hint
    assert did_you_mean(word, iter(reversed(names))) == hint
