# SPDX-License-Identifier: Apache-2.0
"""Whether an arm's command cannot run as it was written: an error of usage, and no verdict. Pure.

A retry of such a run ends in the same way on every machine. If the command ran in the baseline word
for word, it is written well: then the change broke it, and that is a regression.
"""

from collections.abc import Mapping, Sequence

from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.correctness.verdict.looks import FEWEST
from ci_doctor.model.outcome import ErrorKind, Failure
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.services.misuse import blamed_words, file_name, is_sudden

_HINT = "correct the command; on another machine it would end in the same way"


def unusable(results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]) -> Failure | None:
    """Why no further start makes sense: the command of an arm cannot run; None if none is known."""
    first = _find(results, arms)
    if first is None:
        return None
    arm, failure, reason = first
    return Failure(
        message=f"the command of the {arm} ({failure.service}) cannot run as it is written: "
        f"{reason}",
        hint=_HINT,
        kind=ErrorKind.USAGE,
    )


def unusable_arm(results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]) -> Arm | None:
    """The arm that `unusable` is about."""
    unusable = _find(results, arms)
    return unusable[0] if unusable else None


def _find(
    results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]
) -> tuple[Arm, ServiceFailure, str] | None:
    """The arm whose command cannot run, how it failed last, and why it is the command's fault."""
    for arm in Arm:
        failures = _failures(results, arm)
        if not failures:
            continue
        last = failures[-1]
        is_baseline = arm is Arm.BASELINE
        reason = _of_baseline(failures) if is_baseline else _of_candidate(last, arms)
        if reason:
            return arm, last, reason
    return None


def _failures(results: Sequence[StartResult], arm: Arm) -> list[ServiceFailure]:
    """How the starts of an arm failed; empty if one of them came to be ready or was cut short."""
    failures = []
    for result in results:
        if result.start.arm is not arm:
            continue
        failure = result.failure
        if result.cut_short or failure is None or failure.was_ready:
            return []
        if failure.kind is not FailureKind.DIED:
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
    known: set[str] = set()
    for name in arms[Arm.BASELINE].names:
        known.update(map(file_name, arms[Arm.BASELINE].specs[name].words()))
    # What the baseline's command holds too did run there, as far as anybody knows. Each arm may
    # have a checkout of its own, so files are the same by their names.
    if not blamed or not known.isdisjoint(blamed):
        return None
    return failure.misuse
