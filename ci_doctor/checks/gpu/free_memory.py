# SPDX-License-Identifier: Apache-2.0
"""Reads the free memory of the GPUs, against what the configured services take at their start."""

from collections.abc import Sequence

from ci_doctor.checks.check import Cost, DoctorCheck, Need
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.holders import holder_evidence
from ci_doctor.checks.gpu.memory_plan import GpuShortage, running_together, shortages
from ci_doctor.checks.gpu.mig_devices import gpu_view
from ci_doctor.checks.gpu.rules import GPU_MEMORY_SHORT
from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.visible_devices import GpuView
from ci_doctor.checks.result import CheckResult, Problem, problem
from ci_doctor.checks.workload import SERVING, Workload
from ci_doctor.model.finding import Severity
from ci_doctor.render.formatting import percent, size
from ci_doctor.services.gpu_demand import VLLM_SHARE, demands_of


def _run(context: CheckContext) -> CheckResult:
    view = gpu_view(context)
    devices = view.visible().usable
    hidden = [gpu.label for gpu in devices if None in {gpu.memory.free, gpu.memory.usable}]
    unknown = None
    if hidden:
        unknown = f"the driver does not report the free memory of {', '.join(hidden)}"
    return CheckResult(
        summary=_summary(devices),
        problems=tuple(_problems(context, view)),
        unknown=unknown,
        figures=_figures(devices),
    )


def _problems(context: CheckContext, view: GpuView) -> list[Problem]:
    demands = demands_of(context.services)
    if any(demand.share is not None for demand in demands):
        together = running_together(context.services)
        return [_short(each) for each in shortages(demands, view, together)]
    devices = view.visible().usable
    share = context.settings.gpu_memory_free
    if share is not None:
        return _below(devices, share, "[doctor] gpu_memory_free", Severity.ERROR)
    if context.workload is Workload.VLLM:
        return _below(devices, VLLM_SHARE, "vLLM by default", Severity.WARNING)
    return []


def _short(shortage: GpuShortage) -> Problem:
    names = " and ".join(f"`{name}`" for name in shortage.services)
    verb = "take" if len(shortage.services) > 1 else "takes"
    words = (
        f"{shortage.gpu.label} has {size(shortage.free)} free, "
        f"and {names} {verb} {size(shortage.needed)}"
    )
    severity = Severity.ERROR if shortage.is_certain else Severity.WARNING
    evidence = holder_evidence(shortage.gpu)
    return problem(GPU_MEMORY_SHORT, words, severity=severity, evidence=evidence)


def _below(gpus: Sequence[SmiGpu], share: float, source: str, severity: Severity) -> list[Problem]:
    problems = []
    for gpu in gpus:
        free, usable = gpu.memory.free, gpu.memory.usable
        if free is None or usable is None or free >= share * usable:
            continue
        words = (
            f"{gpu.label} has {size(free)} free of {size(usable)}, "
            f"and {source} asks for {percent(share)}"
        )
        evidence = holder_evidence(gpu)
        problems.append(problem(GPU_MEMORY_SHORT, words, severity=severity, evidence=evidence))
    return problems


def _summary(gpus: Sequence[SmiGpu]) -> str:
    """Of the GPU with the least free memory: the one that decides."""
    if not gpus:
        return "a program sees no GPU, and no part that is named"
    known = [gpu for gpu in gpus if gpu.memory.free is not None]
    if not known:
        return "free memory is unknown"
    least = min(known, key=lambda gpu: gpu.memory.free or 0)
    words = f"{least.label} has {size(least.memory.free or 0)} free"
    if least.memory.usable is not None:
        words += f" of {size(least.memory.usable)}"
    if len(gpus) > 1:
        words += ", the least of all"
    return words


def _figures(gpus: Sequence[SmiGpu]) -> dict[str, int | None]:
    figures = {}
    for gpu in gpus:
        figures[f"gpu{gpu.index}.free"] = gpu.memory.free
        figures[f"gpu{gpu.index}.total"] = gpu.memory.total
    return figures


CHECK = DoctorCheck(
    id="gpu/free-memory",
    title="free memory of the GPUs, against what the services take",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
    run=_run,
)
