"""Servers of earlier jobs, in a recorded /proc."""

import os
from pathlib import Path

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.leftovers.processes import CHECK
from tests.support.checks import check_context


def record(
    root: Path, pid: int, parent: int, name: str, line: str, *, job: str = "", group: str = "0::/\n"
) -> Path:
    """A process of /proc below `root`."""
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    fields = [str(parent), str(pid), str(pid), *["0"] * 13, "1", "0", "100"]
    (folder / "stat").write_text(f"{pid} ({name}) S {' '.join(fields)} 0 0\n")
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
    return CHECK.run(check_context(root, root=root, environ=environ))


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


def test_a_service_of_the_machine_is_left_in_peace(tmp_path: Path) -> None:
    machine(tmp_path)
    record(tmp_path, 30, 1, "vllm", "vllm serve x", group="0::/system.slice/llm.service\n")
    record(tmp_path, 31, 1, "vllm", "vllm serve x", group="0::/system.slice/docker-ab.scope\n")

    assert look(tmp_path).problems == ()


def test_what_is_left_in_the_agents_own_service_is_found(tmp_path: Path) -> None:
    machine(tmp_path)
    group = "0::/system.slice/buildkite-agent.service\n"
    record(tmp_path, 30, 1, "vllm", "vllm serve x", group=group)

    assert [each.finding.rule for each in look(tmp_path).problems] == ["doctor/stale-processes"]


def test_another_job_that_runs_now_is_a_note(tmp_path: Path) -> None:
    machine(tmp_path)
    record(tmp_path, 21, 10, "buildkite-agent", "buildkite-agent bootstrap", job="other")
    record(tmp_path, 22, 21, "vllm", "vllm serve x", job="other")

    result = look(tmp_path)

    assert [each.finding.rule for each in result.problems] == ["doctor/other-job"]
    assert result.status is CheckStatus.OK


def test_the_processes_of_this_machine_can_be_read(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path))
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
