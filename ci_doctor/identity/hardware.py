# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: which GPUs and which CPU will answer, as facts of an identity. Nothing is started."""

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci_doctor.identity.identity import Identity

PROC = Path("/proc")
# The CPU features for which libraries keep kernels of their own, under the names of x86 and of ARM.
FLAGS = (
    *(
        "fma",
        "f16c",
        "avx",
        "avx2",
        "avx_vnni",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512_vnni",
    ),
    *(
        "avx512_bf16",
        "avx512_fp16",
        "amx_tile",
        "amx_int8",
        "amx_bf16",
        "asimd",
        "asimddp",
        "bf16",
        "i8mm",
        "sve",
        "sve2",
    ),
)
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


def hardware(environ: Mapping[str, str], proc: Path = PROC) -> Identity:
    """GPUs as CUDA_VISIBLE_DEVICES in `environ` leaves them, driver, CPU and cores; kernel and libc are noted only."""
    return _cpu(proc).also(_gpus(environ, proc))


def _cpu(proc: Path) -> Identity:
    facts, unknown = (
        {"cpu.architecture": os.uname().machine, "cpu.cores": str(len(os.sched_getaffinity(0)))},
        {},
    )
    block = _first_cpu(proc / "cpuinfo")
    model = block.get("model name") or " ".join(
        block[key] for key in ("CPU implementer", "CPU part") if key in block
    )
    told = (block.get("flags") or block.get("Features") or "").split()
    if model:
        facts["cpu.model"] = model
    else:
        unknown["cpu.model"] = f"{proc}/cpuinfo does not name it"
    if told:
        facts["cpu.flags"] = (
            " ".join(flag for flag in FLAGS if flag in told) or "none of those that matter"
        )
    else:
        unknown["cpu.flags"] = f"{proc}/cpuinfo does not name any"
    return Identity.of(facts, unknown, {"kernel": os.uname().release, "libc": _libc()})


def _first_cpu(path: Path) -> dict[str, str]:
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


def _gpus(environ: Mapping[str, str], proc: Path) -> Identity:
    driver = proc / "driver" / "nvidia"
    if not (driver / "version").exists():
        return Identity.of({"gpu": "none"})
    read = _from_library() or _from_proc(driver)
    rows = _visible(read[1], environ.get("CUDA_VISIBLE_DEVICES"))
    chosen = environ.get("CUDA_VISIBLE_DEVICES", "")
    part = {"gpu.part": chosen} if "MIG-" in chosen else {}
    identity = Identity.of({**read[0], **part, **({} if rows else {"gpu": "none visible"})})
    for number, row in enumerate(rows):
        named = {f"gpu{number}.{key}": value for key, value in row.items() if value is not None}
        silent = {
            f"gpu{number}.{key}": "the NVIDIA driver does not say"
            for key, value in row.items()
            if value is None
        }
        identity = identity.also(Identity.of(named, silent))
    return (
        identity
        if "driver" in read[0]
        else identity.also(Identity.of({}, {"driver": "its version cannot be read"}))
    )


_Row = dict[str, str | None]


def _from_library() -> tuple[dict[str, str], list[_Row]] | None:
    """The driver's version and a row per GPU through NVIDIA's library; None where it is not there, or does not answer."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        rows = [
            _row(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
            for index in range(nvml.nvmlDeviceGetCount())
        ]
        return {"driver": str(nvml.nvmlSystemGetDriverVersion())}, rows
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _row(nvml: Any, handle: Any) -> _Row:
    def ask(name: str) -> Any:
        try:
            return getattr(nvml, name)(handle)
        except (nvml.NVMLError, AttributeError):  # an old library or an old driver
            return None

    capability, mig, cores = (
        ask(f"nvmlDeviceGet{name}") for name in ("CudaComputeCapability", "MigMode", "NumGpuCores")
    )
    return {
        "name": ask("nvmlDeviceGetName"),
        "uuid": ask("nvmlDeviceGetUUID"),
        "capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        # The number of its SMs: each generation has a fixed number of cores in one.
        "cores": None if cores is None else str(cores),
        # None of the driver: a GPU that cannot be parted.
        "mig": "off" if mig is None or not mig[0] else "on",
    }


def _from_proc(driver: Path) -> tuple[dict[str, str], list[_Row]]:
    """The same from the driver's files, which do not tell everything."""
    found = _VERSION.search(_text(driver / "version"))
    rows: list[_Row] = []
    for path in sorted(driver.glob("gpus/*/information")):
        block = dict(_pairs(_text(path)))
        rows.append(
            {
                "name": block.get("Model"),
                "uuid": block.get("GPU UUID"),
                "capability": None,
                "mig": None,
            }
        )
    return {"driver": found[1]} if found else {}, rows


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if value.strip():
            yield key.strip(), value.strip()


def _visible(rows: list[_Row], chosen: str | None) -> list[_Row]:
    """The GPUs that a process sees, in its order: up to the first index that is not there (CUDA's documentation, 5.2.1.1).

    The beginning of a UUID names a GPU too. A part of a GPU (`MIG-…`) is not looked up: every GPU counts then.
    """
    if chosen is None or "MIG-" in chosen:
        return rows
    seen: list[_Row] = []
    for word in (word.strip() for word in chosen.split(",")):
        at = int(word) if word.isascii() and word.isdigit() else _by_uuid(rows, word)
        if at is None or at >= len(rows):
            break
        seen.append(rows[at])
    return seen


def _by_uuid(rows: list[_Row], word: str) -> int | None:
    matching = [
        index for index, row in enumerate(rows) if word and (row["uuid"] or "").startswith(word)
    ]
    return matching[0] if len(matching) == 1 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
