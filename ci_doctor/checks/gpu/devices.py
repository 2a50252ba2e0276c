# SPDX-License-Identifier: Apache-2.0
"""Reads which GPUs and MIG devices a program sees here, their free memory, and who holds the rest.

vLLM takes `share` of a GPU's memory, and ends at its start if less than that is free
(vllm/v1/worker: "Free memory on device … is less than desired GPU memory utilization"). SGLang
takes `share` of what is free, so it starts, with a smaller cache.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from ci_doctor.checks.processes import job_of, read_processes
from ci_doctor.checks.settings import SERVING, Workload
from ci_doctor.errors import CiDoctorError
from ci_doctor.machine.gpus import (
    VISIBLE,
    GpuView,
    VisibleGpus,
    other_accelerators,
    proc_gpus,
    shows_gpu,
    uses_gpu,
    visible_gpus,
)
from ci_doctor.machine.nvidia_smi import Gpu, GpuProcess
from ci_doctor.model.outcome import Evidence, NextStep, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount, percent, size
from ci_doctor.services.gpu_demand import VLLM_SHARE, GpuDemand, GpuEngine, demands_of
from ci_doctor.services.spec import ServiceSpec

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


GPU_MEMORY_SHORT: Final = Rule(
    id="doctor/gpu-memory-short",
    severity=Severity.ERROR,
    meaning="A GPU has less free memory than a configured service takes at its start. vLLM ends "
    "with `Free memory on device … is less than desired GPU memory utilization`.",
    remedy="End what holds the memory, or lower `--gpu-memory-utilization`.",
)
GPU_MEMORY_HELD: Final = Rule(
    id="doctor/gpu-memory-held",
    severity=Severity.WARNING,
    meaning="Another process holds memory of a GPU that this job sees. Results that depend on free "
    "memory (batch sizes, the size of a cache) differ from those of an empty GPU.",
    remedy="See who it is, and whether it is left over from an earlier job.",
)

# A display server or an MPS server holds less than this part of a GPU's memory.
_RELEVANT: Final = 0.02
# The same if the driver does not say how much there is, as where GPU and CPU share it (GB10).
_RELEVANT_BYTES: Final = 2**30
_MOST: Final = 8
_OUTSIDE: Final = (
    "Look from outside of this container: another one may use the same GPU. A process that was "
    "killed gives its memory back within seconds."
)


@check(
    "gpu/free-memory",
    title="free memory of the GPUs, against what the services take",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
)
def free_memory(context: CheckContext) -> Findings:
    """GPUs with less free memory than the services, the configuration or the workload ask for."""
    view = context.shared(gpu_view)
    gpus = view.visible().usable
    demands = demands_of(context.services)
    share = context.settings.gpu_memory_free
    if any(demand.share is not None for demand in demands):
        yield from _shortages(demands, view, context.services)
    elif share is not None:
        yield from _below(gpus, share, "[doctor] gpu_memory_free", Severity.ERROR)
    elif context.workload is Workload.VLLM:
        yield from _below(gpus, VLLM_SHARE, "vLLM by default", Severity.WARNING)
    figures: dict[str, int | None] = {}
    for gpu in gpus:
        figures[f"gpu{gpu.index}.free"] = gpu.memory.free
        figures[f"gpu{gpu.index}.total"] = gpu.memory.total
    hidden = [gpu.label for gpu in gpus if None in {gpu.memory.free, gpu.memory.usable}]
    unknown = f"the driver does not report the free memory of {', '.join(hidden)}"
    return CheckResult(
        summary=_free_summary(gpus), unknown=unknown if hidden else None, figures=figures
    )


def _shortages(
    demands: Sequence[GpuDemand], view: GpuView, services: Mapping[str, ServiceSpec]
) -> Iterator[Problem]:
    """What does not fit into what each service sees of `view`; shares of one time add up."""
    placed: dict[Gpu, list[GpuDemand]] = {}
    for demand in demands:
        last = demand.first + demand.gpus
        for gpu in view.visible(demand.visible).usable[demand.first : last]:
            if demand.share is not None:
                placed.setdefault(gpu, []).append(demand)
                yield from _shortage(gpu, [demand])
    for gpu, all_demands in placed.items():
        for names in _running_together(services):
            group = [demand for demand in all_demands if demand.service in names]
            if len(group) > 1:
                yield from _shortage(gpu, group)


def _running_together(services: Mapping[str, ServiceSpec]) -> list[frozenset[str]]:
    """The groups of services that `needs` ties together, each of two or more.

    Others may replace each other, as the arms of a comparison do.
    """
    groups: list[set[str]] = []
    for name, spec in services.items():
        joined = {name, *spec.needs}
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return [frozenset(group) for group in groups if len(group) > 1]


def _shortage(gpu: Gpu, demands: Sequence[GpuDemand]) -> Iterator[Problem]:
    """An error if vLLM cannot start; SGLang may start with less than it is to have."""
    free, usable = gpu.memory.free, gpu.memory.usable
    if free is None or usable is None:
        return
    needed = sum(int((demand.share or 0) * usable) for demand in demands)
    if needed <= free:
        return
    is_certain = any(demand.engine is GpuEngine.VLLM for demand in demands)
    names = " and ".join(f"`{demand.service}`" for demand in demands)
    verb = "take" if len(demands) > 1 else "takes"
    yield problem(
        GPU_MEMORY_SHORT,
        f"{gpu.label} has {size(free)} free, and {names} {verb} {size(needed)}",
        severity=Severity.ERROR if is_certain else Severity.WARNING,
        evidence=_holders(gpu),
    )


def _below(gpus: Sequence[Gpu], share: float, source: str, severity: Severity) -> Iterator[Problem]:
    for gpu in gpus:
        free, usable = gpu.memory.free, gpu.memory.usable
        if free is None or usable is None or free >= share * usable:
            continue
        yield problem(
            GPU_MEMORY_SHORT,
            f"{gpu.label} has {size(free)} free of {size(usable)}, "
            f"and {source} asks for {percent(share)}",
            severity=severity,
            evidence=_holders(gpu),
        )


def _free_summary(gpus: Sequence[Gpu]) -> str:
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


def _holders(gpu: Gpu) -> tuple[Evidence, ...]:
    """The processes on `gpu`, by what nvidia-smi says of them."""
    lines = []
    for process in (gpu.processes or ())[:_MOST]:
        held = "memory unknown" if process.used is None else size(process.used)
        lines.append(f"pid {process.pid} {process.name[:100]}: {held}")
    return () if not lines else (Evidence(excerpt="\n".join(lines)),)


@check("gpu/holders", title="who holds memory of the GPUs", need=Need.GPU, cost=Cost.GPU_DRIVER)
def holders(context: CheckContext) -> Findings:
    """Processes that hold memory of a GPU that this job sees, and memory that no process holds."""
    count = 0
    unlisted = []
    for gpu in context.shared(gpu_view).visible().gpus:
        if gpu.processes is None and not gpu.is_part:
            unlisted.append(gpu.label)
        processes = gpu.processes or ()
        count += len(processes)
        # Whether it computes, and holds more than little, or an unknown amount.
        computing = [
            process
            for process in processes
            if ("C" in process.kind and (process.used is None or _is_relevant(process.used, gpu)))
        ]
        for process in computing[:_MOST]:
            yield _held(gpu, process, context)
        rest = _unnamed(gpu)
        if not computing and rest is not None and _is_relevant(rest, gpu):
            yield problem(
                GPU_MEMORY_HELD,
                f"{size(rest)} of {gpu.label} are held by no process that the driver names here",
                remedy=_OUTSIDE,
            )
    unknown = f"the driver does not list the processes on {', '.join(unlisted)}"
    return CheckResult(
        summary=f"{count} {'process' if count == 1 else 'processes'} on the GPUs",
        unknown=unknown if unlisted else None,
        figures={"processes": count},
    )


def _unnamed(gpu: Gpu) -> int | None:
    """The bytes in use that no listed process has; None if the driver does not say enough."""
    if gpu.processes is None or gpu.memory.used is None:
        return None
    listed = [process.used for process in gpu.processes if process.used is not None]
    return gpu.memory.used - sum(listed) if len(listed) == len(gpu.processes) else None


def _is_relevant(used: int, gpu: Gpu) -> bool:
    total = gpu.memory.total
    return used >= _RELEVANT_BYTES if total is None else used >= _RELEVANT * total


def _held(gpu: Gpu, process: GpuProcess, context: CheckContext) -> Problem:
    """In a container the driver's pids may be others': such a process has no file of the driver open.

    Raises UndeterminedError if /proc shows nothing at all.
    """
    held = "memory" if process.used is None else size(process.used)
    facts = context.shared(read_processes).get(process.pid)
    if facts is None or uses_gpu(context.proc, process.pid) is False:
        where = "outside of this container or hidden from this user,"
        words = f"pid {process.pid} ({process.name or 'unnamed'}), {where}"
        return problem(GPU_MEMORY_HELD, f"{words} holds {held} of {gpu.label}", remedy=_OUTSIDE)
    words = facts.describe()
    job = job_of(context, process.pid)
    is_others = job is not None and job != context.environ.get("BUILDKITE_JOB_ID")
    if is_others:
        words += f" (Buildkite job {job})"
    # A process of the same user may be ended; another's, or another job's, is to be looked at.
    remedy: NextStep = f"ask whose it is: `ps -o pid,user,etime,args -p {facts.pid}`"
    if facts.uid == os.geteuid() and not is_others:
        remedy = ShellCommand(f"kill {facts.pid}")
    return problem(GPU_MEMORY_HELD, f"{words} holds {held} of {gpu.label}", remedy=remedy)
