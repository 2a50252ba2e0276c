# SPDX-License-Identifier: Apache-2.0
"""Seeds of the order of the arms, for tests that name starts in the order in which they are made."""

from itertools import count

from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.schedule import sequence


def seed_of(letters: str) -> int:
    """The smallest seed with which a run of the default rules begins in this order, such as `AB`."""
    for seed in count():
        order = sequence(Rules(seed=seed))
        if "".join(arm.letter for arm in order).startswith(letters):
            return seed
    raise AssertionError


# The baseline first, and a baseline start after the first pair.
SEED = seed_of("ABA")
