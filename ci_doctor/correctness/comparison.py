# SPDX-License-Identifier: Apache-2.0
"""What counts as the same answer: a level, and for numbers a limit. Pure."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.load.choices import ulp_distance

_LIMIT = re.compile(r"(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?) *(nat|ulp)", re.IGNORECASE)


class AnswerLevel(StrEnum):
    """What of an answer is compared; each level holds those before it."""

    # Text, reasoning, tool calls, finish reasons, labels, ranks.
    WORDS = "words"
    # ... and token ids.
    TOKENS = "tokens"
    # ... and log-probabilities, vectors, scores.
    NUMBERS = "numbers"


class LimitUnit(StrEnum):
    """In what the distance of two numbers is measured."""

    # The absolute difference; of log-probabilities that is nat.
    NAT = "nat"
    # Units in the last place of float32.
    ULP = "ulp"


class NumberLimit(Struct, frozen=True, kw_only=True):
    """The largest distance at which two numbers count as the same."""

    value: float
    unit: LimitUnit

    def __str__(self) -> str:
        # Every digit: this is how run.json names the limit of a run.
        return f"{self.value!r} {self.unit}".replace(".0 ", " ")

    def allows(self, left: Sequence[float], right: Sequence[float]) -> bool:
        """Whether two answers have as many numbers, each within the limit of its counterpart."""
        if len(left) != len(right):
            return False
        distance = _DISTANCES[self.unit]
        return all(
            one == other or distance(one, other) <= self.value
            for one, other in zip(left, right, strict=True)
        )


def _nat(one: float, other: float) -> float:
    return abs(one - other)


_DISTANCES: dict[LimitUnit, Callable[[float, float], float]] = {
    LimitUnit.NAT: _nat,
    LimitUnit.ULP: ulp_distance,
}


class Comparison(Struct, frozen=True, kw_only=True):
    """The gate's comparison: its level, and how far numbers may lie apart (None: not at all)."""

    level: AnswerLevel = AnswerLevel.NUMBERS
    limit: NumberLimit | None = None

    @property
    def is_exact(self) -> bool:
        """Whether everything is compared, byte for byte."""
        return self.level is AnswerLevel.NUMBERS and self.limit is None

    @property
    def manner(self) -> str:
        """How two answers are the same, in words."""
        if self.limit is not None:
            return f"in words and tokens, and within {self.limit} in numbers"
        return _MANNERS[self.level]

    def stated(self, reason: str) -> str:
        """A decision's reason, with the manner in which answers are the same."""
        return reason.replace("the same, byte for byte", f"the same, {self.manner}")


_MANNERS = {
    AnswerLevel.WORDS: "in words",
    AnswerLevel.TOKENS: "in words and tokens",
    AnswerLevel.NUMBERS: "byte for byte",
}


def read_comparison(level: AnswerLevel, limit: str | None) -> Comparison:
    """The comparison of `compare` and `limit` as a person writes them.

    Raises UsageError for a limit of another form, and for one that `level` has no numbers for.
    """
    if limit is None:
        return Comparison(level=level)
    match = _LIMIT.fullmatch(limit.strip())
    if match is None:
        raise UsageError(
            f"limit: `{limit}` is no limit", hint='write limit = "0.01 nat" or limit = "4 ulp"'
        )
    if level is not AnswerLevel.NUMBERS:
        raise UsageError(
            f"limit: numbers are not compared with compare = {level}",
            hint="leave limit out, or write compare = numbers",
        )
    unit = LimitUnit(match[2].lower())
    return Comparison(level=level, limit=NumberLimit(value=float(match[1]), unit=unit))
