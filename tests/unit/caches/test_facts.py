# SPDX-License-Identifier: Apache-2.0
"""Real programs, written as scripts."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.caches.facts import (
    GpuFacts,
    UnknownFactError,
    UnknownIsaError,
    compiler_version,
    cuda_home,
    native_answer,
    nvcc_version,
    vector_isa,
)
from ci_doctor.machine.gpus import GpuView
from ci_doctor.machine.nvidia_smi import Gpu

H100 = Gpu(index=0, bus_id="", name="NVIDIA H100 PCIe", uuid="GPU-1", capability="9.0")
A100 = Gpu(index=1, bus_id="", name="NVIDIA A100", uuid="GPU-2", capability=None)
SLICE = Gpu(
    index=0, bus_id="", name="NVIDIA H100 PCIe, MIG 1g.10gb", uuid="MIG-1", capability="9.0"
)
BOTH = GpuView(gpus=(H100, A100), chosen=None, parts=(SLICE,), driver="580.65.06")


def test_no_gpu_is_a_fact() -> None:
    gpus = GpuFacts(None)

    assert (gpus.names(), gpus.capability(), gpus.driver()) == ("none", "none", "none")


def test_different_models_are_all_named() -> None:
    assert GpuFacts(BOTH).names() == "NVIDIA A100, NVIDIA H100 PCIe"
    assert GpuFacts(BOTH).driver() == "580.65.06"


def test_what_nothing_reports_is_unknown() -> None:
    with pytest.raises(UnknownFactError, match="capability"):
        GpuFacts(BOTH).capability()
    with pytest.raises(UnknownFactError, match="driver"):
        GpuFacts(replace(BOTH, driver=None)).driver()


def test_the_gpus_that_the_job_does_not_see_do_not_count() -> None:
    assert GpuFacts(replace(BOTH, chosen="0")).capability() == "9.0"


def test_a_slice_is_itself_and_not_the_gpu_that_it_is_of() -> None:
    assert GpuFacts(replace(BOTH, chosen="MIG-1")).names() == "NVIDIA H100 PCIe, MIG 1g.10gb"
    with pytest.raises(UnknownFactError, match="MIG-9"):
        GpuFacts(replace(BOTH, chosen="MIG-9")).names()


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


AVX2 = ("avx2", "fma")
AVX512 = (*AVX2, "avx512f", "avx512vl", "avx512bw", "avx512dq")
SAPPHIRE_RAPIDS = (*AVX512, "avx512_vnni", "avx512_bf16", "amx_tile")


# Compared with torch 2.13.0's own pick_vec_isa, on a CPU with AMX, for each ATEN_CPU_CAPABILITY.
@pytest.mark.parametrize(
    ("flags", "capability", "isa"),
    [
        (SAPPHIRE_RAPIDS, None, "avx512 avx512_vnni amx_tile +avx512_bf16"),
        (SAPPHIRE_RAPIDS, "avx512", "avx512 avx512_vnni amx_tile +avx512_bf16"),
        (SAPPHIRE_RAPIDS, "nonsense", "avx512 avx512_vnni amx_tile +avx512_bf16"),
        (SAPPHIRE_RAPIDS, "avx2", "avx2"),
        (SAPPHIRE_RAPIDS, "default", "none"),
        (
            (*SAPPHIRE_RAPIDS, "amx_fp16"),
            None,
            "avx512 avx512_vnni amx_tile +avx512_bf16 +amx_fp16",
        ),
        ((*AVX512, "avx512_vnni"), None, "avx512 avx512_vnni"),
        ((*AVX512, "amx_tile"), None, "avx512"),
        (AVX2, "avx512", "avx2"),
        (("avx2",), None, "none"),
        (("sse4_2",), None, "none"),
    ],
)
def test_the_instructions_are_those_that_torch_chooses(
    flags: tuple[str, ...], capability: str | None, isa: str
) -> None:
    assert vector_isa("x86_64", flags, capability) == isa


def test_an_arm_with_sve_needs_the_length_of_its_registers() -> None:
    assert vector_isa("aarch64", ["asimd"], None) == "asimd"
    assert vector_isa("aarch64", ["sve", "sve2", "bf16"], None, 16) == "sve 128 bits +sve2"
    with pytest.raises(UnknownIsaError, match="length"):
        vector_isa("aarch64", ["sve", "bf16"], None)


@pytest.mark.parametrize(("machine", "flags"), [("x86_64", []), ("riscv64", ["v"])])
def test_what_is_uncertain_is_not_guessed(machine: str, flags: list[str]) -> None:
    with pytest.raises(UnknownIsaError):
        vector_isa(machine, flags, None)
