# SPDX-License-Identifier: Apache-2.0
"""Reads which GPUs and MIG devices a program sees here, against what the job needs."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
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
from ci_doctor.checks.gpu.cuda import torch_builds
from ci_doctor.checks.gpu.driver import driver_answer, gpu_view, gpus_of
from ci_doctor.checks.settings import SERVING
from ci_doctor.errors import CiDoctorError
from ci_doctor.machine.gpus import (
    VISIBLE,
    GpuView,
    VisibleGpus,
    other_accelerators,
    proc_gpus,
    shows_gpu,
    visible_gpus,
)
from ci_doctor.machine.nvidia_smi import Gpu
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount
from ci_doctor.services.gpu_demand import demands_of

GPU_MISSING: Final = Rule(
    id="doctor/gpu-missing",
    severity=Severity.ERROR,
    meaning="The job needs a GPU, and a program that starts here sees none.",
    remedy="Run the job on an agent with a GPU. In a container, see that it was started with "
    "`--gpus all`, or in Kubernetes with the limit `nvidia.com/gpu`.",
)
GPU_HIDDEN: Final = Rule(
    id="doctor/gpu-hidden",
    severity=Severity.WARNING,
    meaning="CUDA_VISIBLE_DEVICES names a GPU that does not exist. CUDA stops at the first such "
    "entry, without an error: a program sees fewer GPUs than the list has.",
    remedy="Name only GPUs that `nvidia-smi -L` lists, or unset the variable.",
)
GPUS_TOO_FEW: Final = Rule(
    id="doctor/gpus-too-few",
    severity=Severity.ERROR,
    meaning="A configured service is started on more GPUs than a program sees here.",
    remedy="Run the job on an agent with more GPUs, or lower `--tensor-parallel-size`.",
)
MIG_EMPTY: Final = Rule(
    id="doctor/mig-empty",
    severity=Severity.WARNING,
    meaning="MIG is on for a GPU and no part of it was made, so CUDA sees no device there.",
    remedy="Make parts (`nvidia-smi mig -cgi … -C`), or turn MIG off: `nvidia-smi -mig 0`.",
)
MIG_PENDING: Final = Rule(
    id="doctor/mig-pending",
    severity=Severity.WARNING,
    meaning="The MIG mode of a GPU was changed, and the change waits for a reset of the GPU.",
    remedy="Reset the GPU when nothing uses it: `nvidia-smi --gpu-reset -i INDEX`.",
)
MIG_PART_UNKNOWN: Final = Rule(
    id="doctor/mig-part-unknown",
    severity=Severity.ERROR,
    meaning="CUDA_VISIBLE_DEVICES names a part of a GPU that does not exist. A part has another "
    "UUID each time it is made, so the name may be that of an earlier one.",
    remedy="Take the UUID that `nvidia-smi -L` prints.",
)


@check(
    "gpu/devices",
    title="the GPUs that a program sees",
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
)
def devices(context: CheckContext) -> Findings:
    """No GPU where one is needed, fewer than a service takes, and lists that hide some."""
    is_idle = not shows_gpu(context.root, context.environ)
    if is_idle or context.shared(driver_answer).is_idle:
        return (yield from _without_nvidia(context))
    try:
        gpus = gpus_of(context)
    except UndeterminedError as error:
        yield from _not_given(context)
        count = len(proc_gpus(context.proc))
        return CheckResult(
            summary=f"the driver's files list {amount(count, 'GPU')}", unknown=str(error)
        )
    view = GpuView(gpus=gpus, chosen=context.environ.get(VISIBLE))
    visible = view.visible()
    needs_gpu = context.workload in SERVING
    hidden = list(_hidden(view, needs_gpu=needs_gpu))
    yield from hidden
    if not visible.count and not hidden and needs_gpu:
        yield problem(GPU_MISSING, f"{context.workload} needs a GPU: the driver has none")
    for demand in demands_of(context.services):
        own = view.visible(demand.visible)
        if demand.first + demand.gpus > own.count:
            wanted = amount(demand.gpus, "GPU")
            yield problem(
                GPUS_TOO_FEW,
                f"service `{demand.service}` is started on {wanted}, and sees {own.count}",
            )
    return CheckResult(
        summary=_summary(gpus, visible), figures={"gpus": len(gpus), "visible": visible.count}
    )


def _summary(gpus: Sequence[Gpu], visible: VisibleGpus) -> str:
    counts = Counter(gpu.name for gpu in gpus)
    names = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if visible.parts:
        return f"{names or 'no GPU'}; a program sees {amount(len(visible.parts), 'part')} (MIG)"
    if visible.count == len(gpus):
        return names or "the driver has no GPU"
    return f"{names}; a program sees {visible.count}"


def _without_nvidia(context: CheckContext) -> Findings:
    others = other_accelerators(context.dev)
    if others:
        return f"no NVIDIA GPU; {', '.join(others)}"
    if context.workload not in SERVING:
        return "no GPU"
    if _is_cpu_build(context):
        return "no GPU, and PyTorch is a build for the CPU"
    yield problem(GPU_MISSING, f"{context.workload} needs a GPU, and this machine shows none")
    return CheckResult(summary="no GPU", figures={"gpus": 0})


def _not_given(context: CheckContext) -> Iterator[Problem]:
    """A container shares /proc with a machine that has GPUs, and may have been given none of them.

    On the machine itself nvidia-smi, or nvidia-modprobe for whoever may, makes the device files.
    """
    programs = ("nvidia-smi", "nvidia-modprobe")
    path = context.environ.get("PATH", "")
    if any(shutil.which(program, path=path) for program in programs):
        return
    is_given = any(context.dev.glob("nvidia[0-9]*")) or (context.dev / "dxg").exists()
    if not is_given and context.workload in SERVING and not _is_cpu_build(context):
        words = f"the machine has NVIDIA's driver, and {context.dev} has no file of a GPU"
        yield problem(GPU_MISSING, f"{context.workload} needs a GPU: {words}")


def _is_cpu_build(context: CheckContext) -> bool:
    """Whether each PyTorch of the job is one that cannot use a GPU anyway."""
    try:
        builds = torch_builds(context)
    except UndeterminedError:
        return False
    return bool(builds) and all(build.is_for_cpu for build in builds)


def _hidden(view: GpuView, *, needs_gpu: bool) -> Iterator[Problem]:
    """An empty list, and -1, hide all GPUs on purpose."""
    visible = view.visible()
    if visible.missing is None and visible.repeated is None:
        return
    unset = ShellCommand(f"unset {VISIBLE}")
    all_gpus = amount(len(view.gpus), "GPU")
    chosen = f"{VISIBLE}={view.chosen!r}"
    if not visible.count and needs_gpu:
        words = f"{chosen} hides all of {all_gpus}"
        if visible.repeated is not None:
            words += f": it names {visible.repeated!r} twice"
        yield problem(GPU_MISSING, words, remedy=unset)
    elif visible.repeated is not None:
        yield problem(
            GPU_HIDDEN,
            f"{chosen} names {visible.repeated!r} twice, and then CUDA leaves none of {all_gpus}",
            remedy=unset,
        )
    elif visible.missing not in {"", "-1"}:
        yield problem(
            GPU_HIDDEN,
            f"{chosen} names {visible.missing!r}, which does not exist: "
            f"a program sees {visible.count} of {all_gpus}",
            remedy=unset,
        )


@check(
    "gpu/mig",
    title="parts of GPUs (MIG), and what a program sees of them",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
)
def mig(context: CheckContext) -> Findings:
    """Parts that do not exist, and divided GPUs of which a program names none."""
    gpus = gpus_of(context)
    for gpu in gpus:
        if gpu.mig is not None and gpu.mig_pending not in {None, gpu.mig}:
            yield problem(
                MIG_PENDING,
                f"MIG of {gpu.label} is {gpu.mig}, and becomes {gpu.mig_pending} by a reset",
                remedy=ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}"),
            )
    divided = [gpu for gpu in gpus if gpu.is_partitioned]
    visible = visible_gpus(gpus, context.environ.get(VISIBLE))
    if visible.parts:
        # Raises UndeterminedError if nvidia-smi lists no parts.
        try:
            parts = context.shared(gpu_view).parts
        except CiDoctorError as error:
            raise UndeterminedError(error.message) from error
        listed = "\n".join(f"GPU {part.index}: {part.name} {part.uuid}" for part in parts)
        for entry in visible_gpus(gpus, context.environ.get(VISIBLE), parts).parts:
            yield problem(
                MIG_PART_UNKNOWN,
                f"{VISIBLE} names {entry}, which `nvidia-smi -L` does not list",
                evidence=(Evidence(excerpt=listed or "no parts"),),
            )
    if not divided:
        return "no GPU is divided"
    yield from _whole([gpu for gpu in divided if gpu in visible.gpus], visible, context)
    count = sum(len(gpu.parts) for gpu in divided)
    return f"{amount(len(divided), 'GPU')} divided into {amount(count, 'part')}"


def _whole(gpus: Sequence[Gpu], visible: VisibleGpus, context: CheckContext) -> Iterator[Problem]:
    """Of divided GPUs that a program is to use as a whole."""
    for gpu in gpus:
        if not gpu.parts:
            is_all = visible.count == 1 and context.workload in SERVING
            yield problem(
                MIG_EMPTY,
                f"MIG is on for {gpu.label}, and it has no parts",
                severity=Severity.ERROR if is_all else Severity.WARNING,
                remedy=ShellCommand(f"sudo nvidia-smi -i {gpu.index} -mig 0"),
            )
