# SPDX-License-Identifier: Apache-2.0
"""Reads /proc/driver/nvidia/version: the driver that the kernel has loaded."""

import re
from pathlib import Path

# `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …`.
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


def loaded_driver(proc: Path) -> str | None:
    """Its version; None if no driver is loaded, or the file names none."""
    try:
        text = (proc / "driver" / "nvidia" / "version").read_text(errors="replace")
    except OSError:
        return None
    match = _VERSION.search(text)
    if match is None:
        return None
    return match[1]
