# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.cgroup_memory import CHECK
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.machine_trees import GIB, MIB, UNLIMITED_V1, v1_tree, v2_tree


def level(limit: int | str, used: int, **others: str) -> dict[str, str]:
    """The files of a v2 cgroup with this limit and use."""
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{used}\n",
        **{name.replace("_", ".", 1): text for name, text in others.items()},
    }


def test_a_limit_with_much_left_is_ok(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": level(64 * GIB, 4 * GIB)}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK
    assert result.problems == ()
    assert result.figures == {"kills": 0, "limit": 64 * GIB, "left": 60 * GIB}


def test_no_limit_anywhere_is_ok(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": level("max", 4 * GIB), "/": {}}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.summary == "no cgroup limits the memory of this job"


@pytest.mark.parametrize(
    ("left", "severity"),
    [(100 * MIB, Severity.ERROR), (500 * MIB, Severity.WARNING), (2 * GIB, None)],
)
def test_little_left_warns_and_nothing_left_is_an_error(
    tmp_path: Path, left: int, severity: Severity | None
) -> None:
    root = v2_tree(tmp_path, {"/job": level(16 * GIB, 16 * GIB - left)}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert [each.finding.severity for each in result.problems] == ([severity] if severity else [])


def test_a_server_needs_more_than_another_job(tmp_path: Path) -> None:
    root = v2_tree(tmp_path, {"/job": level(16 * GIB, 14 * GIB)}, own="/job")
    serving = DoctorSettings(workload="vllm")

    result = CHECK.run(check_context(tmp_path, root=root, settings=serving))

    assert result.status is CheckStatus.WARNING


def test_the_limit_of_a_cgroup_above_counts(tmp_path: Path) -> None:
    levels = {
        "/pod/job": level("max", 1 * GIB),
        "/pod": level(8 * GIB, 8 * GIB - 10 * MIB),
    }
    root = v2_tree(tmp_path, levels, own="/pod/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.ERROR
    (evidence,) = result.problems[0].finding.evidence
    assert (evidence.file or "").endswith("/sys/fs/cgroup/pod/memory.max")


def test_files_that_the_kernel_can_drop_are_not_in_use(tmp_path: Path) -> None:
    stat = f"anon 5\ninactive_file {10 * GIB}\n"
    root = v2_tree(
        tmp_path, {"/job": level(16 * GIB, 16 * GIB - MIB, memory_stat=stat)}, own="/job"
    )

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK


def test_at_memory_high_allocations_are_slowed_down(tmp_path: Path) -> None:
    high = f"{4 * GIB}\n"
    root = v2_tree(tmp_path, {"/job": level("max", 4 * GIB, memory_high=high)}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert [each.finding.rule for each in result.problems] == ["doctor/cgroup-memory-throttled"]


def test_earlier_kills_of_this_cgroup_are_a_note(tmp_path: Path) -> None:
    events = "low 0\noom 3\noom_kill 2\n"
    root = v2_tree(tmp_path, {"/job": level(64 * GIB, GIB, memory_events=events)}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK
    assert result.problems[0].finding.severity is Severity.NOTE
    assert "killed 2 processes" in result.problems[0].finding.summary


def test_v1_has_its_own_files(tmp_path: Path) -> None:
    files = {
        "memory.limit_in_bytes": f"{8 * GIB}\n",
        "memory.usage_in_bytes": f"{8 * GIB}\n",
        "memory.stat": f"total_inactive_file {8 * GIB - 200 * MIB}\n",
        "memory.memsw.limit_in_bytes": f"{UNLIMITED_V1}\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    }
    top = {"memory.limit_in_bytes": f"{UNLIMITED_V1}\n", "memory.usage_in_bytes": "5\n"}
    root = v1_tree(tmp_path, "memory", {"/job": files, "/": top}, own="/job")

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.figures == {"kills": 1, "limit": 8 * GIB, "left": 8 * GIB - 200 * MIB}


def test_without_sys_it_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        CHECK.run(check_context(tmp_path, root=tmp_path))


@pytest.mark.parametrize("name", ["memory.current", "memory.max"])
def test_an_empty_file_of_a_level_is_no_missing_limit(tmp_path: Path, name: str) -> None:
    files = {**level(16 * GIB, GIB), name: ""}
    root = v2_tree(tmp_path, {"/job": files}, own="/job")

    with pytest.raises(UndeterminedError, match="cannot be read"):
        CHECK.run(check_context(tmp_path, root=root))
