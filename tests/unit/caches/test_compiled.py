# SPDX-License-Identifier: Apache-2.0
"""What a log says of a cache."""

from ci_doctor.caches.effect import compile_seconds, read_lines
from ci_doctor.caches.families import FAMILIES

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
