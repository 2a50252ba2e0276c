# SPDX-License-Identifier: Apache-2.0
"""Where two canonical outputs diverge, and how hard. Pure.

By token if both sides report their tokens, else by character; by item if the answers are vectors, scores or ranks.
"""

import json
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.tokens import (
    Choice,
    Hardness,
    Step,
    common,
    compare_steps,
    number_difference,
    step,
    token_lists,
    ulp_before,
)
from ci_doctor.load.answer_items import ItemKind, item_numbers, items_of
from ci_doctor.load.canonical import encode, text_of
from ci_doctor.load.choices import ulp_distance
from ci_doctor.model.facts.correctness import NumbersApart

# --- what a person reads of a choice, part by part, and the text around a difference ---

_MESSAGE_PARTS = ("reasoning_content", "reasoning", "content", "refusal")


class TextExcerpt(Struct, frozen=True, kw_only=True):
    """`before` is the text that both sides share, `left` and `right` follow it; all are cut."""

    before: str
    left: str
    right: str


def around(left: str, right: str, width: int) -> TextExcerpt:
    """The first difference of two texts, with `width` characters before and after."""
    at = common(left, right)
    begin = max(0, at - width)
    end = at + width
    return TextExcerpt(
        before=encodable(left[begin:at]),
        left=encodable(left[at:end]),
        right=encodable(right[at:end]),
    )


def encodable(text: str) -> str:
    """`text` in a form that UTF-8 can hold: a model may generate half of a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def as_json(value: object) -> str:
    """A value as canonical JSON."""
    return json.dumps(value, sort_keys=True)


def parts_of(choice: Choice) -> dict[str, str]:
    """What a person reads of a choice: text, reasoning, content, refusal, tool calls, by name."""
    values = {"text": choice.get("text")}
    message = choice.get("message")
    if isinstance(message, dict):
        for name in _MESSAGE_PARTS:
            values[name] = message.get(name)
        values.update(_call_parts(message.get("tool_calls")))
    parts = {}
    for name, value in values.items():
        if isinstance(value, str):
            parts[name] = value
        elif value is not None:
            parts[name] = as_json(value)
    return parts


def _call_parts(calls: object) -> dict[str, Any]:
    """The name and the arguments of each tool call."""
    parts: dict[str, Any] = {}
    if not isinstance(calls, list):
        return parts
    for index, call in enumerate(calls):
        path = f"tool_calls[{index}]"
        parts[f"{path}.name"] = call.get("name")
        parts[f"{path}.arguments"] = call.get("arguments")
    return parts


def whole_text(choice: Choice) -> str:
    """All parts of a choice, in lines."""
    return "\n".join(parts_of(choice).values())


def differing_part(left: Choice, right: Choice) -> str:
    """The name of the first part in which two choices differ, or else of the first part."""
    one = parts_of(left)
    other = parts_of(right)
    names = list(one | other)
    for name in names:
        if one.get(name) != other.get(name):
            return name
    # Equal texts and other tokens: the same words, cut into tokens in another way.
    if names:
        return names[0]
    return "token_ids"


# --- where two JSON values differ, as a path ---

_Position = tuple[str, Any, Any]


def first_field(left: Any, right: Any, path: str = "") -> _Position:
    """The path of the first value in which two JSON values differ, and both values.

    `path` is that of the two values themselves. Without one, the path of a value that is neither an
    object nor a list is `output`.
    """
    position = path, left, right
    # A loop and not recursion: JSON may be nested deeper than Python's stack.
    while True:
        below = _below(*position)
        if below is None:
            break
        position = below
    where, one, other = position
    return where or "output", one, other


def _below(path: str, left: Any, right: Any) -> _Position | None:
    """The first difference one level below; None if these two values are the difference."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _first_key(path, left, right)
    if isinstance(left, list) and isinstance(right, list):
        return _first_item(path, left, right)
    return None


def _first_key(path: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> _Position | None:
    """The first key, in alphabetical order, whose values differ; an absent one counts as null."""
    keys = {*left, *right}
    for key in sorted(keys):
        one = left.get(key)
        other = right.get(key)
        if not differ(one, other):
            continue
        below = key
        if path:
            below = f"{path}.{key}"
        return below, one, other
    return None


def _first_item(path: str, left: list[Any], right: list[Any]) -> _Position:
    pairs = zip(left, right, strict=False)
    for index, (one, other) in enumerate(pairs):
        if differ(one, other):
            return f"{path}[{index}]", one, other
    # One list is the beginning of the other. The numbers end the descent.
    return f"len({path})", len(left), len(right)


def differ(left: object, right: object) -> bool:
    """Whether two JSON values have different digests."""
    # Python alone is not enough: 1, 1.0 and True are equal to it, and so are 0.0 and -0.0.
    return left != right or encode(left) != encode(right)


# --- the first item (vector, score, label, rank) in which two answers differ, and how far ---

_Item = Mapping[str, Any]
# As a report names them: the keys of an item that stand for words, and the numbers of each kind.
_WORDS = {"label": "label", "index": "rank", "document": "document of rank"}
_NUMBERS = {
    ItemKind.VECTOR: "vector",
    ItemKind.LABEL: "probabilities",
    ItemKind.SCORE: "score",
    ItemKind.RANK: "score of rank",
}


class ItemDifference(Struct, frozen=True, kw_only=True):
    """The item number `index` of both answers; `field` names it, `before` what both share."""

    field: str
    index: int
    hardness: Hardness
    before: str = ""
    left: str = ""
    right: str = ""
    apart: NumbersApart | None = None


def item_difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> ItemDifference | None:
    """The first item that differs; None if every item is the same."""
    noun = _NUMBERS.get(left.get("kind", ""), "numbers")
    ours = items_of(left) or []
    theirs = items_of(right) or []
    is_single = len(ours) == len(theirs) == 1
    for index, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one is None or other is None:
            return ItemDifference(field=f"items[{index}]", index=index, hardness=Hardness.MISSING)
        # Nearly every request has one text: its number would only be in the way.
        number = "" if is_single else f" {index}"
        difference = _of_words(one, other, index, number)
        if difference is None:
            difference = _of_numbers(one, other, index, f"{noun}{number}")
        if difference is not None:
            return difference
    return None


def _of_words(one: _Item, other: _Item, index: int, number: str) -> ItemDifference | None:
    for key, noun in _WORDS.items():
        if one.get(key) != other.get(key):
            return ItemDifference(
                field=f"{noun}{number}",
                index=index,
                hardness=Hardness.UNKNOWN,
                left=_item_text(one, key),
                right=_item_text(other, key),
            )
    return None


def _of_numbers(one: _Item, other: _Item, index: int, name: str) -> ItemDifference | None:
    ours = item_numbers(one)
    theirs = item_numbers(other)
    if len(ours) != len(theirs):
        return ItemDifference(
            field=name,
            index=index,
            hardness=Hardness.LENGTH,
            left=f"{len(ours):,} numbers",
            right=f"{len(theirs):,} numbers",
        )
    apart = numbers_apart(ours, theirs)
    if apart is None:
        return None
    before = ""
    if apart.count > 1:
        size = f"of {apart.count:,}"
        name = f"{name} ({size} numbers)" if name[-1].isdigit() else f"{name} {size}"
        before = f"number {apart.first}: "
    return ItemDifference(
        field=name,
        index=index,
        hardness=Hardness.NUMBERS,
        before=before,
        # Nine digits tell any two float32 apart.
        left=f"{ours[apart.first]:.9g}",
        right=f"{theirs[apart.first]:.9g}",
        apart=apart,
    )


def _item_text(item: _Item, key: str) -> str:
    value = item.get(key)
    text = value if isinstance(value, str) else as_json(value)
    if key == "document":
        return text
    # The numbers tell whether it was close.
    numbers = " ".join(f"{number:.6g}" for number in item_numbers(item)[:4])
    return f"{text} ({numbers})"


def numbers_apart(left: Sequence[float], right: Sequence[float]) -> NumbersApart | None:
    """How far two lists of as many finite numbers lie apart; None if all are bit for bit equal."""
    places = []
    for place, (one, other) in enumerate(zip(left, right, strict=True)):
        # 0.0 and -0.0 are equal to Python, and two different answers.
        if one != other or math.copysign(1.0, one) != math.copysign(1.0, other):
            places.append(place)
    if not places:
        return None
    return NumbersApart(
        count=len(left),
        places=len(places),
        first=places[0],
        largest=max(abs(left[place] - right[place]) for place in places),
        ulp=max(ulp_distance(left[place], right[place]) for place in places),
        cosine=_cosine_distance(left, right),
    )


def _cosine_distance(left: Sequence[float], right: Sequence[float]) -> float | None:
    """1 - cos of the angle between two vectors; None for single numbers and without a direction."""
    ours = math.hypot(*left)
    theirs = math.hypot(*right)
    if len(left) == 1 or not ours or not theirs:
        return None
    # Not 1 - cos: that would lose all digits of a small angle.
    squares = [(one / ours - other / theirs) ** 2 for one, other in zip(left, right, strict=True)]
    return math.fsum(squares) / 2


# --- where two canonical outputs diverge, and how hard ---
# By token if both sides report their tokens, else by character.

# `matched_stop` is SGLang's, `stop_reason` vLLM's, `finish_reason` everybody's.
_STOPS = ("finish_reason", "stop_reason", "matched_stop")


class PositionUnit(StrEnum):
    """What a position counts, from 0."""

    TOKEN = "token"  # noqa: S105
    CHARACTER = "character"


class Divergence(Struct, frozen=True, kw_only=True):
    """Where two outputs diverge: in `field` of choice number `choice` at `position`.

    `field` is `text`, `content` …, `logprobs` if only numbers differ, or a path
    (`choices[0].finish_reason`). `position` is None if no position can be named. `before` is the
    text that both share, `left` and `right` what follows in each, all three cut short. `gap` is how
    far apart both sides' tokens are, in nat, or at least, if a token is not listed. `ulp` is the
    greatest distance of the log-probabilities of the last tokens before, in units in the last place
    of float32. `apart` is set if the answers are numbers (vectors, scores), and only those differ.
    """

    field: str
    hardness: Hardness
    unit: PositionUnit = PositionUnit.CHARACTER
    position: int | None = None
    choice: int = 0
    before: str = ""
    left: str = ""
    right: str = ""
    gap: float | None = None
    ulp: int | None = None
    apart: NumbersApart | None = None


def first_divergence(
    left: Mapping[str, Any], right: Mapping[str, Any], width: int = 40
) -> Divergence:
    """The first position at which two outputs differ, with `width` characters around it.

    The first choice that differs counts: its tokens, then its text, then why it stopped, then its
    log-probabilities.
    """
    if items_of(left) is not None and items_of(right) is not None:
        return _in_items(left, right, width)
    pairs = zip_longest(_choices(left), _choices(right))
    for index, (one, other) in enumerate(pairs):
        if one is None or other is None:
            return Divergence(field=f"choices[{index}]", hardness=Hardness.MISSING, choice=index)
        if differ(one, other):
            return _in_choice(one, other, index, width)
    ours = left.get("completion_tokens")
    theirs = right.get("completion_tokens")
    # All choices are the same, and the server counts otherwise: tokens that it does not report.
    if differ(ours, theirs):
        return Divergence(
            field="completion_tokens",
            hardness=Hardness.LENGTH,
            left=as_json(ours),
            right=as_json(theirs),
        )
    path, one_value, other_value = first_field(left, right)
    return _at_field(path, one_value, other_value, width)


def _in_items(left: Mapping[str, Any], right: Mapping[str, Any], width: int) -> Divergence:
    """The first vector, score, label or rank that differs."""
    difference = item_difference(left, right)
    if difference is None:
        path, one_value, other_value = first_field(left, right)
        return _at_field(path, one_value, other_value, width)
    apart = difference.apart
    return Divergence(
        field=difference.field,
        hardness=difference.hardness,
        choice=difference.index,
        before=encodable(difference.before[-width:]),
        left=encodable(difference.left[:width]),
        right=encodable(difference.right[:width]),
        ulp=apart.ulp if apart else None,
        apart=apart,
    )


def no_answer(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, width: int = 40
) -> Divergence:
    """At least one side has no answer; the other's is shown from its beginning."""
    return Divergence(
        field="answer",
        hardness=Hardness.MISSING,
        left=_beginning(left, width),
        right=_beginning(right, width),
    )


def _beginning(output: Mapping[str, Any] | None, width: int) -> str:
    if output is None:
        return ""
    return encodable(text_of(dict(output))[:width])


def choice_of(output: Mapping[str, Any], index: int) -> Choice:
    """The choice number `index` of an output; empty if it has none."""
    choices = _choices(output)
    return choices[index] if index < len(choices) else {}


def _choices(output: Mapping[str, Any]) -> list[Choice]:
    choices = output.get("choices")
    if not isinstance(choices, list):
        return []
    return [choice for choice in choices if isinstance(choice, dict)]


def _in_choice(left: Choice, right: Choice, index: int, width: int) -> Divergence:
    """The first difference of two choices that differ."""
    count = None
    tokens = token_lists(left, right)
    if tokens is not None:
        ours, theirs = tokens
        if ours != theirs:
            at = common(ours, theirs)
            return _at_token(left, right, at, index, width)
        count = len(ours)
    if parts_of(left) != parts_of(right):
        return _at_character(left, right, index, width)
    divergence = _at_stop(left, right, count, index, width)
    if divergence is not None:
        return divergence
    divergence = _at_number(left, right, index, width)
    if divergence is not None:
        return divergence
    # What remains is no text, no token, no reason to stop and no number that can be named.
    path, one, other = first_field(left, right, f"choices[{index}]")
    return _at_field(path, one, other, width, index)


def _at_token(left: Choice, right: Choice, at: int, index: int, width: int) -> Divergence:
    one = step(left, at)
    other = step(right, at)
    gap = None
    # One side has no token here: its answer is the beginning of the other.
    hardness = Hardness.LENGTH
    if one is not None and other is not None:
        hardness, gap = compare_steps(one, other)
    excerpt = around(whole_text(left), whole_text(right), width)
    if not excerpt.left and not excerpt.right:
        # Tokens differ and the text does not: the same words, cut in another way. The tokens are
        # then all there is to show.
        excerpt = TextExcerpt(
            before=excerpt.before, left=_token_text(one), right=_token_text(other)
        )
    return Divergence(
        field=differing_part(left, right),
        hardness=hardness,
        unit=PositionUnit.TOKEN,
        position=at,
        choice=index,
        before=excerpt.before,
        left=excerpt.left,
        right=excerpt.right,
        gap=gap,
        ulp=ulp_before(left, right, at),
    )


def _token_text(token: Step | None) -> str:
    if token is None:
        return ""
    return token.token


def _at_character(left: Choice, right: Choice, index: int, width: int) -> Divergence:
    name = differing_part(left, right)
    one = parts_of(left).get(name, "")
    other = parts_of(right).get(name, "")
    excerpt = around(one, other, width)
    hardness = Hardness.UNKNOWN
    # The whole texts decide: a part that ends early is no shorter answer if another part follows.
    whole = whole_text(left)
    rest = whole_text(right)
    if whole.startswith(rest) or rest.startswith(whole):
        hardness = Hardness.LENGTH
    return Divergence(
        field=name,
        hardness=hardness,
        position=common(one, other),
        choice=index,
        before=excerpt.before,
        left=excerpt.left,
        right=excerpt.right,
    )


def _at_stop(
    left: Choice, right: Choice, tokens: int | None, index: int, width: int
) -> Divergence | None:
    """The same words and another reason to stop; `tokens` is their number, None if not reported."""
    text = whole_text(left)
    unit = PositionUnit.CHARACTER
    end = len(text)
    if tokens is not None:
        unit = PositionUnit.TOKEN
        end = tokens
    for key in _STOPS:
        one = left.get(key)
        other = right.get(key)
        if one == other:
            continue
        return Divergence(
            field=f"choices[{index}].{key}",
            hardness=Hardness.LENGTH,
            unit=unit,
            position=end,
            choice=index,
            before=encodable(text[-width:]),
            left=f"{key} {as_json(one)}",
            right=f"{key} {as_json(other)}",
        )
    return None


def _at_number(left: Choice, right: Choice, index: int, width: int) -> Divergence | None:
    if not differ(left.get("logprobs"), right.get("logprobs")):
        return None
    difference = number_difference(left, right)
    if difference is None:
        return None
    return Divergence(
        field="logprobs",
        hardness=Hardness.NUMBERS,
        unit=PositionUnit.TOKEN,
        position=difference.position,
        choice=index,
        before=encodable(difference.before[-width:]),
        left=encodable(difference.left[:width]),
        right=encodable(difference.right[:width]),
        gap=difference.gap,
        ulp=difference.ulp,
    )


def _at_field(path: str, left: object, right: object, width: int, choice: int = 0) -> Divergence:
    excerpt = around(as_json(left), as_json(right), width)
    return Divergence(
        field=path,
        hardness=Hardness.UNKNOWN,
        choice=choice,
        before=excerpt.before,
        left=excerpt.left,
        right=excerpt.right,
    )
