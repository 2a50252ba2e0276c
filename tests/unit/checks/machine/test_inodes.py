# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.disks import Disks
from ci_doctor.checks.machine.inodes import CHECK, inodes_result, severity_of
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.placed_directories import disks_of, placed


@pytest.mark.parametrize(
    ("free", "total", "severity"),
    [
        (0, 1000, Severity.ERROR),
        (50, 1000, Severity.WARNING),
        (200, 1000, None),
        (9_000, 10_000_000, Severity.ERROR),
        (40_000, 10_000_000, Severity.WARNING),
        (60_000, 10_000_000, None),
    ],
)
def test_few_inodes_warn_and_hardly_any_are_an_error(
    free: int, total: int, severity: Severity | None
) -> None:
    assert severity_of(free, total) is severity


def test_a_disk_with_bytes_free_and_no_inodes_is_an_error() -> None:
    result = inodes_result(disks_of(placed(inodes=1000, inodes_free=0)))

    assert result.status is CheckStatus.ERROR
    finding = result.problems[0].finding
    assert finding.summary == "/scratch disk (ext4) has 0 inodes free of 1000: TMPDIR"
    assert "`du -x --inodes -d3 '/scratch disk'" in (finding.remedy or "")


def test_a_file_system_without_a_fixed_number_has_enough() -> None:
    result = inodes_result(disks_of(placed(inodes=0, inodes_free=0, kind="btrfs")))

    assert result.status is CheckStatus.OK
    assert result.summary == "no disk has a fixed number of inodes"


def test_without_any_answer_it_is_unknown() -> None:
    with pytest.raises(UndeterminedError):
        inodes_result(Disks(directories=(), unanswered=()))


def test_the_disk_of_a_directory_that_refuses_us_is_not_judged_by_the_one_above_it() -> None:
    refused = placed(inodes=1000, inodes_free=0, is_refused=True)

    with pytest.raises(UndeterminedError):
        inodes_result(disks_of(refused))


def test_this_machine_has_inodes(tmp_path: Path) -> None:
    assert CHECK.run(check_context(tmp_path, environ={})).unknown is None
