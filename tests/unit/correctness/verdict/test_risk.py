# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.verdict.risk import any_pair_risk, level, rare_bug_bound, rare_bug_risk


@pytest.mark.parametrize(
    ("smallest_p", "patterns", "expected"),
    [
        (1 / 56, 1, 0.036),
        (1 / 56, 2, 0.036),
        (1 / 56, 3, 0.02),
        # The smallest p that the starts can reach is always enough, up to alpha itself.
        (0.04, 3, 0.04),
        (0.5, 1, 0.05),
    ],
)
def test_more_patterns_use_up_more_of_the_allowed_error_rate(
    smallest_p: float, patterns: int, expected: float
) -> None:
    assert level(0.05, smallest_p, patterns) == pytest.approx(expected)


@pytest.mark.parametrize("clean", [1, 3, 8, 59])
def test_a_bug_as_frequent_as_the_bound_stays_hidden_with_probability_alpha(clean: int) -> None:
    assert (1 - rare_bug_bound(clean, 0.05)) ** clean == pytest.approx(0.05)


def test_the_sentences_name_the_figures() -> None:
    assert rare_bug_risk(1, 0.05) == (
        "a bug that shows in less than 95% of starts can hide behind 1 clean candidate start "
        "(at 95% confidence)"
    )
    assert "pass 87.5% of the time" in any_pair_risk(3)
