# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: whether the job's torch can compute on each of them."""

from typing import Final

from ci_doctor.checks.all_checks import has_gpu
from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    UndeterminedError,
    problem,
    unknown_result,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import ask_driver
from ci_doctor.checks.gpu_proof.cards import TorchReading, read_torch
from ci_doctor.checks.gpu_proof.rules import GPU_UNUSABLE
from ci_doctor.checks.gpu_proof.turn import DEADLINE_S
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence
from ci_doctor.render.formatting import amount

# Stages of programs/launch.py at which the interpreter was not made for this proof. The GPU may be
# fine then, and so may the job.
_NOT_FOR_GPUS: Final = {"torch", "build", "process"}


def _run(context: CheckContext) -> CheckResult:
    # An image may bring nvidia-smi to a machine without a GPU.
    if not has_gpu(context) or context.shared(ask_driver).is_idle:
        raise UndeterminedError(
            "this machine has no NVIDIA GPU, so nothing that --gpu asks for could be measured"
        )
    return judge_devices(context.shared(read_torch), context.environ.get("CUDA_VISIBLE_DEVICES"))


def judge_devices(reading: TorchReading, visible: str | None) -> CheckResult:
    """What is to be said of the devices that torch has, if CUDA_VISIBLE_DEVICES is `visible`."""
    version = f"torch {reading.torch} of {reading.python}"
    if reading.failed is not None and reading.stage in _NOT_FOR_GPUS:
        return unknown_result(f"{reading.python} cannot be measured with: {reading.failed}")
    if visible is not None and _sees_none(reading):
        return unknown_result(f"CUDA_VISIBLE_DEVICES={visible!r} leaves no GPU to {version}")
    if not reading.devices:
        summary = f"{version} can use no GPU: {reading.failed or 'it counts none'}"
        return CheckResult(summary=summary, problems=(problem(GPU_UNUSABLE, summary),))
    problems = []
    for device in reading.devices:
        if device.failed is not None:
            summary = f"{version} cannot compute on GPU {device.index} ({device.name})"
            evidence = (Evidence(excerpt=device.failed),)
            problems.append(problem(GPU_UNUSABLE, summary, evidence=evidence))
    working = len(reading.devices) - len(problems)
    summary = f"{version} computes on {working} of {amount(len(reading.devices), 'GPU')}"
    figures = {"torch": reading.torch, "cuda": reading.cuda, "devices": len(reading.devices)}
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def _sees_none(reading: TorchReading) -> bool:
    """Whether there is a driver, and no GPU for torch. The words are torch's."""
    if reading.devices:
        return False
    return reading.failed is None or "No CUDA GPUs are available" in reading.failed


CHECK = DoctorCheck(
    id="gpu_proof/devices",
    title="GPUs that the job's torch can compute on",
    run=_run,
    cost=Cost.GPU_DRIVER,
    needed_for=ALL,
    deadline_s=DEADLINE_S,
    is_measurement=True,
)
