# SPDX-License-Identifier: Apache-2.0
"""What a request has to do with those before it and beside it: prompts, parameters, and how much is under way. Pure."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

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


def of_parameters(table: SendTable) -> Iterator[CausePart]:
    """Whether others, before or beside, had another value of one parameter."""
    given = {name: parameters(each) for name, each in table.requests.items()}
    shared = [_sharers(table, lane) for lane in table.lanes]
    for key in sorted({key for each in table.sends for key in given[each.name]}):
        value_of = {name: repr(each.get(key)) for name, each in given.items()}
        if len({value_of[each.name] for each in table.sends}) < 2:
            continue
        rows: list[tuple[float, ...]] = []
        for lane, sharers in zip(table.lanes, shared, strict=True):
            place = (key, *(f"{each.name} {each.block * (each.at_once > 1)}" for each in lane))
            if place not in table.remembered:
                table.remembered[place] = list(_with_another(table, lane, value_of, sharers))
            rows += table.remembered[place]
        for (family, words, cost), values in zip(_PARAMETER, zip(*rows, strict=True), strict=True):
            text = words.replace("KEY", key)
            yield from thresholds(values, f"{family} {key}", text, cost)
            if "prefix" in family:
                yield from _in_tokens(table, values, f"{family} {key}", text, cost)


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
) -> Iterator[tuple[float, ...]]:
    """The numbers of `_PARAMETER` for each send of a start."""
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
                first = size if values[int(to)] != value else first
            if size > prefix and known[table.prompts[lane[int(to)].name]] != [value]:
                prefix = size
        others = blocks[each.block] if each.at_once > 1 else ()
        beside = [name for name in others if value_of[name] != value]
        yield (
            any(one != value for one in own),
            bool(own) and own[0] != value,
            first,
            prefix,
            value != _NONE and bool(with_value[value] - {prompt}),
            value != _NONE and value in got,
            value != _NONE and bool(got - {value, _NONE}),
            value not in got,
            len(got | {value}),
            at > 0 and values[at - 1] != value,
            bool(beside),
            any(table.prompts[name] == prompt for name in beside),
        )
        own += [value] if value not in own else []
        got.add(value)
        with_value[value].add(prompt)


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
    yield from thresholds(_since(table), "tokens since", _SINCE_TOKENS, 3.6)
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


_SINCE_TOKENS = "if other prompts of {} tokens or more came since the same prompt"


def _since(table: SendTable) -> list[float]:
    """How many tokens of other prompts came since the same one; -1 if it did not come."""
    values: list[float] = []
    for lane in table.lanes:
        begin = len(values)
        last: dict[str, float] = {}
        served = 0.0
        for at, each in enumerate(lane):
            prompt = table.prompts[each.name]
            # At once is as never.
            values.append((served - last[prompt] or -1) if prompt in last else -1)
            served += table.tokens[begin + at]
            last[prompt] = served
    return values


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
