# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.machine.gpus import GpuMemory, check_gpu_library, read_gpu_memory
from ci_doctor.services.ports import gpu_memory_held, port_held

MIB = 2**20

# Stands in for NVIDIA's library where there is no GPU. It copies what the NVML API reference says: every call but
# nvmlInit raises NVML_ERROR_UNINITIALIZED before it; init and shutdown are counted; nvmlDeviceGetMemoryInfo has `used`
# in bytes, or raises NVML_ERROR_NOT_SUPPORTED; nvmlDeviceGetComputeRunningProcesses has `pid` and `usedGpuMemory`.
# Each line of the file $GPUS is a GPU: used MiB or `none`, then pids; without that file no driver is loaded.
STAND_IN = """
import os, time
from types import SimpleNamespace

class NVMLError(Exception): pass
class NVMLError_NotSupported(NVMLError): pass
class NVMLError_Uninitialized(NVMLError): pass
class NVMLError_DriverNotLoaded(NVMLError):
    def __str__(self): return "Driver Not Loaded"

count = 0

def gpus():
    if not count:
        raise NVMLError_Uninitialized
    with open(os.environ["GPUS"]) as file:
        return [line.split() for line in file]

def nvmlInit():
    global count
    if not os.path.exists(os.environ["GPUS"]):
        raise NVMLError_DriverNotLoaded
    count += 1
    while ["hangs"] in gpus():
        time.sleep(0.01)

def nvmlShutdown():
    global count
    count -= 1

def nvmlDeviceGetCount(): return len(gpus())
def nvmlDeviceGetHandleByIndex(index): return index

def nvmlDeviceGetMemoryInfo(handle):
    used = gpus()[handle][0]
    if used == "none":
        raise NVMLError_NotSupported
    return SimpleNamespace(total=80 * 2**30, used=int(used) * 2**20, free=0)

def nvmlDeviceGetComputeRunningProcesses(handle):
    return [SimpleNamespace(pid=int(pid), usedGpuMemory=None) for pid in gpus()[handle][1:]]
"""


class Gpus:
    """The GPUs that the stand-in shows: for each the MiB in use, and who holds them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def show(self, *lines: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.path)


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpus]:
    (tmp_path / "pynvml.py").write_text(STAND_IN)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.setenv("GPUS", str(tmp_path / "gpus"))
        patch.delitem(sys.modules, "pynvml", raising=False)
        yield Gpus(tmp_path / "gpus")
        sys.modules.pop("pynvml", None)


# --- ports ---


def test_a_port_that_nobody_listens_on_is_released_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert asyncio.run(port_held(port, 0)) == ()


def test_a_port_is_waited_for_until_its_listener_goes() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    async def run() -> tuple[str, ...]:
        asyncio.get_running_loop().call_later(0.1, server.close)
        return await port_held(port, 60)

    began = time.monotonic()
    assert asyncio.run(run()) == ()
    assert time.monotonic() - began >= 0.1


def test_whoever_still_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (sentence,) = asyncio.run(port_held(port, 0.05))
    assert f"port {port} is owned by" in sentence
    assert f"pid {os.getpid()}" in sentence
    assert sentence.endswith("still 0.05 s after the stop")


# --- GPU memory ---


def test_without_nvidia_s_library_the_question_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What an import statement finds where there is no such module.
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UsageError, match=r"which is not installed$") as caught:
        check_gpu_library()
    assert caught.value.hint == "pip install 'ci-doctor-toolkit[gpu]'"


def test_a_machine_without_a_driver_cannot_answer(gpus: Gpus) -> None:
    check_gpu_library()
    with pytest.raises(InfraError, match="Driver Not Loaded"):
        read_gpu_memory()
    (sentence,) = asyncio.run(gpu_memory_held((), 0))
    assert "Driver Not Loaded" in sentence


def test_the_memory_of_each_gpu_is_read(gpus: Gpus) -> None:
    gpus.show("1024 42 43", "0", "none")
    assert read_gpu_memory() == (
        GpuMemory(index=0, used=1024 * MIB, holders=(42, 43)),
        GpuMemory(index=1, used=0),
        GpuMemory(index=2, used=None),
    )


def test_memory_that_is_back_within_the_margin_is_back(gpus: Gpus) -> None:
    gpus.show("1000 42", "none")
    before = read_gpu_memory()
    gpus.show("1256 42", "none")
    assert asyncio.run(gpu_memory_held(before, 0)) == ()


def test_memory_is_waited_for(gpus: Gpus) -> None:
    gpus.show("0")
    before = read_gpu_memory()
    gpus.show("70000 42")

    async def run() -> tuple[str, ...]:
        asyncio.get_running_loop().call_later(0.1, gpus.show, "3")
        return await gpu_memory_held(before, 20)

    assert asyncio.run(run()) == ()


def test_memory_that_is_not_given_back_is_told_with_who_holds_it(gpus: Gpus) -> None:
    gpus.show("100", "0")
    before = read_gpu_memory()
    gpus.show("70000 42", "500")
    first, second = asyncio.run(gpu_memory_held(before, 0))
    assert (
        first
        == "GPU 0 has 70,000 MiB in use, by pid 42, 0 s after the stop; it was 100 MiB before the start"
    )
    assert "GPU 1 has 500 MiB in use, by no process that NVIDIA's driver names" in second


def test_a_driver_that_hangs_holds_nothing_up(gpus: Gpus) -> None:
    gpus.show("hangs")
    of_other_tests = set(threading.enumerate())
    (sentence,) = asyncio.run(gpu_memory_held((), 0))
    assert (
        sentence
        == "the driver did not report within 0 s of the stop how much memory of the GPUs is in use"
    )
    (reading,) = set(threading.enumerate()) - of_other_tests
    assert reading.daemon, "the interpreter's exit does not wait for it"
    gpus.show("0")
    reading.join(20)
