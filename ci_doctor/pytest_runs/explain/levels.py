# SPDX-License-Identifier: Apache-2.0
"""The conditions that are changed one at a time, the likely and cheap ones first. Pure.

The imitation of load follows Silva, Teixeira & d'Amorim, "Shake it! Detecting flaky tests caused by
concurrency with Shaker" (ICSME 2020, doi:10.1109/ICSME46990.2020.00037), with pauses of the whole
process group in place of stressor tasks.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from ci_doctor.pytest_runs.explain.kinds import FlakyKind
from ci_doctor.pytest_runs.explain.trial import FlakyTrial, TrialResult

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
        trial=msgspec.structs.replace(control, earlier=(control.target,)),
        culprit=control.target,
        usual="the first run in a clean directory",
    )
    yield from _hash_seeds(control, range(1, FIRST_SEEDS + 1))
    yield from _seeds(control, range(1, FIRST_SEEDS + 1))
    yield from _zones(control)
    yield from _refused(control, result)
    yield from _timing(control, result)
    yield from _seeds(control, range(FIRST_SEEDS + 1, MORE_SEEDS + 1))
    yield from _hash_seeds(control, range(FIRST_SEEDS + 1, MORE_SEEDS + 1))


def _hash_seeds(control: FlakyTrial, seeds: range) -> Iterator[ChangedCondition]:
    for seed in seeds:
        if seed != control.hash_seed:
            yield ChangedCondition(
                kind=FlakyKind.HASH_SEED,
                trial=msgspec.structs.replace(control, hash_seed=seed),
                culprit=f"PYTHONHASHSEED={seed}",
                usual=f"PYTHONHASHSEED={control.hash_seed}",
            )


def _seeds(control: FlakyTrial, seeds: range) -> Iterator[ChangedCondition]:
    for seed in seeds:
        if seed != control.seed:
            yield ChangedCondition(
                kind=FlakyKind.RANDOM_SEED,
                trial=msgspec.structs.replace(control, seed=seed),
                culprit=f"seed {seed}",
                usual=f"seed {control.seed}",
            )


def _zones(control: FlakyTrial) -> Iterator[ChangedCondition]:
    for zone in ZONES:
        yield ChangedCondition(
            kind=FlakyKind.TIME_ZONE,
            trial=msgspec.structs.replace(control, zone=zone),
            culprit=f"TZ={zone}",
            usual="the time zone of this machine",
        )


def _refused(control: FlakyTrial, result: TrialResult) -> Iterator[ChangedCondition]:
    """What the target uses and may not get: fixed ports, services outside."""
    own = [each for each in result.bound if each.test == control.target]
    for host, port in dict.fromkeys((each.host, each.port) for each in own):
        yield ChangedCondition(
            kind=FlakyKind.PORT,
            trial=msgspec.structs.replace(control, occupy=((host, port),)),
            culprit=f"port {port}",
            usual=f"port {port}, if it is free",
        )
    if result.connected:
        hosts = ", ".join(dict.fromkeys(result.connected))
        yield ChangedCondition(
            kind=FlakyKind.NETWORK,
            trial=msgspec.structs.replace(control, is_offline=True),
            culprit=hosts,
            usual=hosts,
            is_certain=False,
        )


def _timing(control: FlakyTrial, result: TrialResult) -> Iterator[ChangedCondition]:
    # The clock is read somewhere in the test: the boundary comes in its middle, or nearer its begin.
    for part in (2, 6, 3):
        lead_s = result.duration_s / part
        second = msgspec.structs.replace(control, boundary="second", lead_s=lead_s)
        yield ChangedCondition(
            kind=FlakyKind.CLOCK,
            trial=second,
            culprit="a new second",
            usual="no new second",
            is_certain=False,
        )
        yield ChangedCondition(
            kind=FlakyKind.CLOCK,
            trial=msgspec.structs.replace(control, boundary="midnight", lead_s=lead_s),
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
                trial=msgspec.structs.replace(control, slow=pace),
                culprit=f"load: its processes stand still for {pace[1]:g} of {sum(pace):g} ms",
                usual="a machine at its usual speed",
                is_certain=False,
            )
