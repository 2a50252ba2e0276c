# SPDX-License-Identifier: Apache-2.0
"""Conditions under which the arms are compared again, and what came of them. Pure."""

import math
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.load.requests import Request
from ci_doctor.load.shorter_prompt import PromptLength

_AFTER_OTHERS = "it differs only after other requests in the same start"


class ReducedCondition(Struct, frozen=True, kw_only=True):
    """How requests are sent to a start; the answers of the last of the `passes` are compared.

    `request` is the id of the only one; None: all of them. `prefix` is the length to which its
    prompt is cut; None: the whole prompt. `concurrency` requests are under way at once.
    """

    request: str | None = None
    prefix: int | None = None
    concurrency: int = 1
    passes: int = 1

    @property
    def size(self) -> tuple[bool, int, int, float]:
        """The order of conditions: one request before all, then concurrency, passes, length."""
        length = math.inf if self.prefix is None else self.prefix
        return self.request is None, self.concurrency, self.passes, length


class ReducedStanding(StrEnum):
    """Whether the difference is still there."""

    DIFFERS = "differs"
    EQUAL = "equal"
    NOT_TRIED = "not tried"


class ReducedResult(Struct, frozen=True, kw_only=True):
    """What came of a condition.

    `fresh`: the start got nothing else before it. `differing` are the ids of requests on which the
    candidate gave an answer that no baseline start gave, of the `compared` ones. `pairs` is the
    number of starts of each arm, 0 if they are those of the experiment. `doubted`: a fresh start did
    not confirm the like. `why` is a reason, or a remark.
    """

    condition: ReducedCondition
    standing: ReducedStanding
    fresh: bool = True
    differing: tuple[str, ...] = ()
    compared: int = 0
    pairs: int = 1
    doubted: bool = False
    why: str = ""

    @property
    def differs(self) -> bool:
        """Whether the difference is still there."""
        return self.standing is ReducedStanding.DIFFERS


class LocalisedDifference(Struct, frozen=True, kw_only=True):
    """What is localised: a difference on `request`, seen with all `requests`.

    `differing` are the ids of the requests that differ in the same way, `request` among them.
    So many of them as `concurrency` were under way at once, in `passes`. `resets`: the candidate is reset between passes.
    `length` is that of the prompt; None if it cannot be cut. Of `pairs` pairs of starts, one of each
    arm, `differing_pairs` differ on `request`.
    """

    request: Request
    requests: tuple[Request, ...]
    differing: tuple[str, ...]
    concurrency: int
    passes: int
    resets: bool
    length: PromptLength | None
    pairs: int
    differing_pairs: int

    @property
    def original(self) -> ReducedCondition:
        """The condition of the experiment."""
        return ReducedCondition(concurrency=self.concurrency, passes=self.passes)

    @property
    def alone(self) -> ReducedCondition:
        """The smallest condition with the whole prompt."""
        return ReducedCondition(request=self.request.id)

    @property
    def always_differs(self) -> bool:
        """Whether every pair of starts differs: then one that is equal tells something."""
        return self.differing_pairs == self.pairs

    def words(self, condition: ReducedCondition) -> str:
        """`r1 alone, first 40 of 80 characters, second pass`."""
        return f"{self._requests(condition)}, {self._pass(condition)}"

    def _requests(self, condition: ReducedCondition) -> str:
        if condition.request is not None:
            alone = f"{condition.request} alone"
            if condition.prefix is None or self.length is None:
                return alone
            return f"{alone}, first {condition.prefix} of {self.length.count} {self.length.unit}"
        many = f"all {len(self.requests)} requests"
        if condition.concurrency == 1:
            return f"{many}, one at a time"
        return f"{many}, {condition.concurrency} at once"

    def _pass(self, condition: ReducedCondition) -> str:
        if condition.passes == 1:
            return "one pass"
        second = "second pass" if condition.passes == 2 else f"pass {condition.passes}"
        return f"{second} after a reset" if self.resets else second


def merged(
    before: Iterable[ReducedResult], new: Iterable[ReducedResult]
) -> tuple[ReducedResult, ...]:
    """The results by condition, in the order in which they were first tried.

    What a fresh start shows takes the place of what a start showed after other requests.
    """
    results = {each.condition: each for each in before}
    for each in new:
        old = results.get(each.condition)
        if old is None:
            results[each.condition] = each
        elif each.fresh and each.standing is not ReducedStanding.NOT_TRIED:
            results[each.condition] = each
            if old.differs and not each.differs:
                results = {key: _doubted(value, each) for key, value in results.items()}
    return tuple(results.values())


def _doubted(result: ReducedResult, refuting: ReducedResult) -> ReducedResult:
    """A result, if a fresh start has shown that another like it comes from what was sent before."""
    if result is refuting:
        return replace(result, why=_AFTER_OTHERS)
    one, other = result.condition, refuting.condition
    is_like = (one.request, one.passes) == (other.request, other.passes)
    if result.fresh or not result.differs or not is_like or one.request is None:
        return result
    return replace(result, doubted=True, why=_AFTER_OTHERS)


def smallest(results: Iterable[ReducedResult]) -> ReducedResult | None:
    """The smallest condition under which the difference is still there; None if it is nowhere."""
    differing = [each for each in results if each.differs and not each.doubted]
    return min(differing, key=lambda each: each.condition.size, default=None)
