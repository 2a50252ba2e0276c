# SPDX-License-Identifier: Apache-2.0
"""What a job may use: memory, CPUs, processes, ulimits; and the clock."""

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.limits import (
    cgroup_memory,
    clock,
    cpus,
    low_limits,
    memory,
    memory_severity,
    overcommit,
    process_severity,
    processes,
    wrong_clock,
)
from ci_doctor.checks.settings import DoctorSettings, Workload
from ci_doctor.machine.cgroups import CpuQuota, read_cgroups, smallest_quota
from ci_doctor.machine.host import ResourceLimit, resource_limits
from ci_doctor.model.finding import Finding, RemedyKind, Severity
from tests.support.checks import check_context
from tests.support.git_repository import make_repository
from tests.support.machine_trees import GIB, MIB, v1_tree, v2_tree, write_tree


def meminfo(root: Path, available: int, **others: int) -> Path:
    lines = {"MemTotal": 16 * GIB, "MemAvailable": available, **others}
    text = "".join(f"{name}:  {count // 1024} kB\n" for name, count in lines.items())
    return write_tree(root, {"proc/meminfo": text})


def test_a_machine_with_nothing_left_is_not_fit(tmp_path: Path) -> None:
    result = memory.run(check_context(tmp_path, root=meminfo(tmp_path, 100 * MIB)))

    assert result.status is CheckStatus.ERROR
    assert result.summary == "104.9 MB of 17.2 GB memory are available"


@pytest.mark.parametrize(
    ("available", "workload", "severity"),
    [
        (200 * MIB, None, Severity.ERROR),
        (900 * MIB, None, Severity.WARNING),
        (2 * GIB, None, None),
        (2 * GIB, Workload.VLLM, Severity.WARNING),
        (2 * GIB, Workload.CORRECTNESS, None),
        (5 * GIB, Workload.SGLANG, None),
    ],
)
def test_what_is_little_depends_on_the_workload(
    available: int, workload: Workload | None, severity: Severity | None
) -> None:
    assert memory_severity(available, workload) is severity


def test_a_meminfo_without_the_figure_is_unknown(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/meminfo": "MemTotal: 5 kB\nMemFree: x kB\n"})

    with pytest.raises(UndeterminedError, match="does not say"):
        memory.run(check_context(tmp_path, root=root))


def level(limit: int | str, used: int, **others: str) -> dict[str, str]:
    """The files of a v2 cgroup with this limit and use."""
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{used}\n",
        **{name.replace("_", ".", 1): text for name, text in others.items()},
    }


def test_a_limit_with_much_left_is_ok(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": level(64 * GIB, 4 * GIB)}, own="/job")

    result = cgroup_memory.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK
    assert result.problems == ()
    assert result.figures == {"limit": 64 * GIB, "left": 60 * GIB}


def test_no_limit_anywhere_is_ok(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": level("max", 4 * GIB), "/": {}}, own="/job")

    result = cgroup_memory.run(check_context(tmp_path, root=root))

    assert result.summary == "no cgroup limits the memory of this job"


@pytest.mark.parametrize(
    ("left", "severity"),
    [(100 * MIB, Severity.ERROR), (500 * MIB, Severity.WARNING), (2 * GIB, None)],
)
def test_little_left_warns_and_nothing_left_is_an_error(
    tmp_path: Path, left: int, severity: Severity | None
) -> None:
    root = v2_tree(tmp_path, {"/job": level(16 * GIB, 16 * GIB - left)}, own="/job")

    result = cgroup_memory.run(check_context(tmp_path, root=root))

    assert [each.finding.severity for each in result.problems] == ([severity] if severity else [])


def test_a_server_needs_more_than_another_job(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": level(16 * GIB, 14 * GIB)}, own="/job")
    serving = DoctorSettings(workload="vllm")

    result = cgroup_memory.run(check_context(tmp_path, root=root, settings=serving))

    assert result.status is CheckStatus.WARNING


def test_the_limit_of_a_cgroup_above_counts(tmp_path: Path) -> None:
    levels = {
        "/pod/job": level("max", 1 * GIB),
        "/pod": level(8 * GIB, 8 * GIB - 10 * MIB),
    }
    root = v2_tree(tmp_path, levels, own="/pod/job")

    result = cgroup_memory.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.ERROR
    (evidence,) = result.problems[0].finding.evidence
    assert (evidence.file or "").endswith("/sys/fs/cgroup/pod/memory.max")


def test_without_sys_it_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        cgroup_memory.run(check_context(tmp_path, root=tmp_path))


@pytest.mark.parametrize("name", ["memory.current", "memory.max"])
def test_an_empty_file_of_a_level_is_no_missing_limit(tmp_path: Path, name: str) -> None:
    files = {**level(16 * GIB, GIB), name: ""}
    root = v2_tree(tmp_path, {"/job": files}, own="/job")

    with pytest.raises(UndeterminedError, match="cannot be read"):
        cgroup_memory.run(check_context(tmp_path, root=root))


VISIBLE = len(os.sched_getaffinity(0))
TINY = {"cpu.max": "10000 100000\n", "cpu.stat": "nr_periods 200\nnr_throttled 50\n"}


def quota_of(root: Path) -> CpuQuota | None:
    return smallest_quota(read_cgroups("cpu", root))


def test_without_a_quota_all_cpus_are_usable(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": {"cpu.max": "max 100000\n"}}, own="/job")

    result = cpus.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK
    assert result.summary == f"{VISIBLE} of {os.cpu_count()} CPUs may be used"


@pytest.mark.parametrize(("quota", "cpus"), [("250000", 2.5), ("-1", None)])
def test_v1_writes_minus_one_for_no_quota(tmp_path: Path, quota: str, cpus: float | None) -> None:
    files = {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": "100000\n"}
    root = v1_tree(tmp_path, "cpu", {"/": files}, own="/")

    smallest = quota_of(root)

    assert (smallest and smallest.cpus) == cpus


def test_a_quota_far_below_the_visible_cpus_warns_with_a_line_to_paste(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": TINY}, own="/job")

    result = cpus.run(check_context(tmp_path, root=root, environ={}))

    (finding,) = [each.finding for each in result.problems]
    assert finding.rule == "doctor/cpu-quota-below-count"
    assert (finding.remedy, finding.remedy_kind) == (
        "export OMP_NUM_THREADS=1",
        RemedyKind.COMMAND,
    )


def test_a_job_that_sets_its_threads_is_not_warned(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": TINY}, own="/job")

    result = cpus.run(check_context(tmp_path, root=root, environ={"OMP_NUM_THREADS": "1"}))

    assert result.problems == ()


def test_a_server_on_less_than_two_cpus_is_warned(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": TINY}, own="/job")
    context = check_context(
        tmp_path,
        root=root,
        environ={"OMP_NUM_THREADS": "1"},
        settings=DoctorSettings(workload="vllm"),
    )

    assert [each.finding.rule for each in cpus.run(context).problems] == ["doctor/few-cpus"]


def test_numa_nodes_are_named_if_there_are_several(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/": {}}, own="/")
    write_tree(root, {"sys/devices/system/node/online": "0-1\n"})

    assert cpus.run(check_context(tmp_path, root=root)).summary.endswith("NUMA nodes 0-1")


def test_without_sys_the_quota_is_unknown_and_the_rest_is_said(tmp_path: Path) -> None:
    result = cpus.run(check_context(tmp_path, root=tmp_path))

    assert result.status is CheckStatus.UNKNOWN
    assert "CPUs may be used" in result.summary


def tree(root: Path, limit: str, used: int) -> Path:
    files = {"pids.max": f"{limit}\n", "pids.current": f"{used}\n"}
    v2_tree(root, {"/job": files}, own="/job")
    return write_tree(
        root,
        {
            "proc/loadavg": "0.1 0.2 0.3 1/300 4000\n",
            "proc/sys/kernel/pid_max": "4194304\n",
            "proc/sys/kernel/threads-max": "200000\n",
        },
    )


def test_the_nearest_limit_is_named(tmp_path: Path) -> None:
    result = processes.run(check_context(tmp_path, root=tree(tmp_path, "1024", 1000)))

    assert result.status is CheckStatus.ERROR
    summary = result.problems[0].finding.summary
    assert summary.startswith("24 more processes and threads can be started: 1000 of 1024 exist")
    assert "/job/pids.max" in summary


def test_without_a_limit_of_the_cgroup_those_of_the_kernel_count(tmp_path: Path) -> None:
    result = processes.run(check_context(tmp_path, root=tree(tmp_path, "max", 1000)))

    assert result.status is CheckStatus.OK
    assert result.figures["kernel.threads-max"] == 199700


def test_a_full_process_table_is_an_error(tmp_path: Path) -> None:
    root = tree(tmp_path, "max", 5)
    write_tree(root, {"proc/loadavg": "9 9 9 1/199990 4000\n"})

    result = processes.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.ERROR


@pytest.mark.parametrize(
    ("left", "severity"), [(99, Severity.ERROR), (999, Severity.WARNING), (1000, None)]
)
def test_few_processes_warn_and_none_is_an_error(left: int, severity: Severity | None) -> None:
    assert process_severity(left) is severity


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_the_limit_of_a_user_counts_the_threads_of_that_user() -> None:
    # The directory of a test is closed to other users.
    with tempfile.TemporaryDirectory() as name:
        root = tree(Path(name), "max", 5)
        root.chmod(0o755)
        # The machine has far more threads than this user.
        write_tree(root, {"proc/loadavg": "9 9 9 1/4950 4000\n"})
        for thread in ("77", "78", "79"):
            (root / "proc" / "77" / "task" / thread).mkdir(parents=True)
        os.chown(root / "proc" / "77", 65534, 65534)
        (root / "proc" / "80" / "task" / "80").mkdir(parents=True)
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        resource.setrlimit(resource.RLIMIT_NPROC, (5000, hard))
        try:
            os.seteuid(65534)
            result = processes.run(check_context(root, root=root))
        finally:
            os.seteuid(0)
            resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))

    assert result.figures["ulimit -u"] == 4997


def test_root_is_not_held_to_a_limit_of_processes(tmp_path: Path) -> None:
    result = processes.run(check_context(tmp_path, root=tree(tmp_path, "max", 5)))

    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    is_held = os.geteuid() != 0 and soft != resource.RLIM_INFINITY
    assert ("ulimit -u" in result.figures) is is_held


def test_threads_that_cannot_be_counted_are_not_none(tmp_path: Path) -> None:
    root = tree(tmp_path, "max", 5)
    (root / "proc" / "loadavg").unlink()

    unknown = processes.run(check_context(tmp_path, root=root)).unknown

    assert unknown is not None
    assert "does not count the threads" in unknown


NONE = ResourceLimit(soft=resource.RLIM_INFINITY, hard=resource.RLIM_INFINITY)


def limits(**changes: ResourceLimit) -> Mapping[str, ResourceLimit]:
    """Those of a shell on Debian, which are enough, and `changes`."""
    usual = dict.fromkeys(resource_limits(), NONE)
    usual["nofile"] = ResourceLimit(soft=1024, hard=1048576)
    usual["stack"] = ResourceLimit(soft=8 * MIB, hard=resource.RLIM_INFINITY)
    usual["core"] = ResourceLimit(soft=0, hard=resource.RLIM_INFINITY)
    usual["memlock"] = ResourceLimit(soft=8 * MIB, hard=8 * MIB)
    return {**usual, **changes}


def findings(
    root: Path, limits: Mapping[str, ResourceLimit], workload: str | None = None
) -> list[Finding]:
    settings = DoctorSettings(workload="vllm") if workload else None
    context = check_context(root, root=root, settings=settings)
    return [each.finding for each in low_limits(limits, context)]


def test_the_usual_limits_of_a_shell_are_enough(tmp_path: Path) -> None:
    assert findings(tmp_path, limits()) == []


def test_a_server_needs_more_files_than_a_shell_has(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, limits(), "vllm")

    assert finding.severity is Severity.WARNING
    assert finding.remedy == "ulimit -n 65535"


def test_the_remedy_stays_below_the_hard_limit(tmp_path: Path) -> None:
    files = ResourceLimit(soft=1024, hard=8192)

    (finding,) = findings(tmp_path, limits(nofile=files), "vllm")

    assert finding.remedy == "ulimit -n 8192"


def test_a_low_hard_limit_is_a_matter_of_the_container(tmp_path: Path) -> None:
    files = ResourceLimit(soft=1024, hard=1024)

    (finding,) = findings(tmp_path, limits(nofile=files))

    assert finding.summary.endswith("the hard limit is 1024")
    assert "--ulimit nofile=65535" in (finding.remedy or "")


@pytest.mark.parametrize(
    ("name", "soft", "words"),
    [
        ("as", 8 * GIB, "the address space is limited to 8.6 GB"),
    ],
)
def test_each_limit_that_ends_programs_is_named(
    tmp_path: Path, name: str, soft: int, words: str
) -> None:
    root = write_tree(tmp_path, {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\n"})
    low = ResourceLimit(soft=soft, hard=resource.RLIM_INFINITY)

    (finding,) = findings(root, limits(**{name: low}))

    assert finding.summary.startswith(words)
    assert (finding.remedy or "").startswith("ulimit -")


def test_an_address_space_far_above_the_memory_is_no_limit(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\n"})
    wide = ResourceLimit(soft=1024 * GIB, hard=1024 * GIB)

    assert findings(root, limits(**{"as": wide})) == []


def test_locked_memory_matters_if_there_is_rdma(tmp_path: Path) -> None:
    write_tree(tmp_path, {"dev/infiniband/uverbs0": ""})

    (without,) = findings(tmp_path, limits())
    with_server = findings(tmp_path, limits(), "vllm")

    assert without.severity is Severity.NOTE
    assert [each.severity for each in with_server] == [Severity.WARNING] * 2


@pytest.mark.parametrize(
    ("behind_s", "is_kept", "severity"),
    [
        (-5.0, False, []),
        (299.0, False, []),
        (301.0, False, [Severity.WARNING]),
        (3700.0, False, [Severity.ERROR]),
        # git takes any date for a commit.
        (3700.0, True, [Severity.WARNING]),
    ],
)
def test_a_clock_before_the_commit_is_wrong_by_how_much_it_is(
    behind_s: float, is_kept: bool, severity: list[Severity]
) -> None:
    found = wrong_clock(behind_s, is_kept=is_kept)

    assert [each.finding.severity for each in found] == severity


def test_a_commit_of_the_future_is_compared_with_the_clock(tmp_path: Path) -> None:
    make_repository(tmp_path)
    assert clock.run(check_context(tmp_path)).problems == ()
    dated = {**os.environ, "GIT_COMMITTER_DATE": f"{int(time.time()) + 7 * 24 * 3600} +0000"}
    subprocess.run(
        ["git", "commit", "--quiet", "--amend", "--no-edit"], cwd=tmp_path, env=dated, check=True
    )

    (found,) = clock.run(check_context(tmp_path)).problems

    assert found.finding.summary.startswith("the clock is 16")


def test_without_a_commit_the_clock_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError, match="the date of the commit"):
        clock.run(check_context(tmp_path))


def test_strict_overcommit_warns_with_what_may_still_be_reserved(tmp_path: Path) -> None:
    files = {
        "proc/sys/vm/overcommit_memory": "2\n",
        "proc/meminfo": "CommitLimit: 2000000 kB\nCommitted_AS: 1000000 kB\n",
    }

    result = overcommit.run(check_context(tmp_path, root=write_tree(tmp_path, files)))

    assert result.status is CheckStatus.WARNING
    assert result.summary == "vm.overcommit_memory is 2, and 1.0 GB more may be reserved"


def test_without_proc_sys_overcommit_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        overcommit.run(check_context(tmp_path, root=tmp_path))
