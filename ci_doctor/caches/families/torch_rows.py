# SPDX-License-Identifier: Apache-2.0
"""Pure. The rows of Triton, TorchInductor and vLLM's caches of compiled graphs.

Of GPU families, everything is read in sources and issues. Triton without a GPU and TorchInductor
on a CPU are measured (benchmarks/caches).
"""

from ci_doctor.caches.families.family import CacheLine, CacheLineKind, Family, Rewrite
from ci_doctor.store.merge import Merge

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
