# SPDX-License-Identifier: Apache-2.0
"""Pure. CUDA_VISIBLE_DEVICES: which GPUs a program sees.

CUDA's rule: entries count up to the first that names nothing (CUDA C++ Programming Guide, "CUDA
Environment Variables"). An entry is an index, the beginning of a UUID, or a part of a GPU
(`MIG-…`). An index is read as strtoul does (`1x` is 1), and an entry that comes twice leaves no GPU
at all (torch.cuda, `_parse_visible_devices`, which follows the driver).
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.checks.gpu.smi_log import SmiGpu

VARIABLE = "CUDA_VISIBLE_DEVICES"
_INDEX = re.compile(r"\+?([0-9]{1,9})(?![0-9])")


class VisibleGpus(Struct, frozen=True, kw_only=True):
    """The GPUs and parts of GPUs that a program sees, in its order.

    `missing` is the first entry that names nothing, `repeated` the first that comes twice. `parts`
    are entries that name parts of which nothing is known.
    """

    gpus: tuple[SmiGpu, ...]
    parts: tuple[str, ...] = ()
    missing: str | None = None
    repeated: str | None = None

    @property
    def count(self) -> int:
        """How many devices CUDA counts."""
        return len(self.gpus) + len(self.parts)

    @property
    def usable(self) -> tuple[SmiGpu, ...]:
        """Those whose memory a program can have: a GPU that is divided gives only its parts."""
        return tuple(gpu for gpu in self.gpus if not gpu.is_partitioned)


class GpuView(Struct, frozen=True, kw_only=True):
    """All GPUs, their known parts (as GPUs of their own), and CUDA_VISIBLE_DEVICES of the job."""

    gpus: tuple[SmiGpu, ...]
    chosen: str | None
    parts: tuple[SmiGpu, ...] = ()

    def visible(self, own: str | None = None) -> VisibleGpus:
        """What a program sees that has `own` in CUDA_VISIBLE_DEVICES; None for the job's value."""
        value = self.chosen if own is None else own
        return visible_gpus(self.gpus, value, self.parts)


def visible_gpus(
    gpus: Sequence[SmiGpu], value: str | None, known: Sequence[SmiGpu] = ()
) -> VisibleGpus:
    """What a program with `value` in CUDA_VISIBLE_DEVICES sees of `gpus`; None for unset.

    `known` are parts of GPUs.
    """
    if value is None:
        return VisibleGpus(gpus=tuple(gpus))
    visible: list[SmiGpu] = []
    parts: list[str] = []
    for entry in value.split(","):
        word = entry.strip()
        gpu = _named(known if word.startswith("MIG-") else gpus, word)
        if gpu is not None and gpu in visible:
            return VisibleGpus(gpus=(), repeated=word)
        if gpu is not None:
            visible.append(gpu)
        elif word.startswith("MIG-"):
            parts.append(word)
        else:
            return VisibleGpus(gpus=tuple(visible), parts=tuple(parts), missing=word)
    return VisibleGpus(gpus=tuple(visible), parts=tuple(parts))


def _named(gpus: Sequence[SmiGpu], word: str) -> SmiGpu | None:
    number = _INDEX.match(word)
    if number is not None:
        index = int(number[1])
        if index < len(gpus):
            return gpus[index]
        return None
    if not word:
        return None
    matches = [gpu for gpu in gpus if (gpu.uuid or "").startswith(word)]
    if len(matches) != 1:
        return None
    return matches[0]
