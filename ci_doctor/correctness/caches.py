# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: puts every compile cache of a start into one place, and counts its files.

Only caches that compiling makes again. XDG_CACHE_HOME and HF_HOME would move them too, and the
models with them. SGLANG_CACHE_DIR holds models beside SGLang's own compile cache, and AITER_JIT_DIR
hides the kernels that AITER was installed with. These stay where they are. PyTorch's precompiled
headers have no variable of their own (they lie in /tmp/torchinductor_USER), and decide no bit.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.system.files.directories import make_directory


class CacheRow(Struct, frozen=True):
    """One cache: `variable` names its directory, and `default` is that without the variable.

    In `default`, `~` is the home directory; None is a temporary directory, the directory of another
    row, or no cache. `source` is where the variable is documented.
    """

    variable: str
    library: str
    directory: str
    source: str
    default: str | None = None


TABLE: tuple[CacheRow, ...] = (
    CacheRow(
        "TRITON_CACHE_DIR",
        "Triton",
        "triton",
        "triton python/triton/knobs.py, cache_knobs",
        "~/.triton/cache",
    ),
    CacheRow(
        "TORCHINDUCTOR_CACHE_DIR",
        "PyTorch",
        "inductor",
        "https://docs.pytorch.org/tutorials, compile-time caching",
    ),
    CacheRow(
        "TORCH_EXTENSIONS_DIR",
        "PyTorch",
        "torch_extensions",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
        "~/.cache/torch_extensions",
    ),
    CacheRow(
        "PYTORCH_KERNEL_CACHE_PATH",
        "PyTorch",
        "torch_kernels",
        "pytorch aten/src/ATen/native/cuda/jit_utils.cpp",
        "~/.cache/torch/kernels",
    ),
    CacheRow(
        "VLLM_CACHE_ROOT",
        "vLLM",
        "vllm",
        "vllm/envs.py; torch_compile_cache lies in it",
        "~/.cache/vllm",
    ),
    CacheRow("VLLM_XLA_CACHE_PATH", "vLLM", "vllm_xla", "vllm/envs.py"),
    CacheRow(
        "FLASHINFER_WORKSPACE_BASE",
        "FlashInfer",
        "flashinfer",
        "flashinfer/jit/env.py; .cache/flashinfer is added to it",
    ),
    CacheRow(
        "SGLANG_JIT_CACHE_ROOT", "SGLang", "sglang", "sglang docs/references/torch_compile_cache.md"
    ),
    CacheRow(
        "SGLANG_DG_CACHE_DIR",
        "SGLang, DeepGEMM",
        "sglang_deep_gemm",
        "sglang docs/references/environment_variables.md",
        "~/.cache/deep_gemm",
    ),
    CacheRow(
        "DG_JIT_CACHE_DIR",
        "DeepGEMM",
        "deep_gemm",
        "DeepGEMM README, environment variables",
        "~/.deep_gemm",
    ),
    CacheRow(
        "TRTLLM_DG_CACHE_DIR",
        "TensorRT-LLM's DeepGEMM",
        "trtllm_deep_gemm",
        "TensorRT-LLM deep_gemm runtime",
    ),
    CacheRow(
        "CUDA_CACHE_PATH",
        "CUDA driver",
        "cuda",
        "CUDA C++ Programming Guide, environment variables",
        "~/.nv/ComputeCache",
    ),
    CacheRow("TILELANG_CACHE_DIR", "TileLang", "tilelang", "tilelang/env.py", "~/.tilelang/cache"),
    CacheRow(
        "TVM_FFI_CACHE_DIR", "TVM FFI", "tvm_ffi", "tvm-ffi python/tvm_ffi/cpp", "~/.cache/tvm-ffi"
    ),
    CacheRow(
        "CUTE_DSL_CACHE_DIR",
        "CUTLASS DSL",
        "cute_dsl",
        "CUTLASS documentation, CuTe DSL JIT caching",
    ),
    CacheRow(
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR",
        "flash-attn",
        "flash_attn",
        "flash-attention flash_attn/cute",
    ),
    CacheRow("NUMBA_CACHE_DIR", "Numba", "numba", "Numba documentation, environment variables"),
    CacheRow(
        "CUPY_CACHE_DIR",
        "CuPy",
        "cupy",
        "CuPy documentation, environment variables",
        "~/.cupy/kernel_cache",
    ),
    CacheRow(
        "MIOPEN_CUSTOM_CACHE_DIR",
        "MIOpen",
        "miopen",
        "MIOpen src/binary_cache.cpp",
        "~/.cache/miopen",
    ),
    CacheRow(
        "MIOPEN_USER_DB_PATH",
        "MIOpen",
        "miopen_db",
        "MIOpen documentation, find and perf databases",
        "~/.config/miopen",
    ),
)

VARIABLES = frozenset(row.variable for row in TABLE)


def fresh_caches(directory: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that put every compile cache of a start into `directory`.

    It gets an empty subdirectory for each, because some libraries use theirs only if it exists.
    FlashInfer keeps downloaded kernels beside those that it compiles: given the start's `environ`,
    they stay where they are, because a start without a network would fail. Raises OSError.
    """
    variables = {row.variable: str(directory.absolute() / row.directory) for row in TABLE}
    for path in variables.values():
        make_directory(Path(path))
    environ = environ or {}
    base = environ.get("FLASHINFER_WORKSPACE_BASE") or environ.get("HOME")
    if base and not environ.get("FLASHINFER_CUBIN_DIR"):
        variables["FLASHINFER_CUBIN_DIR"] = str(Path(base) / ".cache" / "flashinfer" / "cubins")
    return variables


def cache_places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where the compile caches of a process with this environment lie.

    Without a home directory, caches without a variable are left out.
    """
    home = environ.get("HOME")
    places = set()
    for row in TABLE:
        if value := environ.get(row.variable):
            places.add(Path(value))
        elif home and row.default:
            places.add(Path(home, row.default.removeprefix("~/")))
    if home and not environ.get("FLASHINFER_WORKSPACE_BASE"):
        places.add(Path(home, ".cache", "flashinfer"))
    return tuple(sorted(places))


def count_files(*directories: Path) -> int:
    """The files in and below `directories`, without locks and what nobody may read.

    A file that lies in two of them counts once.
    """
    return len(set(_files(directories)))


def added(before: int, after: int) -> int:
    """How many files a start added. 0: it found the caches warm.

    Never negative: libraries remove old files too.
    """
    return max(0, after - before)


def _files(directories: Iterable[Path]) -> Iterable[str]:
    for top in {os.path.realpath(directory) for directory in directories}:
        # os.walk leaves out what it cannot read.
        for directory, _, names in os.walk(top):
            for name in names:
                # No Path, which costs ten times as much.
                if not name.endswith(".lock"):
                    yield os.path.join(directory, name)  # noqa: PTH118
