# SPDX-License-Identifier: Apache-2.0
"""Pure. The catalogue of determinism variables: one row a variable."""

from typing import Final

from msgspec import Struct


class Contradiction(Struct, frozen=True):
    """A value of a variable that works against determinism, alone or beside `beside`.

    `value` and `beside` (name, value) must both hold; `summary` says what happens then.
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
    pattern for the whole value. `source` is the document or file that the row rests on.
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
    contradiction: Contradiction | None = None


_BATCH_INVARIANT = "vllm/model_executor/layers/batch_invariant.py, override_envs_for_invariance"
_BY_VLLM = "vLLM with VLLM_BATCH_INVARIANT=1 sets {} in its own process"

TABLE: Final[tuple[VariableRow, ...]] = (
    VariableRow(
        "CUBLAS_WORKSPACE_CONFIG",
        "cuBLAS, PyTorch",
        "the same bits also with several active streams; read for the first cuBLAS handle; "
        "PyTorch's own default on SM90 is the same size, so there it changes nothing",
        "cuBLAS documentation, 'Results reproducibility'; "
        "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp",
        default=":4096:8",
        strict=":4096:8",
        overwritten=_BY_VLLM.format(":4096:8, then :16:8 on SM90 and later"),
        allowed=r":\d+:\d+(:\d+:\d+)*",
    ),
    VariableRow(
        "PYTHONHASHSEED",
        "CPython",
        "stable hash(str), which keys caches shared between processes; read at interpreter start",
        "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED",
        default="0",
        strict="0",
        allowed=r"random|\d+",
        contradiction=Contradiction(
            "random",
            "PYTHONHASHSEED=random makes hash(str) differ from process to process",
            "export PYTHONHASHSEED=0",
        ),
    ),
    VariableRow(
        "OMP_DYNAMIC",
        "OpenMP",
        "a fixed number of threads, so a fixed split of CPU reductions",
        "OpenMP specification, OMP_DYNAMIC",
        default="FALSE",
        strict="FALSE",
    ),
    VariableRow(
        "MKL_DYNAMIC",
        "oneMKL",
        "a fixed number of threads, so a fixed split of CPU reductions",
        "oneMKL developer guide, 'MKL_DYNAMIC'",
        default="FALSE",
        strict="FALSE",
    ),
    VariableRow(
        "VLLM_BATCH_INVARIANT",
        "vLLM (SM80 and later)",
        "batch-invariant kernels; sets about fourteen other variables, "
        "so the configuration is no longer the shipped one",
        _BATCH_INVARIANT,
        strict="1",
    ),
    VariableRow(
        "CUBLASLT_WORKSPACE_SIZE",
        "PyTorch cuBLASLt",
        "1 KiB denies split-K kernels; slower matrix products",
        "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp",
        strict="1",
        overwritten=_BY_VLLM.format("1 on SM90 and later"),
    ),
    VariableRow(
        "NCCL_ALGO",
        "NCCL",
        "a fixed reduction order with more than one GPU",
        f"NCCL documentation, environment variables; {_BATCH_INVARIANT}",
        strict="allreduce:tree",
        overwritten=_BY_VLLM.format("allreduce:tree"),
    ),
    VariableRow(
        "NCCL_PROTO",
        "NCCL",
        "one protocol; costs bandwidth",
        f"NCCL documentation, environment variables; {_BATCH_INVARIANT}",
        strict="Simple",
        overwritten=_BY_VLLM.format("Simple"),
    ),
    VariableRow(
        "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
        "Transformer Engine",
        "0 forbids nondeterministic attention kernels",
        "Transformer Engine documentation, environment variables",
        strict="0",
    ),
    VariableRow(
        "TF_DETERMINISTIC_OPS",
        "TensorFlow",
        "deterministic operations (the older form of enable_op_determinism)",
        "TensorFlow API, tf.config.experimental.enable_op_determinism",
        strict="1",
    ),
    VariableRow(
        "ROCBLAS_DEFAULT_ATOMICS_MODE",
        "rocBLAS",
        "0 forbids atomics; an API call outranks it; slower",
        "rocBLAS documentation, 'Atomic operations'",
        strict="0",
    ),
    VariableRow(
        "HCCL_DETERMINISTIC",
        "Ascend HCCL",
        "ordered reductions",
        "HCCL documentation",
        strict="true",
    ),
    VariableRow(
        "MKL_CBWR",
        "oneMKL",
        "the same bits on different Intel CPUs; slower",
        "oneMKL developer guide, 'Conditional Numerical Reproducibility'",
        strict="COMPATIBLE",
    ),
    VariableRow(
        "VLLM_ENABLE_V1_MULTIPROCESSING",
        "vLLM",
        "0 makes offline scheduling deterministic; of no use to a server",
        "https://docs.vllm.ai/en/latest/usage/reproducibility.html",
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
    ),
    VariableRow(
        "VLLM_TRITON_FORCE_FIRST_CONFIG",
        "vLLM, Triton",
        "the first valid kernel configuration instead of a timing race; meant for debugging",
        "https://github.com/vllm-project/vllm/pull/42425",
        contradiction=Contradiction(
            "1",
            "VLLM_TRITON_FORCE_FIRST_CONFIG and a kept autotune cache (TRITON_CACHE_AUTOTUNING=1) "
            "contradict each other",
            "unset TRITON_CACHE_AUTOTUNING",
            beside=("TRITON_CACHE_AUTOTUNING", "1"),
        ),
    ),
    VariableRow(
        "TRITON_CACHE_AUTOTUNING",
        "Triton",
        "keeps autotune winners: the first start is cold and later ones warm",
        "https://github.com/vllm-project/vllm/pull/37188",
    ),
    VariableRow(
        "TRITON_CACHE_DIR",
        "Triton",
        "where compiled kernels and winners are kept",
        "Triton documentation",
    ),
    VariableRow(
        "OMP_NUM_THREADS",
        "OpenMP",
        "the number of threads decides how a reduction is split",
        "OpenMP specification",
    ),
    VariableRow(
        "NVIDIA_TF32_OVERRIDE",
        "CUDA libraries",
        "0 turns TF32 off: precision, not order",
        "cuBLAS documentation",
    ),
    VariableRow(
        "XLA_FLAGS",
        "XLA, JAX",
        "--xla_gpu_deterministic_ops=true also stops autotuning",
        "XLA flags documentation",
    ),
    VariableRow(
        "NCCL_DETERMINISTIC",
        "none",
        "set by many scripts",
        "NCCL documentation, environment variables (absent)",
        no_effect="NCCL has no such variable",
    ),
    VariableRow(
        "FLASH_ATTENTION_DETERMINISTIC",
        "transformers, flash-attn",
        "a deterministic backward pass",
        "flash-attn API, `deterministic`",
        no_effect="it concerns the backward pass; serving has none",
    ),
)

BY_NAME: Final = {row.name: row for row in TABLE}
