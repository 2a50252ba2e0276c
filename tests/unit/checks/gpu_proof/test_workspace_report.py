# SPDX-License-Identifier: Apache-2.0
"""What is said of the variable."""

import pytest
from ci_doctor.checks.gpu_proof.fisher import equal_starts_probability
from ci_doctor.checks.gpu_proof.workspace_judgement import Arms, ProductCase, ProductStart
from ci_doctor.checks.gpu_proof.workspace_report import report

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.model.finding import RemedyKind
from tests.unit.checks.gpu_proof.test_workspace_judgement import arms, starts


def _report(without: str, with_it: str) -> CheckResult:
    return report("GPU 0 (NVIDIA H200)", arms(without, with_it), looks=10)


@pytest.mark.parametrize(
    ("without", "with_it", "rule", "status"),
    [
        pytest.param(
            "a" * 10, "a" * 10, "workspace-without-effect", CheckStatus.OK, id="no-effect"
        ),
        pytest.param("aaaaaa", "bbbbbb", "workspace-changes-result", CheckStatus.OK, id="other"),
        pytest.param("abcdef", "aaaaaa", "products-vary", CheckStatus.WARNING, id="may-be-chance"),
        pytest.param("bcdefg", "aaaaaa", "workspace-needed", CheckStatus.WARNING, id="needed"),
        pytest.param("aaaaaa", "bcdefg", "workspace-harmful", CheckStatus.WARNING, id="harmful"),
        pytest.param("abab", "abab", "products-vary", CheckStatus.WARNING, id="varies"),
    ],
)
def test_rule(without: str, with_it: str, rule: str, status: CheckStatus) -> None:
    result = _report(without, with_it)

    assert [each.finding.rule for each in result.problems] == [f"doctor/{rule}"]
    assert result.status is status


def test_the_variable_is_a_remedy_to_paste_only_if_it_helped() -> None:
    needed = _report("bcdefg", "aaaaaa").problems[0].finding
    vary = _report("abab", "abab").problems[0].finding

    assert needed.remedy_kind is RemedyKind.COMMAND
    assert needed.remedy == "export CUBLAS_WORKSPACE_CONFIG=:4096:8"
    assert vary.remedy_kind is not RemedyKind.COMMAND


def test_equal_starts_state_what_they_can_miss() -> None:
    result = _report("a" * 10, "a" * 10)

    assert "25.9 % of starts" in (result.problems[0].finding.evidence[0].excerpt or "")
    missed = result.figures["missed_if_in_10_percent_of_starts"]
    assert missed == equal_starts_probability(10, 0.1)


def test_a_difference_that_chance_can_make_is_called_so() -> None:
    excerpt = _report("abcaaaaaaa", "a" * 10).problems[0].finding.evidence[0].excerpt or ""

    assert "chance alone can make this difference" in excerpt


def test_too_few_starts_are_unknown_with_the_first_failure() -> None:
    result = report("GPU 0", arms("aa", "aa"), looks=10, failures=("a start: out of memory",))

    assert result.status is CheckStatus.UNKNOWN
    assert "out of memory" in (result.unknown or "")
    assert result.problems == ()


def test_a_start_without_an_answer_leaves_the_rest_unknown() -> None:
    result = report("GPU 0", arms("a" * 9, "a" * 10), looks=10, failures=("a start: it died",))

    assert result.status is CheckStatus.UNKNOWN
    assert "1 start gave no answer: a start: it died" in (result.unknown or "")


def _skipping(starts: tuple[ProductStart, ...]) -> tuple[ProductStart, ...]:
    return tuple(
        ProductStart(cases=each.cases, inputs=each.inputs, skipped={"bf16": "NOT_SUPPORTED"})
        for each in starts
    )


def test_products_that_a_gpu_cannot_compute_are_named() -> None:
    same = Arms(without=_skipping(starts("aaa")), with_it=_skipping(starts("aaa")))

    excerpt = report("GPU 0", same, looks=10).problems[0].finding.evidence[0].excerpt or ""

    assert "not computed here: bf16 (NOT_SUPPORTED)" in excerpt


def test_a_start_that_could_compute_less_than_the_others_is_no_variation() -> None:
    more = ProductCase(digest="a", differing=1)
    less = _skipping(starts("aaa"))
    with_more = tuple(
        ProductStart(cases={**each.cases, "bf16 more": more}, inputs=each.inputs) for each in less
    )

    result = report("GPU 0", Arms(without=less, with_it=with_more), looks=10)

    assert result.status is CheckStatus.UNKNOWN
    assert "NOT_SUPPORTED" in (result.unknown or "")


def test_other_operands_are_unknown_and_no_difference() -> None:
    other = tuple(ProductStart(cases=each.cases, inputs="other") for each in starts("bbb"))
    result = report("GPU 0", Arms(without=starts("aaa"), with_it=other), looks=10)

    assert result.status is CheckStatus.UNKNOWN
    assert result.problems == ()


def test_a_few_equal_starts_do_not_claim_the_risk_of_many() -> None:
    """Three starts of a coin are equal in a quarter of all cases, and not in 5 %."""
    result = _report("aaa", "aaa")

    excerpt = result.problems[0].finding.evidence[0].excerpt or ""
    assert "appears in 50 % of starts with a probability of 25 %" in excerpt
