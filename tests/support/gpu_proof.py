# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a stand-in for torch, and an nvidia-smi, for `ci-doctor doctor --gpu`."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from ci_doctor.checks.context import CheckContext
from tests.support.checks import check_context

STAND_IN = Path(__file__).parent / "stand_in_torch"


def write_nvidia_smi(folder: Path) -> Path:
    """An nvidia-smi in `folder` that knows no GPU by name; returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '<nvidia_smi_log></nvidia_smi_log>'\n")
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
