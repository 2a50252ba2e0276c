# SPDX-License-Identifier: Apache-2.0
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus, Findings, UndeterminedError, check
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof import (
    TorchAnswer,
    TorchDevice,
    ask_torch,
    devices,
    judge_devices,
    read_torch,
    working_torch,
)
from tests.support.checks import check_context
from tests.support.gpu_proof import proof_context, proof_environ, write_nvidia_smi
from tests.support.packages import write_script

PYTHON = Path("/venv/bin/python")


def device(index: int, failed: str | None = None) -> TorchDevice:
    return TorchDevice(index=index, name="NVIDIA L4", failed=failed)


def reading(
    *devices: TorchDevice, failed: str | None = None, stage: str | None = None
) -> TorchAnswer:
    return TorchAnswer(
        python=PYTHON, torch="2.13.0", cuda="13.0", devices=devices, failed=failed, stage=stage
    )


def judged(torch: TorchAnswer, visible: str | None) -> CheckResult:
    @check("gpu_proof/judged", title="what is said of a reading")
    def look(_: CheckContext) -> Findings:
        return (yield from judge_devices(torch, visible))

    return look.run(check_context(Path("/"), environ={}))


def test_all_gpus_work() -> None:
    result = judged(reading(device(0), device(1)), None)

    assert result.status is CheckStatus.OK
    assert result.summary == "torch 2.13.0 of /venv/bin/python computes on 2 of 2 GPUs"


def test_one_that_cannot_compute_is_an_error_with_its_words() -> None:
    result = judged(reading(device(0), device(1, "CUDA error: ECC")), None)

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.evidence[0].excerpt == "CUDA error: ECC"


@pytest.mark.parametrize(
    ("stage", "failed", "visible", "status"),
    [
        ("torch", "it is built without CUDA", None, CheckStatus.UNKNOWN),
        ("build", "it is built without CUDA", None, CheckStatus.UNKNOWN),
        ("process", "it is built without CUDA", None, CheckStatus.UNKNOWN),
        ("driver", "the driver is too old", None, CheckStatus.ERROR),
        ("driver", "the driver is too old", "0,1", CheckStatus.ERROR),
        # The variable may hide the GPUs.
        ("driver", "No CUDA GPUs are available", "", CheckStatus.UNKNOWN),
    ],
)
def test_a_torch_that_the_driver_refuses_is_an_error_and_what_cannot_show_it_is_unknown(
    stage: str, failed: str, visible: str | None, status: CheckStatus
) -> None:
    result = judged(reading(failed=failed, stage=stage), visible)

    assert result.status is status
    rules = [each.finding.rule for each in result.problems]
    assert rules == ["doctor/gpu-unusable"] * (status is CheckStatus.ERROR)


@pytest.mark.parametrize("has_nvidia_smi", [True, False])
def test_a_machine_without_gpu_is_unknown_since_a_proof_was_requested(
    tmp_path: Path, *, has_nvidia_smi: bool
) -> None:
    context = check_context(tmp_path, environ={"PATH": ""}, root=tmp_path)
    if has_nvidia_smi:
        program = write_nvidia_smi(tmp_path / "bin") / "nvidia-smi"
        program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
        (tmp_path / "bin" / "sys" / "bus" / "pci" / "devices").mkdir(parents=True)
        context = proof_context(tmp_path / "bin")

    with pytest.raises(UndeterminedError, match="no NVIDIA GPU"):
        devices.run(context)


def test_the_first_interpreter_whose_torch_answers_is_taken_else_the_one_that_says_why(
    tmp_path: Path,
) -> None:
    text = f'unset PYTHONPATH\nexec {sys.executable} -S "$@"'
    without = write_script(tmp_path / "python", text)

    def read(**behaviour: Any) -> TorchAnswer:
        environ = proof_environ(tmp_path, **behaviour)
        pythons = [without, Path(sys.executable)]
        return read_torch(check_context(tmp_path, environ=environ, pythons=pythons))

    assert read().python == Path(sys.executable)
    assert read(cuda=None).failed == "it is built without CUDA"
    with pytest.raises(UndeterminedError, match="no Python interpreter"):
        read_torch(check_context(tmp_path, environ=os.environ))


def test_a_gpu_that_cannot_compute_is_not_measured(tmp_path: Path) -> None:
    torch = working_torch(proof_context(tmp_path / "bin", devices=2, broken=0))

    assert [device.index for device in torch.working] == [1]


PYTHON_OF_PROGRAM = Path(sys.executable)


def test_a_program_that_hangs_is_ended_and_says_after_how_long(tmp_path: Path) -> None:
    context = proof_context(tmp_path, hangs=True)

    answer = ask_torch(context, PYTHON_OF_PROGRAM, "products", {"device": 0}, limit_s=0.5)

    assert (answer.stage, answer.failed) == ("process", "no answer within 0.5 s")
    assert context.programs.pids() == ()


def test_a_program_that_dies_says_how(tmp_path: Path) -> None:
    context = proof_context(tmp_path, dies_once=str(tmp_path / "died"))

    answer = ask_torch(context, PYTHON_OF_PROGRAM, "products", {"device": 0}, limit_s=30)

    assert answer.stage == "process"
    assert answer.failed is not None
    assert answer.failed.startswith("it ended by exit code 3: CUDA error: an illegal memory")


def test_no_bytecode_is_left_in_the_interpreter(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "torch.py").write_text("__version__ = '1'\n")
    context = proof_context(tmp_path / "bin")
    environ = {**context.environ, "PYTHONPATH": str(site)}

    ask_torch(context, PYTHON_OF_PROGRAM, "devices", {}, limit_s=30, environ=environ)

    assert [path.name for path in site.iterdir()] == ["torch.py"]
