# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which GPUs and which CPU will answer, as facts of an identity."""

import os
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.identity.identity import Identity
from ci_doctor.machine.gpus import PROC, gpu_view
from ci_doctor.machine.host import first_cpu, libc_version
from ci_doctor.machine.nvidia_smi import Gpu

# The CPU features for which libraries keep kernels of their own, under the names of x86 and of ARM.
FLAGS = (
    *("fma", "f16c", "avx", "avx2", "avx_vnni"),
    *(f"avx512{name}" for name in ("f", "bw", "dq", "vl", "_vnni", "_bf16", "_fp16")),
    *("amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)


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
    block = first_cpu(proc)
    # ARM has no `model name`: two numbers stand for it.
    numbers = " ".join(block[key] for key in ("CPU implementer", "CPU part") if key in block)
    model = block.get("model name") or numbers
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
    return Identity.of(facts, unknown, {"kernel": os.uname().release, "libc": libc_version() or ""})


def _gpus(environ: Mapping[str, str], proc: Path) -> Identity:
    """The GPUs that a program sees, in its order. A MIG device is that slice, and not its GPU."""
    view = gpu_view(environ, proc)
    if view is None:
        return Identity.of({"gpu": "none"})
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    if view.driver:
        facts["driver"] = view.driver
    else:
        unknown["driver"] = "its version cannot be read"
    visible = view.visible()
    if not visible.count:
        facts["gpu"] = "none visible"
    for number, gpu in enumerate(visible.gpus):
        for key, value in _fields(gpu).items():
            if value is None:
                unknown[f"gpu{number}.{key}"] = "the NVIDIA driver does not report it"
            else:
                facts[f"gpu{number}.{key}"] = value
    for number, part in enumerate(visible.parts, start=len(visible.gpus)):
        facts[f"gpu{number}.uuid"] = part
        unknown[f"gpu{number}.name"] = "the NVIDIA driver does not list this MIG device"
    return Identity.of(facts, unknown)


def _fields(gpu: Gpu) -> dict[str, str | None]:
    mig = None
    if gpu.is_part:
        mig = "slice"
    elif gpu.mig is not None:
        mig = "on" if gpu.is_partitioned else "off"
    return {
        "name": gpu.name,
        "uuid": gpu.uuid,
        "capability": gpu.capability,
        # Stands for the number of SMs: each generation has a fixed number of cores in one. NVIDIA's
        # library alone counts them, and not those of a slice, which its name tells.
        "cores": None if gpu.cores is None else str(gpu.cores),
        "mig": mig,
    }
