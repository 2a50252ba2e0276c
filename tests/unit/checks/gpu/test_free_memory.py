# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.gpu.free_memory import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log, volta

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
    return CHECK.run(context)


def vllm(
    share: float, *, env: dict[str, str] | None = None, needs: list[str] | None = None
) -> ServiceSpec:
    command = f"vllm serve m --gpu-memory-utilization {share}"
    return ServiceSpec(command=command, env=env or {}, needs=needs or [])


def test_an_idle_gpu_has_room_for_vllm(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(), model=vllm(0.95))

    assert result.status is CheckStatus.OK
    assert result.summary == "GPU 0 (NVIDIA H100 80GB HBM3) has 84.9 GB free of 84.9 GB"


def test_vllm_on_a_gpu_with_less_memory_is_an_error_that_names_who_has_it(tmp_path: Path) -> None:
    result = checked(tmp_path, BUSY, model=vllm(0.9))

    (problem,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert problem.finding.summary == (
        "GPU 0 (NVIDIA H100 80GB HBM3) has 31.5 GB free, and `model` takes 76.4 GB"
    )
    assert problem.finding.evidence[0].excerpt == "pid 4242 python3: 52.4 GB"


def test_sglang_takes_less_then_and_is_a_warning(tmp_path: Path) -> None:
    command = "python -m sglang.launch_server --mem-fraction-static 0.8"

    result = checked(tmp_path, BUSY, model=ServiceSpec(command=command))

    assert result.status is CheckStatus.WARNING


def test_a_service_on_another_gpu_has_room(tmp_path: Path) -> None:
    result = checked(tmp_path, BUSY, smi_gpu(1), model=vllm(0.9, env={"CUDA_VISIBLE_DEVICES": "1"}))

    assert result.status is CheckStatus.OK


def test_a_service_on_two_gpus_needs_room_on_both(tmp_path: Path) -> None:
    result = checked(
        tmp_path, smi_gpu(0), smi_gpu(1, free=100), model=ServiceSpec(command="vllm serve m -tp 2")
    )

    (problem,) = result.problems
    assert problem.finding.summary.startswith("GPU 1 ")


def test_services_that_need_each_other_add_up(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(), prefill=vllm(0.6), decode=vllm(0.6, needs=["prefill"]))

    (problem,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert "`prefill` and `decode` take 101.9 GB" in problem.finding.summary


def test_services_that_replace_each_other_do_not_add_up(tmp_path: Path) -> None:
    """Such as the arms of a comparison."""
    result = checked(tmp_path, smi_gpu(), base=vllm(0.8), candidate=vllm(0.8))

    assert result.status is CheckStatus.OK


def test_without_services_the_setting_decides(tmp_path: Path) -> None:
    settings = DoctorSettings(gpu_memory_free=0.8)

    result = checked(tmp_path, BUSY, settings=settings)

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.summary.endswith("[doctor] gpu_memory_free asks for 80 %")
    assert checked(tmp_path, smi_gpu(), settings=settings).status is CheckStatus.OK


def test_without_services_and_setting_vllms_default_is_a_warning(tmp_path: Path) -> None:
    result = checked(tmp_path, BUSY, settings=DoctorSettings(workload="vllm"))

    assert result.status is CheckStatus.WARNING
    assert checked(tmp_path, BUSY).status is CheckStatus.OK


def test_a_hidden_gpu_needs_no_room(tmp_path: Path) -> None:
    settings = DoctorSettings(gpu_memory_free=0.8)

    result = checked(
        tmp_path, BUSY, smi_gpu(1), settings=settings, environ={"CUDA_VISIBLE_DEVICES": "1"}
    )

    assert result.status is CheckStatus.OK


def test_memory_that_the_driver_does_not_report_is_unknown(tmp_path: Path) -> None:
    """Such as that of a GPU that shares the machine's memory."""
    result = checked(tmp_path, smi_gpu(total="N/A", free="N/A", name="NVIDIA GB10"))

    assert result.status is CheckStatus.UNKNOWN
    assert result.unknown == "the driver does not report the free memory of GPU 0 (NVIDIA GB10)"


def test_a_driver_without_an_element_for_reserved_memory_counts_the_total(tmp_path: Path) -> None:
    result = checked(tmp_path, volta(), model=vllm(1.0))

    assert result.status is CheckStatus.OK
