"""Every file and command of docs/tutorial.md gives what the page shows, from an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.page_steps import ChangedFile, Commands, WrittenFile, first_missing_line, steps_of
from tests.support.cli import environment

pytestmark = pytest.mark.integration
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_tutorial_shows_what_its_commands_print(tmp_path: Path) -> None:
    # The page runs ci-doctor as a reader does, without the settings of our tests. The virtual
    # environment of the tests stands in for the one that the page installs; benchmarks/tutorial.py
    # makes a new one.
    environ = environment(
        {
            "CI_DOCTOR_CORRECTNESS_SEED": None,
            "CI_DOCTOR_CORRECTNESS_LOCALISE": None,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
    )
    commands = 0
    for step in steps_of(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, WrittenFile):
            (tmp_path / step.name).parent.mkdir(exist_ok=True)
            (tmp_path / step.name).write_text(step.text, encoding="utf-8")
        elif isinstance(step, ChangedFile):
            subprocess.run(["git", "apply"], cwd=tmp_path, input=step.diff, text=True, check=True)
        elif not step.installs:
            assert_prints(step, tmp_path, environ)
            commands += 1

    assert commands >= 6, "the page was read"


def assert_prints(step: Commands, cwd: Path, environ: dict[str, str]) -> None:
    ran = subprocess.run(
        ["sh", "-c", step.script],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    story = f"$ {step.script}{ran.stdout}"
    assert ran.returncode == step.expected_status, story
    assert first_missing_line(step.output or "", ran.stdout) is None, story
