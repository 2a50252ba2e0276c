# SPDX-License-Identifier: Apache-2.0
"""Changed copies of a request: what it holds and a copy lacks may be why it differs. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.traits import (
    BEGINNING,
    CHARACTERS,
    IN_PARTS,
    LAST_MESSAGE,
    PLACE,
    CausePart,
    parameters,
    said,
    valued,
)
from ci_doctor.correctness.localise.trials import LocalisedDifference, pieces
from ci_doctor.load.prompts import (
    Cut,
    PromptLength,
    halved,
    prompt_length,
    with_contents,
    with_prompt,
)
from ci_doctor.load.requests import Request

_PREFIXES = 8
# So many numbers between two are tried in one start.
_MOST_SIZES = 12
# Of so many words each is apart from each other in some copy.
_WORD_BITS = 4
_CHAT, _COMPLETION = "/v1/chat/completions", "/v1/completions"
# One token more or less makes a block whole, or begins one.
_NEAR = 4
# Characters have one to four bytes.
_SHIFTS = (1, 2, 3)
_LONGEST_BLOCK = 16
_LONGEST_LABEL = 60
# So many other values of one parameter.
_MOST_VALUES = 6
_NOT_VARIED = {"stream_options", "user"}
# They bind an answer to a form, in which a difference may no longer show.
_FORMS = {"tools", "response_format", "structured_outputs", "guided_json", "guided_choice"}


class Copy(Struct, frozen=True):
    """A changed request. `lacks`: the one thing of its prompt that it has not, as causes name it."""

    request: Request
    lacks: str = ""


def changed_copies(request: Request, subject: LocalisedDifference) -> list[Copy]:
    """The request with another prompt or without a part of it, and with other parameters."""
    copies = []
    length = prompt_length(request)
    if length is not None:
        for text, change in _prompt_changes(length, subject):
            changed = with_prompt(request, change)
            # Servers refuse an empty prompt.
            left = prompt_length(changed)
            if changed.body != request.body and left is not None and left.count:
                copies.append(replace(changed, id=f"{request.id}, {text}"))
    whole = len(said(request))
    copies += [_up_to(request, size) for size in halved(whole, _PREFIXES)]
    copies += _of_another_kind(request, subject)
    copies += _with_other_parameters(request, subject)
    first = _masked(request, "x for its first character", lambda at, _: at > 0)
    lacking = [Copy(first, BEGINNING)]
    for pattern, kind, _ in CHARACTERS:
        lacking.append(Copy(_masked(request, f"x for {kind}", _other_than(pattern)), kind))
    if length is not None and length.unit == "characters":
        for size in _SHIFTS:
            moved = with_prompt(request, _longer("x" * size, ""))
            moved = replace(moved, id=f"{request.id}, {'x' * size} before its prompt")
            lacking.append(Copy(moved, PLACE))
    made = [*map(Copy, copies), *_with_fewer_messages(request), *lacking]
    return [each for each in made if each.request.body != request.body]


def _other_than(pattern: re.Pattern[str]) -> Callable[[int, str], bool]:
    return lambda _, sign: not pattern.match(sign)


def _up_to(request: Request, size: int) -> Request:
    text = f"x behind its first {size} characters"
    return _masked(request, text, lambda place, _: place < size)


def sized_copies(request: Request, part: CausePart) -> list[Request]:
    """Copies between the two numbers of a part: one for each of some sizes."""
    if part.least is None or part.below is None:
        return []
    low, high = sorted((part.least, part.below))
    if part.family.endswith("prefix of tokens"):
        text = said(request)
        low, high = (each * len(text) / max(1, pieces(text, len(text))) for each in (low, high))
    step = max(1.0, (high - low) / _MOST_SIZES)
    sizes = sorted({int(low + step * turn) for turn in range(1, _MOST_SIZES)} - {low, high})
    sizes = [each for each in sizes if low < each < high]
    if part.family.endswith(("prefix", "prefix of tokens")) or part.family == "beginning":
        return [_up_to(request, size) for size in sizes]
    length = prompt_length(request)
    if part.family in {"long", "short"} and length is not None:
        unit, rest = length.unit, len(said(request)) - length.count
        return [
            replace(
                with_prompt(request, _repeated(size - rest)),
                id=f"{request.id}, cut or repeated to {size} {unit}",
            )
            for size in sizes
            if size > rest
        ]
    key = part.family.split(" ")[0]
    if key in request.body and part.family == f"{key} or {part.family.split(' ')[-1]}":
        return [
            replace(
                request, id=f"{request.id} with `{key}` {each}", body={**request.body, key: each}
            )
            for each in sizes
        ]
    return []


def longer_copies(request: Request) -> list[Copy]:
    """Copies whose prompt has some words more: one of them makes a block of tokens whole."""
    length = prompt_length(request)
    if length is None:
        return []
    copies = []
    for count in range(1, _LONGEST_BLOCK):
        more = with_prompt(request, _longer("", " x" * count, count))
        copies.append(Copy(replace(more, id=f"{request.id} with {count} words more")))
    return copies


def _longer(before: str, behind: str, count: int = 0) -> Callable[[Cut], Cut]:
    """More of a text, or so many more token ids."""
    return lambda cut: f"{before}{cut}{behind}" if isinstance(cut, str) else cut + cut[:1] * count


def _masked(request: Request, text: str, keeps: Callable[[int, str], bool]) -> Request:
    """The request with an x for each character that `keeps` (its place, itself) does not keep."""

    def change(cut: Cut, begin: int) -> Cut:
        if not isinstance(cut, str):
            return cut
        return "".join(
            sign if keeps(begin + place, sign) else "x" for place, sign in enumerate(cut)
        )

    return replace(with_contents(request, change), id=f"{request.id}, {text}")


def text_copies(request: Request, text: str) -> list[Copy]:
    """The request with x for each place of a text, and with x for all but the text."""
    return [Copy(_without_text(request, text), text), Copy(_with_text_alone(request, text))]


def _without_text(request: Request, text: str) -> Request:
    x = "x" * len(text)
    changed = with_contents(
        request, lambda cut, _: cut.replace(text, x) if isinstance(cut, str) else cut
    )
    return replace(changed, id=f"{request.id}, x for `{text}`")


def _with_text_alone(request: Request, text: str) -> Request:
    def change(cut: Cut, _begin: int) -> Cut:
        if not isinstance(cut, str):
            return cut
        parts = cut.split(text)
        return text.join(
            "".join(each if each.isspace() else "x" for each in part) for part in parts
        )

    return replace(with_contents(request, change), id=f"{request.id}, x for all but `{text}`")


def _with_fewer_messages(request: Request) -> Iterator[Copy]:
    messages = request.body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return
    for place in range(len(messages) - 1):
        body = {**request.body, "messages": [*messages[:place], *messages[place + 1 :]]}
        copy = replace(request, id=f"{request.id} without its message {place + 1}", body=body)
        role = messages[place].get("role")
        alone = role not in [each.get("role") for each in body["messages"]]
        yield Copy(copy, f"a message of the role {role}" if alone else "")
    if len(messages) > 1 and messages[-1].get("role") != messages[-2].get("role"):
        body = {**request.body, "messages": messages[:-1]}
        copy = replace(request, id=f"{request.id} without {LAST_MESSAGE}", body=body)
        yield Copy(copy, LAST_MESSAGE)
    body = {**request.body, "messages": [_without_parts(each) for each in messages]}
    yield Copy(replace(request, id=f"{request.id}, its texts alone", body=body), IN_PARTS)


def _without_parts(message: dict[str, Any]) -> dict[str, Any]:
    """The texts of a message in parts as one, without pictures; any other message as it is."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    texts = [each.get("text") for each in content if isinstance(each, dict)]
    return {**message, "content": " ".join(each for each in texts if isinstance(each, str))}


def _of_another_kind(request: Request, subject: LocalisedDifference) -> Iterator[Request]:
    """A completion as a chat, and a chat as a completion, where the run has both."""
    bodies = {each.path: each.body for each in subject.requests}
    body = {key: value for key, value in request.body.items() if key not in {"prompt", "messages"}}
    if request.path == _CHAT and "prompt" in bodies.get(_COMPLETION, {}):
        yield replace(
            request, id=f"{request.id} as a completion", path=_COMPLETION,
            body={**body, "prompt": said(request)},
        )  # fmt: skip
    if request.path == _COMPLETION and "messages" in bodies.get(_CHAT, {}):
        message = {"role": "user", "content": said(request)}
        yield replace(
            request, id=f"{request.id} as a chat", path=_CHAT, body={**body, "messages": [message]}
        )


def _prompt_changes(
    length: PromptLength, subject: LocalisedDifference
) -> Iterator[tuple[str, Callable[[Cut], Cut]]]:
    """What is made of a prompt, in words: parts of it, other contents, another length."""
    count, unit = length.count, length.unit
    for size in halved(count, _PREFIXES):
        yield f"first {size} of {count} {unit}", _slice(0, size)
    for size in halved(count, 3):
        yield f"last {size} of {count} {unit}", _slice(count - size, count)
    for size in (*range(count + 1, count + _NEAR + 1), 2 * count):
        yield f"repeated to {size} {unit}", _repeated(size)
    for size in range(count - 1, max(0, count - _NEAR), -1):
        yield f"first {size} of {count} {unit}", _slice(0, size)
    yield "its prompt turned round", _turned
    for bit in range(_WORD_BITS):
        for side in (0, 1):
            yield f"without half of its words ({2 * bit + side + 1})", _without_words(bit, side)
    yield f"{count} times the first of its {unit}", lambda cut: cut[:1] * count
    lengths = filter(None, map(prompt_length, subject.requests))
    longest = max(each.count for each in lengths)
    if longest > count:
        yield f"repeated to {longest} {unit}", _repeated(longest)


def _without_words(bit: int, side: int) -> Callable[[Cut], Cut]:
    """Half of the words: any two of them are apart in one of the halves."""

    def change(cut: Cut) -> Cut:
        words = cut.split() if isinstance(cut, str) else cut
        left = [place for place in range(len(words)) if place >> bit & 1 != side]
        if isinstance(cut, str):
            return " ".join(str(words[place]) for place in left)
        return [cut[place] for place in left]

    return change


def _repeated(size: int) -> Callable[[Cut], Cut]:
    return lambda cut: (cut * (size // len(cut) + 1))[:size]


def _slice(begin: int, end: int) -> Callable[[Cut], Cut]:
    return lambda cut: cut[begin:end]


def _turned(cut: Cut) -> Cut:
    return " ".join(reversed(cut.split())) if isinstance(cut, str) else cut[::-1]


def _other_values(own: Mapping[str, Any], key: str, values: Sequence[Any]) -> list[Any]:
    """Some of the `values` of a parameter beside that of a body."""
    others = [each for each in values if each != own.get(key)]
    number = own.get(key, 0)
    if all(map(_is_number, [*others, number])):
        # The nearest ones tell where the border is, the others whether it is this number alone.
        others.sort(key=lambda each: abs(each - number))
        others = list(dict.fromkeys([*others[:2], min(others), max(others)])) if others else []
        if number > 1:
            others += [2 * number, number // 2]
    return others[:_MOST_VALUES]


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
            # Many servers refuse what names no model.
            if key != "model" or any(key not in each.body for each in subject.requests):
                yield replace(request, id=f"{request.id} without `{key}`", body=body)
            yield from _with_a_part(request, key)
        others = _other_values(own, key, values[key]) if key in own or key not in _FORMS else ()
        for value in others:
            owner = next((e.id for e in subject.requests if e.body.get(key) == value), "")
            name = f"{request.id} with {valued(key, value, owner)}"
            # Sums of tokens need those of each request.
            usage = {"stream_options": {"include_usage": True}} if key == "stream" and value else {}
            yield replace(request, id=name, body={**usage, **own, key: value})


def _with_a_part(request: Request, key: str) -> Iterator[Request]:
    """Of a parameter with several texts, each alone."""
    parts = request.body[key]
    for part in parts if isinstance(parts, list) and len(parts) > 1 else ():
        words = f"{request.id} with {part!r} alone in `{key}`"
        if len(words) < _LONGEST_LABEL:
            yield replace(request, id=words, body={**request.body, key: [part]})


def _is_number(value: object) -> bool:
    return type(value) in {int, float}
