# SPDX-License-Identifier: Apache-2.0
"""Reads whether the NVIDIA driver answers, and what it says of GPUs that it cannot use."""

import re
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import SmiAnswer, answer_words, ask_driver, is_driver_loaded
from ci_doctor.checks.gpu.pci_gpus import has_pci_gpu
from ci_doctor.checks.gpu.rules import DRIVER_FAILS, DRIVER_WARNS, GPU_LOST, GPU_RESET_NEEDED
from ci_doctor.checks.gpu.smi_log import SmiGpu, SmiLog
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

# NVML_GPU_RECOVERY_ACTION: what does not ask for a reset of the whole GPU.
_HARMLESS: Final = frozenset({"None", "Drain P2P"})
# What nvidia-smi prints of a GPU that is in the machine and does not answer. Some drivers go on with
# the other GPUs after it, and end with 0.
_UNREACHABLE = re.compile(r"Unable to determine the device handle|GPU is lost|fallen off the bus")
_MOST_LINES: Final = 10


def _run(context: CheckContext) -> CheckResult:
    answer = context.shared(ask_driver)
    if answer.is_idle:
        return CheckResult(summary="nvidia-smi is here, and no NVIDIA GPU")
    if answer.log is not None:
        return _answered(answer, answer.log)
    if answer.is_cut:
        words = f"nvidia-smi gives no whole answer: {answer_words(answer)}"
        return CheckResult(summary=words, unknown=words)
    if answer.exit_code is None:
        return CheckResult(summary="the driver cannot be asked", unknown=_not_asked(answer))
    return _failed(answer, context)


def _not_asked(answer: SmiAnswer) -> str:
    words = answer_words(answer)
    return f"{words}; a container has it with NVIDIA_DRIVER_CAPABILITIES=utility,compute"


def _failed(answer: SmiAnswer, context: CheckContext) -> CheckResult:
    """An image may bring nvidia-smi to a machine without a GPU, and a container may hide the bus."""
    summary = f"nvidia-smi says: {answer_words(answer)}"
    is_there = is_driver_loaded(context) or has_pci_gpu(context.sys)
    if not is_there and context.workload not in SERVING:
        reason = (
            f"{summary}; no driver is loaded, and {context.sys} does not show whether a GPU is here"
        )
        return CheckResult(summary=summary, unknown=reason)
    rule = GPU_LOST if _unreachable(answer) else DRIVER_FAILS
    failure = problem(rule, summary, evidence=(_printed(answer),))
    return CheckResult(summary=summary, problems=(failure,))


def _answered(answer: SmiAnswer, log: SmiLog) -> CheckResult:
    summary = (
        f"driver {log.driver or 'of unknown version'} answers for {amount(len(log.gpus), 'GPU')}"
    )
    problems = []
    for gpu in log.gpus:
        problems.extend(_of_gpu(gpu))
    lost = [f"nvidia-smi says: {line.rstrip('.')}" for line in _unreachable(answer)]
    problems.extend(problem(GPU_LOST, words) for words in lost)
    if answer.exit_code != 0 and not problems:
        words = f"nvidia-smi ended with exit code {answer.exit_code}: {answer_words(answer)}"
        problems.append(problem(DRIVER_WARNS, words, evidence=(_printed(answer),)))
    figures = {"driver": log.driver, "cuda": log.cuda, "gpus": len(log.gpus)}
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def _unreachable(answer: SmiAnswer) -> list[str]:
    """The lines that name a GPU which the driver cannot reach."""
    return [line for line in answer.lines if _UNREACHABLE.search(line)]


def _of_gpu(gpu: SmiGpu) -> list[Problem]:
    if gpu.lost is not None:
        summary = f"GPU {gpu.index} ({gpu.bus_id}) cannot be reached: {gpu.lost}"
        return [problem(GPU_LOST, summary)]
    if gpu.recovery is None or gpu.recovery in _HARMLESS:
        return []
    summary = f"the driver wants {gpu.label} recovered: {gpu.recovery}"
    if "reboot" in gpu.recovery.lower():
        return [problem(GPU_RESET_NEEDED, summary, remedy="Restart the machine.")]
    reset = ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}")
    return [problem(GPU_RESET_NEEDED, summary, remedy=reset)]


def _printed(answer: SmiAnswer) -> Evidence:
    return Evidence(excerpt="\n".join(answer.lines[:_MOST_LINES]) or None)


CHECK = DoctorCheck(
    id="gpu/driver",
    title="whether the NVIDIA driver answers",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
    run=_run,
)
