# SPDX-License-Identifier: Apache-2.0
"""Reads `run.json` and the kernel's random numbers: the order of the starts of a run."""

import os
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.evidence.run_identity import SEED, RunDescription, read_run
from ci_doctor.correctness.settings import Rules
from ci_doctor.errors import UsageError

# Short enough to type, and far more orders than a run can have.
_BYTES = 4


def with_order(rules: Rules, seed: int | None, resumed: Path | None) -> Rules:
    """`rules` with the seed of the order, and with the limits under which the run was begun.

    A run that is `resumed` in that directory keeps its seed: the order goes on. A new run without a
    `seed` gets one from the kernel, because the test uses that the order is chance. Raises
    UsageError if a resumed run had a larger `max_starts`.
    """
    run = None if resumed is None else _recorded(resumed)
    if seed is None:
        seed = _seed_of(run)
    before = () if run is None else run.max_starts
    if before and max(before) > rules.max_starts:
        raise UsageError(
            f"max_starts {max(before)} -> {rules.max_starts}: a run is resumed with as many starts "
            "or more, because its looks are planned for all of them",
            hint=f"write --max-starts {max(before)} or more, or leave --resume out",
        )
    earlier = tuple(most for most in before if most != rules.max_starts)
    return replace(rules, seed=seed, earlier_max_starts=earlier)


def _recorded(directory: Path) -> RunDescription | None:
    try:
        return read_run(directory)
    except UsageError:
        # Whoever resumes this run gets the reason then.
        return None


def _seed_of(run: RunDescription | None) -> int:
    if run is not None:
        seed = run.identity.settings.get(SEED)
        if isinstance(seed, int):
            return seed
    return int.from_bytes(os.urandom(_BYTES), "big")
