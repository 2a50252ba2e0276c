# SPDX-License-Identifier: Apache-2.0
"""Where two canonical outputs diverge, and how hard. Pure.

By token if both sides report their tokens, else by character; by item if the answers are vectors, scores or ranks.
"""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.report.tokens import (
    Choice,
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
from ci_doctor.model.facts.correctness import Divergence, Hardness, NumbersApart, PositionUnit

# --- what a person reads of a choice, part by part, and the text around a difference ---

_MESSAGE_PARTS = ("reasoning_content", "reasoning", "content", "refusal")


# The text that both sides share, then what follows in each.
Excerpt = tuple[str, str, str]


def around(left: str, right: str, width: int) -> Excerpt:
    """The first difference of two texts, with `width` characters before and after."""
    at = common(left, right)
    end = at + width
    before = left[max(0, at - width) : at]
    return encodable(before), encodable(left[at:end]), encodable(right[at:end])


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
        values.update({name: message.get(name) for name in _MESSAGE_PARTS})
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            values[f"tool_calls[{index}].name"] = call.get("name")
            values[f"tool_calls[{index}].arguments"] = call.get("arguments")
    return {
        name: value if isinstance(value, str) else as_json(value)
        for name, value in values.items()
        if value is not None
    }


def whole_text(choice: Choice) -> str:
    """All parts of a choice, in lines."""
    return "\n".join(parts_of(choice).values())


def differing_part(left: Choice, right: Choice) -> str:
    """The name of the first part in which two choices differ, or else of the first part."""
    one, other = parts_of(left), parts_of(right)
    names = list(one | other)
    for name in names:
        if one.get(name) != other.get(name):
            return name
    # Equal texts and other tokens: the same words, cut into tokens in another way.
    return names[0] if names else "token_ids"


# --- where two JSON values differ, as a path ---

_Position = tuple[str, Any, Any]


def first_field(left: Any, right: Any, path: str = "") -> _Position:
    """The path of the first value in which two JSON values differ, and both values.

    `path` is that of the two values themselves. Without one, the path of a value that is neither an
    object nor a list is `output`.
    """
    where, one, other = path, left, right
    # A loop and not recursion: JSON may be nested deeper than Python's stack.
    while (below := _below(where, one, other)) is not None:
        where, one, other = below
    return where or "output", one, other


def _below(path: str, left: Any, right: Any) -> _Position | None:
    """The first difference one level below; None if these two values are the difference."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        # In alphabetical order; an absent one counts as null.
        for key in sorted({*left, *right}):
            one, other = left.get(key), right.get(key)
            if differ(one, other):
                return f"{path}.{key}" if path else key, one, other
        return None
    if not isinstance(left, list) or not isinstance(right, list):
        return None
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
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


def _in_items(left: Mapping[str, Any], right: Mapping[str, Any]) -> Divergence | None:
    """The first vector, score, label or rank that differs; None if every one is the same."""
    noun = _NUMBERS.get(left.get("kind", ""), "numbers")
    ours = items_of(left) or []
    theirs = items_of(right) or []
    is_single = len(ours) == len(theirs) == 1
    for index, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one is None or other is None:
            return Divergence(field=f"items[{index}]", choice=index, hardness=Hardness.MISSING)
        # Nearly every request has one text: its number would only be in the way.
        number = "" if is_single else f" {index}"
        for key, word in _WORDS.items():
            if one.get(key) != other.get(key):
                return Divergence(
                    field=f"{word}{number}",
                    choice=index,
                    left=_item_text(one, key),
                    right=_item_text(other, key),
                )
        difference = _of_numbers(item_numbers(one), item_numbers(other), f"{noun}{number}")
        if difference is not None:
            return replace(difference, choice=index)
    return None


def _of_numbers(ours: Sequence[float], theirs: Sequence[float], name: str) -> Divergence | None:
    if len(ours) != len(theirs):
        left, right = f"{len(ours):,} numbers", f"{len(theirs):,} numbers"
        return Divergence(field=name, hardness=Hardness.LENGTH, left=left, right=right)
    apart = numbers_apart(ours, theirs)
    if apart is None:
        return None
    before = ""
    if apart.count > 1:
        size = f"of {apart.count:,}"
        name = f"{name} ({size} numbers)" if name[-1].isdigit() else f"{name} {size}"
        before = f"number {apart.first}: "
    return Divergence(
        field=name,
        hardness=Hardness.NUMBERS,
        before=before,
        # Nine digits tell any two float32 apart.
        left=f"{ours[apart.first]:.9g}",
        right=f"{theirs[apart.first]:.9g}",
        ulp=apart.ulp,
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
    places = [
        place
        for place, (one, other) in enumerate(zip(left, right, strict=True))
        # 0.0 and -0.0 are equal to Python, and two different answers.
        if one != other or math.copysign(1.0, one) != math.copysign(1.0, other)
    ]
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


def first_divergence(
    left: Mapping[str, Any], right: Mapping[str, Any], width: int = 40
) -> Divergence:
    """The first position at which two outputs differ, with `width` characters around it.

    The first choice that differs counts: its tokens, then its text, then why it stopped, then its
    log-probabilities.
    """
    difference = None
    if items_of(left) is not None and items_of(right) is not None:
        difference = _in_items(left, right)
    else:
        for index, (one, other) in enumerate(zip_longest(_choices(left), _choices(right))):
            if one is None or other is None:
                return Divergence(
                    field=f"choices[{index}]", hardness=Hardness.MISSING, choice=index
                )
            if differ(one, other):
                difference = replace(_in_choice(one, other, index, width), choice=index)
                break
        ours, theirs = left.get("completion_tokens"), right.get("completion_tokens")
        # All choices are the same, and the server counts otherwise: tokens that it does not report.
        if difference is None and differ(ours, theirs):
            return Divergence(
                field="completion_tokens",
                hardness=Hardness.LENGTH,
                left=as_json(ours),
                right=as_json(theirs),
            )
    if difference is None:
        return _at_field(*first_field(left, right), width)
    return replace(
        difference,
        before=encodable(difference.before[-width:]),
        left=encodable(difference.left[:width]),
        right=encodable(difference.right[:width]),
    )


def no_answer(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, width: int = 40
) -> Divergence:
    """At least one side has no answer; the other's is shown from its beginning."""
    one, other = (
        "" if output is None else encodable(text_of(dict(output))[:width])
        for output in (left, right)
    )
    return Divergence(field="answer", hardness=Hardness.MISSING, left=one, right=other)


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
    end, unit = len(whole_text(left)), PositionUnit.CHARACTER
    tokens = token_lists(left, right)
    if tokens is not None:
        ours, theirs = tokens
        if ours != theirs:
            return _at_token(left, right, common(ours, theirs), width)
        end, unit = len(ours), PositionUnit.TOKEN
    if parts_of(left) != parts_of(right):
        return _at_character(left, right, width)
    # The same words and another reason to stop.
    for key in _STOPS:
        if left.get(key) != right.get(key):
            return Divergence(
                field=f"choices[{index}].{key}",
                hardness=Hardness.LENGTH,
                unit=unit,
                position=end,
                before=whole_text(left)[-width:],
                left=f"{key} {as_json(left.get(key))}",
                right=f"{key} {as_json(right.get(key))}",
            )
    difference = None
    if differ(left.get("logprobs"), right.get("logprobs")):
        difference = number_difference(left, right)
    # What remains is no text, no token, no reason to stop and no number that can be named.
    return difference or _at_field(*first_field(left, right, f"choices[{index}]"), width)


def _at_token(left: Choice, right: Choice, at: int, width: int) -> Divergence:
    one, other = step(left, at), step(right, at)
    gap = None
    # One side has no token here: its answer is the beginning of the other.
    hardness = Hardness.LENGTH
    if one is not None and other is not None:
        hardness, gap = compare_steps(one, other)
    before, ours, theirs = around(whole_text(left), whole_text(right), width)
    if not ours and not theirs:
        # Tokens differ and the text does not: the same words, cut in another way. The tokens are
        # then all there is to show.
        ours, theirs = one.token if one else "", other.token if other else ""
    return Divergence(
        field=differing_part(left, right),
        hardness=hardness,
        unit=PositionUnit.TOKEN,
        position=at,
        before=before,
        left=ours,
        right=theirs,
        gap=gap,
        ulp=ulp_before(left, right, at),
    )


def _at_character(left: Choice, right: Choice, width: int) -> Divergence:
    name = differing_part(left, right)
    one, other = parts_of(left).get(name, ""), parts_of(right).get(name, "")
    before, ours, theirs = around(one, other, width)
    # The whole texts decide: a part that ends early is no shorter answer if another part follows.
    whole, rest = whole_text(left), whole_text(right)
    is_beginning = whole.startswith(rest) or rest.startswith(whole)
    return Divergence(
        field=name,
        hardness=Hardness.LENGTH if is_beginning else Hardness.UNKNOWN,
        position=common(one, other),
        before=before,
        left=ours,
        right=theirs,
    )


def _at_field(path: str, left: object, right: object, width: int) -> Divergence:
    before, ours, theirs = around(as_json(left), as_json(right), width)
    return Divergence(field=path, before=before, left=ours, right=theirs)
