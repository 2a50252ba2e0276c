# SPDX-License-Identifier: Apache-2.0
"""Reads why the clocks of the GPUs are low, if they are."""

from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import gpus_of
from ci_doctor.checks.gpu.rules import GPU_THROTTLED
from ci_doctor.checks.gpu.smi_log import SmiGpu

# By the names of the elements (nvidia-smi(1), "Clocks Event Reasons"). Idle, a power cap and clocks
# that somebody set are as they should be. `hw_slowdown` stands for the two others of the hardware.
_HARMFUL: Final = {
    "hw_thermal_slowdown": "the hardware is too hot",
    "hw_power_brake_slowdown": "the power supply demands it",
    "sw_thermal_slowdown": "it is too hot, or its memory is",
    "hw_slowdown": "the hardware demands it",
}


def _run(context: CheckContext) -> CheckResult:
    problems: list[Problem] = []
    silent = []
    for gpu in gpus_of(context):
        if gpu.slowdowns is None:
            silent.append(gpu.label)
        problems.extend(_of_gpu(gpu))
    unknown = None
    if silent:
        unknown = f"the driver does not say why the clocks of {', '.join(silent)} are low"
    summary = f"{len(problems)} GPUs are slowed down" if problems else "no GPU is slowed down"
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown)


def _of_gpu(gpu: SmiGpu) -> list[Problem]:
    reasons = [words for name, words in _HARMFUL.items() if name in (gpu.slowdowns or ())]
    if not reasons:
        return []
    return [problem(GPU_THROTTLED, f"{gpu.label} is slowed down: {reasons[0]}")]


CHECK = DoctorCheck(
    id="gpu/clocks",
    title="clocks that heat or power hold down",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    run=_run,
)
