# SPDX-License-Identifier: Apache-2.0
"""Which classes are right for the categories of the labelled serving logs.

A category with several classes is one that says what happened and not why: a crash of native code
may be a mistake in it, an extension built for another library, or an error of CUDA.
"""

from typing import Final

from ci_doctor.model.cause import FailureClass

CLASSES: Final = {
    "abi_mismatch": {FailureClass.ABI_MISMATCH},
    "api_drift": {FailureClass.API_DRIFT},
    # Processes that write to one cache of compiled kernels: a mistake in the program, which shows as
    # a missing file.
    "cache_race": {FailureClass.CODE_BUG, FailureClass.COMPILE_ERROR},
    "code_bug": {FailureClass.CODE_BUG},
    "comm": {FailureClass.RENDEZVOUS},
    "compile": {FailureClass.COMPILE_ERROR},
    "cuda": {FailureClass.CUDA_ERROR},
    # CUDA says it, the start method of multiprocessing is a setting.
    "cuda_fork": {FailureClass.CUDA_ERROR, FailureClass.CONFIGURATION},
    # Packages that cannot be used together.
    "env_conflict": {FailureClass.CONFIGURATION, FailureClass.API_DRIFT},
    "import_circular": {FailureClass.IMPORT_RACE},
    "missing_dep": {FailureClass.MISSING_DEPENDENCY},
    # A checkpoint that does not fit the model's code, or a file that is damaged.
    "model_load": {FailureClass.CONFIGURATION},
    "oom_gpu": {FailureClass.GPU_OUT_OF_MEMORY},
    "oom_host": {FailureClass.HOST_OUT_OF_MEMORY},
    "network": {FailureClass.NETWORK, FailureClass.REGISTRY},
    "port_in_use": {FailureClass.PORT_IN_USE},
    "segfault": {FailureClass.CODE_BUG, FailureClass.CUDA_ERROR},
    "shm_exhausted": {FailureClass.SHARED_MEMORY},
    "timeout": {FailureClass.STALLED, FailureClass.TIMEOUT},
    "unsupported_config": {FailureClass.CONFIGURATION},
}


def is_right_class(category: str | None, class_: str | None) -> bool | None:
    """Whether `class_` is one of those of `category`; None for a category without classes."""
    classes = CLASSES.get(category or "")
    if classes is None:
        return None
    return class_ in classes
