# SPDX-License-Identifier: Apache-2.0
"""Reads the modes of the GPUs: persistence, and how many processes may compute."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import gpus_of
from ci_doctor.checks.gpu.rules import GPU_EXCLUSIVE, GPU_PERSISTENCE_OFF
from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.visible_devices import VARIABLE, visible_gpus
from ci_doctor.model.finding import Severity, ShellCommand


def _run(context: CheckContext) -> CheckResult:
    gpus = gpus_of(context)
    visible = visible_gpus(gpus, context.environ.get(VARIABLE)).gpus
    problems = _persistence(gpus)
    for gpu in visible:
        problems.extend(_compute_mode(gpu))
    modes = sorted({gpu.compute_mode or "unknown" for gpu in gpus})
    summary = f"compute mode {', '.join(modes) or 'of no GPU'}"
    silent = [gpu.label for gpu in visible if gpu.compute_mode is None]
    unknown = None
    if silent:
        unknown = f"the driver does not report the compute mode of {', '.join(silent)}"
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown)


def _persistence(gpus: tuple[SmiGpu, ...]) -> list[Problem]:
    off = [str(gpu.index) for gpu in gpus if gpu.persistence == "Disabled"]
    if not off:
        return []
    words = f"persistence mode is off for GPU {', '.join(off)}"
    return [problem(GPU_PERSISTENCE_OFF, words, remedy=ShellCommand("sudo nvidia-smi -pm 1"))]


def _compute_mode(gpu: SmiGpu) -> list[Problem]:
    """An exclusive GPU that somebody uses is as good as prohibited."""
    mode = gpu.compute_mode
    if mode in {None, "Default"}:
        return []
    shared = ShellCommand(f"sudo nvidia-smi -i {gpu.index} -c DEFAULT")
    computing = [each.pid for each in gpu.processes or () if "C" in each.kind]
    words = f"the compute mode of {gpu.label} is {mode}"
    if mode == "Prohibited":
        return [problem(GPU_EXCLUSIVE, words, severity=Severity.ERROR, remedy=shared)]
    if computing:
        words += f", and pid {computing[0]} uses it already"
        return [problem(GPU_EXCLUSIVE, words, severity=Severity.ERROR, remedy=shared)]
    return [problem(GPU_EXCLUSIVE, words, severity=Severity.NOTE, remedy=shared)]


CHECK = DoctorCheck(
    id="gpu/modes",
    title="persistence mode and compute mode",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    run=_run,
)
