# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.machine.gpus import CudaToolkit, nvcc_release, read_toolkit
from tests.support.gpus import machine, program
from tests.support.packages import write_script

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
    return read_toolkit({"PATH": "", **environ}, tmp_path, root)


def test_the_toolkit_is_that_of_nvcc_on_path(tmp_path: Path) -> None:
    home = tmp_path / "cuda"
    path = program(home / "bin", "nvcc", NVCC)

    toolkit = read(tmp_path, PATH=str(path))

    assert toolkit == CudaToolkit(home=home, version=None)
    assert toolkit.nvcc.exists()


def test_a_script_in_the_place_of_nvcc_leads_to_the_toolkit_that_it_starts(tmp_path: Path) -> None:
    home = tmp_path / "cuda-13.0"
    program(home / "bin", "nvcc", NVCC)
    (home / "version.txt").write_text("CUDA Version 13.0.2\n")
    script = write_script(tmp_path / "local" / "bin" / "nvcc", f'exec {home}/bin/nvcc "$@"')

    toolkit = read(tmp_path, PATH=str(script.parent))

    assert toolkit == CudaToolkit(home=home, version="13.0.2")


def test_nvcc_names_its_release() -> None:
    assert nvcc_release(NVCC) == "12.8"
    assert nvcc_release("segmentation fault") is None


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("version.json", '{"cuda_nvcc": {"version": "13.0.88"}}', "13.0.88"),
        (
            "version.json",
            '{"cuda": {"version": "13.0.2"}, "cuda_nvcc": {"version": "13.0.88"}}',
            "13.0.2",
        ),
        ("version.json", "[]", None),
        ("version.txt", "CUDA Version 10.2.89\n", "10.2.89"),
        ("include/cuda.h", "#define CUDA_VERSION 12040\n", "12.4"),
    ],
)
def test_a_file_of_the_toolkit_names_its_version(
    tmp_path: Path, name: str, text: str, version: str | None
) -> None:
    toolkit = read(tmp_path, {f"usr/local/cuda/{name}": text})

    assert toolkit is not None
    assert toolkit.version == version


def test_cuda_home_comes_before_path(tmp_path: Path) -> None:
    first = program(tmp_path / "first" / "bin", "nvcc", NVCC.replace("12.8", "11.8"))
    second = program(tmp_path / "second" / "bin", "nvcc", NVCC)

    toolkit = read(tmp_path, PATH=str(second), CUDA_HOME=str(first.parent))

    assert toolkit == CudaToolkit(home=first.parent, version=None)
