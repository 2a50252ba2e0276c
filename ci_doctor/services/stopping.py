# SPDX-License-Identifier: Apache-2.0
"""Reads ports and GPUs: awaits that what a service held is free again."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from ci_doctor.errors import CiDoctorError
from ci_doctor.machine.gpus import GpuMemory, read_gpu_memory
from ci_doctor.services.busy_timeout import aside
from ci_doctor.services.ports import owner_of
from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import is_listened_on

_PORT_PAUSE_S = 0.02
# A look through the GPU driver costs far more than one at a port.
_GPU_PAUSE_S = 0.2
# What other programs of the machine may take meanwhile.
_GPU_MARGIN = 256 * 2**20


async def port_held(port: int, limit_s: float) -> tuple[str, ...]:
    """Wait for `limit_s` seconds until nobody listens on TCP `port` of this machine.

    Returns a sentence on who does, if somebody still does.
    """
    deadline = clock.now() + limit_s
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


async def gpu_memory_held(before: Iterable[GpuMemory], limit_s: float) -> tuple[str, ...]:
    """Wait for `limit_s` seconds until no GPU has notably more in use than `before` the start.

    Returns a sentence for each that has, or on why that is not known.
    """
    used_before = {gpu.index: gpu.used for gpu in before}
    deadline = clock.now() + limit_s
    limit = f"{limit_s:g} s of the stop"
    silent = f"the driver did not report within {limit} how much memory of the GPUs is in use"
    held: tuple[str, ...] = (silent,)
    while True:
        try:
            # At least once, however short the limit is.
            now = await asyncio.wait_for(aside(read_gpu_memory), max(1.0, deadline - clock.now()))
        except TimeoutError:
            return held
        except CiDoctorError as error:
            return (str(error),)
        held = tuple(_grown(used_before, now, limit_s))
        left_s = deadline - clock.now()
        if not held or left_s <= 0:
            return held
        await asyncio.sleep(min(_GPU_PAUSE_S, left_s))


def _grown(
    used_before: Mapping[int, int | None], now: Iterable[GpuMemory], limit_s: float
) -> Iterator[str]:
    """A sentence for each GPU that has more in use than before."""
    for gpu in now:
        # A GPU that did not tell before is taken to have had nothing in use.
        before = used_before.get(gpu.index) or 0
        if gpu.used is None or gpu.used <= before + _GPU_MARGIN:
            continue
        mebibytes = before // 2**20
        yield (
            f"{gpu.describe()}, {limit_s:g} s after the stop; it was {mebibytes:,} MiB before the "
            "start"
        )
