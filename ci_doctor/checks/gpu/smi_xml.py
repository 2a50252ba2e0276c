# SPDX-License-Identifier: Apache-2.0
"""Pure. Reads the XML of `nvidia-smi -q -x`, as drivers from 470 on write it.

Elements have moved between drivers (`clocks_throttle_reasons` became `clocks_event_reasons`,
`sram_uncorrectable` was split in two, `driver_version` will become `kmd_version`). So each reading
knows all its names, and what has none of them is None.
"""

from typing import TYPE_CHECKING, Final

from ci_doctor.checks.gpu.smi_log import (
    SmiGpu,
    SmiLog,
    SmiMemory,
    SmiMemoryErrors,
    SmiPart,
    SmiProcess,
)
from ci_doctor.checks.gpu.smi_values import (
    LOST,
    answer,
    any_known,
    count,
    first,
    number,
    size,
    value_of,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_BEGIN: Final = "<nvidia_smi_log"
_END: Final = "</nvidia_smi_log>"
# In characters. Sixteen GPUs with the clocks that they support have less than two millions.
_LONGEST: Final = 4 << 20
_LONGEST_BESIDE: Final = 64 << 10


def parse_smi_xml(text: str) -> SmiLog | None:
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
    gpus = [_gpu(index, element) for index, element in enumerate(root.findall("gpu"))]
    return SmiLog(
        driver=first(root, "driver_version", "kmd_version"),
        cuda=first(root, "cuda_version", "cuda_umd_version"),
        gpus=tuple(gpus),
    )


def lines_beside(text: str) -> list[str]:
    """What nvidia-smi printed besides the document, without its XML header."""
    _, rest = _split(text)
    stripped = [line.strip() for line in rest[:_LONGEST_BESIDE].splitlines()]
    return [line for line in stripped if line and not line.startswith(("<?xml", "<!DOCTYPE"))]


def _split(text: str) -> tuple[str, str]:
    """The document, empty if there is no whole one, and what stands around it."""
    begin, end = text.find(_BEGIN), text.rfind(_END)
    if begin == -1 or end < begin:
        return "", text
    end += len(_END)
    return text[begin:end], text[:begin] + text[end:]


def _gpu(index: int, element: "Element") -> SmiGpu:
    return SmiGpu(
        index=index,
        bus_id=element.get("id") or first(element, "pci/pci_bus_id") or "",
        name=first(element, "product_name") or "unnamed",
        uuid=first(element, "uuid"),
        lost=_lost(element),
        persistence=first(element, "persistence_mode"),
        compute_mode=first(element, "compute_mode"),
        mig=first(element, "mig_mode/current_mig"),
        mig_pending=first(element, "mig_mode/pending_mig"),
        parts=tuple(_part(part) for part in element.findall("mig_devices/mig_device")),
        memory=_memory(element),
        errors=_errors(element),
        slowdowns=_slowdowns(element),
        recovery=_recovery(element),
        processes=_processes(element),
    )


def _lost(element: "Element") -> str | None:
    for text in element.itertext():
        match = LOST.search(text)
        if match is not None:
            return match[0]
    return None


def _recovery(element: "Element") -> str | None:
    """By drivers from 565 on; before that there was only whether a reset is required."""
    action = first(element, "gpu_recovery_action")
    if action is None and answer(element, "gpu_reset_status/reset_required"):
        return "Reset"
    return action


def _part(element: "Element") -> SmiPart:
    return SmiPart(
        index=count(element, "index"),
        gpu_instance=count(element, "gpu_instance_id"),
        compute_instance=count(element, "compute_instance_id"),
        memory=_memory(element),
        uuid=first(element, "uuid"),
    )


def _memory(element: "Element") -> SmiMemory:
    place = "fb_memory_usage"
    return SmiMemory(
        total=size(first(element, f"{place}/total")),
        reserved=size(first(element, f"{place}/reserved")),
        used=size(first(element, f"{place}/used")),
        free=size(first(element, f"{place}/free")),
    )


def _errors(element: "Element") -> SmiMemoryErrors:
    rows = "remapped_rows"
    pages = "retired_pages"
    pending = (
        answer(element, f"{rows}/remapped_row_pending"),
        answer(element, f"{pages}/pending_retirement", f"{pages}/pending_blacklist"),
        answer(element, "ecc_errors/channel_repair_pending"),
        answer(element, "ecc_errors/tpc_repair_pending"),
    )
    failed = (
        answer(element, f"{rows}/remapped_row_failure"),
        answer(element, "ecc_errors/unrepairable_memory"),
    )
    return SmiMemoryErrors(
        mode=first(element, "ecc_mode/current_ecc"),
        uncorrected=_uncorrected(element),
        pending=any_known(pending),
        failed=any_known(failed),
        over_threshold=answer(element, "ecc_errors/aggregate/sram_threshold_exceeded"),
    )


def _uncorrected(element: "Element") -> int | None:
    """By their names since Turing; `double_bit` before."""
    volatile = element.find("ecc_errors/volatile")
    if volatile is None:
        return None
    counts = [number(child.text) for child in volatile if "uncorrectable" in child.tag]
    counts.append(count(volatile, "double_bit/total"))
    known = [each for each in counts if each is not None]
    if not known:
        return None
    return sum(known)


def _slowdowns(element: "Element") -> tuple[str, ...] | None:
    for kind in ("event", "throttle"):
        reasons = element.find(f"clocks_{kind}_reasons")
        if reasons is None or not len(reasons):
            continue
        active = [child.tag for child in reasons if (child.text or "").strip() == "Active"]
        return tuple(tag.removeprefix(f"clocks_{kind}_reason_") for tag in active)
    return None


def _processes(element: "Element") -> tuple[SmiProcess, ...] | None:
    place = element.find("processes")
    if place is None:
        return None
    text = (place.text or "").strip()
    if text and value_of(text) is None:  # "N/A" instead of a list, as under WSL
        return None
    processes = []
    for info in place.findall("process_info"):
        pid = count(info, "pid")
        if pid is None:
            continue
        process = SmiProcess(
            pid=pid,
            kind=first(info, "type") or "C",
            name=first(info, "process_name") or "",
            used=size(first(info, "used_memory")),
        )
        processes.append(process)
    return tuple(processes)
