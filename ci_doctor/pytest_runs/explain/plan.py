# SPDX-License-Identifier: Apache-2.0
"""Which trial comes next, and what the trials made so far conclude. Pure.

A plan is a generator: it yields a trial, is sent its result, and returns an explanation. The caller
makes the trials, and throws `BudgetSpent` if the time is over: once for the search, and once more
for the plain runs that follow it.
"""

from collections.abc import Generator
from typing import Final

import msgspec

from ci_doctor.pytest_runs.explain.confirmation import mostly, strictly
from ci_doctor.pytest_runs.explain.explanation import Explanation
from ci_doctor.pytest_runs.explain.kinds import FlakyKind
from ci_doctor.pytest_runs.explain.levels import ChangedCondition, conditions
from ci_doctor.pytest_runs.explain.order import order_plan
from ci_doctor.pytest_runs.explain.statistics import MOST_CONFIRMATIONS, OF_ORDER
from ci_doctor.pytest_runs.explain.suspect import Suspect
from ci_doctor.pytest_runs.explain.trial import BudgetSpent, Ending, FlakyTrial, TrialResult

Plan = Generator[FlakyTrial, TrialResult, Explanation]
PartOfPlan = Generator[FlakyTrial, TrialResult, Explanation | None]

# So many that pass exclude a failure rate of 5 % (0.95^59 < 0.05).
PLAIN_RUNS: Final = 59


def explain(suspect: Suspect) -> Plan:
    """The plan for one suspect.

    First alone and in the order of the suite, then one changed condition after the other, and at
    the end plain runs. A condition is named only if it decides the ending in repeated runs.
    """
    is_searched = True
    try:
        explanation = yield from _searched(suspect)
    except BudgetSpent:
        explanation, is_searched = None, False
    if explanation is None:
        plain = yield from _plain(suspect)
        return msgspec.structs.replace(plain, is_searched=is_searched)
    try:
        return (yield from _simplified(explanation))
    except BudgetSpent:
        return explanation


def _simplified(explanation: Explanation) -> Plan:
    """`explanation` with trials that leave out the seeds, if these show the same.

    They are what a person runs to see the test fail, and need less on the command line.
    """
    if explanation.cause is None or explanation.control is None:
        return explanation
    keeps_seed = explanation.kind is FlakyKind.RANDOM_SEED
    keeps_hash_seed = explanation.kind is FlakyKind.HASH_SEED

    def simpler(trial: FlakyTrial) -> FlakyTrial:
        return msgspec.structs.replace(
            trial,
            seed=trial.seed if keeps_seed else None,
            hash_seed=trial.hash_seed if keeps_hash_seed else None,
        )

    cause = yield simpler(explanation.cause)
    control = yield simpler(explanation.control)
    if (cause.ending, control.ending) != (explanation.expected, explanation.expected.opposite):
        return explanation
    return msgspec.structs.replace(
        explanation, cause=simpler(explanation.cause), control=simpler(explanation.control)
    )


def _searched(suspect: Suspect) -> PartOfPlan:
    control = FlakyTrial(
        target=suspect.test, hash_seed=suspect.hash_seed or 0, seed=suspect.seed or 0
    )
    alone = yield control
    endings = {alone.ending}
    if alone.ending is Ending.OTHER and not suspect.before:
        return Explanation(test=suspect.test, reason=_reason(suspect, alone))
    if suspect.before:
        in_order = yield msgspec.structs.replace(control, before=suspect.before)
        endings.add(in_order.ending)
        if endings == {Ending.PASSED, Ending.FAILED}:
            explanation = yield from order_plan(suspect, control, in_order.ending)
            if explanation is not None:
                return explanation
        if alone.ending is in_order.ending is Ending.OTHER:
            return Explanation(test=suspect.test, reason=_reason(suspect, alone))
    if suspect.always_failed and Ending.PASSED not in endings:
        return Explanation(test=suspect.test, reason="it failed in each attempt")
    return (yield from _flipped(control, alone))


def _reason(suspect: Suspect, result: TrialResult) -> str:
    if suspect.test in result.absent:
        return "it was not collected"
    if result.types:
        return f"it fails with {result.types[0]}, in the suite it failed with {suspect.error}"
    return "it was skipped, or its process ended before it"


def _flipped(control: FlakyTrial, alone: TrialResult) -> PartOfPlan:
    """The first condition that changes the usual ending, and does so again and again."""
    again = yield control
    # A first run that failed by chance would make each condition look like a change.
    usual = again if again.ending is alone.ending else (yield control)
    # The shortest run was disturbed least.
    duration_s = min(alone.duration_s, again.duration_s, usual.duration_s)
    usual = msgspec.structs.replace(usual, duration_s=duration_s)
    left = MOST_CONFIRMATIONS - OF_ORDER
    for condition in conditions(control, usual):
        result = yield condition.trial
        if result.ending is not usual.ending.opposite:
            continue
        confirm = strictly if condition.is_certain else mostly
        other = condition.control or control
        is_confirmed = yield from confirm(condition.trial, other, result.ending)
        if is_confirmed:
            return _explanation(condition, other, result.ending)
        left -= 1
        # More confirmations would make a chance finding likely.
        if left == 0:
            break
    return None


def _explanation(condition: ChangedCondition, control: FlakyTrial, ending: Ending) -> Explanation:
    cause, other, culprit = condition.trial, control, condition.culprit
    if ending is Ending.PASSED:
        cause, other, culprit = control, condition.trial, condition.usual
    return Explanation(
        test=control.target, kind=condition.kind, culprit=culprit, cause=cause, control=other
    )


def _plain(suspect: Suspect) -> Plan:
    """Runs with nothing controlled, which tell how often it fails."""
    runs = 0
    failures = 0
    try:
        while runs < PLAIN_RUNS:
            result = yield FlakyTrial(target=suspect.test)
            runs += result.ending is not Ending.OTHER
            failures += result.ending is Ending.FAILED
            if result.ending is Ending.OTHER:
                break
    except BudgetSpent:
        pass
    return Explanation(test=suspect.test, plain_runs=runs, plain_failures=failures)
