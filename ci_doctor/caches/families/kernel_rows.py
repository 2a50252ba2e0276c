# SPDX-License-Identifier: Apache-2.0
"""Pure. The rows of libraries that compile single kernels, of the CUDA driver, and of ccache.

All of this is read in sources and issues; the rebuilds by ninja are measured, and that the digest of
a TileLang function holds no path.
"""

from ci_doctor.caches.families.family import CacheLine, CacheLineKind, Family
from ci_doctor.caches.families.torch_rows import GPU, HOST, LOCKS, SOFT
from ci_doctor.store.merge import Merge

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
CCACHE = Family(
    name="ccache",
    library="ccache",
    source="ccache manual: the key is the preprocessed source, the compiler and its options",
    variable="CCACHE_DIR",
    default="$XDG_CACHE_HOME/ccache",
    environment=(
        "CCACHE_BASEDIR",
        "CCACHE_COMPILERCHECK",
        "CCACHE_EXTRAFILES",
        "CCACHE_IGNOREHEADERS",
        "CCACHE_IGNOREOPTIONS",
        "CCACHE_SLOPPINESS",
    ),
    # Of -march=native it hashes the word alone (measured), and any command may have it.
    hard=(*HOST, "compiler", "compiler.native"),
    # Whether another checkout hits depends on CCACHE_BASEDIR and the options of the compiler.
    soft=("job.directory", "job.pipeline", "job.step", "job.branch"),
    exclude=(*LOCKS, "tmp/*", "*/tmp/*", "*stats*"),
    compiled=("*R", "*.o"),
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
    CCACHE,
)
