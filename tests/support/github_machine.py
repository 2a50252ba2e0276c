# SPDX-License-Identifier: Apache-2.0
"""Machines of GitHub's for tests of our action: a runner that has this repository's ci-doctor, or none."""

import os
import shlex
import sys
from pathlib import Path

from tests.support.github_runner import Runner
from tests.support.orders import SEED

ROOT = Path(__file__).parents[2]
# Where `uses:` names the action in our recipes and pages.
ACTION = "OWNER/REPO"


def write_ci_doctor(path: Path) -> Path:
    """A program `ci-doctor` that is this repository's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(ROOT))}\n"
        f'exec {shlex.quote(sys.executable)} -m ci_doctor "$@"\n'
    )
    path.chmod(0o755)
    return path


def machine(folder: Path, workspace: Path, **environment: str) -> Runner:
    """A runner whose jobs find Python with numpy on PATH, and an action at `OWNER/REPO`."""
    temporary = folder / "runner temp"
    temporary.mkdir(parents=True)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return Runner(
        workspace=workspace,
        temporary=temporary,
        actions={ACTION: ROOT},
        environment={
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            # As in tests/support/cli.py: a build takes half a second, and four more starts tell no more here.
            "CI_DOCTOR_SETUP_ENV_VERIFY": "never",
            "CI_DOCTOR_CORRECTNESS_LOCALISE": "false",
            "CI_DOCTOR_CORRECTNESS_SEED": str(SEED),
            **environment,
        },
    )


def install_before(runner: Runner) -> None:
    """As if an earlier step of the job had used the action: it installs nothing then."""
    place = runner.temporary / "ci-doctor"
    write_ci_doctor(place / "venv" / "bin" / "ci-doctor")
    (place / "installed").write_text(f"{ROOT}\n")
