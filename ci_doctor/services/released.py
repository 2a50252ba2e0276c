# SPDX-License-Identifier: Apache-2.0
"""Reads the machine after a stop: waits until what the services held is free again."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Iterator

from msgspec import Struct

from ci_doctor.errors import CiDoctorError
from ci_doctor.machine.gpus import GpuMemory, check_gpu_library, read_gpu_memory
from ci_doctor.services.ports import owner_of
from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import is_listened_on

__all__ = [
    "Condition",
    "GpuMemoryBack",
    "PortReleased",
    "check_gpu_library",
    "read_gpu_memory",
    "wait_released",
]

_PORT_PAUSE_S = 0.02
# A look through the GPU driver costs far more than one at a port.
_GPU_PAUSE_S = 0.2


class PortReleased(Struct, frozen=True, kw_only=True):
    """Nobody listens on TCP `port` of this machine any more."""

    port: int


class GpuMemoryBack(Struct, frozen=True, kw_only=True):
    """No GPU has more than `margin` bytes more in use than `before` the start (read_gpu_memory)."""

    before: tuple[GpuMemory, ...]
    margin: int = 256 * 2**20


Condition = PortReleased | GpuMemoryBack


async def wait_released(conditions: Iterable[Condition], limit_s: float) -> tuple[str, ...]:
    """Wait until all hold, or for `limit_s` seconds.

    Returns a sentence for each that does not hold, with what is in its way.
    """
    deadline = clock.now() + limit_s
    waits = []
    for condition in conditions:
        match condition:
            case PortReleased(port=port):
                waits.append(_port(port, deadline, limit_s))
            case GpuMemoryBack():
                waits.append(_gpu_memory(condition, deadline, limit_s))
    sentences: list[str] = []
    for held in await asyncio.gather(*waits):
        sentences.extend(held)
    return tuple(sentences)


async def _port(port: int, deadline: float, limit_s: float) -> tuple[str, ...]:
    while is_listened_on(port):
        left_s = deadline - clock.now()
        if left_s <= 0:
            owner = owner_of(port)
            # Released between the two looks.
            if owner is None:
                return ()
            return (f"{owner.describe()}, still {limit_s:g} s after the stop",)
        await asyncio.sleep(min(_PORT_PAUSE_S, left_s))
    return ()


async def _gpu_memory(condition: GpuMemoryBack, deadline: float, limit_s: float) -> tuple[str, ...]:
    limit = f"{limit_s:g} s of the stop"
    silent = f"the driver did not report within {limit} how much memory of the GPUs is in use"
    held: tuple[str, ...] = (silent,)
    while True:
        try:
            # At least once, however short the limit is.
            now = await asyncio.wait_for(_read_aside(), max(1.0, deadline - clock.now()))
        except TimeoutError:
            return held
        except CiDoctorError as error:
            return (str(error),)
        held = tuple(_gpu_memory_held(condition, now, limit_s))
        left_s = deadline - clock.now()
        if not held or left_s <= 0:
            return held
        await asyncio.sleep(min(_GPU_PAUSE_S, left_s))


def _gpu_memory_held(
    condition: GpuMemoryBack, now: Iterable[GpuMemory], limit_s: float
) -> Iterator[str]:
    """A sentence for each GPU that has more in use than before."""
    used_before = {gpu.index: gpu.used for gpu in condition.before}
    for gpu in now:
        # A GPU that did not tell before is taken to have had nothing in use.
        before = used_before.get(gpu.index) or 0
        if gpu.used is None or gpu.used <= before + condition.margin:
            continue
        mebibytes = before // 2**20
        yield (
            f"{gpu.describe()}, {limit_s:g} s after the stop; it was {mebibytes:,} MiB before the "
            "start"
        )


async def _read_aside() -> tuple[GpuMemory, ...]:
    """Read in a thread that nobody waits for at exit: a wedged driver never answers."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[GpuMemory, ...]] = loop.create_future()

    def deliver(memory: tuple[GpuMemory, ...] | None, error: CiDoctorError | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        elif memory is not None:
            answer.set_result(memory)

    def read() -> None:
        memory, failure = None, None
        try:
            memory = read_gpu_memory()
        except CiDoctorError as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed by now
            loop.call_soon_threadsafe(deliver, memory, failure)

    threading.Thread(target=read, daemon=True, name="gpu-memory").start()
    return await answer
