# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the parts of GPUs (MIG) as devices of their own, with memory and name."""

from collections.abc import Iterator, Sequence

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import MigPart, gpus_of, mig_parts
from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.visible_devices import VARIABLE, GpuView


def gpu_view(context: CheckContext) -> GpuView:
    """The GPUs with their parts. `nvidia-smi -L` is asked only if a GPU is divided.

    Raises UndeterminedError if nvidia-smi has no answer.
    """
    gpus = gpus_of(context)
    parts: tuple[SmiGpu, ...] = ()
    if any(gpu.is_partitioned for gpu in gpus):
        parts = tuple(parts_as_gpus(gpus, context.shared(mig_parts)))
    return GpuView(gpus=gpus, chosen=context.environ.get(VARIABLE), parts=parts)


def parts_as_gpus(gpus: Sequence[SmiGpu], names: Sequence[MigPart]) -> Iterator[SmiGpu]:
    """Each part that both know: the XML has the memory, the list has the UUID."""
    by_index = {gpu.index: gpu for gpu in gpus}
    for name in names:
        gpu = by_index.get(name.gpu)
        if gpu is None:
            continue
        for part in gpu.parts:
            if part.index == name.index:
                yield SmiGpu(
                    index=gpu.index,
                    bus_id=gpu.bus_id,
                    name=f"{gpu.name}, MIG {name.profile}",
                    uuid=name.uuid,
                    memory=part.memory,
                )
