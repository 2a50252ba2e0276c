# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.gpu.loaded_libraries import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from tests.support.checks import check_context
from tests.support.gpus import machine, on_gpu, program, smi_gpu, smi_log


def checked(tmp_path: Path, gpu: str, root: Path) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(gpu))
    return CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))


def test_a_process_that_has_loaded_a_library_from_two_places_is_a_warning(tmp_path: Path) -> None:
    maps = "".join(
        f"7f00{number}000-7f00{number}fff r-xp 00000000 08:01 {number} {path}\n"
        for number, path in enumerate(
            [
                "/opt/venv/nvidia/nccl/lib/libnccl.so.2",
                "/opt/venv/nvidia/nccl/lib/libnccl.so.2",
                "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5",
                "/opt/venv/nvidia/cublas/lib/libcublas.so.12",
                "/opt/venv/nvidia/cublas/lib/libcublasLt.so.12",
            ]
        )
    )
    pid = 4242
    root = on_gpu(machine(tmp_path / "root"), pid, maps=maps)
    gpu = smi_gpu(processes=[(pid, "python3", 500)])

    result = checked(tmp_path, gpu, root)

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary == (
        f"pid {pid} has loaded libnccl from /opt/venv/nvidia/nccl/lib/libnccl.so.2 and "
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5"
    )


def test_a_process_outside_of_this_container_is_not_looked_into(tmp_path: Path) -> None:
    gpu = smi_gpu(processes=[(999_999_999, "python3", 500)])

    result = checked(tmp_path, gpu, on_gpu(machine(tmp_path / "root"), 4242))

    assert (result.status, result.problems) == (CheckStatus.OK, ())


def test_a_process_of_another_user_is_unknown(tmp_path: Path) -> None:
    root = on_gpu(machine(tmp_path / "root"), 4242)
    maps = root / "proc" / "4242" / "maps"
    maps.unlink()
    maps.mkdir()  # cannot be read as a file, whoever the user is

    result = checked(tmp_path, smi_gpu(processes=[(4242, "python3", 500)]), root)

    assert result.unknown == "1 of 1 processes on the GPUs may not be looked into"
