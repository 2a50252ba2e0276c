# SPDX-License-Identifier: Apache-2.0
"""Which causes weigh most, where their numbers end, and which trial tells most between them. Pure."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import Cause, joint
from ci_doctor.correctness.localise.traits import CausePart, SendTable, number
from ci_doctor.correctness.localise.trials import Trial

# A trial that tells less than this (in bits) is not worth two starts.
_LEAST_BITS = 0.15
# A request that is sent costs a little: of two trials that tell as much, the shorter one is made.
_BITS_PER_SEND = 0.001
# What a trial tells about a number within one family counts for less than about the family.
_WITHIN = 0.15
# A rival is named if its weight is this part of all.
_RIVAL = 0.08


class Weighed(Struct, frozen=True, kw_only=True):
    """Causes that fit, the cheapest first, or none that `fits_all` and names of requests; `pool` are trials, which begin at these bits; `plain`: unchanged requests."""

    causes: list[Cause]
    fits_all: bool
    pool: list[Trial]
    begins: list[int]
    plain: int


def _weights(causes: Sequence[Cause]) -> list[float]:
    """The weight of each cause; a family with many numbers weighs no more than one with few."""
    counts = Counter(each.family for each in causes)
    raw = [2.0**-each.cost / counts[each.family] for each in causes]
    total = sum(raw)
    return [each / total for each in raw]


def chosen(weighed: Weighed) -> list[Cause]:
    """One cause of each family that weighs enough, the heaviest first; of several numbers, the safe one.

    Those that say the same of each unchanged request are one.
    """
    causes, plain = weighed.causes, weighed.plain
    families: dict[tuple[str, str], list[Cause]] = {}
    weight: dict[tuple[str, str], float] = defaultdict(float)
    for each, share in zip(causes, _weights(causes), strict=True):
        families.setdefault(each.family, []).append(each)
        weight[each.family] += share
    ranked = sorted(families, key=lambda family: -weight[family])
    named: list[Cause] = []
    for family in ranked:
        if named and weight[family] <= _RIVAL:
            break
        # The last of equal ones has the largest number.
        best = min(reversed(families[family]), key=lambda each: each.mask.bit_count())
        is_apart = all(best.mask & plain != each.mask & plain for each in named)
        # What nobody can tell apart, and claims as little.
        is_as_good = bool(named) and best.cost <= named[0].cost
        if is_apart or (is_as_good and best.is_of_bodies):
            named.append(_with_ends(best, [e for e in families[family] if e.mask == best.mask]))
    return named


def _with_ends(cause: Cause, alike: Sequence[Cause]) -> Cause:
    """The cause with the safe number of each parameter, and the nearest that would say something else.

    Those that are `alike` differ in numbers that no send has.
    """
    made = []
    for at, part in enumerate(cause.target.both or (cause.target,)):
        parts = [(each.target.both or (each.target,))[at] for each in alike]
        if part.least is None or part.said or any(each.family != part.family for each in parts):
            made.append(part)
            continue
        parts.sort(key=lambda each: each.least or 0, reverse=part.family.endswith("or less"))
        made.append(replace(parts[-1], below=parts[0].below))
    target = replace(cause.target, both=tuple(made), words=joint(made)) if made[1:] else made[0]
    return Cause(target=target, context=cause.context)


def candidates(weighed: Weighed) -> list[Cause]:
    """What is tried in fresh starts: the chosen ones, and what claims fewer traits of requests."""
    first = chosen(weighed)[:1]
    for traits in (1, 0):
        fewer = [each for each in weighed.causes if each.traits <= traits]
        first += [each for each in fewer[:1] if each not in first]
    return first


def most_telling(weighed: Weighed) -> Trial | None:
    """The trial whose outcome tells most about which cause it is; None if none tells enough."""
    causes = weighed.causes
    if len(causes) < 2:
        return None
    weights = _weights(causes)
    best, most = None, _LEAST_BITS
    for trial, (begin, end) in zip(weighed.pool, itertools.pairwise(weighed.begins), strict=True):
        slots: dict[int, float] = defaultdict(float)
        joint: dict[tuple[tuple[str, str], int], float] = defaultdict(float)
        families: dict[tuple[str, str], float] = defaultdict(float)
        window = (1 << (end - begin)) - 1
        for cause, weight in zip(causes, weights, strict=True):
            pattern = cause.mask >> begin & window
            slots[pattern] += weight
            joint[cause.family, pattern] += weight
            families[cause.family] += weight
        whole = _bits(slots.values())
        between = whole + _bits(families.values()) - _bits(joint.values())
        told = between + _WITHIN * (whole - between) - _BITS_PER_SEND * (end - begin)
        if told > most:
            best, most = trial, told
    return best


def _bits(shares: Iterable[float]) -> float:
    return -sum(each * math.log2(each) for each in shares if each > 0)


def bracketed(cause: Cause, table: SendTable, bases: Mapping[str, str]) -> Cause:
    """The cause, whose numbers end at the nearest ones that were sent, in starts, and differed or were equal."""
    is_of_names = cause.target.family.startswith(("some", "prompt of", "all of"))
    made = []
    for part, other in ((cause.target, cause.context), (cause.context, cause.target)):
        with_copies = part is cause.context and is_of_names
        both = []
        for each in part.both:
            rest = other.mask
            # A number is the border where all else holds.
            for one in part.both:
                rest &= -1 if one is each else one.mask
            both.append(_measured(each, rest, table, bases, with_copies=False))
        if both:
            is_target = part is cause.target
            text = joint(both) if is_target else " and ".join(each.words for each in both)
            made.append(replace(part, both=tuple(both), words=text))
        else:
            made.append(_measured(part, other.mask, table, bases, with_copies=with_copies))
    return Cause(target=made[0], context=made[1])


def _measured(
    part: CausePart, rest: int, table: SendTable, bases: Mapping[str, str], *, with_copies: bool
) -> CausePart:
    """`rest` are the sends of the other part; `with_copies`: those of which a changed copy is one, too."""
    if not part.said:
        return part
    if part.unsure & table.wrong:
        # On both sides of its number it is not sure of all.
        sure = table.mask(each.wrong is False for each in table.sends) & rest & ~part.unsure
        values = {abs(value) for at, value in enumerate(part.numbers) if sure >> at & 1}
        return part if part.below in values else replace(part, below=None)
    # Of a beginning each request has an edge of its own.
    with_copies = with_copies and "prefix" in part.family
    named = {table.sends[at].name for at in range(len(table.sends)) if rest >> at & 1}
    differing: dict[str, list[float]] = defaultdict(list)
    equal: dict[str, list[float]] = defaultdict(list)
    for at, each in enumerate(table.sends):
        base = bases.get(each.name, each.name)
        is_meant = rest >> at & 1 or (with_copies and base in named)
        is_known = each.wrong is not None or (each.is_short and part.by_place)
        is_number = not math.isnan(part.numbers[at])
        # Beside what the cause says, changed copies may differ.
        is_said = with_copies or not each.wrong or part.mask >> at & 1
        if is_meant and is_known and is_number and is_said and not part.unsure >> at & 1:
            key = base if with_copies else ""
            (differing if each.wrong else equal)[key].append(part.numbers[at])
    # What never came is no number.
    below = {
        name: max(
            (x for x in equal[name] if x < min(some) and (x >= 0 or min(some) < 0)),
            default=None,
        )
        for name, some in differing.items()
    }
    if not differing:
        return part
    # Of several requests with an edge of each its own, one is told: the one with the nearest numbers.
    name = min(differing, key=lambda each: _gap(min(differing[each]), below[each]))
    least, most = min(differing[name]), below[name]
    words = part.said.format(number(abs(least)))
    if len(differing) > 1:
        words += f", measured with {name}"
    return replace(part, words=words, least=abs(least), below=None if most is None else abs(most))


def _gap(least: float, below: float | None) -> float:
    return math.inf if below is None else least - below
