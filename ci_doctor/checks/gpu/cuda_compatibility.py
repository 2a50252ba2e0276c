# SPDX-License-Identifier: Apache-2.0
"""Pure. Which driver a CUDA release needs.

Source: NVIDIA, CUDA Compatibility, "Minor Version Compatibility", table 1 (release 590): all
releases of a CUDA major run on the drivers from a minimum on, the later ones with limits.
"""

from typing import Final

from msgspec import Struct


class CudaDriver(Struct, frozen=True, kw_only=True):
    """The least driver branch for one CUDA major."""

    cuda: int
    driver: int


CUDA_DRIVERS: Final = (
    CudaDriver(cuda=11, driver=450),
    CudaDriver(cuda=12, driver=525),
    CudaDriver(cuda=13, driver=580),
)


def least_driver(cuda_major: int) -> int | None:
    """The least driver branch for a CUDA major; None for one that the table does not have."""
    for row in CUDA_DRIVERS:
        if row.cuda == cuda_major:
            return row.driver
    return None


def version_key(text: str | None) -> tuple[int, ...]:
    """`12.8` as (12, 8), to compare; empty for what is no version."""
    numbers = []
    for word in (text or "").split("."):
        if not (word.isascii() and word.isdigit()):
            break
        numbers.append(int(word))
    return tuple(numbers)


def major(text: str | None) -> int | None:
    """The first number of a version; None for what is no version."""
    key = version_key(text)
    if not key:
        return None
    return key[0]
