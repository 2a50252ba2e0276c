# SPDX-License-Identifier: Apache-2.0
"""The recipe for agents without a network: a real installation from wheels alone, and a job with it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_plugin_robust import can_mount
from tests.support import wheelhouse
from tests.support.cli import doctor
from tests.support.pipeline_steps import command_of, plugin_of, step_of
from tests.support.plugin_workplace import REPOSITORY, Workplace

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
RECIPE = REPOSITORY / "examples" / "recipes" / "air-gapped"
# A namespace without any network, where one can be made.
NO_NETWORK = ["unshare", "-rn"] if can_mount() else []


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `wheelhouse`, and `venv` that install.sh has made of it."""
    folder = tmp_path_factory.mktemp("air gapped")
    wheelhouse.fill(folder / "wheelhouse")
    ran = install(folder, folder / "wheelhouse")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("ci-doctor ")
    return folder


def install(folder: Path, wheels: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run install.sh where there is no network, with no package but its own.

    virtualenv stands for `python -m venv`: it makes the same in a tenth of the time.
    """
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -m virtualenv -q "$@"\n')
    python.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(
        [*NO_NETWORK, "sh", str(RECIPE / "install.sh"), str(wheels), "venv"],
        cwd=folder,
        env={**kept, "PYTHON": str(python), "PIP_NO_COMPILE": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_job_runs_with_what_was_installed_without_a_network(
    machine: Path, tmp_path: Path
) -> None:
    workplace = Workplace(tmp_path)
    for name in ("sh", "unshare", "git"):
        workplace.link(name)
    for file in RECIPE.iterdir():
        shutil.copy(file, workplace.checkout)
    program = workplace.bin / "ci-doctor"
    words = [*NO_NETWORK, f"'{machine}/venv/bin/ci-doctor'"]
    program.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    program.chmod(0o755)
    step = step_of(RECIPE / "pipeline.yml", "serving")
    configuration = plugin_of(step, "ci-doctor")
    assert configuration["executable"].startswith("/opt/ci-doctor/")
    job = workplace.job(command_of(step), {**configuration, "executable": str(program)})

    assert job.run() == 0, job.log
    assert "3 passed; PYTHONHASHSEED is 0" in job.log


def test_a_wheel_that_is_missing_is_named_before_anything_is_installed(
    machine: Path, tmp_path: Path
) -> None:
    """The variant that must fail: the folder was not carried whole."""
    broken = Path(shutil.copytree(machine / "wheelhouse", tmp_path / "w", copy_function=os.link))
    next(broken.glob("httpx-*.whl")).unlink()

    ran = install(tmp_path, broken)

    assert ran.returncode == 2, ran
    assert "httpx-" in ran.stderr
    assert "is not what was made: a file is missing or has other bytes" in ran.stderr
    assert not (tmp_path / "venv").exists()


def test_a_folder_made_for_less_is_named_with_what_it_lacks(machine: Path, tmp_path: Path) -> None:
    """As one for another Python, or without an extra that is asked for."""
    less = Path(shutil.copytree(machine / "wheelhouse", tmp_path / "w", copy_function=os.link))
    next(less.glob("httpx-*.whl")).unlink()
    (less / "SHA256SUMS").unlink()
    wheelhouse.write_sums(less)

    # So that the environment that is there may be used once more.
    ran = install(machine, less, PIP_IGNORE_INSTALLED="1")

    assert ran.returncode == 1, ran
    assert "No matching distribution found for httpx" in ran.stderr
    assert "hint: Python 3." in ran.stderr
    assert "make the folder with these --python and --machine" in ran.stderr


def test_the_schema_beside_the_configuration_is_what_the_command_prints(tmp_path: Path) -> None:
    shutil.copy(RECIPE / "ci-doctor.toml", tmp_path)

    ran = doctor("config", "schema", cwd=tmp_path)

    assert ran.code == 0, ran
    assert (RECIPE / "ci-doctor.toml").read_text().startswith("#:schema ./ci-doctor.schema.json\n")
    shown = doctor("config", "show", cwd=tmp_path)
    assert shown.code == 0, shown
