# SPDX-License-Identifier: Apache-2.0
"""The run that would decide an undecided one: starts, minutes, and the command. Pure."""

import math
from collections.abc import Sequence

from ci_doctor.correctness.command_line import command_line
from ci_doctor.correctness.estimate import Estimate
from ci_doctor.correctness.settings import Arm
from ci_doctor.render import formatting

# A proposed budget leaves this much beyond the estimate.
SLACK_SHARE = 0.25
_SLACK_S = 30.0


def resumed_run(
    estimate: Estimate,
    remaining: Sequence[Arm],
    argv: Sequence[str],
    directory: str,
    reserve_s: float = 0.0,
) -> str:
    """How to resume an undecided run that has the starts `remaining` left. No full stop.

    `argv` are the words behind `ci-doctor` of the run to resume, `directory` is its report
    directory, `reserve_s` the part of a budget that is kept for the report.
    """
    budget = _budget(estimate, remaining, reserve_s)
    command = command_line(argv, ["--resume", directory, "--budget", budget])
    return f"up to {_cost(estimate, remaining, 'more start')}: {command}"


def extended_run(
    estimate: Estimate,
    further: Sequence[Arm],
    argv: Sequence[str],
    directory: str,
    max_starts: int,
    reserve_s: float = 0.0,
) -> str:
    """How to resume an undecided run that made every start, up to `max_starts` of them."""
    budget = _budget(estimate, further, reserve_s)
    words = ["--resume", directory, "--max-starts", str(max_starts), "--budget", budget]
    command = command_line(argv, words)
    return f"up to {_cost(estimate, further, 'more start')}: {command}"


def new_run(
    estimate: Estimate,
    order: Sequence[Arm],
    argv: Sequence[str],
    retries: int,
    reserve_s: float = 0.0,
) -> str:
    """How to make a new run of the policy `any` with more `retries`: it has no looks to go on to."""
    budget = _budget(estimate, order, reserve_s)
    command = command_line(argv, ["--retries", str(retries), "--budget", budget])
    return f"a new run of up to {_cost(estimate, order, 'start')}: {command}"


def _cost(estimate: Estimate, arms: Sequence[Arm], what: str) -> str:
    count = formatting.amount(len(arms), what)
    seconds = formatting.duration(estimate.total(arms))
    return f"{count}, about {seconds} at {estimate} a start ({estimate.basis})"


def _budget(estimate: Estimate, arms: Sequence[Arm], reserve_s: float) -> str:
    seconds = estimate.total(arms) * (1 + SLACK_SHARE) + _SLACK_S + reserve_s
    # Whole minutes: a budget to paste, and not a measurement.
    return f"{math.ceil(seconds / 60)}m"
