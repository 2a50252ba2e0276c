# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.drift.cuda_toolkit import cuda_toolkit


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}', "12.8.1"),
        ("version.txt", "CUDA Version 10.2.89\n", "10.2.89"),
        ("include/cuda.h", "#define CUDA_VERSION 13010\n", "13.1"),
    ],
)
def test_the_toolkits_files_name_its_version(
    tmp_path: Path, name: str, text: str, version: str
) -> None:
    path = tmp_path / "usr/local/cuda" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)

    assert cuda_toolkit({}, tmp_path).facts == {"cuda.toolkit": version}


def test_the_variable_comes_first(tmp_path: Path) -> None:
    for place, number in (("usr/local/cuda", "12000"), ("opt/cuda", "13000")):
        (tmp_path / place / "include").mkdir(parents=True)
        (tmp_path / place / "include/cuda.h").write_text(f"#define CUDA_VERSION {number}\n")

    toolkit = cuda_toolkit({"CUDA_HOME": str(tmp_path / "opt/cuda")}, tmp_path)

    assert toolkit.facts == {"cuda.toolkit": "13.0"}


@pytest.mark.parametrize("text", ["{", "[]", '{"cuda": 1}'])
def test_a_toolkit_that_does_not_name_its_version_is_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / "usr/local/cuda").mkdir(parents=True)
    (tmp_path / "usr/local/cuda/version.json").write_text(text)

    assert "cuda.toolkit" in cuda_toolkit({}, tmp_path).unknown


def test_without_a_toolkit_there_is_none(tmp_path: Path) -> None:
    assert cuda_toolkit({}, tmp_path).facts == {"cuda.toolkit": "none"}
