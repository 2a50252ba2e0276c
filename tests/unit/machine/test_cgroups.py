# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.machine.host import (
    CpuQuota,
    UnknownCgroupError,
    memory_levels,
    read_cgroups,
    smallest_quota,
)
from tests.support.machine_trees import GIB, UNLIMITED_V1, v1_tree, v2_tree, write_tree


def test_a_nested_cgroup_counts_with_all_above_it_the_nearest_first(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/a/b": {}}, own="/a/b")

    cgroups = read_cgroups("memory", root)

    top = root / "sys/fs/cgroup"
    assert cgroups.version == 2
    assert cgroups.directories == (top / "a/b", top / "a", top)


def test_a_container_with_v1_sees_its_own_cgroup_at_the_mount_point(tmp_path: Path) -> None:
    root = v1_tree(tmp_path, "pids", {"/": {}}, own="/docker/4f", mounted="/docker/4f")

    cgroups = read_cgroups("pids", root)

    assert cgroups.version == 1
    assert cgroups.directories == (root / "sys/fs/cgroup/pids",)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": ""}, "no mount shows /job"),
        ({}, "No such file"),
        ({"proc/self/cgroup": "no cgroup\n", "proc/self/mountinfo": ""}, "is unknown"),
    ],
    ids=["no mount in view", "no /proc", "a damaged list"],
)
def test_without_a_cgroup_in_view_the_limits_are_unknown(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    with pytest.raises(UnknownCgroupError, match=reason):
        read_cgroups("memory", write_tree(tmp_path, files))


def test_a_mount_that_another_one_hides_leaves_the_limits_unknown(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {}, own="/job")

    with pytest.raises(UnknownCgroupError, match="sys/fs/cgroup/job is not there"):
        read_cgroups("memory", root)


def test_memory_in_use_leaves_out_what_the_kernel_drops_first(tmp_path: Path) -> None:
    files = {
        "memory.max": f"{16 * GIB}\n",
        "memory.current": f"{15 * GIB}\n",
        "memory.stat": f"anon 5\ninactive_file {10 * GIB}\n",
        "memory.events": "oom 3\noom_kill 2\n",
    }
    root = v2_tree(tmp_path, {"/job": files}, own="/job")

    (level,) = memory_levels(read_cgroups("memory", root))

    assert (level.used, level.left) == (5 * GIB, 11 * GIB)


def test_v1_has_its_own_files_of_memory(tmp_path: Path) -> None:
    files = {
        "memory.limit_in_bytes": f"{8 * GIB}\n",
        "memory.usage_in_bytes": f"{8 * GIB}\n",
        "memory.stat": f"total_inactive_file {7 * GIB}\n",
        "memory.memsw.limit_in_bytes": f"{UNLIMITED_V1}\n",
    }
    top = {"memory.limit_in_bytes": f"{UNLIMITED_V1}\n", "memory.usage_in_bytes": "5\n"}
    root = v1_tree(tmp_path, "memory", {"/job": files, "/": top}, own="/job")

    own, above = memory_levels(read_cgroups("memory", root))

    assert (own.limit, own.left, above.limit) == (8 * GIB, 7 * GIB, None)


def test_the_smallest_quota_of_all_levels_counts(tmp_path: Path) -> None:
    stat = "nr_periods 200\nnr_throttled 50\n"
    levels = {
        "/a/b": {"cpu.max": "800000 100000\n"},
        "/a": {"cpu.max": "150000 100000\n", "cpu.stat": stat},
    }
    root = v2_tree(tmp_path, levels, own="/a/b")

    file = root / "sys/fs/cgroup/a/cpu.max"
    assert smallest_quota(read_cgroups("cpu", root)) == CpuQuota(file=file, cpus=1.5)


@pytest.mark.parametrize(("quota", "cpus"), [("250000", 2.5), ("-1", None)])
def test_v1_writes_minus_one_for_no_quota(tmp_path: Path, quota: str, cpus: float | None) -> None:
    files = {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": "100000\n"}
    root = v1_tree(tmp_path, "cpu", {"/": files}, own="/")

    smallest = smallest_quota(read_cgroups("cpu", root))

    assert (smallest and smallest.cpus) == cpus
