# SPDX-License-Identifier: Apache-2.0
"""Two answers side by side at their divergence: visible text, and log-probabilities. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.divergence import Divergence, PositionUnit, choice_of
from ci_doctor.correctness.report.hardness import Hardness, ulp_between
from ci_doctor.correctness.report.tokens import Alternative, Step, step

_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}


class AlignedRow(Struct, frozen=True, kw_only=True):
    """The tokens of both sides at one position.

    `ulp` is the distance of their log-probabilities, None if they are different tokens.
    """

    at: int
    left: Step | None
    right: Step | None
    ulp: int | None = None

    @property
    def has_numbers(self) -> bool:
        """Whether a side reports log-probabilities here."""
        return _has_numbers(self.left) or _has_numbers(self.right)


def rows_around(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    at: Divergence,
    *,
    before: int = 3,
    after: int = 2,
) -> tuple[AlignedRow, ...]:
    """The tokens around a divergence by token; none if no side reports log-probabilities there."""
    if at.unit is not PositionUnit.TOKEN or at.position is None:
        return ()
    one = choice_of(left, at.choice)
    other = choice_of(right, at.choice)
    first = max(0, at.position - before)
    last = at.position + after
    rows = []
    for index in range(first, last + 1):
        row = _row(index, step(one, index), step(other, index))
        # Past the end of both answers there is nothing to show.
        if row.left or row.right:
            rows.append(row)
    if not any(row.has_numbers for row in rows):
        return ()
    return tuple(rows)


def _row(at: int, left: Step | None, right: Step | None) -> AlignedRow:
    # Numbers of two different tokens measure different things: their distance says nothing.
    if left is None or right is None or left.name != right.name:
        return AlignedRow(at=at, left=left, right=right)
    ulp = ulp_between(left, right)
    return AlignedRow(at=at, left=left, right=right, ulp=ulp)


def _has_numbers(token: Step | None) -> bool:
    if token is None:
        return False
    return token.logprob is not None or bool(token.top)


def ranked(token: Step | None, most: int) -> tuple[Alternative, ...]:
    """The generated token, then its best alternatives; `most` in all, each with its number."""
    if token is None:
        return ()
    ranking = []
    if token.logprob is not None:
        own = Alternative(token=token.token, logprob=token.logprob, bytes=token.bytes)
        ranking.append(own)
    # The server lists the generated token among the alternatives, too.
    ranking.extend(each for each in token.top if each.name != token.name)
    return tuple(ranking[:most])


def place(at: Divergence) -> str:
    """Where two answers diverge: `token 37 of content`, `character 4 of text`, `logprobs`."""
    if at.position is None:
        return at.field
    position = f"{at.unit} {at.position}"
    # The field of two reasons to stop is a path: `choices[0].finish_reason`.
    if at.hardness is Hardness.LENGTH and at.field.startswith("choices["):
        _, _, key = at.field.rpartition(".")
        return f"{position}, the end ({key})"
    part = f"{position} of {at.field}"
    # Nearly every request has one choice: its number would only be in the way.
    if at.choice == 0:
        return part
    return f"{part} of choice {at.choice}"


def manner(at: Divergence) -> str:
    """How two answers diverge: `near-tie, 0.031 nat apart`; empty if unknown."""
    if at.apart is not None:
        return at.apart.words
    if at.hardness is Hardness.UNKNOWN:
        return ""
    words = str(at.hardness)
    if at.hardness is Hardness.NUMBERS:
        words = "the same words, other numbers"
    if at.gap is None:
        return words
    gap = f"{at.gap:.2g} nat apart"
    # There the gap is the widest of several alternatives, and not that of two tokens. Later tokens
    # may lie further apart: the table of levels has the greatest distance of all.
    if at.hardness is Hardness.NUMBERS:
        gap = f"at most {gap} at this token"
    return f"{words}, {gap}"


def visible(text: str, *, spaces: bool = False) -> str:
    """`text` on one line, every character visible.

    Line ends and tabs become signs, unprintable characters escapes. With `spaces` each space
    becomes a dot.
    """
    return "".join(_visible(character, spaces=spaces) for character in text)


def _visible(character: str, *, spaces: bool) -> str:
    if character == " " and spaces:
        return "·"
    if character in _SIGNS:
        return _SIGNS[character]
    if character.isprintable():
        return character
    # Escapes also disarm an answer: an ESC or a bidirectional override would act on the terminal.
    return character.encode("unicode_escape", "backslashreplace").decode()


class AnswerSide(Struct, frozen=True, kw_only=True):
    """One answer on one line: `before` is common to both sides, `own` only this one's."""

    name: str
    before: str
    own: str


def sides(
    at: Divergence, first: str, second: str, *, before: int = 30, after: int = 30
) -> tuple[AnswerSide, AnswerSide]:
    """Both answers, `before` and `after` characters of each.

    The white space of the differing part is made visible.
    """
    # `[-0:]` would be the whole text.
    beginning = len(at.before) - before
    shared = visible(at.before[max(0, beginning) :])
    if beginning >= 0:
        shared = f"…{shared}"
    left = visible(at.left[:after], spaces=True)
    right = visible(at.right[:after], spaces=True)
    if at.hardness is Hardness.MISSING:
        left = left or "no answer"
        right = right or "no answer"
    return (
        AnswerSide(name=first, before=shared, own=left),
        AnswerSide(name=second, before=shared, own=right),
    )


def side_lines(pair: tuple[AnswerSide, AnswerSide]) -> Iterator[str]:
    """Both sides below each other, the difference in brackets."""
    left, right = pair
    width = max(len(left.name), len(right.name))
    for side in pair:
        name = f"{side.name:>{width}}"
        yield f"  {name}  {side.before}[{side.own}]"
