# SPDX-License-Identifier: Apache-2.0
"""Decides which variables of a server's environment are facts of its identity, and what of them is effective. Pure."""

import re
from collections.abc import Mapping

from ci_doctor.environment.determinism import AS_REQUESTED, effective
from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.identity.identity import Identity

PREFIXES = (
    *(
        "VLLM_",
        "SGLANG_",
        "SGL_",
        "LMCACHE_",
        "FLASHINFER_",
        "TRITON_",
        "TORCH",
        "PYTORCH_",
        "CUBLAS",
        "CUDNN_",
        "NCCL_",
    ),
    *(
        "NVIDIA_TF32",
        "OMP_",
        "KMP_",
        "GOMP_",
        "MKL_",
        "OPENBLAS_",
        "ATEN_",
        "XLA_",
        "HIPBLAS",
        "ROCBLAS_",
        "RCCL_",
    ),
    *(
        "MIOPEN_",
        "HCCL_",
        "NVTE_",
        "DNNL_",
        "ONEDNN_",
        "TF_",
        "JAX_",
        "DG_",
        "PYTHONHASHSEED",
        "CUDA_LAUNCH_BLOCKING",
    ),
)
# Where things lie, whom to talk to, what to tell of, and what is nobody's business: none of it decides a bit.
_LEFT_OUT = re.compile(
    r"(?:^|_)(?:DIR|DIRECTORY|ROOT|PATH|BASE|HOME|CACHE|HOST|PORT|IP|URL|ADDR|KEY|TOKEN|SECRET|PASSWORD|LOG|LOGGING"
    r"|LOGS|TIMEOUT|TRACE|TRACES|USAGE|STATS|PROFILER|IFNAME|DEBUG|WARN|FILE|UUID|ID)(?:_|$)"
)


def variables(environ: Mapping[str, str]) -> Identity:
    """`env.NAME` for what may decide bits; the value that is effective, where another than the requested is known to be.

    A variable that does nothing is noted only. What a process sets itself cannot be seen from outside.
    """
    facts: dict[str, str] = {}
    noted: dict[str, str] = {}
    for name, value in environ.items():
        if not is_fact(name):
            continue
        row = BY_NAME.get(name)
        told = effective(row, environ) if row else AS_REQUESTED
        if row is not None and row.no_effect:
            noted[f"env.{name}"] = f"{value} ({told})"
        else:
            facts[f"env.{name}"] = value if told == AS_REQUESTED else f"{value} ({told})"
    return Identity.of(facts, {}, noted)


def is_fact(name: str) -> bool:
    """Whether a variable with this name may decide bits."""
    return (name in BY_NAME or name.startswith(PREFIXES)) and not _LEFT_OUT.search(name)
