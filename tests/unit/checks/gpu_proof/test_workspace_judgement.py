# SPDX-License-Identifier: Apache-2.0
"""What the digests of starts say of the variable, and how often chance makes them say it."""

import random
from collections.abc import Sequence

import pytest

from ci_doctor.checks.gpu_proof.workspace_judgement import (
    ALPHA,
    Arms,
    Effect,
    ProductCase,
    ProductStart,
    compare,
    is_decided,
)


def starts(digests: str, *, differing: int = 1) -> tuple[ProductStart, ...]:
    """A start for each letter, which is its digest."""
    return tuple(
        ProductStart(cases={"bf16": ProductCase(digest=each, differing=differing)}, inputs="same")
        for each in digests
    )


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

    assert compare(Arms(without=tuple(without), with_it=tuple(with_it))).p == 1.0


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
