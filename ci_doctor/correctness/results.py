# SPDX-License-Identifier: Apache-2.0
"""What an experiment leaves behind, as values, and the command that could not run at all. Pure.

A retry of a run with such a command ends in the same way on every machine. If the command ran in the
baseline word for word, it is written well: then the change broke it, and that is a regression.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, ArmPlan, Comparison, Rules
from ci_doctor.correctness.verdict.looks import FEWEST
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.decodable import decodable
from ci_doctor.load.looks import AnswerLooks
from ci_doctor.model.facts.correctness import ProofReading, SharedUse
from ci_doctor.model.facts.launch import ServiceRun
from ci_doctor.model.outcome import ErrorKind, Failure
from ci_doctor.model.service import FailureKind, ServiceFailure, StopResult
from ci_doctor.services.misuse import blamed_words, file_name, is_sudden

T = TypeVar("T", bound=Struct)

# The samples in a report directory, and the folder of the starts that localise a difference.
SAMPLES = "samples.jsonl"
LOCALISE = "localise"


class ExperimentEnding(StrEnum):
    """Why no further start was made."""

    COMPLETE = "complete"
    BUDGET = "budget"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    SIGHUP = "SIGHUP"
    SIGQUIT = "SIGQUIT"

    @property
    def is_signal(self) -> bool:
        """Whether a signal ended it."""
        return self not in {ExperimentEnding.COMPLETE, ExperimentEnding.BUDGET}


class StartResult(Struct, frozen=True, kw_only=True):
    """One start: its answers (`start`), its `failure`, and its duration in seconds.

    It is what is recorded, archived, resumed and reported: a line of `starts.jsonl` and the first line
    of an archived file hold it as it is, but for the answers that stand in its `samples` lines of
    samples.jsonl (see `without_answers`).

    `digests` leads from a request to its outputs by pass, and `errors` to its first error. `services`
    are its services as `launch` has them, and `stopped` is what their stop brought to light.
    `facts` are what was loaded
    and effective while it ran. A start that was `cut_short` by the budget or a signal is no
    evidence, and neither is the `warm_up`. `proof` is what was read of the arm's proof, `shared` what it
    did with files that both arms reach.
    """

    start: ArmStart
    failure: ServiceFailure | None
    duration_s: float
    digests: Mapping[str, Mapping[int, str]]
    errors: Mapping[str, str]
    samples: int = 0
    services: tuple[ServiceRun, ...] = ()
    stopped: StopResult = StopResult(duration_s=0.0)
    facts: Mapping[str, str] = {}
    cut_short: bool = False
    warm_up: bool = False
    proof: tuple[ProofReading, ...] = ()
    shared: SharedUse = SharedUse()

    @property
    def logs(self) -> tuple[str, ...]:
        """The log of each service that was started."""
        return tuple(each.log for each in self.services if each.log is not None)

    @property
    def ready_after_s(self) -> float | None:
        """The seconds until its last service was ready; None if that never came."""
        begun = [each.started_at for each in self.services if each.started_at is not None]
        ready = {
            each.name: each.started_at + each.ready_s
            for each in self.services
            if each.started_at is not None and each.ready_s is not None
        }
        # A service may need a second start, on another port.
        are_ready = ready.keys() == {each.name for each in self.services}
        return max(ready.values()) - min(begun) if ready and are_ready else None

    @property
    def counts(self) -> bool:
        """Whether its answers are evidence."""
        return not self.cut_short and not self.warm_up


def without_answers(result: StartResult) -> StartResult:
    """A start without what its lines of samples.jsonl hold."""
    start = replace(result.start, answers={}, levels={}, prompts={}, looks=AnswerLooks())
    return replace(result, start=start, digests={}, errors={})


def with_answers(record: StartResult, answers: StartResult) -> StartResult:
    """A start with the answers of another: those that were read again, or archived."""
    other = answers.start
    start = replace(
        record.start,
        answers=other.answers,
        levels=other.levels,
        prompts=other.prompts,
        looks=other.looks,
    )
    return replace(record, start=start, digests=answers.digests, errors=answers.errors)


def encoded(value: Struct) -> Any:
    """Builtins of what holds a StartResult, for JSON; `decoded` makes the same of them."""
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def decoded(value: object, kind: type[T]) -> T:
    """The struct in a value that JSON gave. Raises msgspec.ValidationError."""
    return msgspec.convert(
        value, decodable(kind), dec_hook=lambda of, plain: of(plain), str_keys=True
    )


class Experiment(Struct, frozen=True, kw_only=True):
    """The starts in the order in which they were made, and every output by its digest.

    `archived` are the baseline starts of earlier builds that stand beside them. `comparison` is the
    gate's: the answers of each start are outcomes at its level. `deadline` is the monotonic time that
    the first start left for the rest; None if it is the plan's own.
    """

    results: tuple[StartResult, ...]
    outputs: Mapping[str, Mapping[str, Any]]
    ending: ExperimentEnding
    rules: Rules = Rules()
    comparison: Comparison = Comparison()
    archived: tuple[StartResult, ...] = ()
    deadline: float | None = None

    @property
    def compared(self) -> tuple[StartResult, ...]:
        """Every start whose answers are evidence, archived ones first."""
        return (*self.archived, *(result for result in self.results if result.counts))

    @property
    def starts(self) -> tuple[ArmStart, ...]:
        """The answers of each of them."""
        return tuple(result.start for result in self.compared)


def unusable(results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]) -> Failure | None:
    """Why no further start makes sense: the command of an arm cannot run; None if none is known."""
    wrong = _wrong_command(results, arms)
    if wrong is None:
        return None
    arm, failure, reason = wrong
    return Failure(
        message=f"the command of the {arm} ({failure.service}) cannot run as it is written: "
        f"{reason}",
        hint="correct the command; on another machine it would end in the same way",
        kind=ErrorKind.USAGE,
    )


def unusable_arm(results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]) -> Arm | None:
    """The arm that `unusable` is about."""
    wrong = _wrong_command(results, arms)
    return wrong[0] if wrong else None


def _wrong_command(
    results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]
) -> tuple[Arm, ServiceFailure, str] | None:
    """The arm whose command cannot run, how it failed last, and why it is the command's fault."""
    for arm in Arm:
        failures = _failures(results, arm)
        if failures:
            is_baseline = arm is Arm.BASELINE
            reason = _of_baseline(failures) if is_baseline else _of_candidate(failures[-1], arms)
            if reason:
                return arm, failures[-1], reason
    return None


def _failures(results: Sequence[StartResult], arm: Arm) -> list[ServiceFailure]:
    """How the starts of an arm failed; empty if one of them came to be ready or was cut short."""
    failures = []
    for result in results:
        failure = result.failure
        if result.start.arm is not arm:
            continue
        is_over = failure is not None and failure.kind is FailureKind.DIED and not failure.was_ready
        if failure is None or result.cut_short or not is_over:
            return []
        failures.append(failure)
    return failures


def _of_baseline(failures: Sequence[ServiceFailure]) -> str | None:
    last = failures[-1]
    if last.misuse:
        return last.misuse
    # Without a word in the log, one such end is not enough. A log that names a cause tells what
    # ended a command that ran.
    sudden = [
        each
        for each in failures
        if each.cause is None and is_sudden(each.exit_code, each.duration_s)
    ]
    if len(failures) >= FEWEST and len(sudden) == len(failures):
        return f"it ends with exit code {last.exit_code} within a second in every start"
    return None


def _of_candidate(failure: ServiceFailure, arms: Mapping[Arm, ArmPlan]) -> str | None:
    """Why the candidate's command is wrong; None if the change may have broken it."""
    if failure.misuse is None or failure.misused is None:
        return None
    own = arms[Arm.CANDIDATE].specs[failure.service].words()
    blamed = {file_name(word) for word in blamed_words(failure.misused, own)}
    baseline = arms[Arm.BASELINE]
    known = {file_name(word) for name in baseline.names for word in baseline.specs[name].words()}
    # What the baseline's command holds too did run there, as far as anybody knows. Each arm may
    # have a checkout of its own, so files are the same by their names.
    if not blamed or not known.isdisjoint(blamed):
        return None
    return failure.misuse


def relative(path: str | Path, directory: Path) -> str:
    """A path inside the report directory relative to it; any other path as it is."""
    # A report directory may be moved, or downloaded as an artifact: its own logs stay findable.
    place = Path(path)
    return str(place.relative_to(directory) if place.is_relative_to(directory) else place)
