# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.archive.near_misses import NearMiss, explain_near_miss
from ci_doctor.identity.identity import Identity, differences


def miss(
    left: dict[str, str], right: dict[str, str], starts: int = 3, age_s: float = 2 * 86400 + 5
) -> NearMiss:
    found = differences(Identity.of(left), Identity.of(right))
    return NearMiss(
        differences=found, starts=starts, recorded_at="2026-01-01T00:00:00Z", age_s=age_s
    )


def test_a_near_miss_is_a_sentence() -> None:
    near = [miss({"driver": "550.54", "vllm": "0.9.1"}, {"driver": "560.35", "vllm": "0.9.2"})]

    assert explain_near_miss(near) == (
        "closest archived baseline (3 starts, 2 days old) differs in: driver 550.54 -> 560.35; vllm 0.9.1 -> 0.9.2",
    )


@pytest.mark.parametrize(
    ("age_s", "text"),
    [(30.0, "less than a minute"), (60.0, "1 minute"), (7300.0, "2 hours"), (86400.0, "1 day")],
)
def test_ages_are_told_in_one_unit(age_s: float, text: str) -> None:
    assert (
        f"(1 start, {text} old)" in explain_near_miss([miss({"a": "1"}, {"a": "2"}, 1, age_s)])[0]
    )


def test_of_a_command_line_only_the_words_that_differ_are_told() -> None:
    near = [miss({"argv": "vllm serve m --seed 1"}, {"argv": "vllm serve m --seed 2 --eager"})]

    assert explain_near_miss(near)[0].endswith(
        "differs in: argv now without `1` and with `2 --eager`"
    )


def test_hardware_comes_first_and_many_differences_are_counted() -> None:
    left = dict.fromkeys(("a", "b", "c", "d", "e", "gpu0.name"), "1")
    line = explain_near_miss([miss(left, dict.fromkeys(left, "2"))])[0]

    assert line.endswith(
        "differs in: gpu0.name 1 -> 2; a 1 -> 2; b 1 -> 2; c 1 -> 2; d 1 -> 2; and 1 more"
    )
