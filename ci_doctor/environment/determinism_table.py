# SPDX-License-Identifier: Apache-2.0
"""The catalogue of determinism variables: data, one row a variable. Adding one is adding a row."""

from msgspec import Struct


class Row(Struct, frozen=True):
    """What is known of one variable.

    `default` and `strict` are the values that those profiles set where the variable is unset (None: recorded only).
    `effect` says what it does and when, `overwritten` who replaces the value in its own process, `no_effect` why it
    does nothing (then a set value is a finding). `source` is where that is written.
    """

    name: str
    library: str
    effect: str
    source: str
    default: str | None = None
    strict: str | None = None
    overwritten: str | None = None
    no_effect: str | None = None
    allowed: str | None = None


_BATCH_INVARIANT = "vllm/model_executor/layers/batch_invariant.py, override_envs_for_invariance"
_BY_VLLM = "vLLM with VLLM_BATCH_INVARIANT=1 sets {} in its own process"

TABLE: tuple[Row, ...] = (
    Row(
        "CUBLAS_WORKSPACE_CONFIG",
        "cuBLAS, PyTorch",
        "the same bits also with several active streams; read when the first cuBLAS handle is made; PyTorch's own "
        "default on SM90 is the same size, so there it changes nothing",
        "cuBLAS documentation, 'Results reproducibility'; pytorch aten/src/ATen/cuda/CublasHandlePool.cpp",
        default=":4096:8",
        strict=":4096:8",
        overwritten=_BY_VLLM.format(":4096:8, then :16:8 on SM90 and later"),
        allowed=r":\d+:\d+(:\d+:\d+)*",
    ),
    Row(
        "PYTHONHASHSEED",
        "CPython",
        "stable hash(str), which keys caches shared between processes; read at interpreter start",
        "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED",
        default="0",
        strict="0",
        allowed=r"random|\d+",
    ),
    Row(
        "OMP_DYNAMIC",
        "OpenMP",
        "a fixed number of threads, so a fixed split of CPU reductions",
        "OpenMP specification, OMP_DYNAMIC",
        default="FALSE",
        strict="FALSE",
    ),
    Row(
        "MKL_DYNAMIC",
        "oneMKL",
        "a fixed number of threads, so a fixed split of CPU reductions",
        "oneMKL developer guide, 'MKL_DYNAMIC'",
        default="FALSE",
        strict="FALSE",
    ),
    Row(
        "VLLM_BATCH_INVARIANT",
        "vLLM (SM80 and later)",
        "batch-invariant kernels; sets about fourteen other variables: no longer the configuration that is shipped",
        _BATCH_INVARIANT,
        strict="1",
    ),
    Row(
        "CUBLASLT_WORKSPACE_SIZE",
        "PyTorch cuBLASLt",
        "1 KiB denies split-K kernels; slower matrix products",
        "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp",
        strict="1",
        overwritten=_BY_VLLM.format("1 on SM90 and later"),
    ),
    Row(
        "NCCL_ALGO",
        "NCCL",
        "a fixed reduction order with more than one GPU",
        f"NCCL documentation, environment variables; {_BATCH_INVARIANT}",
        strict="allreduce:tree",
        overwritten=_BY_VLLM.format("allreduce:tree"),
    ),
    Row(
        "NCCL_PROTO",
        "NCCL",
        "one protocol; costs bandwidth",
        f"NCCL documentation, environment variables; {_BATCH_INVARIANT}",
        strict="Simple",
        overwritten=_BY_VLLM.format("Simple"),
    ),
    Row(
        "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
        "Transformer Engine",
        "0 forbids nondeterministic attention kernels",
        "Transformer Engine documentation, environment variables",
        strict="0",
    ),
    Row(
        "TF_DETERMINISTIC_OPS",
        "TensorFlow",
        "deterministic operations (the older form of enable_op_determinism)",
        "TensorFlow API, tf.config.experimental.enable_op_determinism",
        strict="1",
    ),
    Row(
        "ROCBLAS_DEFAULT_ATOMICS_MODE",
        "rocBLAS",
        "0 forbids atomics; an API call outranks it; slower",
        "rocBLAS documentation, 'Atomic operations'",
        strict="0",
    ),
    Row(
        "HCCL_DETERMINISTIC",
        "Ascend HCCL",
        "ordered reductions",
        "HCCL documentation",
        strict="true",
    ),
    Row(
        "MKL_CBWR",
        "oneMKL",
        "the same bits on different Intel CPUs; slower",
        "oneMKL developer guide, 'Conditional Numerical Reproducibility'",
        strict="COMPATIBLE",
    ),
    Row(
        "VLLM_ENABLE_V1_MULTIPROCESSING",
        "vLLM",
        "0 makes offline scheduling deterministic; of no use to a server",
        "https://docs.vllm.ai/en/latest/usage/reproducibility.html",
    ),
    Row(
        "TORCHINDUCTOR_DETERMINISTIC",
        "PyTorch Inductor",
        "no on-device benchmarking where it changes numerics; slower",
        "pytorch torch/_inductor/config.py",
    ),
    Row(
        "VLLM_TRITON_FORCE_FIRST_CONFIG",
        "vLLM, Triton",
        "the first valid kernel configuration instead of a timing race; meant for debugging",
        "https://github.com/vllm-project/vllm/pull/42425",
    ),
    Row(
        "TRITON_CACHE_AUTOTUNING",
        "Triton",
        "keeps autotune winners: the first start is cold and later ones warm",
        "https://github.com/vllm-project/vllm/pull/37188",
    ),
    Row(
        "TRITON_CACHE_DIR",
        "Triton",
        "where compiled kernels and winners are kept",
        "Triton documentation",
    ),
    Row(
        "OMP_NUM_THREADS",
        "OpenMP",
        "the number of threads decides how a reduction is split",
        "OpenMP specification",
    ),
    Row(
        "NVIDIA_TF32_OVERRIDE",
        "CUDA libraries",
        "0 turns TF32 off: precision, not order",
        "cuBLAS documentation",
    ),
    Row(
        "XLA_FLAGS",
        "XLA, JAX",
        "--xla_gpu_deterministic_ops=true also stops autotuning",
        "XLA flags documentation",
    ),
    Row(
        "NCCL_DETERMINISTIC",
        "none",
        "set by many scripts",
        "NCCL documentation, environment variables (absent)",
        no_effect="NCCL has no such variable",
    ),
    Row(
        "FLASH_ATTENTION_DETERMINISTIC",
        "transformers, flash-attn",
        "a deterministic backward pass",
        "flash-attn API, `deterministic`",
        no_effect="it concerns the backward pass; serving has none",
    ),
)

BY_NAME = {row.name: row for row in TABLE}
