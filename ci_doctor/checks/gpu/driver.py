# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether the NVIDIA driver answers, and what it says of broken and locked GPUs.

It is asked once for all checks, by `nvidia-smi`.
"""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    Need,
    Problem,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import SERVING, Workload
from ci_doctor.machine.gpus import (
    VISIBLE,
    DriverAnswer,
    GpuView,
    ask_driver,
    ask_mig_devices,
    has_pci_gpu,
    is_driver_loaded,
)
from ci_doctor.machine.nvidia_smi import DriverReport, Gpu
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount

DRIVER_FAILS: Final = Rule(
    id="doctor/gpu-driver-fails",
    severity=Severity.ERROR,
    meaning="nvidia-smi reports that it cannot use the NVIDIA driver. No program can use the GPU.",
    remedy="Restart the machine if the driver was updated: the kernel's module and the library "
    "must have one version. `dmesg | grep NVRM` has the driver's own words.",
)
DRIVER_WARNS: Final = Rule(
    id="doctor/gpu-driver-warns",
    severity=Severity.WARNING,
    meaning="nvidia-smi answers, and reports that something is wrong with a GPU.",
    remedy="Its words are the evidence. Exit code 14 means a damaged InfoROM, 8 a power cable.",
)
GPU_LOST: Final = Rule(
    id="doctor/gpu-lost",
    severity=Severity.ERROR,
    meaning="The driver lists a GPU and cannot reach it. Every program that counts on it fails.",
    remedy="Restart the machine. If it happens again, the GPU or its slot is broken.",
)
GPU_RESET_NEEDED: Final = Rule(
    id="doctor/gpu-reset-needed",
    severity=Severity.ERROR,
    meaning="The driver says that a GPU must be reset, or the machine restarted, before it can be "
    "relied on.",
    remedy="End what uses the GPU, then `nvidia-smi --gpu-reset -i INDEX`, or restart the machine.",
)
GPU_MEMORY_ERRORS: Final = Rule(
    id="doctor/gpu-memory-errors",
    severity=Severity.WARNING,
    meaning="ECC found errors in a GPU's memory that it could not correct. A program that used the "
    "memory was ended. It is an error if the GPU has no spare memory left.",
    remedy="Reset the GPU when nothing uses it, so that bad rows are replaced: "
    "`nvidia-smi --gpu-reset -i INDEX`.",
)
GPU_EXCLUSIVE: Final = Rule(
    id="doctor/gpu-exclusive",
    severity=Severity.WARNING,
    meaning="The compute mode of a GPU lets only one process use it, or none.",
    remedy="`nvidia-smi -i INDEX -c DEFAULT` as root lets several use it.",
)

# NVML_GPU_RECOVERY_ACTION: what does not ask for a reset of the whole GPU.
_HARMLESS: Final = frozenset({"None", "Drain P2P"})
# What nvidia-smi prints of a GPU that is in the machine and does not answer. Some drivers go on with
# the other GPUs after it, and end with 0.
_UNREACHABLE = re.compile(r"Unable to determine the device handle|GPU is lost|fallen off the bus")
_MOST_LINES: Final = 10


def driver_answer(context: CheckContext) -> DriverAnswer:
    """The answer to `nvidia-smi -q -x`. For CheckContext.shared."""
    return ask_driver(context.run, context.environ, context.root)


def driver_report(context: CheckContext) -> DriverReport:
    """What the driver says of its GPUs. Raises UndeterminedError if nvidia-smi has no answer."""
    answer = context.shared(driver_answer)
    if answer.report is None:
        raise UndeterminedError(f"nvidia-smi has no answer: {answer.words}")
    return answer.report


def gpus_of(context: CheckContext) -> tuple[Gpu, ...]:
    """The GPUs that the driver can reach. Raises UndeterminedError if nvidia-smi has no answer."""
    return tuple(gpu for gpu in driver_report(context).gpus if gpu.lost is None)


def gpu_view(context: CheckContext) -> GpuView:
    """The GPUs with their MIG devices. For CheckContext.shared.

    Raises UndeterminedError if nvidia-smi has no answer, InfraError if it lists no MIG devices.
    """
    gpus = gpus_of(context)
    return GpuView(
        gpus=gpus, chosen=context.environ.get(VISIBLE), parts=ask_mig_devices(context.run, gpus)
    )


@check(
    "gpu/driver",
    title="whether the NVIDIA driver answers",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
)
def driver(context: CheckContext) -> Findings:
    """A driver that fails, and GPUs that it cannot reach or wants to be reset."""
    answer = context.shared(driver_answer)
    report = answer.report
    if answer.is_idle:
        # An image may bring nvidia-smi to a machine without a GPU; one that fell off the bus looks alike.
        words = (
            f"nvidia-smi says: {answer.words}; no driver is loaded, and no NVIDIA GPU is on the bus"
        )
        return CheckResult(summary="no driver answers", unknown=words)
    if report is None:
        return (yield from _no_report(answer, context))
    problems = [each for gpu in report.gpus for each in _of_gpu(gpu)]
    lost = [line.rstrip(".") for line in answer.lines if _UNREACHABLE.search(line)]
    problems.extend(problem(GPU_LOST, f"nvidia-smi says: {line}") for line in lost)
    if answer.exit_code != 0 and not problems:
        problems.append(
            problem(
                DRIVER_WARNS,
                f"nvidia-smi ended with exit code {answer.exit_code}: {answer.words}",
                evidence=_printed(answer),
            )
        )
    yield from problems
    version = report.driver or "of unknown version"
    return CheckResult(
        summary=f"driver {version} answers for {amount(len(report.gpus), 'GPU')}",
        figures={"driver": report.driver, "cuda": report.cuda, "gpus": len(report.gpus)},
    )


def _no_report(answer: DriverAnswer, context: CheckContext) -> Findings:
    if answer.is_cut:
        words = f"nvidia-smi gives no whole answer: {answer.words}"
        return CheckResult(summary=words, unknown=words)
    if answer.exit_code is None:
        hint = "a container has it with NVIDIA_DRIVER_CAPABILITIES=utility,compute"
        return CheckResult(summary="the driver cannot be asked", unknown=f"{answer.words}; {hint}")
    summary = f"nvidia-smi says: {answer.words}"
    # A container may hide the bus.
    is_there = is_driver_loaded(context.root) or has_pci_gpu(context.sys)
    if not is_there and context.workload not in SERVING:
        bus = f"{context.sys} does not show whether a GPU is here"
        return CheckResult(summary=summary, unknown=f"{summary}; no driver is loaded, and {bus}")
    is_unreachable = any(_UNREACHABLE.search(line) for line in answer.lines)
    yield problem(GPU_LOST if is_unreachable else DRIVER_FAILS, summary, evidence=_printed(answer))
    return summary


def _of_gpu(gpu: Gpu) -> Iterator[Problem]:
    if gpu.lost is not None:
        yield problem(GPU_LOST, f"GPU {gpu.index} ({gpu.bus_id}) cannot be reached: {gpu.lost}")
    elif gpu.recovery is not None and gpu.recovery not in _HARMLESS:
        words = f"the driver wants {gpu.label} recovered: {gpu.recovery}"
        is_reboot = "reboot" in gpu.recovery.lower()
        yield problem(
            GPU_RESET_NEEDED, words, remedy="Restart the machine." if is_reboot else _reset(gpu)
        )


def _printed(answer: DriverAnswer) -> tuple[Evidence, ...]:
    return (Evidence(excerpt="\n".join(answer.lines[:_MOST_LINES]) or None),)


def _reset(gpu: Gpu) -> ShellCommand:
    return ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}")


@check(
    "gpu/memory-errors",
    title="errors of GPU memory (ECC), and pending repairs",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=frozenset({Workload.CORRECTNESS}),
)
def memory_errors(context: CheckContext) -> Findings:
    """One problem for each GPU, the worst that it has."""
    gpus = gpus_of(context)
    hidden = []
    for gpu in gpus:
        errors = gpu.errors
        if errors.mode == "Enabled" and errors.uncorrected is None:
            hidden.append(gpu.label)
        if errors.failed or errors.over_threshold:
            reason = "no spare rows are left"
            if errors.over_threshold:
                reason = "its caches have more errors than NVIDIA allows"
            yield problem(
                GPU_MEMORY_ERRORS,
                f"the memory of {gpu.label} is broken: {reason}",
                severity=Severity.ERROR,
                remedy="Take the GPU out of service; NVIDIA replaces such a GPU.",
            )
            continue
        texts = []
        if errors.uncorrected:
            count = amount(errors.uncorrected, "uncorrected error")
            texts.append(f"{count} since the driver's start")
        if errors.pending:
            texts.append("a repair that waits for a reset")
        if texts:
            yield problem(
                GPU_MEMORY_ERRORS,
                f"the memory of {gpu.label} has {' and '.join(texts)}",
                remedy=_reset(gpu),
            )
    checked = [gpu for gpu in gpus if gpu.errors.mode == "Enabled"]
    total = sum(gpu.errors.uncorrected or 0 for gpu in checked)
    summary = f"{amount(total, 'uncorrected error')} on {amount(len(checked), 'GPU')} with ECC"
    unknown = f"the driver does not report the ECC errors of {', '.join(hidden)}"
    return CheckResult(
        summary=summary if checked else "no GPU has ECC switched on",
        unknown=unknown if hidden else None,
    )


@check("gpu/modes", title="compute mode", need=Need.GPU, cost=Cost.GPU_DRIVER)
def modes(context: CheckContext) -> Findings:
    """GPUs that only one process may use. One that somebody uses is as good as prohibited."""
    gpus = gpus_of(context)
    view = GpuView(gpus=gpus, chosen=context.environ.get(VISIBLE))
    silent = []
    for gpu in view.visible().gpus:
        if gpu.compute_mode is None:
            silent.append(gpu.label)
        if gpu.compute_mode in {None, "Default"}:
            continue
        words = f"the compute mode of {gpu.label} is {gpu.compute_mode}"
        severity = Severity.ERROR
        computing = [each.pid for each in gpu.processes or () if "C" in each.kind]
        if gpu.compute_mode != "Prohibited" and computing:
            words += f", and pid {computing[0]} uses it already"
        elif gpu.compute_mode != "Prohibited":
            severity = Severity.NOTE
        yield problem(
            GPU_EXCLUSIVE,
            words,
            severity=severity,
            remedy=ShellCommand(f"sudo nvidia-smi -i {gpu.index} -c DEFAULT"),
        )
    names = sorted({gpu.compute_mode or "unknown" for gpu in gpus})
    unknown = f"the driver does not report the compute mode of {', '.join(silent)}"
    return CheckResult(
        summary=f"compute mode {', '.join(names) or 'of no GPU'}",
        unknown=unknown if silent else None,
    )
