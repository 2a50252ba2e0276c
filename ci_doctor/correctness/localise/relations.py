# SPDX-License-Identifier: Apache-2.0
"""What a request has to do with those before it and beside it: its place and time, prompts, parameters, and how much is under way. Pure."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.localise.traits import (
    MARKS,
    CausePart,
    SendTable,
    parameters,
    thresholds,
    visible,
)
from ci_doctor.correctness.localise.trials import TrialSend, common, pieces

# Beginnings of prompts that are shorter are nothing to a cache.
SHORTEST_PREFIX = 4
_NONE = repr(None)
# So near to a number of tokens that were estimated, a send may lie on either side.
_NEAR_TOKENS, _NEAR_SHARE = 2, 0.2
# Two starts become ready after different times, and so do two answers come; what differs by less claims more.
_CLOCKS, _CLOCK_SHARE = ((0.5, 0.0), (0.1, 0.2)), 0.2
LONGEST_PERIOD = 9
# More tokens than any prompt has.
_ALL = 1 << 40
# Tables of slots have so many.
MODULI = (*range(4, 36, 4), 48, 64, 128, 256)


# What a server that keeps what belongs to one value of a parameter may mix up. `{}` is a number, `KEY` the parameter.
_PARAMETER: tuple[tuple[str, str, float], ...] = (
    ("another", "if the same prompt came before with another `KEY`", 1.8),
    ("first another", "if the same prompt came first with another `KEY`", 2.1),
    (
        "first prefix of another",
        "if the first {} characters of the prompt came first with another `KEY`",
        2.4,
    ),
    (
        "prefix of another",
        "after a prompt with another `KEY` that shares its first {} characters",
        2.5,
    ),
    ("shared value", "after another prompt with the same `KEY`", 3),
    ("known", "after a request with the same `KEY`", 3.1),
    ("after other", "after a request with another value of `KEY`", 3.2),
    ("new", "as the first with its `KEY` in a start", 3.9),
    ("values", "once a start has got {} different values of `KEY`", 5.2),
    ("right after another", "right after a request with another `KEY`", 5.1),
    ("at once with another", "at once with a request that has another `KEY`", 5.1),
    ("shared another", "at once with a request that has the same prompt and another `KEY`", 1.9),
)


# The same where both have a value; None where that is no other claim. It claims less: a server has a default for what
# is not given.
_GIVEN = tuple(
    (f"{family} value", words.replace(" another `", " another value of `"), cost - 0.05)
    if " another `" in words
    else None
    for family, words, cost in _PARAMETER
)


def of_parameters(table: SendTable) -> Iterator[CausePart]:
    """Whether others, before or beside, had another value of one parameter."""
    given = {name: parameters(each) for name, each in table.requests.items()}
    shared = [_sharers(table, lane) for lane in table.lanes]
    for key in sorted({key for each in table.sends for key in given[each.name]}):
        value_of = {name: repr(each.get(key)) for name, each in given.items()}
        if len({value_of[each.name] for each in table.sends}) < 2:
            continue
        if _NONE in value_of.values():
            yield from _of_parameter(table, key, value_of, shared, is_given=True)
        yield from _of_parameter(table, key, value_of, shared, is_given=False)


def _of_parameter(
    table: SendTable,
    key: str,
    value_of: dict[str, str],
    shared: Sequence[list[list[tuple[float, float]]]],
    *,
    is_given: bool,
) -> Iterator[CausePart]:
    rows: list[tuple[float, ...]] = []
    for lane, sharers in zip(table.lanes, shared, strict=True):
        names = (f"{each.name} {each.block * (each.at_once > 1)}" for each in lane)
        place = (key, str(is_given), *names)
        if place not in table.remembered:
            made = _with_another(table, lane, value_of, sharers, is_given=is_given)
            table.remembered[place] = list(made)
        rows += table.remembered[place]
    claims = _GIVEN if is_given else _PARAMETER
    for claim, values in zip(claims, zip(*rows, strict=True), strict=True):
        if claim is None:
            continue
        family, words, cost = claim
        text = words.replace("KEY", key)
        parts = [*thresholds(values, f"{family} {key}", text, cost)]
        if "prefix" in family:
            parts += _in_tokens(table, values, f"{family} {key}", text, cost)
        yield from (replace(each, is_form=True) for each in parts)


def _sharers(table: SendTable, lane: Sequence[TrialSend]) -> list[list[tuple[float, float]]]:
    """For each send the first places of all prompts that share a beginning with its own, with how much that is."""
    names = tuple(each.name for each in lane)
    place = ("", *names)
    if place not in table.remembered:
        earlier: dict[str, int] = {}
        made: list[tuple[float, ...]] = []
        for at, name in enumerate(names):
            prompt, some = table.prompts[name], []
            for text, owner in earlier.items():
                shares = visible(prompt[: common(prompt, text)])
                if shares >= SHORTEST_PREFIX:
                    some.append((shares, owner))
            made.append(tuple(itertools.chain.from_iterable(some)))
            earlier.setdefault(prompt, at)
        table.remembered[place] = made
    return [list(zip(each[::2], each[1::2], strict=True)) for each in table.remembered[place]]


def _with_another(
    table: SendTable,
    lane: Sequence[TrialSend],
    value_of: dict[str, str],
    sharers: list[list[tuple[float, float]]],
    *,
    is_given: bool,
) -> Iterator[tuple[float, ...]]:
    """The numbers of `_PARAMETER` for each send of a start; `is_given`: without a value nothing is another."""

    def is_other(one: str, other: str) -> bool:
        return one != other and not (is_given and _NONE in {one, other})

    values = [value_of[each.name] for each in lane]
    known: dict[str, list[str]] = defaultdict(list)
    got: set[str] = set()
    with_value: dict[str, set[str]] = defaultdict(set)
    blocks = defaultdict(list)
    for each in lane:
        blocks[each.block].append(each.name)
    for at, each in enumerate(lane):
        prompt, value = table.prompts[each.name], values[at]
        own = known[prompt]
        # That of the first prompt that shares as much, and that of any.
        first = most = prefix = 0.0
        for size, to in sharers[at]:
            if size > most:
                most = size
                first = size if is_other(values[int(to)], value) else first
            others = known[table.prompts[lane[int(to)].name]]
            if size > prefix and any(is_other(one, value) for one in others):
                prefix = size
        with_it = blocks[each.block] if each.at_once > 1 else ()
        beside = [name for name in with_it if is_other(value_of[name], value)]
        yield (
            any(is_other(one, value) for one in own),
            bool(own) and is_other(own[0], value),
            first,
            prefix,
            value != _NONE and bool(with_value[value] - {prompt}),
            value != _NONE and value in got,
            value != _NONE and bool(got - {value, _NONE}),
            value not in got,
            len(got | {value}),
            at > 0 and is_other(values[at - 1], value),
            bool(beside),
            any(table.prompts[name] == prompt for name in beside),
        )
        own += [value] if value not in own else []
        got.add(value)
        with_value[value].add(prompt)


def of_order(table: SendTable) -> Iterator[CausePart]:
    """Which place it has in its start."""
    at: dict[int, int] = defaultdict(int)
    for send, place in enumerate(table.places):
        at[place + 1] |= 1 << send
    yield CausePart("first", "as the first of a start", 1, at[1])
    after, until = table.later, at[1]
    for least in range(2, len(at) + 1):
        text = f"{ordinal(least)} request of a start"
        until |= at[least]
        yield CausePart("from", f"from the {text} on", 1.5, after)
        yield CausePart("only", f"as the {text}", 2.5, at[least])
        yield CausePart("until", f"up to the {text}", 5, until)
        after &= ~at[least]
    yield from _of_a_window(table, at)
    yield from _of_every(at, "every", "as every {period} request of a start ({turns}, …)", 2.5)
    slots: dict[int, int] = defaultdict(int)
    send = 0
    for lane in table.lanes:
        got = set()
        for each in lane:
            got.add(table.prompts[each.name])
            slots[len(got)] |= 1 << send
            send += 1
    yield from _of_every(slots, "slots", "while a start has got {turns}, … different prompts", 3.4)


def _of_a_window(table: SendTable, at: Mapping[int, int]) -> Iterator[CausePart]:
    """From the first place that differs to the last one; `at` are the sends of each place."""
    wrong = [place for place, bits in at.items() if bits & table.wrong]
    if wrong and min(wrong) < max(wrong):
        first, last = min(wrong), max(wrong)
        text = f"as the {ordinal(first)} to the {ordinal(last)} request of a start"
        mask = sum(at[each] for each in range(first, last + 1))
        beyond = sum(bits for place, bits in at.items() if place > last)
        yield CausePart("window", text, 3, mask, beyond=beyond)


def _of_every(at: Mapping[int, int], family: str, text: str, cost: float) -> Iterator[CausePart]:
    """Each so many of what is counted; `at` are the sends of each count."""
    for period in range(2, LONGEST_PERIOD + 1):
        for first in range(1, period + 1):
            turns = ", ".join(str(first + turn * period) for turn in range(3))
            mask = sum(at[each] for each in range(first, len(at) + 1, period))
            words = text.format(period=ordinal(period), turns=turns)
            yield CausePart(family, words, cost, mask)


def ordinal(number: int) -> str:
    """`1st`, `22nd`, `13th`."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    teen = 10 < number % 100 < 14
    return f"{number}{'th' if teen else ends.get(number % 10, 'th')}"


def of_sums(table: SendTable) -> Iterator[CausePart]:
    """What adds up over a start. It claims more than that a certain request came before."""
    length = {name: len(text) for name, text in table.prompts.items()}
    sums: tuple[tuple[str, str, float, Callable[[Any, int], float]], ...] = (
        ("answer tokens", "once a start has answered {} tokens", 5.9, lambda each, _: each.answer_tokens),
        ("tokens", "once a start has served {} tokens, prompts and answers", 6.0, lambda each, prompt: each.answer_tokens and prompt and prompt + each.answer_tokens),
        ("prompt tokens", "once a start has got {} tokens of prompts", 6.1, lambda _, prompt: prompt),
        ("characters", "once a start has got {} characters of prompts", 6.2, lambda each, _: length[each.name]),
    )  # fmt: skip
    for family, text, cost, of in sums:
        values: list[float] = []
        most: list[float] = []
        begin = 0
        for lane in table.lanes:
            sizes = [
                of(each, prompt) for each, prompt in zip(lane, table.tokens[begin:], strict=False)
            ]
            begin += len(lane)
            values += itertools.accumulate(sizes[:-1], initial=0)
            # A number that the server does not tell may be anything: what comes later may lie on either side.
            unknown = (0.0 if size else math.inf for size in sizes[:-1])
            most += itertools.accumulate(unknown, initial=0.0)
        unknown_at = sorted((values[at], at) for at, more in enumerate(most) if more)
        doubt, reached = 0, 0
        for part in thresholds(values, family, text, cost):
            while reached < len(unknown_at) and unknown_at[reached][0] < (part.least or 0):
                doubt |= 1 << unknown_at[reached][1]
                reached += 1
            yield replace(part, unsure=doubt) if doubt else part
    yield from _of_different_prompts(table)
    ages, idle = [], []
    for lane in table.lanes:
        times = [each.at_s for each in lane]
        ages += [round(each, 1) for each in times]
        idle += [round(times[0], 1), *(round(b - a, 1) for a, b in itertools.pairwise(times))]
    text = "once a start is about {} s past its first request"
    yield from _of_time(table, ages, "age", text)
    young = [-each for each in ages]
    text = "in about the first {} s after a start's first request"
    yield from _of_time(table, young, "young", text, 7)
    yield from _of_time(table, idle, "idle", "after about {} s without a request")
    # A start has been idle before its first request.
    text = "as the first of a start, or after about {} s without a request"
    longest = 2 * max(idle, default=0) + 1
    first = [value if place else longest for value, place in zip(idle, table.places, strict=True)]
    yield from _of_time(table, first, "idle or first", text)


def _of_different_prompts(table: SendTable) -> Iterator[CausePart]:
    """How many tokens a cache of all prompts of a start holds, before one comes and with it."""
    before: list[float] = []
    with_it: list[float] = []
    sizes = iter(table.tokens)
    for lane in table.lanes:
        known: dict[str, float] = {}
        for each, size in zip(lane, sizes, strict=False):
            before.append(sum(known.values()))
            known.setdefault(table.prompts[each.name], size)
            with_it.append(sum(known.values()))
    text = "once a start has got different prompts of {} tokens"
    yield from thresholds(before, "different tokens", text, 6.1)
    text += ", this one among them"
    yield from thresholds(with_it, "different tokens with it", text, 6.1)


def _of_time(
    table: SendTable, values: Sequence[float], family: str, text: str, cost: float = 6
) -> Iterator[CausePart]:
    """As `thresholds`; what lies near one may lie on either side."""
    numbers = sorted(set(values))[1:]
    known = set[tuple[float, int]]()
    for clock_s, dearer in _CLOCKS:
        named = f"{family} sharp" if dearer else family
        parts = thresholds(values, named, text, cost + dearer)
        for part, least in zip(parts, numbers, strict=True):
            # Times are given to a tenth.
            margin = max(clock_s, _CLOCK_SHARE * abs(least)) + 0.05
            near = table.mask(abs(value - least) <= margin for value in values)
            if (least, near) not in known:
                known.add((least, near))
                yield replace(part, unsure=near)


# What adds up, or is counted, while requests are under way at once: for each send, at most in its life and at its arrival.
_LOAD: tuple[tuple[str, str, str, float], ...] = (
    ("at once", "if {} or more requests are under way at once", "1", 1),
    ("arrival", "where {} or more requests are under way at its arrival, itself among them", "1", 1.9),
    ("load", "if prompts of {} UNIT or more in all are under way at once", "prompts", 1.6),
    ("arrival load", "where prompts of {} UNIT or more in all are under way at its arrival", "prompts", 2.5),
    ("whole load", "if {} tokens or more, prompts and answers, are under way at once", "answers", 2.1),
)  # fmt: skip


def of_load(table: SendTable) -> Iterator[CausePart]:
    """How many requests, and how much, is under way with one."""
    if not any(each.wrong and each.at_once > 1 for each in table.sends):
        return
    unit = "tokens" if all(table.tokens) else "characters"
    lengths = [visible(table.prompts[each.name]) for each in table.sends]
    sizes = {"1": [1] * len(lengths), "prompts": table.tokens if all(table.tokens) else lengths}
    if all(table.tokens) and all(each.answer_tokens for each in table.sends):
        answers = [each.answer_tokens for each in table.sends]
        sizes["answers"] = [a + b for a, b in zip(table.tokens, answers, strict=True)]
    for family, words, of, cost in _LOAD:
        if of in sizes:
            values = _under_way(table, sizes[of], at_arrival=family.startswith("arrival"))
            yield from thresholds(values, family, words.replace("UNIT", unit), cost)
    at_once = {each.at_once for each in table.sends if each.wrong}
    if len(at_once) == 1 and max(at_once) > 1:
        mask = table.mask(each.at_once in at_once for each in table.sends)
        yield CausePart(
            "exactly", f"if just {max(at_once)} requests are under way at once", 2.6, mask
        )
    text = "at once with a request that shares its first {} characters"
    yield from thresholds(_shared_beside(table), "shared beside", text, 2.2)
    twins = 0
    for block in table.together:
        places = [at for at in range(block.bit_length()) if block >> at & 1]
        counts = Counter(table.prompts[table.sends[at].name] for at in places)
        twins |= sum(1 << at for at in places if counts[table.prompts[table.sends[at].name]] > 1)
    text = "at once with a request that has the same prompt"
    yield CausePart("shared whole", text, 2, twins)


def loads(table: SendTable) -> Iterator[tuple[str, list[float]]]:
    """How many requests, and how much, is under way with each send at most, with words for it."""
    yield "with {} or more at once", _under_way(table, [1] * len(table.sends), at_arrival=False)
    if all(table.tokens):
        text = "where prompts of {} tokens or more in all were under way at once"
        yield text, _under_way(table, table.tokens, at_arrival=False)


def _under_way(table: SendTable, sizes: Sequence[float], *, at_arrival: bool) -> list[float]:
    """The sum of the sizes that are under way with each send, if they arrive in their order."""
    values = []
    begin = 0
    for lane in table.lanes:
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            block = list(group)
            own, width = sizes[begin : begin + len(block)], block[0].at_once
            sums = [sum(own[max(0, at - width + 1) : at + 1]) for at in range(len(own))]
            values += sums if at_arrival else [max(sums[at : at + width]) for at in range(len(own))]
            begin += len(block)
    return values


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
    ("distinct with it", "once a start has got {} different prompts, this one among them", 3.05),
    ("since", "if {} or more others came since the same prompt", 3.5),
    ("distinct since", "if {} or more other prompts came since the same prompt", 3.55),
    ("longest since", "if a prompt of {} characters or more came since the same prompt", 3.6),
    (
        "characters since",
        "if other prompts of {} characters or more came since the same prompt",
        3.7,
    ),
    ("prefix", "after a prompt that shares its first {} characters", 2),
    ("begun", "after a shorter prompt with which its own begins", 2.5),
    ("other prefix", "after another prompt that shares its first {} characters", 2.2),
    ("prefix in a row", "right after another prompt that shares its first {} characters", 2.4),
    ("shorter prefix", "after another, shorter prompt that shares its first {} characters", 2.6),
    ("longest", "when its prompt is longer than each one before", 2.3),
    ("longer before", "right after a prompt that is longer by {} characters or more", 2.4),
    ("shorter before", "right after a prompt that is shorter by {} characters or more", 2.4),
)


def of_memory(table: SendTable) -> Iterator[CausePart]:
    """What a server that remembers prompts may know of one."""
    rows: list[tuple[float, ...]] = []
    for lane in table.lanes:
        names = tuple(each.name for each in lane)
        if names in table.remembered:
            rows += table.remembered[names]
            continue
        begin = len(rows)
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
        table.remembered[names] = rows[begin:]
    for (family, words, cost), values in zip(_MEMORY, zip(*rows, strict=True), strict=True):
        yield from thresholds(values, family, words, cost)
        if family.endswith("prefix"):
            yield from _in_tokens(table, values, family, words, cost)
    yield from _of_tokens_since(table)
    yield from _of_the_rest(table, rows)
    for family, sign in (("longer", 1), ("shorter", -1)):
        text = f"right after a prompt that is {family} by {{}} tokens or more"
        fallen = [max(0, sign * each) for each in _fallen(table)]
        yield from thresholds(fallen, f"{family} before in tokens", text, 2.45)
    for modulus in (0, *MODULI):
        words = "after another prompt of as many tokens" + f", modulo {modulus}" * (modulus > 0)
        family, cost = ("as long modulo", 3.7) if modulus else ("as long", 3.3)
        yield CausePart(family, words, cost, _as_long(table, modulus))


def _in_tokens(
    table: SendTable, values: Sequence[float], family: str, words: str, cost: float
) -> Iterator[CausePart]:
    """The same in tokens, which a cache counts: about as many as the beginning has words and signs."""
    if not all(table.tokens):
        return
    sizes = []
    for each, value, count in zip(table.sends, values, table.tokens, strict=True):
        text = table.texts[each.name]
        share = pieces(text, int(value)) / max(1, pieces(text, len(text)))
        sizes.append(round(count * share) if value else 0)
    text = words.replace("first {} characters", "first {} tokens or so")
    for part in thresholds(sizes, f"{family} of tokens", text, cost + 0.05):
        # Words and signs are not just tokens, and a template adds some.
        margin = max(_NEAR_TOKENS, _NEAR_SHARE * (part.least or 0))
        near = table.mask(size > 0 and abs(size - (part.least or 0)) <= margin for size in sizes)
        yield replace(part, unsure=near)


def _of_the_rest(table: SendTable, rows: Sequence[tuple[float, ...]]) -> Iterator[CausePart]:
    """How much of a prompt no earlier one began with: what a cache of beginnings leaves to compute. `rows` as of `_MEMORY`."""
    if not all(table.tokens):
        return
    at = [family for family, *_ in _MEMORY].index("prefix")
    left: list[float] = []
    for each, row, count in zip(table.sends, rows, table.tokens, strict=True):
        text = table.texts[each.name]
        share = pieces(text, int(row[at])) / max(1, pieces(text, len(text)))
        left.append(-round(count * (1 - share)) if row[at] else -_ALL)
    known = [math.nan if each == -_ALL else each for each in left]
    words = "when all but {} tokens or so of its prompt are the beginning of one before"
    for part in thresholds(left, "rest", words, 2.6):
        least = part.least or 0
        near = table.mask(abs(-value - least) == 1 for value in left)
        below = None if part.below == _ALL else part.below
        yield replace(part, unsure=near, below=below, numbers=known)


def _remembered(text: str, before: Sequence[str], alike: Sequence[bool]) -> tuple[float, ...]:
    """The numbers of `_MEMORY` for a prompt, after those `before` it.

    `alike`: for each of these that is the same prompt, whether it had the same parameters.
    """
    again = before.count(text)
    last = before[-1] if before else text
    shared = {each: visible(text[: common(text, each)]) for each in set(before)}
    others = {each: size for each, size in shared.items() if each != text}
    since = before[len(before) - before[::-1].index(text) :] if again else []
    shorter = [size for each, size in others.items() if len(each) < len(text)]
    prefixes = (
        max(shared.values(), default=0),
        SHORTEST_PREFIX * any(goes_on(text, each) for each in shared),
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
        len(shared) < len(before),
        len(shared),
        len(shared.keys() | {text}),
        # How many others came since the same prompt; at once is as never.
        len(since) or -1,
        len(set(since)) or -1,
        max(map(visible, since), default=-1),
        sum(map(visible, since)) or -1,
        *(each if each >= SHORTEST_PREFIX else 0 for each in prefixes),
        bool(before) and len(text) > max(map(len, before)),
        max(0, len(last) - len(text)),
        max(0, len(text) - len(last)),
    )


def goes_on(text: str, earlier: str) -> bool:
    """Whether a prompt begins with the whole of an earlier one, in whole messages if it is a chat."""
    rest = text[len(earlier) :]
    is_chat = text[:1] in MARKS and earlier[:1] in MARKS
    return bool(rest) and text.startswith(earlier) and (not is_chat or rest[0] in MARKS)


def _of_tokens_since(table: SendTable) -> Iterator[CausePart]:
    """How many tokens of other prompts came since the same one, and how many the longest of them has."""
    served, most = zip(*_since(table), strict=True)
    text = "if other prompts of {} tokens or more came since the same prompt"
    yield from thresholds(served, "tokens since", text, 3.6)
    if all(table.tokens):
        text = "if a prompt of {} tokens or more came since the same prompt"
        yield from thresholds(most, "most tokens since", text, 3.5)


def _since(table: SendTable) -> Iterator[tuple[float, float]]:
    """Of each send all tokens, and those of the longest; -1 if the prompt did not come."""
    begin = 0
    for lane in table.lanes:
        sizes = table.tokens[begin : begin + len(lane)]
        begin += len(lane)
        last: dict[str, int] = {}
        for at, each in enumerate(lane):
            prompt = table.prompts[each.name]
            others = sizes[last.get(prompt, at) + 1 : at]
            # At once is as never.
            yield sum(others) or -1, max(others, default=-1)
            last[prompt] = at


def _fallen(table: SendTable) -> Iterator[float]:
    """How many tokens more than its own the prompt right before had; 0 where the server tells none."""
    for place, at in zip(table.places, range(len(table.sends)), strict=True):
        before, own = table.tokens[at - 1], table.tokens[at]
        yield before - own if place and before and own else 0


def _as_long(table: SendTable, modulus: int) -> int:
    """The sends before which the same start got another prompt of as many tokens, modulo a number if it is not 0."""
    holds, at = 0, -1
    for lane in table.lanes:
        sizes: dict[float, set[str]] = defaultdict(set)
        for each in lane:
            at += 1
            prompt, count = table.prompts[each.name], table.tokens[at]
            size = count % modulus if modulus else count
            holds |= bool(count and sizes[size] - {prompt}) << at
            sizes[size].add(prompt)
    return holds


def _shared_beside(table: SendTable) -> list[float]:
    """How many characters a prompt shares with another one of its block, at most."""
    values: list[float] = []
    for lane in table.lanes:
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            block = [table.prompts[each.name] for each in group]
            for at, text in enumerate(block):
                rest = (*block[:at], *block[at + 1 :])
                most = max((visible(text[: common(text, each)]) for each in rest), default=0)
                values.append(most if most >= SHORTEST_PREFIX else 0)
    return values
