# SPDX-License-Identifier: Apache-2.0
"""Two runs of ci-doctor and one report directory, with real processes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli import ROOT, begin, doctor, inside, words

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


def test_a_directory_that_another_run_has_made_again_is_left_to_that_run(tmp_path: Path) -> None:
    directory = tmp_path / "r"
    with a_run_under_way(tmp_path, "--report-dir", "r") as first:
        shutil.rmtree(directory)
        (tmp_path / "started").unlink()
        with a_run_under_way(tmp_path, "--report-dir", "r"):
            theirs = sorted(directory.rglob("*"))
            first.communicate()

            assert first.returncode == 1
            assert sorted(directory.rglob("*")) == theirs


def test_a_second_run_in_a_directory_in_use_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "r"
    (tmp_path / "link").symlink_to("r")
    in_use = "another run of ci-doctor is writing to"
    with a_run_under_way(tmp_path, "--report-dir", str(directory)):
        logs = sorted(directory.rglob("*"))
        for said, *line in (
            (in_use, "launch", *SERVICE, "--report-dir", "r", "--", "true"),
            (in_use, "explain", "75", "--report-dir", "link"),
            ("no requests file", "correctness", "--resume", "r", "--baseline", "true"),
        ):
            second = inside(*line, cwd=tmp_path)

            assert (second.code, said in second.err) == (2, True), second
            assert sorted(directory.rglob("*")) == logs, second

    assert json.loads((directory / "report.json").read_text())["verdict"] == "failed"


def test_below_a_root_a_second_run_takes_the_next_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with a_run_under_way(tmp_path, "--report-dir", str(root / "launch")):
        environment = {"CI_DOCTOR_REPORT_DIR": str(root)}

        second = inside("launch", *SERVICE, "--", "true", cwd=tmp_path, env=environment)

        assert second.code == 0, second
        assert (root / "launch-2" / "report.json").exists()


def test_a_run_below_a_directory_in_use_harms_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "r"
    with a_run_under_way(tmp_path, "--report-dir", str(directory)) as first:
        second = inside("launch", *SERVICE, "--report-dir", "r/logs", "--", "true", cwd=tmp_path)
        assert first.poll() is None

    assert second.code == 0, second
    assert (directory / "logs" / "sleeper-1.log").exists()
    assert json.loads((directory / "report.json").read_text())["command"] == "launch"
    assert json.loads((directory / "logs" / "report.json").read_text())["verdict"] == "pass"


def test_without_a_name_each_of_several_runs_at_once_has_its_own(tmp_path: Path) -> None:
    with a_run_under_way(tmp_path), a_second_start_of(tmp_path):
        third = inside("launch", *SERVICE, "--", "true", cwd=tmp_path)

    assert third.code == 0, third
    assert third.err.endswith("\nreport: ci-doctor-report-3/report.json\n"), third
    reports = sorted(path.parent.name for path in tmp_path.glob("*/report.json"))
    assert reports == ["ci-doctor-report", "ci-doctor-report-2", "ci-doctor-report-3"]


@contextmanager
def a_second_start_of(cwd: Path) -> Iterator[None]:
    """Another run under way: `started` is free again once the first one's client has written."""
    (cwd / "started").unlink()
    with a_run_under_way(cwd):
        yield


def test_what_a_killed_run_left_below_a_root_stays_and_its_directory_is_free(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    with a_run_under_way(tmp_path, "--report-dir", str(root / "launch")) as first:
        first.kill()
    log = root / "launch" / "logs" / "sleeper-1.log"
    log.write_text("the evidence of a run that was killed")

    ran = inside(
        "launch", *SERVICE, "--", "true", cwd=tmp_path, env={"CI_DOCTOR_REPORT_DIR": str(root)}
    )

    assert ran.code == 0, ran
    assert log.read_text() == "the evidence of a run that was killed"
    assert (root / "launch-2" / "report.json").exists()
    named = ("launch", *SERVICE, "--report-dir", root / "launch", "--", "true")
    assert inside(*named, cwd=tmp_path).code == 0


def test_many_runs_at_once_below_one_root_have_a_folder_each(tmp_path: Path) -> None:
    root = {"CI_DOCTOR_REPORT_DIR": str(tmp_path / "root")}
    started = [begin("explain", "75", cwd=tmp_path, env=root) for _ in range(6)]
    codes = []
    for each in started:
        each.communicate()
        codes.append(each.returncode)

    assert codes == [0] * 6
    assert len(list((tmp_path / "root").glob("explain*/report.json"))) == 6


def test_a_directory_that_cannot_be_written_says_that_the_command_was_not_started(
    tmp_path: Path,
) -> None:
    # Nobody makes a directory there, root included.
    ran = doctor("run", "--report-dir", "/proc/reports", "--", "touch", "made", cwd=tmp_path)

    assert ran.code == 2, ran
    assert "nothing was started" in " ".join(ran.err.split())
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("left", [0, 1])
def test_a_process_that_may_open_no_more_files_needs_no_other_directory(
    tmp_path: Path, left: int
) -> None:
    program = """
import os, pathlib, resource, sys
from ci_doctor.errors import InfraError
from ci_doctor.session.report_directory import lock_free_below
from ci_doctor.system.files import access
os.dup2(0, 63)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
opened = []
try:
    while True:
        opened.append(os.dup(0))
except OSError:
    for descriptor in opened[:int(sys.argv[1])]:
        os.close(descriptor)
try:
    lock_free_below(pathlib.Path(sys.argv[2]), "launch")
except InfraError as error:
    print(error.hint)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(left), str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "raise `ulimit -n`\n", ran
