# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.drift.control_group import control_group


def recorded(root: Path, cgroup: str, mount: str) -> Path:
    own = root / "proc" / "self"
    own.mkdir(parents=True)
    (own / "cgroup").write_text(cgroup)
    (own / "mountinfo").write_text(mount)
    return root


V2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


def test_the_lowest_limit_counts_the_own_or_one_above(tmp_path: Path) -> None:
    root = recorded(tmp_path, "0::/ci/job\n", V2)
    for name, memory, cpu in (
        ("ci", "8000000000", "150000 100000"),
        ("ci/job", "max", "max 100000"),
    ):
        directory = root / "sys/fs/cgroup" / name
        directory.mkdir(parents=True)
        (directory / "memory.max").write_text(f"{memory}\n")
        (directory / "cpu.max").write_text(f"{cpu}\n")

    assert control_group(root).facts == {"limit.cpu": "1.5 CPUs", "limit.memory": "8.0 GB"}


def test_without_a_limit_there_is_none(tmp_path: Path) -> None:
    root = recorded(tmp_path, "0::/\n", V2)
    (root / "sys/fs/cgroup").mkdir(parents=True)

    assert control_group(root).facts == {"limit.cpu": "none", "limit.memory": "none"}


@pytest.mark.parametrize(
    ("limit", "shown"), [("2000000000", "2.0 GB"), ("9223372036854771712", "none")]
)
def test_the_first_version_of_cgroups_counts_memory(tmp_path: Path, limit: str, shown: str) -> None:
    root = recorded(tmp_path, "4:memory:/job\n0::/\n", V1)
    (root / "sys/fs/cgroup/memory/job").mkdir(parents=True)
    (root / "sys/fs/cgroup/memory/job/memory.limit_in_bytes").write_text(limit)

    limits = control_group(root)

    assert limits.facts == {"limit.memory": shown}
    assert "limit.cpu" in limits.unknown


def test_a_container_without_sys_does_not_know_its_limits(tmp_path: Path) -> None:
    assert {*control_group(tmp_path).unknown} == {"limit.cpu", "limit.memory"}
    root = recorded(tmp_path, "0::/ci\n", V2)

    assert {*control_group(root).unknown} == {"limit.cpu", "limit.memory"}
