# SPDX-License-Identifier: Apache-2.0
"""Changed copies of a request: what it holds and a copy lacks may be why it differs. Pure."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import parameters
from ci_doctor.correctness.localise.trials import LocalisedDifference
from ci_doctor.load.prompts import (
    Cut,
    PromptLength,
    halved,
    prompt_length,
    prompt_of,
    with_prompt,
)
from ci_doctor.load.requests import Request

_PREFIXES = 8
# Of so many words each is apart from each other in some copy.
_WORD_BITS = 4
_NOT_VARIED = {"model", "stream_options", "user"}


def changed_copies(request: Request, subject: LocalisedDifference) -> list[Request]:
    """The request with another prompt or without a part of it, and with other parameters."""
    copies = []
    length = prompt_length(request)
    if length is not None:
        for text, change in _prompt_changes(length, subject):
            changed = with_prompt(request, change)
            # Servers refuse an empty prompt.
            if changed.body != request.body and prompt_of(changed):
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
