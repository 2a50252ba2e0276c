# SPDX-License-Identifier: Apache-2.0
"""Which trial the next pair of starts gets, and what is concluded of all of them. Pure.

The first two trials are always the same: the request alone again and again, and all requests one at a
time. Then each pair gets the trial that tells most between the causes that still fit. At last the
cause is tried in fresh starts, once with and once without each part of its condition.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import Cause, SendTable, fitting, parameters
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
from ci_doctor.load.prompts import (
    Cut,
    PromptLength,
    halved,
    prompt_length,
    prompt_of,
    token_limit,
    with_prompt,
)
from ci_doctor.load.requests import Request

# How often a request alone is sent to one start, at most.
_MOST_REPEATS = 64

# Requests that are under way at once may arrive in another order.
_MARGIN = 8

# A trial of more requests than that leaves some out.
_MOST_NAMES = 48

_PREFIXES = 8

# So many causes are weighed; what costs more is hardly one.
_MOST_CAUSES = 3000

# A trial that tells less than this (in bits) is not worth two starts.
_LEAST_BITS = 0.15

# A request that is sent costs a little: of two trials that tell as much, the shorter one is made.
_BITS_PER_SEND = 0.001

# What a trial tells about a number within one family counts for less than about the family.
_WITHIN = 0.15

# Of so many words each is apart from each other in some copy.
_WORD_BITS = 4

_GROUP_TIMES = 3

_MOST_CONTRASTS = 3

# A rival is named if its weight is this part of all.
_RIVAL = 0.08

_NOT_VARIED = {"model", "stream_options", "user"}


def _other(subject: LocalisedDifference) -> str | None:
    """A request that does not differ in the run; else one with another prompt."""
    prompt = prompt_of(subject.request)
    others = [each.id for each in subject.requests if prompt_of(each) != prompt]
    equal = [each for each in others if each not in subject.differing]
    return next(iter(equal or others), None)


def changed_copies(request: Request, subject: LocalisedDifference) -> list[Request]:
    """The request with another prompt or without a part of it, and with other parameters."""
    copies = []
    length = prompt_length(request)
    if length is not None:
        for text, change in _prompt_changes(length, subject):
            changed = with_prompt(request, change)
            if changed.body != request.body:
                copies.append(replace(changed, id=f"{request.id}, {text}"))
    return [*copies, *_with_other_parameters(request, subject)]


def _prompt_changes(
    length: PromptLength, subject: LocalisedDifference
) -> Iterator[tuple[str, Callable[[Cut], Cut]]]:
    """What is made of a prompt, in words: parts of it, other contents, another length."""
    count, unit = length.count, length.unit
    for size in halved(count, _PREFIXES):
        yield f"first {size} of {count} {unit}", _slice(0, size)
    for size in halved(count, 3):
        yield f"last {size} of {count} {unit}", _slice(count - size, count)
    yield "its prompt turned round", _turned
    for bit in range(_WORD_BITS):
        for side in (0, 1):
            yield f"without half of its words ({2 * bit + side + 1})", _without_words(bit, side)
    yield f"{count} times the first of its {unit}", lambda cut: cut[:1] * count
    lengths = filter(None, map(prompt_length, subject.requests))
    longest = max(each.count for each in lengths)
    if longest > count:
        times = math.ceil(longest / count)
        yield f"repeated to {longest} {unit}", lambda cut: (cut * times)[:longest]
    yield "x for what is not ASCII", _ascii


def _without_words(bit: int, side: int) -> Callable[[Cut], Cut]:
    """Half of the words: any two of them are apart in one of the halves."""

    def change(cut: Cut) -> Cut:
        words = cut.split() if isinstance(cut, str) else cut
        left = [place for place in range(len(words)) if place >> bit & 1 != side]
        if isinstance(cut, str):
            return " ".join(str(words[place]) for place in left)
        return [cut[place] for place in left]

    return change


def _slice(begin: int, end: int) -> Callable[[Cut], Cut]:
    return lambda cut: cut[begin:end]


def _ascii(cut: Cut) -> Cut:
    if isinstance(cut, str):
        return "".join(each if each.isascii() else "x" for each in cut)
    return cut


def _turned(cut: Cut) -> Cut:
    return " ".join(reversed(cut.split())) if isinstance(cut, str) else cut[::-1]


def _with_other_parameters(request: Request, subject: LocalisedDifference) -> Iterator[Request]:
    own = request.body
    values: dict[str, list[Any]] = defaultdict(list)
    for each in subject.requests:
        for key in parameters(each).keys() & each.body.keys():
            if each.body[key] not in values[key]:
                values[key].append(each.body[key])
    for key in sorted(values.keys() - _NOT_VARIED):
        if key in own:
            left_out = {key, f"{key}_options"}
            body = {name: value for name, value in own.items() if name not in left_out}
            yield replace(request, id=f"{request.id} without `{key}`", body=body)
        others = [each for each in values[key] if each != own.get(key)]
        if all(map(_is_number, [*others, own.get(key, 0)])):
            # The nearest ones tell where the border is, the others whether it is this number alone.
            others = sorted(others, key=lambda each: abs(each - own.get(key, 0)))[:2]
            others += [2 * own[key], own[key] // 2] if own.get(key, 0) > 1 else []
        for value in others[:4]:
            name = f"{request.id} with `{key}` {str(value)[:40]}"
            yield replace(request, id=name, body={**own, key: value})


def _is_number(value: object) -> bool:
    return type(value) in {int, float}


class _Weighed(Struct, frozen=True, kw_only=True):
    """Causes that fit, the cheapest first; `pool` are trials, which begin at these bits; `plain`: unchanged requests."""

    causes: list[Cause]
    pool: list[Trial]
    begins: list[int]
    plain: int


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
                sends.append(
                    TrialSend(
                        name=name, block=number, at_once=min(block.at_once, len(block.names)),
                        prompt_tokens=like.prompt_tokens if like else 0,
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
        """The causes that fit; if none does, those that leave open what changed copies show."""
        return fitting(table, observed) or fitting(table, observed, plain_alone=True)

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

    def contrasts(self, cause: Cause) -> tuple[Trial | None, tuple[Trial, ...]]:
        """The smallest trial whose last request differs by the cause, and the nearest that do not."""
        lanes = self._lanes()
        observed = sum(map(len, lanes))
        basis = self._basis(cause)
        more = [self._expected(each) for each in basis]
        table = SendTable([*lanes, *more], self.requests, self.subject.ids)
        mask = next(
            (each.mask for each in self._fitting(table, observed) if _key(each) == _key(cause)),
            None,
        )
        if mask is None:
            return None, ()
        ends = itertools.accumulate(map(len, more), initial=observed)
        next(ends)
        differs = [bool(mask >> (end - 1) & 1) for end in ends]
        with_it = next((each for each, yes in zip(basis, differs, strict=True) if yes), None)
        if with_it is None:
            return None, ()
        near = with_it
        rest = [each for each, yes in zip(basis, differs, strict=True) if not yes]
        rest.sort(key=lambda each: self._distance(each, near))
        least = self._distance(rest[0], near) if rest else 0
        alike = [each for each in rest if self._distance(each, near) == least]
        wanted = len(with_it.blocks) - 1 if cause.context.family.count(" ") > 1 else 1
        return with_it, tuple(alike[: max(1, min(wanted, _MOST_CONTRASTS))])

    def _unseen_contrasts(self, weighed: "_Weighed") -> Iterator[Trial]:
        for cause in _chosen(weighed)[:1]:
            with_it, without = self.contrasts(cause)
            # What one start alone has shown may be chance.
            if with_it is not None and sum(bool(each.differing) for each in self.results) == 1:
                yield with_it
            for each in (*((with_it,) if with_it else ()), *without):
                if self._shown(each) is None:
                    yield each

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
        best, *others = chosen
        with_it, without = self.contrasts(best)
        shown = (
            (with_it,) if with_it is not None and self._shown(with_it) else self._differing_trials()
        )
        vanished = tuple(each for each in without if self._shown(each) is False)
        return LocalisedCause(
            cause=best.in_words(),
            rivals=tuple(each.in_words() for each in others),
            shown=shown,
            vanished=vanished,
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
        if is_apart or (is_as_good and best.traits > 0):
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
