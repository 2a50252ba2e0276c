# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a stand-in for torch, and an nvidia-smi with recorded answers, for `ci-doctor doctor --gpu`."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_doctor.checks.context import CheckContext
from tests.support.checks import check_context

STAND_IN = Path(__file__).parent / "stand_in_torch"

# As a driver 580 prints them, by the first field that is asked for beside the UUID.
ANSWERS = {
    "memory.used": "0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA H200, 4",
    "uuid,memory.used": "GPU-00000000-0000-0000-0000-000000000000, 4",
    "ecc.mode": "GPU-00000000-0000-0000-0000-000000000000, 0, Enabled, 0, 0",
    "pcie": "GPU-00000000-0000-0000-0000-000000000000, 5, 16, 16",
    "compute-apps": "",
    "log": "<nvidia_smi_log><attached_gpus>1</attached_gpus></nvidia_smi_log>",
    "topo": "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-15\t0\t\tN/A",
}


def write_nvidia_smi(folder: Path, answers: Mapping[str, str] | None = None) -> Path:
    """An nvidia-smi in `folder` that gives ANSWERS, or those in `answers`; returns `folder`."""
    every = {**ANSWERS, **(answers or {})}
    folder.mkdir(parents=True, exist_ok=True)
    for name, answer in every.items():
        (folder / f"{name}.txt").write_text(answer + "\n")
    program = folder / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        f"cd '{folder}'\n"
        'case "$*" in\n'
        "  *query-gpu=uuid,memory.used*) cat uuid,memory.used.txt;;\n"
        "  *ecc.mode*) cat ecc.mode.txt;;\n"
        "  *pcie*) cat pcie.txt;;\n"
        "  *compute-apps*) cat compute-apps.txt;;\n"
        "  '-q -x') cat log.txt;;\n"
        "  *topo*) cat topo.txt;;\n"
        "  *memory.used*) cat memory.used.txt;;\n"
        '  *) echo "Field is not a valid field to query."; exit 2;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    return folder


def proof_environ(folder: Path, **behaviour: Any) -> dict[str, str]:
    """An environment with the nvidia-smi in `folder`, and torch's stand-in with this behaviour."""
    return {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(STAND_IN),
        "STAND_IN_TORCH": json.dumps(behaviour),
    }


def bare_python(folder: Path) -> Path:
    """Our interpreter without its packages, which starts in a third of the time."""
    python = folder / "bare-python"
    folder.mkdir(parents=True, exist_ok=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return python


def proof_context(folder: Path, **behaviour: Any) -> CheckContext:
    """A context whose only interpreter has the stand-in; nvidia-smi is that of `folder`."""
    return check_context(
        folder,
        environ=proof_environ(folder, **behaviour),
        pythons=[bare_python(folder)],
        root=folder,
    )
