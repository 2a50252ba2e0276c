# SPDX-License-Identifier: Apache-2.0
"""Conditions under which the arms are compared again, and what came of them. Pure."""

import math
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from ci_doctor.load.requests import Request
from ci_doctor.load.shorter_prompt import PromptLength

# So many ids are named one by one.
_NAMED = 3


class ReducedCondition(Struct, frozen=True, kw_only=True):
    """How requests are sent to a start; the answers of the last of the `passes` are compared.

    `request` is the id of the only one that is compared; None: all of them. `before` are the ids of
    those that the start got before it, one at a time, and `beside` of those that are under way
    with it. `prefix` is the length to which its prompt is cut; None: the whole prompt. `without` is a
    key that its body lacks. `concurrency` requests are under way at once.
    """

    request: str | None = None
    before: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    prefix: int | None = None
    without: str | None = None
    concurrency: int = 1
    passes: int = 1

    @property
    def size(self) -> tuple[bool, int, int, int, float, bool]:
        """The order of conditions: one request before all, then concurrency, what comes before, length."""
        length = math.inf if self.prefix is None else self.prefix
        return (
            self.request is None,
            self.concurrency,
            # A request that is sent again is one that comes before.
            len(self.before) + self.passes - 1,
            self.passes,
            length,
            self.without is None,
        )


class ReducedStanding(StrEnum):
    """Whether the difference is still there."""

    DIFFERS = "differs"
    EQUAL = "equal"
    NOT_TRIED = "not tried"


class ReducedResult(Struct, frozen=True, kw_only=True):
    """What came of a condition.

    `fresh`: the start got nothing but what the condition says. `differing` are the ids of requests on which the
    candidate gave an answer that no baseline start gave, of the `compared` ones. `pairs` is the
    number of starts of each arm, 0 if they are those of the experiment. `why` is a reason.
    """

    condition: ReducedCondition
    standing: ReducedStanding
    fresh: bool = True
    differing: tuple[str, ...] = ()
    compared: int = 0
    pairs: int = 1
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
        if condition.before:
            return f"{condition.request} after {_named(condition.before)}"
        if condition.beside:
            return f"{condition.request} at once with {_named(condition.beside)}"
        if condition.request is not None:
            return f"{condition.request} alone{self._changed(condition)}"
        many = f"all {len(self.requests)} requests"
        if condition.concurrency == 1:
            return f"{many}, one at a time"
        return f"{many}, {condition.concurrency} at once"

    def _changed(self, condition: ReducedCondition) -> str:
        if condition.without is not None:
            return f", without `{condition.without}`"
        if condition.prefix is None or self.length is None:
            return ""
        return f", first {condition.prefix} of {self.length.count} {self.length.unit}"

    def _pass(self, condition: ReducedCondition) -> str:
        if condition.passes == 1:
            return "one pass"
        second = "second pass" if condition.passes == 2 else f"pass {condition.passes}"
        return f"{second} after a reset" if self.resets else second


def _named(ids: tuple[str, ...]) -> str:
    """`r0 and r1`, or `9 others (r0 to r8)`: they come in the order of the file."""
    if len(ids) > _NAMED:
        return f"{len(ids)} others ({ids[0]} to {ids[-1]})"
    *most, last = ids
    return f"{', '.join(most)} and {last}" if most else last


def merged(
    before: Iterable[ReducedResult], new: Iterable[ReducedResult]
) -> tuple[ReducedResult, ...]:
    """The results by condition, in the order in which they were first tried.

    What a fresh start shows takes the place of what a start showed after other requests.
    """
    results = {each.condition: each for each in before}
    for each in new:
        old = results.get(each.condition)
        is_tried = each.standing is not ReducedStanding.NOT_TRIED
        if old is None or (each.fresh and is_tried):
            results[each.condition] = each
    return tuple(results.values())


def smallest(results: Iterable[ReducedResult]) -> ReducedResult | None:
    """The smallest condition that a fresh start has shown to differ; None if there is none."""
    differing = [each for each in results if each.differs and each.fresh]
    return min(differing, key=lambda each: each.condition.size, default=None)
