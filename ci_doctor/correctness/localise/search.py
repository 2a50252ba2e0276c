# SPDX-License-Identifier: Apache-2.0
"""Which trial the next pair of starts gets, and what is concluded of all of them. Pure.

The first two trials are always the same: the request alone again and again, and all requests one at a
time. Then each pair gets the trial that tells most between the causes that still fit. At last the
cause is tried in fresh starts, once with and once without each part of its condition.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import Cause, SendTable, fitting
from ci_doctor.correctness.localise.copies import changed_copies
from ci_doctor.correctness.localise.trials import (
    LocalisedCause,
    LocalisedDifference,
    Trial,
    TrialBlock,
    TrialResult,
    TrialSend,
    one_by_one,
    together,
)
from ci_doctor.load.prompts import prompt_of, token_limit

# How often a request alone is sent to one start, at most.
_MOST_REPEATS = 64

# Requests that are under way at once may arrive in another order.
_MARGIN = 8

# A trial of more requests than that leaves some out.
_MOST_NAMES = 48


# So many causes are weighed; what costs more is hardly one.
_MOST_CAUSES = 3000

# A trial that tells less than this (in bits) is not worth two starts.
_LEAST_BITS = 0.15

# A request that is sent costs a little: of two trials that tell as much, the shorter one is made.
_BITS_PER_SEND = 0.001

# What a trial tells about a number within one family counts for less than about the family.
_WITHIN = 0.15


_GROUP_TIMES = 3

_MOST_CONTRASTS = 3

# A rival is named if its weight is this part of all.
_RIVAL = 0.08


def _other(subject: LocalisedDifference) -> str | None:
    """A request that does not differ in the run; else one with another prompt."""
    prompt = prompt_of(subject.request)
    others = [each.id for each in subject.requests if prompt_of(each) != prompt]
    equal = [each for each in others if each not in subject.differing]
    return next(iter(equal or others), None)


class _Weighed(Struct, frozen=True, kw_only=True):
    """Causes that fit, the cheapest first; `pool` are trials, which begin at these bits; `plain`: unchanged requests."""

    causes: list[Cause]
    pool: list[Trial]
    begins: list[int]
    plain: int


class _Contrasts(Struct, frozen=True, kw_only=True):
    """A trial that differs by a cause, and the nearest ones to which its context or its target does not apply."""

    with_it: Trial | None = None
    without_context: tuple[Trial, ...] = ()
    without_target: tuple[Trial, ...] = ()

    @property
    def without(self) -> tuple[Trial, ...]:
        """All that must not differ."""
        return (*self.without_context, *self.without_target)


class LocalisationSearch:
    """The state of a search: what was shown so far."""

    def __init__(self, subject: LocalisedDifference) -> None:
        self.subject = subject
        self.requests = {each.id: each for each in subject.requests}
        # Of each changed copy, the id of the request.
        self._bases: dict[str, str] = {}
        self.results: list[TrialResult] = []
        ids = subject.ids
        place = ids.index(subject.request.id)
        # What came before the request is needed first, then what comes after it.
        begin = max(0, min(place + 1 - _MOST_NAMES // 2, len(ids) - _MOST_NAMES))
        self.ids = ids[begin : begin + _MOST_NAMES]

    # --- what comes next ---

    def next_trial(self) -> Trial | None:
        """The trial of the next pair; None if nothing is left that tells anything."""
        for first in self._first_trials():
            if not self._is_made(first):
                return first
        if not any(each.differing for each in self.results):
            return None
        weighed = self._weighed()
        best = _most_telling(weighed)
        if best is not None:
            return best
        return next(iter(self._unseen_contrasts(weighed)), None)

    def _first_trials(self) -> Iterator[Trial]:
        yield self._alone(self.subject.request.id)
        if len(self.subject.requests) > 1:
            yield self._all()
        if self.subject.concurrency > 1 and not any(each.differing for each in self.results):
            yield together(
                self.subject.ids, self.subject.concurrency, max(_GROUP_TIMES, self.subject.passes)
            )

    def _is_made(self, trial: Trial) -> bool:
        return any(each.trial == trial for each in self.results)

    def _alone(self, name: str) -> Trial:
        """As often as the run had sent any request by the end of its first pass, and once more."""
        subject = self.subject
        often = len(subject.ids) + min(subject.concurrency, _MARGIN) + (subject.passes > 1)
        return one_by_one([name] * min(often, _MOST_REPEATS), resets=True)

    def _all(self) -> Trial:
        blocks: list[TrialBlock] = []
        for turn in range(min(self.subject.passes, 2)):
            made = one_by_one(self.ids).blocks
            first = replace(made[0], resets=turn > 0)
            blocks += [first, *made[1:]]
        return Trial(blocks=tuple(blocks))

    def _target(self) -> str:
        """The request that differed first in a trial; else that of the run."""
        wrong = [each.name for result in self.results for each in result.differing]
        mine = self.subject.request.id
        return mine if mine in wrong or not wrong else wrong[0]

    def _copies(self, name: str) -> list[str]:
        """The names of changed copies of a request of the run: what it has, another may lack."""
        if name not in self._bases.values():
            copies = changed_copies(self.requests[name], self.subject)
            self._bases |= {each.id: name for each in copies}
            self.requests |= {each.id: each for each in copies}
        return [each for each, base in self._bases.items() if base == name]

    def _pool(self) -> Iterator[Trial]:
        """Trials that may tell something, whatever was shown so far."""
        target, ids = self._target(), self.ids
        others = [each for each in ids if each != target]
        if any(each.at_once > 1 for result in self.results for each in result.differing):
            yield from self._groups(target, others)
            return
        yield from self._of_copies(target, others)
        yield one_by_one([target], pause_s=self.subject.pause_s)
        yield one_by_one([target, target], pause_s=self.subject.pause_s)
        if others:
            yield from self._in_orders(target, others)

    def _of_copies(self, target: str, others: Sequence[str]) -> Iterator[Trial]:
        """Changed copies of the request, and of one that does not differ."""
        mine = self._copies(target)
        if mine:
            yield one_by_one([target, *mine])
            yield one_by_one([*others, target, *mine])
            for name in self._right_before():
                yield one_by_one([each for one in (target, *mine) for each in (name, one)])
        other = _other(self.subject)
        if other is not None:
            rest = self._copies(other)
            yield one_by_one([*rest, target])
            yield one_by_one([other, target, target])
            yield self._alone(other)

    def _in_orders(self, target: str, others: Sequence[str]) -> Iterator[Trial]:
        """The request after others: all of them, each of them, many times one of them, a half of them."""
        yield one_by_one([*others, target])
        yield one_by_one([*reversed(others), target])
        yield one_by_one([target, *others, target])
        for order in (others, others[::-1]):
            yield one_by_one([*(each for name in order for each in (target, name)), target])
        by_length = sorted(others, key=lambda name: len(prompt_of(self.requests[name])))
        limited = sorted(others, key=lambda name: token_limit(self.requests[name]) or 0)
        for name in dict.fromkeys((by_length[0], by_length[-1], limited[0], limited[-1])):
            yield one_by_one([name] * (len(self._alone(name).blocks) - 1) + [target])
        for part in _parts(others):
            yield one_by_one([*part, target])

    def _right_before(self) -> list[str]:
        """What came right before the requests that differed, the most frequent one."""
        pairs = [pair for lane in self._lanes() for pair in itertools.pairwise(lane)]
        return [name for name, _ in Counter(a.name for a, b in pairs if b.wrong).most_common(1)]

    def _groups(self, target: str, others: Sequence[str]) -> Iterator[Trial]:
        ladder: list[TrialBlock] = []
        for size in _sizes(min(self.subject.concurrency, len(others) + 1)):
            yield together([target, *others[: size - 1]], size, _GROUP_TIMES)
            yield together([target, *others[-(size - 1) :]], size, _GROUP_TIMES)
            ladder += together([target, *others[: size - 1]], size, _GROUP_TIMES).blocks
        yield Trial(blocks=tuple(ladder))
        for part in _parts(others):
            yield together([target, *part], len(part) + 1, _GROUP_TIMES)
        pairs = [
            TrialBlock(names=order, at_once=2)
            for name in others
            for order in ((target, name), (name, target), (target, name))
        ]
        yield Trial(blocks=tuple(pairs))

    # --- what fits ---

    def _lanes(self) -> list[tuple[TrialSend, ...]]:
        return [each.sends for each in self.results if each.sends and each.pairs]

    def _expected(self, trial: Trial) -> tuple[TrialSend, ...]:
        """The sends of a trial that was not made: nobody knows what differs, the rest is guessed."""
        known = {each.name: each for lane in self._lanes() for each in lane}
        gaps = [b.at_s - a.at_s for lane in self._lanes() for a, b in itertools.pairwise(lane)]
        gap = sum(gaps) / len(gaps) if gaps else 0.0
        some = next(iter(known.values()), None)
        sends, at_s = [], 0.0
        for number, block in enumerate(trial.blocks):
            if number == len(trial.blocks) - 1:
                at_s += trial.pause_s
            for name in block.names:
                like = known.get(name) or known.get(self._bases.get(name, name)) or some
                length = len(prompt_of(self.requests[name])) / max(
                    1, len(prompt_of(self.requests[like.name])) if like else 1
                )
                sends.append(
                    TrialSend(
                        name=name, block=number, at_once=min(block.at_once, len(block.names)),
                        prompt_tokens=round(like.prompt_tokens * length) if like else 0,
                        answer_tokens=like.answer_tokens if like else 0,
                        at_s=at_s,
                    )
                )  # fmt: skip
                at_s += gap
        return tuple(sends)

    def _weighed(self) -> "_Weighed":
        """The causes that fit, and what they say of the trials that were not made."""
        lanes = self._lanes()
        pool = [each for each in dict.fromkeys(self._pool()) if not self._is_made(each)]
        observed = sum(map(len, lanes))
        more = [self._expected(each) for each in pool]
        table = SendTable([*lanes, *more], self.requests, self.subject.ids)
        plain = table.mask(each.name in self.ids for each in table.sends)
        return _Weighed(
            causes=_without_idle_traits(self._fitting(table, observed), plain)[:_MOST_CAUSES],
            pool=pool,
            begins=list(itertools.accumulate(map(len, more), initial=observed)),
            plain=plain,
        )

    def _fitting(self, table: SendTable, observed: int) -> list[Cause]:
        """The causes that fit; if none does, those that name requests, whatever changed copies show."""
        return fitting(table, observed) or _naming(table, observed)

    # --- with and without ---

    def _basis(self, cause: Cause) -> list[Trial]:
        """Small trials whose last request may differ, the smallest first."""
        target, ids = self._target(), self.ids
        others = [each for each in ids if each != target]
        if self._is_of_groups():
            sizes = range(1, min(self.subject.concurrency, len(ids)) + 1)
            made = [
                together([target, *others[: size - 1]], size, _GROUP_TIMES)
                for size in sizes
                if size > 1
            ]
            made += [together([target, name], 2, _GROUP_TIMES) for name in others]
            return [one_by_one([target]), *sorted(made, key=lambda each: len(each.blocks[0].names))]
        repeats = len(self._alone(target).blocks)
        mentioned = [name for name in ids if name in cause.context.words.replace(",", "").split()]
        made = [one_by_one([name]) for name in (target, *self._copies(target))]
        made += [one_by_one([target] * count, resets=True) for count in range(2, repeats + 1)]
        made += [one_by_one([name, target]) for name in others]
        made += [
            one_by_one([*part, target])
            for count in (2, 3)
            for part in itertools.combinations(mentioned, count)
        ]
        whole = self._all().blocks
        made += [Trial(blocks=whole[:count]) for count in range(2, len(whole) + 1)]
        made += [
            one_by_one([target], pause_s=self.subject.pause_s),
            one_by_one([target] * 2, pause_s=self.subject.pause_s),
        ]
        return sorted(dict.fromkeys(made), key=lambda each: len(each.blocks))

    def _distance(self, one: Trial, other: Trial) -> tuple[int, int]:
        """How many requests one has that the other lacks; copies of one request are near."""
        left, right = Counter(one.names), Counter(other.names)
        bases = [
            Counter(self._bases.get(name, name) for name in each.names) for each in (one, other)
        ]
        apart = sum(((left - right) + (right - left)).values())
        bases_apart = sum(((bases[0] - bases[1]) + (bases[1] - bases[0])).values())
        return bases_apart + abs(len(one.names) - len(other.names)), apart

    def _is_of_groups(self) -> bool:
        wrong = [each for result in self.results if result.pairs for each in result.differing]
        return bool(wrong) and all(each.at_once > 1 for each in wrong)

    def contrasts(self, cause: Cause) -> "_Contrasts":
        """The smallest trial whose last request differs by the cause, and the nearest that do not."""
        basis = self._basis(cause)
        parts = self._parts_of(cause, basis)
        with_it = next((each for each, part in zip(basis, parts, strict=True) if all(part)), None)
        if with_it is None:
            return _Contrasts()
        if not self._is_of_groups():
            basis = list(dict.fromkeys((*basis, *self._variants(with_it, cause))))
            parts = self._parts_of(cause, basis)
        wanted = len(with_it.blocks) - 1 if cause.context.family.count(" ") > 1 else 1
        without_context = self._nearest(basis, parts, (True, False), with_it, wanted)
        without_target: tuple[Trial, ...] = ()
        if cause.target.trait or not without_context:
            without_target = self._nearest(basis, parts, (False, True), with_it, 1)
        if not without_context and not without_target:
            without_context = self._nearest(basis, parts, (False, False), with_it, 1)
        return _Contrasts(
            with_it=with_it, without_context=without_context, without_target=without_target
        )

    def _parts_of(self, cause: Cause, trials: Sequence[Trial]) -> list[tuple[bool, bool]]:
        """Whether the last request of each trial is of the cause's target, and in its context."""
        lanes = self._lanes()
        observed = sum(map(len, lanes))
        more = [self._expected(each) for each in trials]
        table = SendTable([*lanes, *more], self.requests, self.subject.ids)
        fit = itertools.chain(self._fitting(table, observed), _naming(table, observed))
        like = next((each for each in fit if _key(each) == _key(cause)), None)
        if like is None:
            return [(False, False)] * len(trials)
        ends = itertools.accumulate(map(len, more), initial=observed)
        next(ends)
        masks = (like.target.mask, like.context.mask)
        return [(bool(masks[0] >> end - 1 & 1), bool(masks[1] >> end - 1 & 1)) for end in ends]

    def _variants(self, trial: Trial, cause: Cause) -> Iterator[Trial]:
        """The trial with another request at its end, or, for a trait of what came before, right before it."""
        *before, last = trial.names
        places = [(len(before), last)] if cause.target.trait else []
        if cause.context.trait and before:
            places.append((len(before) - 1, before[-1]))
        for place, name in places:
            base = self._bases.get(name, name)
            for other in (*self._copies(base), *self.ids):
                block = replace(trial.blocks[place], names=(other,))
                blocks = (*trial.blocks[:place], block, *trial.blocks[place + 1 :])
                yield replace(trial, blocks=blocks)

    def _nearest(
        self,
        trials: Sequence[Trial],
        parts: Sequence[tuple[bool, bool]],
        wanted: tuple[bool, bool],
        trial: Trial,
        most: int,
    ) -> tuple[Trial, ...]:
        """The trials nearest to `trial` of which exactly these parts hold."""
        rest = [each for each, part in zip(trials, parts, strict=True) if part == wanted]
        rest.sort(key=lambda each: self._distance(each, trial))
        alike = [
            each for each in rest if self._distance(each, trial) == self._distance(rest[0], trial)
        ]
        return tuple(alike[: max(1, min(most, _MOST_CONTRASTS))])

    def _unseen_contrasts(self, weighed: "_Weighed") -> Iterator[Trial]:
        for cause in _chosen(weighed)[:1]:
            contrasts = self.contrasts(cause)
            with_it = contrasts.with_it
            # What one start alone has shown may be chance.
            if with_it is not None and sum(bool(each.differing) for each in self.results) == 1:
                yield with_it
            for each in (*((with_it,) if with_it else ()), *contrasts.without):
                if self._shown(each) is None:
                    yield each

    def _borne(self, causes: Sequence[Cause]) -> list[tuple[Cause, "_Contrasts"]]:
        """The causes whose every trait was tried, each with its contrasts."""
        made = [(each, self.contrasts(each)) for each in causes]
        return [(each, contrasts) for each, contrasts in made if self._is_borne(each, contrasts)]

    def _is_borne(self, cause: Cause, contrasts: "_Contrasts") -> bool:
        """Whether starts without each trait that the cause claims have shown no difference.

        A changed copy beside the request that differs, in one start, counts for what requests hold.
        """
        if cause.target.trait and not self._is_equal_in_a_copy(cause):
            made = map(self._shown, contrasts.without_target)
            if not any(each is False for each in made):
                return False
        made = map(self._shown, contrasts.without_context)
        return not cause.context.trait or any(each is False for each in made)

    def _is_equal_in_a_copy(self, cause: Cause) -> bool:
        """Whether a copy of a request that differs, in the cause's context and not meant by it, was equal."""
        sends = [each for lane in self._lanes() for each in lane]
        differing = {self._bases.get(each.name, each.name) for each in sends if each.wrong}
        without = cause.context.mask & ~cause.target.mask
        return any(
            without >> place & 1 and each.wrong is False and self._bases.get(each.name) in differing
            for place, each in enumerate(sends)
        )

    def _shown(self, trial: Trial) -> bool | None:
        """Whether the last request of a trial differed in fresh starts; None if none got just that."""
        names = trial.names
        if trial.at_once > 1:
            made = [each for each in self.results if each.trial == trial]
            return bool(made[0].differing) if made else None
        for result in self.results:
            sends = result.sends[: len(names)]
            is_plain = trial.pause_s == result.trial.pause_s or (
                not trial.pause_s and len(names) < len(result.trial.blocks)
            )
            if (
                result.pairs
                and is_plain
                and tuple(each.name for each in sends) == names
                and all(each.at_once == 1 for each in sends)
            ):
                return sends[-1].wrong
        return None

    def conclusion(self) -> LocalisedCause:
        """What fits everything that was shown."""
        if not any(each.differing for each in self.results if each.pairs):
            return LocalisedCause()
        chosen = _chosen(self._weighed())
        if not chosen:
            return LocalisedCause(shown=self._differing_trials())
        # Where no start without a trait was left to make, the requests themselves are named.
        table = SendTable(self._lanes(), self.requests, self.subject.ids)
        borne = self._borne(chosen) or self._borne(_naming(table, len(table.sends))[:1])
        if not borne:
            return LocalisedCause(shown=self._differing_trials())
        best, contrasts = borne[0]
        with_it = contrasts.with_it
        return LocalisedCause(
            cause=best.in_words(),
            rivals=tuple(each.in_words() for each, _ in borne[1:]),
            shown=(with_it,)
            if with_it is not None and self._shown(with_it)
            else self._differing_trials(),
            vanished=tuple(each for each in contrasts.without if self._shown(each) is False),
        )

    def _differing_trials(self) -> tuple[Trial, ...]:
        """The smallest beginning of a trial that differs."""
        made = []
        for result in self.results:
            if not result.pairs or not result.differing:
                continue
            if result.trial.at_once > 1:
                made.append(result.trial)
                continue
            place = next(at for at, each in enumerate(result.sends) if each.wrong)
            made.append(replace(result.trial, blocks=result.trial.blocks[: place + 1]))
        made.sort(key=lambda each: (each.at_once, len(each.names)))
        return tuple(made[:1])


def _naming(table: SendTable, observed: int) -> list[Cause]:
    """The causes that claim no trait and name requests of the run, whatever changed copies show.

    A trait that a copy has shown to be none is no cause.
    """
    return [each for each in fitting(table, observed, plain_alone=True) if not each.traits]


def _sizes(most: int) -> Iterator[int]:
    """2, 3, 4, 6, 8, 12, … up to the most."""
    size = 2
    while size < most:
        yield size
        size += max(1, 1 << (size.bit_length() - 2))
    yield most


def _parts(names: Sequence[str]) -> Iterator[list[str]]:
    """Halves of the names, so that any two of them are apart in one: by each bit of their place."""
    for bit in range(max(1, (len(names) - 1).bit_length())):
        for side in (1, 0):
            part = [name for place, name in enumerate(names) if place >> bit & 1 == side]
            if part:
                yield part


def _without_idle_traits(causes: Sequence[Cause], plain: int) -> list[Cause]:
    """The causes without traits that all requests of the run have, where `each request` fits too."""
    known = {each.mask & plain for each in causes if not each.target.trait}
    kept = []
    for each in causes:
        is_idle = each.target.trait and each.target.mask & plain == plain
        if not is_idle or each.mask & plain not in known:
            kept.append(each)
    return kept


def _key(cause: Cause) -> tuple[str, str, str, str]:
    return cause.target.family, cause.target.words, cause.context.family, cause.context.words


def _weights(causes: Sequence[Cause]) -> list[float]:
    """The weight of each cause; a family with many numbers weighs no more than one with few."""
    counts = Counter(each.family for each in causes)
    raw = [2.0**-each.cost / counts[each.family] for each in causes]
    total = sum(raw)
    return [each / total for each in raw]


def _chosen(weighed: _Weighed) -> list[Cause]:
    """One cause of each family that weighs enough, the heaviest first; of several numbers, the safe one.

    Where nothing that was seen tells a trait of requests from the requests themselves, these are named.
    Those that say the same of each unchanged request are one.
    """
    causes, plain = weighed.causes, weighed.plain
    seen = (1 << weighed.begins[0]) - 1
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
        alike = [
            each
            for each in causes
            if each.mask & seen == best.mask & seen and each.traits < best.traits
        ]
        best = min(alike, key=lambda each: (each.traits, each.cost), default=best)
        is_apart = all(best.mask & plain != each.mask & plain for each in named)
        # What nobody can tell apart, and claims as little.
        is_as_good = bool(named) and best.family != named[0].family and best.cost <= named[0].cost
        is_new = best.family not in {each.family for each in named}
        if is_new and (is_apart or (is_as_good and best.traits > 0)):
            named.append(best)
    return named


def _most_telling(weighed: _Weighed) -> Trial | None:
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
