# SPDX-License-Identifier: Apache-2.0
"""Pure. From points to a probability that the line named first is the cause."""

from collections.abc import Sequence

from ci_doctor.diagnosis.rank import Ranked

# Below it nothing is called a cause.
LEAST = 0.3


def confidence(ranked: Sequence[Ranked]) -> float:
    """The probability, 0 to 1, that the first of `ranked` is the cause; 0 if there is none."""
    if not ranked:
        return 0.0
    return min(0.95, ranked[0].points / 130)
