# SPDX-License-Identifier: Apache-2.0
"""Reads /sys and /dev: the GPUs and accelerators that are in the machine, without a driver's help."""

from pathlib import Path
from typing import Final

from msgspec import Struct

_NVIDIA: Final = "0x10de"
# PCI base class 3: display controllers, among them "3D controllers" without a display.
_DISPLAY: Final = "0x03"
# Device files of accelerators that are no NVIDIA GPU, or one without NVIDIA's usual driver.
_OTHERS: Final = {
    "kfd": "an AMD GPU",
    "nvhost-gpu": "the GPU of a Jetson",
    "nvgpu/igpu[0-9]*": "the GPU of a Jetson",
    "accel/accel[0-9]*": "an accelerator (/dev/accel)",
    "neuron[0-9]*": "an AWS Neuron device",
    "davinci[0-9]*": "an Ascend NPU",
    "hl[0-9]*": "a Gaudi accelerator",
    "dxg": "a GPU of Windows (WSL)",
}


class AmdGpu(Struct, frozen=True, kw_only=True):
    """An AMD GPU's memory in bytes, as amdgpu's files give it."""

    card: str
    total: int
    used: int

    @property
    def free(self) -> int:
        """What no program has."""
        return max(0, self.total - self.used)


def has_pci_gpu(sys: Path) -> bool | None:
    """Whether the PCI bus has an NVIDIA GPU; None if /sys does not show the bus."""
    devices = sys / "bus" / "pci" / "devices"
    try:
        places = list(devices.iterdir())
    except OSError:
        return None
    for place in places:
        is_display = _text(place / "class").startswith(_DISPLAY)
        if is_display and _text(place / "vendor") == _NVIDIA:
            return True
    return False


def amd_gpus(sys: Path) -> tuple[AmdGpu, ...]:
    """The GPUs of the driver amdgpu, by their cards (kernel documentation, `mem_info_vram_total`)."""
    gpus = []
    for total in sorted(sys.glob("class/drm/card*/device/mem_info_vram_total")):
        used = total.with_name("mem_info_vram_used")
        size = _number(total)
        if size is not None:
            gpu = AmdGpu(card=total.parent.parent.name, total=size, used=_number(used) or 0)
            gpus.append(gpu)
    return tuple(gpus)


def other_accelerators(dev: Path) -> tuple[str, ...]:
    """What other accelerators have device files here, in words."""
    names = [words for pattern, words in _OTHERS.items() if any(dev.glob(pattern))]
    return tuple(dict.fromkeys(names))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    if not text.isdigit():
        return None
    return int(text)
