# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

from ci_doctor.checks.gpu.holders import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from tests.support.checks import check_context
from tests.support.gpus import machine, on_gpu, program, smi_gpu, smi_log


def checked(tmp_path: Path, *gpus: str, root: Path | None = None, **environ: str) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(*gpus))
    context = check_context(
        tmp_path,
        environ={"PATH": str(path), **environ},
        root=root or machine(tmp_path / "root"),
    )
    return CHECK.run(context)


def test_nobody_on_the_gpus_is_ok(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(0), smi_gpu(1))

    assert result.status is CheckStatus.OK
    assert result.summary == "0 processes on the GPUs"


def test_a_holder_is_named_with_user_command_and_age(tmp_path: Path) -> None:
    root = on_gpu(machine(tmp_path / "root"), 4242)
    user = (root / "proc" / "4242").owner()

    result = checked(tmp_path, smi_gpu(free=30000, processes=[(4242, "python3", 50000)]), root=root)

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary == (
        f"pid 4242 of {user}, 1 min 40 s old: /opt/venv/bin/python3 -m vllm.entrypoints "
        "(Buildkite job 0199-other) holds 52.4 GB of GPU 0 (NVIDIA H100 80GB HBM3)"
    )
    assert problem.finding.remedy == "ask whose it is: `ps -o pid,user,etime,args -p 4242`"


def test_a_holder_of_ones_own_may_be_killed(tmp_path: Path) -> None:
    root = on_gpu(machine(tmp_path / "root"), 4242)
    gpu = smi_gpu(free=30000, processes=[(4242, "python3", 50000)])

    result = checked(tmp_path, gpu, root=root, BUILDKITE_JOB_ID="0199-other")

    assert result.problems[0].finding.remedy == "kill 4242"


def test_a_pid_of_the_machine_is_not_taken_for_a_process_of_this_container(tmp_path: Path) -> None:
    """The process that has the pid here has no file of the driver open."""
    root = on_gpu(machine(tmp_path / "root"), 4242, opens_gpu=False)

    result = checked(tmp_path, smi_gpu(free=30000, processes=[(4242, "VLLM", 50000)]), root=root)

    (problem,) = result.problems
    assert problem.finding.summary.startswith("pid 4242 (VLLM), outside of this container ")
    assert not str(problem.finding.remedy).startswith("kill")


def test_a_real_process_without_a_gpu_is_not_a_holder(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as other:
        text = smi_gpu(free=30000, processes=[(other.pid, "python3", 50000)])
        result = checked(tmp_path, text, root=Path("/"))
        other.communicate(b"\n")

    assert "(python3), outside of this container" in result.problems[0].finding.summary


def test_a_display_server_is_no_problem(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(processes=[(900, "/usr/lib/xorg/Xorg", 4)]))

    assert result.status is CheckStatus.OK


def test_memory_that_nobody_has_is_held_from_outside(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(free=30000))

    (problem,) = result.problems
    assert "held by no process that the driver names here" in problem.finding.summary


def test_a_driver_that_lists_no_processes_makes_it_unknown(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(processes="N/A"))

    assert result.status is CheckStatus.UNKNOWN


def test_a_holder_on_a_hidden_gpu_does_not_matter(tmp_path: Path) -> None:
    busy = smi_gpu(0, free=30000, processes=[(4242, "python3", 50000)])

    result = checked(tmp_path, busy, smi_gpu(1), CUDA_VISIBLE_DEVICES="1")

    assert result.status is CheckStatus.OK


def test_memory_that_a_display_may_have_is_not_told_to_be_anothers(tmp_path: Path) -> None:
    """Some drivers list a process without its memory."""
    result = checked(
        tmp_path, smi_gpu(free=30000, processes=[(900, "Xorg", "N/A")]).replace(">C<", ">G<")
    )

    assert result.status is CheckStatus.OK


def test_a_holder_counts_where_the_driver_does_not_say_how_much_memory_there_is(
    tmp_path: Path,
) -> None:
    """GPU and CPU of a GB10 share their memory: sizes are N/A, but for those of processes."""
    unified = smi_gpu(total="N/A", free="N/A", processes=[(4242, "VLLM::EngineCore", 69564)])

    root = on_gpu(machine(tmp_path / "root"), 4242)

    (problem,) = checked(tmp_path, unified, root=root).problems

    assert "72.9 GB" in problem.finding.summary
