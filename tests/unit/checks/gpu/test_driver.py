# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.gpu.driver import CHECK
from ci_doctor.checks.settings import DoctorSettings
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log


def checked(tmp_path: Path, text: str, code: int = 0) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", text, code=code)
    root = machine(tmp_path / "root")
    return CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))


def test_a_driver_that_answers_is_ok(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_log(*map(smi_gpu, range(8))))

    assert result.status is CheckStatus.OK
    assert result.summary == "driver 580.65.06 answers for 8 GPUs"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure"
            " that the latest NVIDIA driver is installed and running.",
            9,
            id="no-driver",
        ),
        pytest.param(
            "Failed to initialize NVML: Driver/library version mismatch", 18, id="versions"
        ),
        pytest.param("No devices were found", 6, id="no-devices"),
        pytest.param(
            "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error",
            15,
            id="lost",
        ),
    ],
)
def test_an_error_of_nvidia_smi_is_an_error_with_its_words(
    tmp_path: Path, text: str, code: int
) -> None:
    result = checked(tmp_path, text + "\n", code)

    assert result.status is CheckStatus.ERROR
    assert result.summary == f"nvidia-smi says: {text.rstrip('.')}"


def test_a_container_without_nvidia_smi_makes_it_unknown(tmp_path: Path) -> None:
    root = machine(tmp_path / "root")

    result = CHECK.run(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert result.status is CheckStatus.UNKNOWN
    assert "NVIDIA_DRIVER_CAPABILITIES=utility,compute" in str(result.unknown)


def test_a_lost_gpu_is_an_error_that_names_its_address(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_log(smi_gpu(0), smi_gpu(1, compute_mode="GPU is lost")))

    (problem,) = result.problems
    assert problem.finding.summary == "GPU 1 (00000000:3C:00.0) cannot be reached: GPU is lost"
    assert result.status is CheckStatus.ERROR


def test_a_gpu_to_be_reset_is_an_error_with_the_command(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_log(smi_gpu(0), smi_gpu(1, gpu_recovery_action="Reset")))

    (problem,) = result.problems
    assert problem.finding.remedy == "sudo nvidia-smi --gpu-reset -i 1"
    assert result.status is CheckStatus.ERROR


def test_a_damaged_inforom_is_a_warning_with_the_words(tmp_path: Path) -> None:
    text = smi_log(smi_gpu()) + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"

    result = checked(tmp_path, text, code=14)

    assert result.status is CheckStatus.WARNING
    assert "infoROM is corrupted" in result.problems[0].finding.summary


def test_nvidia_smi_on_a_machine_without_a_gpu_is_no_fault(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "couldn't find libnvidia-ml.so\n", code=12)
    bus = {"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n"}
    root = machine(tmp_path / "root", bus, loaded=None)

    result = CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))

    assert result.status is CheckStatus.OK


def test_a_gpu_on_the_bus_without_a_driver_is_an_error(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "couldn't communicate\n", code=9)
    bus = {
        "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:3b:00.0/class": "0x030200\n",
    }
    root = machine(tmp_path / "root", bus, loaded=None)

    result = CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))

    assert result.status is CheckStatus.ERROR


def test_in_a_container_that_hides_the_bus_a_failure_is_unknown_unless_the_job_serves(
    tmp_path: Path,
) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "couldn't communicate\n", code=9)
    root = machine(tmp_path / "root", loaded=None)
    environ = {"PATH": str(path)}
    serves = DoctorSettings(workload="vllm")

    result = CHECK.run(check_context(tmp_path, environ=environ, root=root))
    needed = CHECK.run(check_context(tmp_path, environ=environ, root=root, settings=serves))

    assert result.status is CheckStatus.UNKNOWN
    assert needed.status is CheckStatus.ERROR


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(smi_log(smi_gpu())[:900], 0, id="half-a-document"),
        pytest.param("", 0, id="nothing"),
    ],
)
def test_an_answer_that_is_cut_off_without_an_error_is_unknown(
    tmp_path: Path, text: str, code: int
) -> None:
    """A full disk does this, and a driver that is well cannot help it."""
    result = checked(tmp_path, text, code)

    assert result.status is CheckStatus.UNKNOWN
    assert "no whole answer" in str(result.unknown)


def test_an_nvidia_smi_that_was_killed_says_nothing_of_the_driver(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "", before="kill -9 $$")
    root = machine(tmp_path / "root")

    result = CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))

    assert result.unknown == "nvidia-smi gives no whole answer: it was ended by signal 9"


@pytest.mark.parametrize("code", [0, 15])
def test_a_gpu_that_is_told_of_beside_the_others_is_lost(tmp_path: Path, code: int) -> None:
    line = "Unable to determine the device handle for GPU0000:9C:00.0: Unknown Error"

    result = checked(tmp_path, f"{line}\n{smi_log(*map(smi_gpu, range(7)))}", code)

    (problem,) = result.problems
    assert (problem.finding.rule, result.status) == ("doctor/gpu-lost", CheckStatus.ERROR)
    assert problem.finding.summary == f"nvidia-smi says: {line}"


def test_a_lost_gpu_that_silences_the_others_is_no_mismatch_of_versions(tmp_path: Path) -> None:
    line = "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error"

    (problem,) = checked(tmp_path, f"{line}\n", 255).problems

    assert problem.finding.rule == "doctor/gpu-lost"
