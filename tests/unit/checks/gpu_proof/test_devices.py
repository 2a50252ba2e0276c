# SPDX-License-Identifier: Apache-2.0
"""What is said of the GPUs that torch has."""

from pathlib import Path

import pytest
from ci_doctor.checks.gpu_proof.cards import TorchDevice, TorchReading
from ci_doctor.checks.gpu_proof.devices import CHECK, judge_devices

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from tests.support.checks import check_context
from tests.support.gpu_proof import proof_context, write_nvidia_smi

PYTHON = Path("/venv/bin/python")


def device(index: int, failed: str | None = None) -> TorchDevice:
    return TorchDevice(index=index, name="NVIDIA L4", uuid=None, memory=1, failed=failed)


def reading(
    *devices: TorchDevice, failed: str | None = None, stage: str | None = None
) -> TorchReading:
    return TorchReading(
        python=PYTHON, torch="2.13.0", cuda="13.0", devices=devices, failed=failed, stage=stage
    )


def test_all_gpus_work() -> None:
    result = judge_devices(reading(device(0), device(1)), None)

    assert result.status is CheckStatus.OK
    assert result.summary == "torch 2.13.0 of /venv/bin/python computes on 2 of 2 GPUs"


def test_one_that_cannot_compute_is_an_error_with_its_words() -> None:
    result = judge_devices(reading(device(0), device(1, "CUDA error: ECC")), None)

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.evidence[0].excerpt == "CUDA error: ECC"


@pytest.mark.parametrize("stage", ["torch", "build", "process"])
def test_an_interpreter_that_cannot_show_it_is_unknown(stage: str) -> None:
    result = judge_devices(reading(failed="it is built without CUDA", stage=stage), None)

    assert result.status is CheckStatus.UNKNOWN


def test_a_torch_that_the_driver_refuses_is_an_error() -> None:
    result = judge_devices(reading(failed="the driver is too old", stage="driver"), None)

    assert [each.finding.rule for each in result.problems] == ["doctor/gpu-unusable"]


def test_a_variable_that_may_hide_the_gpus_is_unknown() -> None:
    result = judge_devices(reading(failed="No CUDA GPUs are available", stage="driver"), "")

    assert result.status is CheckStatus.UNKNOWN


def test_a_driver_that_is_too_old_is_an_error_with_such_a_variable_too() -> None:
    result = judge_devices(reading(failed="the driver is too old", stage="driver"), "0,1")

    assert result.status is CheckStatus.ERROR


def test_an_image_with_nvidia_smi_on_a_machine_without_gpu_is_unknown(tmp_path: Path) -> None:
    program = write_nvidia_smi(tmp_path / "bin") / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    (tmp_path / "bin" / "sys" / "bus" / "pci" / "devices").mkdir(parents=True)

    with pytest.raises(UndeterminedError, match="no NVIDIA GPU"):
        CHECK.run(proof_context(tmp_path / "bin"))


def test_a_machine_without_gpu_is_unknown_since_a_proof_was_requested(tmp_path: Path) -> None:
    context = check_context(tmp_path, environ={"PATH": ""}, root=tmp_path)

    with pytest.raises(UndeterminedError, match="no NVIDIA GPU"):
        CHECK.run(context)
