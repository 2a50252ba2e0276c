# SPDX-License-Identifier: Apache-2.0
"""Pure. How suspicious a change is: by what it may have done to results.

The order is that of measurements on serving engines: first what changes the bits of an answer, then
what can make a start or a request fail, then what is worth knowing.
"""

import re
from typing import Final

from msgspec import Struct

from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.identity.libraries import matters
from ci_doctor.identity.variables import is_fact
from ci_doctor.model.facts.drift import Suspicion


class SuspicionRow(Struct, frozen=True, kw_only=True):
    """The suspicion of a change, and its row in there: the lower, the more suspicious."""

    suspicion: Suspicion
    row: int


# Facts and packages that break comparability, in their order. Packages are patterns of whole names.
_BITS: Final = (
    r"gpu(\..+)?",
    r"driver",
    r"cuda\.toolkit|nvidia-cuda-.*|cuda-(python|bindings|core)",
    r"nvidia-cublas.*",
    r"nvidia-cudnn.*",
    r"nvidia-nccl.*",
    r"torch",
    r"triton|triton-kernels|pytorch-triton.*",
    r"flashinfer-.*",
    r"flash-attn.*|vllm-flash-attn|flash-mla",
    r"vllm|sglang|lmcache|tensorrt-llm",
    r"transformers|tokenizers",
)
_OTHER_LIBRARY: Final = len(_BITS)
_DETERMINISM: Final = _OTHER_LIBRARY + 1
_OTHER_SETTING: Final = _DETERMINISM + 1
# Facts that can explain a failure, in their order; packages come between the first and the rest.
_FAILURES: Final = (
    r"python|interpreter",
    r"start file .*",
    r"PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHON.*|VIRTUAL_ENV|PATH",
    r"libc",
    r"limit\..*|memory|shared-memory",
    r"ulimit\..*",
    r"sysctl\..*",
    r"cpu\.(flags|cores|architecture)",
    r"locale|umask|os",
)
_PACKAGE_ROW: Final = 3
# Packages of a distribution that serving engines load or build with.
_SYSTEM: Final = re.compile(
    r"libc6|glibc|musl|libstdc\+\+.*|libgomp\d*|gcc(-\d+)?|g\+\+(-\d+)?|python3(\.\d+)?"
    r"|(lib)?(nvidia|cuda|cudnn|nccl|cublas)[-\d].*|libibverbs\d*|rdma-core|openmpi.*|libopenmpi.*"
)


def of_package(name: str) -> SuspicionRow:
    """Of a Python package, by its normal name."""
    row = _first(_BITS, name)
    if row is not None:
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=row)
    if matters(name):
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=_OTHER_LIBRARY)
    return SuspicionRow(suspicion=Suspicion.FAILURE, row=_PACKAGE_ROW)


def of_fact(name: str) -> SuspicionRow:
    """Of a fact of the machine or of an interpreter."""
    row = _first(_BITS, name)
    if row is not None:
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=row)
    row = _first(_FAILURES, name)
    if row is not None:
        return SuspicionRow(suspicion=Suspicion.FAILURE, row=_behind_packages(row))
    return SuspicionRow(suspicion=Suspicion.INFORMATION, row=0)


def of_variable(name: str) -> SuspicionRow:
    """Of a variable whose value is kept."""
    if name in BY_NAME:
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=_DETERMINISM)
    if is_fact(name):
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=_OTHER_SETTING)
    row = _first(_FAILURES, name)
    if row is None:
        row = len(_FAILURES)
    return SuspicionRow(suspicion=Suspicion.FAILURE, row=_behind_packages(row))


def of_system_package(name: str) -> SuspicionRow:
    """Of a package of the distribution."""
    if _SYSTEM.fullmatch(name.partition(":")[0]):
        return SuspicionRow(suspicion=Suspicion.FAILURE, row=len(_FAILURES) + 2)
    return SuspicionRow(suspicion=Suspicion.INFORMATION, row=2)


# Of an interpreter at another path.
OTHER_PATH: Final = SuspicionRow(suspicion=Suspicion.INFORMATION, row=0)
# The name of a variable alone says little.
NAME_ONLY: Final = SuspicionRow(suspicion=Suspicion.INFORMATION, row=1)


def _behind_packages(row: int) -> int:
    return row if row < _PACKAGE_ROW else row + 1


def _first(patterns: tuple[str, ...], name: str) -> int | None:
    for row, pattern in enumerate(patterns):
        if re.fullmatch(pattern, name):
            return row
    return None
