# SPDX-License-Identifier: Apache-2.0
"""Pure. CUDA_VISIBLE_DEVICES: which GPUs a program sees.

CUDA's rule: entries count up to the first that names nothing (CUDA C++ Programming Guide, "CUDA
Environment Variables"). An entry is an index, the beginning of a UUID, or a part of a GPU
(`MIG-…`).
"""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.checks.gpu.smi_log import SmiGpu

VARIABLE = "CUDA_VISIBLE_DEVICES"


class VisibleGpus(Struct, frozen=True, kw_only=True):
    """The GPUs that a program sees, in its order, and the first entry that names nothing.

    `parts` are the entries that name parts of GPUs.
    """

    gpus: tuple[SmiGpu, ...]
    parts: tuple[str, ...] = ()
    missing: str | None = None

    @property
    def count(self) -> int:
        """How many devices CUDA counts."""
        return len(self.gpus) + len(self.parts)


def visible_gpus(gpus: Sequence[SmiGpu], value: str | None) -> VisibleGpus:
    """What a program with `value` in CUDA_VISIBLE_DEVICES sees of `gpus`; None for unset."""
    if value is None:
        return VisibleGpus(gpus=tuple(gpus))
    seen: list[SmiGpu] = []
    parts: list[str] = []
    for entry in value.split(","):
        word = entry.strip()
        if word.startswith("MIG-"):
            parts.append(word)
            continue
        gpu = _named(gpus, word)
        if gpu is None:
            return VisibleGpus(gpus=tuple(seen), parts=tuple(parts), missing=word)
        seen.append(gpu)
    return VisibleGpus(gpus=tuple(seen), parts=tuple(parts))


def _named(gpus: Sequence[SmiGpu], word: str) -> SmiGpu | None:
    if word.isascii() and word.isdigit():
        index = int(word)
        if index < len(gpus):
            return gpus[index]
        return None
    if not word:
        return None
    matches = [gpu for gpu in gpus if (gpu.uuid or "").startswith(word)]
    if len(matches) != 1:
        return None
    return matches[0]
