# SPDX-License-Identifier: Apache-2.0
"""Pure. Which variables of a server's environment are facts of its identity, and their effect."""

import re
from collections.abc import Mapping

from ci_doctor.environment.determinism import AS_REQUESTED, effective
from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.identity.identity import Identity

# Of engines, of torch and Triton, of the CPU, of the GPU and of ROCm.
PREFIXES = (
    *("VLLM_", "SGLANG_", "SGL_", "LMCACHE_", "FLASHINFER_", "DG_", "TF_", "JAX_", "XLA_"),
    *("TRITON_", "TORCH", "PYTORCH_", "ATEN_", "NVTE_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "PYTHONHASHSEED"),
    *("CUBLAS", "CUDNN_", "NCCL_", "NVIDIA_TF32", "CUDA_LAUNCH_BLOCKING", "HCCL_"),
    *("HIPBLAS", "ROCBLAS_", "RCCL_", "MIOPEN_"),
)
# Places, addresses, logging and secrets: none of these decides a bit of an answer.
_LEFT_OUT = re.compile(
    r"(?:^|_)(?:DIR|DIRECTORY|ROOT|PATH|BASE|HOME|CACHE|HOST|PORT|IP|URL|ADDR|KEY|TOKEN|SECRET"
    r"|PASSWORD|LOG|LOGGING|LOGS|TIMEOUT|TRACE|TRACES|USAGE|STATS|PROFILER|IFNAME|DEBUG|WARN"
    r"|FILE|UUID|ID)(?:_|$)"
)


def variables(environ: Mapping[str, str]) -> Identity:
    """`env.NAME` for what may decide bits, with a note if the effective value is known to differ.

    A variable that does nothing is noted only. What a process sets itself cannot be observed from
    outside.
    """
    facts: dict[str, str] = {}
    noted: dict[str, str] = {}
    for name, value in environ.items():
        if not is_fact(name):
            continue
        row = BY_NAME.get(name)
        effect = effective(row, environ) if row else AS_REQUESTED
        text = value if effect == AS_REQUESTED else f"{value} ({effect})"
        if row is not None and row.no_effect:
            noted[f"env.{name}"] = text
        else:
            facts[f"env.{name}"] = text
    return Identity.of(facts, {}, noted)


def is_fact(name: str) -> bool:
    """Whether a variable with this name may decide bits."""
    return (name in BY_NAME or name.startswith(PREFIXES)) and not _LEFT_OUT.search(name)
