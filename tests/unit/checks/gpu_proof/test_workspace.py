# SPDX-License-Identifier: Apache-2.0
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.gpu_proof import (
    ALPHA,
    Arms,
    Effect,
    ProductCase,
    ProductStart,
    compare,
    equal_starts_probability,
    fisher_p,
    is_decided,
    report,
    workspace,
)
from ci_doctor.model.outcome import RemedyKind
from tests.support.gpu_proof import proof_context, write_nvidia_smi


def prove(tmp_path: Path, **behaviour: Any) -> CheckResult:
    write_nvidia_smi(tmp_path / "bin")
    return workspace.run(proof_context(tmp_path / "bin", **behaviour))


def test_products_that_vary_only_without_the_variable_end_the_starts_early(tmp_path: Path) -> None:
    result = prove(tmp_path, varying="without")

    assert [each.finding.rule for each in result.problems] == ["doctor/workspace-needed"]
    assert (result.figures["starts_without"], result.figures["starts_with"]) == (6, 6)


def test_products_that_always_vary_end_the_starts_at_once_on_one_gpu_of_each_model(
    tmp_path: Path,
) -> None:
    result = prove(tmp_path, varying="always", devices=4)

    assert "GPU 1" not in result.summary
    assert [each.finding.rule for each in result.problems] == ["doctor/products-vary"]
    assert result.figures["starts_without"] == 3


def test_a_gpu_without_room_is_unknown_after_three_starts(tmp_path: Path) -> None:
    result = prove(tmp_path, no_room=True)

    assert result.status is CheckStatus.UNKNOWN


def test_one_start_that_dies_leaves_the_whole_unknown_and_the_others_counted(
    tmp_path: Path,
) -> None:
    result = prove(tmp_path, varying="always", dies_once=str(tmp_path / "died"))

    assert result.status is CheckStatus.UNKNOWN
    assert "illegal memory access" in (result.unknown or "")
    assert (result.figures["starts_without"], result.figures["starts_with"]) == (3, 4)


def starts(digests: str, *, differing: int = 1) -> list[ProductStart]:
    """A start for each letter, which is its digest."""
    return [
        ProductStart(cases={"bf16": ProductCase(digest=each, differing=differing)}, inputs="same")
        for each in digests
    ]


def arms(without: str, with_it: str) -> Arms:
    return Arms(without=starts(without), with_it=starts(with_it))


@pytest.mark.parametrize(
    ("without", "with_it", "effect"),
    [
        pytest.param("aaaa", "aaaa", Effect.NONE_SEEN, id="nothing-varies"),
        pytest.param("aaaa", "bbbb", Effect.CHANGES_RESULT, id="steady-and-other"),
        pytest.param("abab", "aaaa", Effect.STEADIES, id="varies-without"),
        pytest.param("aaaa", "abab", Effect.UNSTEADIES, id="varies-with"),
        pytest.param("abab", "abab", Effect.BOTH_VARY, id="varies"),
    ],
)
def test_effect(without: str, with_it: str, effect: Effect) -> None:
    assert compare(arms(without, with_it)).effect is effect


def test_p_counts_starts_and_not_products() -> None:
    many = {str(place): ProductCase(digest="b", differing=1) for place in range(50)}
    few = {str(place): ProductCase(digest="a", differing=1) for place in range(50)}
    without = [ProductStart(cases=many, inputs="i"), ProductStart(cases=few, inputs="i")]
    with_it = [ProductStart(cases=few, inputs="i"), ProductStart(cases=few, inputs="i")]

    assert compare(Arms(without=without, with_it=with_it)).p == 1.0


def test_a_product_that_varies_within_a_start_is_named() -> None:
    comparison = compare(Arms(without=starts("aaa", differing=2), with_it=starts("aaa")))

    assert comparison.varying == ("bf16",)
    assert comparison.effect is Effect.STEADIES


def test_names_of_digests_do_not_decide() -> None:
    assert compare(arms("aaabbb", "bbbbbb")).p == compare(arms("bbbaaa", "aaaaaa")).p


@pytest.mark.parametrize(
    ("without", "with_it", "decided"),
    [
        pytest.param("aa", "bb", False, id="too-few"),
        pytest.param("aaaaa", "bbbbb", False, id="not-yet"),
        pytest.param("aaaaaa", "bbbbbb", True, id="chance-is-ruled-out"),
        pytest.param("aba", "aba", True, id="neither-can-become-steady"),
        pytest.param("aaaaaaaa", "aaaaaaaa", False, id="more-starts-lower-the-risk"),
    ],
)
def test_starts_go_on_until_it_is_decided(without: str, with_it: str, decided: bool) -> None:
    assert is_decided(arms(without, with_it), 10) is decided


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.2), (0.4, 0.3, 0.3)])
def test_chance_makes_a_difference_of_the_arms_no_more_often_than_stated(
    shares: Sequence[float],
) -> None:
    chance = random.Random(13)
    false_alarms = sum(_ends_significant(chance, shares) for _ in range(300))

    # It is far below ALPHA: the starts are few, and Bonferroni's looks are not independent.
    assert false_alarms <= ALPHA * 300


def _ends_significant(chance: random.Random, shares: Sequence[float]) -> bool:
    """One proof in which the variable does nothing."""
    without, with_it = "", ""
    for _ in range(10):
        without += chance.choices("abc"[: len(shares)], shares)[0]
        with_it += chance.choices("abc"[: len(shares)], shares)[0]
        if is_decided(arms(without, with_it), 10):
            break
    return compare(arms(without, with_it)).p <= ALPHA / 10


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

    assert "in 10 % with 34.9 %" in (result.problems[0].finding.evidence[0].excerpt or "")
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


def _skipping(starts: list[ProductStart]) -> list[ProductStart]:
    return [
        ProductStart(cases=each.cases, inputs=each.inputs, skipped={"bf16": "NOT_SUPPORTED"})
        for each in starts
    ]


def test_products_that_a_gpu_cannot_compute_are_named() -> None:
    same = Arms(without=_skipping(starts("aaa")), with_it=_skipping(starts("aaa")))

    excerpt = report("GPU 0", same, looks=10).problems[0].finding.evidence[0].excerpt or ""

    assert "not computed here: bf16 (NOT_SUPPORTED)" in excerpt


def test_a_start_that_could_compute_less_than_the_others_is_no_variation() -> None:
    more = ProductCase(digest="a", differing=1)
    less = _skipping(starts("aaa"))
    with_more = [
        ProductStart(cases={**each.cases, "bf16 more": more}, inputs=each.inputs) for each in less
    ]

    result = report("GPU 0", Arms(without=less, with_it=with_more), looks=10)

    assert result.status is CheckStatus.UNKNOWN
    assert "NOT_SUPPORTED" in (result.unknown or "")


def test_other_operands_are_unknown_and_no_difference() -> None:
    other = [ProductStart(cases=each.cases, inputs="other") for each in starts("bbb")]
    result = report("GPU 0", Arms(without=starts("aaa"), with_it=other), looks=10)

    assert result.status is CheckStatus.UNKNOWN
    assert result.problems == ()


def test_a_few_equal_starts_do_not_claim_the_risk_of_many() -> None:
    """Three starts of a coin are equal in a quarter of all cases, and not in 5 %."""
    result = _report("aaa", "aaa")

    excerpt = result.problems[0].finding.evidence[0].excerpt or ""
    assert "appears in 30 % of starts with a probability of 37 %" in excerpt


@pytest.mark.parametrize(
    ("table", "p"),
    [
        pytest.param((3, 10, 0, 10), 0.2105, id="three-of-ten-against-none"),
        pytest.param((6, 6, 0, 6), 2 / 924, id="all-against-none"),
        pytest.param((3, 4, 1, 4), 0.4857, id="the-tea-tasting-lady"),
        pytest.param((5, 10, 5, 10), 1.0, id="equal-shares"),
        pytest.param((0, 10, 0, 10), 1.0, id="nothing-in-either"),
        pytest.param((2, 3, 0, 0), 1.0, id="an-empty-group"),
    ],
)
def test_p_is_that_of_the_textbook(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher_p(*table) == pytest.approx(p, abs=5e-5)


def test_probability_of_equal_starts_is_that_of_a_simulation() -> None:
    chance = random.Random(13)
    equal = 0
    for _ in range(20_000):
        kinds = {chance.random() < 0.1 for _ in range(10)}
        equal += len(kinds) == 1

    # Five standard errors of a share of 0.35 over 20,000 draws are 0.017.
    assert equal / 20_000 == pytest.approx(equal_starts_probability(10, 0.1), abs=0.017)
