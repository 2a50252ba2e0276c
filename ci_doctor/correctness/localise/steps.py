# SPDX-License-Identifier: Apache-2.0
"""Which conditions the next pair of starts gets, by what the earlier ones showed. Pure.

A start is what costs, so each gets many conditions, from the smallest on. Only the first of them
meets a server that has answered nothing else. So a later one that differs is tried again in a fresh
pair before it counts as confirmed.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
    ReducedCondition,
    ReducedResult,
    smallest,
)
from ci_doctor.correctness.pass_plan import PassPlan
from ci_doctor.load.requests import Request
from ci_doctor.load.shorter_prompt import halved, with_prefix

# Of a prompt of 4,000 characters the shortest is then one of 15.
_PREFIXES = 8


class LocalisationStep(Struct, frozen=True, kw_only=True):
    """A pass to send; its answers are those of `condition`.

    `fresh`: nothing was sent to the start before but earlier passes of the same condition.
    """

    condition: ReducedCondition
    fresh: bool
    sent: PassPlan


def next_steps(
    subject: LocalisedDifference, results: Sequence[ReducedResult]
) -> tuple[LocalisationStep, ...]:
    """What to send to the next start of each arm; empty once nothing smaller can be found.

    `results` hold that of the experiment itself, which differs.
    """
    known = {each.condition for each in results}
    if subject.alone not in known:
        return tuple(_alone(subject))
    best = smallest(results)
    if best is None:
        return ()
    if not best.fresh:
        return tuple(_again(subject, best.condition))
    is_many = best.condition.request is None and best.condition.concurrency > 1
    if is_many and len(subject.requests) > 1 and ReducedCondition() not in known:
        return tuple(_rising(subject, best.condition.passes))
    return ()


def _alone(subject: LocalisedDifference) -> Iterator[LocalisationStep]:
    """One request, then ever shorter beginnings of its prompt."""
    request = subject.request.id
    yield from _all_passes(subject, subject.alone, fresh=True)
    if subject.length is None:
        return
    # The longest first: what a server remembers of a short prompt would serve the longer ones.
    for length in halved(subject.length.count, _PREFIXES):
        condition = ReducedCondition(request=request, prefix=length)
        yield from _all_passes(subject, condition, fresh=False)


def _again(subject: LocalisedDifference, condition: ReducedCondition) -> Iterator[LocalisationStep]:
    """A condition in a fresh start. One request more tells if it takes a second pass."""
    if condition.request is None:
        yield from _passes(subject, condition, fresh=True)
    else:
        yield from _all_passes(subject, condition, fresh=True)


def _rising(subject: LocalisedDifference, passes: int) -> Iterator[LocalisationStep]:
    """All requests one at a time, then ever more at once, short of the experiment's."""
    yield from _all_passes(subject, ReducedCondition(), fresh=True)
    concurrency = 2
    while concurrency < subject.concurrency:
        # After all these passes the server remembers: another pass for that would tell nothing.
        condition = ReducedCondition(concurrency=concurrency, passes=passes)
        yield _step(subject, condition, fresh=False, resets=True)
        concurrency *= 2


def _all_passes(
    subject: LocalisedDifference, condition: ReducedCondition, *, fresh: bool
) -> Iterator[LocalisationStep]:
    """The first pass, and the second if the experiment has one."""
    most = min(subject.passes, 2)
    yield from _passes(subject, replace(condition, passes=most), fresh=fresh)


def _passes(
    subject: LocalisedDifference, condition: ReducedCondition, *, fresh: bool
) -> Iterator[LocalisationStep]:
    """Every pass of a condition: each is a condition of its own."""
    for number in range(1, condition.passes + 1):
        each = replace(condition, passes=number)
        resets = number > 1 or not fresh
        yield _step(subject, each, fresh=fresh, resets=resets)


def _step(
    subject: LocalisedDifference, condition: ReducedCondition, *, fresh: bool, resets: bool
) -> LocalisationStep:
    sent = PassPlan(
        requests=requests_of(subject, condition),
        concurrency=condition.concurrency,
        resets=resets,
    )
    return LocalisationStep(condition=condition, fresh=fresh, sent=sent)


def requests_of(subject: LocalisedDifference, condition: ReducedCondition) -> tuple[Request, ...]:
    """What a condition sends in each pass."""
    if condition.request is None:
        return subject.requests
    if condition.prefix is None:
        return (subject.request,)
    return (with_prefix(subject.request, condition.prefix),)
