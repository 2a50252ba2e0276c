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
from ci_doctor.checks.settings import DoctorSettings, Workload, WorkloadName
from ci_doctor.machine.host import ResourceLimit, resource_limits
from ci_doctor.model.outcome import Finding, RemedyKind, Severity
from tests.support.checks import check_context
from tests.support.git_repository import make_repository
from tests.support.machine_trees import GIB, MIB, v2_tree, write_tree


def meminfo(root: Path, available: int, **others: int) -> Path:
    lines = {"MemTotal": 16 * GIB, "MemAvailable": available, **others}
    text = "".join(f"{name}:  {count // 1024} kB\n" for name, count in lines.items())
    return write_tree(root, {"proc/meminfo": text})


def test_memory_is_judged_by_what_is_available_and_unknown_without_that(tmp_path: Path) -> None:
    result = memory.run(check_context(tmp_path, root=meminfo(tmp_path, 100 * MIB)))

    assert result.status is CheckStatus.ERROR
    assert result.summary == "104.9 MB of 17.2 GB memory are available"

    root = write_tree(tmp_path, {"proc/meminfo": "MemTotal: 5 kB\nMemFree: x kB\n"})
    with pytest.raises(UndeterminedError, match="does not say"):
        memory.run(check_context(tmp_path, root=root))


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


def level(limit: int | str, used: int, **others: str) -> dict[str, str]:
    """The files of a v2 cgroup with this limit and use."""
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{used}\n",
        **{name.replace("_", ".", 1): text for name, text in others.items()},
    }


@pytest.mark.parametrize(
    ("left", "workload", "severity"),
    [
        (100 * MIB, None, Severity.ERROR),
        (2 * GIB, None, None),
        (2 * GIB, "vllm", Severity.WARNING),
    ],
)
def test_little_left_of_the_limit_warns_and_nothing_left_is_an_error(
    tmp_path: Path, left: int, workload: WorkloadName | None, severity: Severity | None
) -> None:
    root = v2_tree(tmp_path, {"/job": level(16 * GIB, 16 * GIB - left)}, own="/job")
    settings = DoctorSettings(workload=workload)

    result = cgroup_memory.run(check_context(tmp_path, root=root, settings=settings))

    assert [each.finding.severity for each in result.problems] == ([severity] if severity else [])
    assert result.figures == {"limit": 16 * GIB, "left": left}


def test_no_limit_anywhere_is_ok_and_no_cgroup_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        cgroup_memory.run(check_context(tmp_path, root=tmp_path))
    root = v2_tree(tmp_path, {"/job": level("max", 4 * GIB), "/": {}}, own="/job")

    result = cgroup_memory.run(check_context(tmp_path, root=root))

    assert result.summary == "no cgroup limits the memory of this job"


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


@pytest.mark.parametrize("name", ["memory.current", "memory.max"])
def test_an_empty_file_of_a_level_is_no_missing_limit(tmp_path: Path, name: str) -> None:
    files = {**level(16 * GIB, GIB), name: ""}
    root = v2_tree(tmp_path, {"/job": files}, own="/job")

    with pytest.raises(UndeterminedError, match="cannot be read"):
        cgroup_memory.run(check_context(tmp_path, root=root))


VISIBLE = len(os.sched_getaffinity(0))
TINY = {"cpu.max": "10000 100000\n", "cpu.stat": "nr_periods 200\nnr_throttled 50\n"}


def test_without_a_quota_all_cpus_are_usable_and_numa_nodes_are_named(tmp_path: Path) -> None:
    unknown = cpus.run(check_context(tmp_path, root=tmp_path))
    root = v2_tree(tmp_path, {"/job": {"cpu.max": "max 100000\n"}}, own="/job")
    known = cpus.run(check_context(tmp_path, root=root))
    write_tree(root, {"sys/devices/system/node/online": "0-1\n"})
    nodes = cpus.run(check_context(tmp_path, root=root))

    summary = f"{VISIBLE} of {os.cpu_count()} CPUs may be used"
    assert (known.status, known.summary) == (CheckStatus.OK, summary)
    assert nodes.summary.endswith("NUMA nodes 0-1")
    # Without /sys the quota is unknown, and the rest is said.
    assert unknown.status is CheckStatus.UNKNOWN
    assert "CPUs may be used" in unknown.summary


def test_a_quota_far_below_the_visible_cpus_warns_with_a_line_to_paste(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": TINY}, own="/job")
    threads = {"OMP_NUM_THREADS": "1"}
    serving = DoctorSettings(workload="vllm")

    warned = cpus.run(check_context(tmp_path, root=root, environ={}))
    quiet = cpus.run(check_context(tmp_path, root=root, environ=threads))
    server = cpus.run(check_context(tmp_path, root=root, environ=threads, settings=serving))

    (finding,) = [each.finding for each in warned.problems]
    assert finding.rule == "doctor/cpu-quota-below-count"
    assert (finding.remedy, finding.remedy_kind) == (
        "export OMP_NUM_THREADS=1",
        RemedyKind.COMMAND,
    )
    # A job that sets its threads is warned only if it is a server, on less than two CPUs.
    assert quiet.problems == ()
    assert [each.finding.rule for each in server.problems] == ["doctor/few-cpus"]


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
    root = tree(tmp_path, "max", 5)
    free = processes.run(check_context(tmp_path, root=root))
    write_tree(root, {"proc/loadavg": "9 9 9 1/199990 4000\n"})
    full = processes.run(check_context(tmp_path, root=root))
    (root / "proc" / "loadavg").unlink()
    uncounted = processes.run(check_context(tmp_path, root=root))

    assert (free.status, free.figures["kernel.threads-max"]) == (CheckStatus.OK, 199700)
    assert full.status is CheckStatus.ERROR
    assert "does not count the threads" in str(uncounted.unknown)


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


@pytest.mark.parametrize(("hard", "asked"), [(1048576, 65535), (8192, 8192)])
def test_a_server_needs_more_files_than_a_shell_has_and_no_more_than_the_hard_limit(
    tmp_path: Path, hard: int, asked: int
) -> None:
    usual = limits(nofile=ResourceLimit(soft=1024, hard=hard))
    assert findings(tmp_path, usual) == []

    (finding,) = findings(tmp_path, usual, "vllm")

    assert finding.severity is Severity.WARNING
    assert finding.remedy == f"ulimit -n {asked}"


def test_a_low_hard_limit_is_a_matter_of_the_container(tmp_path: Path) -> None:
    files = ResourceLimit(soft=1024, hard=1024)

    (finding,) = findings(tmp_path, limits(nofile=files))

    assert finding.summary.endswith("the hard limit is 1024")
    assert "--ulimit nofile=65535" in (finding.remedy or "")


def test_an_address_space_below_the_memory_is_named(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\n"})

    def limited(soft: int) -> list[Finding]:
        return findings(root, limits(**{"as": ResourceLimit(soft=soft, hard=NONE.hard)}))

    (finding,) = limited(8 * GIB)
    assert finding.summary.startswith("the address space is limited to 8.6 GB")
    assert (finding.remedy or "").startswith("ulimit -")
    assert limited(1024 * GIB) == []


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
    with pytest.raises(UndeterminedError, match="the date of the commit"):
        clock.run(check_context(tmp_path))
    make_repository(tmp_path)
    assert clock.run(check_context(tmp_path)).problems == ()
    dated = {**os.environ, "GIT_COMMITTER_DATE": f"{int(time.time()) + 7 * 24 * 3600} +0000"}
    subprocess.run(
        ["git", "commit", "--quiet", "--amend", "--no-edit"], cwd=tmp_path, env=dated, check=True
    )

    (found,) = clock.run(check_context(tmp_path)).problems

    assert found.finding.summary.startswith("the clock is 16")


def test_strict_overcommit_warns_with_what_may_still_be_reserved(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        overcommit.run(check_context(tmp_path, root=tmp_path))
    files = {
        "proc/sys/vm/overcommit_memory": "2\n",
        "proc/meminfo": "CommitLimit: 2000000 kB\nCommitted_AS: 1000000 kB\n",
    }

    result = overcommit.run(check_context(tmp_path, root=write_tree(tmp_path, files)))

    assert result.status is CheckStatus.WARNING
    assert result.summary == "vm.overcommit_memory is 2, and 1.0 GB more may be reserved"
