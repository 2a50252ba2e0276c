# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from ci_doctor.checks.gpu.memory_errors import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log, volta


def checked(tmp_path: Path, *gpus: str) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(*gpus))
    root = machine(tmp_path / "root")
    return CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))


def test_no_uncorrected_error_is_ok(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(0), smi_gpu(1))

    assert (result.status, result.summary) == (
        CheckStatus.OK,
        "0 uncorrected errors on 2 GPUs with ECC",
    )


def test_a_gpu_without_ecc_is_ok_and_not_unknown(tmp_path: Path) -> None:
    gpu = smi_gpu(
        uncorrected="N/A", sram_uncorrectable_parity="N/A", sram_uncorrectable_secded="N/A"
    )
    result = checked(tmp_path, gpu.replace("<current_ecc>Enabled", "<current_ecc>N/A"))

    assert (result.status, result.summary) == (CheckStatus.OK, "no GPU has ECC switched on")


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
    result = checked(tmp_path, gpu)

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary.endswith(f" has {words}")
    assert problem.finding.remedy == "sudo nvidia-smi --gpu-reset -i 0"


@pytest.mark.parametrize("element", ["remapped_row_failure", "sram_threshold_exceeded"])
def test_memory_that_cannot_be_repaired_is_an_error(tmp_path: Path, element: str) -> None:
    gpu = smi_gpu().replace(f"<{element}>No<", f"<{element}>Yes<")

    assert checked(tmp_path, gpu).status is CheckStatus.ERROR


def test_counts_that_the_driver_hides_are_unknown(tmp_path: Path) -> None:
    gpu = smi_gpu(
        uncorrected="Insufficient Permissions",
        sram_uncorrectable_parity="N/A",
        sram_uncorrectable_secded="N/A",
    )

    assert checked(tmp_path, gpu).status is CheckStatus.UNKNOWN
