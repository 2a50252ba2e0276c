# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.directories import DirectoryRole
from ci_doctor.checks.machine.disks import Disks
from ci_doctor.checks.machine.writing import CHECK, severity_for, writing_result
from ci_doctor.checks.settings import Workload
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.placed_directories import disks_of, placed


@pytest.mark.parametrize(
    ("role", "workload", "severity"),
    [
        (DirectoryRole.TEMPORARY, None, Severity.ERROR),
        (DirectoryRole.REPORT, None, Severity.ERROR),
        (DirectoryRole.CONFIGURED, None, Severity.ERROR),
        (DirectoryRole.JIT_CACHE, None, Severity.WARNING),
        (DirectoryRole.JIT_CACHE, Workload.VLLM, Severity.ERROR),
        (DirectoryRole.DOWNLOAD_CACHE, Workload.VLLM, Severity.WARNING),
        (DirectoryRole.WORKING, None, Severity.WARNING),
        (DirectoryRole.OTHER_TEMPORARY, Workload.VLLM, Severity.NOTE),
    ],
)
def test_what_no_job_can_do_without_is_an_error(
    role: DirectoryRole, workload: Workload | None, severity: Severity
) -> None:
    assert severity_for(role, workload) is severity


def test_directories_that_one_place_refuses_are_one_problem() -> None:
    first = placed(name="~/.cache/uv", role=DirectoryRole.DOWNLOAD_CACHE, is_writable=False)
    second = placed(name="~/.cache/uv", role=DirectoryRole.DOWNLOAD_CACHE, is_writable=False)

    result = writing_result(disks_of(first, second, placed()), None)

    assert len(result.problems) == 1
    assert result.summary == "1 of 3 directories can be written to"


def test_a_read_only_mount_is_named() -> None:
    models = placed(
        name="HF_HOME", role=DirectoryRole.DOWNLOAD_CACHE, is_writable=False, is_read_only=True
    )

    result = writing_result(disks_of(models), None)

    assert result.problems[0].finding.summary == (
        "HF_HOME cannot be written to: /scratch disk (ext4) is mounted read-only"
    )


def test_a_disk_that_is_read_only_is_one_problem_for_all_that_lies_on_it() -> None:
    download = placed(
        name="HF_HOME", role=DirectoryRole.DOWNLOAD_CACHE, is_writable=False, is_read_only=True
    )
    compiled = placed(
        name="VLLM_CACHE_ROOT", role=DirectoryRole.JIT_CACHE, is_writable=False, is_read_only=True
    )

    result = writing_result(disks_of(download, compiled), None)

    (found,) = result.problems
    assert found.finding.summary.startswith("HF_HOME, VLLM_CACHE_ROOT cannot be written to")


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_home_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    try:
        os.seteuid(65534)
        result = CHECK.run(check_context(Path("/tmp"), environ={"HOME": "/no-such-home"}))
    finally:
        os.seteuid(0)

    (found,) = result.problems
    assert "/no-such-home does not exist" in found.finding.summary
    assert "~/.cache/huggingface" in found.finding.summary
    assert "~/.triton/cache" in found.finding.summary


def test_docker_s_own_directory_is_not_ours_to_write_to() -> None:
    docker = placed(name="/var/lib/docker", role=DirectoryRole.SYSTEM, is_writable=False)

    assert writing_result(disks_of(placed(), docker), None).status is CheckStatus.OK


def test_a_tmpdir_that_does_not_exist_warns_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    environ = {"TMPDIR": str(tmp_path / "not yet")}

    result = CHECK.run(check_context(tmp_path, environ=environ))

    (finding,) = [each.finding for each in result.problems]
    assert finding.rule == "doctor/tmpdir-missing"
    assert finding.remedy == f"mkdir -p '{tmp_path}/not yet'"


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    environ = {"TMPDIR": str(tmp_path)}
    try:
        os.seteuid(65534)
        result = CHECK.run(check_context(Path("/tmp"), environ=environ))
    finally:
        os.seteuid(0)

    assert result.status is CheckStatus.ERROR
    assert "TMPDIR cannot be written to" in result.problems[0].finding.summary


def test_without_any_answer_it_is_unknown() -> None:
    with pytest.raises(UndeterminedError):
        writing_result(Disks(directories=(), unanswered=()), None)
