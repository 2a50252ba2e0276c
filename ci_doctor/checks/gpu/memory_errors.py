# SPDX-License-Identifier: Apache-2.0
"""Reads the errors of GPU memory that ECC could not correct, and the repairs that wait for a reset."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import gpus_of
from ci_doctor.checks.gpu.rules import GPU_MEMORY_ERRORS
from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.settings import Workload
from ci_doctor.model.finding import Severity, ShellCommand
from ci_doctor.render.formatting import amount


def _run(context: CheckContext) -> CheckResult:
    gpus = gpus_of(context)
    problems: list[Problem] = []
    hidden = []
    for gpu in gpus:
        problems.extend(_of_gpu(gpu))
        if gpu.errors.mode == "Enabled" and gpu.errors.uncorrected is None:
            hidden.append(gpu.label)
    unknown = None
    if hidden:
        unknown = f"the driver does not report the ECC errors of {', '.join(hidden)}"
    return CheckResult(summary=_summary(gpus), problems=tuple(problems), unknown=unknown)


def _of_gpu(gpu: SmiGpu) -> list[Problem]:
    """One problem for each GPU, the worst it has."""
    errors = gpu.errors
    if errors.failed or errors.over_threshold:
        return [_broken(gpu)]
    texts = []
    if errors.uncorrected:
        texts.append(f"{amount(errors.uncorrected, 'uncorrected error')} since the driver's start")
    if errors.pending:
        texts.append("a repair that waits for a reset")
    if not texts:
        return []
    reset = ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}")
    words = f"the memory of {gpu.label} has {' and '.join(texts)}"
    return [problem(GPU_MEMORY_ERRORS, words, remedy=reset)]


def _broken(gpu: SmiGpu) -> Problem:
    reason = "no spare rows are left"
    if gpu.errors.over_threshold:
        reason = "its caches have more errors than NVIDIA allows"
    words = f"the memory of {gpu.label} is broken: {reason}"
    remedy = "Take the GPU out of service; NVIDIA replaces such a GPU."
    return problem(GPU_MEMORY_ERRORS, words, severity=Severity.ERROR, remedy=remedy)


def _summary(gpus: tuple[SmiGpu, ...]) -> str:
    checked = [gpu for gpu in gpus if gpu.errors.mode == "Enabled"]
    if not checked:
        return "no GPU has ECC switched on"
    total = sum(gpu.errors.uncorrected or 0 for gpu in checked)
    return f"{amount(total, 'uncorrected error')} on {amount(len(checked), 'GPU')} with ECC"


CHECK = DoctorCheck(
    id="gpu/memory-errors",
    title="errors of GPU memory (ECC), and pending repairs",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=frozenset({Workload.CORRECTNESS}),
    run=_run,
)
