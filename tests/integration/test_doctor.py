# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor doctor` as it is typed: what it prints, its exit codes, and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.cli import Ran, begin, doctor, inside
from tests.support.git_repository import make_repository
from tests.support.other_user import as_nobody, open_folder

pytestmark = pytest.mark.integration

CONFIGURATION = """
[doctor.checks.fine]
command = "echo all is well"
[doctor.checks.full]
command = ["sh", "-c", "echo /scratch has 1 GiB free; echo df says so >&2; exit 75"]
remedy = "Empty /scratch."
[doctor.checks.lint]
command = ["sh", "-c", "echo the lock file is old; exit 1"]
fault = "repository"
[doctor.checks.unsure]
command = ["sh", "-c", "echo no driver to ask; exit 86"]
needed_for = ["vllm"]
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A repository with checks of its own: what they say does not depend on the machine."""
    (tmp_path / "ci-doctor.toml").write_text(CONFIGURATION)
    return tmp_path


def facts(ran: Ran) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(ran.out)
    return report["facts"]  # type: ignore[no-any-return]


def test_the_report_is_the_verdict_then_what_is_wrong_with_its_remedy_or_two_lines(
    job: Path,
) -> None:
    ran = inside("doctor", "own/full", "own/unsure", "own/fine", cwd=job)

    lines = ran.out.splitlines()
    assert ran.code == 75
    assert ran.err == ""
    assert lines[0].startswith("! INFRA  doctor")
    assert lines[1] == "  this machine is not fit: 1 error, 1 unknown, 1 ok"
    assert "✗ full: /scratch has 1 GiB free" in lines
    assert "  │ df says so" in lines
    assert "  try: Empty /scratch." in lines
    assert "  no driver to ask  own/unsure" in lines
    assert "own/fine" not in "\n".join(lines[1:-3])
    assert max(map(len, lines)) <= 80
    fit = inside("doctor", "own/fine", cwd=job)
    assert (fit.code, fit.out.splitlines()[1:]) == (0, ["  this machine is fit: 1 ok"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("own/unsure", "own/fine", "--strict"), 86),
        (("own/unsure", "own/fine", "--strict", "--for", "sglang"), 0),
        (("own/unsure",), 86),
        (("own/full", "own/lint"), 1),
        (("own", "--skip", "own/full", "--skip", "own/lint"), 0),
        (("own/f*",), 75),
    ],
)
@pytest.mark.gate(2)
def test_the_exit_code(arguments: tuple[str, ...], code: int, job: Path) -> None:
    ran = inside("doctor", *arguments, cwd=job)

    assert ran.code == code, ran


def test_programs_read_each_check_with_its_status_and_time_and_as_a_test_case(job: Path) -> None:
    ran = inside(
        *("doctor", "own", "--json", "--report-dir", "report", "--junit", "requests"), cwd=job
    )

    checks = {check["id"]: check for check in facts(ran)["checks"]}
    assert {name: check["status"] for name, check in checks.items()} == {
        "own/fine": "ok",
        "own/full": "error",
        "own/lint": "error",
        "own/unsure": "unknown",
    }
    assert checks["own/full"]["problems"] == ["doctor/own-check-failed"]
    assert all(check["milliseconds"] > 0 for check in checks.values())
    cases = ET.parse(job / "report" / "junit.xml").getroot().iter("testcase")
    kinds = {case.get("name"): [child.tag for child in case] for case in cases}
    assert kinds["own/fine"] == []
    assert kinds["own/full"] == ["error"]
    assert kinds["own/unsure"] == ["skipped"]


def test_the_checks_are_listed_and_none_is_run(job: Path) -> None:
    ran = inside("doctor", "--list", "--imports", cwd=job)

    names = {line.split()[0] for line in ran.out.splitlines() if line.startswith("  ")}
    assert ran.code == 0
    assert "report" not in ran.out
    assert names >= {"own/full", "machine/shared-memory", "starts/failing", "imports/services"}


def test_a_mistyped_check_and_a_mistake_in_an_own_one_are_refused(job: Path) -> None:
    ran = inside("doctor", "machine/shared-memroy", cwd=job)

    assert ran.code == 2
    assert "did you mean `machine/shared-memory`?" in ran.err
    with (job / "ci-doctor.toml").open("a") as file:
        file.write('[doctor.checks.late]\ncommand = "true"\ntimeout = "soon"\n')
    ran = inside("doctor", "own/fine", cwd=job)
    assert ran.code == 2
    assert "ci-doctor.toml:15: late.timeout: not a duration: 'soon'" in " ".join(ran.err.split())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str)
def test_a_signal_amid_a_program_that_hangs_leaves_no_process(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "started")
    program = f"echo $$ > {tmp_path}/started; exec sleep 600"
    (tmp_path / "ci-doctor.toml").write_text(
        f'[doctor.checks.hangs]\ncommand = ["sh", "-c", "{program}"]\ntimeout = "500s"\n'
    )
    process = begin("doctor", "own/hangs", cwd=tmp_path)
    pid = int((tmp_path / "started").read_text())
    hanging = psutil.Process(pid)

    process.send_signal(number)
    out, err = process.communicate(timeout=180)

    _, alive = psutil.wait_procs([hanging], timeout=60)
    assert process.returncode == code, (out, err)
    assert not alive or alive[0].status() == psutil.STATUS_ZOMBIE


def problems(ran: Ran) -> set[tuple[str, str]]:
    """The rules of what is an error or a warning."""
    findings = json.loads(ran.out)["findings"]
    serious = [each for each in findings if each["severity"] != "note"]
    return {(each["rule"], each["severity"]) for each in serious}


@contextmanager
def busy_machine(count: int) -> Iterator[None]:
    """`count` processes that use all the time they get."""
    with ExitStack() as stack:
        for _ in range(count):
            loop = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        yield


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What all checks say of this machine, outside of any checkout."""
    return inside("doctor", "--json", cwd=tmp_path_factory.mktemp("quiet"))


@pytest.mark.nightly
def test_a_busy_machine_is_not_called_broken(quiet: Ran, tmp_path: Path) -> None:
    with busy_machine(8):
        busy = inside("doctor", "--json", cwd=tmp_path)

    assert busy.code == quiet.code
    assert problems(busy) <= problems(quiet)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_than_root_gets_answers_too(quiet: Ran) -> None:
    before = as_nobody()
    with open_folder() as folder:
        job = make_repository(folder / "job")
        ran = doctor("doctor", "--json", cwd=job, env={"HOME": "/nonexistent"}, before=before)

    statuses = {check["id"]: check["status"] for check in facts(ran)["checks"]}
    assert ran.code == 75, ran
    assert "doctor/check-crashed" not in {rule for rule, _ in problems(ran)}, ran
    assert errors(ran) - errors(quiet) == {"doctor/other-owner"}, ran
    assert statuses["checkout/owner"] == "error"
    assert statuses["checkout/submodules"] == "unknown"
    # Servers of somebody else may run here.
    of_this_job = ("network/", "leftovers/", "checkout/")
    unsure = {name for name, status in statuses.items() if status in {"unknown", "error"}}
    unsure = {name for name in unsure if name.startswith(of_this_job)} - {"leftovers/processes"}
    assert {name.partition("/")[0] for name in unsure} == {"checkout"}


def errors(ran: Ran) -> set[str]:
    return {rule for rule, severity in problems(ran) if severity == "error"}
