# SPDX-License-Identifier: Apache-2.0
"""What other requests of a start, of some kind, have to do with one: any place, kind and relation at once. Pure.

`right after requests with a that share its first 8 characters` is a place (right after), a kind of requests (with a)
and a relation. There are some 10⁵ of these products, so most are given up at the first send that differs without it.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from ci_doctor.correctness.localise.relations import MODULI, SHORTEST_PREFIX, goes_on
from ci_doctor.correctness.localise.traits import (
    CausePart,
    SendTable,
    parameters,
    places_in,
    thresholds,
    visible,
)
from ci_doctor.correctness.localise.trials import common

# So many requests before one are a place.
_SPANS = (2, 3, 4)
# What prompts have to do with each other, beside a parameter.
_WITH_KEYS = {"same", "other", "prefix"}
# So many of the products that fit are weighed.
_MOST_PRODUCTS = 24
# Kinds that cost more are not tried.
_DEAREST = 4.4


class _Place(NamedTuple):
    """Which other sends are meant: `of` gives the bits of these for a send."""

    family: str
    words: str
    cost: float
    of: Callable[[int], int]


class _Relation(NamedTuple):
    """What they have to do with it: `of` gives the bits of all sends that have it to a request by its name.

    `size`: by how much, for the number in the words; None if it is no number. `is_of_key`: it is one of a parameter.
    """

    family: str
    words: str
    cost: float
    of: Callable[[str], int]
    size: Callable[[int, int], float] | None = None
    is_of_key: bool = False


# A place, a kind and a relation by their names.
ProductKey = tuple[str, str, str, str]


class _Products:
    """All products for the sends of a table."""

    def __init__(self, table: SendTable, kinds: Iterable[CausePart]) -> None:
        self.table = table
        lanes = {at: bits for bits in table.lane_bits for at in places_in(bits)}
        blocks = {at: bits for bits in table.together for at in places_in(bits)}

        def before(span: int) -> Callable[[int], int]:
            return lambda at: lanes[at] & ((1 << at) - 1) & -(1 << max(0, at - span))

        def first(at: int) -> int:
            begin = lanes[at] & -lanes[at]
            return begin if begin != 1 << at else 0

        self._places = [
            _Place("related before", "after", 1.5, before(len(table.sends))),
            _Place("related first", "in a start whose first request was one of", 2.2, first),
            _Place("related right before", "right after", 2, before(1)),
        ]
        for span in _SPANS:
            words = f"as one of the {span} requests after"
            self._places.append(_Place(f"related soon {span}", words, 2.3, before(span)))
        self._places.append(
            _Place("beside related", "at once with", 1.5, lambda at: blocks.get(at, 0) & ~(1 << at))
        )
        self._relations = list(_relations(table))
        self._kinds = {
            (each.family, each.words): replace(each, words="requests") if each.family == "any" else each
            for each in sorted(kinds, key=lambda each: each.cost)
            if (each.trait or each.family == "any") and each.cost <= _DEAREST
        }  # fmt: skip

    def fitting(
        self, wrong: int, equal: tuple[int, int], targets: Sequence[CausePart]
    ) -> Iterator[ProductKey]:
        """Those that hold for each send that is `wrong`, and in some target for none that is `equal`.

        Of the equal sends the first bits are for what came before, the other ones for what was beside.
        """
        # For each equal send the targets, as bits, that leave it out: first what most targets hold.
        outside = {
            at: sum(1 << number for number, each in enumerate(targets) if not each.mask >> at & 1)
            for at in places_in(equal[1])
        }
        order = sorted(outside, key=lambda at: outside[at].bit_count())
        names = [each.name for each in self.table.sends]
        for place in self._places:
            inside = {at: place.of(at) for at in places_in(wrong)}
            if not all(inside.values()):
                continue
            against = equal[place.family.startswith("beside")]
            beyond = [(at, bits) for at in order if against >> at & 1 and (bits := place.of(at))]
            for relation in self._relations:
                related = {at: bits & relation.of(names[at]) for at, bits in inside.items()}
                if not all(related.values()):
                    continue
                least = sorted(set(related.values()), key=int.bit_count)
                kinds = {
                    key: part.mask
                    for key, part in self._kinds.items()
                    if all(bits & part.mask for bits in least)
                }
                rest = [
                    (at, found) for at, bits in beyond if (found := bits & relation.of(names[at]))
                ] if kinds else []  # fmt: skip
                shown = set[tuple[int, ...]]()
                for key, mask in kinds.items():
                    held = self._held(relation, mask, related, rest, outside, len(targets))
                    if held is not None and held not in shown:
                        shown.add(held)
                        yield place.family, relation.family, *key

    def _held(
        self,
        relation: _Relation,
        kind: int,
        related: Mapping[int, int],
        equal: Sequence[tuple[int, int]],
        outside: Mapping[int, int],
        targets: int,
    ) -> tuple[int, ...] | None:
        """The equal sends for which it holds, if some target leaves all of them out; else None."""
        size, least, held = relation.size, 1.0, []
        if size is not None:
            least = min(
                max(size(at, to) for to in places_in(bits & kind)) for at, bits in related.items()
            )
            if not least:
                return None
        left = (1 << targets) - 1
        for at, bits in equal:
            some = bits & kind
            if some and (size is None or any(size(at, to) >= least for to in places_in(some))):
                left &= outside[at]
                held.append(at)
                if not left:
                    return None
        return tuple(held)

    def _named(self, key: ProductKey) -> tuple[_Place, _Relation]:
        (place,) = (each for each in self._places if each.family == key[0])
        (relation,) = (each for each in self._relations if each.family == key[1])
        return place, relation

    def cost(self, key: ProductKey) -> float:
        """What it costs beside others."""
        place, relation = self._named(key)
        return place.cost + relation.cost + self._kinds[key[2:]].cost

    def parts(self, key: ProductKey) -> Iterator[CausePart]:
        """A product, one part for each number; none if this table has no such kind."""
        kind = self._kinds.get(key[2:])
        if kind is None:
            return
        place, relation = self._named(key)
        family = f"{place.family} {kind.family} {relation.family}"
        cost = self.cost(key)
        # A value may hold braces.
        words = kind.words.replace("{", "{{").replace("}", "}}")
        words = f"{place.words} {words} that {relation.words}"
        bits = (
            place.of(at) & kind.mask & relation.of(each.name)
            for at, each in enumerate(self.table.sends)
        )
        size = relation.size
        if size is None:
            mask = self.table.mask(map(bool, bits))
            part = CausePart(family, words.format(), cost, mask, kind.trait, lack=kind.lack)
            yield replace(part, is_form=relation.is_of_key)
            return
        values = [
            max((size(at, to) for to in places_in(some)), default=0) for at, some in enumerate(bits)
        ]
        for part in thresholds(values, family, words, cost):
            yield replace(part, trait=kind.trait, lack=kind.lack, is_form=relation.is_of_key)


def _grouped(
    table: SendTable, key_of: Callable[[str], Hashable]
) -> tuple[Mapping[Hashable, int], dict[str, Hashable]]:
    """The bits of the sends with each key, and the key of each request."""
    keys = {name: key_of(name) for name in table.requests}
    bits: dict[Hashable, int] = defaultdict(int)
    for at, each in enumerate(table.sends):
        bits[keys[each.name]] |= 1 << at
    return bits, keys


def _relations(table: SendTable) -> Iterator[_Relation]:
    of_prompts = list(_of_prompts(table))
    yield from of_prompts
    for key in _of_keys(table):
        yield key
        for prompt in of_prompts:
            if prompt.family in _WITH_KEYS:
                yield _both(prompt, key)


def _both(one: _Relation, other: _Relation) -> _Relation:
    # One verb is enough.
    more = other.words.removeprefix("have ") if one.words.startswith("have ") else other.words
    return _Relation(
        f"{other.family} {one.family}", f"{one.words} and {more}", one.cost + other.cost,
        _in_both(one.of, other.of), one.size, is_of_key=True,
    )  # fmt: skip


def _of_prompts(table: SendTable) -> Iterator[_Relation]:
    prompts = table.prompts
    owners, _ = _grouped(table, prompts.__getitem__)
    everything = (1 << len(table.sends)) - 1

    def same(name: str) -> int:
        return owners[prompts[name]]

    def other(name: str) -> int:
        return everything & ~same(name)

    sizes: dict[tuple[str, str], int] = {}

    def shared(at: int, to: int) -> float:
        pair = prompts[table.sends[at].name], prompts[table.sends[to].name]
        if pair not in sizes:
            size = visible(pair[0][: common(*pair)])
            sizes[pair] = size if size >= SHORTEST_PREFIX else 0
        return sizes[pair]

    begins, begin_of = _grouped(table, lambda name: prompts[name][:SHORTEST_PREFIX])
    yield _Relation("same", "have the same prompt", 0.3, same)
    yield _Relation("other", "have another prompt", 1, other)
    text = "share its first {} characters"
    yield _Relation("prefix", text, 0.7, lambda name: begins[begin_of[name]], shared)
    yield _Relation(
        "other prefix", f"have another prompt, and {text}", 0.9,
        lambda name: begins[begin_of[name]] & other(name), shared,
    )  # fmt: skip
    known: dict[str, int] = {}

    def begun(name: str) -> int:
        text = prompts[name]
        if text not in known:
            known[text] = sum(bits for each, bits in owners.items() if goes_on(text, str(each)))
        return known[text]

    yield _Relation("begun", "are its beginning", 0.9, begun)
    if all(table.tokens):
        yield from _of_sizes(table, other)


def _of_sizes(table: SendTable, other: Callable[[str], int]) -> Iterator[_Relation]:
    """Longer, shorter, or as long, in tokens."""
    size_of: dict[str, Hashable] = {}
    bits: dict[int, int] = defaultdict(int)
    for at, (each, size) in enumerate(zip(table.sends, table.tokens, strict=True)):
        size_of[each.name] = size
        bits[size] |= 1 << at

    def longer(sign: int) -> Callable[[int, int], float]:
        return lambda at, to: max(0, sign * (table.tokens[to] - table.tokens[at]))

    for family, sign in (("longer", 1), ("shorter", -1)):
        beyond = {
            own: sum(mask for each, mask in bits.items() if sign * (each - own) > 0) for own in bits
        }
        text = f"are {family} by {{}} tokens or more"
        of = _looked_up(beyond, size_of)
        yield _Relation(f"tokens {family}", text, 1.2, of, longer(sign))
    for modulus in (0, *MODULI):
        alike: dict[int, int] = defaultdict(int)
        for size, mask in bits.items():
            alike[size % modulus if modulus else size] |= mask
        own_of = {size: alike[size % modulus if modulus else size] for size in bits}
        words = "are other prompts of as many tokens" + f", modulo {modulus}" * (modulus > 0)
        of = _in_both(_looked_up(own_of, size_of), other)
        yield _Relation(f"tokens alike {modulus}", words, 2.2 if modulus else 1.8, of)


def _looked_up(
    bits: Mapping[Any, int], key_of: Mapping[str, Hashable], *, within: int = -1
) -> Callable[[str], int]:
    """For a request the bits of its key, `within` others."""
    return lambda name: bits.get(key_of.get(name), 0) & within


def _in_both(one: Callable[[str], int], other: Callable[[str], int]) -> Callable[[str], int]:
    return lambda name: one(name) & other(name)


def _of_keys(table: SendTable) -> Iterator[_Relation]:
    """Another or the same value of one parameter."""
    given = {name: parameters(each) for name, each in table.requests.items()}
    everything = (1 << len(table.sends)) - 1
    for key in sorted({key for each in table.sends for key in given[each.name]}):
        value_of = {name: each.get(key) for name, each in given.items()}
        bits: dict[Hashable, int] = defaultdict(int)
        for at, each in enumerate(table.sends):
            bits[value_of[each.name]] |= 1 << at
        if len(bits) < 2:
            continue
        others = {value: everything & ~mask for value, mask in bits.items()}
        lacking = bits.pop(None, 0)
        of_key = partial(_Relation, is_of_key=True)
        of = _looked_up(bits, value_of)
        yield of_key(f"same {key}", f"have the same `{key}`", 1.8, of)
        of = _looked_up(others, value_of)
        yield of_key(f"other {key}", f"have another `{key}`", 1.7, of)
        others.pop(None, 0)
        of = _looked_up(others, value_of, within=~lacking)
        yield of_key(f"other value {key}", f"have another value of `{key}`", 1.9, of)


def products(
    table: SendTable,
    observed: int,
    kinds: Sequence[CausePart],
    among: Sequence[CausePart],
    wrong: int,
    equal: tuple[int, int],
) -> list[CausePart]:
    """The cheapest products of `kinds` that hold for each send that is `wrong`, and in some target of `among` for none that is `equal`.

    Of the equal sends the first bits are for what came before, the other ones for what was beside. What fits the
    first `observed` sends is remembered.
    """
    every = _Products(table, kinds)
    names = (each.name for each in table.sends[:observed])
    remembered = ("products", *names, hex(wrong), hex(equal[1]))
    if remembered not in table.remembered:
        cheap = [each for each in among if each.trait or each.family == "any"]
        found = sorted(every.fitting(wrong, equal, cheap), key=every.cost)
        table.remembered[remembered] = found[:_MOST_PRODUCTS]
    return [part for key in table.remembered[remembered] for part in every.parts(key)]


def equal_in_groups(groups: Sequence[tuple[bool, Mapping[str, int]]], seen: int) -> int:
    """The sends of what was never seen to differ in a whole group."""
    return sum(
        bits
        for is_whole, bits_of in groups
        for bits in bits_of.values()
        if is_whole and not bits & seen
    )
