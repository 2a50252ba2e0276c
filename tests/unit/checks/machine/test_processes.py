# SPDX-License-Identifier: Apache-2.0
import os
import resource
import tempfile
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.machine.processes import CHECK, severity_of
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.machine_trees import v2_tree, write_tree


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
    result = CHECK.run(check_context(tmp_path, root=tree(tmp_path, "1024", 1000)))

    assert result.status is CheckStatus.ERROR
    summary = result.problems[0].finding.summary
    assert summary.startswith("24 more processes and threads can be started: 1000 of 1024 exist")
    assert "/job/pids.max" in summary


def test_without_a_limit_of_the_cgroup_those_of_the_kernel_count(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, root=tree(tmp_path, "max", 1000)))

    assert result.status is CheckStatus.OK
    assert result.figures["kernel.threads-max"] == 199700


def test_a_full_process_table_is_an_error(tmp_path: Path) -> None:
    root = tree(tmp_path, "max", 5)
    write_tree(root, {"proc/loadavg": "9 9 9 1/199990 4000\n"})

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.ERROR


@pytest.mark.parametrize(
    ("left", "severity"), [(99, Severity.ERROR), (999, Severity.WARNING), (1000, None)]
)
def test_few_processes_warn_and_none_is_an_error(left: int, severity: Severity | None) -> None:
    assert severity_of(left) is severity


def test_this_machine_can_start_processes(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path))

    assert result.problems == ()
    assert "kernel.pid_max" in result.figures


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
            result = CHECK.run(check_context(root, root=root))
        finally:
            os.seteuid(0)
            resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))

    assert result.figures["ulimit -u"] == 4997


def test_root_is_not_held_to_a_limit_of_processes(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, root=tree(tmp_path, "max", 5)))

    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    is_held = os.geteuid() != 0 and soft != resource.RLIM_INFINITY
    assert ("ulimit -u" in result.figures) is is_held


def test_threads_that_cannot_be_counted_are_not_none(tmp_path: Path) -> None:
    root = tree(tmp_path, "max", 5)
    (root / "proc" / "loadavg").unlink()

    unknown = CHECK.run(check_context(tmp_path, root=root)).unknown

    assert unknown is not None
    assert "does not count the threads" in unknown
