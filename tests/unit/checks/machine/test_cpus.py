# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.machine.cgroups import read_cgroups
from ci_doctor.checks.machine.cpus import CHECK, CpuQuota, smallest_quota
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.finding import RemedyKind
from tests.support.checks import check_context
from tests.support.machine_trees import v1_tree, v2_tree, write_tree

VISIBLE = len(os.sched_getaffinity(0))
TINY = {"cpu.max": "10000 100000\n", "cpu.stat": "nr_periods 200\nnr_throttled 50\n"}


def quota_of(root: Path) -> CpuQuota | None:
    return smallest_quota(read_cgroups(check_context(root, root=root), "cpu"))


def test_without_a_quota_all_cpus_are_usable(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": {"cpu.max": "max 100000\n"}}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK
    assert result.summary == f"{VISIBLE} of {os.cpu_count()} CPUs may be used"


def test_the_smallest_quota_of_all_levels_counts(tmp_path: Path) -> None:
    levels = {"/a/b": {"cpu.max": "800000 100000\n"}, "/a": {"cpu.max": "150000 100000\n"}}
    root = v2_tree(tmp_path, levels, own="/a/b")

    file = root / "sys/fs/cgroup/a/cpu.max"
    assert quota_of(root) == CpuQuota(file=file, cpus=1.5, throttled=0, periods=0)


@pytest.mark.parametrize(("quota", "cpus"), [("250000", 2.5), ("-1", None)])
def test_v1_writes_minus_one_for_no_quota(tmp_path: Path, quota: str, cpus: float | None) -> None:
    files = {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": "100000\n"}
    root = v1_tree(tmp_path, "cpu", {"/": files}, own="/")

    smallest = quota_of(root)

    assert (smallest and smallest.cpus) == cpus


def test_a_quota_far_below_the_visible_cpus_warns_with_a_line_to_paste(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": TINY}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root, environ={}))

    (finding,) = [each.finding for each in result.problems]
    assert finding.rule == "doctor/cpu-quota-below-count"
    assert finding.summary.endswith("it has been stopped in 25 % of its periods")
    assert (finding.remedy, finding.remedy_kind) == (
        "export OMP_NUM_THREADS=1",
        RemedyKind.COMMAND,
    )


def test_a_job_that_sets_its_threads_is_not_warned(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": TINY}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root, environ={"OMP_NUM_THREADS": "1"}))

    assert result.problems == ()


def test_a_server_on_less_than_two_cpus_is_warned(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": TINY}, own="/job")
    context = check_context(
        tmp_path,
        root=root,
        environ={"OMP_NUM_THREADS": "1"},
        settings=DoctorSettings(workload="vllm"),
    )

    assert [each.finding.rule for each in CHECK.run(context).problems] == ["doctor/few-cpus"]


def test_numa_nodes_are_named_if_there_are_several(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/": {}}, own="/")
    write_tree(root, {"sys/devices/system/node/online": "0-1\n"})

    assert CHECK.run(check_context(tmp_path, root=root)).summary.endswith("NUMA nodes 0-1")


def test_without_sys_the_quota_is_unknown_and_the_rest_is_said(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, root=tmp_path))

    assert result.status is CheckStatus.UNKNOWN
    assert "CPUs may be used" in result.summary
