# SPDX-License-Identifier: Apache-2.0
"""Two runs of ci-doctor and one report directory, with real processes."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli import doctor, words

pytestmark = pytest.mark.integration

# A service that is ready at once and runs until it is stopped.
SERVICE = ("--service", "sleeper=sleep 600", "--ready", "sleeper=exec:true")


@contextmanager
def a_run_under_way(cwd: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A launch whose client is running until the pipe to its stdin is closed."""
    started = cwd / "started"
    os.mkfifo(started)
    client = ("sh", "-c", f"echo x >{started}; read line")
    process = subprocess.Popen(
        words("launch", *SERVICE, *options, "--", *client),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        started.read_text()  # opens when the client writes
        yield process
    finally:
        process.communicate()


def test_a_second_run_in_a_directory_in_use_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "r"
    with a_run_under_way(tmp_path, "--report-dir", str(directory)):
        logs = sorted(directory.rglob("*"))

        second = doctor("launch", *SERVICE, "--report-dir", directory, "--", "true", cwd=tmp_path)

        assert second.code == 2, second
        assert "another run of ci-doctor is writing to" in second.err
        assert sorted(directory.rglob("*")) == logs

    assert json.loads((directory / "report.json").read_text())["verdict"] == "failed"


def test_below_a_root_a_second_run_takes_the_next_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with a_run_under_way(tmp_path, "--report-dir", str(root / "launch")):
        environment = {"CI_DOCTOR_REPORT_DIR": str(root)}

        second = doctor("launch", *SERVICE, "--", "true", cwd=tmp_path, env=environment)

        assert second.code == 0, second
        assert (root / "launch-2" / "report.json").exists()


def test_a_killed_run_leaves_its_directory_free(tmp_path: Path) -> None:
    directory = tmp_path / "r"
    with a_run_under_way(tmp_path, "--report-dir", str(directory)) as first:
        first.kill()

    ran = doctor("launch", *SERVICE, "--report-dir", directory, "--", "true", cwd=tmp_path)

    assert ran.code == 0, ran
