# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.machine.cgroups import read_cgroups
from tests.support.checks import check_context
from tests.support.machine_trees import v1_tree, v2_tree, write_tree


def test_a_nested_cgroup_counts_with_all_above_it_the_nearest_first(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/a/b": {}}, own="/a/b")

    cgroups = read_cgroups(check_context(tmp_path, root=root), "memory")

    top = root / "sys/fs/cgroup"
    assert cgroups.version == 2
    assert cgroups.directories == (top / "a/b", top / "a", top)


def test_a_container_with_v1_sees_its_own_cgroup_at_the_mount_point(tmp_path: Path) -> None:
    root = v1_tree(tmp_path, "pids", {"/": {}}, own="/docker/4f", mounted="/docker/4f")

    cgroups = read_cgroups(check_context(tmp_path, root=root), "pids")

    assert cgroups.version == 1
    assert cgroups.directories == (root / "sys/fs/cgroup/pids",)


def test_without_a_mount_in_view_the_limits_are_unknown(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": ""})

    with pytest.raises(UndeterminedError, match="no mount shows /job"):
        read_cgroups(check_context(tmp_path, root=root), "memory")


def test_without_proc_the_cgroup_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError, match="No such file"):
        read_cgroups(check_context(tmp_path, root=tmp_path), "memory")


def test_a_mount_that_another_one_hides_leaves_the_limits_unknown(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {}, own="/job")

    with pytest.raises(UndeterminedError, match="sys/fs/cgroup/job is not there"):
        read_cgroups(check_context(tmp_path, root=root), "memory")
