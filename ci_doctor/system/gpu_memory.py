# SPDX-License-Identifier: Apache-2.0
"""Reads how much memory of each GPU is in use, by NVIDIA's library (nvidia-ml-py, extra `gpu`)."""

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ci_doctor.errors import CiDoctorError, InfraError, UsageError
from ci_doctor.model.distribution import install_extra

_MIB = 2**20


class GpuMemory(Struct, frozen=True, kw_only=True):
    """The memory of one GPU.

    `used` is bytes, None if the GPU has no memory of its own. `holders` are the pids of processes
    that hold some of it; pids of the machine, not of a container.
    """

    index: int
    used: int | None
    holders: tuple[int, ...] = ()

    def describe(self) -> str:
        """`GPU 0 has 1,024 MiB in use, by pid 42`."""
        by = "by no process that NVIDIA's driver names"
        if self.holders:
            by = f"by pid {', '.join(map(str, self.holders))}"
        return f"GPU {self.index} has {(self.used or 0) // _MIB:,} MiB in use, {by}"


def check_gpu_library() -> None:
    """Raise UsageError if NVIDIA's Python library is not installed."""
    try:
        importlib.import_module("pynvml")
    except ImportError as error:
        raise UsageError(
            'released = ["gpu-memory"] needs NVIDIA\'s Python library, which is not installed',
            hint=install_extra("gpu"),
        ) from error


def read_gpu_memory() -> tuple[GpuMemory, ...]:
    """Every GPU of this machine. May take a second, to initialise the driver.

    Raises UsageError as `check_gpu_library` does, and InfraError if the driver does not answer.
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
    """Whether there is a GPU whose memory can be read: the library, a driver, and a device.

    Determined once: to initialise the driver may take a second.
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
    processes: list[Any] = []
    # Some drivers do not list processes, as under WSL; the memory in use is what counts.
    with contextlib.suppress(pynvml.NVMLError):
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    pids = tuple(process.pid for process in processes)
    return GpuMemory(index=index, used=used, holders=pids)
