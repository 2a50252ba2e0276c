# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.gpu.cuda_toolkit import CudaToolkit, read_toolkit
from tests.support.checks import check_context
from tests.support.gpus import machine, program

NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Fri_Feb_21_20:23:50_PST_2025
Cuda compilation tools, release 12.8, V12.8.93
Build cuda_12.8.r12.8/compiler.35583870_0
"""


def read(
    tmp_path: Path, files: dict[str, str | bytes] | None = None, **environ: str
) -> CudaToolkit | None:
    root = machine(tmp_path / "root", files)
    return read_toolkit(check_context(tmp_path, environ={"PATH": "", **environ}, root=root))


def test_without_a_toolkit_there_is_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None


def test_nvcc_on_path_is_run_if_no_file_tells_the_version(tmp_path: Path) -> None:
    home = tmp_path / "cuda"
    path = program(home / "bin", "nvcc", NVCC)

    assert read(tmp_path, PATH=str(path)) == CudaToolkit(home=home, version="12.8")


def test_the_toolkits_own_file_is_enough(tmp_path: Path) -> None:
    record = '{"cuda": {"version": "13.0.2"}, "cuda_nvcc": {"version": "13.0.88"}}'
    files: dict[str, str | bytes] = {"usr/local/cuda/version.json": record}

    toolkit = read(tmp_path, files)

    assert toolkit is not None
    assert toolkit.version == "13.0.88"


def test_cuda_home_comes_before_path(tmp_path: Path) -> None:
    first = program(tmp_path / "first" / "bin", "nvcc", NVCC.replace("12.8", "11.8"))
    second = program(tmp_path / "second" / "bin", "nvcc", NVCC)

    toolkit = read(tmp_path, PATH=str(second), CUDA_HOME=str(first.parent))

    assert toolkit == CudaToolkit(home=first.parent, version="11.8")


def test_a_toolkit_without_a_compiler_is_none(tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()

    assert read(tmp_path, CUDA_HOME=str(tmp_path / "cuda")) is None
