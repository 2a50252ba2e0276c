# SPDX-License-Identifier: Apache-2.0
"""Pure. What `nvidia-smi -q -x` says, as values. Sizes are bytes.

None stands for what the driver does not report: `N/A`, a missing permission, or an element that
this driver does not have. It is never taken for zero.
"""

from msgspec import Struct


class SmiMemory(Struct, frozen=True, kw_only=True):
    """Memory of a GPU, or of a part of it. The driver keeps `reserved` for itself."""

    total: int | None = None
    reserved: int | None = None
    used: int | None = None
    free: int | None = None

    @property
    def usable(self) -> int | None:
        """What programs can have altogether: the total that CUDA reports."""
        if self.total is None:
            return None
        return self.total - (self.reserved or 0)


class SmiProcess(Struct, frozen=True, kw_only=True):
    """A process on a GPU. `kind` is `C` (computes), `G` (draws) or `C+G`."""

    pid: int
    kind: str
    name: str
    used: int | None = None


class SmiPart(Struct, frozen=True, kw_only=True):
    """A part of a GPU that MIG has made (a MIG device)."""

    index: int | None
    gpu_instance: int | None
    compute_instance: int | None
    memory: SmiMemory
    uuid: str | None = None


class SmiMemoryErrors(Struct, frozen=True, kw_only=True):
    """Errors of a GPU's memory that ECC could not correct, and what the GPU made of them.

    `mode` is the driver's word: `Enabled`, `Disabled`, or None for a GPU without ECC. `uncorrected`
    counts since the driver was loaded. `pending`: memory is replaced at the next reset. `failed`:
    there was no spare memory left. `over_threshold`: so many errors in the caches that NVIDIA
    replaces the GPU.
    """

    mode: str | None = None
    uncorrected: int | None = None
    pending: bool | None = None
    failed: bool | None = None
    over_threshold: bool | None = None


class SmiGpu(Struct, frozen=True, kw_only=True):
    """One GPU.

    `index` is nvidia-smi's. `lost` is the driver's word if it cannot reach the GPU. `slowdowns` are
    the reasons why its clocks are low now, without the prefix of the element. `recovery` is what
    the driver wants done (`None`, `Reset`, `Reboot`, …). `processes` is None if the driver does not
    list them.
    """

    index: int
    bus_id: str
    name: str
    uuid: str | None = None
    lost: str | None = None
    persistence: str | None = None
    compute_mode: str | None = None
    mig: str | None = None
    mig_pending: str | None = None
    parts: tuple[SmiPart, ...] = ()
    memory: SmiMemory = SmiMemory()
    errors: SmiMemoryErrors = SmiMemoryErrors()
    slowdowns: tuple[str, ...] | None = None
    recovery: str | None = None
    processes: tuple[SmiProcess, ...] | None = None

    @property
    def label(self) -> str:
        """`GPU 0 (NVIDIA L4)`."""
        return f"GPU {self.index} ({self.name})"

    @property
    def is_partitioned(self) -> bool:
        """Whether MIG is on: then programs see parts only."""
        return self.mig == "Enabled"


class SmiLog(Struct, frozen=True, kw_only=True):
    """All GPUs in nvidia-smi's order, the driver's version, and the highest CUDA that it knows."""

    driver: str | None
    cuda: str | None
    gpus: tuple[SmiGpu, ...]
