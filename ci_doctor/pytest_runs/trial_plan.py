# SPDX-License-Identifier: Apache-2.0
"""Pure. Which trial comes next, and what the trials made so far conclude."""

from collections.abc import Generator, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.pytest_runs.explanation import Conclusion, FlakyKind
from ci_doctor.pytest_runs.trial import (
    MOST_CONFIRMATIONS,
    OF_ORDER,
    BudgetSpent,
    Candidates,
    Ending,
    FlakyTrial,
    LeftItem,
    Suspect,
    TrialResult,
    mostly,
    one_of,
    some_of,
    strictly,
)

# --- the conditions that are changed one at a time, the likely and cheap ones first ---
# The imitation of load follows Silva, Teixeira & d'Amorim, "Shake it! Detecting flaky tests caused by
# concurrency with Shaker" (ICSME 2020, doi:10.1109/ICSME46990.2020.00037), with pauses of the whole
# process group in place of stressor tasks.

FIRST_SEEDS = 6
MORE_SEEDS = 24
# Both ends of the world, a zone with half an hour, one with summer time. At any moment the date of
# one of the first two is not the date in UTC.
ZONES = ("Etc/GMT+12", "Etc/GMT-14", "Asia/Kolkata", "America/New_York")
# Milliseconds to run and to stand still, the mildest first. On a busy machine the signal to stop comes
# late, so that the slowdown is less than these numbers say.
PACES = ((2.0, 18.0), (1.0, 39.0), (1.0, 99.0), (1.0, 199.0))
# What a test may take at that speed, so that a long one does not use up the budget.
_LONGEST_SLOW_S = 30.0


class ChangedCondition(Struct, frozen=True, kw_only=True):
    """A trial that differs from the control in one condition.

    culprit: the condition in words. usual: that of the control, which is the culprit if the test
    fails without the condition. is_certain: whether it decides the ending for certain, so that a
    single trial that ends otherwise speaks against it. control: what it is confirmed against, None
    for the common control.
    """

    kind: FlakyKind
    trial: FlakyTrial
    culprit: str
    usual: str
    is_certain: bool = True
    control: FlakyTrial | None = None


def conditions(control: FlakyTrial, result: TrialResult) -> Iterator[ChangedCondition]:
    """Every condition that may flip the outcome; `result` is what a control trial showed."""
    yield ChangedCondition(
        kind=FlakyKind.EARLIER_RUN,
        trial=replace(control, earlier=(control.target,)),
        culprit=control.target,
        usual="the first run in a clean directory",
    )
    yield from _hash_seeds(control, range(1, FIRST_SEEDS + 1))
    yield from _seeds(control, range(1, FIRST_SEEDS + 1))
    for zone in ZONES:
        yield ChangedCondition(
            kind=FlakyKind.TIME_ZONE,
            trial=replace(control, zone=zone),
            culprit=f"TZ={zone}",
            usual="the time zone of this machine",
        )
    # What the target uses and may not get: fixed ports, services outside.
    own = [each for each in result.bound if each.test == control.target]
    for host, port in dict.fromkeys((each.host, each.port) for each in own):
        yield ChangedCondition(
            kind=FlakyKind.PORT,
            trial=replace(control, occupy=((host, port),)),
            culprit=f"port {port}",
            usual=f"port {port}, if it is free",
        )
    if result.connected:
        hosts = ", ".join(dict.fromkeys(result.connected))
        yield ChangedCondition(
            kind=FlakyKind.NETWORK,
            trial=replace(control, is_offline=True),
            culprit=hosts,
            usual=hosts,
            is_certain=False,
        )
    yield from _timing(control, result)
    yield from _seeds(control, range(FIRST_SEEDS + 1, MORE_SEEDS + 1))
    yield from _hash_seeds(control, range(FIRST_SEEDS + 1, MORE_SEEDS + 1))


def _hash_seeds(control: FlakyTrial, seeds: range) -> Iterator[ChangedCondition]:
    for seed in seeds:
        if seed != control.hash_seed:
            yield ChangedCondition(
                kind=FlakyKind.HASH_SEED,
                trial=replace(control, hash_seed=seed),
                culprit=f"PYTHONHASHSEED={seed}",
                usual=f"PYTHONHASHSEED={control.hash_seed}",
            )


def _seeds(control: FlakyTrial, seeds: range) -> Iterator[ChangedCondition]:
    for seed in seeds:
        if seed != control.seed:
            yield ChangedCondition(
                kind=FlakyKind.RANDOM_SEED,
                trial=replace(control, seed=seed),
                culprit=f"seed {seed}",
                usual=f"seed {control.seed}",
            )


def _timing(control: FlakyTrial, result: TrialResult) -> Iterator[ChangedCondition]:
    # The clock is read somewhere in the test: the boundary comes in its middle, or nearer its begin.
    for part in (2, 6, 3):
        lead_s = result.duration_s / part
        second = replace(control, boundary="second", lead_s=lead_s)
        yield ChangedCondition(
            kind=FlakyKind.CLOCK,
            trial=second,
            culprit="a new second",
            usual="no new second",
            is_certain=False,
        )
        yield ChangedCondition(
            kind=FlakyKind.CLOCK,
            trial=replace(control, boundary="midnight", lead_s=lead_s),
            # A second begins at midnight, too.
            control=second,
            culprit="midnight",
            usual="no midnight",
            is_certain=False,
        )
    for pace in PACES:
        slowdown = sum(pace) / pace[0]
        if result.duration_s * slowdown <= _LONGEST_SLOW_S:
            yield ChangedCondition(
                kind=FlakyKind.LOAD,
                trial=replace(control, slow=pace),
                culprit=f"load: its processes stand still for {pace[1]:g} of {sum(pace):g} ms",
                usual="a machine at its usual speed",
                is_certain=False,
            )


# --- the part of a plan for a test whose ending depends on the tests before it ---
# A victim fails after a polluter, a brittle test passes only after a state-setter. Which test that is
# comes from a bisection, what it leaves from runs in which that is put back (iFixFlakies, see
# explanation.py).

Left = tuple[LeftItem, ...]

_THREAD = "thread:thread"
# By the first part of an item's id. If several items are each enough, the last kind is named: a
# process that locks a file says more than the file, and a variable more than what was made from it.
_KINDS = {
    "state": FlakyKind.STATE,
    "file": FlakyKind.FILE,
    "directory": FlakyKind.DIRECTORY,
    "environ": FlakyKind.ENVIRONMENT,
    "thread": FlakyKind.CONCURRENCY,
    "process": FlakyKind.PROCESS,
}
_RANKS = {name: rank for rank, name in enumerate(_KINDS)}


def order_plan(
    suspect: Suspect, control: FlakyTrial, wanted: Ending
) -> Generator[FlakyTrial, TrialResult, Conclusion | None]:
    """The explanation of a suspect that ends as `wanted` in order, and otherwise alone.

    None if no test before it is confirmed: then the two endings differed by chance.
    """

    def after(tests: Candidates) -> FlakyTrial:
        return replace(control, before=tests)

    culprits = yield from one_of(suspect.before, after, wanted)
    is_confirmed = yield from strictly(after(culprits), control, wanted)
    if not is_confirmed:
        culprits = yield from some_of(suspect.before, after, wanted)
        is_confirmed = yield from strictly(after(culprits), control, wanted)
    if not is_confirmed:
        return None
    explanation = Conclusion(
        kind=_kind((), wanted),
        culprit=", ".join(culprits),
        cause=after(culprits),
        control=control,
    )
    try:
        imported = yield from _imported(culprits, control, wanted)
        if imported is not None:
            return imported
        left = yield from _left(after(culprits), wanted)
    except BudgetSpent:
        # The culprit is confirmed, whatever it leaves.
        return replace(explanation, is_searched=False)
    sentences = tuple(each.sentence for each in left)
    return replace(explanation, kind=_kind(left, wanted), left=sentences)


def _kind(left: Left, wanted: Ending) -> FlakyKind:
    if wanted is Ending.PASSED:
        return FlakyKind.BRITTLE
    if not left:
        return FlakyKind.STATE
    return _KINDS[left[-1].id.partition(":")[0]]


def _rank(item: str) -> int:
    return _RANKS[item.partition(":")[0]]


def _imported(
    culprits: Candidates, control: FlakyTrial, wanted: Ending
) -> Generator[FlakyTrial, TrialResult, Conclusion | None]:
    """The explanation if it is enough to import the culprits' files."""
    own = control.target.partition("::")[0]
    files = dict.fromkeys(each.partition("::")[0] for each in culprits)
    others = tuple(each for each in files if each != own)
    if not others:
        return None
    cause = replace(control, collect=others)
    result = yield cause
    if result.ending is not wanted:
        return None
    is_confirmed = yield from strictly(cause, control, wanted)
    if not is_confirmed:
        return None
    return Conclusion(
        kind=FlakyKind.IMPORT if wanted is Ending.FAILED else FlakyKind.BRITTLE,
        culprit=", ".join(others),
        cause=cause,
        control=control,
    )


def _left(cause: FlakyTrial, wanted: Ending) -> Generator[FlakyTrial, TrialResult, Left]:
    """What the culprits leave that decides the ending; empty if it is nothing that we can see."""

    def restored(ids: Candidates) -> FlakyTrial:
        return replace(cause, restore=ids)

    shown = yield restored(())
    by_id = {each.id: each for each in shown.left}
    ids = tuple(sorted((each for each in by_id if each != _THREAD), key=_rank))
    if ids:
        result = yield restored(ids)
        if result.ending is wanted.opposite:
            needed = yield from one_of(ids, restored, wanted.opposite)
            result = yield restored(needed)
            if result.ending is not wanted.opposite:
                needed = yield from some_of(ids, restored, wanted.opposite)
            return tuple(by_id[each] for each in needed)
    if _THREAD in by_id:
        # A thread may have changed the rest: that is put back too, and the thread never starts.
        result = yield restored((*ids, _THREAD))
        if result.ending is wanted.opposite:
            return (by_id[_THREAD],)
    return ()


# --- which trial comes next, and what the trials made so far conclude ---
# A plan is a generator: it yields a trial, is sent its result, and returns an explanation. The caller
# makes the trials, and throws `BudgetSpent` if the time is over: once for the search, and once more
# for the plain runs that follow it.

Plan = Generator[FlakyTrial, TrialResult, Conclusion]
PartOfPlan = Generator[FlakyTrial, TrialResult, Conclusion | None]

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
        return replace(plain, is_searched=is_searched)
    try:
        return (yield from _simplified(explanation))
    except BudgetSpent:
        return explanation


def _simplified(explanation: Conclusion) -> Plan:
    """`explanation` with trials that leave out the seeds, if these show the same.

    They are what a person runs to see the test fail, and need less on the command line.
    """
    if explanation.cause is None or explanation.control is None:
        return explanation
    cause = explanation.condition(explanation.cause)
    control = explanation.condition(explanation.control)
    expected = explanation.expected
    for trial, ending in ((cause, expected), (control, expected.opposite)):
        result = yield trial
        if result.ending is not ending:
            return explanation
    return replace(explanation, cause=cause, control=control)


def _searched(suspect: Suspect) -> PartOfPlan:
    control = FlakyTrial(
        target=suspect.test, hash_seed=suspect.hash_seed or 0, seed=suspect.seed or 0
    )
    alone = yield control
    endings = {alone.ending}
    if alone.ending is Ending.OTHER and not suspect.before:
        return Conclusion(reason=_reason(suspect, alone))
    if suspect.before:
        in_order = yield replace(control, before=suspect.before)
        endings.add(in_order.ending)
        if endings == {Ending.PASSED, Ending.FAILED}:
            explanation = yield from order_plan(suspect, control, in_order.ending)
            if explanation is not None:
                return explanation
        if alone.ending is in_order.ending is Ending.OTHER:
            return Conclusion(reason=_reason(suspect, alone))
    if suspect.always_failed and Ending.PASSED not in endings:
        return Conclusion(reason="it failed in each attempt")
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
    usual = replace(usual, duration_s=duration_s)
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


def _explanation(condition: ChangedCondition, control: FlakyTrial, ending: Ending) -> Conclusion:
    cause, other, culprit = condition.trial, control, condition.culprit
    if ending is Ending.PASSED:
        cause, other, culprit = control, condition.trial, condition.usual
    return Conclusion(kind=condition.kind, culprit=culprit, cause=cause, control=other)


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
    return Conclusion(plain_runs=runs, plain_failures=failures)
