# SPDX-License-Identifier: Apache-2.0
"""Reads how the GPUs are divided into parts (MIG), and which part a program sees."""

from collections.abc import Sequence

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import MigPart, gpus_of, mig_parts
from ci_doctor.checks.gpu.rules import MIG_EMPTY, MIG_ONE_PART, MIG_PART_UNKNOWN, MIG_PENDING
from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.visible_devices import VARIABLE, VisibleGpus, visible_gpus
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount, size


def _run(context: CheckContext) -> CheckResult:
    gpus = gpus_of(context)
    visible = visible_gpus(gpus, context.environ.get(VARIABLE))
    problems = _pending(gpus)
    divided = [gpu for gpu in gpus if gpu.is_partitioned]
    if visible.parts:
        # The XML has no UUIDs of parts, and asking for them takes a second run.
        problems.extend(_unknown_parts(visible.parts, context.shared(mig_parts)))
    if not divided:
        return CheckResult(summary="no GPU is divided", problems=tuple(problems))
    problems.extend(_seen(divided, visible, context))
    return CheckResult(
        summary=_summary(divided),
        problems=tuple(problems),
        evidence=_evidence(divided),
    )


def _pending(gpus: Sequence[SmiGpu]) -> list[Problem]:
    problems = []
    for gpu in gpus:
        if gpu.mig is None or gpu.mig_pending is None or gpu.mig == gpu.mig_pending:
            continue
        words = f"MIG of {gpu.label} is {gpu.mig}, and becomes {gpu.mig_pending} by a reset"
        reset = ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}")
        problems.append(problem(MIG_PENDING, words, remedy=reset))
    return problems


def _unknown_parts(entries: Sequence[str], parts: Sequence[MigPart]) -> list[Problem]:
    problems = []
    known = [part.uuid for part in parts]
    listed = "\n".join(f"GPU {part.gpu}: {part.profile} {part.uuid}" for part in parts)
    for entry in entries:
        if any(uuid.startswith(entry) for uuid in known):
            continue
        words = f"{VARIABLE} names {entry}, which `nvidia-smi -L` does not list"
        evidence = (Evidence(excerpt=listed or "no parts"),)
        problems.append(problem(MIG_PART_UNKNOWN, words, evidence=evidence))
    return problems


def _seen(divided: Sequence[SmiGpu], visible: VisibleGpus, context: CheckContext) -> list[Problem]:
    """Of divided GPUs that a program is to use as a whole."""
    chosen = [gpu for gpu in divided if gpu in visible.gpus]
    problems = [_empty(gpu, visible, context) for gpu in chosen if not gpu.parts]
    if any(gpu.parts for gpu in chosen):
        words = f"MIG is on, and {VARIABLE} names no part: CUDA takes the first one"
        problems.append(problem(MIG_ONE_PART, words))
    return problems


def _empty(gpu: SmiGpu, visible: VisibleGpus, context: CheckContext) -> Problem:
    severity = Severity.WARNING
    if visible.count == 1 and context.workload in SERVING:
        severity = Severity.ERROR
    words = f"MIG is on for {gpu.label}, and it has no parts"
    off = ShellCommand(f"sudo nvidia-smi -i {gpu.index} -mig 0")
    return problem(MIG_EMPTY, words, severity=severity, remedy=off)


def _summary(divided: Sequence[SmiGpu]) -> str:
    parts = sum(len(gpu.parts) for gpu in divided)
    return f"{amount(len(divided), 'GPU')} divided into {amount(parts, 'part')}"


def _evidence(divided: Sequence[SmiGpu]) -> tuple[Evidence, ...]:
    lines = []
    for gpu in divided:
        for part in gpu.parts:
            free, total = part.memory.free, part.memory.total
            room = "memory unknown"
            if free is not None and total is not None:
                room = f"{size(free)} free of {size(total)}"
            lines.append(f"GPU {gpu.index} part {part.index} (GI {part.gpu_instance}): {room}")
    if not lines:
        return ()
    return (Evidence(excerpt="\n".join(lines)),)


CHECK = DoctorCheck(
    id="gpu/mig",
    title="parts of GPUs (MIG), and what a program sees of them",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
    run=_run,
)
