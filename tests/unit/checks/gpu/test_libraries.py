# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from ci_doctor.checks.gpu.libraries import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from tests.support.checks import check_context
from tests.support.gpus import machine, torch_venv

NCCL = "nvidia/nccl/lib/libnccl.so.2"


def checked(tmp_path: Path, *pythons: Path, **environ: str) -> CheckResult:
    context = check_context(
        tmp_path,
        environ={"PATH": "", **environ},
        pythons=pythons,
        root=machine(tmp_path / "root"),
    )
    return CHECK.run(context)


def site(python: Path) -> Path:
    return python.parent.parent / "lib" / "python3.12" / "site-packages"


def records(python: Path, folder: str, place: str, size: int) -> None:
    line = f"{place},sha256=abc,{size}\nother,,\n"
    (site(python) / folder / "RECORD").write_text(line)


def test_wheels_of_one_major_are_ok(tmp_path: Path) -> None:
    """For CUDA 13 some wheels have no suffix, and those that count otherwise have one."""
    python = torch_venv(
        tmp_path / "venv",
        "2.10.0+cu130",
        "13.0",
        nvidia_cublas="13.0.0.19",
        nvidia_cufft="12.0.0.15",
        nvidia_nccl_cu13="2.27.7",
    )

    result = checked(tmp_path, python)

    assert (result.status, result.summary) == (CheckStatus.OK, "2 wheels with CUDA libraries")


def test_two_majors_in_one_interpreter_are_a_warning_with_the_way_out(tmp_path: Path) -> None:
    python = torch_venv(
        tmp_path / "venv",
        "2.9.0+cu128",
        "12.8",
        nvidia_cublas_cu12="12.8.4.1",
        nvidia_cublas="13.0.0.19",
    )

    result = checked(tmp_path, python)

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

    result = checked(tmp_path, python)

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.summary.endswith(
        "PyTorch was built for 12, and would load that of nvidia-nccl-cu13"
    )

    library.write_bytes(b"x" * 1200)

    assert checked(tmp_path, python).status is CheckStatus.WARNING


def test_two_interpreters_with_one_major_each_are_ok(tmp_path: Path) -> None:
    old = torch_venv(tmp_path / "a", "2.9.0", "12.8", nvidia_nccl_cu12="2.27.3")
    new = torch_venv(tmp_path / "b", "2.10.0", "13.0", nvidia_nccl_cu13="2.27.7")

    assert checked(tmp_path, old, new).status is CheckStatus.OK


def test_another_version_on_the_library_path_is_a_warning(tmp_path: Path) -> None:
    python = torch_venv(tmp_path / "venv", "2.9.0", "12.8", nvidia_cudnn_cu12="9.10.2.21")
    directory = tmp_path / "lib"
    directory.mkdir()
    (directory / "libcudnn.so.9.1.0").touch()
    (directory / "libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")

    result = checked(tmp_path, python, LD_LIBRARY_PATH=f"/nowhere:{directory}")

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary == (
        f"{directory}/libcudnn.so.9 on LD_LIBRARY_PATH is 9.1.0, and nvidia-cudnn-cu12 of {python} "
        "is 9.10.2.21"
    )


@pytest.mark.parametrize("version", ["12.8.4.1", "13.0.0.19"])
def test_the_same_version_and_another_name_on_the_library_path_are_ok(
    tmp_path: Path, version: str
) -> None:
    python = torch_venv(tmp_path / "venv", "2.9.0", "12.8", nvidia_cublas_cu12="12.8.4.1")
    directory = tmp_path / "lib"
    directory.mkdir()
    (directory / f"libcublas.so.{version}").touch()
    (directory / f"libcublas.so.{version[:2]}").symlink_to(f"libcublas.so.{version}")

    assert checked(tmp_path, python, LD_LIBRARY_PATH=str(directory)).status is CheckStatus.OK
