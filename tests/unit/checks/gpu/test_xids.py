# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.gpu.xids import CHECK
from ci_doctor.checks.running import run_checks
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log

UP_S = 1_000_000
DAY_S = 86400


def checked(tmp_path: Path, number: int, *, age_s: int, gpu: str | None) -> CheckResult:
    """An Xid of the GPU at 3b:00. `gpu` is what nvidia-smi says; None: it does not answer."""
    text = smi_log(gpu) if gpu is not None else "Unknown Error\n"
    path = program(tmp_path / "bin", "nvidia-smi", text, code=0 if gpu else 15)
    line = f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=4242, name=python3, words of the driver"
    record = f"3,1,{(UP_S - age_s) * 1_000_000},-;{line}\n"
    root = machine(tmp_path / "root", {"dev/kmsg": record})
    return CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))


def severity(result: CheckResult) -> Severity:
    (problem,) = result.problems
    return problem.finding.severity


def test_a_log_without_an_xid_is_ok(tmp_path: Path) -> None:
    root = machine(tmp_path / "root", {"dev/kmsg": "6,1,5,-;usb 1-1: new device\n"})

    result = CHECK.run(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert (result.status, result.summary) == (CheckStatus.OK, "the kernel's log has no Xid")


@pytest.mark.parametrize(
    ("number", "age_s", "expected"),
    [
        pytest.param(48, 60, Severity.ERROR, id="hardware"),
        pytest.param(31, 60, Severity.WARNING, id="application"),
        pytest.param(63, 60, Severity.NOTE, id="nothing-to-do"),
        pytest.param(999, 60, Severity.WARNING, id="unknown-number"),
        pytest.param(48, 11 * DAY_S, Severity.NOTE, id="hardware-eleven-days-ago"),
        pytest.param(31, 2 * DAY_S, Severity.NOTE, id="application-two-days-ago"),
    ],
)
def test_an_xid_weighs_by_its_number_and_its_age(
    tmp_path: Path, number: int, age_s: int, expected: Severity
) -> None:
    gpu = smi_gpu(gpu_recovery_action="N/A")

    assert severity(checked(tmp_path, number, age_s=age_s, gpu=gpu)) is expected


def test_a_fault_is_told_with_its_gpu_meaning_and_words(tmp_path: Path) -> None:
    result = checked(tmp_path, 48, age_s=120, gpu=smi_gpu(gpu_recovery_action="Reset"))

    finding = result.problems[0].finding
    assert finding.summary == (
        "Xid 48 of GPU 0 (NVIDIA H100 80GB HBM3), 2 min 00 s ago: "
        "double bit ECC error: data in GPU memory was lost"
    )
    assert finding.evidence[0].excerpt == (
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, words of the driver"
    )
    assert finding.remedy == "sudo nvidia-smi --gpu-reset -i 0"


def test_a_gpu_that_was_reset_since_is_a_warning(tmp_path: Path) -> None:
    result = checked(tmp_path, 95, age_s=60, gpu=smi_gpu(gpu_recovery_action="None"))

    assert severity(result) is Severity.WARNING


def test_a_fault_of_another_jobs_gpu_is_a_note(tmp_path: Path) -> None:
    """The kernel's log is that of the whole machine."""
    assert severity(checked(tmp_path, 95, age_s=60, gpu=smi_gpu(1))) is Severity.NOTE


def test_a_gpu_that_fell_off_the_bus_is_not_listed_and_not_forgotten(tmp_path: Path) -> None:
    assert severity(checked(tmp_path, 79, age_s=60, gpu=smi_gpu(1))) is Severity.WARNING
    assert severity(checked(tmp_path, 79, age_s=60, gpu=None)) is Severity.ERROR


def test_a_log_that_cannot_be_read_is_unknown_even_if_the_driver_answers(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(smi_gpu()))
    context = check_context(tmp_path, environ={"PATH": str(path)}, root=machine(tmp_path / "root"))

    (finished,) = run_checks([CHECK], context)

    assert finished.result.status is CheckStatus.UNKNOWN


def test_nothing_is_advised_for_a_number_that_is_not_known(tmp_path: Path) -> None:
    (problem,) = checked(tmp_path, 999, age_s=60, gpu=smi_gpu()).problems

    assert "docs.nvidia.com/deploy/xid-errors" in str(problem.finding.remedy)


@pytest.mark.parametrize(
    ("words", "up_s", "expected"),
    [
        ("24007, Fatal, Link 30 sourcetrack timeout error", 100, CheckStatus.WARNING),
        ("24007, Fatal, Link 30 sourcetrack timeout error", 10 * DAY_S, CheckStatus.OK),
        ("12028, Non-fatal, Link 32 egress error", 100, CheckStatus.OK),
    ],
)
def test_a_fatal_error_of_an_nvswitch_is_told(
    tmp_path: Path, words: str, up_s: int, expected: CheckStatus
) -> None:
    record = f"3,1,50000000,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {words}\n"
    files = {"dev/kmsg": record, "proc/uptime": f"{up_s} 1\n"}
    root = machine(tmp_path / "root", files)

    result = CHECK.run(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert result.status is expected
    assert ["SXid 24007" in each.finding.summary for each in result.problems] == [True] * (
        "Fatal" in words
    )


def test_a_machine_that_the_driver_wants_restarted_is_not_to_be_reset(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(smi_gpu()))
    words = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    record = f"3,1,{(UP_S - 60) * 1_000_000},-;NVRM: Xid (PCI:0000:3b:00): {words}\n"
    root = machine(tmp_path / "root", {"dev/kmsg": record})

    (problem,) = CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root)).problems

    assert problem.finding.remedy == "Restart the machine."
