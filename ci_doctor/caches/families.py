# SPDX-License-Identifier: Apache-2.0
"""Reads the user's name: all families, a row for each library, and the directory of each."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.caches.family import CacheLine, CacheLineKind, Family, Rewrite
from ci_doctor.environment.cache_table import BY_VARIABLE, cache_directory, default_directory
from ci_doctor.store.plan import Merge

# --- the rows of Triton, TorchInductor and vLLM's caches of compiled graphs ---
# Of GPU families, everything is read in sources and issues. Triton without a GPU and TorchInductor
# on a CPU are measured (benchmarks/caches).

HOST = ("os.architecture", "glibc")
GPU = ("gpu.names", "gpu.capability", "driver.major")
# Whoever runs the same step of the same pipeline needs the same kernels most likely.
SOFT = ("job.pipeline", "job.step", "job.branch", "gpu.names", "driver")
LOCKS = ("*.lock", "*/locks/*", "locks/*", "tmp.pid_*", "*/tmp.pid_*/*", "*.tmp")

_TORCH_BUILD = ("torch.git", "torch.cuda")
_TRITON_ENVIRONMENT = (
    "TRITON_PTXAS_PATH",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_OVERRIDE_ARCH",
    "TRITON_LIBDEVICE_PATH",
    "TRITON_DEFAULT_FP_FUSION",
    "TRITON_F32_DEFAULT",
    "PTXAS_OPTIONS",
    "DISABLE_PTXAS_OPT",
)
_INDUCTOR_ENVIRONMENT = (
    "TORCHINDUCTOR_CPP_MARCH",
    "TORCHINDUCTOR_VEC_ISA_OK",
    "TORCHINDUCTOR_CPP_DYNAMIC_THREADS",
    "TORCHINDUCTOR_CPP_MIN_CHUNK_SIZE",
    "TORCHINDUCTOR_CPP_WRAPPER",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCHINDUCTOR_FREEZING",
)
_INDUCTOR_PIECES = (
    *LOCKS,
    "precompiled_headers/*",
    "*.pid",
)
_GRAPHS = ("fxgraph/*", "*/fxgraph/*", "aotautograd/*", "*/aotautograd/*")

TRITON = Family(
    name="triton",
    library="Triton",
    source="triton 3.9 runtime/cache.py, knobs.py; measured without a GPU",
    variable="TRITON_CACHE_DIR",
    distributions=("triton",),
    environment=_TRITON_ENVIRONMENT,
    # The key of an entry has its target, so kernels of several GPUs lie side by side. The launcher
    # beside them is an extension module for one Python and one libc.
    hard=(*HOST, "python.abi"),
    soft=SOFT,
    rewrite=Rewrite.TRITON_GROUPS,
    group=1,
    markers=("__grp__*.json",),
    exclude=LOCKS,
    compiled=("__grp__*.json", "*.so"),
)
INDUCTOR = Family(
    name="inductor",
    library="TorchInductor",
    source="torch 2.13 _inductor/codecache.py, runtime/cache_dir_utils.py",
    variable="TORCHINDUCTOR_CACHE_DIR",
    distributions=("torch", "triton"),
    environment=(*_INDUCTOR_ENVIRONMENT, *_TRITON_ENVIRONMENT),
    needs_gpu=True,
    # The CPU's instructions too: a graph on a GPU may have parts on the CPU, whose code lies here,
    # and the key does not name them. cpp_builder.py compiles with -march=native, whose key is that word.
    hard=(*HOST, "python.abi", *GPU, *_TORCH_BUILD, "cpu.isa", "compiler.native"),
    soft=SOFT,
    rewrite=Rewrite.TRITON_GROUPS,
    markers=("__grp__*.json", *_GRAPHS),
    exclude=_INDUCTOR_PIECES,
    compiled=("__grp__*.json", "*.so", *_GRAPHS),
)
INDUCTOR_CPU = Family(
    name="inductor-cpu",
    library="TorchInductor on a CPU",
    source="torch 2.13 _inductor/codecache.py, cpp_builder.py, cpu_vec_isa.py; measured",
    variable="TORCHINDUCTOR_CACHE_DIR",
    distributions=("torch",),
    environment=_INDUCTOR_ENVIRONMENT,
    hard=(
        *HOST,
        "python.abi",
        *_TORCH_BUILD,
        "cpu.isa",
        "cpu.threads",
        "compiler",
        "compiler.native",
    ),
    # The key of a compiled library is the whole command of the compiler, with its -I options.
    path=("python.environment", "python.base"),
    soft=("job.pipeline", "job.step", "job.branch"),
    markers=_GRAPHS,
    exclude=_INDUCTOR_PIECES,
    compiled=("*.so", "*.o"),
)
INDUCTOR_HEADERS = Family(
    name="inductor-headers",
    library="TorchInductor's precompiled headers",
    source="torch 2.13 _inductor/codecache.py, _precompile_header; measured",
    default="$TMPDIR/torchinductor_{user}",
    subdirectory="precompiled_headers",
    distributions=("torch",),
    environment=_INDUCTOR_ENVIRONMENT,
    hard=(*HOST, *_TORCH_BUILD, "cpu.isa", "compiler", "compiler.native"),
    path=("python.environment", "python.base", "cache.root"),
    soft=("job.pipeline", "job.step", "job.branch"),
    markers=("*.gch",),
    exclude=LOCKS,
    compiled=("*.gch",),
)

_VLLM_LINES = (
    CacheLine(
        kind=CacheLineKind.DIRECTORY,
        literal="Using cache directory: ",
        pattern=r"Using cache directory: (?P<directory>.+?) for vLLM's torch\.compile",
    ),
    CacheLine(
        kind=CacheLineKind.LOADED,
        literal="Directly load the compiled graph",
        pattern=r"Directly load the compiled graph.* took (?P<seconds>[\d.]+) s",
    ),
    CacheLine(
        kind=CacheLineKind.COMPILED,
        literal="Compiling a graph for ",
        pattern=r"Compiling a graph for (?P<name>.+?) takes (?P<seconds>[\d.]+) s",
    ),
    CacheLine(
        kind=CacheLineKind.TOTAL,
        literal="torch.compile t",
        pattern=r"torch\.compile (?:takes|took) (?P<seconds>[\d.]+) s in total",
    ),
    CacheLine(
        kind=CacheLineKind.DISABLED,
        literal="torch.compile cache is disabled",
        pattern=r"vLLM's torch\.compile cache is disabled",
    ),
)
VLLM = Family(
    name="vllm",
    library="vLLM's torch.compile cache",
    source="vllm 0.33 compilation/backends.py, compiler_interface.py, envs.py",
    variable="VLLM_CACHE_ROOT",
    subdirectory="torch_compile_cache",
    distributions=("vllm", "torch", "triton"),
    environment=(*_INDUCTOR_ENVIRONMENT, *_TRITON_ENVIRONMENT),
    hard=(*HOST, "python.abi", *GPU, *_TORCH_BUILD, "cpu.isa", "compiler.native"),
    # The paths of the traced files are part of the key.
    path=("python.environment",),
    soft=SOFT,
    rewrite=Rewrite.TRITON_GROUPS,
    # vLLM rewrites vllm_compile_cache.py in place: two graphs of one key are never mixed.
    merge=Merge.LAST_WRITER,
    group=1,
    markers=("vllm_compile_cache.py", "cache_key_factors.json"),
    exclude=(*LOCKS, "torch_aot_compile/*"),
    # A graph is one file, unless VLLM_COMPILE_CACHE_SAVE_FORMAT=unpacked makes a directory of it.
    compiled=("artifact_compile_range_*", "artifact_shape_*", "__grp__*.json", "*.so", *_GRAPHS),
    lines=_VLLM_LINES,
)
VLLM_AOT = Family(
    name="vllm-aot",
    library="vLLM's ahead-of-time graphs",
    source="vllm compilation/decorators.py, caching.py",
    variable="VLLM_CACHE_ROOT",
    subdirectory="torch_compile_cache/torch_aot_compile",
    distributions=("vllm", "torch", "triton"),
    environment=(*_INDUCTOR_ENVIRONMENT, *_TRITON_ENVIRONMENT),
    hard=(*HOST, "python.abi", *GPU, *_TORCH_BUILD, "cpu.isa", "compiler.native"),
    # The sources of the model are compared by content when a graph is loaded, not by path.
    soft=SOFT,
    rewrite=Rewrite.TRITON_GROUPS,
    merge=Merge.WHOLE_DIRECTORIES,
    group=1,
    markers=("model",),
    exclude=LOCKS,
    compiled=("model", "__grp__*.json", "*.so"),
    lines=(
        CacheLine(
            kind=CacheLineKind.LOADED,
            literal="Directly load AOT compilation",
            pattern=r"Directly load AOT compilation from path (?P<directory>\S+)",
        ),
        CacheLine(
            kind=CacheLineKind.COMPILED,
            literal="saved AOT compiled function",
            pattern=r"saved AOT compiled function to (?P<directory>\S+)",
        ),
    ),
)

TORCH_ROWS = (TRITON, INDUCTOR, INDUCTOR_CPU, INDUCTOR_HEADERS, VLLM, VLLM_AOT)


# --- the rows of libraries that compile single kernels, and of the CUDA driver ---
# All of this is read in sources and issues; the rebuilds by ninja are measured, and that the digest of
# a TileLang function holds no path.

_NVCC_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "TORCH_CUDA_ARCH_LIST")
_DG_ENVIRONMENT = (*_NVCC_ENVIRONMENT, "DG_JIT_USE_NVRTC", "DG_JIT_NVCC_COMPILER")
_SGLANG_LINES = (
    CacheLine(
        kind=CacheLineKind.COMPILED,
        literal="DeepGEMM JIT Compiling for",
        pattern=r"Try DeepGEMM JIT Compiling for <(?P<name>[^>]+)>",
    ),
)


def _deep_gemm(
    name: str,
    variable: str,
    distributions: tuple[str, ...],
    subdirectory: str = "",
    lines: tuple[CacheLine, ...] = (),
) -> Family:
    """DeepGEMM's own directory, or that of an engine that brings its own copy."""
    return Family(
        name=name,
        library="DeepGEMM",
        source="DeepGEMM (2026-06-23) csrc/jit/compiler.hpp; vllm 0.33, sglang 0.5.10; vllm#48190",
        variable=variable,
        subdirectory=subdirectory,
        distributions=distributions,
        environment=_DG_ENVIRONMENT,
        hard=(*HOST, *GPU, "nvcc"),
        # The flags of the compiler are part of the key, with -I…/deep_gemm/include.
        path=("python.environment", "cuda.home"),
        soft=SOFT,
        merge=Merge.WHOLE_DIRECTORIES,
        group=2,
        markers=("kernel.cubin",),
        exclude=(*LOCKS, "tmp/*"),
        compiled=("kernel.cubin",),
        lines=lines,
    )


DEEP_GEMM = _deep_gemm("deep-gemm", "DG_JIT_CACHE_DIR", ("deep-gemm", "torch"))
VLLM_DEEP_GEMM = _deep_gemm("vllm-deep-gemm", "VLLM_CACHE_ROOT", ("vllm", "torch"), "deep_gemm")
SGLANG_DEEP_GEMM = _deep_gemm(
    "sglang-deep-gemm",
    "SGLANG_DG_CACHE_DIR",
    # The copy of DeepGEMM is in the wheel of the kernels, which has had both names.
    ("sglang", "sglang-kernel", "sgl-kernel", "torch"),
    lines=_SGLANG_LINES,
)
TRTLLM_DEEP_GEMM = Family(
    name="trtllm-deep-gemm",
    library="TensorRT-LLM's DeepGEMM",
    source="flashinfer-python 0.7.2 csrc/nv_internal/tensorrt_llm/deep_gemm/compiler.cuh, runtime.cuh",
    variable="TRTLLM_DG_CACHE_DIR",
    # FlashInfer brings a copy of it, and TensorRT-LLM needs FlashInfer.
    distributions=("flashinfer-python", "tensorrt-llm", "torch"),
    environment=("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "TRTLLM_DG_NVCC_COMPILER"),
    # The name of a kernel has its shapes alone: neither version, flags nor paths.
    hard=(*HOST, *GPU, "nvcc"),
    soft=SOFT,
    merge=Merge.WHOLE_DIRECTORIES,
    group=2,
    markers=("*_kernel.cubin",),
    exclude=(*LOCKS, "tmp/*"),
    compiled=("*_kernel.cubin",),
)

# ninja decides by modification times and by absolute paths in build.ninja, .ninja_log and
# .ninja_deps. The headers of the package are newer after each installation, so a cache serves only
# an environment that is not installed anew, such as that of an image.
_NINJA_PATH = ("python.environment", "cuda.home", "cache.root", "package.times")
FLASHINFER = Family(
    name="flashinfer",
    library="FlashInfer",
    source="flashinfer-python 0.7.2 jit/env.py, core.py, cpp_ext.py, cute_dsl_core.py",
    variable="FLASHINFER_WORKSPACE_BASE",
    # Its headers and its calls are those of TVM FFI.
    distributions=("flashinfer-python", "apache-tvm-ffi", "torch"),
    environment=(
        *_NVCC_ENVIRONMENT,
        "FLASHINFER_CUDA_ARCH_LIST",
        "FLASHINFER_EXTRA_CFLAGS",
        "FLASHINFER_EXTRA_CUDAFLAGS",
        "FLASHINFER_EXTRA_LDFLAGS",
        "FLASHINFER_NVCC",
        "FLASHINFER_JIT_DEBUG",
        "FLASHINFER_JIT_LINEINFO",
        "CUTE_DSL_ARCH",
    ),
    hard=(*HOST, "python.abi", *GPU, "nvcc", "compiler", "torch.cuda"),
    path=_NINJA_PATH,
    soft=SOFT,
    merge=Merge.WHOLE_DIRECTORIES,
    group=4,
    markers=(".ninja_log", ".ninja_deps", "*_cute_dsl/meta.json"),
    exclude=(*LOCKS, "cubins/*", "*/cached_ops/tmp/*", "*.log"),
    # A kernel in CuTe DSL is an object file for itself.
    compiled=("*.so", "*_cute_dsl/*.o"),
    # "Loading JIT ops" is logged whether or not something is built, so it proves nothing.
)
TVM_FFI = Family(
    name="tvm-ffi",
    library="TVM FFI",
    source="apache-tvm-ffi 0.1.15 cpp/extension.py",
    variable="TVM_FFI_CACHE_DIR",
    distributions=("apache-tvm-ffi", "torch"),
    environment=("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "TVM_FFI_CUDA_ARCH_LIST"),
    # The key has no version of CUDA.
    hard=(*HOST, "python.abi", *GPU, "nvcc", "compiler", "torch.cuda"),
    path=_NINJA_PATH,
    soft=SOFT,
    merge=Merge.WHOLE_DIRECTORIES,
    group=1,
    markers=(".ninja_log", ".ninja_deps"),
    exclude=(*LOCKS, "lock"),
    compiled=("*.so",),
)
TILELANG = Family(
    name="tilelang",
    library="TileLang",
    source="tilelang 0.1.12 and 0.1.15 env.py, cache/kernel_cache.py, autotuner/tuner.py; measured",
    variable="TILELANG_CACHE_DIR",
    distributions=("tilelang", "torch"),
    environment=_NVCC_ENVIRONMENT,
    # The key has the function, its target and the version of TileLang, and no path.
    hard=(*HOST, "python.abi", *GPU, "nvcc", "compiler"),
    soft=SOFT,
    merge=Merge.WHOLE_DIRECTORIES,
    # VERSION/PLATFORM/kernels/KEY, beside `cuda-binaries` and `autotuner`.
    group=4,
    exclude=(*LOCKS, "*/.staging/*", ".*.tmp.*"),
    compiled=("*.so", "*.cubin"),
    lines=(
        CacheLine(
            kind=CacheLineKind.COMPILED,
            literal="TileLang completes to compile kernel",
            pattern=r"TileLang completes to compile kernel `(?P<name>[^`]+)`",
        ),
    ),
)
CUTE_DSL = Family(
    name="cute-dsl",
    library="CuTe DSL",
    source="nvidia-cutlass-dsl-libs-core 4.8.1 base_dsl/dsl.py, cache_helpers.py, env_manager.py",
    variable="CUTE_DSL_CACHE_DIR",
    # The first one holds no code of its own.
    distributions=(
        "nvidia-cutlass-dsl",
        "nvidia-cutlass-dsl-libs-core",
        "nvidia-cutlass-dsl-libs-base",
        "nvidia-cutlass-dsl-libs-cu12",
        "nvidia-cutlass-dsl-libs-cu13",
    ),
    environment=("CUTE_DSL_ARCH",),
    hard=(*HOST, "python.abi", *GPU),
    # The key is a digest of the MLIR, in which the path of each source file stands, and of the paths of
    # the libraries.
    path=("python.environment",),
    soft=SOFT,
    exclude=LOCKS,
    compiled=("*.mlir",),
)
CUDA = Family(
    name="cuda",
    library="CUDA's compute cache",
    source="CUDA C++ Programming Guide, environment variables",
    variable="CUDA_CACHE_PATH",
    needs_gpu=True,
    hard=(*HOST, "gpu.names", "gpu.capability", "driver"),
    soft=SOFT,
    # The driver keeps an index beside its entries, so entries of two caches are never mixed.
    merge=Merge.WHOLE_DIRECTORIES,
    exclude=LOCKS,
)
KERNEL_ROWS = (
    DEEP_GEMM,
    VLLM_DEEP_GEMM,
    SGLANG_DEEP_GEMM,
    TRTLLM_DEEP_GEMM,
    FLASHINFER,
    TVM_FFI,
    TILELANG,
    CUTE_DSL,
    CUDA,
)


# --- all families, and the directory of each ---

FAMILIES: Mapping[str, Family] = {family.name: family for family in (*TORCH_ROWS, *KERNEL_ROWS)}


def all_families() -> tuple[Family, ...]:
    """Every family that is known, by its name."""
    return tuple(FAMILIES.values())


def directory_of(family: Family, environ: Mapping[str, str]) -> Path | None:
    """Where a process with `environ` has this cache, whether or not it exists.

    None if nothing says so: no variable, and no default or no home directory.
    """
    top = _top(family, environ)
    return None if top is None else top / family.subdirectory


def _top(family: Family, environ: Mapping[str, str]) -> Path | None:
    row = BY_VARIABLE.get(family.variable or "")
    if row is not None:
        return cache_directory(row, environ)
    value = environ.get(family.variable) if family.variable else None
    if value:
        return Path(value)
    return default_directory(family.default, environ) if family.default else None
