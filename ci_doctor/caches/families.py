# SPDX-License-Identifier: Apache-2.0
"""Reads the user's name: families of JIT caches as data, a row for each library, and the directory of each."""

import enum
import functools
import json
import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from ci_doctor.environment.cache_table import BY_VARIABLE, cache_directory, default_directory
from ci_doctor.errors import UsageError
from ci_doctor.store.plan import Merge

# --- the names of facts by which a cache's validity is decided ---

MACHINE = (
    "os.architecture",
    "glibc",
    "cpu.isa",
    "cpu.model",
    "cpu.threads",
    "compiler",
    "compiler.native",
    "nvcc",
    "cuda.home",
)
GPUS = ("gpu.names", "gpu.capability", "driver", "driver.major")
PYTHON = (
    "python.abi",
    "python.base",
    "python.environment",
    "python.packages",
    "torch.git",
    "torch.cuda",
)
# The job's own variables at Buildkite.
JOB = {
    "job.pipeline": "BUILDKITE_PIPELINE_SLUG",
    "job.step": "BUILDKITE_STEP_KEY",
    "job.branch": "BUILDKITE_BRANCH",
    "job.directory": "BUILDKITE_BUILD_CHECKOUT_PATH",
}
OF_A_CACHE = ("cache.root", "package.times")
_NAMES = frozenset((*MACHINE, *GPUS, *PYTHON, *JOB, *OF_A_CACHE))


def is_fact_name(name: str) -> bool:
    """Whether a fact has this name; `package.NAME` is the build of a distribution."""
    return name in _NAMES or (name.startswith("package.") and len(name) > len("package."))


# --- a family of JIT caches: what is known of one library's cache directory, as data ---


class Rewrite(enum.StrEnum):
    """How the files of a cache are changed for another directory."""

    TRITON_GROUPS = "triton-groups"


class CacheLineKind(enum.StrEnum):
    """What a line in a log says about a cache.

    `directory`: the library uses this directory. `loaded`: it loaded something compiled earlier.
    `compiled`: it compiled something, or begins to. `total`: the seconds that all of it took, which
    holds for loads too. `disabled`: it uses no cache.
    """

    DIRECTORY = "directory"
    LOADED = "loaded"
    COMPILED = "compiled"
    TOTAL = "total"
    DISABLED = "disabled"


class CacheLine(Struct, frozen=True, kw_only=True):
    """A line that a library logs. `literal` stands in it; `pattern` is a regex for re.search.

    Its groups, if it has them: `directory` (a path), `seconds`, `name` (a kernel or graph).
    """

    kind: CacheLineKind
    literal: str
    pattern: str


class OwnFamily(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cache.own.NAME]`: the fields of a family of one's own.

    Nobody has said what decides validity of an unknown cache, so by default everything does: the
    machine, its compiler and its GPUs, the Python environment with its packages, and the directory.
    files: whose content decides, relative to the working directory (a lock file). fallback: if no
    saved cache has these contents, the newest that fits otherwise is restored.
    """

    variable: str | None = None
    default: str | None = None
    subdirectory: str = ""
    distributions: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    fallback: bool = False
    hard: tuple[str, ...] = (
        "os.architecture",
        "glibc",
        "python.abi",
        "python.packages",
        "cpu.isa",
        "compiler",
        "compiler.native",
        "nvcc",
        "gpu.names",
        "gpu.capability",
        "driver",
    )
    path: tuple[str, ...] = ("cache.root", "python.environment", "python.base")
    soft: tuple[str, ...] = ("job.pipeline", "job.step", "job.branch")
    merge: Merge = Merge.UNION
    group: int = 0
    markers: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ("*.lock", "*.tmp", "tmp/*", "*/tmp/*")
    compiled: tuple[str, ...] = ("*",)
    lines: tuple[CacheLine, ...] = ()


class Family(OwnFamily, frozen=True, kw_only=True):
    """One family.

    variable: names its directory (`environment/cache_table.py`); None for a family whose
    directory is `default` alone. subdirectory: below that directory.
    distributions: whose version and files are facts of the hard tier.
    environment: variables that change what is compiled, facts of the hard tier if they are set.
    files: whose content is a fact of the hard tier, or of the soft one with `fallback`.
    needs_gpu: without a GPU, the family is another one's, and its identity is unknown.
    hard, soft: names of facts. path: facts that are baked into the cache, which is
    inert if one of them differs. rewrite: what makes it usable in another directory; without it and
    without `cache.root` in `path`, its directory means nothing.
    merge, group: how it joins a directory that exists; a group of files that belong together is
    what has its first `group` components of the path in common (0: each file for itself, or all of the
    cache if whole directories are merged).
    markers: files without which the library ignores the others, to be installed last.
    exclude: what is never saved. compiled: files of which a compile makes one or more.
    lines: what the library logs about it. source: where all this was read.
    """

    name: str
    library: str
    source: str
    needs_gpu: bool = False
    hard: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    rewrite: Rewrite | None = None
    exclude: tuple[str, ...] = ()

    def excludes(self, path: str) -> bool:
        """Whether the file at `path`, relative with "/", is never saved."""
        return _pattern(self.exclude).match(path) is not None

    def is_marker(self, path: str) -> bool:
        """Whether the file at `path` is to be installed after the others."""
        return _pattern(self.markers).match(path) is not None

    def is_compiled(self, path: str) -> bool:
        """Whether the file at `path` shows that something was compiled."""
        return _pattern(self.compiled).match(path) is not None and not self.excludes(path)

    def group_of(self, path: str) -> str:
        """The name of the group of files to which `path` belongs."""
        if self.merge is Merge.WHOLE_DIRECTORIES and not self.group:
            return ""
        parts = path.split("/")
        return "/".join(parts[: self.group]) if 0 < self.group < len(parts) else path


@functools.cache
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    """`*` matches across "/"; a glob without "/" is compared with the last component too."""
    parts = [translate(glob) if "/" in glob else f"(?s:.*/)?{translate(glob)}" for glob in globs]
    return re.compile("|".join(parts) or r"(?!)")


# --- families of a repository's own: `NAME=DIR`, and `[cache.own.NAME]` ---

# It is a part of the names of objects in a store.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def own_family(name: str, settings: OwnFamily | None = None) -> Family:
    """A family of one's own. Raises UsageError for what no family can be."""
    settings = settings or OwnFamily()
    key = f"[cache.own.{name}]"
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a cache family",
            hint="use lower-case letters, digits and hyphens",
        )
    if settings.fallback and not settings.files:
        raise UsageError(f"{key}: fallback is about `files`, and none is named")
    for fact in (*settings.hard, *settings.path, *settings.soft):
        if not is_fact_name(fact):
            raise UsageError(f"{key} names a fact that nobody reads: {fact}")
    for line in settings.lines:
        try:
            re.compile(line.pattern)
        except re.error as error:
            raise UsageError(f"{key} has a pattern that is no regex: {error}") from error
    if ".." in settings.subdirectory.split("/") or settings.subdirectory.startswith("/"):
        raise UsageError(f"{key}: subdirectory leads out of the directory")
    fields = {field: getattr(settings, field) for field in OwnFamily.__struct_fields__}
    return Family(name=name, library=name, source="this repository's configuration", **fields)


# --- a cache moved to another directory: the files in which its path stands are rewritten ---
# Triton's FileCacheManager (3.9, runtime/cache.py) writes a `__grp__NAME.json` per kernel, with the
# absolute path of each file of the kernel. The files always lie beside it, so the new paths follow
# from where it lies: in a cache of Triton's own, and in those that TorchInductor and vLLM nest in
# theirs.

# A group file names a dozen files. What is larger is something else.
_LIMIT = 1 << 20


def relocate(family: Family, new_root: str) -> Callable[[str, bytes], bytes] | None:
    """From a file's relative path and its content to its content below `new_root` (absolute).

    None: no file of this family needs it.
    """
    if family.rewrite is not Rewrite.TRITON_GROUPS:
        return None
    root = PurePosixPath(new_root)
    return lambda path, content: _group(root / path, content) if _is_group(path) else content


def _is_group(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("__grp__") and name.endswith(".json")


def _group(file: PurePosixPath, content: bytes) -> bytes:
    """The group file with the paths of its files beside it.

    A path into another directory stays: Triton would never have written it. What is no group stays
    too, which Triton takes as a miss.
    """
    if len(content) > _LIMIT:
        return content
    try:
        group: Any = json.loads(content)
        children = group["child_paths"]
        group["child_paths"] = {name: _child(file, path) for name, path in children.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return content
    return json.dumps(group).encode()


def _child(file: PurePosixPath, path: str) -> str:
    old = PurePosixPath(path)
    return str(file.parent / old.name) if old.parent.name == file.parent.name else path


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


# --- the rows of libraries that compile single kernels, of the CUDA driver, and of ccache ---
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
