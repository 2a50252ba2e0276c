# SPDX-License-Identifier: Apache-2.0
"""Where two canonical outputs diverge, and how hard. Pure.

By token if both sides report their tokens, else by character.
"""

from collections.abc import Mapping
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.excerpts import (
    TextExcerpt,
    around,
    as_json,
    differing_part,
    encodable,
    parts_of,
    whole_text,
)
from ci_doctor.correctness.report.fields import differ, first_field
from ci_doctor.correctness.report.hardness import Hardness, compare_steps
from ci_doctor.correctness.report.item_difference import item_difference
from ci_doctor.correctness.report.numbers import number_difference, ulp_before
from ci_doctor.correctness.report.tokens import Choice, Step, common, step, token_lists
from ci_doctor.load.answer_items import items_of
from ci_doctor.load.canonical import text_of
from ci_doctor.model.facts.answers import NumbersApart

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
        excerpt = TextExcerpt(before=excerpt.before, left=_text(one), right=_text(other))
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


def _text(token: Step | None) -> str:
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
