# SPDX-License-Identifier: Apache-2.0
"""Pure. What a page draws, read out of a report's facts part by part.

Each part may be missing, or of a form unknown to this version: then the page leaves that part out.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, field

Part = TypeVar("Part")


class StartColumn(Struct, frozen=True, kw_only=True):
    """One start of a service: `A1` of the baseline, `B2` of the candidate.

    `archived`: it is of an earlier build.
    """

    name: str
    arm: str = ""
    archived: bool = False
    ok: bool = True
    answered: int | None = None


class RequestRow(Struct, frozen=True, kw_only=True):
    """One request in all starts.

    `classes` has one entry a start: which of this request's different answers it gave (from 0),
    None for no answer.
    """

    id: str
    kind: str = "unknown"
    classes: tuple[int | None, ...] = ()


class PageMatrix(Struct, frozen=True, kw_only=True):
    """Requests against starts."""

    starts: tuple[StartColumn, ...] = ()
    requests: tuple[RequestRow, ...] = ()


class PageDivergence(Struct, frozen=True, kw_only=True):
    """The first difference of each differing request, in `unit`s from the answer's beginning."""

    positions: tuple[float | None, ...] = ()
    unit: str = "position"


LikelyToken = tuple[str, float | None]


class LogProbs(Struct, frozen=True, kw_only=True):
    """Log-probabilities at one position: tokens with their value on each side.

    `ulp` is the distance of the two sides in float32 ULPs.
    """

    at: int
    left: tuple[LikelyToken, ...] = ()
    right: tuple[LikelyToken, ...] = ()
    ulp: float | None = None


class Aligned(Struct, frozen=True, kw_only=True):
    """Two answers to one request: what is the same `before` the first difference, and both sides.

    `field` is the part of the answer that differs. `gap` is the distance (in nat) of the two tokens
    at the first difference.
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


class PageTest(Struct, frozen=True, kw_only=True):
    """The exact test of the decision (correctness/verdict/decide.py).

    A regression is declared at `level` and below, which is at most `alpha`.
    """

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


class PageIdentity(Struct, frozen=True, kw_only=True):
    """What was installed, loaded and effective, what is unknown of it, and what differs.

    `arms` maps a fact to its values in the baseline and in the candidate, if they differ.
    """

    facts: dict[str, Any] = {}
    unknown: tuple[str, ...] = ()
    differences: tuple[IdentityDifference, ...] = ()
    arms: dict[str, tuple[str | None, str | None]] = {}


def part(facts: Mapping[str, Any], name: str, form: type[Part]) -> Part | None:
    """`facts[name]` as `form`; None if it is missing or anything else."""
    if name not in facts:
        return None
    try:
        return convert(facts[name], form)
    except (ValidationError, UnicodeEncodeError):  # the latter for a lone surrogate as a number
        return None
