# SPDX-License-Identifier: Apache-2.0
"""Where two canonical outputs part, and how hard: by token where both sides tell theirs, else by character. Pure."""

import json
from collections.abc import Mapping
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.fields import differ, first_field
from ci_doctor.correctness.report.hardness import Hardness, compare_steps, ulp_between
from ci_doctor.correctness.report.tokens import Choice, chat_entries, common, step, token_lists
from ci_doctor.load.canonical import text_of

_BEFORE = 8  # tokens before the divergence that are searched for a difference of log-probabilities
_STOPS = ("finish_reason", "stop_reason", "matched_stop")


class Unit(StrEnum):
    """What a position counts, from 0."""

    TOKEN = "token"  # noqa: S105
    CHARACTER = "character"


class Divergence(Struct, frozen=True, kw_only=True):
    """Where two outputs part: in `field` of choice number `choice` at `position`, None where no place can be named.

    `field` is `text`, `content` …, `logprobs` where only numbers differ, or a path (`choices[0].finish_reason`).
    `before` is the text that both share, `left` and `right` what follows in each, all three cut short. `gap` is how far
    apart both sides' tokens are, in nat; where a token is not listed, how far at least. `ulp` is the greatest distance
    of the log-probabilities of the last tokens before, in units in the last place of float32.
    """

    field: str
    hardness: Hardness
    unit: Unit = Unit.CHARACTER
    position: int | None = None
    choice: int = 0
    before: str = ""
    left: str = ""
    right: str = ""
    gap: float | None = None
    ulp: int | None = None


class _Excerpt(Struct, frozen=True, kw_only=True):
    before: str
    left: str
    right: str


def first_divergence(
    left: Mapping[str, Any], right: Mapping[str, Any], width: int = 40
) -> Divergence:
    """The first place where two outputs differ, with `width` characters around it.

    The first choice that differs counts: its tokens, then its text, then why it stopped, then its log-probabilities.
    """
    pairs = zip_longest(_choices(left), _choices(right))
    for index, (one, other) in enumerate(pairs):
        if one is None or other is None:
            return Divergence(field=f"choices[{index}]", hardness=Hardness.MISSING, choice=index)
        if (found := _in_choice(one, other, index, width)) is not None:
            return found
    counts = left.get("completion_tokens"), right.get("completion_tokens")
    if differ(*counts):
        return Divergence(
            field="completion_tokens",
            hardness=Hardness.LENGTH,
            left=_json(counts[0]),
            right=_json(counts[1]),
        )
    path, one, other = first_field(left, right)
    return _field(path, one, other, width)


def no_answer(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, width: int = 40
) -> Divergence:
    """At least one side has no answer at all; what the other says is shown from its beginning."""
    said = [
        _encodable(text_of(dict(each))[:width]) if each is not None else ""
        for each in (left, right)
    ]
    return Divergence(field="answer", hardness=Hardness.MISSING, left=said[0], right=said[1])


def choice_of(output: Mapping[str, Any], index: int) -> Choice:
    """The choice number `index` of an output; empty where it has none."""
    choices = _choices(output)
    return choices[index] if index < len(choices) else {}


def _choices(output: Mapping[str, Any]) -> list[Choice]:
    choices = output.get("choices")
    return (
        [choice for choice in choices if isinstance(choice, dict)]
        if isinstance(choices, list)
        else []
    )


def _in_choice(left: Choice, right: Choice, index: int, width: int) -> Divergence | None:
    """The first difference of two choices, or None where they are the same."""
    if not differ(left, right):
        return None
    tokens = token_lists(left, right)
    if tokens is not None and tokens[0] != tokens[1]:
        return _at_token(left, right, common(*tokens), index, width)
    if _spoken(left) != _spoken(right):
        return _at_character(left, right, index, width)
    for key in _STOPS:
        if left.get(key) != right.get(key):
            return Divergence(
                field=f"choices[{index}].{key}",
                hardness=Hardness.LENGTH,
                unit=Unit.CHARACTER if tokens is None else Unit.TOKEN,
                position=len(_text(left)) if tokens is None else len(tokens[0]),
                choice=index,
                before=_encodable(_text(left)[-width:]),
                left=f"{key} {_json(left.get(key))}",
                right=f"{key} {_json(right.get(key))}",
            )
    if differ(left.get("logprobs"), right.get("logprobs")) and (
        found := _in_numbers(left, right, index, width)
    ):
        return found
    path, one, other = first_field(left, right, f"choices[{index}]")
    return _field(path, one, other, width, index)


def _at_token(left: Choice, right: Choice, at: int, index: int, width: int) -> Divergence:
    one, other = step(left, at), step(right, at)
    if one is None or other is None:
        hardness, gap = Hardness.LENGTH, None
    else:
        hardness, gap = compare_steps(one, other)
    around = _around(_text(left), _text(right), width)
    if not around.left and not around.right:
        # Tokens that differ and text that does not: the same words, cut otherwise.
        around = _Excerpt(
            before=around.before, left=one.token if one else "", right=other.token if other else ""
        )
    return Divergence(
        field=_field_name(left, right),
        hardness=hardness,
        unit=Unit.TOKEN,
        position=at,
        choice=index,
        before=around.before,
        left=around.left,
        right=around.right,
        gap=gap,
        ulp=_ulp_before(left, right, at),
    )


def _at_character(left: Choice, right: Choice, index: int, width: int) -> Divergence:
    name = _field_name(left, right)
    one, other = dict(_spoken(left)).get(name, ""), dict(_spoken(right)).get(name, "")
    whole, rest = _text(left), _text(right)
    around = _around(one, other, width)
    shorter = whole.startswith(rest) or rest.startswith(whole)
    return Divergence(
        field=name,
        hardness=Hardness.LENGTH if shorter else Hardness.UNKNOWN,
        position=common(one, other),
        choice=index,
        before=around.before,
        left=around.left,
        right=around.right,
    )


def _in_numbers(left: Choice, right: Choice, index: int, width: int) -> Divergence | None:
    """The first token whose log-probabilities differ, all tokens being the same; None where it cannot be told which."""
    entries = chat_entries(left), chat_entries(right)
    at = common(*entries) if all(entries) else _first_number(left, right)
    one, other = (step(left, at), step(right, at)) if at is not None else (None, None)
    if at is None or one is None or other is None:
        return None
    gaps = (
        [abs(one.logprob - other.logprob)]
        if one.logprob is not None and other.logprob is not None
        else []
    )
    told = {each.name: each.logprob for each in other.top}
    gaps += [abs(each.logprob - told[each.name]) for each in one.top if each.name in told]
    if not gaps:
        return None
    text = "".join(
        each.token for number in range(max(0, at - 20), at) if (each := step(left, number))
    )
    return Divergence(
        field="logprobs",
        hardness=Hardness.NUMBERS,
        unit=Unit.TOKEN,
        position=at,
        choice=index,
        before=_encodable(text[-width:]),
        left=_encodable(one.token[:width]),
        right=_encodable(other.token[:width]),
        gap=max(gaps),
        ulp=ulp_between(one, other),
    )


def _first_number(left: Choice, right: Choice) -> int | None:
    """The first place at which a completion's parallel lists of log-probabilities differ."""
    one, other = left.get("logprobs"), right.get("logprobs")
    if not isinstance(one, dict) or not isinstance(other, dict):
        return None
    places = []
    for key in ("token_logprobs", "top_logprobs"):
        lists = one.get(key), other.get(key)
        if isinstance(lists[0], list) and isinstance(lists[1], list) and lists[0] != lists[1]:
            places.append(common(lists[0], lists[1]))
    return min(places, default=None)


def _ulp_before(left: Choice, right: Choice, at: int) -> int | None:
    distances = [
        distance
        for index in range(max(0, at - _BEFORE), at)
        if (one := step(left, index))
        and (other := step(right, index))
        and (distance := ulp_between(one, other)) is not None
    ]
    return max(distances, default=None)


def _spoken(choice: Choice) -> list[tuple[str, str]]:
    """What a person reads of a choice, part by part."""
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    parts = [("text", choice.get("text"))]
    parts += [
        (key, message.get(key)) for key in ("reasoning_content", "reasoning", "content", "refusal")
    ]
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        parts += [(f"tool_calls[{index}].{key}", call.get(key)) for key in ("name", "arguments")]
    return [
        (name, value if isinstance(value, str) else _json(value))
        for name, value in parts
        if value is not None
    ]


def _text(choice: Choice) -> str:
    return "\n".join(value for _, value in _spoken(choice))


def _field_name(left: Choice, right: Choice) -> str:
    """The first part in which two choices differ, or the first there is."""
    one, other = dict(_spoken(left)), dict(_spoken(right))
    names = [*one, *(name for name in other if name not in one)]
    return next(
        (name for name in names if one.get(name) != other.get(name)), next(iter(names), "token_ids")
    )


def _around(left: str, right: str, width: int) -> _Excerpt:
    at = common(left, right)
    return _Excerpt(
        before=_encodable(left[max(0, at - width) : at]),
        left=_encodable(left[at : at + width]),
        right=_encodable(right[at : at + width]),
    )


def _encodable(text: str) -> str:
    """A model may say a lone surrogate, which no file can hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _field(path: str, left: object, right: object, width: int, choice: int = 0) -> Divergence:
    around = _around(_json(left), _json(right), width)
    return Divergence(
        field=path,
        hardness=Hardness.UNKNOWN,
        choice=choice,
        before=around.before,
        left=around.left,
        right=around.right,
    )


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
