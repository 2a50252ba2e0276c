# SPDX-License-Identifier: Apache-2.0
"""The causes that a difference may have, and which of them fit everything that was seen. Pure.

A cause is a target (which requests differ) and a context (after what, with what beside). Each is a
set of sends, as the bits of a number, so thousands of pairs are compared with what was seen in a
moment. This is a version space (Mitchell, "Generalization as search", 1982): what does not fit one
observation is out, whatever else speaks for it.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.trials import TrialSend
from ci_doctor.load.prompts import PROMPT_KEYS, parameters_of, prompt_of
from ci_doctor.load.requests import Request
from ci_doctor.load.shorter_prompt import halved, prompt_length

# Predicates of numbers, of so many requests and words at most: a start tells no more of more.
_MOST_NAMES = 48
_MOST_WORDS = 60
_MOST_PAIRED = 24
_LONGEST_PERIOD = 9
# Beginnings of prompts that are shorter are nothing to a cache.
_SHORTEST_PREFIX = 4
_WORD = re.compile(r"\w{3,}")

Lane = Sequence[TrialSend]


class CausePart(Struct, frozen=True, kw_only=True):
    """A target or a context: in words, how much it claims (`cost`), and its sends as bits.

    Parts of one `family` differ in a number alone. `trait`: it claims something of what the requests
    hold, and does not just name them.
    """

    family: str
    words: str
    cost: float
    mask: int
    trait: bool = False


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
        self.sends = [send for lane in lanes for send in lane]
        self.places = [place for lane in lanes for place in range(len(lane))]
        # The name of each send that differs, the first one first.
        self.wrong_names = list(dict.fromkeys(each.name for each in self.sends if each.wrong))

    def mask(self, holds: Iterable[bool]) -> int:
        """The bits of the sends for which it holds."""
        return sum(1 << place for place, each in enumerate(holds) if each)

    def by_name(self, holds: Callable[[Request], bool]) -> int:
        """The bits of the requests for which it holds."""
        names = {name for name, request in self.requests.items() if holds(request)}
        return self.mask(each.name in names for each in self.sends)

    def by_lane(self, of: Callable[[Lane], Iterable[bool]]) -> int:
        """The bits that a function of each start tells."""
        return self.mask(itertools.chain.from_iterable(map(of, self.lanes)))


def thresholds(
    table: SendTable, values: Sequence[float], family: str, text: str, cost: float
) -> Iterator[CausePart]:
    """A part for each value that some send reaches and another does not; `{}` of the text is the value."""
    for least in sorted(set(values))[1:]:
        yield CausePart(
            family=family,
            words=text.format(f"{least:g}"),
            cost=cost,
            mask=table.mask(value >= least for value in values),
        )


def targets(table: SendTable, names: Sequence[str]) -> list[CausePart]:
    """Which requests may be meant: all, those of one kind, or some of the `names`."""
    parts = [
        CausePart(
            family="any", words="each request", cost=0, mask=table.mask(True for _ in table.sends)
        )
    ]
    parts += _of_bodies(table)
    parts += _of_prompts(table, names[:_MOST_NAMES])
    answers = [each.answer_tokens for each in table.sends]
    parts += thresholds(table, answers, "answer", "requests with {} tokens of answer or more", 3.5)
    literal = ("any", "prompt of ", "all of ", "some")
    return [
        each if each.family.startswith(literal) else replace(each, trait=True) for each in parts
    ]


def _of_prompts(table: SendTable, wrong: Sequence[str]) -> Iterator[CausePart]:
    requests = table.requests
    lengths = [_length(requests[each.name]) for each in table.sends]
    yield from thresholds(table, lengths, "long", "prompts of {} characters or more", 2)
    for part in thresholds(table, [-each for each in lengths], "short", "{}", 2.5):
        yield CausePart(
            family="short",
            words=f"prompts of {part.words[1:]} characters or fewer",
            cost=2.5,
            mask=part.mask,
        )
    prompts = {name: prompt_of(each) for name, each in requests.items()}
    yield CausePart(
        family="non-ASCII", words="prompts with a character that is not ASCII", cost=1.5,
        mask=table.by_name(lambda each: not prompt_of(each).isascii()),
    )  # fmt: skip
    for pattern, text in (
        (r"\d", "digit"),
        (r"\n", "new line"),
        (r"[^\w\s]", "sign"),
        (r"[A-Z]", "capital"),
    ):
        yield CausePart(
            family=text, words=f"prompts with a {text}", cost=3.5,
            mask=table.by_name(lambda each, p=pattern: bool(re.search(p, prompt_of(each)))),
        )  # fmt: skip
    for name in wrong:
        text = prompts[name]
        yield CausePart(
            family=f"prompt of {name}", words=f"requests with the prompt of {name}", cost=4,
            mask=table.by_name(lambda each, t=text: prompt_of(each) == t),
        )  # fmt: skip
        yield CausePart(
            family=f"all of {name}", words=f"requests with the prompt and the parameters of {name}", cost=5,
            mask=table.by_name(lambda each, n=name: each.body == requests[n].body),
        )  # fmt: skip
        for size in {*halved(len(text), 8), 8, 16, 32}:
            if size < len(text):
                yield CausePart(
                    family=f"begins as {name}", words=f"prompts that begin as {name}", cost=4.5,
                    mask=table.by_name(lambda each, t=text[:size]: prompt_of(each).startswith(t)),
                )  # fmt: skip
    common = _words_of(prompts[name] for name in wrong)
    for word in common:
        yield CausePart(
            family=f"word {word}", words=f"prompts with `{word}`", cost=3.5,
            mask=table.by_name(lambda each, w=word: w in _WORD.findall(prompt_of(each))),
        )  # fmt: skip
    some = [name for name in wrong if name in table.plain]
    if len(some) > 1:
        listed = ", ".join(some)
        yield CausePart(
            family="some", words=f"the prompts of {listed}", cost=6 + len(some),
            mask=table.by_name(lambda each: prompt_of(each) in {prompts[name] for name in some}),
        )  # fmt: skip


def _words_of(texts: Iterable[str]) -> list[str]:
    """Words that all the texts hold, else those of the first: a fault of a word shows in all."""
    sets = [dict.fromkeys(_WORD.findall(text)) for text in texts]
    if not sets:
        return []
    shared = [word for word in sets[0] if all(word in each for each in sets)]
    return shared[:_MOST_WORDS]


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
    used = {each.name for each in table.sends}
    for key in sorted({key for name in used for key in given[name]}):
        yield CausePart(
            family=f"has {key}", words=f"requests with `{key}`", cost=2,
            mask=table.by_name(lambda each, k=key: k in parameters(each)),
        )  # fmt: skip
        yield CausePart(
            family=f"lacks {key}", words=f"requests without `{key}`", cost=3,
            mask=table.by_name(lambda each, k=key: k not in parameters(each)),
        )  # fmt: skip
        values = list(dict.fromkeys(given[name][key] for name in used if key in given[name]))
        for value in values[:_MOST_NAMES]:
            yield CausePart(
                family=f"{key}={value}", words=f"requests with `{key}` {str(value)[:60]}", cost=2.5,
                mask=table.by_name(lambda each, k=key, v=value: parameters(each).get(k) == v),
            )  # fmt: skip
        numbers = [each for each in values if type(each) in {int, float}]
        for least in sorted(numbers)[1:]:
            for sign, text in ((1, "or more"), (-1, "or less")):
                edge = least if sign > 0 else max(each for each in numbers if each < least)
                yield CausePart(
                    family=f"{key} {text}", words=f"requests with `{key}` {edge:g} {text}", cost=2.2,
                    mask=table.by_name(lambda each, k=key, e=edge, s=sign: _reaches(parameters(each).get(k), e, s)),
                )  # fmt: skip


def _reaches(value: Any, edge: float, sign: int) -> bool:
    return type(value) in {int, float} and value * sign >= edge * sign


def contexts(table: SendTable, seen: Sequence[CausePart]) -> Iterator[CausePart]:
    """After what, or with what beside, a request may differ; `seen` are targets, of what came before."""
    sends = table.sends
    yield CausePart(family="any", words="", cost=0, mask=table.mask(True for _ in sends))
    at_once = [each.at_once for each in sends]
    yield from thresholds(
        table, at_once, "at once", "if {} or more requests are under way at once", 1
    )
    yield from _of_order(table)
    yield from _of_sums(table)
    yield from _of_memory(table)
    yield from _of_earlier(table, seen)


def _of_order(table: SendTable) -> Iterator[CausePart]:
    places = table.places
    yield CausePart(
        family="first", words="as the first of a start", cost=1, mask=table.mask(place == 0 for place in places)
    )  # fmt: skip
    for least in range(2, max(places, default=0) + 2):
        yield CausePart(
            family="from", words=f"from the {ordinal(least)} request of a start on", cost=1.5,
            mask=table.mask(place + 1 >= least for place in places),
        )  # fmt: skip
        yield CausePart(
            family="only", words=f"as the {ordinal(least)} request of a start", cost=2.5,
            mask=table.mask(place + 1 == least for place in places),
        )  # fmt: skip
        yield CausePart(
            family="until", words=f"up to the {ordinal(least)} request of a start", cost=5,
            mask=table.mask(place + 1 <= least for place in places),
        )  # fmt: skip
    for period, rest in itertools.product(range(2, _LONGEST_PERIOD + 1), range(_LONGEST_PERIOD)):
        if rest < period:
            which = ", ".join(
                str(rest or period) if turn == 0 else str((rest or period) + turn * period)
                for turn in range(3)
            )
            yield CausePart(
                family="every", words=f"as every {ordinal(period)} request of a start ({which}, …)", cost=2.5,
                mask=table.mask((place + 1) % period == rest for place in places),
            )  # fmt: skip


def ordinal(number: int) -> str:
    """`1st`, `22nd`, `13th`."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    teen = 10 < number % 100 < 14
    return f"{number}{'th' if teen else ends.get(number % 10, 'th')}"


def _of_sums(table: SendTable) -> Iterator[CausePart]:
    sums: tuple[tuple[str, str, float, Callable[[TrialSend], float]], ...] = (
        ("all tokens", "once a start has served {} tokens (prompts and answers)", 2.5, lambda each: each.prompt_tokens + each.answer_tokens),
        ("answer tokens", "once a start has answered {} tokens", 2.4, lambda each: each.answer_tokens),
        ("prompt tokens", "once a start has got {} tokens of prompts", 2.6, lambda each: each.prompt_tokens),
        ("characters", "once a start has got {} characters of prompts", 2.7, lambda each: len(prompt_of(table.requests[each.name]))),
    )  # fmt: skip
    for family, text, cost, of in sums:
        values: list[float] = []
        for lane in table.lanes:
            values += [0, *itertools.accumulate(map(of, lane))][: len(lane)]
        yield from thresholds(table, values, family, text, cost)
    ages = [round(each.at_s, 1) for each in table.sends]
    yield from thresholds(table, ages, "age", "once a start is {} s past its first request", 4.5)
    idle: list[float] = []
    for lane in table.lanes:
        times = [each.at_s for each in lane]
        idle += [0.0, *(round(b - a, 1) for a, b in itertools.pairwise(times))][: len(lane)]
    yield from thresholds(table, idle, "idle", "after {} s without a request", 4.5)


def _of_memory(table: SendTable) -> Iterator[CausePart]:
    """What a server that remembers prompts may know of one."""
    prompts = {name: prompt_of(each) for name, each in table.requests.items()}
    again, distinct, shared, others, since = [], [], [], [], []
    for lane in table.lanes:
        texts = [prompts[each.name] for each in lane]
        for place, text in enumerate(texts):
            before = texts[:place]
            again.append(before.count(text))
            distinct.append(len(set(before)))
            shared.append(max((_common(text, each) for each in set(before)), default=0))
            others.append(
                max((_common(text, each) for each in set(before) if each != text), default=0)
            )
            between = (
                place
                - 1
                - max((at for at, each in enumerate(before) if each == text), default=place - 1)
            )
            since.append(between if text in before and between else -1)
    yield from thresholds(
        table, again, "again", "if the same prompt came {} times or more before", 1.5
    )
    yield CausePart(
        family="once", words="when its prompt comes for the first time", cost=2.5, mask=table.mask(not each for each in again)
    )  # fmt: skip
    yield from thresholds(
        table, distinct, "distinct", "once a start has got {} different prompts", 3
    )
    yield from thresholds(
        table, since, "since", "if {} or more others came since the same prompt", 3.5
    )
    for values, family, text, cost in (
        (shared, "prefix", "after a prompt that shares its first {} characters", 2),
        (others, "other prefix", "after another prompt that shares its first {} characters", 2.2),
    ):
        least = [each if each >= _SHORTEST_PREFIX else 0 for each in values]
        yield from thresholds(table, least, family, text, cost)


def _common(one: str, other: str) -> int:
    most = min(len(one), len(other))
    return next((place for place in range(most) if one[place] != other[place]), most)


def _of_earlier(table: SendTable, seen: Sequence[CausePart]) -> Iterator[CausePart]:
    """After, right after, or at once with a request of some kind."""
    yield CausePart(
        family="after none", words="after a request without an answer", cost=2.5,
        mask=_before(table, table.mask(each.wrong is None for each in table.sends)),
    )  # fmt: skip
    kinds = [each for each in seen if each.family not in {"any", "answer"}]
    for kind in kinds:
        which = kind.words
        for family, text, cost, of in (
            ("after", "after", 1.5, _before),
            ("right after", "right after", 2, _right_before),
            ("beside", "at once with", 1.5, _beside),
        ):
            yield CausePart(
                family=f"{family} {kind.family}", words=f"{text} {which}", cost=cost + kind.cost, mask=of(table, kind.mask), trait=kind.trait
            )  # fmt: skip
    names = list(dict.fromkeys(each.name for each in table.sends))[:_MOST_NAMES]
    prompts = {name: prompt_of(table.requests[name]) for name in names}
    sent = {
        name: table.by_name(lambda each, t=prompts[name]: prompt_of(each) == t) for name in names
    }
    after = {}
    for name in names:
        after[name] = _before(table, sent[name])
        for family, text, mask in (
            ("after", "after", after[name]),
            ("right after", "right after", _right_before(table, sent[name])),
            ("beside", "at once with", _beside(table, sent[name])),
        ):
            yield CausePart(family=f"{family} {name}", words=f"{text} {name}", cost=3.5, mask=mask)
    for one, other in itertools.combinations(names[:_MOST_PAIRED], 2):
        yield CausePart(
            family=f"after {one} {other}", words=f"after {one} and {other}", cost=5.5, mask=after[one] & after[other]
        )  # fmt: skip
    for three in itertools.combinations(names[: _MOST_PAIRED // 2], 3):
        one, other, third = (after[each] for each in three)
        yield CausePart(
            family=f"after {' '.join(three)}", words=f"after {three[0]}, {three[1]} and {three[2]}", cost=7.5,
            mask=one & other & third,
        )  # fmt: skip


def _before(table: SendTable, mask: int) -> int:
    """The sends before which the same start got one of these."""
    holds, place = [], 0
    for lane in table.lanes:
        is_past = False
        for _ in lane:
            holds.append(is_past)
            is_past = is_past or bool(mask >> place & 1)
            place += 1
    return table.mask(holds)


def _right_before(table: SendTable, mask: int) -> int:
    """The sends right before which the same start got one of these."""
    return (mask << 1) & table.mask(place > 0 for place in table.places)


def _beside(table: SendTable, mask: int) -> int:
    """The sends with which one of these was under way, itself left out."""
    holds, place = [], 0
    for lane in table.lanes:
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            block = list(group)
            bits = [bool(mask >> place + at & 1) for at in range(len(block))]
            count = sum(bits)
            holds += [block[0].at_once > 1 and count - bit > 0 for bit in bits]
            place += len(block)
    return table.mask(holds)


def fitting(table: SendTable, observed: int, *, plain_alone: bool = False) -> list[Cause]:
    """The causes that fit each of the first `observed` sends, the cheapest first.

    `plain_alone`: whatever changed copies of requests show.

    Where requests are under way together, nobody knows which came first. There a cause fits if no
    other request differs, and at least half of its own do, each group for itself. All must, if it
    takes one certain request beside them and the whole group is under way.
    """
    sends = table.sends[:observed]
    told = [
        each.wrong is not None and (each.name in table.plain or not plain_alone) for each in sends
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
        if context.mask & wrong != wrong:
            continue
        for target in of_target:
            mask = target.mask & context.mask
            if mask & exact == wrong & exact and (
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


def _groups(table: SendTable, observed: int) -> list[tuple[bool, tuple[int, ...]]]:
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
    return [(key[2] == len(key[1]), tuple(bits.values())) for key, bits in sends.items()]


def _fits(
    mask: int, wrong: int, groups: Sequence[tuple[bool, tuple[int, ...]]], *, strict: bool
) -> bool:
    for is_whole, names in groups:
        expected = [bits for bits in names if bits & mask]
        seen = [bits for bits in expected if bits & wrong]
        if any(bits & wrong and not bits & mask for bits in names) or 2 * len(seen) < len(expected):
            return False
        if strict and is_whole and len(seen) < len(expected):
            return False
    return True
