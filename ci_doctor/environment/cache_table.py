# SPDX-License-Identifier: Apache-2.0
"""Reads the user's name: the variables of compile caches, and where each cache lies without them.

Only caches that compiling makes again. XDG_CACHE_HOME and HF_HOME would move them too, and the
models with them (`download_table` keeps those in place). SGLANG_CACHE_DIR holds models beside SGLang's own compile cache, and AITER_JIT_DIR
hides the kernels that AITER was installed with. These stay where they are.
"""

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class CacheRow(Struct, frozen=True):
    """One cache: `variable` names its directory, and `default` is that without the variable.

    A default begins with `~` (the home directory), `$XDG_CACHE_HOME`, `$TRITON_HOME` or `$TMPDIR`,
    and `{user}` is the user's name; None is the directory of another row, or no cache. `within` is
    what the library adds to the variable's value. `directory` is the name of a fresh one. `source`
    is where the variable is documented.
    """

    variable: str
    library: str
    directory: str
    source: str
    default: str | None = None
    within: str = ""


TABLE: tuple[CacheRow, ...] = (
    CacheRow(
        "TRITON_CACHE_DIR",
        "Triton",
        "triton",
        "triton python/triton/knobs.py, cache_knobs",
        "$TRITON_HOME/.triton/cache",
    ),
    CacheRow(
        "TORCHINDUCTOR_CACHE_DIR",
        "PyTorch",
        "inductor",
        "https://docs.pytorch.org/tutorials, compile-time caching",
        "$TMPDIR/torchinductor_{user}",
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
        "$XDG_CACHE_HOME/vllm",
    ),
    CacheRow("VLLM_XLA_CACHE_PATH", "vLLM", "vllm_xla", "vllm/envs.py"),
    CacheRow(
        "FLASHINFER_WORKSPACE_BASE",
        "FlashInfer",
        "flashinfer",
        "flashinfer/jit/env.py",
        "~/.cache/flashinfer",
        within=".cache/flashinfer",
    ),
    CacheRow(
        "SGLANG_JIT_CACHE_ROOT",
        "SGLang",
        "sglang",
        "sglang docs/references/torch_compile_cache.md",
        "~/.cache/sglang",
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
        "flashinfer csrc/nv_internal/tensorrt_llm/deep_gemm/compiler.cuh",
        "~/.tensorrt_llm",
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
        "$TMPDIR/{user}/cutlass_python_cache",
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

BY_VARIABLE: Mapping[str, CacheRow] = {row.variable: row for row in TABLE}

# What stands at the beginning of a default: the variable, and its value without one.
_ROOTS = {
    "~": ("HOME", ""),
    "$XDG_CACHE_HOME": ("XDG_CACHE_HOME", "~/.cache"),
    "$TRITON_HOME": ("TRITON_HOME", "~"),
    "$TMPDIR": ("TMPDIR", "/tmp"),  # noqa: S108
}


def cache_directory(row: CacheRow, environ: Mapping[str, str]) -> Path | None:
    """Where a process with `environ` has this cache; None if it has none that is known.

    Without a home directory, the defaults below it are unknown.
    """
    if value := environ.get(row.variable):
        return Path(value, row.within)
    return default_directory(row.default, environ) if row.default else None


def default_directory(default: str, environ: Mapping[str, str]) -> Path | None:
    """The directory that a default names (`CacheRow`); None without a home directory."""
    root, _, rest = default.partition("/")
    if root not in _ROOTS:
        return Path(default)
    variable, otherwise = _ROOTS[root]
    value = environ.get(variable)
    top = Path(value) if value else None
    if top is None and otherwise:
        top = default_directory(otherwise, environ)
    return None if top is None else top / rest.replace("{user}", _user(environ))


def _user(environ: Mapping[str, str]) -> str:
    """As Python's getpass.getuser, with what torch does to its name (cache_dir_utils.py)."""
    names = [environ.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME")]
    try:
        name = next(filter(None, names), None) or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without an entry
        name = f"uid_{os.getuid()}"
    return re.sub(r'[\\/:*?"<>|]', "_", name)


# The variable, its default, and what in that directory is downloaded ("" is all of it).
_TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("HF_HOME", "$XDG_CACHE_HOME/huggingface", ("hub", "xet", "datasets", "modules", "assets")),
    ("TORCH_HOME", "$XDG_CACHE_HOME/torch", ("hub",)),
    ("MODELSCOPE_CACHE", "$XDG_CACHE_HOME/modelscope", ("",)),
    ("LLAMA_CACHE", "$XDG_CACHE_HOME/llama.cpp", ("",)),
    ("PIP_CACHE_DIR", "$XDG_CACHE_HOME/pip", ("",)),
    ("UV_CACHE_DIR", "$XDG_CACHE_HOME/uv", ("",)),
    ("TIKTOKEN_CACHE_DIR", "$TMPDIR/data-gym-cache", ("",)),
    ("TIKTOKEN_RS_CACHE_DIR", "$TMPDIR/tiktoken-rs-cache", ("",)),
    ("VLLM_ASSETS_CACHE", "$XDG_CACHE_HOME/vllm/assets", ("",)),
)
# Of more variables, of which libraries have none but XDG_CACHE_HOME.
_MORE = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "SENTENCE_TRANSFORMERS_HOME")


def shared_downloads(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep downloads where a process with `environ` has them.

    Those that `environ` sets, and those whose default is unknown without a home directory, are
    left out.
    """
    return {
        variable: str(directory)
        for variable, default, _ in _TABLE
        if (directory := default_directory(default, environ)) is not None
        and not environ.get(variable)
    }


def download_places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The directories in which a process with `environ` finds what was downloaded."""
    places = []
    for variable, default, within in _TABLE:
        named = environ.get(variable)
        directory = Path(named) if named else default_directory(default, environ)
        if directory is not None:
            places += [directory / each for each in within]
    places += [Path(environ[variable]) for variable in _MORE if environ.get(variable)]
    return tuple(places)
