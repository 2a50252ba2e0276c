# SPDX-License-Identifier: Apache-2.0
"""Pure. A GPU and what `nvidia-smi -q -x` says of it, as drivers from 470 on write it. Sizes are bytes.

None stands for what the driver does not report: `N/A`, a missing permission, or an element that
this driver does not have. It is never taken for zero.

Elements have moved between drivers (`clocks_throttle_reasons` became `clocks_event_reasons`,
`sram_uncorrectable` was split in two, `driver_version` will become `kmd_version`). So each reading
knows all its names, and what has none of them is None.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# `  MIG 1g.10gb     Device  0: (UUID: MIG-…)` below `GPU 0: NVIDIA H100 (UUID: GPU-…)`.
_GPU_LINE = re.compile(r"GPU (\d+): ")
_PART_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")
_BEGIN: Final = "<nvidia_smi_log"
_END: Final = "</nvidia_smi_log>"
# In characters. Sixteen GPUs with the clocks that they support have less than two millions.
_LONGEST: Final = 4 << 20
_LONGEST_BESIDE: Final = 64 << 10
_UNITS: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"([0-9]{1,15})\s*(\w*)")
_NUMBER = re.compile(r"[0-9]{1,18}")
# What stands in elements of a GPU that the driver cannot reach, or that must be reset first.
_LOST = re.compile(r"GPU is lost|GPU requires reset|GPU is inaccessible|fallen off the bus")
# What the driver writes if it has no value, with or without brackets.
_NO_VALUE: Final = frozenset(
    {
        "",
        "n/a",
        "insufficient permissions",
        "unknown error",
        "err!",
        "not supported",
        "not found",
        "requested functionality has been deprecated",
    }
)


class FrameBuffer(Struct, frozen=True, kw_only=True):
    """Memory of a GPU, or of a part of it. The driver keeps `reserved` for itself."""

    total: int | None = None
    reserved: int | None = None
    used: int | None = None
    free: int | None = None

    @property
    def usable(self) -> int | None:
        """What programs can have altogether: the total that CUDA reports."""
        return None if self.total is None else self.total - (self.reserved or 0)


class GpuProcess(Struct, frozen=True, kw_only=True):
    """A process on a GPU. `kind` is `C` (computes), `G` (draws) or `C+G`."""

    pid: int
    kind: str
    name: str
    used: int | None = None


class MigDevice(Struct, frozen=True, kw_only=True):
    """A part of a GPU that MIG has made (a MIG device)."""

    index: int | None
    gpu_instance: int | None
    compute_instance: int | None
    memory: FrameBuffer
    uuid: str | None = None


class ListedMigDevice(Struct, frozen=True, kw_only=True):
    """A MIG device as `nvidia-smi -L` names it; `gpu` and `index` are nvidia-smi's."""

    gpu: int
    index: int
    profile: str
    uuid: str


class GpuMemoryErrors(Struct, frozen=True, kw_only=True):
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


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU.

    `index` is nvidia-smi's. `lost` is the driver's word if it cannot reach the GPU. `recovery` is what
    the driver wants done (`None`, `Reset`, `Reboot`, …). `processes` is None if the driver does not
    list them. `capability` (`9.0`) and `cores` are not in the XML. `former_uuid`: the name of a MIG
    device before driver 470, `MIG-GPU-UUID/GPU instance/compute instance`.
    """

    index: int
    bus_id: str
    name: str
    uuid: str | None = None
    lost: str | None = None
    compute_mode: str | None = None
    mig: str | None = None
    mig_pending: str | None = None
    parts: tuple[MigDevice, ...] = ()
    memory: FrameBuffer = FrameBuffer()
    errors: GpuMemoryErrors = GpuMemoryErrors()
    recovery: str | None = None
    processes: tuple[GpuProcess, ...] | None = None
    capability: str | None = None
    cores: int | None = None
    former_uuid: str | None = None

    @property
    def label(self) -> str:
        """`GPU 0 (NVIDIA L4)`."""
        return f"GPU {self.index} ({self.name})"

    @property
    def is_part(self) -> bool:
        """Whether it is a MIG device: the driver lists processes by whole GPUs alone."""
        return self.former_uuid is not None

    @property
    def is_partitioned(self) -> bool:
        """Whether MIG is on: then programs see parts only."""
        return self.mig == "Enabled"


class DriverReport(Struct, frozen=True, kw_only=True):
    """All GPUs in nvidia-smi's order, the driver's version, and the highest CUDA that it knows."""

    driver: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]


def parse_smi_xml(text: str) -> DriverReport | None:
    """The document in `text`; None if there is none, or a damaged one.

    Lines before and after it are left out: nvidia-smi adds warnings to its output. So is the
    DOCTYPE, and without one no entity can be declared that grows when it is read.
    """
    from xml.etree import ElementTree as ET  # only the checks of a GPU need it

    document, _ = _split(text)
    if not document or len(document) > _LONGEST:
        return None
    try:
        root = ET.fromstring(document)  # noqa: S314 - the driver's own tool wrote it
    except ET.ParseError:
        return None
    return DriverReport(
        driver=_first(root, "driver_version", "kmd_version"),
        cuda=_first(root, "cuda_version", "cuda_umd_version"),
        gpus=tuple(_gpu(index, element) for index, element in enumerate(root.findall("gpu"))),
    )


def lines_beside(text: str) -> list[str]:
    """What nvidia-smi printed besides the document, without its XML header."""
    _, rest = _split(text)
    stripped = [line.strip() for line in rest[:_LONGEST_BESIDE].splitlines()]
    return [line for line in stripped if line and not line.startswith(("<?xml", "<!DOCTYPE"))]


def parse_mig_list(text: str) -> tuple[ListedMigDevice, ...]:
    """The MIG devices in the output of `nvidia-smi -L`."""
    gpu = 0
    parts = []
    for line in text.splitlines():
        head = _GPU_LINE.match(line)
        if head is not None:
            gpu = int(head[1])
        match = _PART_LINE.match(line)
        if match is not None:
            parts.append(
                ListedMigDevice(gpu=gpu, index=int(match[2]), profile=match[1], uuid=match[3])
            )
    return tuple(parts)


def mig_gpus(gpus: Sequence[Gpu], listed: Sequence[ListedMigDevice]) -> tuple[Gpu, ...]:
    """Each MIG device as a GPU of its own: the XML has the memory, the list has the UUID.

    Those that only one of them knows are left out.
    """
    by_index = {gpu.index: gpu for gpu in gpus}
    return tuple(
        Gpu(
            index=gpu.index,
            bus_id=gpu.bus_id,
            name=f"{gpu.name}, MIG {name.profile}",
            uuid=name.uuid,
            memory=part.memory,
            capability=gpu.capability,
            former_uuid=f"MIG-{gpu.uuid}/{part.gpu_instance}/{part.compute_instance}",
        )
        for name in listed
        if (gpu := by_index.get(name.gpu)) is not None
        for part in gpu.parts
        if part.index == name.index
    )


def _split(text: str) -> tuple[str, str]:
    """The document, empty if there is no whole one, and what stands around it."""
    begin, end = text.find(_BEGIN), text.rfind(_END)
    if begin == -1 or end < begin:
        return "", text
    end += len(_END)
    return text[begin:end], text[:begin] + text[end:]


def _gpu(index: int, element: "Element") -> Gpu:
    return Gpu(
        index=index,
        bus_id=element.get("id") or _first(element, "pci/pci_bus_id") or "",
        name=_first(element, "product_name") or "unnamed",
        uuid=_first(element, "uuid"),
        lost=_lost(element),
        compute_mode=_first(element, "compute_mode"),
        mig=_first(element, "mig_mode/current_mig"),
        mig_pending=_first(element, "mig_mode/pending_mig"),
        parts=tuple(_part(part) for part in element.findall("mig_devices/mig_device")),
        memory=_memory(element),
        errors=_errors(element),
        recovery=_recovery(element),
        processes=_processes(element),
    )


def _lost(element: "Element") -> str | None:
    matches = (_LOST.search(text) for text in element.itertext())
    return next((match[0] for match in matches if match is not None), None)


def _recovery(element: "Element") -> str | None:
    """By drivers from 565 on; before that there was only whether a reset is required."""
    action = _first(element, "gpu_recovery_action")
    if action is None and _answer(element, "gpu_reset_status/reset_required"):
        return "Reset"
    return action


def _part(element: "Element") -> MigDevice:
    return MigDevice(
        index=_count(element, "index"),
        gpu_instance=_count(element, "gpu_instance_id"),
        compute_instance=_count(element, "compute_instance_id"),
        memory=_memory(element),
        uuid=_first(element, "uuid"),
    )


def _memory(element: "Element") -> FrameBuffer:
    place = "fb_memory_usage"
    return FrameBuffer(
        total=_size(_first(element, f"{place}/total")),
        reserved=_size(_first(element, f"{place}/reserved")),
        used=_size(_first(element, f"{place}/used")),
        free=_size(_first(element, f"{place}/free")),
    )


def _errors(element: "Element") -> GpuMemoryErrors:
    rows = "remapped_rows"
    pages = "retired_pages"
    pending = (
        _answer(element, f"{rows}/remapped_row_pending"),
        _answer(element, f"{pages}/pending_retirement", f"{pages}/pending_blacklist"),
        _answer(element, "ecc_errors/channel_repair_pending"),
        _answer(element, "ecc_errors/tpc_repair_pending"),
    )
    failed = (
        _answer(element, f"{rows}/remapped_row_failure"),
        _answer(element, "ecc_errors/unrepairable_memory"),
    )
    return GpuMemoryErrors(
        mode=_first(element, "ecc_mode/current_ecc"),
        uncorrected=_uncorrected(element),
        pending=_any_known(pending),
        failed=_any_known(failed),
        over_threshold=_answer(element, "ecc_errors/aggregate/sram_threshold_exceeded"),
    )


def _uncorrected(element: "Element") -> int | None:
    """By their names since Turing; `double_bit` before."""
    volatile = element.find("ecc_errors/volatile")
    if volatile is None:
        return None
    counts = [_number(child.text) for child in volatile if "uncorrectable" in child.tag]
    counts.append(_count(volatile, "double_bit/total"))
    known = [each for each in counts if each is not None]
    return None if not known else sum(known)


def _processes(element: "Element") -> tuple[GpuProcess, ...] | None:
    place = element.find("processes")
    if place is None:
        return None
    text = (place.text or "").strip()
    if text and _value_of(text) is None:  # "N/A" instead of a list, as under WSL
        return None
    return tuple(
        GpuProcess(
            pid=pid,
            kind=_first(info, "type") or "C",
            name=_first(info, "process_name") or "",
            used=_size(_first(info, "used_memory")),
        )
        for info in place.findall("process_info")
        if (pid := _count(info, "pid")) is not None
    )


def _first(element: "Element", *paths: str) -> str | None:
    """The value of the first of `paths` that has one."""
    values = (_value_of(element.findtext(path)) for path in paths)
    return next((value for value in values if value is not None), None)


def _value_of(text: str | None) -> str | None:
    """`text` without spaces; None for `N/A` and whatever else stands for no value."""
    word = (text or "").strip()
    if word.strip("[]").lower() in _NO_VALUE or _LOST.search(word):
        return None
    return word


def _answer(element: "Element", *paths: str) -> bool | None:
    """`Yes` or `No` of the first of `paths` that has a value; None for anything else."""
    value = _first(element, *paths)
    return None if value not in {"Yes", "No"} else value == "Yes"


def _any_known(answers: Iterable[bool | None]) -> bool | None:
    """Whether one of the known answers is true; None if none is known."""
    known = [each for each in answers if each is not None]
    return None if not known else any(known)


def _count(element: "Element", path: str) -> int | None:
    """The whole number at `path`."""
    return _number(element.findtext(path))


def _number(text: str | None) -> int | None:
    """A whole number without a unit."""
    word = (text or "").strip()
    return None if _NUMBER.fullmatch(word) is None else int(word)


def _size(text: str | None) -> int | None:
    """Bytes of a size such as `81559 MiB`."""
    match = _SIZE.fullmatch(text or "")
    if match is None or match[2] not in _UNITS:
        return None
    return int(match[1]) * _UNITS[match[2]]
