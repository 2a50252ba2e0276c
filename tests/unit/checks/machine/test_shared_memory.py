# SPDX-License-Identifier: Apache-2.0
import os
import tempfile
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.machine.shared_memory import CHECK
from ci_doctor.checks.settings import DoctorSettings
from tests.support.checks import check_context
from tests.support.machine_trees import write_tree


def rules(root: Path, least: str = "1MiB") -> list[str]:
    settings = DoctorSettings(shared_memory=least)
    result = CHECK.run(check_context(root, root=root, settings=settings))
    return [each.finding.rule for each in result.problems]


def test_a_missing_dev_shm_is_an_error(tmp_path: Path) -> None:
    assert rules(tmp_path) == ["doctor/shared-memory-unusable"]


def test_less_room_than_configured_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)

    assert rules(tmp_path, least=f"{10**9}GiB") == ["doctor/shared-memory-small"]


def test_a_directory_of_a_disk_warns(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {"proc/self/mountinfo": "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "dev/shm/file": ""},
    )

    assert rules(tmp_path) == ["doctor/shared-memory-on-disk"]


def test_a_tmpfs_is_what_it_should_be(tmp_path: Path) -> None:
    mounts = "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /dev/shm rw - tmpfs shm rw\n"
    write_tree(tmp_path, {"proc/self/mountinfo": mounts, "dev/shm/file": ""})

    assert rules(tmp_path) == []


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_one_that_this_user_may_not_write_to_is_an_error() -> None:
    # The directory of a test is closed to other users.
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "dev" / "shm").mkdir(parents=True)
        try:
            os.seteuid(65534)
            refused = rules(root)
        finally:
            os.seteuid(0)

    assert refused == ["doctor/shared-memory-unusable"]


def test_this_machine_answers(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, settings=DoctorSettings(shared_memory=1)))

    assert result.status is CheckStatus.OK
    assert result.summary.startswith("/dev/shm has ")
