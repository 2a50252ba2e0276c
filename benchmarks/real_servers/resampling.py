# SPDX-License-Identifier: Apache-2.0
"""Runs that might have been: starts that were recorded, drawn again and judged by ci-doctor's own rules. Pure."""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.correctness.verdict.starts import ArmStart

# The outcome of each request in one start.
Outcomes = Mapping[str, str | None]


class Recorded(NamedTuple):
    """Starts of the baseline, and of the candidate without and with the fault."""

    baseline: Sequence[Outcomes]
    sound: Sequence[Outcomes]
    faulty: Sequence[Outcomes]


class Share(NamedTuple):
    """Of so many runs with a fault in `rate` of the starts: how many were let through, and how many against what they print.

    `untrue`: the run printed that no fault in so large a share of starts can hide.
    """

    runs: int
    passed: int
    untrue: int


def resampled(recorded: Recorded, rate: float, rules: Rules, runs: int) -> Share:
    """Draw every start of `runs` runs from those that were recorded.

    Not each start with the fault need show it: the printed bound is about those that do.
    """
    requests = list(recorded.baseline[0])
    shown = sum(each not in recorded.baseline for each in recorded.faulty) / len(recorded.faulty)
    passed = untrue = 0
    for seed in range(runs):
        drawn = random.Random(seed)
        ours = replace(rules, seed=seed)
        starts: list[ArmStart] = []
        while arm := next_arm(starts, requests, ours):
            if arm is Arm.BASELINE:
                pool = recorded.baseline
            else:
                pool = recorded.faulty if drawn.random() < rate else recorded.sound
            number = sum(start.arm is arm for start in starts) + 1
            starts.append(ArmStart(arm=arm, number=number, answers=drawn.choice(pool)))
        decision = decide(starts, requests, ours, complete=True)
        if decision.verdict.value in ("pass", "flaky"):
            passed += 1
            untrue += decision.bound is not None and decision.bound < rate * shown
    return Share(runs, passed, untrue)
