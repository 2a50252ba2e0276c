# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: whether the job's torch can compute on each of them, in processes of its interpreter."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    UndeterminedError,
    check,
    problem,
    unknown_result,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.driver import driver_answer
from ci_doctor.checks.settings import ALL
from ci_doctor.decodable import decodable
from ci_doctor.machine.gpus import VISIBLE, shows_gpu
from ci_doctor.model.finding import Evidence, Rule, Severity
from ci_doctor.render.formatting import amount

GPU_UNUSABLE: Final = Rule(
    id="doctor/gpu-unusable",
    severity=Severity.ERROR,
    meaning="The job's torch cannot compute on a GPU of this machine. The driver may be too old for "
    "torch's CUDA. The GPU may have failed, or another process may hold it in exclusive mode. Or "
    "torch has no kernels for this GPU.",
    remedy="The text of the error names the cause. Compare `nvidia-smi` with `torch.version.cuda` and "
    "`torch.cuda.get_arch_list()`. A GPU that has failed needs a reset or another agent.",
)

T = TypeVar("T")

PROGRAMS: Final = Path(__file__).parent / "programs"
# A cold import of torch from a network file system takes tens of seconds.
TORCH_LIMIT_S: Final = 90.0
# Nothing is left behind in the job's interpreter.
_VARIABLES: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
# Stages of programs/launch.py at which the interpreter was not made for this proof. The GPU may be
# fine then, and so may the job.
_NOT_FOR_GPUS: Final = {"torch", "build", "process"}


class TorchAnswer(Struct, frozen=True, kw_only=True):
    """What programs/launch.py prints; its docstring says which `stage` can fail.

    The further stage `process` is ours: the program ended, or was ended, without an answer.
    """

    torch: str | None = None
    cuda: str | None = None
    values: dict[str, Any] | None = None
    failed: str | None = None
    stage: str | None = None


class TorchDevice(Struct, frozen=True, kw_only=True):
    """A GPU as torch counts it; `failed` is the error of a small computation."""

    index: int
    name: str
    failed: str | None

    @property
    def label(self) -> str:
        """`GPU 0 (NVIDIA H200)`: the number is that of the job's torch."""
        return f"GPU {self.index} ({self.name})"


class _Devices(Struct, frozen=True, kw_only=True):
    devices: tuple[TorchDevice, ...]


class TorchReading(Struct, frozen=True, kw_only=True):
    """The interpreter to measure with, and its GPUs, or why it can use none (`failed`, `stage`)."""

    python: Path
    torch: str | None
    cuda: str | None
    devices: tuple[TorchDevice, ...] = ()
    failed: str | None = None
    stage: str | None = None

    @property
    def working(self) -> tuple[TorchDevice, ...]:
        """The GPUs that it can compute on."""
        return tuple(device for device in self.devices if device.failed is None)


@check(
    "gpu_proof/devices",
    title="GPUs that the job's torch can compute on",
    cost=Cost.MEASUREMENT,
    needed_for=ALL,
    is_measurement=True,
)
def devices(context: CheckContext) -> Findings:
    """GPUs on which a small computation fails, or none where the job's torch should have one."""
    # An image may bring nvidia-smi to a machine without a GPU.
    if not shows_gpu(context.root, context.environ) or context.shared(driver_answer).is_idle:
        raise UndeterminedError(
            "this machine has no NVIDIA GPU, so nothing that --gpu asks for could be measured"
        )
    return (yield from judge_devices(context.shared(read_torch), context.environ.get(VISIBLE)))


def judge_devices(reading: TorchReading, visible: str | None) -> Findings:
    """What is to be said of the devices that torch has, if CUDA_VISIBLE_DEVICES is `visible`."""
    version = f"torch {reading.torch} of {reading.python}"
    if reading.failed is not None and reading.stage in _NOT_FOR_GPUS:
        return unknown_result(f"{reading.python} cannot be measured with: {reading.failed}")
    if visible is not None and _sees_none(reading):
        return unknown_result(f"{VISIBLE}={visible!r} leaves no GPU to {version}")
    if not reading.devices:
        summary = f"{version} can use no GPU: {reading.failed or 'it counts none'}"
        yield problem(GPU_UNUSABLE, summary)
        return summary
    for device in reading.devices:
        if device.failed is not None:
            yield problem(
                GPU_UNUSABLE,
                f"{version} cannot compute on {device.label}",
                evidence=(Evidence(excerpt=device.failed),),
            )
    count = amount(len(reading.devices), "GPU")
    return CheckResult(
        summary=f"{version} computes on {len(reading.working)} of {count}",
        figures={"torch": reading.torch, "cuda": reading.cuda, "devices": len(reading.devices)},
    )


def _sees_none(reading: TorchReading) -> bool:
    """Whether there is a driver, and no GPU for torch. The words are torch's."""
    return not reading.devices and (
        reading.failed is None or "No CUDA GPUs are available" in reading.failed
    )


def read_torch(context: CheckContext) -> TorchReading:
    """The first interpreter of the job whose torch answers, or else the one that came furthest.

    Raises UndeterminedError if the job has no interpreter.
    """
    readings = []
    for target in context.targets:
        answer = ask_torch(context, target.python, "devices", {}, limit_s=TORCH_LIMIT_S)
        reading = _reading(target.python, answer)
        if reading.failed is None:
            return reading
        readings.append(reading)
    if not readings:
        raise UndeterminedError("no Python interpreter was chosen or found")
    with_torch = [reading for reading in readings if reading.torch is not None]
    return (with_torch or readings)[0]


def _reading(python: Path, answer: TorchAnswer) -> TorchReading:
    reading = TorchReading(
        python=python,
        torch=answer.torch,
        cuda=answer.cuda,
        failed=answer.failed,
        stage=answer.stage,
    )
    if answer.values is None:
        return reading
    counted = values_of(answer, _Devices, "the devices").devices
    return replace(reading, devices=counted, failed=None, stage=None)


def working_torch(context: CheckContext) -> TorchReading:
    """As `read_torch`. Raises UndeterminedError if no GPU can be used."""
    reading = context.shared(read_torch)
    if reading.failed is not None:
        raise UndeterminedError(f"{reading.python}: {reading.failed}")
    if not reading.working:
        raise UndeterminedError(f"{reading.python}: torch can compute on no GPU")
    return reading


def ask_torch(
    context: CheckContext,
    python: Path,
    name: str,
    request: Mapping[str, Any],
    *,
    limit_s: float,
    environ: Mapping[str, str] | None = None,
) -> TorchAnswer:
    """The answer of the measurement `name`, or why there is none; it is killed after `limit_s`.

    It runs in the job's environment, or in `environ`. Raises OSError if `python` cannot be started.
    """
    words = [str(python), str(PROGRAMS / "launch.py"), name, msgspec.json.encode(request).decode()]
    ran = context.programs.run(
        words,
        cwd=context.cwd,
        environ={**(context.environ if environ is None else environ), **_VARIABLES},
        timeout_s=limit_s,
    )
    answer = _last_answer(ran.stdout)
    if answer is not None:
        return answer
    if ran.exit_code is None:
        return TorchAnswer(failed=f"no answer within {limit_s:g} s", stage="process")
    ending = f"signal {-ran.exit_code}" if ran.exit_code < 0 else f"exit code {ran.exit_code}"
    return TorchAnswer(failed=f"it ended by {ending}: {ran.last_words[:200]}", stage="process")


def _last_answer(stdout: str) -> TorchAnswer | None:
    """The last line: a module may print while it is imported."""
    lines = stdout.strip().splitlines()
    if not lines:
        return None
    try:
        return msgspec.json.decode(lines[-1], type=decodable(TorchAnswer))
    except msgspec.DecodeError:
        return None


def values_of(answer: TorchAnswer, kind: type[T], purpose: str) -> T:
    """The measured values. Raises UndeterminedError with `purpose` if there are none."""
    if answer.values is None:
        reason = answer.failed or "no values"
        raise UndeterminedError(f"{purpose}: {reason}")
    try:
        return msgspec.convert(answer.values, decodable(kind))
    except msgspec.ValidationError as error:
        raise UndeterminedError(f"{purpose}: the answer cannot be read: {error}") from error
