# SPDX-License-Identifier: Apache-2.0
"""What a page draws, read out of a report's facts part by part. Pure.

Each part may be missing, or be of a form that this version does not know: then the page leaves that part out.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, field

Part = TypeVar("Part")


class StartColumn(Struct, frozen=True, kw_only=True):
    """One start of a service: `A1` of the baseline, `B2` of the candidate; `archived` is of an earlier build."""

    name: str
    arm: str = ""
    archived: bool = False
    ok: bool = True
    answered: int | None = None


class RequestRow(Struct, frozen=True, kw_only=True):
    """`classes` has one entry a start: which of this request's different answers it gave (from 0), None for no answer."""

    id: str
    kind: str = "unknown"
    classes: tuple[int | None, ...] = ()


class Matrix(Struct, frozen=True, kw_only=True):
    """Requests against starts."""

    starts: tuple[StartColumn, ...] = ()
    requests: tuple[RequestRow, ...] = ()


class Divergence(Struct, frozen=True, kw_only=True):
    """Where answers to the differing requests part, in `unit`s from the answer's beginning."""

    positions: tuple[float | None, ...] = ()
    unit: str = "position"


Choice = tuple[str, float | None]


class LogProbs(Struct, frozen=True, kw_only=True):
    """Log-probabilities at one position: tokens with their value on each side, and their distance in float32 ULPs."""

    at: int
    left: tuple[Choice, ...] = ()
    right: tuple[Choice, ...] = ()
    ulp: float | None = None


class Aligned(Struct, frozen=True, kw_only=True):
    """Two answers to one request: what both say `before` they part, and what each says from there.

    `field` is the part of the answer that differs, `gap` how far apart (in nat) the two tokens are that part them.
    """

    request: str
    kind: str = ""
    starts: tuple[str, ...] = ()
    pass_: int | None = field(default=None, name="pass")
    field: str = "text"
    gap: float | None = None
    unit: str = "position"
    position: float | None = None
    hardness: str = "unknown"
    before: str = ""
    left: str = ""
    right: str = ""
    logprobs: tuple[LogProbs, ...] = ()


class Test(Struct, frozen=True, kw_only=True):
    """The exact test of the decision (correctness/verdict/decide.py); `level` is where it is told, `alpha` at most."""

    p: float
    alpha: float
    level: float | None = None
    smallest_p: float | None = None
    labelings: int | None = None
    disputed: tuple[str, ...] = ()


class IdentityDifference(Struct, frozen=True, kw_only=True):
    """A fact that is not the same in all starts; `values` is by start."""

    fact: str
    values: dict[str, Any] = {}


class Identity(Struct, frozen=True, kw_only=True):
    """What was installed, loaded and effective, what is not known of it, and what differs between starts.

    `arms` leads from a fact to its value in the baseline and in the candidate, where these are not the same.
    """

    facts: dict[str, Any] = {}
    unknown: tuple[str, ...] = ()
    differences: tuple[IdentityDifference, ...] = ()
    arms: dict[str, tuple[str | None, str | None]] = {}


def part(facts: Mapping[str, Any], name: str, form: type[Part]) -> Part | None:
    """`facts[name]` as `form`; None where it is missing or anything else."""
    try:
        return convert(facts[name], form) if name in facts else None
    except (
        ValidationError,
        UnicodeEncodeError,
    ):  # the latter for a lone surrogate where a number is wanted
        return None
