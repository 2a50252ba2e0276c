# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.gpu.devices import devices, mig
from ci_doctor.checks.settings import DoctorSettings, WorkloadName
from ci_doctor.services.gpu_demand import GpuEngine, demands_of
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context
from tests.support.gpus import divided_machine, machine, program, smi_gpu, smi_log, torch_venv

VLLM = DoctorSettings(workload="vllm")


def with_gpus(
    tmp_path: Path,
    count: int,
    *,
    settings: DoctorSettings | None = None,
    services: Mapping[str, ServiceSpec] | None = None,
    **environ: str,
) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(*map(smi_gpu, range(count))))
    context = check_context(
        tmp_path,
        environ={"PATH": str(path), **environ},
        settings=settings,
        services=services,
        root=machine(tmp_path / "root"),
    )
    return devices.run(context)


def without_gpu(
    tmp_path: Path,
    files: Mapping[str, str | bytes] | None = None,
    settings: DoctorSettings | None = None,
    pythons: tuple[Path, ...] = (),
) -> CheckResult:
    root = machine(tmp_path / "root", files, loaded=None)
    context = check_context(
        tmp_path, environ={"PATH": ""}, settings=settings, root=root, pythons=pythons
    )
    return devices.run(context)


def test_all_gpus_are_named_once(tmp_path: Path) -> None:
    result = with_gpus(tmp_path, 8)

    assert result.status is CheckStatus.OK
    assert result.summary == "8 × NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0,1,2,3", "names '2', which does not exist: a program sees 2 of 2 GPUs"),
        ("0,0", "names '0' twice, and then CUDA leaves none of 2 GPUs"),
    ],
)
def test_a_variable_that_names_a_missing_gpu_or_one_twice_is_a_warning(
    value: str, words: str, tmp_path: Path
) -> None:
    result = with_gpus(tmp_path, 2, CUDA_VISIBLE_DEVICES=value)

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary == f"CUDA_VISIBLE_DEVICES={value!r} {words}"


def test_gpus_that_are_hidden_on_purpose_are_missing_only_if_the_job_needs_one(
    tmp_path: Path,
) -> None:
    assert with_gpus(tmp_path, 2, CUDA_VISIBLE_DEVICES="").status is CheckStatus.OK

    result = with_gpus(tmp_path, 2, settings=VLLM, CUDA_VISIBLE_DEVICES="")

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.remedy == "unset CUDA_VISIBLE_DEVICES"


def test_a_service_on_more_gpus_than_there_are_is_an_error(tmp_path: Path) -> None:
    services = {"model": ServiceSpec(command="vllm serve m -tp 4")}

    result = with_gpus(tmp_path, 2, services=services)

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.summary == (
        "service `model` is started on 4 GPUs, and sees 2"
    )


@pytest.mark.parametrize("workload", [None, "correctness", "vllm"])
def test_without_a_gpu_only_a_job_that_needs_one_is_not_fit(
    workload: WorkloadName | None, tmp_path: Path
) -> None:
    result = without_gpu(tmp_path, settings=DoctorSettings(workload=workload))

    summaries = [each.finding.summary for each in result.problems]
    assert summaries == ["vllm needs a GPU, and this machine shows none"] * (workload == "vllm")


@pytest.mark.parametrize(
    ("version", "cuda", "status"),
    [("2.9.0+cpu", None, CheckStatus.OK), ("2.9.0+cu128", "12.8", CheckStatus.ERROR)],
)
def test_without_a_gpu_a_torch_for_the_cpu_is_fit_for_vllm(
    version: str, cuda: str | None, status: CheckStatus, tmp_path: Path
) -> None:
    python = torch_venv(tmp_path / "venv", version, cuda)

    assert without_gpu(tmp_path, settings=VLLM, pythons=(python,)).status is status


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (("dev/neuron0",), "an AWS Neuron device"),
        (("dev/nvhost-gpu", "dev/nvgpu/igpu0/power"), "the GPU of a Jetson"),
    ],
)
def test_another_accelerator_is_no_missing_gpu(
    files: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    result = without_gpu(tmp_path, dict.fromkeys(files, ""), VLLM)

    assert (result.status, result.summary) == (CheckStatus.OK, f"no NVIDIA GPU; {name}")


def test_a_driver_that_does_not_answer_makes_it_unknown_and_no_device_is_none(
    tmp_path: Path,
) -> None:
    def seen(files: dict[str, str | bytes]) -> CheckResult:
        root = machine(tmp_path / "root", files)
        return devices.run(check_context(tmp_path, environ={"PATH": ""}, settings=VLLM, root=root))

    # /proc/driver/nvidia is that of the machine, and so is there in each container.
    (problem,) = seen({}).problems
    assert problem.finding.rule == "doctor/gpu-missing"
    files = {"proc/driver/nvidia/gpus/0/information": "Model: NVIDIA L4", "dev/nvidia0": ""}
    result = seen({**files})
    assert result.status is CheckStatus.UNKNOWN
    assert result.summary == "the driver's files list 1 GPU"


DIVIDED = smi_gpu(current_mig="Enabled", pending_mig="Enabled", parts=(9856, 20096))
EMPTY = smi_gpu(current_mig="Enabled", pending_mig="Enabled")


def checked(
    tmp_path: Path, *gpus: str, settings: DoctorSettings | None = None, **environ: str
) -> CheckResult:
    found = divided_machine(tmp_path, *gpus)
    root = machine(tmp_path / "root")
    context = check_context(tmp_path, environ={**found, **environ}, settings=settings, root=root)
    return mig.run(context)


def test_a_job_that_names_its_part_is_ok_and_one_that_does_not_exist_any_more_is_an_error(
    tmp_path: Path,
) -> None:
    result = checked(tmp_path, DIVIDED, CUDA_VISIBLE_DEVICES="MIG-bbbb2222")
    gone = checked(tmp_path, DIVIDED, CUDA_VISIBLE_DEVICES="MIG-cccc3333")

    assert (result.status, result.problems) == (CheckStatus.OK, ())
    assert result.summary == "1 GPU divided into 2 parts"
    (problem,) = gone.problems
    assert gone.status is CheckStatus.ERROR
    assert problem.finding.summary == (
        "CUDA_VISIBLE_DEVICES names MIG-cccc3333, which `nvidia-smi -L` does not list"
    )


def test_a_gpu_without_parts_is_an_error_for_a_job_that_serves(tmp_path: Path) -> None:
    assert checked(tmp_path, EMPTY).status is CheckStatus.WARNING

    result = checked(tmp_path, EMPTY, settings=DoctorSettings(workload="vllm"))

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.remedy == "sudo nvidia-smi -i 0 -mig 0"


def test_a_change_of_the_mode_that_waits_is_a_warning(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(pending_mig="Enabled"))

    assert result.status is CheckStatus.WARNING
    assert "becomes Enabled by a reset" in result.problems[0].finding.summary


SGLANG = "python -m sglang.launch_server"
VLLM_MODULE = "vllm.entrypoints.openai.api_server"
UNDERSCORES = "--tensor_parallel_size=2 -pp=2"


@pytest.mark.parametrize(
    ("command", "engine", "share", "gpus"),
    [
        ("vllm serve m --port {port}", GpuEngine.VLLM, 0.9, 1),
        ("vllm serve m --gpu-memory-utilization 0.8 -tp 2", GpuEngine.VLLM, 0.8, 2),
        (f"vllm serve m --gpu_memory_utilization=0.5 {UNDERSCORES} -dp 2", GpuEngine.VLLM, 0.5, 8),
        (f"/opt/v/bin/python3 -m {VLLM_MODULE} --model m", GpuEngine.VLLM, 0.9, 1),
        ("bash -c 'exec vllm serve m --gpu-memory-utilization 0.4'", GpuEngine.VLLM, 0.4, 1),
        ("bash -euo pipefail -lc 'exec vllm serve m -tp 2'", GpuEngine.VLLM, 0.9, 2),
        (f"{SGLANG} --mem-fraction-static 0.7 --tp-size 4 --dp-size 2", GpuEngine.SGLANG, 0.7, 4),
        (f"{SGLANG} --tp 2", GpuEngine.SGLANG, None, 2),
        # A file of options, a huge number, and no number.
        ("vllm serve m --config c.yaml", GpuEngine.VLLM, None, 1),
        (f"vllm serve m -tp {'9' * 5000}", GpuEngine.VLLM, 0.9, 1),
        ("vllm serve m --gpu-memory-utilization much", GpuEngine.VLLM, 0.9, 1),
    ],
)
def test_a_service_asks_by_its_options(
    command: str, engine: GpuEngine, share: float | None, gpus: int
) -> None:
    (demand,) = demands_of({"model": ServiceSpec(command=command)})

    assert demand.service == "model"
    assert (demand.engine, demand.share, demand.gpus) == (engine, share, gpus)


@pytest.mark.parametrize(
    "command",
    [
        "python -m http.server",
        "vllm bench serve-not",
        "vllm bench serve --model m",
        "python -m sglang.bench_serving",
        "vllm serve m --device cpu",
        "vllm 'serve",
    ],
)
def test_what_is_not_known_to_use_a_gpu_asks_for_nothing(command: str) -> None:
    assert demands_of({"other": ServiceSpec(command=command)}) == ()


@pytest.mark.parametrize(
    ("command", "own", "visible"),
    [
        ("vllm serve m", "1", "1"),
        # The launch fills it in later.
        ("vllm serve m", "{gpu}", None),
        ("env CUDA_VISIBLE_DEVICES=1 vllm serve m", "0", "1"),
        ("bash -c 'CUDA_VISIBLE_DEVICES=1 exec vllm serve m'", "0", "1"),
        ("bash -c 'export CUDA_VISIBLE_DEVICES=1; exec vllm serve m'", "0", "1"),
    ],
)
def test_devices_that_the_command_sets_are_the_services_own(
    command: str, own: str, visible: str | None
) -> None:
    services = {"model": ServiceSpec(command=command, env={"CUDA_VISIBLE_DEVICES": own})}

    assert [demand.visible for demand in demands_of(services)] == [visible]


def test_sglang_may_begin_at_a_later_gpu() -> None:
    command = "python -m sglang.launch_server --base-gpu-id 4 --tp 2"

    (demand,) = demands_of({"model": ServiceSpec(command=command)})

    assert (demand.first, demand.gpus) == (4, 2)
