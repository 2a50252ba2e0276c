# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.gpu.modes import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log


def checked(tmp_path: Path, *gpus: str) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(*gpus))
    root = machine(tmp_path / "root")
    return CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))


def test_persistence_that_is_off_is_one_note_for_all_gpus(tmp_path: Path) -> None:
    off = [smi_gpu(index, persistence_mode="Disabled") for index in (0, 1)]

    result = checked(tmp_path, *off)

    (problem,) = result.problems
    assert result.status is CheckStatus.OK
    assert problem.finding.severity is Severity.NOTE
    assert problem.finding.summary == "persistence mode is off for GPU 0, 1"


def test_a_prohibited_gpu_is_an_error(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(compute_mode="Prohibited"))

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.remedy == "sudo nvidia-smi -i 0 -c DEFAULT"


def test_an_exclusive_gpu_is_an_error_only_if_somebody_has_it(tmp_path: Path) -> None:
    free = smi_gpu(compute_mode="Exclusive_Process")
    taken = smi_gpu(compute_mode="Exclusive_Process", processes=[(4242, "python3", 500)])

    assert checked(tmp_path, free).status is CheckStatus.OK
    assert (
        checked(tmp_path, taken)
        .problems[0]
        .finding.summary.endswith("is Exclusive_Process, and pid 4242 uses it already")
    )
