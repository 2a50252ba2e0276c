# SPDX-License-Identifier: Apache-2.0
"""The causes that a difference may have, and which of them fit everything that was seen. Pure.

A cause is a target (which requests differ) and a context (after what, with what beside). Each is a
set of sends, as the bits of a number, so thousands of pairs are compared with what was seen in a
moment. This is a version space (Mitchell, "Generalization as search", 1982): what does not fit one
observation is out, whatever else speaks for it.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.related import equal_in_groups, products
from ci_doctor.correctness.localise.relations import (
    LONGEST_PERIOD,
    of_load,
    of_memory,
    of_order,
    of_parameters,
    of_sums,
    ordinal,
)
from ci_doctor.correctness.localise.traits import (
    CHARACTERS,
    MOST_NAMES,
    CausePart,
    SendTable,
    number,
    places_in,
    targets,
)

_MOST_PAIRED = 24
OF_ANSWERS = ("answer", "finish ")
# What holds of one place in so many, by chance, is no second condition.
_TOKENS = " of tokens"
_OF_PLACE = {"every", "only", "window", "until", "slots"}
# So often a kind of request is counted among those before.
_MOST_BEFORE = 4
_SURE = 0.75
# A word of an answer may be two tokens.
_LAST = 2
# What costs more is nothing but the start of a search for two conditions at once.
_CHEAP = 3
# If nothing else fits, what costs so much is one.
_DEAR = 5.5
# Such contexts are tried with two kinds of requests.
_CLOSE = 2.1
# A request that is sent so often in groups and never differs is not one of those that do.
_OFTEN = 4
# Of so many kinds three are tried together.
_MOST_THREE = 40
# So many requests after one of some kind are told from all later ones.
_LONGEST_SPAN = 6
# What is under way at once, counted and in tokens.
_LOADS = {"at once", "load", "whole load"}
_KINDS = {kind for _, kind, _ in CHARACTERS}


class Cause(Struct, frozen=True, kw_only=True):
    """Which sends differ: those of both parts."""

    target: CausePart
    context: CausePart

    @property
    def mask(self) -> int:
        """The sends that differ by this cause."""
        return self.target.mask & self.context.mask

    @property
    def cost(self) -> float:
        """The more it claims, the more it costs: of two that fit, the cheaper one comes first."""
        return self.target.cost + self.context.cost

    @property
    def traits(self) -> int:
        """How many traits of requests it claims."""
        return len(self.target.both) or self.target.trait + self.context.trait

    @property
    def is_of_bodies(self) -> bool:
        """Whether it claims what requests hold, or a parameter of those that came before or were under way."""
        parts = self.context.both or (self.context,)
        return self.traits > 0 or any(each.is_form for each in parts)

    @property
    def family(self) -> tuple[str, str]:
        """What it says but for numbers."""
        return self.target.family, self.context.family

    def in_words(self) -> str:
        """`any request differs from the 10th of a start on`."""
        verb = "differs" if self.target.words.startswith("any ") else "differ"
        words = f"{self.target.words} {verb} {self.context.words}".rstrip()
        parts = (*(self.target.both or (self.target,)), *(self.context.both or (self.context,)))
        equal = " and ".join(
            number(part.below) for part in parts if part.is_open and part.below is not None
        )
        return f"{words} ({equal}: equal)" if equal else words


def _conjunctions(parts: Sequence[CausePart], equal: int) -> Iterator[CausePart]:
    """Requests that are of two kinds at once, or else of three: what is `equal` lacks one of them."""
    # Of certain prompts, too: with others the answer may never come to the fault.
    some = [
        each
        for each in parts
        if (each.trait and each.family != "any key")
        or each.family.startswith(("some", "prompt of"))
    ]
    parts = sorted(some, key=lambda each: each.cost)
    made = list(_covers(parts, equal, 2))
    made = made or list(_covers(parts[:_MOST_THREE], equal, 3))
    for both in dict.fromkeys(each for each in made if len(each) > 1):
        mask = -1
        for each in both:
            mask &= each.mask
        family = " and ".join(each.family for each in both)
        cost = sum(each.cost for each in both) - 0.8 * (len(both) - 1)
        yield CausePart(
            family,
            joint(both),
            cost,
            mask,
            trait=True,
            both=both,
            by_place=any(each.by_place for each in both),
        )


def _covers(parts: Sequence[CausePart], equal: int, most: int) -> Iterator[tuple[CausePart, ...]]:
    """So many parts at `most` that none of these sends is of all of them, each needed for it."""
    least = equal & -equal
    for each in parts if most and equal else ():
        if not each.mask & least:
            left = equal & each.mask
            if not left:
                yield (each,)
            for some in _covers(parts, left, most - 1) if left else ():
                # Else it is needed for nothing.
                rest = -1
                for one in some:
                    rest &= one.mask
                if rest & equal:
                    yield tuple(sorted((each, *some), key=parts.index))


def _others(kinds: Sequence[CausePart], wrong: int, exact: int) -> Iterator[CausePart]:
    """Requests that are not of a kind, where none of that kind differs, and some are equal."""
    for each in kinds:
        noun, _, rest = each.words.partition(" with ")
        is_other = each.trait and not each.mask & wrong and each.mask & exact
        if (
            is_other
            and rest
            and noun in {"requests", "prompts"}
            and not each.family.startswith(("has ", *OF_ANSWERS))
        ):
            words = f"{noun} without {rest}"
            yield replace(
                each, family=f"no {each.family}", words=words, cost=each.cost + 1.5,
                mask=kinds[0].mask & ~each.mask, lack="", least=None, said="",
            )  # fmt: skip


def joint(some: Sequence[CausePart]) -> str:
    """Several kinds in words: `requests with a and b`, `of the requests with a, the prompts with b`."""
    if all(each.family.startswith("has ") for each in some):
        *most, last = (each.words.removeprefix("requests with ") for each in some)
        return f"requests with {', '.join(most)} and {last}"
    *most, last = (each.words.removeprefix("the ") for each in some)
    return f"of the {' and of the '.join(most)}, the {last}"


def _pairs_of_contexts(
    parts: Sequence[CausePart], exact: int, expected: int, most: float = _CHEAP
) -> Iterator[CausePart]:
    """Two things that must hold of what came before, each of which costs so much at `most`.

    Of the sends `exact` both hold for just those that are `expected`.
    """
    simple = [
        each
        for each in parts
        if each.cost <= most and not (each.unsure or each.needs or each.family in _OF_PLACE)
    ]
    # Of what is under way at once nobody knows the order: two fit by chance.
    simple = simple if expected else []
    masks = [each.mask & exact for each in simple]
    for at, one in enumerate(simple):
        part = masks[at]
        for other in (
            simple[to] for to in range(at + 1, len(simple)) if masks[to] & part == expected
        ):
            mask = one.mask & other.mask
            # What is counted in characters and in tokens, or of one kind, is one thing.
            is_one = one.family.removesuffix(_TOKENS) == other.family.removesuffix(_TOKENS)
            if not is_one and mask not in {one.mask, other.mask}:
                text = f"{one.words} and {other.words}"
                family = f"{one.family} and {other.family}"
                yield CausePart(family, text, one.cost + other.cost + 0.8, mask, both=(one, other))


def contexts(table: SendTable, kinds: Sequence[CausePart]) -> Iterator[CausePart]:
    """After what, or with what beside, a request may differ; `kinds` are targets, of what came before."""
    yield CausePart("any", "", 0, table.mask(True for _ in table.sends))
    yield from of_load(table)
    yield from of_order(table)
    yield from of_sums(table)
    yield from of_memory(table)
    yield from of_parameters(table)
    yield from _of_earlier(table, kinds)


def _soon_after(table: SendTable, part: CausePart) -> Iterator[CausePart]:
    """As one of some requests after one of a kind."""
    after = _before(table, part.mask)
    near = last = _right_before(table, part.mask)
    for count in range(2, _LONGEST_SPAN + 1):
        last = _right_before(table, last)
        near |= last
        words = f"as one of the {count} requests after {part.words}"
        family, beyond = f"soon {part.family}", after & ~near
        yield CausePart(family, words, part.cost + 2.3, near, part.trait, beyond=beyond)


def _of_earlier(table: SendTable, kinds: Sequence[CausePart]) -> Iterator[CausePart]:
    """After, right after, or at once with a request of some kind, or with certain ones."""
    unanswered = table.mask(each.wrong is None and not each.is_short for each in table.sends)
    text = "after a request without an answer"
    yield CausePart("after none", text, 2.5, _before(table, unanswered))
    names = list(dict.fromkeys(each.name for each in table.sends))[:MOST_NAMES]
    sent = {name: _with_prompt(table, table.prompts[name]) for name in names}
    earlier = [each for each in kinds if each.family != "any"]
    earlier += [CausePart(name, name, 2, sent[name]) for name in names]
    numbers: dict[str, list[tuple[float, ...]]] = {}
    for each in earlier:
        if each.said and each.family not in numbers:
            numbers[each.family] = [*_numbers_of_others(table, each.numbers)]
        yield from _of_others(table, each, numbers.get(each.family, ()))
        yield from _soon_after(table, each)
    yield from _of_counts(table, [each for each in earlier if each.trait])
    yield from _after_several({name: _before(table, sent[name]) for name in names[:_MOST_PAIRED]})


def _with_prompt(table: SendTable, prompt: str) -> int:
    """The sends of every request with this prompt."""
    return table.named(name for name, other in table.prompts.items() if other == prompt)


def _after_several(after: Mapping[str, int]) -> Iterator[CausePart]:
    """After two certain requests, or of the first names after three; `after` has the sends behind each."""
    for one, other in itertools.combinations(after, 2):
        text = f"after {one} and {other}"
        yield CausePart(text, text, 5.5, after[one] & after[other], needs=2)
    first = list(after)[: _MOST_PAIRED // 2]
    for one, other, third in itertools.combinations(first, 3):
        text = f"after {one}, {other} and {third}"
        yield CausePart(text, text, 7.5, after[one] & after[other] & after[third], needs=3)


def _of_others(
    table: SendTable, kind: CausePart, numbers: Sequence[tuple[float, ...]]
) -> Iterator[CausePart]:
    """After, right after and at once with a kind; `numbers` of each are as `_numbers_of_others` has them."""
    places = (
        ("after", "after", 1.5, _before(table, kind.mask)),
        ("right after", "right after", 2, _right_before(table, kind.mask)),
        ("beside", "at once with", 1.5, _beside(table, kind.mask)),
    )
    for at, (family, text, cost, mask) in enumerate(places):
        family_of, words = f"{family} {kind.family}", f"{text} {kind.words}"
        part = CausePart(family_of, words, kind.cost + cost, mask, kind.trait)
        if kind.said:
            part = replace(
                part, least=kind.least, below=kind.below, numbers=numbers[at],
                said=f"{text} {kind.said}",
            )  # fmt: skip
        # Of some certain requests each one must have been it.
        if family == "right after" or not kind.family.startswith("some"):
            yield part


def _numbers_of_others(table: SendTable, numbers: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """For each send the largest number before it, the one right before it, and the largest at once with it; NaN if there is none."""
    most: list[float] = []
    for at, place in enumerate(table.places):
        known = (most[-1], numbers[at - 1]) if place else ()
        most.append(_largest(known))
    yield tuple(most)
    yield tuple(numbers[at - 1] if place else math.nan for at, place in enumerate(table.places))
    beside = [math.nan] * len(numbers)
    for block in table.together:
        for at in places_in(block):
            beside[at] = _largest(numbers[to] for to in places_in(block) if to != at)
    yield tuple(beside)


def _largest(numbers: Iterable[float]) -> float:
    return max((each for each in numbers if not math.isnan(each)), default=math.nan)


def beside(table: SendTable, kinds: Sequence[CausePart]) -> Iterator[CausePart]:
    """At once with what: one of some kind, with another value of a parameter, or the same prompt."""
    for each in kinds:
        words = f"at once with {each.words}"
        mask = _beside(table, each.mask)
        yield CausePart(f"beside {each.family}", words, each.cost + 1.5, mask, trait=True)
    for part in (*of_load(table), *of_parameters(table)):
        if part.family.startswith(("shared", "at once with")):
            yield part


def _of_counts(table: SendTable, kinds: Sequence[CausePart]) -> Iterator[CausePart]:
    """The first, each second, … of a kind, and what comes after several of it."""
    for each in kinds:
        if _before(table, each.mask) & table.wrong != table.wrong != each.mask & table.wrong:
            continue
        places = list(_places(table, each.mask))
        parts = [
            (
                "first",
                f"as the first of the {each.words} in a start",
                1.2,
                _bits(x[:1] for x, _ in places),
            )
        ]
        for count in range(2, _MOST_BEFORE + 1):
            text = f"as every {ordinal(count)} of the {each.words} in a start"
            parts.append(("every", text, 2.4, _bits(x[count - 1 :: count] for x, _ in places)))
            after = 0
            for at, lane in places:
                if len(at) >= count:
                    after |= lane & ~((2 << at[count - 1]) - 1)
            parts.append(("after some", f"after {count} {each.words}", 2.2, after))
        for family, text, cost, mask in parts:
            yield CausePart(f"{family} {each.family}", text, each.cost + cost, mask, each.trait)


def of_itself(table: SendTable, part: CausePart) -> Iterator[CausePart]:
    """By the count of a kind in a start: from one on, those between two, or each so many. `first` is that of the first that differs."""
    at: dict[int, int] = defaultdict(int)
    for places, _ in _places(table, part.mask):
        for count, place in enumerate(places, 1):
            at[count] |= 1 << place
    wrong = [count for count, bits in at.items() if bits & table.wrong]
    first, last = min(wrong, default=0), max(wrong, default=0)

    def counted(
        family: str, text: str, cost: float, counts: Iterable[int], beyond: int = 0
    ) -> CausePart:
        mask = sum(at[each] for each in counts if each in at)
        return CausePart(
            f"{family} its own",
            text,
            cost + part.cost / 2,
            mask,
            trait=True,
            lack=part.lack,
            beyond=beyond,
        )

    for least in range(2, first + 1):
        text = f"from the {ordinal(least)} of them in a start on"
        yield counted("from", text, 2, range(least, max(at) + 1))
    if 1 < first < last < max(at):
        text = f"as the {ordinal(first)} to the {ordinal(last)} of them in a start"
        yield counted(
            "window",
            text,
            3.5,
            range(first, last + 1),
            sum(at[each] for each in range(last + 1, max(at) + 1)),
        )
    for period in range(2, LONGEST_PERIOD + 1):
        if last > first and all((each - first) % period == 0 for each in wrong):
            begin = (first - 1) % period + 1
            text = f"as every {ordinal(period)} of them in a start ({begin}, {begin + period}, …)"
            yield counted("every", text, 3, range(begin, max(at) + 1, period))


def _places(table: SendTable, mask: int) -> Iterator[tuple[list[int], int]]:
    """For each start the places of these bits, and the bits of the start."""
    for lane in table.lane_bits:
        yield list(places_in(mask & lane)), lane


def _bits(places: Iterable[Sequence[int]]) -> int:
    return sum(1 << each for at in places for each in at)


def _before(table: SendTable, mask: int) -> int:
    """The sends before which the same start got one of these."""
    holds = 0
    for lane in table.lane_bits:
        first = mask & lane & -(mask & lane)
        if first:
            holds |= lane & ~((first << 1) - 1)
    return holds


def _right_before(table: SendTable, mask: int) -> int:
    """The sends right before which the same start got one of these."""
    return (mask << 1) & table.later


def _beside(table: SendTable, mask: int) -> int:
    """The sends with which one of these was under way, itself left out."""
    holds = 0
    for block in table.together:
        some = mask & block
        if some:
            # One alone is not beside itself.
            holds |= block if some & (some - 1) else block & ~some
    return holds


def fitting(
    table: SendTable, observed: int, *, plain_alone: bool = False, with_products: bool = False
) -> list[Cause]:
    """The causes that fit each of the first `observed` sends, the cheapest first.

    `plain_alone`: whatever changed copies of requests differ. A copy that is equal counts.
    `with_products`: also what other requests have to do with one, where something simpler fits.

    Where requests are under way together, nobody knows which came first. There a cause fits if no
    other request differs, and at least half of its own do, each group for itself. All must, if it
    takes one certain request beside them and the whole group is under way. One of its own that was
    sent often and never differed is against it, too.
    """
    sends = table.sends[:observed]
    told = [
        each.wrong is not None and not (plain_alone and each.wrong and each.name not in table.plain)
        for each in sends
    ]
    wrong = table.mask(bool(each.wrong) and yes for each, yes in zip(sends, told, strict=True))
    exact = table.mask(yes and each.at_once == 1 for each, yes in zip(sends, told, strict=True))
    loose = table.mask(yes and each.at_once > 1 for each, yes in zip(sends, told, strict=True))
    groups = _groups(table, observed) if loose else []
    short = table.mask(each.is_short for each in sends)
    ended = table.mask(each.is_short and each.at_once == 1 for each in sends)
    names = [each for each in table.wrong_names if each in table.plain or not plain_alone]
    # What is not known yet where a difference first shows is no cause of it.
    is_at_end = all(
        each.is_behind or each.differs_at >= each.length - _LAST or not each.is_text
        for each in sends
        if each.wrong
    )
    every_kind = targets(table, names)
    of_target = [
        each
        for each in every_kind
        if (each.mask | each.unsure) & wrong == wrong
        and (is_at_end or not each.family.startswith(OF_ANSWERS))
    ]
    # What came before may be of any kind, whether it differs or not.
    # Of a word or a sign, many requests before have one.
    kinds = [*targets(table, _neighbours(table)), *(each for each in of_target if each.trait)]
    kinds = [each for each in kinds if not each.lack or each.lack in _KINDS]
    kinds.sort(key=lambda each: -each.cost)
    kinds = list({each.mask: each for each in kinds}.values())
    of_target += _others(every_kind, wrong, exact)
    of_context = [
        each
        for each in contexts(table, kinds)
        if (each.mask | each.unsure) & wrong == wrong
        # What says nothing of most sends, or of all that differ, fits everything.
        and _SURE * exact.bit_count() <= (exact & ~each.unsure).bit_count()
        and wrong & ~each.unsure
    ]
    any_target, any_context = of_target[0], of_context[0]
    both = _pairs_of_contexts(of_context, exact & any_target.mask, wrong & exact)
    pairs: list[tuple[CausePart, Iterable[CausePart]]] = [(any_target, both)]
    pairs += [(each, (any_context,)) for each in _conjunctions(of_target, exact & ~wrong)]
    pairs += [(each, of_context) for each in of_target]
    pairs += [(each, of_itself(table, each)) for each in of_target if each.trait]

    def fit(pairs: Iterable[tuple[CausePart, Iterable[CausePart]]]) -> Iterator[Cause]:
        for target, some in pairs:
            for context in some:
                # Of a place in answers, one that ends before it tells something.
                sure = (exact | ended * target.by_place) & ~(context.unsure | target.unsure)
                mask = target.mask & context.mask
                if mask & sure == wrong & sure and (
                    not groups or _fits(mask, wrong, short, groups, context.family.split(" ")[0])
                ):
                    yield Cause(target=target, context=context)

    causes = list(fit(pairs))
    if not any(each.target.trait or each.target is any_target for each in causes):
        # Two kinds at once after what a server remembers; of one number the last that fits.
        near = {each.family: each for each in of_context if 0 < each.cost <= _CLOSE}
        causes += fit(
            (each, (context,))
            for context in near.values()
            for each in _conjunctions(of_target, exact & ~wrong & context.mask)
        )
        # Behind one that differs, all of its kind do.
        causes += fit(
            (each, of_itself(table, each))
            for each in _conjunctions(of_target, exact & ~wrong & _before(table, wrong))
        )
    if with_products or (
        not plain_alone
        and not any(
            (each.traits or each.target is any_target) and not each.context.both for each in causes
        )
    ):
        # Two contexts fit by chance more often than one of more conditions.
        equal = exact & ~wrong, exact & ~wrong | equal_in_groups(groups, wrong | short)
        made = products(table, observed, kinds, of_target, wrong, equal)
        causes += fit((each, made) for each in of_target)
    if not any(each.traits or each.target is any_target for each in causes):
        some = [any_target, *(each for each in of_target if each.is_form)]
        causes += fit(
            (each, _pairs_of_contexts(of_context, exact & each.mask, wrong & exact, _DEAR))
            for each in some
        )
    return sorted(_surest(causes, wrong, exact, loose), key=lambda each: each.cost)


def _surest(causes: list[Cause], wrong: int, exact: int, loose: int) -> list[Cause]:
    """What says of each send, of those at once too, whether it differs, is no chance.

    Else all, but of several measures of what is under way none that twice as many equal sends contradict as another.
    """
    known = exact | loose
    sure = [each for each in causes if each.mask & known & ~each.context.unsure == wrong]
    if loose & wrong and sure:
        return sure

    def equal_in(cause: Cause) -> int:
        return (cause.mask & loose & ~wrong & ~cause.context.unsure).bit_count()

    # By target; one send at once proves nothing.
    least: dict[str, int] = {}
    for each in causes:
        if each.context.family in _LOADS:
            known_least = least.get(each.target.words, loose.bit_count())
            least[each.target.words] = max(1, min(known_least, equal_in(each)))
    return [
        each
        for each in causes
        if each.context.family not in _LOADS or equal_in(each) <= 2 * least[each.target.words]
    ]


def _neighbours(table: SendTable) -> list[str]:
    """The names of what came right before a request that differs, or was under way with it."""
    counts: Counter[str] = Counter()
    for lane in table.lanes:
        for before, each in itertools.pairwise(lane):
            if each.wrong:
                counts[before.name] += 1
    return [name for name, _ in counts.most_common(6)]


def _groups(table: SendTable, observed: int) -> list[tuple[bool, Mapping[str, int]]]:
    """The sends of one composition, name by name: each is sent several times in another order."""
    sends: dict[tuple[int, frozenset[str], int], dict[str, int]] = {}
    place = 0
    for start, lane in enumerate(table.lanes):
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            block = list(group)
            if block[0].at_once > 1 and place < observed:
                key = (start, frozenset(each.name for each in block), block[0].at_once)
                bits = sends.setdefault(key, {})
                for at, each in enumerate(block):
                    if each.wrong is not None or each.is_short:
                        bits[each.name] = bits.get(each.name, 0) | 1 << place + at
            place += len(block)
    return [(key[2] == len(key[1]), bits) for key, bits in sends.items()]


def _fits(
    mask: int,
    wrong: int,
    short: int,
    groups: Sequence[tuple[bool, Mapping[str, int]]],
    family: str,
) -> bool:
    """Whether a cause of a family fits the groups; those of the sends `short` may have differed unseen."""
    strict = family == "beside"
    expected_of: Counter[str] = Counter()
    differing = set()
    for is_whole, bits_of in groups:
        if strict and not is_whole:
            # Nobody knows what met what.
            if any(bits & wrong and not bits & mask for bits in bits_of.values()):
                return False
            continue
        for name, bits in bits_of.items():
            expected_of[name] += (bits & mask & ~short).bit_count()
            if bits & wrong:
                differing.add(name)
        names = bits_of.values()
        expected = [bits for bits in names if bits & mask]
        seen = [bits for bits in expected if bits & (wrong | short)]
        if any(bits & wrong and not bits & mask for bits in names) or 2 * len(seen) < len(expected):
            return False
        if strict and is_whole and len(seen) < len(expected):
            return False
    # Of two that share something the later one may differ, and one may never be the later.
    return family == "shared" or not any(
        count >= _OFTEN and name not in differing for name, count in expected_of.items()
    )
