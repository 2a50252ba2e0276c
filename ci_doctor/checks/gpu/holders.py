# SPDX-License-Identifier: Apache-2.0
"""Reads who holds memory of the GPUs that this job sees."""

import os
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.gpu_processes import GpuHolder, describe_holder
from ci_doctor.checks.gpu.nvidia_smi import gpus_of
from ci_doctor.checks.gpu.rules import GPU_MEMORY_HELD
from ci_doctor.checks.gpu.smi_log import SmiGpu, SmiProcess
from ci_doctor.checks.gpu.visible_devices import VARIABLE, visible_gpus
from ci_doctor.model.finding import Evidence, NextStep, ShellCommand
from ci_doctor.render.formatting import size

# A display server or an MPS server holds less than this part of a GPU's memory.
_RELEVANT: Final = 0.02
# The same if the driver does not say how much there is, as where GPU and CPU share it (GB10).
_RELEVANT_BYTES: Final = 2**30
_MOST: Final = 8


def _run(context: CheckContext) -> CheckResult:
    gpus = gpus_of(context)
    problems: list[Problem] = []
    count = 0
    unlisted = []
    for gpu in visible_gpus(gpus, context.environ.get(VARIABLE)).gpus:
        if gpu.processes is None:
            unlisted.append(gpu.label)
        count += len(gpu.processes or ())
        problems.extend(_of_gpu(gpu, context))
    unknown = None
    if unlisted:
        unknown = f"the driver does not list the processes on {', '.join(unlisted)}"
    noun = "process" if count == 1 else "processes"
    summary = f"{count} {noun} on the GPUs"
    return CheckResult(
        summary=summary, problems=tuple(problems), unknown=unknown, figures={"processes": count}
    )


def _of_gpu(gpu: SmiGpu, context: CheckContext) -> list[Problem]:
    computing = [process for process in gpu.processes or () if _is_holder(process, gpu)]
    if computing:
        return [_held(gpu, describe_holder(process, context)) for process in computing[:_MOST]]
    rest = _unnamed(gpu)
    if rest is None or not _is_relevant(rest, gpu):
        return []
    words = f"{size(rest)} of {gpu.label} are held by no process that the driver names here"
    return [problem(GPU_MEMORY_HELD, words, remedy=_OUTSIDE)]


def _is_holder(process: SmiProcess, gpu: SmiGpu) -> bool:
    """Whether it computes, and holds more than little, or an unknown amount."""
    if "C" not in process.kind:
        return False
    return process.used is None or _is_relevant(process.used, gpu)


def _unnamed(gpu: SmiGpu) -> int | None:
    """The bytes in use that no listed process has; None if the driver does not say enough."""
    if gpu.processes is None or gpu.memory.used is None:
        return None
    listed = 0
    for process in gpu.processes:
        if process.used is None:
            return None
        listed += process.used
    return gpu.memory.used - listed


_OUTSIDE: Final = (
    "Look from outside of this container: another one may use the same GPU. A process that was "
    "killed gives its memory back within seconds."
)


def _is_relevant(used: int, gpu: SmiGpu) -> bool:
    total = gpu.memory.total
    if total is None:
        return used >= _RELEVANT_BYTES
    return used >= _RELEVANT * total


def _held(gpu: SmiGpu, holder: GpuHolder) -> Problem:
    held = "memory"
    if holder.process.used is not None:
        held = size(holder.process.used)
    words = f"{_who(holder)} holds {held} of {gpu.label}"
    return problem(GPU_MEMORY_HELD, words, remedy=_remedy(holder))


def _who(holder: GpuHolder) -> str:
    process = holder.process
    if holder.facts is None:
        name = process.name or "unnamed"
        return f"pid {process.pid} ({name}), outside of this container or hidden from this user,"
    words = holder.facts.describe()
    if holder.job is not None:
        words += f" (Buildkite job {holder.job})"
    return words


def _remedy(holder: GpuHolder) -> NextStep:
    """A process of the same user may be ended; another's, or another job's, is to be looked at."""
    if holder.facts is None:
        return _OUTSIDE
    if holder.facts.uid == os.geteuid() and holder.job is None:
        return ShellCommand(f"kill {holder.facts.pid}")
    return f"ask whose it is: `ps -o pid,user,etime,args -p {holder.facts.pid}`"


def holder_evidence(gpu: SmiGpu) -> tuple[Evidence, ...]:
    """The processes on `gpu`, by what nvidia-smi says of them."""
    lines = []
    for process in (gpu.processes or ())[:_MOST]:
        held = "memory unknown" if process.used is None else size(process.used)
        lines.append(f"pid {process.pid} {process.name[:100]}: {held}")
    if not lines:
        return ()
    return (Evidence(excerpt="\n".join(lines)),)


CHECK = DoctorCheck(
    id="gpu/holders",
    title="who holds memory of the GPUs",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    run=_run,
)
