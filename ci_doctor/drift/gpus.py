# SPDX-License-Identifier: Apache-2.0
"""Reads the driver's files: the facts of all GPUs as one, and the versions of their firmware."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

from ci_doctor.identity.identity import Identity

_OF_ONE: Final = re.compile(r"gpu\d+\.(?P<key>\w+)")
_FIRMWARE: Final = re.compile(r"^Video BIOS:\s*(\S+)", re.MULTILINE)


def gpu_facts(machine: Identity, proc: Path) -> Identity:
    """`machine` with one fact for all GPUs: `gpu.name` is `8 x NVIDIA H200`.

    A machine has up to sixteen GPUs, and most changes apply to all of them.
    """
    facts: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, value in machine.facts.items():
        match = _OF_ONE.fullmatch(name)
        if match is None:
            facts[name] = value
        else:
            values.setdefault(f"gpu.{match['key']}", []).append(value)
    facts.update({name: _joined(texts) for name, texts in values.items()})
    unknown = {}
    for name, reason in machine.unknown.items():
        match = _OF_ONE.fullmatch(name)
        unknown[name if match is None else f"gpu.{match['key']}"] = reason
    firmware = _firmware(proc)
    if firmware:
        facts["gpu.vbios"] = _joined(firmware)
    return Identity.of(facts, unknown, machine.noted)


def _joined(texts: list[str]) -> str:
    parts = []
    for text, count in Counter(texts).items():
        parts.append(text if count == 1 else f"{count} x {text}")
    return ", ".join(parts)


def _firmware(proc: Path) -> list[str]:
    """The version of each GPU's video BIOS; the driver writes question marks if it is unknown."""
    versions = []
    for path in sorted(proc.glob("driver/nvidia/gpus/*/information")):
        try:
            match = _FIRMWARE.search(path.read_text(errors="replace"))
        except OSError:
            continue
        if match is not None and "?" not in match[1]:
            versions.append(match[1])
    return versions
