# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.gpu.devices import free_memory, holders
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context
from tests.support.gpus import divided_machine, machine, on_gpu, program, smi_gpu, smi_log, volta

BUSY = smi_gpu(0, free=30000, processes=[(4242, "python3", 50000)])


def checked(
    tmp_path: Path,
    *gpus: str,
    settings: DoctorSettings | None = None,
    environ: dict[str, str] | None = None,
    **services: ServiceSpec,
) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(*gpus))
    context = check_context(
        tmp_path,
        environ={"PATH": str(path), **(environ or {})},
        settings=settings,
        services=services,
        root=machine(tmp_path / "root"),
    )
    return free_memory.run(context)


def vllm(
    share: float, *, env: dict[str, str] | None = None, needs: list[str] | None = None
) -> ServiceSpec:
    command = f"vllm serve m --gpu-memory-utilization {share}"
    return ServiceSpec(command=command, env=env or {}, needs=needs or [])


def test_vllm_on_a_gpu_with_less_memory_is_an_error_that_names_who_has_it(tmp_path: Path) -> None:
    result = checked(tmp_path, BUSY, model=vllm(0.9))

    (problem,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert problem.finding.summary == (
        "GPU 0 (NVIDIA H100 80GB HBM3) has 31.5 GB free, and `model` takes 76.4 GB"
    )
    assert problem.finding.evidence[0].excerpt == "pid 4242 python3: 52.4 GB"


def test_sglang_takes_less_then_and_a_service_on_two_gpus_needs_room_on_both(
    tmp_path: Path,
) -> None:
    sglang = ServiceSpec(command="python -m sglang.launch_server --mem-fraction-static 0.8")
    two = ServiceSpec(command="vllm serve m -tp 2")

    assert checked(tmp_path, BUSY, model=sglang).status is CheckStatus.WARNING
    (problem,) = checked(tmp_path, smi_gpu(0), smi_gpu(1, free=100), model=two).problems
    assert problem.finding.summary.startswith("GPU 1 ")


def test_services_that_need_each_other_add_up_and_the_arms_of_a_comparison_do_not(
    tmp_path: Path,
) -> None:
    result = checked(tmp_path, smi_gpu(), prefill=vllm(0.6), decode=vllm(0.6, needs=["prefill"]))
    arms = checked(tmp_path, smi_gpu(), base=vllm(0.8), candidate=vllm(0.8))

    (problem,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert "`prefill` and `decode` take 101.9 GB" in problem.finding.summary
    assert arms.status is CheckStatus.OK


def test_without_services_the_setting_decides_for_each_visible_gpu(tmp_path: Path) -> None:
    settings = DoctorSettings(gpu_memory_free=0.8)
    hidden = {"CUDA_VISIBLE_DEVICES": "1"}

    result = checked(tmp_path, BUSY, settings=settings)
    default = checked(tmp_path, BUSY, settings=DoctorSettings(workload="vllm"))
    other = checked(tmp_path, BUSY, smi_gpu(1), settings=settings, environ=hidden)

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.summary.endswith("[doctor] gpu_memory_free asks for 80 %")
    # Without a setting it is vLLM's default, and without a workload nothing.
    assert default.status is CheckStatus.WARNING
    assert checked(tmp_path, BUSY).status is CheckStatus.OK
    assert other.status is CheckStatus.OK


def test_memory_that_the_driver_does_not_report_is_unknown(tmp_path: Path) -> None:
    """Such as that of a GPU that shares the machine's memory."""
    result = checked(tmp_path, smi_gpu(total="N/A", free="N/A", name="NVIDIA GB10"))

    assert result.status is CheckStatus.UNKNOWN
    assert result.unknown == "the driver does not report the free memory of GPU 0 (NVIDIA GB10)"


def test_a_driver_without_an_element_for_reserved_memory_counts_the_total(tmp_path: Path) -> None:
    result = checked(tmp_path, volta(), model=vllm(1.0))

    assert result.status is CheckStatus.OK


def checked_of_holders(
    tmp_path: Path, *gpus: str, root: Path | None = None, **environ: str
) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(*gpus))
    context = check_context(
        tmp_path,
        environ={"PATH": str(path), **environ},
        root=root or machine(tmp_path / "root"),
    )
    return holders.run(context)


def test_a_holder_is_named_with_user_command_and_age_and_ones_own_may_be_killed(
    tmp_path: Path,
) -> None:
    root = on_gpu(machine(tmp_path / "root"), 4242)
    user = (root / "proc" / "4242").owner()

    result = checked_of_holders(tmp_path, BUSY, root=root)
    own = checked_of_holders(tmp_path, BUSY, root=root, BUILDKITE_JOB_ID="0199-other")

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary == (
        f"pid 4242 of {user}, 1 min 40 s old: /opt/venv/bin/python3 -m vllm.entrypoints "
        "(Buildkite job 0199-other) holds 52.4 GB of GPU 0 (NVIDIA H100 80GB HBM3)"
    )
    assert problem.finding.remedy == "ask whose it is: `ps -o pid,user,etime,args -p 4242`"
    assert own.problems[0].finding.remedy == "kill 4242"


def test_a_pid_of_the_machine_is_not_taken_for_a_process_of_this_container(tmp_path: Path) -> None:
    """The process that has the pid here has no file of the driver open."""
    root = on_gpu(machine(tmp_path / "root"), 4242, opens_gpu=False)

    result = checked_of_holders(
        tmp_path, smi_gpu(free=30000, processes=[(4242, "VLLM", 50000)]), root=root
    )

    (problem,) = result.problems
    assert problem.finding.summary.startswith("pid 4242 (VLLM), outside of this container ")
    assert not str(problem.finding.remedy).startswith("kill")


def test_a_real_process_without_a_gpu_is_not_a_holder(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as other:
        text = smi_gpu(free=30000, processes=[(other.pid, "python3", 50000)])
        result = checked_of_holders(tmp_path, text, root=Path("/"))
        other.communicate(b"\n")

    assert "(python3), outside of this container" in result.problems[0].finding.summary


def test_a_display_server_and_a_holder_on_a_hidden_gpu_do_not_matter(tmp_path: Path) -> None:
    xorg = checked_of_holders(tmp_path, smi_gpu(processes=[(900, "/usr/lib/xorg/Xorg", 4)]))
    hidden = checked_of_holders(tmp_path, BUSY, smi_gpu(1), CUDA_VISIBLE_DEVICES="1")
    # Some drivers list a process without its memory.
    unlisted = smi_gpu(free=30000, processes=[(900, "Xorg", "N/A")]).replace(">C<", ">G<")
    display = checked_of_holders(tmp_path, unlisted)

    assert [each.status for each in (xorg, hidden, display)] == [CheckStatus.OK] * 3


def test_memory_that_nobody_has_is_held_from_outside_and_no_list_is_unknown(
    tmp_path: Path,
) -> None:
    (problem,) = checked_of_holders(tmp_path, smi_gpu(free=30000)).problems

    assert "held by no process that the driver names here" in problem.finding.summary
    unlisted = checked_of_holders(tmp_path, smi_gpu(processes="N/A"))
    assert unlisted.status is CheckStatus.UNKNOWN


def test_a_holder_counts_where_the_driver_does_not_say_how_much_memory_there_is(
    tmp_path: Path,
) -> None:
    """GPU and CPU of a GB10 share their memory: sizes are N/A, but for those of processes."""
    unified = smi_gpu(total="N/A", free="N/A", processes=[(4242, "VLLM::EngineCore", 69564)])

    root = on_gpu(machine(tmp_path / "root"), 4242)

    (problem,) = checked_of_holders(tmp_path, unified, root=root).problems

    assert "72.9 GB" in problem.finding.summary


def test_a_service_must_fit_into_its_part_and_not_into_the_gpu(tmp_path: Path) -> None:
    environ = divided_machine(tmp_path)
    services = {
        "model": ServiceSpec(
            command="vllm serve m --gpu-memory-utilization 1.0",
            env={"CUDA_VISIBLE_DEVICES": "MIG-aaaa1111"},
        )
    }

    result = free_memory.run(check_context(tmp_path, environ=environ, services=services))

    (problem,) = result.problems
    assert problem.finding.summary == (
        "GPU 0 (NVIDIA H100 80GB HBM3, MIG 1g.10gb) has 10.3 GB free, and `model` takes 10.3 GB"
    )


def test_a_program_that_names_no_part_has_no_memory_of_a_divided_gpu(tmp_path: Path) -> None:
    result = free_memory.run(check_context(tmp_path, environ=divided_machine(tmp_path)))

    assert result.status is CheckStatus.OK
    assert result.summary == "a program sees no GPU, and no part that is named"
