# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs, in processes of the job's interpreter: whether its torch can compute on each of them, and what `CUBLAS_WORKSPACE_CONFIG` changes."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from math import comb
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    Need,
    Problem,
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
from ci_doctor.model.outcome import Evidence, Rule, Scalar, Severity, ShellCommand
from ci_doctor.render.formatting import amount, percent, probability
from ci_doctor.system import clock

# Acts on GPUs: whether the job's torch can compute on each of them, in processes of its interpreter.

GPU_UNUSABLE: Final = Rule(
    id="doctor/gpu-unusable",
    severity=Severity.ERROR,
    meaning="The job's torch cannot compute on a GPU of this machine. The driver may be too old for "
    "torch's CUDA. The GPU may have failed, or another process may hold it in exclusive mode. Or "
    "torch has no kernels for this GPU.",
    remedy="The text of the error names the cause. Compare `nvidia-smi` with `torch.version.cuda` and "
    "`torch.cuda.get_arch_list()`. A GPU that has failed needs a reset or another agent.",
)

PROGRAMS: Final = Path(__file__).parent / "gpu_programs"
# A cold import of torch from a network file system takes tens of seconds.
TORCH_LIMIT_S: Final = 90.0
# Nothing is left behind in the job's interpreter.
_VARIABLES: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
# Stages of programs/launch.py at which the interpreter was not made for this proof. The GPU may be
# fine then, and so may the job.
_NOT_FOR_GPUS: Final = {"torch", "build", "process"}


class TorchDevice(Struct, frozen=True, kw_only=True):
    """A GPU as torch counts it; `failed` is the error of a small computation."""

    index: int
    name: str
    failed: str | None

    @property
    def label(self) -> str:
        """`GPU 0 (NVIDIA H200)`: the number is that of the job's torch."""
        return f"GPU {self.index} ({self.name})"


class ProductCase(Struct, frozen=True, kw_only=True):
    """One product: a digest of all repetitions, and how many of them differ from one another."""

    digest: str
    differing: int


class ProductStart(Struct, frozen=True, kw_only=True):
    """What gpu_programs/products.py measures in one start."""

    cases: dict[str, ProductCase]
    inputs: str
    skipped: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """One for all products."""
        return " ".join(f"{name}={case.digest}" for name, case in sorted(self.cases.items()))


class TorchAnswer(Struct, frozen=True, kw_only=True):
    """What gpu_programs/launch.py prints; its docstring says which `stage` can fail.

    The further stage `process` is ours: the program ended, or was ended, without an answer. `python`
    is the interpreter. `devices` and `products` are what the programs of these names measure.
    """

    python: Path = Path()
    torch: str | None = None
    cuda: str | None = None
    devices: tuple[TorchDevice, ...] = ()
    products: ProductStart | None = None
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


def judge_devices(reading: TorchAnswer, visible: str | None) -> Findings:
    """What is to be said of the devices that torch has, if CUDA_VISIBLE_DEVICES is `visible`."""
    version = f"torch {reading.torch} of {reading.python}"
    if reading.failed is not None and reading.stage in _NOT_FOR_GPUS:
        return unknown_result(f"{reading.python} cannot be measured with: {reading.failed}")
    # Whether there is a driver, and no GPU for torch. The words are torch's.
    if visible is not None and (
        not reading.devices
        and (reading.failed is None or "No CUDA GPUs are available" in reading.failed)
    ):
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


def read_torch(context: CheckContext) -> TorchAnswer:
    """The first interpreter of the job whose torch answers, or else the one that came furthest.

    Raises UndeterminedError if the job has no interpreter.
    """
    answers = []
    for target in context.targets:
        answer = ask_torch(context, target.python, "devices", {}, limit_s=TORCH_LIMIT_S)
        if answer.failed is None:
            return answer
        answers.append(answer)
    if not answers:
        raise UndeterminedError("no Python interpreter was chosen or found")
    with_torch = [answer for answer in answers if answer.torch is not None]
    return (with_torch or answers)[0]


def working_torch(context: CheckContext) -> TorchAnswer:
    """As `read_torch`. Raises UndeterminedError if no GPU can be used."""
    answer = context.shared(read_torch)
    if answer.failed is not None:
        raise UndeterminedError(f"{answer.python}: {answer.failed}")
    if not answer.working:
        raise UndeterminedError(f"{answer.python}: torch can compute on no GPU")
    return answer


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
    # The last line: a module may print while it is imported.
    lines = ran.stdout.strip().splitlines() or [""]
    with contextlib.suppress(msgspec.DecodeError):
        return replace(msgspec.json.decode(lines[-1], type=decodable(TorchAnswer)), python=python)
    failed = f"no answer within {limit_s:g} s"
    if ran.exit_code is not None:
        ending = f"signal {-ran.exit_code}" if ran.exit_code < 0 else f"exit code {ran.exit_code}"
        failed = f"it ended by {ending}: {ran.last_words[:200]}"
    return TorchAnswer(python=python, failed=failed, stage="process")


# Acts on GPUs: computes matrix products in many starts, with `CUBLAS_WORKSPACE_CONFIG` and without.
#
# The unit is the start of a process: what happens within one is one observation, however many products
# it computes. The arms take turns, so that what drifts with time hits both.

WORKSPACE_WITHOUT_EFFECT: Final = Rule(
    id="doctor/workspace-without-effect",
    severity=Severity.NOTE,
    meaning="Matrix products gave the same bytes in every start, with `CUBLAS_WORKSPACE_CONFIG` and "
    "without it: the determinism profile changes nothing here for these products. Other kernels "
    "(attention, Triton, FlashInfer, collectives) are not looked at.",
)
WORKSPACE_CHANGES_RESULT: Final = Rule(
    id="doctor/workspace-changes-result",
    severity=Severity.NOTE,
    meaning="Matrix products give the same bytes in every start, but other bytes with "
    "`CUBLAS_WORKSPACE_CONFIG` than without it. Answers of a server with it cannot be compared byte "
    "by byte with answers of one without it.",
    remedy="Set the variable on both sides of a comparison, or on neither.",
)
WORKSPACE_NEEDED: Final = Rule(
    id="doctor/workspace-needed",
    severity=Severity.WARNING,
    meaning="Matrix products varied from start to start without `CUBLAS_WORKSPACE_CONFIG`, and not "
    "with it.",
    remedy="Set it for every start that is compared: `ci-doctor setup-env --determinism default`.",
)
WORKSPACE_HARMFUL: Final = Rule(
    id="doctor/workspace-harmful",
    severity=Severity.WARNING,
    meaning="Matrix products varied from start to start with `CUBLAS_WORKSPACE_CONFIG`, and not "
    "without it.",
    remedy="Leave the variable out here: `ci-doctor setup-env --determinism off`. Please report it "
    "with the versions of torch, driver and GPU.",
)
PRODUCTS_VARY: Final = Rule(
    id="doctor/products-vary",
    severity=Severity.WARNING,
    meaning="Matrix products of the same operands gave different bytes from start to start. The "
    "measurement does not show that `CUBLAS_WORKSPACE_CONFIG` prevents it. A comparison of "
    "answers byte by byte then reports differences that no change has made.",
    remedy="Compare with a control: `ci-doctor correctness` starts the baseline more than once.",
)

STARTS: Final = 10  # of each arm
_BUDGET_S: Final = 300.0
_START_LIMIT_S: Final = 90.0
# One that fails may be an accident; a program that cannot work fails each time.
_MOST_FAILURES: Final = 3
# In all, over every look at a growing number of starts.
ALPHA: Final = 0.05
# Fewer starts of an arm say nothing about how often something happens.
LEAST_STARTS: Final = 3
VARIABLE: Final = "CUBLAS_WORKSPACE_CONFIG"
VALUE: Final = ":4096:8"
_EXPORT: Final = ShellCommand(f"export {VARIABLE}={VALUE}")


class Arms(Struct, kw_only=True):
    """The starts without the variable, and with it."""

    without: list[ProductStart] = []
    with_it: list[ProductStart] = []

    @property
    def both(self) -> list[ProductStart]:
        """All starts."""
        return [*self.without, *self.with_it]


class Effect(Enum):
    """What the variable does to the bytes of the products."""

    NONE_SEEN = "the variable changes nothing here for these products"
    CHANGES_RESULT = "each is steady, and the variable changes the result"
    STEADIES = "the products vary only without the variable"
    UNSTEADIES = "the products vary only with the variable"
    BOTH_VARY = "the products vary with and without the variable"


class WorkspaceComparison(Struct, frozen=True, kw_only=True):
    """How the arms compare.

    `p` is that of Fisher's test: how the starts of each arm divide into those with the most frequent
    digest of all and the others. `varying` are the products whose bytes vary within an arm.
    """

    effect: Effect
    p: float
    digests_without: int
    digests_with: int
    varying: tuple[str, ...]


_RULES: Final = {
    Effect.NONE_SEEN: WORKSPACE_WITHOUT_EFFECT,
    Effect.CHANGES_RESULT: WORKSPACE_CHANGES_RESULT,
    Effect.STEADIES: WORKSPACE_NEEDED,
    Effect.UNSTEADIES: WORKSPACE_HARMFUL,
    Effect.BOTH_VARY: PRODUCTS_VARY,
}


@check(
    "gpu_proof/workspace",
    title="effect of CUBLAS_WORKSPACE_CONFIG",
    need=Need.GPU,
    cost=Cost.MEASUREMENT,
    needed_for=ALL,
    is_measurement=True,
)
def workspace(context: CheckContext) -> Findings:
    """What the variable does to matrix products, on one GPU of each model.

    cuBLAS chooses its kernels by the model.
    """
    deadline = clock.now() + _BUDGET_S
    chosen: dict[str, TorchDevice] = {}
    for device in working_torch(context).working:
        chosen.setdefault(device.name, device)
    results = [_measure(context, device, deadline) for device in chosen.values()]
    figures: dict[str, Scalar] = {}
    for place, result in enumerate(results):
        yield from result.problems
        front = f"{place}_" if len(results) > 1 else ""
        figures.update({f"{front}{name}": value for name, value in result.figures.items()})
    unknown = [result.unknown for result in results if result.unknown is not None]
    return CheckResult(
        summary="; ".join(result.summary for result in results),
        unknown="; ".join(unknown) or None,
        figures=figures,
    )


def _measure(context: CheckContext, device: TorchDevice, deadline: float) -> CheckResult:
    arms = Arms()
    failures: list[str] = []
    # Pair by pair, and the order turned round each time: what a start leaves to the next, such as a
    # warm GPU, is no effect of the variable.
    for pair in range(STARTS):
        for is_set in (False, True) if pair % 2 == 0 else (True, False):
            if clock.now() >= deadline or len(failures) >= _MOST_FAILURES:
                return report(device.label, arms, looks=STARTS, failures=tuple(failures))
            environ = {name: value for name, value in context.environ.items() if name != VARIABLE}
            if is_set:
                environ[VARIABLE] = VALUE
            answer = ask_torch(
                context,
                working_torch(context).python,
                "products",
                {"device": device.index},
                limit_s=_START_LIMIT_S,
                environ=environ,
            )
            if answer.products is None:
                failures.append(f"a start: {answer.failed or 'no values'}")
            else:
                (arms.with_it if is_set else arms.without).append(answer.products)
        if is_decided(arms, STARTS):
            break
    return report(device.label, arms, looks=STARTS, failures=tuple(failures))


def compare(arms: Arms) -> WorkspaceComparison:
    """How the arms compare; each has a start at least, and all had the same operands."""
    kinds_without = Counter(start.digest for start in arms.without)
    kinds_with = Counter(start.digest for start in arms.with_it)
    together = kinds_without + kinds_with
    # Of equally frequent ones any: the names of digests say nothing of the arms.
    usual = min(together, key=lambda digest: (-together[digest], digest))
    return WorkspaceComparison(
        effect=_effect(arms),
        p=fisher_p(kinds_without[usual], len(arms.without), kinds_with[usual], len(arms.with_it)),
        digests_without=len(kinds_without),
        digests_with=len(kinds_with),
        varying=_varying(arms),
    )


def _effect(arms: Arms) -> Effect:
    match _varies(arms.without), _varies(arms.with_it):
        case True, True:
            return Effect.BOTH_VARY
        case True, False:
            return Effect.STEADIES
        case False, True:
            return Effect.UNSTEADIES
        case _:
            is_same = arms.without[0].digest == arms.with_it[0].digest
            return Effect.NONE_SEEN if is_same else Effect.CHANGES_RESULT


def _varies(starts: Sequence[ProductStart]) -> bool:
    """Whether a product of equal operands had two results, in two starts or within one."""
    is_within = any(case.differing > 1 for start in starts for case in start.cases.values())
    return is_within or len({start.digest for start in starts}) > 1


def _varying(arms: Arms) -> tuple[str, ...]:
    varying = (
        name
        for starts in (arms.without, arms.with_it)
        for name in starts[0].cases
        if _varies([replace(start, cases={name: start.cases[name]}) for start in starts])
    )
    return tuple(dict.fromkeys(varying))


def is_decided(arms: Arms, looks: int) -> bool:
    """Whether no more starts are needed; it is asked after each pair of starts, `looks` times at most.

    Each look may err with a share of ALPHA, so that all together err no more often than ALPHA
    (Bonferroni). Once both arms vary, no further start makes either steady.
    """
    if min(len(arms.without), len(arms.with_it)) < LEAST_STARTS:
        return False
    comparison = compare(arms)
    return comparison.effect is Effect.BOTH_VARY or comparison.p <= ALPHA / looks


def report(label: str, arms: Arms, *, looks: int, failures: tuple[str, ...] = ()) -> CheckResult:
    """What the starts on the GPU `label` say; `looks` is how often they were looked at, at most.

    `failures` are starts that gave no answer, in words.
    """
    reason = _unusable(arms, failures)
    if reason is not None:
        return CheckResult(summary=f"{label}: {reason}", unknown=f"{label}: {reason}")
    comparison = compare(arms)
    # Starts without an answer are missing from the figures, so the whole is not known.
    unknown = None
    if failures:
        unknown = f"{label}: {amount(len(failures), 'start')} gave no answer: {failures[0]}"
    return CheckResult(
        summary=f"{label}: {_counts(arms, comparison)}",
        problems=(_problem(label, arms, comparison, looks),),
        unknown=unknown,
        figures={
            "starts_without": len(arms.without),
            "starts_with": len(arms.with_it),
            "results_without": comparison.digests_without,
            "results_with": comparison.digests_with,
            "p": comparison.p,
            "missed_if_in_10_percent_of_starts": _missed(arms, 0.1),
            "missed_if_in_30_percent_of_starts": _missed(arms, 0.3),
        },
    )


def _unusable(arms: Arms, failures: tuple[str, ...]) -> str | None:
    """Why these starts say nothing, as a clause."""
    if min(len(arms.without), len(arms.with_it)) < LEAST_STARTS:
        reason = failures[0] if failures else "the time was used up"
        return f"fewer than {LEAST_STARTS} starts of each kind gave an answer: {reason}"
    if len({frozenset(start.cases) for start in arms.both}) > 1:
        reasons = [reason for start in arms.both for reason in start.skipped.values()]
        return f"not every start could compute the same products: {reasons[0]}"
    if len({start.inputs for start in arms.both}) > 1:
        return "the starts did not compute with the same operands, so their results say nothing"
    return None


def _problem(label: str, arms: Arms, comparison: WorkspaceComparison, looks: int) -> Problem:
    """That the arms differ may be chance: then it is only known that products vary."""
    has_effect = comparison.effect is not Effect.NONE_SEEN
    is_sure = comparison.p <= ALPHA / looks
    rule = PRODUCTS_VARY if has_effect and not is_sure else _RULES[comparison.effect]
    words = (
        f"{label}: matrix products had the same bytes in all {len(arms.both)} starts, with "
        f"{VARIABLE} and without: it changes nothing here for these products"
    )
    if has_effect:
        p = probability(comparison.p)
        words = f"{label}: {comparison.effect.value}: {_counts(arms, comparison)} (p = {p})"
    lines = [_risk(arms, comparison, looks)]
    if comparison.varying:
        lines.append(f"the bytes vary of: {', '.join(comparison.varying)}")
    skipped = arms.without[0].skipped
    if skipped:
        lines.append(f"not computed here: {', '.join(skipped)} ({next(iter(skipped.values()))})")
    lines.append(
        "looked at: products of torch with one dtype and on two streams; not at attention, Triton, "
        "collectives, or batches that change their size"
    )
    return problem(
        rule,
        words,
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=_EXPORT if rule is WORKSPACE_NEEDED else None,
    )


def _counts(arms: Arms, comparison: WorkspaceComparison) -> str:
    without = f"{amount(comparison.digests_without, 'result')} over {len(arms.without)} starts"
    with_it = f"{amount(comparison.digests_with, 'result')} over {len(arms.with_it)}"
    return f"without {VARIABLE} {without}, with it {with_it}"


def _risk(arms: Arms, comparison: WorkspaceComparison, looks: int) -> str:
    """How far chance can have made this."""
    if comparison.effect is Effect.NONE_SEEN:
        return (
            f"{len(arms.without)} equal starts without the variable miss a second result that "
            f"appears in 30 % of starts with a probability of {percent(round(_missed(arms, 0.3), 3))}, "
            f"and one that appears in 10 % with {percent(round(_missed(arms, 0.1), 3))}"
        )
    if comparison.p <= ALPHA / looks:
        return (
            f"chance makes such a difference in at most {percent(ALPHA)} of proofs "
            f"(Fisher's exact test, {percent(ALPHA / looks)} for each of {looks} looks)"
        )
    return (
        f"chance alone can make this difference between the arms: p = {probability(comparison.p)}, "
        f"and {probability(ALPHA / looks)} would be needed"
    )


def _missed(arms: Arms, rate: float) -> float:
    return equal_starts_probability(len(arms.without), rate)


def fisher_p(first: int, first_of: int, second: int, second_of: int) -> float:
    """The two-sided p-value of `first` of `first_of` against `second` of `second_of`.

    The share of all tables with these margins that are no more likely than the real one (Fisher
    1935, The Design of Experiments). It is 1 if a group is empty.
    """
    total = first + second
    counts = range(max(0, total - second_of), min(total, first_of) + 1)
    weights = [comb(first_of, count) * comb(second_of, total - count) for count in counts]
    real = comb(first_of, first) * comb(second_of, second)
    return sum(weight for weight in weights if weight <= real) / sum(weights)


def equal_starts_probability(starts: int, rate: float) -> float:
    """The probability that all starts are equal, if each is of a second kind with this rate.

    All are of the first kind, or all of the second.
    """
    return (1 - rate) ** starts + rate**starts
