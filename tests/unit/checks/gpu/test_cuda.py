# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus, UndeterminedError
from ci_doctor.checks.gpu.cuda import cuda, libraries, torch_builds
from ci_doctor.model.outcome import Severity
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log, torch_venv, venv
from tests.support.packages import write_script


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
    return cuda.run(context)


def test_one_cuda_everywhere_is_ok(tmp_path: Path) -> None:
    result = checked(tmp_path, nvcc="12.8.93")

    assert (result.status, result.problems) == (CheckStatus.OK, ())
    assert result.summary == "driver 580.65.06, PyTorch for CUDA 12.8, nvcc 12.8.93"


@pytest.mark.parametrize(
    ("driver", "torch", "needed"),
    [
        pytest.param("525.60.13", "12.8", None, id="least-for-12"),
        pytest.param("520.61.05", "12.1", "525", id="too-old-for-12"),
        pytest.param("575.57.08", "13.0", "580", id="too-old-for-13"),
        pytest.param("590.44.01", "11.8", None, id="new-driver-old-cuda"),
        pytest.param("610.57.04", "14.0", None, id="a-cuda-that-nobody-knows"),
        pytest.param("470.82.01", None, None, id="torch-for-the-cpu"),
    ],
)
def test_a_driver_must_be_new_enough_for_torchs_cuda(
    tmp_path: Path, driver: str, torch: str | None, needed: str | None
) -> None:
    result = checked(tmp_path, driver=driver, torch=torch)

    assert result.status is (CheckStatus.ERROR if needed else CheckStatus.OK)
    words = (
        f"PyTorch 2.9.0 of {tmp_path}/venv/bin/python was built for CUDA {torch}, which needs "
        f"driver {needed} or later; this one is {driver}"
    )
    assert [each.finding.summary for each in result.problems] == [words] * bool(needed)


def test_a_driver_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    assert checked(tmp_path, driver=None).status is CheckStatus.UNKNOWN


def test_libraries_for_forward_compatibility_may_make_up_for_an_old_driver(tmp_path: Path) -> None:
    compat = tmp_path / "cuda-13.0" / "compat"
    compat.mkdir(parents=True)
    (compat / "libcuda.so.580.65.06").touch()

    result = checked(
        tmp_path, driver="535.129.03", torch="13.0", LD_LIBRARY_PATH=f"/nowhere:{compat}"
    )

    assert result.problems[0].finding.severity is Severity.NOTE
    assert str(compat) in result.problems[0].finding.summary


@pytest.mark.parametrize("is_there", [True, False])
def test_nvcc_of_another_major_is_a_warning_with_the_toolkit_that_is_there(
    tmp_path: Path, *, is_there: bool
) -> None:
    other = tmp_path / "root" / "usr" / "local" / "cuda-12.8" / "bin" / "nvcc"
    if is_there:
        other.parent.mkdir(parents=True)
        other.touch()

    result = checked(tmp_path, torch="12.8", nvcc="13.0.88")

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    export = "export CUDA_HOME=/usr/local/cuda-12.8"
    assert (problem.finding.remedy == export) is is_there
    assert ("export" in str(problem.finding.remedy)) is is_there


def test_the_kernels_file_tells_the_version_without_asking_the_driver(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    path = program(tmp_path / "bin", "nvidia-smi", "", before=f"echo > '{asked}'")
    root = machine(tmp_path / "root", loaded="570.86.15")
    python = torch_venv(tmp_path / "venv", "2.9.0", "12.8")

    result = cuda.run(
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


NCCL = "nvidia/nccl/lib/libnccl.so.2"


def checked_of_libraries(tmp_path: Path, *pythons: Path, **environ: str) -> CheckResult:
    context = check_context(
        tmp_path,
        environ={"PATH": "", **environ},
        pythons=pythons,
        root=machine(tmp_path / "root"),
    )
    return libraries.run(context)


def site(python: Path) -> Path:
    return python.parent.parent / "lib" / "python3.12" / "site-packages"


def records(python: Path, folder: str, place: str, size: int) -> None:
    line = f"{place},sha256=abc,{size}\nother,,\n"
    (site(python) / folder / "RECORD").write_text(line)


def test_two_majors_in_one_interpreter_are_a_warning_with_the_way_out(tmp_path: Path) -> None:
    python = torch_venv(
        tmp_path / "venv",
        "2.9.0+cu128",
        "12.8",
        nvidia_cublas_cu12="12.8.4.1",
        nvidia_cublas="13.0.0.19",
    )

    result = checked_of_libraries(tmp_path, python)

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary == f"{python} has libraries for CUDA 12 and 13"
    assert problem.finding.remedy == (
        f"{python} -m pip uninstall -y nvidia-cublas\n"
        f"{python} -m pip install --force-reinstall --no-deps nvidia-cublas-cu12==12.8.4.1"
    )


def test_the_wrong_majors_file_at_a_place_of_both_is_an_error(tmp_path: Path) -> None:
    """Both wheels of NCCL install one file, and the last one installed is there."""
    python = torch_venv(
        tmp_path / "venv",
        "2.9.0+cu128",
        "12.8",
        nvidia_nccl_cu12="2.27.3",
        nvidia_nccl_cu13="2.27.7",
    )
    records(python, "nvidia_nccl_cu12-2.27.3.dist-info", NCCL, 1200)
    records(python, "nvidia_nccl_cu13-2.27.7.dist-info", NCCL, 1300)
    library = site(python) / NCCL
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x" * 1300)

    result = checked_of_libraries(tmp_path, python)

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.summary.endswith(
        "PyTorch was built for 12, and would load that of nvidia-nccl-cu13"
    )

    library.write_bytes(b"x" * 1200)

    assert checked_of_libraries(tmp_path, python).status is CheckStatus.WARNING


@pytest.mark.parametrize("version", ["12.1.0", "12.8.4.1", "13.0.0.19"])
def test_another_version_of_the_same_name_on_the_library_path_is_a_warning(
    tmp_path: Path, version: str
) -> None:
    python = torch_venv(tmp_path / "venv", "2.9.0", "12.8", nvidia_cublas_cu12="12.8.4.1")
    directory = tmp_path / "lib"
    directory.mkdir()
    (directory / f"libcublas.so.{version}").touch()
    (directory / f"libcublas.so.{version[:2]}").symlink_to(f"libcublas.so.{version}")

    result = checked_of_libraries(tmp_path, python, LD_LIBRARY_PATH=f"/nowhere:{directory}")

    words = (
        f"{directory}/libcublas.so.12 on LD_LIBRARY_PATH is 12.1.0, and nvidia-cublas-cu12 of "
        f"{python} is 12.8.4.1"
    )
    assert [each.finding.summary for each in result.problems] == [words] * (version == "12.1.0")


def test_each_interpreter_of_the_job_is_looked_at_and_none_is_run(tmp_path: Path) -> None:
    pythons = [
        torch_venv(tmp_path / "a", "2.9.0+cu128", "12.8"),
        torch_venv(tmp_path / "b", "2.10.0+cu130", "13.0"),
        venv(tmp_path / "c", {"numpy": "2.0.0"}),
    ]

    builds = torch_builds(check_context(tmp_path, environ={}, pythons=pythons))

    assert [(build.python, build.cuda) for build in builds] == [
        (pythons[0], "12.8"),
        (pythons[1], "13.0"),
    ]


def test_a_script_by_the_name_of_python_is_started_to_find_its_packages(tmp_path: Path) -> None:
    """As pyenv's are."""
    torch_venv(tmp_path / "venv", "2.9.0+cu128", "12.8")
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    text = f'export PYTHONPATH={site}\nreal={sys.executable}\nexec "$real" -S "$@"'
    python = write_script(tmp_path / "shims" / "python3", text)

    (build,) = torch_builds(check_context(tmp_path, pythons=[python]))

    assert build.cuda == "12.8"
    write_script(python, "exit 1")
    with pytest.raises(UndeterminedError):
        torch_builds(check_context(tmp_path, pythons=[python]))
