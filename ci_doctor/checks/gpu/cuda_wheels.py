# SPDX-License-Identifier: Apache-2.0
"""Pure. For which CUDA major NVIDIA's wheels were built, by their names and versions.

Wheels for CUDA 11 and 12 have names such as `nvidia-cublas-cu12`. For CUDA 13 most have no suffix,
and their version begins with 13; those that count otherwise keep one (`nvidia-nccl-cu13`).
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.identity.libraries import Installed

_SUFFIXED = re.compile(r"(nvidia-.+?)-cu(\d{2})")
# Wheels without a suffix whose version begins with the CUDA major.
_COUNT_LIKE_CUDA: Final = frozenset(
    {
        "nvidia-cublas",
        "nvidia-cuda-runtime",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-cupti",
        "nvidia-nvjitlink",
        "nvidia-nvtx",
    }
)
# Wheels of every major install these at one place, so the last one installed is there.
SHARED_PLACES: Final = {
    "nvidia-nccl": "nvidia/nccl/lib/libnccl.so.2",
    "nvidia-cudnn": "nvidia/cudnn/lib/libcudnn.so.9",
    "nvidia-nvshmem": "nvidia/nvshmem/lib/libnvshmem_host.so.3",
    "nvidia-cusparselt": "nvidia/cusparselt/lib/libcusparseLt.so.0",
}


class CudaWheel(Struct, frozen=True, kw_only=True):
    """One of NVIDIA's wheels; `library` is its name without the CUDA major."""

    library: str
    cuda: int
    distribution: Installed


def cuda_wheels(distributions: Sequence[Installed]) -> list[CudaWheel]:
    """Those of `distributions` that belong to one CUDA major."""
    wheels = []
    for distribution in distributions:
        named = _named(distribution)
        if named is not None:
            library, cuda = named
            wheels.append(CudaWheel(library=library, cuda=cuda, distribution=distribution))
    return wheels


def _named(distribution: Installed) -> tuple[str, int] | None:
    name = distribution.name
    match = _SUFFIXED.fullmatch(name)
    if match is not None:
        return match[1], int(match[2])
    first, _, _ = distribution.version.partition(".")
    if name in _COUNT_LIKE_CUDA and first.isdigit():
        return name, int(first)
    return None


def mixed(wheels: Sequence[CudaWheel]) -> dict[str, list[CudaWheel]]:
    """The libraries that have wheels of more than one major."""
    by_library: dict[str, list[CudaWheel]] = {}
    for wheel in wheels:
        by_library.setdefault(wheel.library, []).append(wheel)
    return {library: same for library, same in by_library.items() if _has_several(same)}


def _has_several(wheels: Sequence[CudaWheel]) -> bool:
    return len({wheel.cuda for wheel in wheels}) > 1
