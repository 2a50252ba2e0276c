# SPDX-License-Identifier: Apache-2.0
"""Pure. Why the starts of an arm failed, for a verdict that rests on no answers."""

from collections.abc import Sequence

from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.cause import Cause, about_retry
from ci_doctor.model.finding import NextStep
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.model.shortened import shortened
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.findings import finding_of

_ON_STARTS = frozenset({Verdict.FAILED, Verdict.INFRA})
_MOST_CHARACTERS = 300


def with_cause(decision: Decision, experiment: Experiment) -> Decision:
    """`decision` with a reason that begins with what ended the starts, if they decide it."""
    failure = deciding_failure(decision, experiment)
    if failure is None:
        return decision
    cause = _named_by(failure)
    words = failure.message
    if cause is not None:
        words = cause.phrase
    words = shortened(words, _MOST_CHARACTERS)
    return replace(decision, reason=f"{words}; {decision.reason}")


def remedy_of(failure: ServiceFailure) -> NextStep | None:
    """What to do about it: of the cause that its log names, else where to look."""
    cause = _named_by(failure)
    if cause is None:
        return finding_of(failure).remedy
    # Nothing here asks for a retry, whatever the line says of itself.
    said = about_retry(cause.retry, is_proven=False)
    return f"{cause.remedy} {said}".strip()


def deciding_failure(decision: Decision, experiment: Experiment) -> ServiceFailure | None:
    """The failure of a start that speaks for the verdict; None if the verdict rests on answers."""
    if decision.verdict not in _ON_STARTS:
        return None
    baseline = _failures_of(Arm.BASELINE, experiment)
    has_worked = any(start.arm is Arm.BASELINE and not start.failed for start in experiment.starts)
    failures = baseline
    if has_worked:
        failures = _failures_of(Arm.CANDIDATE, experiment) or baseline
    if decision.verdict is Verdict.INFRA:
        return next((each for each in failures if each.kind is FailureKind.OUTSIDE), None)
    counting = [each for each in failures if each.kind is not FailureKind.OUTSIDE]
    # What only the candidate's log calls a cause outside the change is not proven to be one.
    unproven = [replace(each, kind=FailureKind.DIED) for each in failures]
    failures = counting or unproven
    # A start whose log names the cause says more than one that ended without a word.
    named = [each for each in failures if _named_by(each) is not None]
    return next(iter(named or failures), None)


def _failures_of(arm: Arm, experiment: Experiment) -> Sequence[ServiceFailure]:
    of_arm = (result for result in experiment.compared if result.start.arm is arm)
    return [result.failure for result in of_arm if result.failure is not None]


def _named_by(failure: ServiceFailure) -> Cause | None:
    """The cause that ended a service of the change by its own words; None if none did."""
    # The machine's word stands above a log's, and is in the message.
    if failure.kind is not FailureKind.DIED or failure.oom:
        return None
    cause = failure.elsewhere or failure.cause
    if cause is None or not cause.is_final:
        return None
    return cause
