# SPDX-License-Identifier: Apache-2.0
"""Reads the faults of GPUs (Xids) that the driver wrote into the kernel's log."""

from collections.abc import Sequence
from typing import Final

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Need,
    Problem,
    UndeterminedError,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.kernel_log import read_kernel_log
from ci_doctor.checks.gpu.nvidia_smi import driver_log
from ci_doctor.checks.gpu.rules import GPU_XID
from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.xid_catalogue import XidMatter
from ci_doctor.checks.gpu.xid_lines import (
    SwitchFault,
    XidMessage,
    pci_address,
    switch_faults,
    xid_messages,
)
from ci_doctor.model.finding import Evidence, NextStep, Severity, ShellCommand
from ci_doctor.render.formatting import amount, duration

# What is older tells of a job long gone; the checks of the driver and of ECC show what has stayed.
RECENT_S: Final = 24 * 3600.0
_MOST: Final = 8
_DAY_S: Final = 86400.0
_FELL_OFF: Final = 79
_CONTAINED: Final = 94


def _run(context: CheckContext) -> CheckResult:
    lines = read_kernel_log(context)
    messages = xid_messages(lines)
    switches = [_switch(fault) for fault in switch_faults(lines)[-_MOST:]]
    if not messages:
        return CheckResult(summary="the kernel's log has no Xid", problems=tuple(switches))
    gpus = _gpus(context)
    problems = [_problem(message, gpus) for message in messages[-_MOST:]]
    total = sum(message.count for message in messages)
    return CheckResult(
        summary=f"the kernel's log has {amount(total, 'Xid')}",
        problems=(*problems, *switches),
        figures={"xids": total},
    )


def _switch(fault: SwitchFault) -> Problem:
    """A warning at most: which GPUs need this switch is not known here."""
    is_old = fault.age_s is not None and fault.age_s > RECENT_S
    words = f"fatal SXid {fault.number} of the NVSwitch at {fault.address}, {_ago(fault.age_s)}"
    evidence = (Evidence(file="the kernel's log", excerpt=fault.text),)
    severity = Severity.NOTE if is_old else Severity.WARNING
    return problem(GPU_XID, words, severity=severity, evidence=evidence)


def _gpus(context: CheckContext) -> Sequence[SmiGpu]:
    """The GPUs that are told of; none if the driver does not answer, which it may be the cause of."""
    try:
        return driver_log(context).gpus
    except UndeterminedError:
        return ()


def _problem(message: XidMessage, gpus: Sequence[SmiGpu]) -> Problem:
    gpu = _gpu_at(message.address, gpus)
    severity = severity_of(message, gpu, is_told=bool(gpus))
    times = "" if message.count == 1 else f", {message.count} times"
    where = gpu.label if gpu is not None else f"the GPU at {message.address}"
    words = (
        f"Xid {message.xid.number} of {where}{times}, {_ago(message.age_s)}: {message.xid.meaning}"
    )
    evidence = (Evidence(file="the kernel's log", excerpt=message.text),)
    remedy = _remedy(message, gpu, severity)
    return problem(GPU_XID, words, severity=severity, evidence=evidence, remedy=remedy)


def severity_of(message: XidMessage, gpu: SmiGpu | None, *, is_told: bool) -> Severity:
    """How much `message` says of this job. `is_told`: the driver lists GPUs, `gpu` maybe not.

    An old one is a note. A recent one of the hardware is an error, unless the driver says that the
    GPU needs no recovery (now), or the GPU is another job's.
    """
    age_s = message.age_s
    if message.xid.matter is XidMatter.NOTHING or (age_s is not None and age_s > RECENT_S):
        return Severity.NOTE
    if gpu is None and is_told and message.xid.number != _FELL_OFF:
        return Severity.NOTE
    if message.xid.matter is not XidMatter.HARDWARE or age_s is None:
        return Severity.WARNING
    if gpu is None:
        return Severity.WARNING if is_told else Severity.ERROR
    if gpu.recovery == "None" and gpu.lost is None:
        return Severity.WARNING
    return Severity.ERROR


def _gpu_at(address: str, gpus: Sequence[SmiGpu]) -> SmiGpu | None:
    for gpu in gpus:
        if pci_address(gpu.bus_id) == address:
            return gpu
    return None


def _ago(age_s: float | None) -> str:
    if age_s is None:
        return "at an unknown time"
    days = age_s / _DAY_S
    if days >= 2:
        return f"{days:.0f} days ago"
    return f"{duration(age_s)} ago"


def _remedy(message: XidMessage, gpu: SmiGpu | None, severity: Severity) -> NextStep | None:
    if severity is Severity.NOTE:
        return None
    if message.xid.matter is XidMatter.UNKNOWN:
        return None
    if message.xid.number == _CONTAINED:
        return "The program that lost data was ended. `gpu/memory-errors` says what is pending."
    if message.xid.matter is XidMatter.APPLICATION:
        return (
            "A program's fault, mostly: see what ran then. Again and again, it is the hardware's."
        )
    if gpu is not None and message.xid.number != _FELL_OFF and "Reboot" not in message.text:
        return ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}")
    return "Restart the machine."


CHECK = DoctorCheck(
    id="gpu/xids",
    title="faults of GPUs in the kernel's log (Xid)",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    run=_run,
)
