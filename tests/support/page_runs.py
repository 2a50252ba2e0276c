# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: does what a page of the docs says, in a folder, and compares what is printed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.cli import environment
from tests.support.page_steps import ChangedFile, Commands, Step, WrittenFile, first_missing_line


def reader_environment() -> dict[str, str]:
    """The environment of a reader: without our tests' settings, with `ci-doctor` and `python` on PATH."""
    return environment(
        {
            # The order of starts is drawn: the pages show that of one seed.
            "CI_DOCTOR_CORRECTNESS_SEED": "2",
            "CI_DOCTOR_CORRECTNESS_LOCALISE": None,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
    )


def take(step: Step, folder: Path, environ: Mapping[str, str]) -> None:
    """Take a step in `folder`. Raises AssertionError if commands do not end or print as the page shows."""
    if isinstance(step, WrittenFile):
        (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / step.name).write_text(step.text, encoding="utf-8")
    elif isinstance(step, ChangedFile):
        subprocess.run(["git", "apply"], cwd=folder, input=step.diff, text=True, check=True)
    elif step.not_run is None:
        _assert_prints(step, folder, environ)


def _assert_prints(step: Commands, folder: Path, environ: Mapping[str, str]) -> None:
    ran = subprocess.run(
        ["sh", "-c", step.script],
        cwd=folder,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    story = f"$ {step.script}{ran.stdout}"
    assert ran.returncode == step.expected_status, story
    missing = first_missing_line(step.output or "", ran.stdout)
    assert missing is None, f"the page shows {missing!r}\n{story}"
