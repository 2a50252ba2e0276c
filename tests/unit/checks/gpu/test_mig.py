# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.gpu.mig import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.gpus import divided_machine, machine, smi_gpu

DIVIDED = smi_gpu(current_mig="Enabled", pending_mig="Enabled", parts=(9856, 20096))
EMPTY = smi_gpu(current_mig="Enabled", pending_mig="Enabled")


def checked(
    tmp_path: Path, *gpus: str, settings: DoctorSettings | None = None, **environ: str
) -> CheckResult:
    found = divided_machine(tmp_path, *gpus)
    root = machine(tmp_path / "root")
    context = check_context(tmp_path, environ={**found, **environ}, settings=settings, root=root)
    return CHECK.run(context)


def test_gpus_that_are_whole_are_ok(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(0), smi_gpu(1))

    assert (result.status, result.problems) == (CheckStatus.OK, ())


def test_a_job_that_names_its_part_is_ok_and_sees_the_memory(tmp_path: Path) -> None:
    result = checked(tmp_path, DIVIDED, CUDA_VISIBLE_DEVICES="MIG-bbbb2222")

    assert (result.status, result.problems) == (CheckStatus.OK, ())
    assert result.summary == "1 GPU divided into 2 parts"
    assert "GPU 0 part 1 (GI 8): 21.1 GB free of 21.1 GB" in str(result.evidence[0].excerpt)


def test_a_part_that_does_not_exist_any_more_is_an_error(tmp_path: Path) -> None:
    result = checked(tmp_path, DIVIDED, CUDA_VISIBLE_DEVICES="MIG-cccc3333")

    (problem,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert problem.finding.summary == (
        "CUDA_VISIBLE_DEVICES names MIG-cccc3333, which `nvidia-smi -L` does not list"
    )


def test_a_job_that_names_no_part_gets_the_first_one(tmp_path: Path) -> None:
    result = checked(tmp_path, DIVIDED)

    (problem,) = result.problems
    assert problem.finding.severity is Severity.NOTE


def test_a_gpu_without_parts_is_an_error_for_a_job_that_serves(tmp_path: Path) -> None:
    assert checked(tmp_path, EMPTY).status is CheckStatus.WARNING

    result = checked(tmp_path, EMPTY, settings=DoctorSettings(workload="vllm"))

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.remedy == "sudo nvidia-smi -i 0 -mig 0"


def test_a_change_of_the_mode_that_waits_is_a_warning(tmp_path: Path) -> None:
    result = checked(tmp_path, smi_gpu(pending_mig="Enabled"))

    assert result.status is CheckStatus.WARNING
    assert "becomes Enabled by a reset" in result.problems[0].finding.summary
