# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether the configured services fit into the free memory of the GPUs.

vLLM takes `share` of a GPU's memory, and ends at its start if less than that is free
(vllm/v1/worker: "Free memory on device … is less than desired GPU memory utilization"). SGLang
takes `share` of what is free, so it starts, with a smaller cache.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.visible_devices import GpuView
from ci_doctor.services.gpu_demand import GpuDemand, GpuEngine
from ci_doctor.services.spec import ServiceSpec


class GpuShortage(Struct, frozen=True, kw_only=True):
    """Services that do not fit on a GPU: bytes `needed` and `free`.

    `is_certain`: they cannot start. Otherwise they may start with less than they are to have.
    """

    gpu: SmiGpu
    services: tuple[str, ...]
    needed: int
    free: int
    is_certain: bool


def shortages(
    demands: Sequence[GpuDemand], view: GpuView, together: Sequence[frozenset[str]]
) -> list[GpuShortage]:
    """What does not fit into what each service sees of `view`.

    `together` are the names of services that run at the same time: their shares add up.
    """
    short = []
    placed: dict[SmiGpu, list[tuple[GpuDemand, int]]] = {}
    for demand in demands:
        last = demand.first + demand.gpus
        for gpu in view.visible(demand.visible).usable[demand.first : last]:
            needed = _needed(demand, gpu)
            if needed is None:
                continue
            placed.setdefault(gpu, []).append((demand, needed))
            one = _shortage(gpu, [(demand, needed)])
            if one is not None:
                short.append(one)
    for gpu, rows in placed.items():
        for names in together:
            group = [row for row in rows if row[0].service in names]
            both = _shortage(gpu, group)
            if len(group) > 1 and both is not None:
                short.append(both)
    return short


def running_together(services: Mapping[str, ServiceSpec]) -> list[frozenset[str]]:
    """The groups of services that `needs` ties together, each of two or more.

    Others may replace each other, as the arms of a comparison do.
    """
    groups: list[set[str]] = []
    for name, spec in services.items():
        joined = {name, *spec.needs}
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return [frozenset(group) for group in groups if len(group) > 1]


def _needed(demand: GpuDemand, gpu: SmiGpu) -> int | None:
    usable = gpu.memory.usable
    if demand.share is None or usable is None:
        return None
    return int(demand.share * usable)


def _shortage(gpu: SmiGpu, rows: Sequence[tuple[GpuDemand, int]]) -> GpuShortage | None:
    free = gpu.memory.free
    needed = sum(size for _, size in rows)
    if free is None or needed <= free:
        return None
    is_certain = any(demand.engine is GpuEngine.VLLM for demand, _ in rows)
    return GpuShortage(
        gpu=gpu,
        services=tuple(demand.service for demand, _ in rows),
        needed=needed,
        free=free,
        is_certain=is_certain,
    )
