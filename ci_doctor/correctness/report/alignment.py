# SPDX-License-Identifier: Apache-2.0
"""Two answers side by side where they part: the text with its white space made visible, and the log-probabilities. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.divergence import Divergence, Unit, choice_of
from ci_doctor.correctness.report.hardness import Hardness, ulp_between
from ci_doctor.correctness.report.tokens import Alternative, Step, step

_SEEN = {"\n": "⏎", "\t": "⇥", "\r": "␍"}


class Row(Struct, frozen=True, kw_only=True):
    """The tokens of both sides at one place; `ulp` is how far their log-probabilities are apart, where they are one token."""

    at: int
    left: Step | None
    right: Step | None
    ulp: int | None = None


def rows_around(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    at: Divergence,
    *,
    before: int = 3,
    after: int = 2,
) -> tuple[Row, ...]:
    """The tokens around a divergence by token; none where no side tells log-probabilities there."""
    if at.unit is not Unit.TOKEN or at.position is None:
        return ()
    one, other = choice_of(left, at.choice), choice_of(right, at.choice)
    places = range(max(0, at.position - before), at.position + after + 1)
    rows = [_row(index, step(one, index), step(other, index)) for index in places]
    if not any(_told(row.left) or _told(row.right) for row in rows):
        return ()
    return tuple(row for row in rows if row.left or row.right)


def _row(at: int, left: Step | None, right: Step | None) -> Row:
    same = left is not None and right is not None and left.name == right.name
    return Row(
        at=at,
        left=left,
        right=right,
        ulp=ulp_between(left, right) if same and left and right else None,
    )


def _told(said: Step | None) -> bool:
    return said is not None and (said.logprob is not None or bool(said.top))


def ranked(said: Step | None, most: int) -> tuple[Alternative, ...]:
    """A step's own token first, then its best alternatives; one without a number is left out."""
    if said is None:
        return ()
    own = (
        (Alternative(token=said.token, logprob=said.logprob, bytes=said.bytes),)
        if said.logprob is not None
        else ()
    )
    return (*own, *(each for each in said.top if each.name != said.name))[:most]


def place(at: Divergence) -> str:
    """Where two answers part: `token 37 of content`, `character 4 of text`, `completion_tokens`."""
    if at.position is None:
        return at.field
    unit = f"{at.unit} {at.position}"
    if at.hardness is Hardness.LENGTH and at.field.startswith("choices["):
        return f"{unit}, the end ({at.field.rpartition('.')[2]})"
    which = f" of choice {at.choice}" if at.choice else ""
    return f"{unit} of {at.field}{which}"


def manner(at: Divergence) -> str:
    """How two answers part: `near-tie, 0.031 nat apart`; empty where nothing tells it."""
    if at.hardness is Hardness.UNKNOWN:
        return ""
    if at.hardness is Hardness.NUMBERS:
        return "the same words, other numbers" + (
            "" if at.gap is None else f", at most {at.gap:.2g} nat apart"
        )
    return str(at.hardness) if at.gap is None else f"{at.hardness}, {at.gap:.2g} nat apart"


def visible(text: str, *, spaces: bool = False) -> str:
    """`text` on one line that hides nothing: line ends and tabs as signs, what cannot be printed as an escape.

    With `spaces` each space is a dot.
    """
    return "".join(_visible(character, spaces=spaces) for character in text)


def _visible(character: str, *, spaces: bool) -> str:
    if character == " ":
        return "·" if spaces else " "
    if character in _SEEN:
        return _SEEN[character]
    return (
        character
        if character.isprintable()
        else character.encode("unicode_escape", "backslashreplace").decode()
    )


class Side(Struct, frozen=True, kw_only=True):
    """One answer on one line: what both say, then what only this one says."""

    name: str
    before: str
    own: str


def sides(
    at: Divergence, first: str, second: str, *, before: int = 30, after: int = 30
) -> tuple[Side, Side]:
    """Both answers, `before` and `after` characters of each, the white space of what differs made visible."""
    shared = visible(at.before[-before:] if before else "")
    if len(at.before) >= before:
        shared = f"…{shared}"
    left, right = (visible(text[:after], spaces=True) for text in (at.left, at.right))
    if at.hardness is Hardness.MISSING:
        left, right = left or "no answer", right or "no answer"
    return Side(name=first, before=shared, own=left), Side(name=second, before=shared, own=right)


def side_lines(pair: tuple[Side, Side]) -> Iterator[str]:
    """Both sides below each other, what differs in brackets."""
    width = max(len(side.name) for side in pair)
    for side in pair:
        yield f"  {side.name:>{width}}  {side.before}[{side.own}]"
