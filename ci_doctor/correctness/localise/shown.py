# SPDX-License-Identifier: Apache-2.0
"""What starts were sent so far, as it is or changed, and what they showed. Pure."""

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import Cause
from ci_doctor.correctness.localise.copies import Copy, changed_copies
from ci_doctor.correctness.localise.traits import parameters, said
from ci_doctor.correctness.localise.trials import (
    LocalisedDifference,
    Trial,
    TrialBlock,
    TrialResult,
    TrialSend,
    one_by_one,
    together,
)
from ci_doctor.load.prompts import prompt_of, token_limit

# A trial of more requests than that leaves some out.
MOST_NAMES = 48
# So often a group is sent in one start, and what was equal in several.
GROUP_TIMES = 3


# How often a request alone is sent to one start, at most.
_MOST_REPEATS = 64
# So many equal starts are made again if no cause fits.
_MOST_DOUBTED = 2
# Requests that are under way at once may arrive in another order.
_MARGIN = 8
# So many changed copies are told where no cause is.
_MOST_FACTS = 6
# Of so many requests that differ beside the first one, changed copies are sent.
_MOST_COPIED = 4
# Each request has a model and a limit: that there is one alone goes without saying.
_OF_NO_KIND = {"model", "max_tokens", "max_completion_tokens"}


class SentSoFar:
    """The trials of a difference that were made, and the requests that they name."""

    def __init__(self, subject: LocalisedDifference) -> None:
        self.subject = subject
        self.requests = {each.id: each for each in subject.requests}
        # Of each changed copy, the id of the request.
        self._bases: dict[str, str] = {}
        # What it alone lacks.
        self._lacks: dict[str, str] = {}
        self._rows: dict[tuple[str, ...], list[Any]] = {}
        self.results: list[TrialResult] = []
        self._telling: tuple[int, list[TrialResult]] = (0, [])
        ids = subject.ids
        place = ids.index(subject.request.id)
        # What came before the request is needed first, then what comes after it.
        begin = max(0, min(place + 1 - MOST_NAMES // 2, len(ids) - MOST_NAMES))
        self.ids = ids[begin : begin + MOST_NAMES]

    @property
    def told(self) -> list[TrialResult]:
        """The results, in which an equal answer tells nothing if it ends before a difference would show.

        That is where answers to the same request differed at the latest, or else to the median one.
        """
        if self._telling[0] != len(self.results):
            places: dict[str, float] = {}
            for each in (send for result in self.results for send in result.differing):
                base = self._bases.get(each.name, each.name)
                places[base] = max(places.get(base, 0.0), each.differs_at)
            wrong = {send.name for result in self.results for send in result.differing}
            # Those of the run too: they have shown it there.
            wrong.update(self.subject.differing)
            median = statistics.median(places.values()) if places else 0.0
            told = []
            for result in self.results:
                sends = []
                for each in result.sends:
                    place = places.get(self._bases.get(each.name, each.name), median)
                    # A request that differed itself has an answer that is long enough.
                    is_long = each.name in wrong or each.length > place
                    is_short = each.wrong is False and each.length > 0 and not is_long
                    sends.append(replace(each, wrong=None, is_short=True) if is_short else each)
                told.append(replace(result, sends=tuple(sends)))
            self._telling = len(self.results), told
        return self._telling[1]

    def _add(self, base: str, copies: Iterable[Copy]) -> list[str]:
        """The names of copies, which can be sent from now on."""
        names = []
        for each in copies:
            name = each.request.id
            names.append(name)
            if name not in self.requests:
                self.requests[name] = each.request
                self._bases[name] = base
                self._lacks[name] = each.lacks
        return names

    def _copies(self, name: str) -> list[str]:
        """The names of changed copies of a request of the run: what it has, another may lack."""
        if name not in self._bases.values():
            self._add(name, changed_copies(self.requests[name], self.subject))
        return [each for each, base in self._bases.items() if base == name]

    def _parted(self, name: str) -> list[str]:
        """The copies of a request that lack one thing: a parameter, or something of its prompt."""
        text, body = said(self.requests[name]), self.requests[name].body
        return [
            each
            for each in self._copies(name)
            if self._lacks[each]
            or (said(self.requests[each]) == text and self.requests[each].body != body)
        ]

    def _of_a_key(self, cause: Cause) -> list[str]:
        """Changed copies of the request that have another value of a parameter that the cause is about, or none."""
        own = parameters(self.requests[self._target()])
        words = {each.partition("=")[0] for each in " ".join(cause.family).split(" ")}
        names = []
        for name in self._copies(self._target()):
            given = parameters(self.requests[name])
            changed = {key for key in own.keys() | given.keys() if own.get(key) != given.get(key)}
            if words & changed:
                names.append(name)
        return names

    def _twin(self, name: str) -> list[str]:
        """The name of the same request once more: of one name a group has one."""
        self._copies(name)
        request = self.requests[name]
        twin = replace(request, id=f"{name} once more", body={**request.body})
        return self._add(name, [Copy(twin)])

    def _target(self) -> str:
        """The request that differed first in a trial; else that of the run."""
        wrong = [each.name for result in self.told for each in result.differing]
        mine = self.subject.request.id
        return mine if mine in wrong or not wrong else wrong[0]

    def _right_before(self) -> list[str]:
        """What came right before the requests that differed, the most frequent one."""
        pairs = [pair for lane in self.lanes() for pair in itertools.pairwise(lane)]
        return [name for name, _ in Counter(a.name for a, b in pairs if b.wrong).most_common(1)]

    def _all_lanes(self) -> list[tuple[TrialSend, ...]]:
        return [each.sends for each in self.told if each.sends and each.pairs]

    def lanes(self) -> list[tuple[TrialSend, ...]]:
        """What tells something: of a difference that some starts do not show, those that do."""
        lanes = self._all_lanes()
        if self._is_noisy():
            return [each for each in lanes if any(send.wrong for send in each)]
        return lanes

    def _is_of_groups(self) -> bool:
        wrong = [each for result in self.told if result.pairs for each in result.differing]
        return bool(wrong) and all(each.at_once > 1 for each in wrong)

    def _is_noisy(self) -> bool:
        return self._unsteady() is not None

    def _unsteady(self) -> Trial | None:
        """What differed at its end in one start and not in another; None if there is no such thing."""
        # A start that was left idle got something else.
        steady = [each.sends for each in self.told if each.pairs and not each.trial.pause_s]
        lanes = [lane for lane in steady if all(each.at_once == 1 for each in lane)]
        for one, other in itertools.combinations(lanes, 2):
            for place, (left, right) in enumerate(zip(one, other, strict=False)):
                if left.name != right.name:
                    break
                if None not in {left.wrong, right.wrong} and left.wrong != right.wrong:
                    return one_by_one([each.name for each in one[: place + 1]])
        return None

    def _is_made(self, trial: Trial) -> bool:
        made = [each for each in self.told if each.trial == trial]
        if self._is_noisy() and not any(each.differing for each in made):
            return len(made) >= GROUP_TIMES
        return bool(made)

    def _equal_once(self) -> Trial | None:
        """What was sent once with the request, and was equal: a start may just not have shown it."""
        equal = [each.trial for each in self.told if each.pairs and not each.differing]
        made = [each for each in equal if self._target() in each.names]
        if len(made) - len(set(made)) >= _MOST_DOUBTED:
            return None
        # The last one was against the last cause.
        return next((each for each in reversed(made) if made.count(each) == 1), None)

    def _all_shown(self, trial: Trial) -> list[bool]:
        """Whether the last request differed, in each start that began with just that."""
        names = trial.names
        shown: list[bool] = []
        for result in self.told:
            if not result.pairs or not result.sends:
                continue
            if trial.at_once > 1:
                wrong = [each.name for each in result.differing]
                shown += [trial.names[0] in wrong] * (result.trial == trial)
                continue
            sends = result.sends[: len(names)]
            is_plain = trial.pause_s == result.trial.pause_s or (
                not trial.pause_s and len(names) < len(result.trial.blocks)
            )
            is_same = tuple(each.name for each in sends) == names
            if is_plain and is_same and all(each.at_once == 1 for each in sends):
                shown += [] if sends[-1].wrong is None else [sends[-1].wrong]
        return shown

    def _shown(self, trial: Trial) -> bool | None:
        """Whether the last request of a trial differed in fresh starts; None if none got just that."""
        shown = self._all_shown(trial)
        # Of a difference that some starts do not show, one equal start says nothing.
        if not shown or (self._is_noisy() and not any(shown) and len(shown) < GROUP_TIMES):
            return None
        return any(shown)

    def _differing_trials(self) -> tuple[Trial, ...]:
        """The smallest beginning of a trial that differs."""
        made = []
        for result in self.told:
            if not result.pairs or not result.differing:
                continue
            if result.trial.at_once > 1:
                made.append(_smallest_group(result))
                continue
            place = next(at for at, each in enumerate(result.sends) if each.wrong)
            made.append(replace(result.trial, blocks=result.trial.blocks[: place + 1]))
        made.sort(key=lambda each: (each.at_once, len(each.names)))
        return tuple(made[:1])

    def _varied(self) -> tuple[str, ...]:
        """Changed copies that were equal in all starts in which the request differed."""
        names: dict[str, set[bool]] = {}
        for sends in self.lanes():
            # Of what is under way at once nobody knows which came first.
            lane = [each for each in sends if each.at_once == 1]
            wrong = {each.name for each in lane if each.wrong}
            for each in lane:
                base = self._bases.get(each.name)
                if base in wrong and each.wrong is not None:
                    names.setdefault(each.name, set()).add(each.wrong)
        parted = [one for base in dict.fromkeys(self._bases.values()) for one in self._parted(base)]
        some = [name for name in parted if names.get(name) == {False}]
        # First those without a whole parameter.
        some.sort(key=lambda name: len(self.requests[name].body))
        return tuple(some[:_MOST_FACTS])

    def place(self) -> int:
        """About which token of an answer is the first that differed."""
        wrong = [each for result in self.told for each in result.differing]
        plain = [each for each in wrong if each.name in self.subject.ids]
        return round(min((each.differs_at for each in plain or wrong), default=0.0)) + 1

    def _shorts(self) -> int:
        """How many equal answers were too short to tell anything."""
        return sum(each.is_short for result in self.told for each in result.sends)

    def _is_timed(self, family: str) -> bool:
        """Whether time is a cause by itself, if a family of contexts is of it: it passed without requests, and they came without time.

        So a request differs in a start that was left idle, and is equal in another that had got more by then. Of the
        first seconds of a start it is the other way round.
        """
        timed = {"age", "idle", "young"} & set(family.split(" "))
        if not timed:
            return True
        paused = [each for each in self.told if each.pairs and each.trial.pause_s]
        late = [
            (place, each)
            for result in paused
            for place, each in enumerate(result.sends)
            if each.wrong is ("young" not in timed) and each.block == len(result.trial.blocks) - 1
        ]
        early = [
            (place, each)
            for lane in self.lanes()
            for place, each in enumerate(lane)
            if each.wrong is ("young" in timed)
        ]
        return any(
            place <= other_place and each.name == other.name and each.at_s > other.at_s
            for place, each in late
            for other_place, other in early
        )

    def _expected(self, trial: Trial) -> tuple[TrialSend, ...]:
        """The sends of a trial that was not made: nobody knows what differs, the rest is guessed."""
        known = {each.name: each for lane in self.lanes() for each in lane}
        gaps = [b.at_s - a.at_s for lane in self.lanes() for a, b in itertools.pairwise(lane)]
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
                        prompt_tokens=math.ceil(like.prompt_tokens * length) if like else 0,
                        answer_tokens=like.answer_tokens if like else 0,
                        finish=like.finish if like else "",
                        at_s=at_s,
                    )
                )  # fmt: skip
                at_s += gap
        return tuple(sends)

    def _smaller(self, trial: Trial) -> Iterator[Trial]:
        """The trial without a part of what comes before its last request, the smallest ones first."""
        if trial.at_once > 1:
            block = trial.blocks[0]
            names = [each for each in block.names if each != self._target()]
            for half in (names[len(names) // 2 :], names[: len(names) // 2]):
                if half:
                    made = [self._target(), *half]
                    yield together(made, min(block.at_once, len(made)), GROUP_TIMES)
            return
        *before, last = trial.names
        parts: list[list[str]] = [[], before[-1:], before[:1]]
        size = len(before)
        while size > 1:
            size = (size + 1) // 2
            begins = range(0, len(before), size)
            parts += reversed([before[at : at + size] for at in begins])
            parts += [[*before[:at], *before[at + size :]] for at in begins]
        for left in parts:
            if len(left) < len(before):
                yield one_by_one([*left, last])

    def unvaried(self, cause: Cause) -> dict[str, Any]:
        """The parameters of which one value alone was sent, but for the model, where the cause is silent on the value.

        Of any request those that each one of the run has, else those that requests have by the cause.
        """
        run = [parameters(each) for each in self.subject.requests]
        claims = itertools.pairwise(" ".join(cause.family).split(" "))
        keys = {key for verb, key in claims if verb == "has"}
        # A flag that is given has no other value.
        keys -= {key for key in keys for each in run if each.get(key) is True}
        if cause.target.family == "any":
            keys |= set.intersection(*map(set, run))
        keys -= _OF_NO_KIND
        values: dict[str, set[Any]] = defaultdict(set)
        sent = (self.requests[send.name] for lane in self.lanes() for send in lane)
        for each in (*run, *map(parameters, sent)):
            for key in keys & each.keys():
                values[key].add(each[key])
        return {key: next(iter(some)) for key, some in sorted(values.items()) if len(some) == 1}

    def _distance(self, one: Trial, other: Trial) -> tuple[int, int]:
        """How many requests one has that the other lacks; copies of one request are near."""
        left, right = Counter(one.names), Counter(other.names)
        bases = [
            Counter(self._bases.get(name, name) for name in each.names) for each in (one, other)
        ]
        apart = sum(((left - right) + (right - left)).values())
        bases_apart = sum(((bases[0] - bases[1]) + (bases[1] - bases[0])).values())
        return bases_apart + abs(len(one.names) - len(other.names)), apart

    def _alone(self, name: str) -> Trial:
        """As often as the run had sent any request by the end of its first pass, and once more."""
        subject = self.subject
        often = len(subject.ids) + min(subject.concurrency, _MARGIN) + (subject.passes > 1)
        return one_by_one([name] * min(often, _MOST_REPEATS), resets=True)

    def _pool(self) -> Iterator[Trial]:
        """Trials that may tell something, whatever was shown so far."""
        target, ids = self._target(), self.ids
        others = [each for each in ids if each != target]
        if any(each.at_once > 1 for result in self.told for each in result.differing):
            yield from self._groups(target, others)
            return
        yield from self._of_copies(target, others)
        yield one_by_one([target], pause_s=self.subject.pause_s)
        yield one_by_one([target, target], pause_s=self.subject.pause_s)
        if others:
            yield from self._in_orders(target, others)

    def _of_copies(self, target: str, others: Sequence[str]) -> Iterator[Trial]:
        """Changed copies of the request, and of one that does not differ."""
        yield from self._of_own_copies(target, others)
        wrong = {each.name for lane in self.lanes() for each in lane if each.wrong}
        more = [each for each in others if each in wrong][:_MOST_COPIED]
        if more:
            yield one_by_one([each for name in more for each in (name, *self._parted(name))])
        other = _other(self.subject)
        if other is not None:
            rest = self._copies(other)
            yield one_by_one([*rest, target])
            yield one_by_one([other, target, target])
            yield self._alone(other)

    def _of_own_copies(self, target: str, others: Sequence[str]) -> Iterator[Trial]:
        """Changed copies of the request: alone, after others, each twice, and after what came right before it."""
        mine = self._copies(target)
        if not mine:
            return
        yield one_by_one([target, *mine])
        yield one_by_one([*others, target, *mine])
        yield one_by_one([each for name in (target, *mine) for each in (name, name)])
        for shown in self._differing_trials():
            yield one_by_one([*shown.names[:-1], target, *mine])
        for name in self._right_before():
            yield one_by_one([each for one in (target, *mine) for each in (name, one)])
            for before in (self._copies(name), self._copies(name)[::-1]):
                yield one_by_one([each for one in before for each in (one, target)])

    def _in_orders(self, target: str, others: Sequence[str]) -> Iterator[Trial]:
        """The request after others: all of them, each of them, many times one of them, a half of them."""
        yield one_by_one([*others, target])
        yield one_by_one([*reversed(others), target])
        yield one_by_one([target, *others, target])
        # Few long ones, or many short ones: what counts, requests or what they hold.
        long = sorted(others, key=lambda name: -len(prompt_of(self.requests[name])))
        for count in (2, 4, len(others) // 2):
            yield one_by_one([target, *long[:count], target])
        yield one_by_one([target, *long[:2] * 4, target])
        yield one_by_one([target, *long[len(others) // 4 :], target])
        yield one_by_one([target, *long[-1:] * len(others), target])
        for order in (others, others[::-1]):
            yield one_by_one([*(each for name in order for each in (target, name)), target])
        by_length = sorted(others, key=lambda name: len(prompt_of(self.requests[name])))
        limited = sorted(others, key=lambda name: token_limit(self.requests[name]) or 0)
        for name in dict.fromkeys((by_length[0], by_length[-1], limited[0], limited[-1])):
            yield one_by_one([name] * (len(self._alone(name).blocks) - 1) + [target])
        for part in _parts(others):
            yield one_by_one([*part, target])

    def _groups(self, target: str, others: Sequence[str]) -> Iterator[Trial]:
        most = min(self.subject.concurrency, len(others) + 1)
        by_length = sorted(self.ids, key=lambda name: len(prompt_of(self.requests[name])))
        # The same number of short ones, and of long ones, tells it from how much they are.
        for order in ((target, *others), (target, *others[::-1]), by_length, by_length[::-1]):
            ladder = [together(order[:size], size, GROUP_TIMES) for size in _sizes(most)]
            if order[0] == target:
                yield from ladder
            yield Trial(blocks=tuple(block for each in ladder for block in each.blocks))
        for part in _parts(others):
            yield together([target, *part], len(part) + 1, GROUP_TIMES)
        more = [name for name in self.subject.differing if name != target and name in self.ids]
        for one in (target, *more[:1]):
            rest = [*(name for name in self.ids if name != one), *self._twin(one)]
            orders = [each for name in rest for each in ((one, name), (name, one), (one, name))]
            yield Trial(blocks=tuple(TrialBlock(names=each, at_once=2) for each in orders))
        yield from self._of_smallest_block(target)

    def _of_smallest_block(self, target: str) -> Iterator[Trial]:
        """The fewest requests at once with which it differed, with changed copies of it, or of the one beside it."""
        wrong = [
            block
            for result in self.told
            for number, block in enumerate(result.trial.blocks)
            if any(each.block == number and each.name == target for each in result.differing)
        ]
        if not wrong:
            return
        least = min(wrong, key=lambda block: (block.at_once, len(block.names)))
        rest = [name for name in least.names if name != target]
        made = [(name, *rest) for name in (target, *self._parted(target))]
        if len(rest) == 1:
            made += [(target, name) for name in self._parted(rest[0])]
        blocks = [TrialBlock(names=each, at_once=least.at_once) for each in made]
        yield Trial(blocks=tuple(blocks[:_MOST_REPEATS]))


def _smallest_group(result: TrialResult) -> Trial:
    """The blocks of the smallest group in which something differs."""
    blocks = result.trial.blocks
    some = [blocks[each.block] for each in result.differing]
    least = min(some, key=lambda block: (block.at_once, len(block.names)))
    alike = [
        each
        for each in blocks
        if each.at_once == least.at_once and set(each.names) == set(least.names)
    ]
    return Trial(blocks=tuple(alike))


def _other(subject: LocalisedDifference) -> str | None:
    """A request that does not differ in the run; else one with another prompt."""
    prompt = prompt_of(subject.request)
    others = [each.id for each in subject.requests if prompt_of(each) != prompt]
    equal = [each for each in others if each not in subject.differing]
    return next(iter(equal or others), None)


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
