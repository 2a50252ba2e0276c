# SPDX-License-Identifier: Apache-2.0
"""Reads how much memory of each GPU is in use, through NVIDIA's own library (nvidia-ml-py, the extra `gpu`)."""

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ci_doctor.errors import CiDoctorError, InfraError, UsageError

_MIB = 2**20


class GpuMemory(Struct, frozen=True, kw_only=True):
    """The memory of one GPU: `used` in bytes, None where it has none of its own, and the pids that hold some of it.

    The pids are those of the machine, not of a container.
    """

    index: int
    used: int | None
    holders: tuple[int, ...] = ()

    def describe(self) -> str:
        """`GPU 0 has 1,024 MiB in use, by pid 42`."""
        by = (
            f", by pid {', '.join(map(str, self.holders))}"
            if self.holders
            else ", by no process that NVIDIA's driver names"
        )
        return f"GPU {self.index} has {(self.used or 0) // _MIB:,} MiB in use{by}"


def check_gpu_library() -> None:
    """Raises UsageError where NVIDIA's Python library is not installed."""
    try:
        importlib.import_module("pynvml")
    except ImportError as error:
        raise UsageError(
            'released = ["gpu-memory"] needs NVIDIA\'s Python library, which is not installed',
            hint="pip install 'ci-doctor[gpu]'",
        ) from error


def read_gpu_memory() -> tuple[GpuMemory, ...]:
    """Every GPU of this machine; may take a second, since the driver is woken up.

    Raises UsageError as `check_gpu_library`, and InfraError where the driver does not answer.
    """
    check_gpu_library()
    pynvml: Any = importlib.import_module("pynvml")
    try:
        with _driver(pynvml):
            return tuple(_read(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        raise InfraError(
            f"the memory of the GPUs cannot be read: {error}",
            hint='see whether `nvidia-smi` works here, or take "gpu-memory" out of `released`',
        ) from error


@functools.cache
def can_read_gpu_memory() -> bool:
    """Whether there is a GPU whose memory can be read: the library, a driver that answers, and a device.

    Asked once: waking the driver may take a second.
    """
    try:
        return bool(read_gpu_memory())
    except CiDoctorError:
        return False


@contextlib.contextmanager
def _driver(pynvml: Any) -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _read(pynvml: Any, index: int) -> GpuMemory:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        used = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except pynvml.NVMLError_NotSupported:  # it shares the machine's memory
        return GpuMemory(index=index, used=None)
    holders: tuple[int, ...] = ()
    with contextlib.suppress(pynvml.NVMLError):
        holders = tuple(
            process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        )
    return GpuMemory(index=index, used=used, holders=holders)
