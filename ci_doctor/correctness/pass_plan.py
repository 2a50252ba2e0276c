# SPDX-License-Identifier: Apache-2.0
"""What a start sends, pass by pass. Pure."""

from msgspec import Struct

from ci_doctor.correctness.settings import ExperimentPlan
from ci_doctor.load.requests import Request


class PassPlan(Struct, frozen=True, kw_only=True):
    """One pass: `requests` in their order, `concurrency` at a time.

    `resets`: an arm with a `reset` path is reset before it. `pause_s`: no request comes for so long
    before it.
    """

    requests: tuple[Request, ...]
    concurrency: int
    resets: bool
    pause_s: float = 0.0


def passes_of(plan: ExperimentPlan) -> tuple[PassPlan, ...]:
    """The passes of each start of an experiment."""
    passes = []
    for number in range(plan.passes):
        # Before the first pass there is nothing that the server could remember.
        resets = number > 0
        made = PassPlan(requests=plan.requests, concurrency=plan.concurrency, resets=resets)
        passes.append(made)
    return tuple(passes)
