# SPDX-License-Identifier: Apache-2.0
"""Real programs, written as scripts."""

from pathlib import Path

import pytest

from ci_doctor.caches.facts import (
    UnknownFactError,
    compiler_version,
    cuda_home,
    native_answer,
    nvcc_version,
)


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_compiler_is_known_by_all_that_it_says_of_its_version(tmp_path: Path) -> None:
    one = program(tmp_path / "a/g++", "echo 'g++ 12.2.0'; echo built by us")
    other = program(tmp_path / "b/g++", "echo 'g++ 12.2.0'; echo built by them")
    by_path = compiler_version({"PATH": str(one.parent)})

    assert by_path.startswith("g++ 12.2.0, output ")
    assert by_path != compiler_version({"PATH": "", "CXX": str(other)})
    assert by_path == compiler_version({"PATH": str(other.parent), "CXX": f"{one} -std=c++17"})


def test_no_compiler_is_a_fact_and_one_that_fails_is_unknown(tmp_path: Path) -> None:
    assert compiler_version({"PATH": str(tmp_path)}) == "none"
    for body in ("exit 1", "exit 0"):
        broken = program(tmp_path / "g++", body)
        with pytest.raises(UnknownFactError):
            compiler_version({"PATH": str(broken.parent)})


def test_cudas_home_is_named_or_found_by_its_compiler(tmp_path: Path) -> None:
    nvcc = program(tmp_path / "cuda/bin/nvcc", "echo release 13.0")
    home = str(tmp_path / "cuda")

    assert cuda_home({"CUDA_HOME": "/x", "CUDA_PATH": "/y", "PATH": ""}) == "/x"
    assert cuda_home({"CUDA_PATH": "/y", "PATH": ""}) == "/y"
    assert cuda_home({"PATH": str(nvcc.parent)}) == home
    assert nvcc_version({"PATH": "", "CUDA_HOME": home}).startswith("release 13.0, output ")
    assert nvcc_version({"PATH": "", "CUDA_HOME": str(tmp_path)}) == "none"


def test_what_native_stands_for_is_the_compilers_own_answer_without_its_directories(
    tmp_path: Path,
) -> None:
    def answer(folder: str, options: str, place: str = "/usr/lib") -> str:
        for name in ("gcc", "g++"):
            program(tmp_path / folder / name, f"echo ' {place}/cc1 -E -v {options}' >&2")
        return native_answer({"PATH": f"{tmp_path / folder}:/bin"})

    here = answer("a", "-march=znver3 -mavx2")

    assert here == answer("b", "-march=znver3 -mavx2", place="/opt/gcc")
    assert here != answer("c", "-march=x86-64")
    assert native_answer({"PATH": str(tmp_path)}) == "none"
    program(tmp_path / "d" / "gcc", "exit 1")
    with pytest.raises(UnknownFactError):
        native_answer({"PATH": str(tmp_path / "d")})
