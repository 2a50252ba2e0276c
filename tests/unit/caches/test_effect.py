# SPDX-License-Identifier: Apache-2.0
"""Whether a restored cache has paid."""

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

COLD = ColdCost(seconds=20.0, compiled=22, gpus=8, source="file times")


def cost(seconds: float, compiled: int, source: str = "file times") -> ColdCost:
    return ColdCost(seconds=seconds, compiled=compiled, gpus=8, source=source)


def use(compiled: int, seconds: float = 0.0, *, read: int | None = 22) -> Use:
    warm = cost(seconds, compiled) if compiled else None
    return Use(restored=22, compiled=compiled, warm=warm, read=read, is_same_cpu=True)


def test_a_job_that_compiles_nothing_and_reads_the_cache_has_saved_the_cold_time() -> None:
    effect = judge(use(0), COLD)

    assert (effect.effect, effect.saved_s, effect.saved_gpu_s) == (RestoreEffect.PAID, 20.0, 160.0)


def test_the_compilers_probe_at_a_start_does_not_count_against_a_cache() -> None:
    effect = judge(use(1), COLD)

    assert effect.effect is RestoreEffect.PAID


@pytest.mark.parametrize(
    ("compiled", "seconds", "expected"),
    [
        (3, 2.0, RestoreEffect.PARTLY),  # a few kernels again
        (12, 7.0, RestoreEffect.INERT),  # more than half, whatever a counter of hits says
        (2, 18.0, RestoreEffect.INERT),  # two, which took as long as all of them
        (2, 8.0, RestoreEffect.PARTLY),
    ],
)
def test_what_was_compiled_again_and_how_long_it_took_decide_together(
    compiled: int, seconds: float, expected: RestoreEffect
) -> None:
    assert judge(use(compiled, seconds), COLD).effect is expected


def test_an_inert_cache_has_saved_nothing() -> None:
    effect = judge(use(12, 7.0), COLD)

    assert (effect.saved_s, effect.saved_gpu_s) == (None, None)


def test_a_saving_is_the_difference_of_two_times_of_one_source_alone() -> None:
    logged = Use(restored=22, compiled=3, warm=cost(2.0, 3, "log"), read=22, is_same_cpu=True)

    assert judge(logged, cost(20.0, 22, "log")).saved_s == 18.0
    assert judge(logged, COLD).saved_s is None


def test_no_saving_is_claimed_by_times_of_files_for_what_was_partly_compiled_again() -> None:
    effect = judge(use(3, 2.0), COLD)

    assert (effect.effect, effect.saved_s) == (RestoreEffect.PARTLY, None)


def test_more_than_a_third_compiled_again_is_inert_unless_a_log_has_the_seconds() -> None:
    timed = Use(restored=18, compiled=8, warm=cost(6.0, 8, "log"), read=18)
    untimed = Use(restored=18, compiled=8, warm=cost(6.0, 8), read=18)

    assert judge(timed, cost(15.0, 18, "log")).effect is RestoreEffect.PARTLY
    assert judge(untimed, cost(15.0, 18)).effect is RestoreEffect.INERT


def test_no_saving_is_claimed_without_a_cold_cost() -> None:
    effect = judge(use(0), None)

    assert (effect.effect, effect.saved_s) == (RestoreEffect.PAID, None)


def test_a_library_that_used_another_directory_makes_a_cache_inert() -> None:
    other = Use(restored=22, compiled=0, warm=None, read=22, chosen="/root/.cache/vllm")

    effect = judge(other, COLD)

    assert effect.effect is RestoreEffect.INERT
    assert "/root/.cache/vllm" in effect.reason


def test_a_tree_of_which_no_file_was_read_is_inert() -> None:
    assert judge(use(0, read=0), COLD).effect is RestoreEffect.INERT


def test_without_any_sign_of_use_nothing_is_proven() -> None:
    effect = judge(use(0, read=None), COLD)

    assert (effect.effect, effect.saved_s) == (RestoreEffect.UNPROVEN, None)


def test_a_line_of_the_log_is_a_sign_of_use() -> None:
    effect = judge(Use(restored=22, compiled=0, warm=None, read=None, used=True), COLD)

    assert effect.effect is RestoreEffect.PAID


def test_a_few_compiles_beside_a_tree_of_which_no_file_was_read_are_no_saving() -> None:
    effect = judge(use(1, 0.5, read=0), COLD)

    assert (effect.effect, effect.saved_s) == (RestoreEffect.INERT, None)


@pytest.mark.parametrize("compiled", [1, 5])
def test_few_compiles_prove_nothing_if_nobody_knows_what_was_read(compiled: int) -> None:
    effect = judge(use(compiled, 0.5, read=None), COLD)

    assert (effect.effect, effect.saved_s) == (RestoreEffect.UNPROVEN, None)


def test_a_job_that_reads_half_of_a_cache_has_saved_half_of_its_time_at_most() -> None:
    assert judge(use(0, read=11), COLD).saved_s == 10.0
    assert judge(use(2, 4.0, read=11), COLD).saved_s == 10.0
    assert judge(use(2, 4.0, read=20), COLD).saved_s == 16.0


def test_what_was_there_before_a_restore_is_not_its_saving() -> None:
    half = Use(restored=22, compiled=0, warm=None, read=22, installed=0.5, is_same_cpu=True)
    none = Use(restored=22, compiled=0, warm=None, read=22, installed=0.0)

    assert judge(half, COLD).saved_s == 10.0
    assert judge(none, COLD).effect is RestoreEffect.UNPROVEN


def test_seconds_of_another_cpu_are_not_said() -> None:
    elsewhere = Use(restored=22, compiled=0, warm=None, read=22)

    assert judge(elsewhere, COLD).saved_s is None


def test_a_cache_that_the_log_calls_disabled_is_inert_whatever_was_read() -> None:
    disabled = Use(restored=22, compiled=0, warm=None, read=22, is_disabled=True, is_same_cpu=True)

    effect = judge(disabled, COLD)

    assert (effect.effect, effect.saved_s) == (RestoreEffect.INERT, None)


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
    counted = Use(
        restored=22,
        compiled=22,
        warm=None,
        read=None,
        is_counted=True,
        counts=(hits, misses),
    )

    assert judge(counted, COLD).effect is effect


def test_a_count_that_cannot_be_read_proves_nothing_and_is_said() -> None:
    unread = Use(restored=22, compiled=22, warm=None, read=22, is_counted=True)

    effect = judge(unread, COLD)

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
