# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.disk_space import CHECK, needed_on, space_result
from ci_doctor.checks.machine.disks import Disks, UnansweredDirectory
from ci_doctor.checks.machine.mounts import Mount
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.finding import RemedyKind
from tests.support.checks import check_context
from tests.support.machine_trees import GIB, MIB
from tests.support.placed_directories import disks_of, placed


def test_a_disk_at_99_percent_is_an_error_with_a_listing_to_look_at() -> None:
    full = placed(total=100 * GIB, free=1 * GIB)

    result = space_result(disks_of(full, placed(name="HF_HOME", free=1 * GIB)), 5 * GIB)

    assert result.status is CheckStatus.ERROR
    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == (
        "/scratch disk (ext4) has 1.1 GB free of 107.4 GB; 5.4 GB are needed for TMPDIR, HF_HOME"
    )
    # It lists, and cures nothing by itself.
    assert finding.remedy_kind is RemedyKind.ADVICE
    assert "'/scratch disk'" in (finding.remedy or "")


def test_a_large_disk_at_99_percent_still_has_room() -> None:
    result = space_result(disks_of(placed(total=10_000 * GIB, free=100 * GIB)), 5 * GIB)

    assert result.status is CheckStatus.OK


def test_what_is_reserved_for_root_is_said() -> None:
    result = space_result(disks_of(placed(free=0, reserved=5 * GIB)), 5 * GIB)

    assert result.problems[0].finding.summary.endswith("(5.4 GB more are reserved for root)")


@pytest.mark.parametrize(
    ("kind", "total", "needed"),
    [
        ("ext4", 8 * GIB, 5 * GIB),
        ("tmpfs", 8 * GIB, 8 * GIB // 20),
        ("tmpfs", 64 * GIB, 5 * GIB),
    ],
)
def test_a_small_tmpfs_is_small_by_intention(kind: str, total: int, needed: int) -> None:
    assert needed_on(placed(kind=kind, total=total), 5 * GIB) == needed


def test_the_disk_with_the_least_room_stands_in_the_summary() -> None:
    result = space_result(disks_of(placed(), placed(device=2, free=6 * GIB)), 5 * GIB)

    assert result.summary == (
        "/scratch disk (ext4) has 6.4 GB free of 107.4 GB, the least of 2 disks"
    )


def test_a_read_only_disk_needs_no_room() -> None:
    result = space_result(disks_of(placed(), placed(device=2, free=0, is_read_only=True)), GIB)

    assert result.status is CheckStatus.OK


def test_a_disk_that_reports_no_size_is_unknown() -> None:
    result = space_result(disks_of(placed(), placed(device=2, total=0, free=0)), GIB)

    assert result.status is CheckStatus.UNKNOWN
    assert "does not say how much room" in (result.unknown or "")


def test_one_that_does_not_answer_leaves_the_others_known() -> None:
    mount = Mount(point=Path("/models"), kind="nfs4", source="server:/models")
    dead = UnansweredDirectory(
        directory=placed(name="HF_HOME").directory, reason="no answer within 1 s", mount=mount
    )

    result = space_result(Disks(directories=(placed(),), unanswered=(dead,)), GIB)

    assert result.status is CheckStatus.UNKNOWN
    assert result.unknown == "/scratch/HF_HOME: no answer within 1 s (nfs4 of server:/models)"
    assert "64.4 GB free" in result.summary


def test_if_no_disk_answers_all_is_unknown() -> None:
    with pytest.raises(UndeterminedError):
        space_result(Disks(directories=(), unanswered=()), GIB)


def test_the_configured_room_counts(tmp_path: Path) -> None:
    settings = DoctorSettings(min_free=f"{10**9}GiB")

    result = CHECK.run(check_context(tmp_path, environ={}, settings=settings))

    assert result.status is CheckStatus.ERROR


def test_this_machine_has_a_mebibyte(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, environ={}, settings=DoctorSettings(min_free=MIB)))

    assert result.problems == ()
