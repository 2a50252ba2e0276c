# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from ci_doctor.checks.gpu.nvidia_smi import ask_driver, gpus_of, parse_mig_parts
from msgspec.structs import replace

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu import driver
from ci_doctor.checks.running import run_checks
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log


def context_of(tmp_path: Path, path: Path) -> CheckContext:
    return check_context(tmp_path, environ={"PATH": str(path)}, root=machine(tmp_path / "root"))


def test_without_nvidia_smi_the_driver_cannot_be_asked(tmp_path: Path) -> None:
    answer = ask_driver(context_of(tmp_path, tmp_path / "nowhere"))

    assert answer.log is None
    assert answer.exit_code is None
    assert answer.lines == ("`nvidia-smi` is not on PATH",)


def test_an_nvidia_smi_of_another_machine_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "nvidia-smi").chmod(0o755)

    answer = ask_driver(context_of(tmp_path, tmp_path))

    assert answer.exit_code is None
    assert answer.lines == ("`nvidia-smi` cannot be started: Exec format error",)


def test_an_error_is_its_first_line(tmp_path: Path) -> None:
    text = (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.65\n"
    )
    context = context_of(tmp_path, program(tmp_path / "bin", "nvidia-smi", text, code=18))

    with pytest.raises(UndeterminedError) as caught:
        gpus_of(context)

    assert str(caught.value) == (
        "nvidia-smi has no answer: Failed to initialize NVML: Driver/library version mismatch"
    )


def test_a_document_that_is_cut_off_is_told_as_such(tmp_path: Path) -> None:
    text = smi_log(smi_gpu())[:600] + "\n"
    context = context_of(tmp_path, program(tmp_path / "bin", "nvidia-smi", text, code=255))

    assert ask_driver(context).lines == ("its XML is cut off or damaged",)


def test_nvidia_smi_runs_once_for_all_checks(tmp_path: Path) -> None:
    path = program(
        tmp_path / "bin", "nvidia-smi", smi_log(smi_gpu()), before=f"echo run >> '{tmp_path}/runs'"
    )
    context = context_of(tmp_path, path)

    gpus_of(context)
    gpus_of(context)

    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_gpu_that_cannot_be_reached_is_left_out(tmp_path: Path) -> None:
    text = smi_log(smi_gpu(0), smi_gpu(1, compute_mode="GPU is lost"))
    context = context_of(tmp_path, program(tmp_path / "bin", "nvidia-smi", text))

    assert [gpu.index for gpu in gpus_of(context)] == [0]


def test_an_image_with_nvidia_smi_on_a_machine_without_a_gpu_has_no_gpus(tmp_path: Path) -> None:
    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    path = program(tmp_path / "bin", "nvidia-smi", text, code=9)
    bus = {"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n"}
    root = machine(tmp_path / "root", bus, loaded=None)
    context = check_context(tmp_path, environ={"PATH": str(path)}, root=root)

    assert gpus_of(context) == ()
    assert context.shared(ask_driver).is_idle


def test_one_that_hangs_makes_the_check_unknown(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "", before="exec sleep 1000")
    environ = {"PATH": f"{path}:/usr/bin:/bin"}
    context = check_context(tmp_path, environ=environ, root=machine(tmp_path / "root"))
    hurried = replace(driver.CHECK, deadline_s=0.3)

    (finished,) = run_checks([hurried], context)

    assert finished.result.unknown is not None
    assert finished.result.unknown.endswith("`nvidia-smi -q -x` was still running")


def test_parts_have_their_names_in_the_list_only() -> None:
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-aaaa)\n"
        "  MIG 3g.40gb     Device  1: (UUID: MIG-bbbb)\n"
    )

    parts = parse_mig_parts(text)

    assert [(part.gpu, part.index, part.profile, part.uuid) for part in parts] == [
        (1, 0, "1g.10gb", "MIG-aaaa"),
        (1, 1, "3g.40gb", "MIG-bbbb"),
    ]
