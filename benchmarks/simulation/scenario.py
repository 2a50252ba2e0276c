# SPDX-License-Identifier: Apache-2.0
"""A world with a name, and what is wanted of the verdicts in it. Prompts 0 to 49 (or 54) are where the environment flakes."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from simulation.worlds import Part

EVERY, HALF, MOST = range(100), range(50), range(55)
ONE, FIVE, THIRTY = range(90, 91), range(90, 95), range(60, 90)  # outside of what flakes
INSIDE = range(5)
EVEN, RARE, RARER = (0.5, 0.5), (0.9, 0.1), (0.95, 0.05)
MEASURED = (0.70, 0.15, 0.10, 0.05)  # a published H100 campaign's four digests


class Kind(StrEnum):
    """What a scenario is, which says what is wanted of it."""

    # Both arms behave alike.
    HEALTHY = "healthy"
    # The candidate gives new answers in every start.
    PERSISTENT = "persistent fault"
    # The candidate is always in a mode that the environment has at times.
    PERMANENT = "mode made permanent"
    # A fault that cannot stay hidden, although no request is wrong in every start.
    MISSED = "fault"
    # A fault in some starts: nobody can promise to find it.
    INTERMITTENT = "intermittent fault"
    # Figures only.
    SHOWN = "shown"


class Scenario(NamedTuple):
    """A world's name, what it is, its parts, whether the candidate is worse in it, and of which kind it is.

    `rate` is that of a mode made permanent. `most_starts` are allowed on average by default. `shows` stands for what the
    parts say of the share of starts in which a request has an answer of its own.
    """

    name: str
    title: str
    parts: Sequence[Part]
    regression: bool
    kind: Kind
    rate: float = 0.0
    most_starts: float | None = None
    shows: float | None = None


def quiet(
    name: str, title: str, *parts: Part, kind: Kind = Kind.HEALTHY, most_starts: float | None = None
) -> Scenario:
    """Both arms behave alike."""
    return Scenario(name, title, parts, regression=False, kind=kind, most_starts=most_starts)


def worse(name: str, title: str, *parts: Part, kind: Kind = Kind.PERSISTENT) -> Scenario:
    """The candidate is worse."""
    return Scenario(name, title, parts, regression=True, kind=kind)
