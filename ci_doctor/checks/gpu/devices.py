# SPDX-License-Identifier: Apache-2.0
"""Reads which GPUs a program sees here, against what the job needs."""

import shutil
from collections.abc import Sequence

from ci_doctor.checks.all_checks import has_gpu
from ci_doctor.checks.check import Cost, DoctorCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.nvidia_smi import ask_driver, gpus_of
from ci_doctor.checks.gpu.pci_gpus import AmdGpu, amd_gpus, other_accelerators
from ci_doctor.checks.gpu.rules import GPU_HIDDEN, GPU_MISSING, GPUS_TOO_FEW
from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.torch_build import torch_builds
from ci_doctor.checks.gpu.visible_devices import VARIABLE, GpuView, VisibleGpus
from ci_doctor.checks.result import CheckResult, Problem, UndeterminedError, problem
from ci_doctor.checks.workload import SERVING, Workload
from ci_doctor.model.finding import ShellCommand
from ci_doctor.render.formatting import amount, size
from ci_doctor.services.gpu_demand import GpuDemand, demands_of
from ci_doctor.system.gpu_names import gpu_names


def _run(context: CheckContext) -> CheckResult:
    if not has_gpu(context) or context.shared(ask_driver).is_idle:
        return _without_nvidia(context)
    try:
        gpus = gpus_of(context)
    except UndeterminedError as error:
        names = gpu_names(context.proc / "driver" / "nvidia")
        summary = f"the driver's files list {amount(len(names), 'GPU')}"
        return CheckResult(summary=summary, unknown=str(error), problems=tuple(_not_given(context)))
    return _seen(gpus, context)


def _not_given(context: CheckContext) -> list[Problem]:
    """A container shares /proc with a machine that has GPUs, and may have been given none of them.

    On the machine itself nvidia-smi, or nvidia-modprobe for whoever may, makes the device files.
    """
    programs = ("nvidia-smi", "nvidia-modprobe")
    path = context.environ.get("PATH", "")
    if any(shutil.which(program, path=path) for program in programs):
        return []
    is_given = any(context.dev.glob("nvidia[0-9]*")) or (context.dev / "dxg").exists()
    if is_given or not _needs_gpu(context.workload) or _is_cpu_build(context):
        return []
    words = (
        f"{context.workload} needs a GPU: the machine has NVIDIA's driver, and {context.dev} has "
        "no file of a GPU"
    )
    return [problem(GPU_MISSING, words)]


def _without_nvidia(context: CheckContext) -> CheckResult:
    others = [_described(gpu) for gpu in amd_gpus(context.sys)]
    others.extend(other_accelerators(context.dev))
    if others:
        return CheckResult(summary=f"no NVIDIA GPU; {', '.join(others)}")
    summary = "no GPU"
    if not _needs_gpu(context.workload):
        return CheckResult(summary=summary)
    if _is_cpu_build(context):
        return CheckResult(summary=f"{summary}, and PyTorch is a build for the CPU")
    missing = problem(GPU_MISSING, f"{context.workload} needs a GPU, and this machine shows none")
    return CheckResult(summary=summary, problems=(missing,), figures={"gpus": 0})


def _described(gpu: AmdGpu) -> str:
    return f"AMD {gpu.card} with {size(gpu.free)} free of {size(gpu.total)}"


def _needs_gpu(workload: Workload | None) -> bool:
    return workload in SERVING


def _is_cpu_build(context: CheckContext) -> bool:
    """Whether each PyTorch of the job is one that cannot use a GPU anyway."""
    try:
        builds = torch_builds(context)
    except UndeterminedError:
        return False
    return bool(builds) and all(build.is_for_cpu for build in builds)


def _seen(gpus: Sequence[SmiGpu], context: CheckContext) -> CheckResult:
    view = GpuView(gpus=tuple(gpus), chosen=context.environ.get(VARIABLE))
    visible = view.visible()
    problems: list[Problem] = []
    if visible.missing is not None or visible.repeated is not None:
        problems.extend(_hidden(visible, view, context.workload))
    if not visible.count and not problems and _needs_gpu(context.workload):
        problems.append(
            problem(GPU_MISSING, f"{context.workload} needs a GPU: the driver has none")
        )
    for demand in demands_of(context.services):
        problems.extend(_too_few(demand, view))
    figures = {"gpus": len(gpus), "visible": visible.count}
    return CheckResult(summary=_summary(gpus, visible), problems=tuple(problems), figures=figures)


def _hidden(visible: VisibleGpus, view: GpuView, workload: Workload | None) -> list[Problem]:
    """An empty list, and -1, hide all GPUs on purpose."""
    unset = ShellCommand(f"unset {VARIABLE}")
    all_gpus = amount(len(view.gpus), "GPU")
    if not visible.count and _needs_gpu(workload):
        words = f"{VARIABLE}={view.chosen!r} hides all of {all_gpus}"
        if visible.repeated is not None:
            words += f": it names {visible.repeated!r} twice"
        return [problem(GPU_MISSING, words, remedy=unset)]
    if visible.repeated is not None:
        words = (
            f"{VARIABLE}={view.chosen!r} names {visible.repeated!r} twice, and then CUDA leaves "
            f"none of {all_gpus}"
        )
        return [problem(GPU_HIDDEN, words, remedy=unset)]
    if visible.missing in {"", "-1"}:
        return []
    words = (
        f"{VARIABLE}={view.chosen!r} names {visible.missing!r}, which does not exist: "
        f"a program sees {visible.count} of {all_gpus}"
    )
    return [problem(GPU_HIDDEN, words, remedy=unset)]


def _too_few(demand: GpuDemand, view: GpuView) -> list[Problem]:
    visible = view.visible(demand.visible)
    if demand.first + demand.gpus <= visible.count:
        return []
    words = (
        f"service `{demand.service}` is started on {amount(demand.gpus, 'GPU')}, "
        f"and sees {visible.count}"
    )
    return [problem(GPUS_TOO_FEW, words)]


def _summary(gpus: Sequence[SmiGpu], visible: VisibleGpus) -> str:
    counts: dict[str, int] = {}
    for gpu in gpus:
        counts[gpu.name] = counts.get(gpu.name, 0) + 1
    names = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if visible.parts:
        return f"{names or 'no GPU'}; a program sees {amount(len(visible.parts), 'part')} (MIG)"
    if visible.count == len(gpus):
        return names or "the driver has no GPU"
    return f"{names}; a program sees {visible.count}"


CHECK = DoctorCheck(
    id="gpu/devices",
    title="the GPUs that a program sees",
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
    run=_run,
)
