# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.gpu.cuda import CHECK
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log, torch_venv


def checked(
    tmp_path: Path,
    *,
    driver: str | None = "580.65.06",
    torch: str | None = "12.8",
    nvcc: str | None = None,
    **environ: str,
) -> CheckResult:
    """`driver` None: nvidia-smi does not answer, and no file tells its version."""
    if driver is None:
        path = program(tmp_path / "bin", "nvidia-smi", "Unknown Error\n", code=255)
    else:
        path = program(tmp_path / "bin", "nvidia-smi", smi_log(smi_gpu(), driver=driver))
    root = machine(tmp_path / "root", loaded=None)
    (root / "proc" / "driver" / "nvidia").mkdir(parents=True)
    if nvcc is not None:
        record = root / "usr" / "local" / "cuda" / "version.json"
        record.parent.mkdir(parents=True)
        record.write_text(f'{{"cuda_nvcc": {{"version": "{nvcc}"}}}}')
    python = torch_venv(tmp_path / "venv", "2.9.0", torch)
    context = check_context(
        tmp_path, environ={"PATH": str(path), **environ}, root=root, pythons=[python]
    )
    return CHECK.run(context)


def test_one_cuda_everywhere_is_ok(tmp_path: Path) -> None:
    result = checked(tmp_path, nvcc="12.8.93")

    assert (result.status, result.problems) == (CheckStatus.OK, ())
    assert result.summary == "driver 580.65.06, PyTorch for CUDA 12.8, nvcc 12.8.93"


@pytest.mark.parametrize(
    ("driver", "torch", "status"),
    [
        pytest.param("525.60.13", "12.8", CheckStatus.OK, id="least-for-12"),
        pytest.param("520.61.05", "12.1", CheckStatus.ERROR, id="too-old-for-12"),
        pytest.param("575.57.08", "13.0", CheckStatus.ERROR, id="too-old-for-13"),
        pytest.param("590.44.01", "11.8", CheckStatus.OK, id="new-driver-old-cuda"),
        pytest.param("610.57.04", "14.0", CheckStatus.OK, id="a-cuda-that-nobody-knows"),
        pytest.param("470.82.01", None, CheckStatus.OK, id="torch-for-the-cpu"),
    ],
)
def test_a_driver_must_be_new_enough_for_torchs_cuda(
    tmp_path: Path, driver: str, torch: str | None, status: CheckStatus
) -> None:
    assert checked(tmp_path, driver=driver, torch=torch).status is status


def test_an_old_driver_is_named_with_what_is_needed(tmp_path: Path) -> None:
    result = checked(tmp_path, driver="535.129.03", torch="13.0")

    assert result.problems[0].finding.summary == (
        f"PyTorch 2.9.0 of {tmp_path}/venv/bin/python was built for CUDA 13.0, which needs driver "
        "580 or later; this one is 535.129.03"
    )


def test_libraries_for_forward_compatibility_may_make_up_for_an_old_driver(tmp_path: Path) -> None:
    compat = tmp_path / "cuda-13.0" / "compat"
    compat.mkdir(parents=True)
    (compat / "libcuda.so.580.65.06").touch()

    result = checked(
        tmp_path, driver="535.129.03", torch="13.0", LD_LIBRARY_PATH=f"/nowhere:{compat}"
    )

    assert result.problems[0].finding.severity is Severity.NOTE
    assert str(compat) in result.problems[0].finding.summary


def test_nvcc_of_another_major_is_a_warning(tmp_path: Path) -> None:
    other = tmp_path / "root" / "usr" / "local" / "cuda-12.8" / "bin" / "nvcc"
    other.parent.mkdir(parents=True)
    other.touch()

    result = checked(tmp_path, torch="12.8", nvcc="13.0.88")

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.remedy == "export CUDA_HOME=/usr/local/cuda-12.8"


def test_a_driver_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    assert checked(tmp_path, driver=None).status is CheckStatus.UNKNOWN


def test_the_kernels_file_tells_the_version_without_asking_the_driver(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    path = program(tmp_path / "bin", "nvidia-smi", "", before=f"echo > '{asked}'")
    root = machine(tmp_path / "root", loaded="570.86.15")
    python = torch_venv(tmp_path / "venv", "2.9.0", "12.8")

    result = CHECK.run(
        check_context(tmp_path, environ={"PATH": str(path)}, root=root, pythons=[python])
    )

    assert result.summary.startswith("driver 570.86.15, ")
    assert not asked.exists()


def test_a_compiler_that_cannot_be_started_does_not_hide_a_driver_that_is_too_old(
    tmp_path: Path,
) -> None:
    nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("no program\n")

    result = checked(tmp_path, driver="535.129.03", torch="13.0", CUDA_HOME=str(nvcc.parent.parent))

    assert [each.finding.rule for each in result.problems] == ["doctor/gpu-driver-too-old"]
    assert "nvcc cannot be started" in str(result.unknown)


def test_a_toolkit_is_a_remedy_to_paste_only_if_it_is_there(tmp_path: Path) -> None:
    (problem,) = checked(tmp_path, torch="12.8", nvcc="13.0.1").problems

    assert "export" not in str(problem.finding.remedy)
