# SPDX-License-Identifier: Apache-2.0
"""The causes that a difference may have, and which of them fit everything that was seen. Pure.

A cause is a target (which requests differ) and a context (after what, with what beside). Each is a
set of sends, as the bits of a number, so thousands of pairs are compared with what was seen in a
moment. This is a version space (Mitchell, "Generalization as search", 1982): what does not fit one
observation is out, whatever else speaks for it.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.trials import TrialSend
from ci_doctor.load.prompts import PROMPT_KEYS, halved, parameters_of, prompt_length, prompt_of
from ci_doctor.load.requests import Request

# Predicates of numbers, of so many requests and words at most: a start tells no more of more.
_MOST_NAMES = 48
_MOST_WORDS = 60
_MOST_PAIRED = 24
_LONGEST_PERIOD = 9
# Beginnings of prompts that are shorter are nothing to a cache.
_SHORTEST_PREFIX = 4
# Servers keep what they have read of a prompt in blocks of so many tokens.
_BLOCKS = (8, 16, 32, 64, 128, 256)
# So often a kind of request is counted among those before.
_MOST_BEFORE = 4
# Two starts become ready after different times, and so do two answers come.
_CLOCK_S, _CLOCK_SHARE = 0.5, 0.2
_SURE = 0.75
# A request that is sent so often in groups and never differs is not one of those that do.
_OFTEN = 4
_WORD = re.compile(r"\w{3,}")
_CHARACTERS = (
    (re.compile(r"[^\x00-\x7f]"), "a character that is not ASCII", 2.5),
    (re.compile(r"\d"), "a digit", 4.5),
    (re.compile(r"\n"), "a new line", 4.5),
    (re.compile(r"[^\w\s]"), "a sign", 4.5),
    (re.compile(r"[A-Z]"), "a capital", 4.5),
)

Lane = Sequence[TrialSend]


class CausePart(Struct, frozen=True):
    """A target or a context: in words, how much it claims (`cost`), and its sends as bits.

    Parts of one `family` differ in a number alone. `trait`: it claims something of what the requests
    hold, and does not just name them. `unsure`: bits of which it says nothing, as a start has no
    exact time.
    """

    family: str
    words: str
    cost: float
    mask: int
    trait: bool = False
    unsure: int = 0


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
        return self.target.trait + self.context.trait

    @property
    def family(self) -> tuple[str, str]:
        """What it says but for numbers."""
        return self.target.family, self.context.family

    def in_words(self) -> str:
        """`each request differs from the 10th of a start on`."""
        verb = "differs" if self.target.words.startswith("each ") else "differ"
        context = f" {self.context.words}" if self.context.words else ""
        return f"{self.target.words} {verb}{context}"


class SendTable:
    """All sends of some starts, one start after the other, each with a bit of its own.

    `plain` are the names of requests that are sent as they are, and not as changed copies.
    """

    def __init__(
        self, lanes: Sequence[Lane], requests: Mapping[str, Request], plain: Collection[str]
    ) -> None:
        self.lanes = lanes
        self.plain = plain
        self.requests = requests
        self.prompts = {name: prompt_of(each) for name, each in requests.items()}
        self.sends = [send for lane in lanes for send in lane]
        self.places = [place for lane in lanes for place in range(len(lane))]
        # The name of each send that differs, the first one first.
        self.wrong_names = list(dict.fromkeys(each.name for each in self.sends if each.wrong))
        self._bits: dict[str, int] = defaultdict(int)
        for place, each in enumerate(self.sends):
            self._bits[each.name] |= 1 << place
        # The bits of each start, and of each block under way together.
        ends = itertools.accumulate(map(len, lanes), initial=0)
        self.lane_bits = [
            ((1 << len(lane)) - 1) << begin for begin, lane in zip(ends, lanes, strict=False)
        ]
        self.together = list(_together(lanes))

    def mask(self, holds: Iterable[bool]) -> int:
        """The bits of the sends for which it holds."""
        return sum(1 << place for place, each in enumerate(holds) if each)

    def named(self, names: Iterable[str]) -> int:
        """The bits of the sends of these requests."""
        bits = 0
        for name in names:
            bits |= self._bits.get(name, 0)
        return bits


def _together(lanes: Sequence[Lane]) -> Iterator[int]:
    """The bits of each group of sends that were under way at once."""
    place = 0
    for lane in lanes:
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            block = list(group)
            if block[0].at_once > 1:
                yield ((1 << len(block)) - 1) << place
            place += len(block)


def thresholds(values: Sequence[float], family: str, text: str, cost: float) -> Iterator[CausePart]:
    """A part for each value that some send reaches and another does not; `{}` of the text is the value."""
    bits: dict[float, int] = defaultdict(int)
    for place, value in enumerate(values):
        bits[value] |= 1 << place
    mask = (1 << len(values)) - 1
    for below, value in itertools.pairwise(sorted(bits)):
        mask &= ~bits[below]
        yield CausePart(family, text.format(f"{abs(value):g}"), cost, mask)


def targets(table: SendTable, names: Sequence[str]) -> list[CausePart]:
    """Which requests may be meant: all, those of one kind, or some of the `names`."""
    traits = [*_of_bodies(table), *_of_prompts(table, names[:_MOST_NAMES])]
    traits += _of_two_keys(table, names)
    answers = [each.answer_tokens for each in table.sends]
    traits += thresholds(answers, "answer", "requests with {} tokens of answer or more", 4.5)
    every = CausePart("any", "each request", 0, table.mask(True for _ in table.sends))
    named = _named_ones(table, names[:_MOST_NAMES])
    return [every, *named, *(replace(each, trait=True) for each in traits)]


def _named_ones(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    prompts, requests = table.prompts, table.requests
    for name in names:
        same_prompt = [each for each, text in prompts.items() if text == prompts[name]]
        words = f"requests with the prompt of {name}"
        yield CausePart(f"prompt of {name}", words, 4, table.named(same_prompt))
        body = requests[name].body
        same_body = [each for each, other in requests.items() if other.body == body]
        words = f"requests with the prompt and the parameters of {name}"
        yield CausePart(f"all of {name}", words, 5, table.named(same_body))
    plain = [name for name in names if name in table.plain]
    if len(plain) < 2:
        return
    listed = ", ".join(plain)
    texts = {prompts[name] for name in plain}
    same_prompts = [each for each, text in prompts.items() if text in texts]
    yield CausePart("some", f"the prompts of {listed}", 6 + len(plain), table.named(same_prompts))
    bodies = [requests[name].body for name in plain]
    same_bodies = [each for each, other in requests.items() if other.body in bodies]
    yield CausePart(
        "some bodies", f"the requests {listed}", 6.5 + len(plain), table.named(same_bodies)
    )


def _of_prompts(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    prompts = table.prompts
    lengths = [_length(table.requests[each.name]) for each in table.sends]
    yield from thresholds(lengths, "long", "prompts of {} characters or more", 3)
    shorter = [-each for each in lengths]
    yield from thresholds(shorter, "short", "prompts of {} characters or fewer", 3.5)
    tokens = [each.prompt_tokens for each in table.sends]
    for unit, sizes in (("tokens", tokens), ("characters", lengths)):
        for block in _BLOCKS:
            mask = table.mask(size > 0 and size % block == 0 for size in sizes)
            yield CausePart(
                f"{unit} in blocks", f"prompts of a multiple of {block} {unit}", 3.8, mask
            )
    for pattern, kind, cost in _CHARACTERS:
        mask = table.named(each for each, text in prompts.items() if pattern.search(text))
        yield CausePart(kind, f"prompts with {kind}", cost, mask)
    yield from _of_beginnings(table, names)
    for end in sorted({prompts[name][-1:] for name in names} - {""}):
        mask = table.named(each for each, text in prompts.items() if text.endswith(end))
        yield CausePart(f"ends with {end}", f"prompts that end with `{end}`", 4.3, mask)
    # A fault of a word, or of a sign, shows in all that differ.
    signs = _in_all([set(prompts[name]) for name in names])
    for sign in sorted(each for each in signs if not each.isalpha() and not each.isspace()):
        mask = table.named(each for each, text in prompts.items() if sign in text)
        yield CausePart(f"sign {sign}", f"prompts with `{sign}`", 4.4, mask)
    words = {each: set(_WORD.findall(text)) for each, text in prompts.items()}
    for word in sorted(_in_all([words[name] for name in names]))[:_MOST_WORDS]:
        mask = table.named(each for each in prompts if word in words[each])
        yield CausePart(f"word {word}", f"prompts with `{word}`", 4.5, mask)


def _of_beginnings(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    prompts = table.prompts
    known = set()
    # A beginning is that of a request of the run, if one has it.
    for name in sorted(names, key=lambda each: each not in table.plain):
        shared = {_common(prompts[name], prompts[each]) for each in names if each in table.plain}
        for size in sorted({*halved(len(prompts[name]), 8), 8, 16, 32, *shared} - {0}):
            begin = prompts[name][:size]
            if len(begin) < len(prompts[name]) and begin not in known:
                known.add(begin)
                mask = table.named(each for each, text in prompts.items() if text.startswith(begin))
                text = f"prompts with the first {size} characters of {name}"
                yield CausePart(f"begins as {name}", text, 5.5, mask)


def _in_all(sets: Sequence[set[str]]) -> set[str]:
    return set.intersection(*sets) if sets else set()


def _length(request: Request) -> int:
    length = prompt_length(request)
    return length.count if length else len(prompt_of(request))


def parameters(request: Request) -> dict[str, Any]:
    """What a body says beside the prompt, as texts and numbers."""
    given = {}
    for key, value in parameters_of(request).items():
        if key not in PROMPT_KEYS:
            is_plain = isinstance(value, (int, float, str))
            given[key] = value if is_plain else repr(value)
    return given


def _of_bodies(table: SendTable) -> Iterator[CausePart]:
    given = {name: parameters(each) for name, each in table.requests.items()}
    # In the order in which they were sent: of causes that cost as much, the first one is named.
    used = list(dict.fromkeys(each.name for each in table.sends))
    for key in sorted({key for name in used for key in given[name]}):
        has = {name: values[key] for name, values in given.items() if key in values}
        yield CausePart(f"has {key}", f"requests with `{key}`", 3, table.named(has))
        lacking = table.named(given.keys() - has.keys())
        yield CausePart(f"lacks {key}", f"requests without `{key}`", 4, lacking)
        values = list(dict.fromkeys(has[name] for name in used if name in has))
        for value in values[:_MOST_NAMES]:
            equal = [name for name in has if has[name] == value]
            text = f"requests with `{key}` {str(value)[:60]}"
            yield CausePart(f"{key}={value}", text, 3.5, table.named(equal))
        yield from _of_numbers(table, key, has, values)


def _of_numbers(
    table: SendTable, key: str, has: Mapping[str, Any], values: Sequence[Any]
) -> Iterator[CausePart]:
    """From each number of a parameter on, and up to it; `has` are the values by request."""
    numbers = {name: value for name, value in has.items() if type(value) in {int, float}}
    steps = sorted(each for each in values if type(each) in {int, float})
    for lower, upper in itertools.pairwise(steps):
        least = [name for name, value in numbers.items() if value >= upper]
        text = f"requests with `{key}` {upper:g} or more"
        yield CausePart(f"{key} or more", text, 3.2, table.named(least))
        most = [name for name, value in numbers.items() if value <= lower]
        text = f"requests with `{key}` {lower:g} or less"
        yield CausePart(f"{key} or less", text, 3.2, table.named(most))


def _of_two_keys(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    """Requests that have both of two keys, of those that all the `names` have."""
    given = {name: parameters(each) for name, each in table.requests.items()}
    keys = sorted(_in_all([set(given[name]) for name in names]))
    for one, other in itertools.combinations(keys, 2):
        both = [name for name, has in given.items() if one in has and other in has]
        text = f"requests with `{one}` and `{other}`"
        yield CausePart(f"has {one} and {other}", text, 5.2, table.named(both))


def contexts(table: SendTable, kinds: Sequence[CausePart]) -> Iterator[CausePart]:
    """After what, or with what beside, a request may differ; `kinds` are targets, of what came before."""
    yield CausePart("any", "", 0, table.mask(True for _ in table.sends))
    at_once = [each.at_once for each in table.sends]
    text = "if {} or more requests are under way at once"
    yield from thresholds(at_once, "at once", text, 1)
    yield from _of_order(table)
    yield from _of_sums(table)
    yield from _of_memory(table)
    yield from _of_earlier(table, kinds)


def _of_order(table: SendTable) -> Iterator[CausePart]:
    places = [place + 1 for place in table.places]
    yield CausePart("first", "as the first of a start", 1, table.mask(each == 1 for each in places))
    for least in range(2, max(places, default=0) + 1):
        text = f"{ordinal(least)} request of a start"
        mask = table.mask(each >= least for each in places)
        yield CausePart("from", f"from the {text} on", 1.5, mask)
        mask = table.mask(each == least for each in places)
        yield CausePart("only", f"as the {text}", 2.5, mask)
        mask = table.mask(each <= least for each in places)
        yield CausePart("until", f"up to the {text}", 5, mask)
    for period in range(2, _LONGEST_PERIOD + 1):
        for first in range(1, period + 1):
            listed = ", ".join(str(first + turn * period) for turn in range(3))
            mask = table.mask(each % period == first % period for each in places)
            text = f"as every {ordinal(period)} request of a start ({listed}, …)"
            yield CausePart("every", text, 2.5, mask)


def ordinal(number: int) -> str:
    """`1st`, `22nd`, `13th`."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    teen = 10 < number % 100 < 14
    return f"{number}{'th' if teen else ends.get(number % 10, 'th')}"


def _of_sums(table: SendTable) -> Iterator[CausePart]:
    length = {name: len(text) for name, text in table.prompts.items()}
    sums: tuple[tuple[str, str, float, Callable[[TrialSend], float]], ...] = (
        ("answer tokens", "once a start has answered {} tokens", 2.4, lambda each: each.answer_tokens),
        ("tokens", "once a start has served {} tokens, prompts and answers", 2.5, lambda each: each.prompt_tokens + each.answer_tokens),
        ("prompt tokens", "once a start has got {} tokens of prompts", 2.6, lambda each: each.prompt_tokens),
        ("characters", "once a start has got {} characters of prompts", 2.7, lambda each: length[each.name]),
    )  # fmt: skip
    for family, text, cost, of in sums:
        values: list[float] = []
        for lane in table.lanes:
            values += itertools.accumulate(map(of, lane[:-1]), initial=0)
        yield from thresholds(values, family, text, cost)
    ages, idle = [], []
    for lane in table.lanes:
        times = [each.at_s for each in lane]
        ages += [round(each, 1) for each in times]
        idle += [round(times[0], 1), *(round(b - a, 1) for a, b in itertools.pairwise(times))]
    text = "once a start is about {} s past its first request"
    yield from _of_time(table, ages, "age", text)
    yield from _of_time(table, idle, "idle", "after about {} s without a request")


def _of_time(
    table: SendTable, values: Sequence[float], family: str, text: str
) -> Iterator[CausePart]:
    """As `thresholds`; what lies near one may lie on either side."""
    for part, least in zip(
        thresholds(values, family, text, 6), sorted(set(values))[1:], strict=True
    ):
        margin = max(_CLOCK_S, _CLOCK_SHARE * least)
        near = table.mask(abs(value - least) <= margin for value in values)
        yield replace(part, unsure=near)


# What a server that remembers prompts may know of one. `{}` is a number that some sends reach.
_MEMORY: tuple[tuple[str, str, float], ...] = (
    ("again", "if the same prompt came before", 1.5),
    ("again", "if the same prompt came before {} times or more", 1.5),
    ("in a row", "right after the same prompt", 1.8),
    ("other parameters", "if the same prompt came before with other parameters", 1.9),
    ("the same", "if the same prompt came before with the same parameters", 1.9),
    ("once", "when its prompt comes for the first time", 2.5),
    ("twice", "when its prompt comes for the second time", 2.8),
    ("repeated", "once any prompt has come twice", 2.4),
    ("distinct", "once a start has got {} different prompts", 3),
    ("since", "if {} or more others came since the same prompt", 3.5),
    ("prefix", "after a prompt that shares its first {} characters", 2),
    ("other prefix", "after another prompt that shares its first {} characters", 2.2),
    ("prefix in a row", "right after another prompt that shares its first {} characters", 2.4),
    ("shorter prefix", "after another, shorter prompt that shares its first {} characters", 2.6),
    ("longest", "when its prompt is longer than each one before", 2.3),
    ("longer before", "right after a prompt that is longer by {} characters or more", 2.4),
    ("shorter before", "right after a prompt that is shorter by {} characters or more", 2.4),
)


def _of_memory(table: SendTable) -> Iterator[CausePart]:
    """What a server that remembers prompts may know of one."""
    rows: list[tuple[float, ...]] = []
    for lane in table.lanes:
        texts = [table.prompts[each.name] for each in lane]
        bodies = [table.requests[each.name].body for each in lane]
        for place, text in enumerate(texts):
            before = texts[:place]
            alike = [
                body == bodies[place]
                for one, body in zip(before, bodies, strict=False)
                if one == text
            ]
            rows.append(_remembered(text, before, alike))
    for (family, words, cost), values in zip(_MEMORY, zip(*rows, strict=True), strict=True):
        yield from thresholds(values, family, words, cost)
    yield from _of_other_parameters(table)


def _of_other_parameters(table: SendTable) -> Iterator[CausePart]:
    """Whether the same prompt came before with another value of one parameter: a key that ignores it."""
    given = {name: parameters(each) for name, each in table.requests.items()}
    for key in sorted({key for each in table.sends for key in given[each.name]}):
        is_other = []
        for lane in table.lanes:
            known = [(table.prompts[each.name], given[each.name].get(key)) for each in lane]
            for place, (text, value) in enumerate(known):
                is_other.append(any(one == text and it != value for one, it in known[:place]))
        words = f"if the same prompt came before with another `{key}`"
        yield from thresholds(is_other, f"another {key}", words, 1.8)


def _remembered(text: str, before: Sequence[str], alike: Sequence[bool]) -> tuple[float, ...]:
    """The numbers of `_MEMORY` for a prompt, after those `before` it.

    `alike`: for each of these that is the same prompt, whether it had the same parameters.
    """
    again = before.count(text)
    last = before[-1] if before else text
    common = {each: _common(text, each) for each in set(before)}
    others = {each: size for each, size in common.items() if each != text}
    shorter = [size for each, size in others.items() if len(each) < len(text)]
    prefixes = (
        max(common.values(), default=0),
        max(others.values(), default=0),
        others.get(last, 0),
        max(shorter, default=0),
    )
    return (
        again > 0,
        max(again, 1),
        before[-1:] == [text],
        not all(alike),
        any(alike),
        not again,
        again == 1,
        len(common) < len(before),
        len(common),
        # How many others came since the same prompt; at once is as never.
        (before[::-1].index(text) or -1) if again else -1,
        *(each if each >= _SHORTEST_PREFIX else 0 for each in prefixes),
        bool(before) and len(text) > max(map(len, before)),
        max(0, len(last) - len(text)),
        max(0, len(text) - len(last)),
    )


@lru_cache(maxsize=1 << 16)
def _common(one: str, other: str) -> int:
    most = min(len(one), len(other))
    return next((place for place in range(most) if one[place] != other[place]), most)


def _of_earlier(table: SendTable, kinds: Sequence[CausePart]) -> Iterator[CausePart]:
    """After, right after, or at once with a request of some kind, or with certain ones."""
    unanswered = table.mask(each.wrong is None for each in table.sends)
    text = "after a request without an answer"
    yield CausePart("after none", text, 2.5, _before(table, unanswered))
    names = list(dict.fromkeys(each.name for each in table.sends))[:_MOST_NAMES]
    sent = {}
    for name in names:
        text = table.prompts[name]
        sent[name] = table.named(each for each, other in table.prompts.items() if other == text)
    earlier = [each for each in kinds if each.family not in {"any", "answer"}]
    earlier += [CausePart(name, name, 2, sent[name]) for name in names]
    for each in earlier:
        places = (
            ("after", "after", 1.5, _before(table, each.mask)),
            ("right after", "right after", 2, _right_before(table, each.mask)),
            ("beside", "at once with", 1.5, _beside(table, each.mask)),
        )
        for family, text, cost, mask in places:
            family_of, words = f"{family} {each.family}", f"{text} {each.words}"
            yield CausePart(family_of, words, each.cost + cost, mask, each.trait)
    yield from _of_counts(table, earlier[: -len(names)])
    after = {name: _before(table, sent[name]) for name in names[:_MOST_PAIRED]}
    for one, other in itertools.combinations(after, 2):
        text = f"after {one} and {other}"
        yield CausePart(text, text, 5.5, after[one] & after[other])
    for one, other, third in itertools.combinations(names[: _MOST_PAIRED // 2], 3):
        text = f"after {one}, {other} and {third}"
        yield CausePart(text, text, 7.5, after[one] & after[other] & after[third])


def _of_counts(table: SendTable, kinds: Sequence[CausePart]) -> Iterator[CausePart]:
    """The first, each second, … of a kind, and what comes after several of it."""
    for each in kinds:
        text = f"as the first of the {each.words} in a start"
        first = each.mask & ~_without_first(table, each.mask)
        yield CausePart(f"first {each.family}", text, each.cost + 1.2, first, each.trait)
        for period in range(2, _MOST_BEFORE + 1):
            text = f"as every {ordinal(period)} of the {each.words} in a start"
            mask = _every(table, each.mask, period)
            yield CausePart(f"every {each.family}", text, each.cost + 2.4, mask, each.trait)
        left = each.mask
        for count in range(2, _MOST_BEFORE + 1):
            left = _without_first(table, left)
            text = f"after {count} {each.words}"
            yield CausePart(
                f"after some {each.family}", text, each.cost + 2.2, _before(table, left), each.trait
            )


def _before(table: SendTable, mask: int) -> int:
    """The sends before which the same start got one of these."""
    holds = 0
    for lane in table.lane_bits:
        first = mask & lane & -(mask & lane)
        if first:
            holds |= lane & ~((first << 1) - 1)
    return holds


def _without_first(table: SendTable, mask: int) -> int:
    """The sends without the first of each start."""
    for lane in table.lane_bits:
        mask &= ~(mask & lane & -(mask & lane))
    return mask


def _every(table: SendTable, mask: int, period: int) -> int:
    """Of these sends, each second, third, … one of a start."""
    holds = 0
    for lane in table.lane_bits:
        bits = mask & lane
        count = 0
        while bits:
            lowest = bits & -bits
            count += 1
            if count % period == 0:
                holds |= lowest
            bits ^= lowest
    return holds


def _right_before(table: SendTable, mask: int) -> int:
    """The sends right before which the same start got one of these."""
    return (mask << 1) & table.mask(place > 0 for place in table.places)


def _beside(table: SendTable, mask: int) -> int:
    """The sends with which one of these was under way, itself left out."""
    holds = 0
    for block in table.together:
        some = mask & block
        if some:
            # One alone is not beside itself.
            holds |= block if some & (some - 1) else block & ~some
    return holds


def fitting(table: SendTable, observed: int, *, plain_alone: bool = False) -> list[Cause]:
    """The causes that fit each of the first `observed` sends, the cheapest first.

    `plain_alone`: whatever changed copies of requests differ. A copy that is equal counts.

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
    names = [each for each in table.wrong_names if each in table.plain or not plain_alone]
    of_target = [each for each in targets(table, names) if each.mask & wrong == wrong]
    # What came before may be of any kind, whether it differs or not.
    causes = []
    for context in contexts(table, targets(table, _neighbours(table))):
        if (context.mask | context.unsure) & wrong != wrong:
            continue
        sure = exact & ~context.unsure
        # What says nothing of most sends, or of all that differ, fits everything.
        if _SURE * exact.bit_count() > sure.bit_count() or not (wrong & ~context.unsure):
            continue
        for target in of_target:
            mask = target.mask & context.mask
            if mask & sure == wrong & sure and (
                not groups or _fits(mask, wrong, groups, strict=context.family.startswith("beside"))
            ):
                causes.append(Cause(target=target, context=context))
    causes.sort(key=lambda each: each.cost)
    return causes


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
    for number, lane in enumerate(table.lanes):
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            block = list(group)
            if block[0].at_once > 1 and place < observed:
                key = (number, frozenset(each.name for each in block), block[0].at_once)
                bits = sends.setdefault(key, {})
                for at, each in enumerate(block):
                    if each.wrong is not None:
                        bits[each.name] = bits.get(each.name, 0) | 1 << place + at
            place += len(block)
    return [(key[2] == len(key[1]), bits) for key, bits in sends.items()]


def _fits(
    mask: int, wrong: int, groups: Sequence[tuple[bool, Mapping[str, int]]], *, strict: bool
) -> bool:
    expected_of: Counter[str] = Counter()
    differing = set()
    for is_whole, bits_of in groups:
        for name, bits in bits_of.items():
            expected_of[name] += (bits & mask).bit_count()
            if bits & wrong:
                differing.add(name)
        names = bits_of.values()
        expected = [bits for bits in names if bits & mask]
        seen = [bits for bits in expected if bits & wrong]
        if any(bits & wrong and not bits & mask for bits in names) or 2 * len(seen) < len(expected):
            return False
        if strict and is_whole and len(seen) < len(expected):
            return False
    return not any(count >= _OFTEN and name not in differing for name, count in expected_of.items())
