# SPDX-License-Identifier: Apache-2.0
"""Servers of earlier jobs: which they are, whose they are, what they hold."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.leftovers import (
    ProcessStanding,
    Surroundings,
    held_things,
    is_server,
    processes,
    standing_of,
)
from ci_doctor.checks.processes import RunningProcess
from ci_doctor.system.processes.process_table import Kin
from tests.support.checks import check_context


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vllm serve Qwen/Qwen3-8B", True),
        ("/opt/venv/bin/python3.12 /opt/venv/bin/vllm serve x", True),
        ("python -m vllm.entrypoints.openai.api_server", True),
        ("python -W ignore -X dev -u -m sglang.launch_server", True),
        ("VLLM::EngineCore_DP0", True),
        ("ray::IDLE", True),
        ("/usr/lib/ray/raylet --port 1", True),
        ("python3 -m torch.distributed.run train.py", True),
        ("python -I -S -c import\tci_doctor.system.guardian_main;\tmain() /x", True),
        ("grep -r vllm .", False),
        ("python -m pip install vllm", False),
        ("python tests/vllm.py", False),
        ("vim vllm", False),
        ("python", False),
        ("python -c pass", False),
        ("less /var/log/vllm/serve", False),
        ("python -m vllms", False),
        ("", False),
    ],
)
def test_servers_and_their_workers_are_and_what_only_names_them_is_not(
    line: str, expected: bool
) -> None:
    assert is_server(line.split(" ")) is expected


ROWS = [
    (1, 0, "systemd"),
    (10, 1, "buildkite-agent"),
    (11, 10, "buildkite-agent"),  # runs our job
    (12, 11, "bash"),
    (13, 12, "ci-doctor"),
    (14, 12, "vllm"),  # of our job
    (21, 10, "buildkite-agent"),  # runs another job
    (22, 21, "bash"),
    (23, 22, "vllm"),
    (31, 1, "vllm"),  # an orphan
    (40, 1, "tmux"),
    (41, 40, "vllm"),  # somebody's
    (51, 999, "vllm"),  # of a parent that /proc hides
]


def process(
    pid: int, parent: int, name: str, *, group: int = 0, session: int = 0
) -> RunningProcess:
    kin = Kin(pid=pid, parent=parent, started=0, state="S", threads=1, name=name)
    return RunningProcess(
        kin=kin, group=group or pid, session=session or pid, uid=0, words=(name,), age_s=1.0
    )


TABLE = {pid: process(pid, parent, name) for pid, parent, name in ROWS}


def standing(
    pid: int,
    job: str | None = None,
    *,
    own_job: str | None = "ours",
    sees_agents: bool = True,
    managed: frozenset[int] = frozenset(),
) -> ProcessStanding:
    around = replace(
        alone(TABLE, {pid: job}, own_job),
        running_jobs=frozenset({"ours", "running"}) if sees_agents else frozenset(),
        sees_agents=sees_agents,
        is_managed=lambda pid: pid in managed,
    )
    return standing_of(TABLE[pid], around)


def alone(
    table: Mapping[int, RunningProcess],
    jobs: Mapping[int, str | None] | None = None,
    job: str | None = None,
) -> Surroundings:
    """No agent is to be seen."""
    return Surroundings(
        pid=13,
        job=job,
        running_jobs=frozenset(),
        sees_agents=False,
        jobs=jobs or {},
        is_managed=lambda _: False,
        table=table,
    )


@pytest.mark.parametrize(
    ("pid", "job", "around", "expected"),
    [
        (31, "ours", {}, ProcessStanding.OURS),
        (14, None, {}, ProcessStanding.OURS),
        # It descends from our agent alone.
        (23, None, {}, ProcessStanding.OTHERS),
        (23, "running", {}, ProcessStanding.OTHERS),
        # An orphan.
        (31, None, {}, ProcessStanding.STALE),
        (31, "earlier", {}, ProcessStanding.STALE),
        (31, None, {"own_job": None}, ProcessStanding.STALE),
        (51, None, {}, ProcessStanding.STALE),
        (31, "running", {}, ProcessStanding.OTHERS),
        # A job that no agent runs has left all its processes, if an agent is to be seen.
        (41, "earlier", {}, ProcessStanding.STALE),
        (41, "earlier", {"sees_agents": False}, ProcessStanding.UNKNOWN),
        # A service of the machine, or a container.
        (31, None, {"managed": frozenset({31})}, ProcessStanding.MANAGED),
        (31, "earlier", {"managed": frozenset({31})}, ProcessStanding.MANAGED),
        (41, None, {}, ProcessStanding.UNKNOWN),
    ],
)
def test_whose_a_process_is(
    pid: int, job: str | None, around: dict[str, Any], expected: ProcessStanding
) -> None:
    assert standing(pid, job, **around) is expected


def test_a_circle_of_parents_ends() -> None:
    table = {5: process(5, 6, "a"), 6: process(6, 5, "vllm"), 13: process(13, 13, "b")}
    around = alone(table)

    assert standing_of(table[6], around) is ProcessStanding.UNKNOWN


def in_container(group: int, session: int) -> ProcessStanding:
    """The standing of a child of a first process that is no init."""
    rows = [process(1, 0, "job.sh"), process(13, 1, "ci-doctor", session=13)]
    server = process(31, 1, "vllm", group=group, session=session)
    table = {each.pid: each for each in (*rows, server)}
    around = alone(table)
    return standing_of(server, around)


def test_below_a_first_process_that_is_no_init_an_orphan_has_lost_the_leader_of_its_group() -> None:
    assert in_container(group=29, session=29) is ProcessStanding.STALE
    assert in_container(group=1, session=1) is ProcessStanding.UNKNOWN
    assert in_container(group=29, session=13) is ProcessStanding.OURS


@pytest.mark.parametrize(
    ("first", "job", "expected"),
    [
        (None, "earlier", ProcessStanding.STALE),
        ("ours", "earlier", ProcessStanding.STALE),
        # The first process may have started it.
        ("earlier", "earlier", ProcessStanding.UNKNOWN),
        (None, None, ProcessStanding.UNKNOWN),
    ],
)
def test_a_server_that_the_first_process_cannot_have_started_is_left(
    first: str | None, job: str | None, expected: ProcessStanding
) -> None:
    rows = [(1, 0, "bash"), (13, 1, "ci-doctor"), (31, 1, "vllm"), (32, 31, "vllm")]
    table = {pid: process(pid, parent, name) for pid, parent, name in rows}
    around = alone(table, {1: first, 31: job, 32: job}, "ours")

    # The leader of its own session below a first process `bash`, and its worker.
    assert [standing_of(table[pid], around) for pid in (31, 32)] == [expected] * 2


def test_our_own_port_is_named_and_of_a_process_that_has_ended_nothing_is_known(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        things = held_things(check_context(tmp_path), os.getpid())
        port = server.getsockname()[1]

    assert f"port {port}" in things
    assert held_things(check_context(tmp_path), 2**22 + 1) == ()


def record(
    root: Path, pid: int, parent: int, name: str, line: str, *, job: str = "", group: str = "0::/\n"
) -> Path:
    """A process of /proc below `root`."""
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    fields = [str(parent), str(pid), str(pid), *["0"] * 13, "1", "0", "100"]
    (folder / "stat").write_text(f"{pid} ({name}) S {' '.join(fields)}{' 0' * 32}\n")
    (folder / "cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0")
    environ = "HF_TOKEN=hf_secret\0" + (f"BUILDKITE_JOB_ID={job}\0" if job else "")
    (folder / "environ").write_text(environ)
    (folder / "cgroup").write_text(group)
    return folder


def machine(root: Path) -> None:
    (root / "proc").mkdir()
    (root / "proc" / "uptime").write_text("10000.0 1.0\n")
    record(root, 1, 0, "systemd", "/sbin/init")
    record(root, 10, 1, "buildkite-agent", "buildkite-agent start")
    record(root, 11, 10, "buildkite-agent", "buildkite-agent bootstrap", job="ours")
    record(root, os.getpid(), 11, "python", "python -m ci_doctor doctor", job="ours")


def look(root: Path, *, job: str | None = "ours") -> CheckResult:
    environ = {} if job is None else {"BUILDKITE_JOB_ID": job}
    return processes.run(check_context(root, root=root, environ=environ))


def test_a_machine_without_leftovers_is_ok(tmp_path: Path) -> None:
    machine(tmp_path)
    record(tmp_path, 20, 11, "vllm", "vllm serve x", job="ours")
    record(tmp_path, 21, 1, "cron", "cron -f")

    result = look(tmp_path)

    assert (result.status, result.summary) == (
        CheckStatus.OK,
        "0 of earlier jobs among 6 processes",
    )


def test_an_orphaned_server_is_a_warning_with_what_it_holds(tmp_path: Path) -> None:
    machine(tmp_path)
    folder = record(tmp_path, 4242, 1, "VLLM::EngineCor", "VLLM::EngineCore_0", job="earlier")
    (folder / "fd" / "3").symlink_to("/dev/shm/psm_1a2b")
    (folder / "fd" / "4").symlink_to("/dev/nvidia0")
    (folder / "fd" / "5").symlink_to("/dev/null")
    record(tmp_path, 4243, 4242, "sh", "sh worker.sh", job="earlier")

    result = look(tmp_path)

    (found,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert found.finding.summary.startswith("2 processes are left by earlier jobs")
    excerpt = found.finding.evidence[0].excerpt or ""
    assert "job earlier, holds /dev/nvidia0, /dev/shm/psm_1a2b" in excerpt
    assert (found.finding.remedy or "").endswith("kill 4242 4243")
    assert "hf_secret" not in repr(result)


def test_a_service_of_the_machine_is_left_in_peace_and_the_agents_own_is_looked_at(
    tmp_path: Path,
) -> None:
    machine(tmp_path)
    record(tmp_path, 30, 1, "vllm", "vllm serve x", group="0::/system.slice/llm.service\n")
    record(tmp_path, 31, 1, "vllm", "vllm serve x", group="0::/system.slice/docker-ab.scope\n")
    assert look(tmp_path).problems == ()

    group = "0::/system.slice/buildkite-agent.service\n"
    record(tmp_path, 32, 1, "vllm", "vllm serve x", group=group)
    assert [each.finding.rule for each in look(tmp_path).problems] == ["doctor/stale-processes"]


def test_another_job_that_runs_now_is_a_note(tmp_path: Path) -> None:
    machine(tmp_path)
    record(tmp_path, 21, 10, "buildkite-agent", "buildkite-agent bootstrap", job="other")
    record(tmp_path, 22, 21, "vllm", "vllm serve x", job="other")

    result = look(tmp_path)

    assert [each.finding.rule for each in result.problems] == ["doctor/other-job"]
    assert result.status is CheckStatus.OK


def test_the_processes_of_this_machine_can_be_read(tmp_path: Path) -> None:
    result = processes.run(check_context(tmp_path))
    # Servers of somebody else may run here, and only those are unknown.
    assert (result.unknown is None) == (result.figures["unknown"] == 0)


def test_a_server_of_another_job_below_an_images_bash_is_left(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "uptime").write_text("10000.0 1.0\n")
    record(tmp_path, 1, 0, "bash", "bash")
    record(tmp_path, os.getpid(), 1, "python", "python -m ci_doctor doctor", job="ours")
    record(tmp_path, 50, 1, "vllm", "vllm serve x", job="earlier")

    result = look(tmp_path)

    assert (result.status, result.unknown) == (CheckStatus.WARNING, None)
    assert [each.finding.rule for each in result.problems] == ["doctor/stale-processes"]


def test_a_server_that_nobody_can_be_named_for_is_unknown_and_shown(tmp_path: Path) -> None:
    machine(tmp_path)
    record(tmp_path, 40, 1, "tmux", "tmux")
    record(tmp_path, 41, 40, "vllm", "vllm serve x")

    result = look(tmp_path)

    assert result.status is CheckStatus.UNKNOWN
    assert "pid 41" in (result.unknown or "")
    assert "vllm serve x" in (result.evidence[0].excerpt or "")
    assert result.figures["unknown"] == 1
