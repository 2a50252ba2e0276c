# SPDX-License-Identifier: Apache-2.0
"""What only the sends that differ have, where no cause fits each answer: with how much under way, of which requests, after what. Pure.

All that differ have each part that is said, and some that are equal have it as well. A part is said
only if chance is excluded, by Fisher's exact test of one side; or if a changed copy without it gave
the baseline's answer, and that answer goes as far as the difference.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.localise.causes import OF_ANSWERS, beside, contexts, fitting
from ci_doctor.correctness.localise.examining import chance
from ci_doctor.correctness.localise.relations import loads
from ci_doctor.correctness.localise.traits import CausePart, SendTable, number, places_in, targets
from ci_doctor.correctness.localise.trials import LocalisedDifference, TrialSend
from ci_doctor.load.requests import Request

# Of sends, groups and requests.
_LEVEL = 0.01
_LEAST_BITS = -math.log2(_LEVEL)
# There are few starts.
_LEVEL_OF_STARTS = 0.05
# So many parts are said together, and so many others that hold of the same.
_MOST_PARTS, _MOST_OTHERS = 3, 1
# Contexts that cost more are not tried.
_DEAREST, _CHEAP = 3.6, 3.2
# Of a group nobody knows the order.
_NEAR = 1.5
# So often at least a request differs at once with the same others, if a copy in its place tells something.
_LEAST_IN_PLACE = 3


def by_rate(
    lanes: Sequence[Sequence[TrialSend]],
    subject: LocalisedDifference,
    requests: Mapping[str, Request],
    bases: Mapping[str, str],
) -> str:
    """A sentence on the sends of all starts, empty if chance may have made what they show.

    `bases` are the requests of which others are changed copies.
    """
    table = SendTable(lanes, requests, subject.ids, {})
    least = min((each.at_once for each in table.sends if each.wrong), default=0)
    if least == 0:
        return ""
    if least == 1:
        common = _Common(table, subject, bases, least, with_contexts=True)
        kinds = common.in_words()
        load = _at_random(lanes, requests)
    else:
        by_count, *by_size = _brackets(table)
        best = min((by_count, *by_size), key=lambda each: each.equal_above)
        # What parts all groups exactly needs no other context.
        common = _Common(table, subject, bases, least, with_contexts=best.equal_above > 0)
        kinds = common.in_words()
        bracket = by_count if common.has_context else best
        load = ""
        if _is_of_load(table, subject, least):
            load = f"requests differed only {bracket.words}one at a time: equal)"
    return f"{load}{', and ' * bool(load and kinds)}{kinds}"


def _is_of_load(table: SendTable, subject: LocalisedDifference, least: int) -> bool:
    """Whether it is no chance that what is under way with `least` or more differs, and what is alone does not."""
    sends = [e for e in table.sends if e.wrong is not None and e.name in subject.ids]
    differing = {*subject.differing, *(each.name for each in sends if each.wrong)}
    for names in (subject.ids, differing):
        loaded = [each for each in sends if each.name in names and each.at_once >= least]
        alone = [each for each in sends if each.name in names and each.at_once == 1]
        wrong = sum(bool(each.wrong) for each in loaded)
        if chance(wrong, len(loaded), len(alone)) > _LEVEL:
            return False
    loaded_starts, quiet_starts = [], []
    for lane in table.lanes:
        if any(each.at_once >= least for each in lane):
            loaded_starts.append(lane)
        elif any(each.name in differing and each.wrong is not None for each in lane):
            quiet_starts.append(lane)
    # A start may show it or not, whatever it gets: of the run each did, or one start alone shows both.
    starts_of_run = math.isqrt(subject.pairs) if subject.always_differs else 0
    is_mixed = any(_shows_both(lane, name, least) for lane in loaded_starts for name in differing)
    if not starts_of_run and not is_mixed:
        return False
    shown = sum(any(each.wrong for each in lane) for lane in loaded_starts) + starts_of_run
    of_starts = chance(shown, len(loaded_starts) + starts_of_run, len(quiet_starts))
    return of_starts <= _LEVEL_OF_STARTS


def _shows_both(lane: Sequence[TrialSend], name: str, least: int) -> bool:
    """Whether a request both differs and is equal in one start, with `least` or more under way."""
    return {True, False} <= {e.wrong for e in lane if e.name == name and e.at_once >= least}


class _Bracket(Struct, frozen=True):
    """With how many, or how much, at once the groups that differ were under way; so many with as much are equal."""

    equal_above: int
    words: str


def _brackets(table: SendTable) -> Iterator[_Bracket]:
    """What is under way with each group, first counted, then in tokens if these are known."""
    for text, values in loads(table):
        groups = [
            (values[places[0]], any(table.sends[at].wrong for at in places))
            for places in _groups(table)
            if any(table.sends[at].wrong is not None for at in places)
        ]
        least = min(value for value, differs in groups if differs)
        near = [differs for value, differs in groups if least <= value <= _NEAR * least]
        below = (
            size
            for size in sorted({value for value, _ in groups if value < least}, reverse=True)
            if chance(sum(near), len(near), sum(size <= value < least for value, _ in groups))
            <= _LEVEL
        )
        equal_above = sum(value >= least and not differs for value, differs in groups)
        size = next(below, None)
        if size is None:
            yield _Bracket(equal_above, "at once with others (")
        else:
            equal = f"{number(size)}: equal; " if size > 1 else ""
            yield _Bracket(equal_above, f"{text.format(number(least))} ({equal}")


def _groups(table: SendTable) -> Iterator[list[int]]:
    """The places of what was under way together, or alone."""
    at = 0
    for lane in table.lanes:
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            count = len(list(group))
            yield list(range(at, at + count))
            at += count


def _at_random(lanes: Sequence[Sequence[TrialSend]], requests: Mapping[str, Request]) -> str:
    """That a request sent again and again differs now and then, by nothing that came before."""
    for lane in sorted(lanes, key=len, reverse=True):
        known = [bool(each.wrong) for each in lane if each.wrong is not None]
        is_of_one = len({(each.name, each.at_once) for each in lane}) == 1 == lane[0].at_once
        if is_of_one and {(True, False), (False, True)} <= set(itertools.pairwise(known)):
            name = lane[0].name
            if not fitting(SendTable([lane], requests, [name], {}), len(lane)):
                return (
                    f"{name} differs in {sum(known)} of {len(known)} sends of the same request: "
                    "at random, or by what no request shows"
                )
    return ""


class _Part(Struct, frozen=True):
    """A part that all which differ have; `tried`: of so many of its sort it is one."""

    part: CausePart
    tried: int
    is_context: bool


class _Common:
    """What all sends that differ have in common, and equal ones less often."""

    def __init__(
        self,
        table: SendTable,
        subject: LocalisedDifference,
        bases: Mapping[str, str],
        least: int,
        *,
        with_contexts: bool,
    ) -> None:
        self.table, self.bases = table, bases
        sends = table.sends
        # With fewer under way nothing differs, whatever it holds.
        known = (
            each.wrong is not None and (each.at_once >= least if least > 1 else each.at_once == 1)
            for each in sends
        )
        self.known = table.mask(known)
        self.wrong = table.wrong & self.known
        # Those of the run too: they have shown it there.
        self.differing = {e.name for e in sends if e.wrong} | set(subject.differing)
        self.names = {name: table.named([name]) for name in dict.fromkeys(e.name for e in sends)}
        # The same requests at once again are no more than once; of others, each send is one.
        self.units: dict[tuple[str, object], int] = defaultdict(int)
        # Of each send of a group, how many are under way, and the names of the others.
        self.beside: dict[int, tuple[int, frozenset[str]]] = {}
        wrong = {each.name for each in sends if each.wrong}
        for places in _groups(table):
            names = frozenset(sends[at].name for at in places)
            if len(places) > 1:
                for at in places:
                    self.beside[at] = sends[at].at_once, names - {sends[at].name}
            group = names if least > 1 else places[0]
            for at in places:
                if sends[at].name in wrong:
                    self.units[sends[at].name, group] |= 1 << at & self.known
        self.parts = list(self._kinds())
        if with_contexts:
            self.parts += self._contexts(grouped=least > 1)
        self.has_context = False

    def _of(self, parts: Collection[CausePart], *, is_context: bool) -> Iterator[_Part]:
        tried = len({each.mask & self.known for each in parts})
        needed = self.wrong if is_context else self.known & self.table.named(self.differing)
        for each in parts:
            is_known = not each.unsure & self.known
            if is_known and not needed & ~each.mask and self.known & ~each.mask:
                yield _Part(each, tried, is_context)

    def _kinds(self) -> Iterator[_Part]:
        every = [
            each
            for each in targets(self.table, self.table.wrong_names)
            if each.trait and not each.family.startswith(OF_ANSWERS)
        ]
        for is_form in (True, False):
            yield from self._of([e for e in every if e.is_form is is_form], is_context=False)

    def _contexts(self, *, grouped: bool) -> Iterator[_Part]:
        every = targets(self.table, ())
        kinds = [each for each in every if each.is_form or (each.trait and each.cost <= _CHEAP)]
        made = beside(self.table, kinds) if grouped else contexts(self.table, kinds)
        some = [
            each for each in made if each.family != "any" and each.cost <= _DEAREST + each.trait * 3
        ]
        yield from self._of(some, is_context=True)

    def _bits(self, some: _Part, inside: int) -> float:
        """How little chance it leaves that of these sends only those with the part differ."""
        within, without = inside & some.part.mask, inside & ~some.part.mask
        if some.is_context:
            inside_of, outside_of = (
                {unit for unit, bits in self.units.items() if bits & of} for of in (within, without)
            )
            differing = sum(bool(bits & self.wrong) for bits in self.units.values())
            by_chance = chance(differing, len(inside_of), len(outside_of - inside_of))
            return -math.log2(some.tried * by_chance)
        plain = {name: bits for name, bits in self.names.items() if name in self.table.plain}
        inner = {name for name, bits in plain.items() if bits & within}
        outer = {name for name, bits in plain.items() if bits & without} - inner
        count = len(inner & self.differing)
        bits = -math.log2(some.tried * chance(count, len(inner), len(outer)))
        return max(bits, 0) + _LEAST_BITS if self._is_copied(within, without) else bits

    def _is_copied(self, within: int, without: int) -> bool:
        """Whether copies without the part are equal, and would have shown the difference."""
        told = {self.table.sends[at].name: self.table.sends[at] for at in places_in(self.wrong)}
        for base, send in told.items():
            equal = [
                at
                for at in places_in(without)
                if self.bases.get((each := self.table.sends[at]).name) == base
                and each.said.startswith(send.said)
                # An empty answer is the beginning of each.
                and (send.said or self.table.prompts[each.name] == self.table.prompts[base])
            ]
            mine = self.names[base] & within
            differing, of = (mine & self.wrong).bit_count(), mine.bit_count()
            if equal and (differing == of or chance(differing, of, len(equal)) <= _LEVEL):
                return True
            # Among many others it may not show each time. A copy in its place has the same ones.
            places = [self.beside[at] for at in equal if at in self.beside]
            here = [at for at in places_in(mine) if self.beside.get(at) in places]
            if len(here) >= _LEAST_IN_PLACE and all(self.wrong >> at & 1 for at in here):
                return True
        return False

    def in_words(self) -> str:
        """What only those that differ have, with counts; empty if nothing is shown."""
        inside, said = self.known, list[_Part]()
        while len(said) < _MOST_PARTS:
            shown = [(self._bits(each, inside), each) for each in self.parts]
            shown = [(bits - each.part.cost, each) for bits, each in shown if bits >= _LEAST_BITS]
            if not shown:
                break
            best = max(shown, key=lambda each: each[0])[1]
            inside &= best.part.mask
            # What follows from it is said with it.
            said = [e for e in said if best.part.mask & self.known & ~e.part.mask]
            said.append(best)
        if not said:
            return ""
        self.has_context = any(each.is_context for each in said)
        who = " that are also ".join(self._named(e, said) for e in said if not e.is_context)
        where = " and ".join(self._named(e, said) for e in said if e.is_context)
        differing, of = self.wrong.bit_count(), inside.bit_count()
        counts = (
            f"{differing} of {of} such sends, and none of "
            f"{(self.known & ~inside).bit_count()} others"
        )
        if not who:
            return f"requests differed only {where}: {counts}"
        return f"only {who} differed{' ' * bool(where)}{where}: {counts}"

    def _named(self, some: _Part, said: Sequence[_Part]) -> str:
        """The part in words, with another one that holds of the same requests of the run."""
        rest = self.known
        for each in said:
            if each is not some:
                rest &= each.part.mask
        plain = self.table.named(self.table.plain)
        others: list[str] = []
        for each in self.parts:
            is_same = each.part.family == some.part.family or _key(each.part) == _key(some.part)
            if is_same or each.is_context is not some.is_context:
                continue
            apart = (each.part.mask ^ some.part.mask) & rest
            # Changed copies may part what is one in the run, if this holds of them as surely.
            is_one = not apart or (not apart & plain and self._bits(each, rest) >= _LEAST_BITS)
            if is_one and each.part.words not in (some.part.words, *others):
                others.append(each.part.words)
        return some.part.words + "".join(f" (or {each})" for each in others[:_MOST_OTHERS])


def _key(part: CausePart) -> str:
    """The parameter that it is about, or else its family."""
    return part.family.removeprefix("beside ").removeprefix("has ").partition("=")[0]
