# SPDX-License-Identifier: Apache-2.0
"""Reads the machine after a stop: waits until what the services held is free again."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.errors import CiDoctorError
from ci_doctor.services.ports import owner_of
from ci_doctor.system import clock
from ci_doctor.system.gpu_memory import GpuMemory, check_gpu_library, read_gpu_memory
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
    """Wait until all hold, or for `limit_s`; returns a sentence for each that does not, and says who is in its way."""
    deadline = clock.now() + limit_s
    waits = []
    for condition in conditions:
        match condition:
            case PortReleased(port=port):
                waits.append(_port(port, deadline, limit_s))
            case GpuMemoryBack():
                waits.append(_gpu_memory(condition, deadline, limit_s))
    return tuple(sentence for sentences in await asyncio.gather(*waits) for sentence in sentences)


async def _port(port: int, deadline: float, limit_s: float) -> tuple[str, ...]:
    while is_listened_on(port):
        left = deadline - clock.now()
        if left <= 0:
            owner = owner_of(port)
            return (f"{owner.describe()}, still {limit_s:g} s after the stop",) if owner else ()
        await asyncio.sleep(min(_PORT_PAUSE_S, left))
    return ()


async def _gpu_memory(condition: GpuMemoryBack, deadline: float, limit_s: float) -> tuple[str, ...]:
    before = {gpu.index: gpu.used for gpu in condition.before}
    seen = f"the driver has not said within {limit_s:g} s of the stop how much memory of the GPUs is in use"
    held: tuple[str, ...] = (seen,)
    while True:
        try:
            # At least once, however short the limit is.
            now = await asyncio.wait_for(_read_aside(), max(1.0, deadline - clock.now()))
        except (TimeoutError, CiDoctorError) as error:
            return (str(error),) if isinstance(error, CiDoctorError) else held
        held = tuple(
            f"{gpu.describe()}, {limit_s:g} s after the stop; it was {(was or 0) // 2**20:,} MiB before the start"
            for gpu in now
            if gpu.used is not None
            and gpu.used > ((was := before.get(gpu.index)) or 0) + condition.margin
        )
        left = deadline - clock.now()
        if not held or left <= 0:
            return held
        await asyncio.sleep(min(_GPU_PAUSE_S, left))


async def _read_aside() -> tuple[GpuMemory, ...]:
    """In a thread that nobody waits for in the end: a wedged driver does not answer at all, and exit must not hang."""
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
