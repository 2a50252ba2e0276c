# SPDX-License-Identifier: Apache-2.0
"""Reads the NVIDIA driver's files: the names of the machine's GPUs. No library is loaded."""

from pathlib import Path

DRIVER = Path("/proc/driver/nvidia")


def gpu_names(driver: Path = DRIVER) -> tuple[str, ...]:
    """One name per GPU, in the order of their PCI addresses; empty if there is no driver."""
    names = []
    for information in sorted(driver.glob("gpus/*/information")):
        name = _model(information)
        if name:
            names.append(name)
    return tuple(names)


def _model(information: Path) -> str | None:
    try:
        text = information.read_text(errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Model":
            return value.strip()
    return None
