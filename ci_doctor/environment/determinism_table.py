# SPDX-License-Identifier: Apache-2.0
"""Pure. The catalogue of determinism variables with their sources: one row a variable."""

from typing import Final

from msgspec import Struct


class Contradiction(Struct, frozen=True):
    """A value of a variable that works against determinism, alone or beside `beside`.

    `value` is a pattern for the whole value, and so is the second part of `beside` (name, pattern);
    both must hold. `summary` says what happens then.
    """

    value: str
    summary: str
    remedy: str
    beside: tuple[str, str] | None = None


class VariableRow(Struct, frozen=True):
    """One variable.

    `default` and `strict` are the values that those profiles set if the variable is unset (None:
    recorded only). `effect` is what it does and when, `overwritten` who replaces the value in its
    own process, `no_effect` why it does nothing (a set value is then a finding). `allowed` is a
    pattern for the whole value. `source` is the document or file that the row rests on, `read_in`
    the version of it that was read. `file` is that file in an installed package, so that a test can
    read it again.
    """

    name: str
    library: str
    effect: str
    source: str
    read_in: str
    file: str | None = None
    default: str | None = None
    strict: str | None = None
    overwritten: str | None = None
    no_effect: str | None = None
    allowed: str | None = None
    contradiction: Contradiction | None = None


# What `int()` takes, and a variable that only "1" turns on.
INTEGER: Final = r"\s*[+-]?\d+\s*"
NUMBER: Final = r"\d+"
SWITCH: Final = r"[01]"
BOOLEAN: Final = r"(?i)(true|false|yes|no|on|off|y|n|0|1)"
ON: Final = r"(?i)(true|yes|on|y|1)"
ANY: Final = r"(?s).*"


def nccl_list(*names: str) -> str:
    """The values of a list of NCCL: `Ring,Tree`, `^LL`, `allreduce:tree;broadcast:ring`.

    NCCL compares without case and takes an empty value for none. Since 2.24 another word is an
    error at the start; before, it was ignored.
    """
    element = "|".join(names)
    elements = rf"\^?({element})(,+({element}))*,*"
    collective = "(broadcast|reduce|allgather|reducescatter|allreduce):"
    return rf"(?i)(({collective})?{elements}(;+{collective}{elements})*;*)?"


# What a file of the library itself, or a release of it, would show was not read.
UNDATED: Final = "the document alone; no release was read"
VLLM: Final = "vLLM 0.33.0"
ASCEND: Final = "vllm-ascend main, 0b4f942a"
SGLANG: Final = "SGLang 0.5.23"
TORCH: Final = "PyTorch 2.13.0"
TRITON: Final = "Triton 3.9.0"
BATCH_INVARIANT_FILE: Final = "vllm/model_executor/determinism/batch_invariant.py"
BATCH_INVARIANT: Final = f"{BATCH_INVARIANT_FILE}, override_envs_for_invariance"
INDUCTOR: Final = "torch/_inductor/config.py"
TORCH_CUDA: Final = "torch/backends/cuda/__init__.py"
TORCH_CONTEXT: Final = "torch/include/ATen/Context.h"
TRITON_KNOBS: Final = "triton/knobs.py"
ASCEND_FILE: Final = "vllm_ascend/batch_invariant.py"
BY_ASCEND: Final = "vllm-ascend with VLLM_BATCH_INVARIANT=1 sets {} in its own process"
BY_VLLM: Final = "vLLM with VLLM_BATCH_INVARIANT=1 sets {} in its own process"
# EnvBool of sglang/srt/environ.py; anything else is an error there.
SGLANG_BOOLEAN: Final = r"(?i)(true|1|yes|y|false|0|no|n)"


def by_timing(name: str, what: str) -> VariableRow:
    """A switch with which Inductor decides something by measured times."""
    return VariableRow(
        name,
        "PyTorch Inductor",
        f"1 {what} by timing",
        INDUCTOR,
        TORCH,
        file=INDUCTOR,
        allowed=SWITCH,
        contradiction=Contradiction(
            "1",
            f"{name}=1 {what} by timing, so two starts may compute differently",
            f"unset {name}",
        ),
    )


TABLE: Final[tuple[VariableRow, ...]] = (
    # Libraries
    VariableRow(
        "CUBLAS_WORKSPACE_CONFIG",
        "cuBLAS, PyTorch",
        "the same bits also with several active streams; read for the first cuBLAS handle; "
        "PyTorch's own default on SM90 is the same size, so there it changes nothing",
        "cuBLAS documentation, 'Results reproducibility'; "
        "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp; torch/backends/cuda/__init__.py",
        default=":4096:8",
        strict=":4096:8",
        overwritten=BY_VLLM.format(":4096:8, then :16:8 on SM90 and later"),
        allowed=r":\d+:\d+(:\d+:\d+)*",
        read_in=TORCH,
        file=TORCH_CUDA,
    ),
    VariableRow(
        "PYTHONHASHSEED",
        "CPython",
        "stable hash(str), which keys caches shared between processes; read at interpreter start",
        "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED",
        default="0",
        strict="0",
        allowed=r"random|0*(\d{1,9}|[1-3]\d{9}|4[01]\d{8}|42[0-8]\d{7}|429[0-3]\d{6}|4294[0-8]\d{5}|42949[0-5]\d{4}|429496[0-6]\d{3}|4294967[01]\d{2}|42949672[0-8]\d|429496729[0-5])",
        contradiction=Contradiction(
            "random",
            "PYTHONHASHSEED=random makes hash(str) differ from process to process",
            "export PYTHONHASHSEED=0",
        ),
        read_in="CPython 3.11 to 3.13, by running them",
    ),
    VariableRow(
        "OMP_DYNAMIC",
        "OpenMP",
        "a fixed number of threads, so a fixed split of CPU reductions",
        "OpenMP specification, OMP_DYNAMIC",
        default="FALSE",
        strict="FALSE",
        read_in=UNDATED,
        allowed=r"(?i)\s*(true|false|0|1)\s*",
    ),
    VariableRow(
        "MKL_DYNAMIC",
        "oneMKL",
        "a fixed number of threads, so a fixed split of CPU reductions",
        "oneMKL developer guide, 'MKL_DYNAMIC'",
        default="FALSE",
        strict="FALSE",
        read_in=UNDATED,
        allowed=r"(?i)(true|false|0|1)",
    ),
    VariableRow(
        "CUBLASLT_WORKSPACE_SIZE",
        "PyTorch cuBLASLt",
        "1 KiB denies split-K kernels; slower matrix products",
        "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp; torch/backends/cuda/__init__.py",
        strict="1",
        overwritten=BY_VLLM.format("1 on SM90 and later"),
        read_in=TORCH,
        file=TORCH_CUDA,
        allowed=NUMBER,
    ),
    VariableRow(
        "NCCL_ALGO",
        "NCCL",
        "a fixed reduction order with more than one GPU; since NCCL 2.31 a collective that the "
        "value does not name has no algorithm and fails",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        strict="ring,tree;allreduce:tree",
        overwritten=BY_VLLM.format("ring,tree;allreduce:tree"),
        read_in=VLLM,
        allowed=nccl_list(
            "tree",
            "ring",
            # Until 2.13 it was one.
            "collnet(direct|chain)?",
            "nvls(tree)?",
            "pat",
        ),
        file=BATCH_INVARIANT_FILE,
    ),
    VariableRow(
        "NCCL_PROTO",
        "NCCL",
        "one protocol; costs bandwidth",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        strict="Simple",
        overwritten=BY_VLLM.format("Simple"),
        read_in=VLLM,
        allowed=nccl_list("ll", "ll128", "simple"),
        file=BATCH_INVARIANT_FILE,
    ),
    VariableRow(
        "NCCL_LAUNCH_MODE",
        "NCCL",
        "how kernels of one process are launched",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("GROUP"),
        allowed=r"(?i)(GROUP|PARALLEL)",
    ),
    VariableRow(
        "NCCL_COLLNET_ENABLE",
        "NCCL",
        "1 reduces in the network, in an order of its own",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("0"),
        allowed=SWITCH,
    ),
    VariableRow(
        "NCCL_NVLS_ENABLE",
        "NCCL",
        "1 and 2 reduce in the NVLink switch, in an order of its own",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("0"),
        allowed=r"[012]",
    ),
    VariableRow(
        "NCCL_P2P_NET_DISABLE",
        "NCCL",
        "1 forbids the network within a node",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("1"),
        allowed=SWITCH,
    ),
    VariableRow(
        "NCCL_MIN_NCHANNELS",
        "NCCL",
        "how many parts a reduction is split into, at least",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("1"),
        allowed=NUMBER,
    ),
    VariableRow(
        "NCCL_MAX_NCHANNELS",
        "NCCL",
        "how many parts a reduction is split into, at most",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("1"),
        allowed=NUMBER,
    ),
    VariableRow(
        "NCCL_NTHREADS",
        "NCCL",
        "how many threads reduce one part",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("1"),
        # Multiples of 32; NCCL replaces any other by the highest.
        allowed="|".join(map(str, range(64, 641, 32))),
    ),
    VariableRow(
        "NCCL_SOCKET_NTHREADS",
        "NCCL",
        "how many threads serve one network connection",
        f"NCCL documentation, environment variables; {BATCH_INVARIANT}",
        VLLM,
        file=BATCH_INVARIANT_FILE,
        overwritten=BY_VLLM.format("1"),
        allowed=NUMBER,
    ),
    VariableRow(
        "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
        "Transformer Engine",
        "0 forbids nondeterministic attention kernels",
        "Transformer Engine documentation, environment variables",
        strict="0",
        read_in=UNDATED,
        allowed=SWITCH,
    ),
    VariableRow(
        "TF_DETERMINISTIC_OPS",
        "TensorFlow",
        "deterministic operations (the older form of enable_op_determinism)",
        "TensorFlow API, tf.config.experimental.enable_op_determinism",
        strict="1",
        read_in=UNDATED,
        allowed=r"(?i)(0|1|true|false)",
    ),
    VariableRow(
        "ROCBLAS_DEFAULT_ATOMICS_MODE",
        "rocBLAS",
        "0 forbids atomics; an API call outranks it; slower",
        "rocBLAS documentation, 'Atomic operations'",
        strict="0",
        read_in=UNDATED,
        allowed=SWITCH,
    ),
    VariableRow(
        "MKL_CBWR",
        "oneMKL",
        "the same bits on different Intel CPUs; slower",
        "oneMKL developer guide, 'Conditional Numerical Reproducibility'",
        strict="COMPATIBLE",
        read_in="oneMKL developer guide for Linux, 2024.2",
        allowed=r"(?i)(BRANCH=)?(COMPATIBLE|AUTO|SSE2|SSE3|SSSE3|SSE4_[12]|AVX|AVX2|AVX512|AVX512_MIC|AVX512_E1|AVX512_MIC_E1)(,STRICT)?",
    ),
    VariableRow(
        "OMP_NUM_THREADS",
        "OpenMP",
        "the number of threads decides how a reduction is split",
        "OpenMP specification",
        read_in=UNDATED,
        allowed=r"\s*0*[1-9]\d*(\s*,\s*0*[1-9]\d*)*\s*",
    ),
    VariableRow(
        "NVIDIA_TF32_OVERRIDE",
        "CUDA libraries",
        "0 turns TF32 off: precision, not order",
        "cuBLAS documentation",
        read_in=UNDATED,
        allowed=SWITCH,
    ),
    VariableRow(
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "PyTorch",
        "1 forces TF32 on in cuBLAS: precision, not order",
        f"{TORCH_CONTEXT}; PyTorch documentation, CUDA environment variables",
        TORCH,
        file=TORCH_CONTEXT,
        allowed=SWITCH,
        contradiction=Contradiction(
            "1",
            "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 asks for TF32 and NVIDIA_TF32_OVERRIDE=0 forbids it",
            "unset TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
            beside=("NVIDIA_TF32_OVERRIDE", "0"),
        ),
    ),
    VariableRow(
        "XLA_FLAGS",
        "XLA, JAX",
        "--xla_gpu_deterministic_ops=true also stops autotuning",
        "XLA flags documentation",
        read_in=UNDATED,
        allowed=ANY,
    ),
    VariableRow(
        "NCCL_DETERMINISTIC",
        "none",
        "set by many scripts",
        "NCCL documentation, environment variables (absent)",
        no_effect="NCCL has no such variable",
        read_in=UNDATED,
    ),
    VariableRow(
        "FLASH_ATTENTION_DETERMINISTIC",
        "transformers, flash-attn",
        "a deterministic backward pass",
        "flash-attn API, `deterministic`",
        no_effect="it concerns the backward pass; serving has none",
        read_in=UNDATED,
    ),
    # Serving engines, compilers and Ascend
    VariableRow(
        "VLLM_BATCH_INVARIANT",
        "vLLM, by int(),",
        "batch-invariant kernels (SM80 and later); sets more than a dozen other variables, "
        "so the configuration is no longer the shipped one",
        BATCH_INVARIANT,
        strict="1",
        read_in=VLLM,
        allowed=INTEGER,
        file="vllm/envs.py",
    ),
    VariableRow(
        "VLLM_ENABLE_V1_MULTIPROCESSING",
        "vLLM",
        "0 makes offline scheduling deterministic; of no use to a server",
        "https://docs.vllm.ai/en/latest/usage/reproducibility.html",
        read_in=VLLM,
        allowed=INTEGER,
        file="vllm/envs.py",
    ),
    VariableRow(
        "VLLM_TRITON_FORCE_FIRST_CONFIG",
        "vLLM, Triton",
        "the first valid kernel configuration instead of a timing race; meant for debugging",
        "vllm/envs.py; https://github.com/vllm-project/vllm/pull/42425",
        contradiction=Contradiction(
            r"(?i)\s*(1|true)\s*",
            "VLLM_TRITON_FORCE_FIRST_CONFIG and a kept autotune cache (TRITON_CACHE_AUTOTUNING=1) "
            "contradict each other",
            "unset TRITON_CACHE_AUTOTUNING",
            beside=("TRITON_CACHE_AUTOTUNING", ON),
        ),
        read_in=VLLM,
        file="vllm/envs.py",
        allowed=r"(?i)\s*(0|1|true|false)\s*",
    ),
    VariableRow(
        "SGLANG_ENABLE_DETERMINISTIC_INFERENCE",
        "SGLang",
        "deterministic kernels and all-reduce",
        "sglang/srt/environ.py; sglang/srt/arg_groups/serving_hook.py",
        SGLANG,
        file="sglang/srt/environ.py",
        no_effect="SGLang sets it itself, to 0 without the flag --enable-deterministic-inference",
    ),
    VariableRow(
        "SGLANG_USE_1STAGE_ALLREDUCE",
        "SGLang on ROCm",
        "1 fixes the order of an all-reduce; --enable-deterministic-inference does it too",
        "sglang/srt/environ.py",
        SGLANG,
        file="sglang/srt/environ.py",
        allowed=SGLANG_BOOLEAN,
    ),
    VariableRow(
        "SGLANG_DETERMINISTIC_NCCL_NCHANNELS",
        "SGLang, by int()",
        "how many NCCL channels --enable-deterministic-inference pins, 8 by default",
        "sglang/srt/environ.py; sglang/srt/arg_groups/attention_hook.py",
        SGLANG,
        file="sglang/srt/environ.py",
        allowed=INTEGER,
    ),
    VariableRow(
        "SGLANG_DSA_TOPK_FLASHINFER_DETERMINISTIC",
        "SGLang",
        "a deterministic top-k of sparse attention with FlashInfer",
        "sglang/srt/environ.py",
        SGLANG,
        file="sglang/srt/environ.py",
        allowed=SGLANG_BOOLEAN,
    ),
    VariableRow(
        "TRITON_CACHE_AUTOTUNING",
        "Triton",
        "keeps autotune winners: the first start is cold and later ones warm",
        "triton/knobs.py; https://github.com/vllm-project/vllm/pull/37188",
        read_in=TRITON,
        file=TRITON_KNOBS,
        allowed=BOOLEAN,
    ),
    VariableRow(
        "TRITON_CACHE_DIR",
        "Triton",
        "where compiled kernels and winners are kept",
        "triton/knobs.py",
        read_in=TRITON,
        file=TRITON_KNOBS,
        allowed=r"(?s).+",
    ),
    VariableRow(
        "TORCHINDUCTOR_DETERMINISTIC",
        "PyTorch Inductor",
        "no on-device benchmarking where it changes numerics; slower",
        "pytorch torch/_inductor/config.py",
        contradiction=Contradiction(
            "1",
            "TORCHINDUCTOR_DETERMINISTIC=1 has failed to compile with vLLM's default combo kernels "
            "(observed with torch 2.13)",
            "pass --compilation-config with benchmark_combo_kernel false, "
            "or unset TORCHINDUCTOR_DETERMINISTIC",
        ),
        read_in=TORCH,
        allowed=SWITCH,
        file=INDUCTOR,
    ),
    VariableRow(
        "TORCHINDUCTOR_BATCH_INVARIANT",
        "PyTorch Inductor",
        "1 compiles kernels whose sums do not depend on the batch size; slower",
        INDUCTOR,
        TORCH,
        file=INDUCTOR,
        allowed=SWITCH,
    ),
    by_timing("TORCHINDUCTOR_MAX_AUTOTUNE", "picks kernels"),
    by_timing("TORCHINDUCTOR_MAX_AUTOTUNE_POINTWISE", "picks pointwise and reduction kernels"),
    by_timing("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM", "picks matrix products"),
    by_timing("TORCHINDUCTOR_COORDINATE_DESCENT_TUNING", "picks tile sizes"),
    by_timing("TORCHINDUCTOR_BENCHMARK_FUSION", "decides which kernels are fused"),
    by_timing(
        "TORCHINDUCTOR_MIX_ORDER_REDUCTION_AUTOTUNE_SPLIT_SIZE", "picks how a reduction is split"
    ),
    VariableRow(
        "TORCHINDUCTOR_SPLIT_REDUCTIONS",
        "PyTorch Inductor",
        "0 computes each reduction in one kernel, so in one order",
        INDUCTOR,
        TORCH,
        file=INDUCTOR,
        allowed=SWITCH,
    ),
    VariableRow(
        "HCCL_DETERMINISTIC",
        "Ascend HCCL",
        "ordered reductions",
        "vllm_ascend/batch_invariant.py, override_envs_for_invariance; HCCL documentation",
        strict="true",
        read_in=ASCEND,
        allowed=r"(?i)(true|false|strict)",
        file=ASCEND_FILE,
        overwritten=BY_ASCEND.format("strict"),
    ),
    VariableRow(
        "LCCL_DETERMINISTIC",
        "Ascend LCCL",
        "1 fixes the order of an all-reduce of up to eight ranks",
        "vllm_ascend/batch_invariant.py; MindSpore Transformers documentation",
        ASCEND,
        file=ASCEND_FILE,
        strict="1",
        overwritten=BY_ASCEND.format("1"),
        allowed=r"(?i)(0|1|true|false)",
    ),
    VariableRow(
        "ATB_MATMUL_SHUFFLE_K_ENABLE",
        "Ascend Transformer Boost",
        "0 fixes the order in which a matrix product adds; about a tenth slower",
        "vllm-ascend documentation, FAQ on deterministic results",
        UNDATED,
        strict="0",
        allowed=SWITCH,
    ),
    VariableRow(
        "ATB_LLM_LCOC_ENABLE",
        "Ascend Transformer Boost",
        "0 stops overlapping communication with matrix products",
        "vllm-ascend documentation, FAQ on deterministic results",
        UNDATED,
        strict="0",
        allowed=SWITCH,
    ),
)
BY_NAME: Final = {row.name: row for row in TABLE}
