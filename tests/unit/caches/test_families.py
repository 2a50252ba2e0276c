# SPDX-License-Identifier: Apache-2.0

import re
from pathlib import Path

import pytest

from ci_doctor.caches.families import FAMILIES, Family, all_families, directory_of
from ci_doctor.environment.cache_table import BY_VARIABLE
from tests.support.jit_caches import make_inductor_cache, make_triton_cache

# Lines of real logs, from public issues and repositories.
LOG = """
INFO 04-26 11:13:58 [backends.py:1051] Using cache directory: /h/.cache/vllm/torch_compile_cache/a32973440f/rank_0_0/backbone for vLLM's torch.compile
INFO 04-26 11:13:59 [backends.py:285] Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.128 s
INFO 10-06 15:57:50 [backends.py:164] Directly load the compiled graph(s) for dynamic shape from the cache, took 4.849 s
INFO 04-26 11:13:59 [decorators.py:305] Directly load AOT compilation from path /h/.cache/vllm/torch_compile_cache/torch_aot_compile/53dc/rank_0_0/model
INFO [backends.py:393] Compiling a graph for compile range (1, 4096) takes 8.53 s
INFO 04-26 11:13:59 [monitor.py:48] torch.compile took 4.23 s in total
INFO 03-07 03:07:18 [monitor.py:33] torch.compile takes 19.87 s in total
INFO [decorators.py:708] saved AOT compiled function to /c/vllm/torch_compile_cache/torch_aot_compile/1f03/rank_0_0/model
INFO [backends.py:1] vLLM's torch.compile cache is disabled.
Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16>
[TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang completes to compile kernel `hc_head_fuse_tilelang`
"""


@pytest.mark.parametrize("family", all_families(), ids=lambda each: each.name)
def test_every_line_of_a_family_is_one_that_its_library_logs(family: Family) -> None:
    for line in family.lines:
        hits = [each for each in LOG.splitlines() if re.search(line.pattern, each)]
        assert hits
        assert all(line.literal in hit for hit in hits)


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("triton", "/h/.triton/cache"),
        ("inductor-cpu", "/tmp/torchinductor_ci"),
        ("inductor-headers", "/tmp/torchinductor_ci/precompiled_headers"),
        ("vllm", "/h/.cache/vllm/torch_compile_cache"),
        ("vllm-aot", "/h/.cache/vllm/torch_compile_cache/torch_aot_compile"),
        ("vllm-deep-gemm", "/h/.cache/vllm/deep_gemm"),
        ("flashinfer", "/h/.cache/flashinfer"),
        ("ccache", "/h/.cache/ccache"),
        ("trtllm-deep-gemm", "/h/.tensorrt_llm"),
        ("cute-dsl", "/tmp/ci/cutlass_python_cache"),
        ("sglang-deep-gemm", "/h/.cache/deep_gemm"),
        ("tvm-ffi", "/h/.cache/tvm-ffi"),
        ("tilelang", "/h/.tilelang/cache"),
    ],
)
def test_each_cache_lies_where_its_library_has_it(name: str, directory: str) -> None:
    assert directory_of(FAMILIES[name], {"HOME": "/h", "USER": "ci"}) == Path(directory)


def test_without_a_home_nobody_knows_where_a_cache_lies() -> None:
    assert directory_of(FAMILIES["triton"], {"USER": "ci"}) is None


# As the libraries' published sources name what they write (`Family.source`).
GRAPH = "a1/rank_0_0/backbone/artifact_compile_range_1_8192_subgraph_0"
TILE = "0.1.15/linux-x86_64/kernels/9f"
OPERATION = "0.7.2.post1/90a/cached_ops"
SHAPES = "cache/gemm_4096_7168_64_128_128_1_5_1_normal"


@pytest.mark.parametrize(
    ("name", "compiled", "group"),
    [
        ("vllm", GRAPH, "a1"),
        ("vllm-aot", "5f/rank_0_0/model", "5f"),
        ("vllm-deep-gemm", "cache/kernel.gemm.1f/kernel.cubin", "cache/kernel.gemm.1f"),
        ("trtllm-deep-gemm", f"{SHAPES}/nvrtc_kernel.cubin", SHAPES),
        ("flashinfer", f"{OPERATION}/norm/norm.so", f"{OPERATION}/norm"),
        ("flashinfer", f"{OPERATION}/norm_sm90a_cute_dsl/k.o", f"{OPERATION}/norm_sm90a_cute_dsl"),
        ("tvm-ffi", "add_0f/add.so", "add_0f"),
        ("tilelang", f"{TILE}/kernel_lib.so", TILE),
        ("cute-dsl", "cute_dsl_1f.mlir", "cute_dsl_1f.mlir"),
    ],
)
def test_what_a_compile_makes_counts_and_is_restored_with_its_group(
    name: str, compiled: str, group: str
) -> None:
    family = FAMILIES[name]

    assert family.is_compiled(compiled)
    assert family.group_of(compiled) == group


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("flashinfer", f"{OPERATION}/tmp/norm.lock"),
        ("flashinfer", f"{OPERATION}/tmp/flashinfer_jit.ninja"),
        ("flashinfer", "cubins/a.cubin"),
        ("tvm-ffi", "add_0f/lock"),
        ("tilelang", "0.1.15/linux-x86_64/.staging/1_2/kernel_lib.so"),
        ("tilelang", f"{TILE}/.kernel_lib.7_ab.tmp.so"),
        ("cute-dsl", "tmp.pid_1_2/cute_dsl_1f.mlir"),
        ("trtllm-deep-gemm", "tmp/gemm_1/nvcc_kernel.cubin"),
        ("vllm-aot", "5f/rank_0_0/model.77.tmp"),
    ],
)
def test_unfinished_work_is_not_saved(name: str, path: str) -> None:
    assert FAMILIES[name].excludes(path)


def test_the_precompiled_headers_do_not_follow_the_variable_of_the_cache() -> None:
    environ = {"TORCHINDUCTOR_CACHE_DIR": "/c", "USER": "ci"}

    assert directory_of(FAMILIES["inductor-cpu"], environ) == Path("/c")
    assert directory_of(FAMILIES["inductor-headers"], environ) == Path(
        "/tmp/torchinductor_ci/precompiled_headers"
    )


def test_variables_are_those_of_the_one_table_but_for_ccaches() -> None:
    variables = {family.variable for family in all_families()}

    assert variables - {None, "CCACHE_DIR"} <= set(BY_VARIABLE)


def test_locks_and_the_parts_of_other_families_are_not_saved(tmp_path: Path) -> None:
    make_inductor_cache(tmp_path, ["a"])
    family = FAMILIES["inductor-cpu"]
    paths = [
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    ]

    assert len([path for path in paths if not family.excludes(path)]) == 5
    assert [path.endswith(".so") for path in paths if family.is_compiled(path)] == [True]
    assert len([path for path in paths if family.is_marker(path)]) == 2
    assert family.excludes("precompiled_headers/a.h.gch")
    assert FAMILIES["vllm"].excludes("torch_aot_compile/hash/rank_0_0/model")


def test_a_triton_kernel_is_one_group_and_its_group_file_comes_last(tmp_path: Path) -> None:
    groups = make_triton_cache(tmp_path, ["add", "softmax"])
    family = FAMILIES["triton"]
    paths = [
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    ]

    assert len({family.group_of(path) for path in paths}) == 2
    marked = [path for path in paths if family.is_marker(path)]
    assert sorted(marked) == sorted(path.relative_to(tmp_path).as_posix() for path in groups)
    assert len([path for path in paths if family.is_compiled(path)]) == 2


def test_the_index_of_cudas_cache_is_never_mixed_with_another() -> None:
    family = FAMILIES["cuda"]

    assert family.group_of("index") == family.group_of("a/b/c")
