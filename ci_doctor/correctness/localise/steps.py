# SPDX-License-Identifier: Apache-2.0
"""Which conditions the next pair of starts gets, by what the earlier ones showed. Pure.

What a server got before may be a part of the fault: a start that is given several prompts shows
nothing certain but for what came first. So each condition that a report names is tried in a pair of
its own. A start that tries several conditions only tells which of them is worth such a pair.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
    ReducedCondition,
    ReducedResult,
    ReducedStanding,
)
from ci_doctor.correctness.pass_plan import PassPlan
from ci_doctor.load.prompts import prompt_of
from ci_doctor.load.requests import Request
from ci_doctor.load.shorter_prompt import halved, with_prefix

# Of a prompt of 4,000 characters the shortest is then one of 15.
_PREFIXES = 8
# How often the request alone is sent to one start, at most.
_MOST_PASSES = 64
# Of requests that are under way at once, so many may come before one that was sent before them.
_MARGIN = 8
# Prompts that share no more characters than that in one piece are nothing to a cache.
_SHARED = 12
# What a server does in another way altogether; `stream_options` belong to it.
_STREAM = "stream"

Known = Mapping[ReducedCondition, ReducedResult]


class LocalisationStep(Struct, frozen=True, kw_only=True):
    """A pass to send; its answers are those of `condition`.

    `fresh`: the start got nothing before but what the condition says.
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
    known = {each.condition: each for each in results}
    if subject.alone not in known:
        return tuple(
            _passes(subject, replace(subject.alone, passes=_repeats(subject, known)), fresh=True)
        )
    first = _first_pass(subject, known)
    if first is None:
        return tuple(_with_others(subject, known))
    if first > 1:
        return tuple(_after_any(subject, known, first))
    return tuple(_of_one_request(subject, known))


def _repeats(subject: LocalisedDifference, known: Known) -> int:
    """How often the request is sent alone: as often as the run had sent any request by then."""
    ids = [each.id for each in subject.requests]
    first = known.get(ReducedCondition(concurrency=subject.concurrency))
    if first is None or first.differs:
        places = [ids.index(each) for each in (first.differing if first else subject.differing)]
        place = min(places, default=0) + 1
    else:
        place = len(ids) + 1
    # Requests that are under way at once may arrive in another order.
    return min(max(subject.passes, place + min(subject.concurrency, _MARGIN)), _MOST_PASSES)


def _first_pass(subject: LocalisedDifference, known: Known) -> int | None:
    """The first pass of the request alone that differs; None if none does."""
    passes = [
        each.condition.passes
        for each in known.values()
        if each.differs and each.condition == replace(subject.alone, passes=each.condition.passes)
    ]
    return min(passes, default=None)


# --- the request alone differs at once ---


def _of_one_request(subject: LocalisedDifference, known: Known) -> Iterator[LocalisationStep]:
    second = known.get(replace(subject.alone, passes=2))
    other = _other(subject)
    if second is not None and not second.differs and other is not None:
        # Only the first answer of a start, to whichever request?
        rival = ReducedCondition(request=other.id)
        if rival not in known:
            yield _step(subject, rival, fresh=True)
            after = _step(subject, replace(subject.alone, before=(other.id,)), fresh=True)
            # The start has got the other one just now.
            sent = replace(after.sent, requests=(subject.request,), resets=False)
            yield replace(after, sent=sent)
            return
        if known[rival].differs:
            return
    plain = replace(subject.alone, without=_STREAM)
    if subject.request.body.get(_STREAM) and plain not in known:
        yield _step(subject, plain, fresh=True)
        return
    yield from _shorter(subject, known)


def _other(subject: LocalisedDifference) -> Request | None:
    """A request that does not differ in the run; else one with another prompt."""
    others = [each for each in subject.requests if prompt_of(each) != prompt_of(subject.request)]
    equal = [each for each in others if each.id not in subject.differing]
    return next(iter(equal or others), None)


def _shorter(subject: LocalisedDifference, known: Known) -> Iterator[LocalisationStep]:
    """Beginnings of the prompt: in one start at first, then those at the border, each alone."""
    if subject.length is None:
        return
    # The longest first: what a server remembers of a short prompt would serve the longer ones.
    lengths = list(halved(subject.length.count, _PREFIXES))
    conditions = [replace(subject.alone, prefix=length) for length in lengths]
    if not conditions:
        return
    if conditions[0] not in known:
        for condition in conditions:
            yield _step(subject, condition, fresh=condition is conditions[0])
        return
    differing = [each for each in conditions if each in known and known[each].differs]
    if not differing:
        return
    border = conditions.index(differing[-1])
    # The shortest that differs, and the next one, which does not.
    for condition in conditions[border : border + 2]:
        if _is_unconfirmed(condition, known):
            yield _step(subject, condition, fresh=True)
            return


def _is_unconfirmed(condition: ReducedCondition, known: Known) -> bool:
    """Whether only a start that got other requests before has shown something of it."""
    result = known.get(condition)
    if result is None or result.standing is ReducedStanding.NOT_TRIED:
        return False
    return not result.fresh


# --- it differs alone, but only when it is sent again ---


def _after_any(
    subject: LocalisedDifference, known: Known, passes: int
) -> Iterator[LocalisationStep]:
    """As many other requests before it, which shows whether it takes this one or only so many."""
    others = [each.id for each in subject.requests if each.id != subject.request.id]
    condition = replace(subject.alone, before=tuple(others[: passes - 1]))
    if len(condition.before) == passes - 1 and condition not in known:
        yield _step(subject, condition, fresh=True)


# --- it takes other requests ---


def _with_others(subject: LocalisedDifference, known: Known) -> Iterator[LocalisationStep]:
    # The run was one request, or all one at a time: nothing is smaller.
    if len(subject.requests) == 1:
        return
    one_at_a_time = ReducedCondition()
    if one_at_a_time not in known:
        condition = replace(one_at_a_time, passes=min(subject.passes, 2))
        yield from _passes(subject, condition, fresh=True)
        return
    if known[one_at_a_time].differs:
        yield from _after_certain(subject, known, known[one_at_a_time].differing)
        return
    second = known.get(replace(one_at_a_time, passes=2))
    if second is not None and second.differs:
        place = subject.requests.index(subject.request) + 1
        often = min(len(subject.requests) + place, _MOST_PASSES)
        if replace(subject.alone, passes=often) not in known:
            yield from _passes(subject, replace(subject.alone, passes=often), fresh=True)
        return
    if subject.concurrency > 1:
        yield from _at_once(subject, known)


def _after_certain(
    subject: LocalisedDifference, known: Known, differing: Sequence[str]
) -> Iterator[LocalisationStep]:
    """Which requests it takes before it, if all are sent one at a time."""
    ids = [each.id for each in subject.requests]
    target = next(each for each in ids if each in differing)
    earlier = tuple(ids[: ids.index(target)])
    if not earlier:
        return
    prompts = {each.id: prompt_of(each) for each in subject.requests}

    def shared(other: str) -> int:
        matcher = SequenceMatcher(None, prompts[other], prompts[target], autojunk=False)
        return matcher.find_longest_match().size

    # Caches know parts of prompts, and buffers hold what the last request left.
    best = max(earlier, key=shared)
    likely = dict.fromkeys([*([best] if shared(best) > _SHARED else []), earlier[-1]])
    for each in likely:
        condition = ReducedCondition(request=target, before=(each,))
        if condition not in known:
            yield _step(subject, condition, fresh=True)
            return
        if known[condition].differs:
            return
    yield from _halves(subject, known, target, earlier)


def _halves(
    subject: LocalisedDifference, known: Known, target: str, needed: tuple[str, ...]
) -> Iterator[LocalisationStep]:
    """Half of what comes before, again and again, as long as a half is enough."""
    whole = ReducedCondition(request=target, before=needed)
    while len(needed) > 1:
        middle = len(needed) // 2
        for half in (needed[middle:], needed[:middle]):
            condition = ReducedCondition(request=target, before=half)
            if condition not in known:
                yield _step(subject, condition, fresh=True)
                return
            if known[condition].differs:
                needed = half
                break
        else:
            break
    if whole.before == needed and whole not in known:
        yield _step(subject, whole, fresh=True)


def _at_once(subject: LocalisedDifference, known: Known) -> Iterator[LocalisationStep]:
    """How many requests at once it takes, and whether those beside it in the file are enough."""
    first = known.get(ReducedCondition(concurrency=subject.concurrency))
    passes = 1 if first is not None and first.differs else subject.passes
    rising = []
    concurrency = 2
    while concurrency < subject.concurrency:
        rising.append(ReducedCondition(concurrency=concurrency, passes=passes))
        concurrency *= 2
    if rising and rising[0] not in known:
        for condition in rising:
            yield from _passes(subject, condition, fresh=condition is rising[0])
        return
    differing = [each for each in rising if each in known and known[each].differs]
    if differing:
        border = rising.index(differing[0])
        # The fewest that differ, and the next fewer, which do not.
        for condition in rising[max(border - 1, 0) : border + 1]:
            if _is_unconfirmed(condition, known):
                yield from _passes(subject, condition, fresh=True)
                return
    least = differing[0].concurrency if differing else subject.concurrency
    if passes == 1:
        yield from _beside(subject, known, least)


def _beside(
    subject: LocalisedDifference, known: Known, concurrency: int
) -> Iterator[LocalisationStep]:
    """The request with its neighbours of the file at once, and nothing else."""
    place = subject.requests.index(subject.request)
    first = max(min(place, len(subject.requests) - concurrency), 0)
    near = subject.requests[first : first + concurrency]
    beside = tuple(each.id for each in near if each.id != subject.request.id)
    condition = replace(subject.alone, beside=beside, concurrency=len(beside) + 1)
    if beside and len(near) < len(subject.requests) and condition not in known:
        yield _step(subject, condition, fresh=True)


# --- what is sent ---


def _passes(
    subject: LocalisedDifference, condition: ReducedCondition, *, fresh: bool
) -> Iterator[LocalisationStep]:
    """Every pass of a condition: each is a condition of its own."""
    for number in range(1, condition.passes + 1):
        each = replace(condition, passes=number)
        yield _step(subject, each, fresh=fresh)


def _step(
    subject: LocalisedDifference, condition: ReducedCondition, *, fresh: bool
) -> LocalisationStep:
    requests = requests_of(subject, condition)
    sent = PassPlan(
        requests=requests,
        concurrency=condition.concurrency,
        resets=condition.passes > 1 or not fresh,
    )
    return LocalisationStep(condition=condition, fresh=fresh, sent=sent)


def requests_of(subject: LocalisedDifference, condition: ReducedCondition) -> tuple[Request, ...]:
    """What a condition sends in each pass."""
    if condition.request is None:
        return subject.requests
    by_id = {each.id: each for each in subject.requests}
    by_id[subject.request.id] = subject.request
    request = by_id[condition.request]
    if condition.prefix is not None:
        request = with_prefix(request, condition.prefix)
    if condition.without is not None:
        left_out = {condition.without, f"{condition.without}_options"}
        body = {key: value for key, value in request.body.items() if key not in left_out}
        request = replace(request, body=body)
    if condition.beside:
        wanted = {condition.request, *condition.beside}
        return tuple(each for each in subject.requests if each.id in wanted)
    return (*(by_id[each] for each in condition.before), request)
