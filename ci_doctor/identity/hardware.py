# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: which GPUs and which CPU will answer, as facts of an identity.

Nothing is started.
"""

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci_doctor.identity.identity import Identity

PROC = Path("/proc")

# The CPU features for which libraries keep kernels of their own, under the names of x86 and of ARM.
_AVX = ("fma", "f16c", "avx", "avx2", "avx_vnni")
_AVX512 = ("f", "bw", "dq", "vl", "_vnni", "_bf16", "_fp16")
_AMX = ("amx_tile", "amx_int8", "amx_bf16")
_ARM = ("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2")
FLAGS = (*_AVX, *(f"avx512{name}" for name in _AVX512), *_AMX, *_ARM)

_INDEX = re.compile(r"\+?([0-9]{1,9})(?![0-9])")
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


def hardware(environ: Mapping[str, str], proc: Path = PROC) -> Identity:
    """GPUs that CUDA_VISIBLE_DEVICES in `environ` leaves visible, driver, CPU and cores.

    Kernel and libc are noted only.
    """
    return _cpu(proc).also(_gpus(environ, proc))


def _cpu(proc: Path) -> Identity:
    facts = {
        "cpu.architecture": os.uname().machine,
        # Those that this process may use: a container's share, and not the machine's.
        "cpu.cores": str(len(os.sched_getaffinity(0))),
    }
    unknown = {}
    block = first_cpu(proc / "cpuinfo")
    model = block.get("model name") or _arm_model(block)
    if model:
        facts["cpu.model"] = model
    else:
        unknown["cpu.model"] = f"{proc}/cpuinfo does not name it"
    flags = (block.get("flags") or block.get("Features") or "").split()
    if flags:
        relevant = [flag for flag in FLAGS if flag in flags]
        facts["cpu.flags"] = " ".join(relevant) or "none of those that matter"
    else:
        unknown["cpu.flags"] = f"{proc}/cpuinfo does not name any"
    return Identity.of(facts, unknown, {"kernel": os.uname().release, "libc": _libc()})


def _arm_model(block: Mapping[str, str]) -> str:
    """ARM has no `model name`: two numbers stand for it."""
    return " ".join(block[key] for key in ("CPU implementer", "CPU part") if key in block)


def first_cpu(path: Path) -> dict[str, str]:
    """The first CPU's lines: a large machine writes hundreds of kilobytes, all alike."""
    block: dict[str, str] = {}
    try:
        with path.open(errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                key, _, value = line.partition(":")
                block[key.strip()] = value.strip()
    except OSError:
        return {}
    return block


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):  # another libc has no such name
        return ""


_GpuRow = dict[str, str | None]


def _gpus(environ: Mapping[str, str], proc: Path) -> Identity:
    directory = proc / "driver" / "nvidia"
    if not (directory / "version").exists():
        return Identity.of({"gpu": "none"})
    version, rows = _from_library() or _from_proc(directory)
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    visible = _visible(rows, chosen)
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    if version:
        facts["driver"] = version
    else:
        unknown["driver"] = "its version cannot be read"
    if chosen and "MIG-" in chosen:
        facts["gpu.part"] = chosen
    if not visible:
        facts["gpu"] = "none visible"
    for number, row in enumerate(visible):
        for key, value in row.items():
            if value is None:
                unknown[f"gpu{number}.{key}"] = "the NVIDIA driver does not report it"
            else:
                facts[f"gpu{number}.{key}"] = value
    return Identity.of(facts, unknown)


def _from_library() -> tuple[str, list[_GpuRow]] | None:
    """The driver's version and a row per GPU by NVIDIA's library; None if it does not answer."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        rows = [_gpu_row(nvml, handle) for handle in handles]
        return str(nvml.nvmlSystemGetDriverVersion()), rows
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _gpu_row(nvml: Any, handle: Any) -> _GpuRow:
    def query(name: str) -> Any:
        try:
            return getattr(nvml, f"nvmlDeviceGet{name}")(handle)
        except (nvml.NVMLError, AttributeError):  # an old library or an old driver
            return None

    capability = query("CudaComputeCapability")
    mig = query("MigMode")
    # Stands for the number of SMs: each generation has a fixed number of cores in one.
    cores = query("NumGpuCores")
    return {
        "name": query("Name"),
        "uuid": query("UUID"),
        "capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        "cores": None if cores is None else str(cores),
        # No answer of the driver: a GPU that cannot be partitioned.
        "mig": "off" if mig is None or not mig[0] else "on",
    }


def _from_proc(directory: Path) -> tuple[str, list[_GpuRow]]:
    """The same from the driver's files, which do not hold everything."""
    version = _VERSION.search(_text(directory / "version"))
    rows: list[_GpuRow] = []
    for path in sorted(directory.glob("gpus/*/information")):
        block = dict(_pairs(_text(path)))
        row = {
            "name": block.get("Model"),
            "uuid": block.get("GPU UUID"),
            "capability": None,
            "mig": None,
        }
        rows.append(row)
    return version[1] if version else "", rows


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if value.strip():
            yield key.strip(), value.strip()


def _visible(rows: list[_GpuRow], chosen: str | None) -> list[_GpuRow]:
    """The GPUs that a process sees, in its order: up to the first index that does not exist.

    That is CUDA's rule (CUDA C++ Programming Guide, 5.2.1.1). The beginning of a UUID names a GPU
    too. An index is read as strtoul does, and an entry that comes twice leaves no GPU. A part of a
    GPU (`MIG-...`) is not looked up: every GPU counts then.
    """
    if chosen is None or "MIG-" in chosen:
        return rows
    visible: list[_GpuRow] = []
    chosen_before: set[int] = set()
    for entry in chosen.split(","):
        word = entry.strip()
        number = _INDEX.match(word)
        index = int(number[1]) if number is not None else _by_uuid(rows, word)
        if index is None or index >= len(rows):
            break
        if index in chosen_before:
            return []
        chosen_before.add(index)
        visible.append(rows[index])
    return visible


def _by_uuid(rows: list[_GpuRow], word: str) -> int | None:
    """The index of the only GPU whose UUID begins with `word`."""
    if not word:
        return None
    matches = [index for index, row in enumerate(rows) if (row["uuid"] or "").startswith(word)]
    return matches[0] if len(matches) == 1 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
