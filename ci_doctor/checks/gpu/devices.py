# SPDX-License-Identifier: Apache-2.0
"""Reads which GPUs and MIG devices a program sees here, against what the job needs."""

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

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
    amd_gpus,
    other_accelerators,
    proc_gpus,
    shows_gpu,
    visible_gpus,
)
from ci_doctor.machine.nvidia_smi import Gpu
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.model.rule import Rule
from ci_doctor.render.formatting import amount, size
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
MIG_ONE_PART: Final = Rule(
    id="doctor/mig-one-part",
    severity=Severity.NOTE,
    meaning="MIG is on, and a program uses one part of a GPU only: CUDA sees one MIG device.",
    remedy="Name the part in CUDA_VISIBLE_DEVICES, so that it is always the same.",
)
MIG_PART_UNKNOWN: Final = Rule(
    id="doctor/mig-part-unknown",
    severity=Severity.ERROR,
    meaning="CUDA_VISIBLE_DEVICES names a part of a GPU that does not exist. A part has another "
    "UUID each time it is made, so the name may be that of an earlier one.",
    remedy="Take the UUID that `nvidia-smi -L` prints.",
)

# What vLLM takes if nobody says more: 0.9, and 0.92 in versions of 2026. The lesser one is sure.
VLLM_SHARE: Final = 0.9
# `vllm serve --help` (an underscore stands for a hyphen), and SGLang's server arguments.
_SHARE: Final = ("--gpu-memory-utilization", "--mem-fraction-static")
_TENSOR: Final = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
_PIPELINE: Final = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
# vLLM alone: SGLang's data parallelism may share the GPUs of one group.
_DATA: Final = ("--data-parallel-size", "-dp")
# SGLang takes GPUs from this number on.
_FIRST: Final = ("--base-gpu-id",)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
# `-c`, and `-lc` or `-euc`: the script of a shell comes next.
_SCRIPT = re.compile(r"-[a-z]*c")
# Modules that serve. Others of these packages (sglang.bench_serving) are clients.
_VLLM_MODULES: Final = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_SGLANG_MODULES: Final = ("sglang.launch_server", "sglang.srt.server")


class GpuEngine(StrEnum):
    """What serves the model."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


class GpuDemand(Struct, frozen=True, kw_only=True):
    """What one service asks for.

    `share` is the part (0 to 1) of each GPU's memory, None if the engine decides. `gpus` is how
    many it uses, after the `first` ones. `visible` is CUDA_VISIBLE_DEVICES of the service alone, None
    for the job's.
    """

    service: str
    engine: GpuEngine
    share: float | None
    gpus: int
    visible: str | None
    first: int = 0


def demands_of(services: Mapping[str, ServiceSpec]) -> tuple[GpuDemand, ...]:
    """The demand of each service that is known to use GPUs, in the order of the configuration."""
    demands = (_demand(name, spec) for name, spec in services.items())
    return tuple(demand for demand in demands if demand is not None)


def _demand(name: str, spec: ServiceSpec) -> GpuDemand | None:
    try:
        words = list(_flat(spec.words()))
    except ValueError:  # an unclosed quotation, which the launch reports
        return None
    engine = _engine(words)
    if engine is None or _option(words, ("--device",)) == "cpu":
        return None
    share = _fraction(_option(words, _SHARE))
    # A file of options may say another share, and is not read.
    if share is None and engine is GpuEngine.VLLM and _option(words, ("--config",)) is None:
        share = VLLM_SHARE
    is_vllm = engine is GpuEngine.VLLM
    return GpuDemand(
        service=name,
        engine=engine,
        share=share,
        gpus=_count(words, _TENSOR)
        * _count(words, _PIPELINE)
        * _count(words, _DATA if is_vllm else ()),
        visible=_own_devices(spec, words),
        first=0 if is_vllm else _number(_option(words, _FIRST)) or 0,
    )


def _own_devices(spec: ServiceSpec, words: Sequence[str]) -> str | None:
    """Of the command (`env NAME=value …`, or a script) before that of the service's environment."""
    value = spec.env.get(VISIBLE)
    for word in words:
        name, equals, rest = word.partition("=")
        if equals and name == VISIBLE:
            value = rest.rstrip(";")
    if value is not None and "{" in value:  # known when the service is launched
        return None
    return value


def _flat(words: Sequence[str]) -> Iterator[str]:
    """The words, and those of a script after `-c`."""
    is_shell = False
    before = ""
    for word in words:
        if is_shell and _SCRIPT.fullmatch(before):
            yield from shlex.split(word)
        else:
            yield word
        is_shell = is_shell or word.rpartition("/")[2] in _SHELLS
        before = word


def _engine(words: Sequence[str]) -> GpuEngine | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        program = word.rpartition("/")[2]
        serves = following == "serve"  # `vllm bench serve` is a client
        if word in _VLLM_MODULES or (serves and program in {"vllm", "vllm.entrypoints.cli.main"}):
            return GpuEngine.VLLM
        if word in _SGLANG_MODULES or (serves and program == "sglang"):
            return GpuEngine.SGLANG
    return None


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the last of these options, as argparse takes it; None if it is not there."""
    value = None
    for place, word in enumerate(words):
        name, equals, rest = word.partition("=")
        if name.replace("_", "-") not in names:
            continue
        if equals:
            value = rest
        elif place + 1 < len(words):
            value = words[place + 1]
    return value


def _fraction(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def _count(words: Sequence[str], names: Sequence[str]) -> int:
    """A number of GPUs; 1 for what is none."""
    return max(1, _number(_option(words, names)) or 1)


def _number(text: str | None) -> int | None:
    if text is None or re.fullmatch(r"[0-9]{1,9}", text) is None:
        return None
    return int(text)


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
        summary = f"the driver's files list {amount(count, 'GPU')}"
        return CheckResult(summary=summary, unknown=str(error))
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
            words = f"service `{demand.service}` is started on {wanted}, and sees {own.count}"
            yield problem(GPUS_TOO_FEW, words)
    summary = _summary(gpus, visible)
    return CheckResult(summary=summary, figures={"gpus": len(gpus), "visible": visible.count})


def _summary(gpus: Sequence[Gpu], visible: VisibleGpus) -> str:
    counts: dict[str, int] = {}
    for gpu in gpus:
        counts[gpu.name] = counts.get(gpu.name, 0) + 1
    names = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if visible.parts:
        return f"{names or 'no GPU'}; a program sees {amount(len(visible.parts), 'part')} (MIG)"
    if visible.count == len(gpus):
        return names or "the driver has no GPU"
    return f"{names}; a program sees {visible.count}"


def _without_nvidia(context: CheckContext) -> Findings:
    others = [
        f"AMD {gpu.card} with {size(gpu.free)} free of {size(gpu.total)}"
        for gpu in amd_gpus(context.sys)
    ]
    others.extend(other_accelerators(context.dev))
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
        words = (
            f"{chosen} names {visible.repeated!r} twice, and then CUDA leaves none of {all_gpus}"
        )
        yield problem(GPU_HIDDEN, words, remedy=unset)
    elif visible.missing not in {"", "-1"}:
        words = (
            f"{chosen} names {visible.missing!r}, which does not exist: "
            f"a program sees {visible.count} of {all_gpus}"
        )
        yield problem(GPU_HIDDEN, words, remedy=unset)


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
            words = f"MIG of {gpu.label} is {gpu.mig}, and becomes {gpu.mig_pending} by a reset"
            reset = ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}")
            yield problem(MIG_PENDING, words, remedy=reset)
    divided = [gpu for gpu in gpus if gpu.is_partitioned]
    visible = visible_gpus(gpus, context.environ.get(VISIBLE))
    if visible.parts:
        yield from _unknown_parts(gpus, context)
    if not divided:
        return "no GPU is divided"
    yield from _whole([gpu for gpu in divided if gpu in visible.gpus], visible, context)
    count = sum(len(gpu.parts) for gpu in divided)
    return CheckResult(
        summary=f"{amount(len(divided), 'GPU')} divided into {amount(count, 'part')}",
        evidence=_rooms(divided),
    )


def _whole(gpus: Sequence[Gpu], visible: VisibleGpus, context: CheckContext) -> Iterator[Problem]:
    """Of divided GPUs that a program is to use as a whole."""
    for gpu in gpus:
        if not gpu.parts:
            is_all = visible.count == 1 and context.workload in SERVING
            words = f"MIG is on for {gpu.label}, and it has no parts"
            off = ShellCommand(f"sudo nvidia-smi -i {gpu.index} -mig 0")
            severity = Severity.ERROR if is_all else Severity.WARNING
            yield problem(MIG_EMPTY, words, severity=severity, remedy=off)
    if any(gpu.parts for gpu in gpus):
        words = f"MIG is on, and {VISIBLE} names no part: CUDA takes the first one"
        yield problem(MIG_ONE_PART, words)


def _unknown_parts(gpus: Sequence[Gpu], context: CheckContext) -> Iterator[Problem]:
    """Raises UndeterminedError if nvidia-smi lists no parts."""
    try:
        parts = context.shared(gpu_view).parts
    except CiDoctorError as error:
        raise UndeterminedError(error.message) from error
    listed = "\n".join(f"GPU {part.index}: {part.name} {part.uuid}" for part in parts)
    for entry in visible_gpus(gpus, context.environ.get(VISIBLE), parts).parts:
        words = f"{VISIBLE} names {entry}, which `nvidia-smi -L` does not list"
        yield problem(MIG_PART_UNKNOWN, words, evidence=(Evidence(excerpt=listed or "no parts"),))


def _rooms(divided: Sequence[Gpu]) -> tuple[Evidence, ...]:
    lines = []
    for gpu in divided:
        for part in gpu.parts:
            free, total = part.memory.free, part.memory.total
            room = "memory unknown"
            if free is not None and total is not None:
                room = f"{size(free)} free of {size(total)}"
            lines.append(f"GPU {gpu.index} part {part.index} (GI {part.gpu_instance}): {room}")
    return (Evidence(excerpt="\n".join(lines)),) if lines else ()
