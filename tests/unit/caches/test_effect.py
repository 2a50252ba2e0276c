# SPDX-License-Identifier: Apache-2.0
"""Whether a restored cache has paid."""

from typing import Any

import pytest

from ci_doctor.caches.effect import (
    RestoreEffect,
    Use,
    compile_seconds,
    cost_of,
    factor_differences,
    judge,
    read_lines,
    span_s,
)
from ci_doctor.caches.families import FAMILIES
from ci_doctor.store.manifest import ColdCost
from tests.support.cases import cases

COLD = ColdCost(seconds=20.0, compiled=22, gpus=8, source="file times")


def cost(seconds: float, compiled: int, source: str = "file times") -> ColdCost:
    return ColdCost(seconds=seconds, compiled=compiled, gpus=8, source=source)


def use(compiled: int, seconds: float = 0.0, source: str = "file times", **more: Any) -> Use:
    """What a job on the same CPU did with a cache of 22 files."""
    warm = cost(seconds, compiled, source) if compiled else None
    fields = {"restored": 22, "read": 22, "is_same_cpu": True, **more}
    return Use(compiled=compiled, warm=warm, **fields)


@cases(
    ("used", "cold", "effect", "saved_s"),
    {
        "nothing compiled again": (use(0), COLD, "paid", 20.0),
        "nobody knows the cold cost": (use(0), None, "paid", None),
        "the seconds of another CPU": (use(0, is_same_cpu=False), COLD, "paid", None),
        # What the compiler probes at a start.
        "one compiled again": (use(1), COLD, "paid", 20.0),
        # The times of files say too little of what was partly compiled again.
        "a few compiled again": (use(3, 2.0), COLD, "partly", None),
        "more than half compiled again": (use(12, 7.0), COLD, "inert", None),
        "two that took as long as all": (use(2, 18.0), COLD, "inert", None),
        "two that took a part of it": (use(2, 8.0), COLD, "partly", None),
        "two times of a log": (use(3, 2.0, "log"), cost(20.0, 22, "log"), "partly", 18.0),
        "times of two sources": (use(1, 2.0, "log"), COLD, "paid", None),
        "more than a third, by a log": (
            use(8, 6.0, "log", restored=18, read=18),
            cost(15.0, 18, "log"),
            "partly",
            9.0,
        ),
        "more than a third, by files": (
            use(8, 6.0, restored=18, read=18),
            cost(15.0, 18),
            "inert",
            None,
        ),
        "no file read": (use(0, read=0), COLD, "inert", None),
        "no file read, one compiled": (use(1, 0.5, read=0), COLD, "inert", None),
        "half of it read": (use(0, read=11), COLD, "paid", 10.0),
        "half of it read, two compiled": (use(2, 4.0, read=11), COLD, "paid", 10.0),
        "most of it read, two compiled": (use(2, 4.0, read=20), COLD, "paid", 16.0),
        "no sign of use": (use(0, read=None), COLD, "unproven", None),
        "no sign of use, one compiled": (use(1, 0.5, read=None), COLD, "unproven", None),
        "no sign of use, a few compiled": (use(5, 0.5, read=None), COLD, "unproven", None),
        "a line of the log is a sign of use": (use(0, read=None, used=True), COLD, "paid", 20.0),
        "half of it was there before": (use(0, installed=0.5), COLD, "paid", 10.0),
        "all of it was there before": (use(0, installed=0.0), COLD, "unproven", None),
        "the log calls it disabled": (use(0, is_disabled=True), COLD, "inert", None),
    },
)
def test_what_was_compiled_again_and_read_decides_whether_a_cache_has_paid(
    used: Use, cold: ColdCost | None, effect: str, saved_s: float | None
) -> None:
    judged = judge(used, cold)

    assert (judged.effect, judged.saved_s) == (effect, saved_s)
    assert judged.saved_gpu_s == (None if saved_s is None else saved_s * 8)


def test_a_library_that_used_another_directory_makes_a_cache_inert() -> None:
    effect = judge(use(0, chosen="/root/.cache/vllm"), COLD)

    assert effect.effect is RestoreEffect.INERT
    assert "/root/.cache/vllm" in effect.reason


@pytest.mark.parametrize(
    ("hits", "misses", "effect"),
    [
        (1, 0, RestoreEffect.PAID),
        (18, 2, RestoreEffect.PAID),
        (1, 1, RestoreEffect.PARTLY),
        (1, 99, RestoreEffect.PARTLY),
        (0, 1, RestoreEffect.INERT),
        (0, 0, RestoreEffect.UNPROVEN),
    ],
)
def test_what_a_library_counts_decides_and_a_hit_is_never_inert(
    hits: int, misses: int, effect: RestoreEffect
) -> None:
    # Hits touch files, and a program has read all of them.
    counted = use(22, read=None, is_counted=True, counts=(hits, misses))

    assert judge(counted, COLD).effect is effect


def test_a_count_that_cannot_be_read_proves_nothing_and_is_said() -> None:
    effect = judge(use(22, is_counted=True), COLD)

    assert effect.effect is RestoreEffect.UNPROVEN
    assert "cannot be read" in effect.reason


SECOND = 1_000_000_000


def test_the_time_between_files_counts_without_pauses() -> None:
    times = [second * SECOND for second in (100, 103, 101, 500, 504)]

    assert span_s(times) == pytest.approx(7.0)


def test_what_a_log_says_counts_before_the_times_of_files() -> None:
    cost = cost_of([SECOND, 3 * SECOND], [12.5, 4.0], gpus=2)

    assert cost is not None
    assert (cost.seconds, cost.compiled, cost.gpus, cost.source) == (16.5, 2, 2, "log")


def test_nothing_compiled_has_no_cost() -> None:
    assert cost_of([], [], gpus=0) is None


def test_the_factor_in_which_two_directories_differ_is_named() -> None:
    saved = b'{"env": {"VLLM_USE_V1": true, "HOST": "10.0.0.1"}, "code_hash": "a", "l": [1]}'
    here = (
        b'{"env": {"VLLM_USE_V1": true, "HOST": "10.0.0.2"}, "code_hash": "a", "l": [1], "n": {}}'
    )

    differences = factor_differences(saved, here)

    assert [each.describe() for each in differences] == [
        "env.HOST 10.0.0.1 -> 10.0.0.2",
        "n absent -> {}",
    ]


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 5000])
def test_what_is_no_object_of_factors_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        factor_differences(content, b"{}")


VLLM = next(
    family for family in FAMILIES.values() if "Using cache directory: " in str(family.lines)
)
CHOSEN = "INFO Using cache directory: /root/.cache/vllm/torch_compile_cache/ab/rank_0_0/backbone for vLLM's torch.compile"
LOADED = (
    "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.2 s"
)
COMPILED = "Compiling a graph for dynamic shape takes 12.50 s"
TOTAL = "torch.compile takes 31.0 s in total"


def test_the_directory_that_vllm_chose_is_compared_with_the_restored_one() -> None:
    words = read_lines([CHOSEN], VLLM)

    assert words.chose_other_than(["/root/.cache/vllm/torch_compile_cache/ab"]) is None
    assert words.chose_other_than(["/root/.cache/vllm/torch_compile_cache/cd"]) is not None


def test_a_load_from_the_restored_directory_is_its_use() -> None:
    words = read_lines([CHOSEN, LOADED], VLLM)

    assert words.uses(["/root/.cache/vllm/torch_compile_cache"])
    assert not words.uses(["/elsewhere"])


def test_seconds_of_each_compile_count_before_those_of_all() -> None:
    assert compile_seconds(read_lines([COMPILED, TOTAL], VLLM)) == (12.5,)
    assert compile_seconds(read_lines([TOTAL], VLLM)) == (31.0,)
    assert compile_seconds(None) == ()


def test_other_lines_say_nothing() -> None:
    words = read_lines(["Using cache directory: not vLLM's", "took 3 s"], VLLM)

    assert (words.directories, words.loaded, words.compiled) == ((), 0, 0)
