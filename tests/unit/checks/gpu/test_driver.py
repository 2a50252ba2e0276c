# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.driver import driver, driver_answer, gpus_of, memory_errors, modes
from ci_doctor.checks.running import run_checks
from ci_doctor.checks.settings import DoctorSettings, WorkloadName
from ci_doctor.machine.nvidia_smi import parse_mig_list
from tests.support.checks import check_context
from tests.support.gpus import PARTS, machine, program, smi_gpu, smi_log, volta


def context_of(tmp_path: Path, text: str, code: int = 0, **how: str) -> CheckContext:
    """A machine whose nvidia-smi prints `text` and ends with `code`."""
    path = program(tmp_path / "bin", "nvidia-smi", text, code=code, **how)
    root = machine(tmp_path / "root")
    return check_context(tmp_path, environ={"PATH": str(path)}, root=root)


def checked(tmp_path: Path, text: str, code: int = 0, **how: str) -> CheckResult:
    return driver.run(context_of(tmp_path, text, code, **how))


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
        pytest.param("No devices were found", 6, id="no-devices"),
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

    result = driver.run(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert result.status is CheckStatus.UNKNOWN
    assert "NVIDIA_DRIVER_CAPABILITIES=utility,compute" in str(result.unknown)


def test_a_lost_gpu_and_one_to_be_reset_are_errors(tmp_path: Path) -> None:
    lost = smi_gpu(1, compute_mode="GPU is lost")
    result = checked(tmp_path, smi_log(smi_gpu(0), lost, smi_gpu(2, gpu_recovery_action="Reset")))

    (first, second) = (each.finding for each in result.problems)
    assert first.summary == "GPU 1 (00000000:3C:00.0) cannot be reached: GPU is lost"
    assert second.remedy == "sudo nvidia-smi --gpu-reset -i 2"
    assert result.status is CheckStatus.ERROR


def test_a_damaged_inforom_is_a_warning_with_the_words(tmp_path: Path) -> None:
    text = smi_log(smi_gpu()) + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"

    result = checked(tmp_path, text, code=14)

    assert result.status is CheckStatus.WARNING
    assert "infoROM is corrupted" in result.problems[0].finding.summary


BUS = "sys/bus/pci/devices/0000:3b:00.0"
NVIDIA = {f"{BUS}/vendor": "0x10de\n", f"{BUS}/class": "0x030200\n"}
ANOTHER = {f"{BUS}/vendor": "0x8086\n"}


@pytest.mark.parametrize(
    ("bus", "workload", "status"),
    [
        (NVIDIA, None, CheckStatus.ERROR),
        (ANOTHER, None, CheckStatus.UNKNOWN),
        ({}, None, CheckStatus.UNKNOWN),
        ({}, "vllm", CheckStatus.ERROR),
    ],
    ids=["a GPU", "no GPU", "hidden from a container", "hidden, and the job serves"],
)
def test_without_a_driver_the_bus_and_the_job_decide_what_a_failing_nvidia_smi_means(
    tmp_path: Path, bus: dict[str, str], workload: WorkloadName | None, status: CheckStatus
) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "couldn't find libnvidia-ml.so\n", code=12)
    root = machine(tmp_path / "root", {**bus}, loaded=None)
    settings = DoctorSettings(workload=workload)
    context = check_context(tmp_path, environ={"PATH": str(path)}, root=root, settings=settings)

    result = driver.run(context)

    assert result.status is status
    assert (result.problems == ()) is (status is CheckStatus.UNKNOWN)
    assert ("couldn't find libnvidia-ml.so" in str(result.unknown)) is (result.problems == ())


@pytest.mark.parametrize(
    ("text", "before", "words"),
    [
        (smi_log(smi_gpu())[:900], "", ""),
        ("", "", ""),
        ("", "kill -9 $$", ": it was ended by signal 9"),
    ],
    ids=["half a document", "nothing", "killed"],
)
def test_an_answer_that_is_cut_off_without_an_error_is_unknown(
    tmp_path: Path, text: str, before: str, words: str
) -> None:
    """A full disk does this, and a driver that is well cannot help it."""
    result = checked(tmp_path, text, before=before)

    assert result.status is CheckStatus.UNKNOWN
    assert str(result.unknown).startswith(f"nvidia-smi gives no whole answer{words}")


@pytest.mark.parametrize(("others", "code"), [(7, 0), (7, 15), (0, 255)])
def test_a_gpu_that_is_told_of_beside_the_others_or_silences_them_is_lost(
    tmp_path: Path, others: int, code: int
) -> None:
    line = "Unable to determine the device handle for GPU0000:9C:00.0: Unknown Error"
    document = smi_log(*map(smi_gpu, range(others))) if others else ""

    result = checked(tmp_path, f"{line}\n{document}", code)

    (problem,) = result.problems
    assert (problem.finding.rule, result.status) == ("doctor/gpu-lost", CheckStatus.ERROR)
    assert problem.finding.summary == f"nvidia-smi says: {line}"


def checked_of_memory_errors(tmp_path: Path, *gpus: str) -> CheckResult:
    return memory_errors.run(context_of(tmp_path, smi_log(*gpus)))


def test_a_gpu_without_ecc_is_ok_and_counts_that_the_driver_hides_are_unknown(
    tmp_path: Path,
) -> None:
    def gpu(dram: str) -> str:
        return smi_gpu(
            uncorrected=dram, sram_uncorrectable_parity="N/A", sram_uncorrectable_secded="N/A"
        )

    without = gpu("N/A").replace("<current_ecc>Enabled", "<current_ecc>N/A")
    hidden = gpu("Insufficient Permissions")

    result = checked_of_memory_errors(tmp_path, without)

    assert (result.status, result.summary) == (CheckStatus.OK, "no GPU has ECC switched on")
    assert checked_of_memory_errors(tmp_path, hidden).status is CheckStatus.UNKNOWN


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (smi_gpu(uncorrected=1), "1 uncorrected error since the driver's start"),
        (smi_gpu(remapped_row_pending="Yes"), "a repair that waits for a reset"),
        (
            volta(double_bit=2, pending="Yes"),
            "2 uncorrected errors since the driver's start and a repair that waits for a reset",
        ),
    ],
)
def test_errors_and_pending_repairs_are_a_warning(tmp_path: Path, gpu: str, words: str) -> None:
    result = checked_of_memory_errors(tmp_path, gpu)

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary.endswith(f" has {words}")
    assert problem.finding.remedy == "sudo nvidia-smi --gpu-reset -i 0"


@pytest.mark.parametrize("element", ["remapped_row_failure", "sram_threshold_exceeded"])
def test_memory_that_cannot_be_repaired_is_an_error(tmp_path: Path, element: str) -> None:
    gpu = smi_gpu().replace(f"<{element}>No<", f"<{element}>Yes<")

    assert checked_of_memory_errors(tmp_path, gpu).status is CheckStatus.ERROR


def test_a_prohibited_gpu_is_an_error_and_an_exclusive_one_if_somebody_has_it(
    tmp_path: Path,
) -> None:
    def seen(mode: str, *processes: tuple[int, str, int]) -> CheckResult:
        gpu = smi_gpu(compute_mode=mode, processes=processes)
        return modes.run(context_of(tmp_path, smi_log(gpu)))

    prohibited = seen("Prohibited")
    taken = seen("Exclusive_Process", (4242, "python3", 500))

    assert prohibited.status is CheckStatus.ERROR
    assert prohibited.problems[0].finding.remedy == "sudo nvidia-smi -i 0 -c DEFAULT"
    assert seen("Exclusive_Process").status is CheckStatus.OK
    assert taken.problems[0].finding.summary.endswith(
        "is Exclusive_Process, and pid 4242 uses it already"
    )


def test_an_nvidia_smi_of_another_machine_or_half_a_document_says_so(tmp_path: Path) -> None:
    context = context_of(tmp_path, smi_log(smi_gpu())[:600] + "\n", 255)
    assert driver_answer(context).lines == ("its XML is cut off or damaged",)
    (tmp_path / "bin" / "nvidia-smi").write_bytes(b"\x7fELF of another machine")

    answer = driver_answer(context)

    assert answer.exit_code is None
    assert answer.lines == ("`nvidia-smi` cannot be started: Exec format error",)


def test_nvidia_smi_runs_once_for_all_checks(tmp_path: Path) -> None:
    before = f"echo run >> '{tmp_path}/runs'"
    context = context_of(tmp_path, smi_log(smi_gpu()), before=before)

    gpus_of(context)
    gpus_of(context)

    assert (tmp_path / "runs").read_text() == "run\n"


def test_one_that_hangs_makes_the_check_unknown(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "", before="exec sleep 1000")
    environ = {"PATH": f"{path}:/usr/bin:/bin"}
    context = check_context(tmp_path, environ=environ, root=machine(tmp_path / "root"))
    hurried = replace(driver, deadline_s=0.3)

    (finished,) = run_checks([hurried], context)

    assert finished.result.unknown is not None
    assert finished.result.unknown.endswith("`nvidia-smi -q -x` was still running")


def test_parts_have_their_names_in_the_list_only() -> None:
    text = PARTS.replace("GPU 0", "GPU 1")

    parts = parse_mig_list(f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n{text}")

    assert [(part.gpu, part.index, part.profile, part.uuid) for part in parts] == [
        (1, 0, "1g.10gb", "MIG-aaaa1111"),
        (1, 1, "2g.20gb", "MIG-bbbb2222"),
    ]
