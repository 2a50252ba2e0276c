# SPDX-License-Identifier: Apache-2.0
"""Stands in for torch in tests of `ci-doctor doctor --gpu`: its folder is put on PYTHONPATH of the job's interpreter.

It copies, of torch's documented API, the names that ci_doctor/checks/gpu_programs use, with torch's signatures.
No GPU is there and nothing is computed: a tensor is a size and a number that stands for its content, so a product of
equal operands is equal. The programs themselves were run with torch 2.13 on a CPU by hand.

The variable STAND_IN_TORCH says as JSON how it behaves:
`cuda`: the version it is built with; `no_driver`: the error of `cuda.init`; `devices`: how many GPUs; `broken`: one on
which nothing can be computed; `varying`: `without`, `with` or `always`: products then differ in each
start; `dies_once`: a file to be made by the first product, whose process then dies; `hangs`: products never end;
`no_products`: none; `unsupported_size`: bytes of an element of which there are no products; `no_room`: every
allocation of some size fails.
"""

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from . import cuda, version
from .behaviour import BEHAVIOUR

__version__ = "9.9.9+standin"
__all__ = ["cuda", "version"]

int16, int32, int64, float16, bfloat16, float32 = 2, 4, 8, 2, 2, 4
# Elements that a product has: its bytes are really there.
_MOST = 64


class Tensor:
    """A size, and a number for its content."""

    def __init__(self, count: int, size: int, value: int, device: Any = None) -> None:
        if device == f"cuda:{BEHAVIOUR.get('broken')}":
            raise RuntimeError(
                "CUDA error: no kernel image is available for execution on the device"
            )
        self.count, self.size, self.value = count, size, value

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return self.size

    def data_ptr(self) -> int:
        text = str(self.value).encode()
        self._bytes = ctypes.create_string_buffer(text, self.count * self.size)
        return ctypes.addressof(self._bytes)

    def cpu(self) -> "Tensor":
        return self

    contiguous = cpu

    def to(self, dtype: int) -> "Tensor":
        return Tensor(self.count, dtype, self.value)

    view = to

    def sum(self, dtype: int = int64) -> "Tensor":
        return Tensor(1, dtype, self.value)

    def item(self) -> int:
        return self.value

    def __matmul__(self, other: "Tensor") -> "Tensor":
        return Tensor(_MOST, self.size, _product(self.value, other.value, self.size))


class Generator:
    """torch.Generator."""

    def __init__(self, device: Any = None) -> None:
        self.state = 0

    def manual_seed(self, seed: int) -> None:
        self.state = seed


def _product(left: int, right: int, size: int) -> int:
    if BEHAVIOUR.get("no_products") or size == BEHAVIOUR.get("unsupported_size"):
        raise RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx`")
    _die_once()
    if BEHAVIOUR.get("hangs"):
        time.sleep(600)
    is_set = "CUBLAS_WORKSPACE_CONFIG" in os.environ
    if BEHAVIOUR.get("varying") in {"always", "with" if is_set else "without"}:
        return os.getpid()
    return left + right


def _die_once() -> None:
    path = BEHAVIOUR.get("dies_once")
    if path and not Path(path).exists():
        Path(path).touch()
        print("CUDA error: an illegal memory access was encountered", file=sys.stderr)
        os._exit(3)


def _make_room() -> None:
    if BEHAVIOUR.get("no_room"):
        raise cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def addmm(bias: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return left @ right


def arange(end: int, *, device: Any = None) -> Tensor:
    return Tensor(end, int64, end * (end - 1) // 2, device)


def randn(shape: tuple[int, ...], *, generator: Generator, device: Any, dtype: int) -> Tensor:
    _make_room()
    generator.state += 1
    return Tensor(_MOST, dtype, generator.state, device)
