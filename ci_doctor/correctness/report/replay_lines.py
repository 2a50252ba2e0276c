# SPDX-License-Identifier: Apache-2.0
"""Two answers to one request as lines: the texts, the numbers, and what may explain them. Pure."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.alignment import (
    AlignedRow,
    AnswerSide,
    manner,
    place,
    ranked,
    rows_around,
    sides,
    visible,
)
from ci_doctor.correctness.report.divergence import Divergence, choice_of
from ci_doctor.correctness.report.marked_text import AnswerBlock, Line, Mark, MarkedText
from ci_doctor.correctness.report.pairs import AnswerPair
from ci_doctor.correctness.report.recorded import RecordedRequest
from ci_doctor.correctness.report.replay_pair import names_of, outputs_of, samples_of
from ci_doctor.correctness.report.tokens import Step
from ci_doctor.render.layout import clip, pad

_ALTERNATIVES = 5
_NUMBER_CELLS = 13
_STOPS = ("finish_reason", "stop_reason", "matched_stop")
_OF_META = ("tries", "system_fingerprint")


def alignment(pair: AnswerPair, at: Divergence, width: int) -> AnswerBlock:
    """Both texts below each other around their divergence, the difference in brackets."""
    names = names_of(pair)
    first, second = names
    label = max(len(first), len(second))
    # The indent, the gap behind the label, the brackets and the sign of a cut take eight cells.
    room = max(10, (width - label - 8) // 2)
    left, right = sides(at, *names, before=room, after=room)
    where = place(at)
    how = manner(at)
    if how:
        where = f"{where}: {how}"
    title = f"{first} against {second}"
    # Two passes of one start carry their numbers in the names of the sides.
    if pair.first != pair.second:
        title = f"{title}, pass {pair.number}"
    lines = (
        (MarkedText(f"diverge at {where}"),),
        _side(left, Mark.LEFT, label, room),
        _side(right, Mark.RIGHT, label, room),
    )
    return AnswerBlock(title, lines)


def _side(side: AnswerSide, mark: Mark, label: int, room: int) -> Line:
    # `room` counted characters of the answer; made visible, one of them may take several cells.
    own = clip(side.own, room)
    name = f"{side.name:>{label}}  "
    return (
        MarkedText(name, Mark.STRONG),
        MarkedText(side.before, Mark.DIM),
        MarkedText(f"[{own}]", mark),
    )


def numbers(
    recorded: RecordedRequest, pair: AnswerPair, at: Divergence, width: int
) -> AnswerBlock | None:
    """The log-probabilities around the divergence; None if none are reported."""
    left, right = outputs_of(recorded, pair)
    if left is None or right is None:
        return None
    rows = rows_around(left, right, at)
    if not rows:
        return None
    # The rest of the line holds the sign, the position and the distance in ULP.
    column = max(20, (width - 18) // 2)
    first, second = names_of(pair)
    header = f"     at  {first:<{column}}{second:<{column}}ULP"
    lines: list[Line] = [(MarkedText(header, Mark.DIM),)]
    for row in rows:
        here = row.at == at.position
        lines.extend(_number_lines(row, column, here=here))
    return AnswerBlock("Log-probabilities", tuple(lines))


def _number_lines(row: AlignedRow, column: int, *, here: bool) -> Iterator[Line]:
    """The token of each side; at the divergence the best alternatives, too."""
    left, *left_more = _column(row.left, column)
    right, *right_more = _column(row.right, column)
    yield _token_line(row, left, right, column, here=here)
    if not here:
        return
    for one, other in zip_longest(left_more, right_more, fillvalue=""):
        cell = pad(one, column)
        yield (MarkedText(f"         {cell}{other}", Mark.DIM),)


def _token_line(row: AlignedRow, left: str, right: str, column: int, *, here: bool) -> Line:
    sign = " "
    left_mark = right_mark = Mark.PLAIN
    if here:
        sign = ">"
        left_mark = Mark.LEFT
        right_mark = Mark.RIGHT
    # Without a distance nothing follows the second token: its padding would end the line.
    ulp = ""
    other = right.rstrip()
    if row.ulp is not None:
        ulp = str(row.ulp)
        other = pad(right, column)
    return (
        MarkedText(f"{sign} {row.at:>5}  "),
        MarkedText(pad(left, column), left_mark),
        MarkedText(other, right_mark),
        MarkedText(ulp),
    )


def _column(token: Step | None, column: int) -> list[str]:
    """One side of a row: the token and its alternatives, at least one line."""
    if token is None:
        return [""]
    cells = []
    for each in ranked(token, _ALTERNATIVES):
        cell = _token(each.token, each.logprob, column)
        cells.append(cell)
    return cells or [_token(token.token, None, column)]


def _token(token: str, logprob: float | None, column: int) -> str:
    width = column - _NUMBER_CELLS
    text = clip(visible(token, spaces=True), width - 1)
    cell = pad(text, width)
    if logprob is None:
        return cell
    # Six digits: enough to see a difference of one ULP of float32.
    return f"{cell}{logprob:.6f}"


def beside(recorded: RecordedRequest, pair: AnswerPair, width: int) -> AnswerBlock:
    """What was not compared and may explain a difference; `≠` marks what differs."""
    first, second = names_of(pair)
    column = max(12, (width - 30) // 2)
    left, right = samples_of(recorded, pair)
    ours = _details(left)
    theirs = _details(right)
    header = f"{'':<26}{first:<{column}}{second}"
    lines: list[Line] = [(MarkedText(header, Mark.DIM),)]
    for key in ours | theirs:
        one = ours.get(key, "-")
        other = theirs.get(key, "-")
        line = _detail_line(key, one, other, column)
        lines.append((MarkedText(line),))
    return AnswerBlock("Beside the answer", tuple(lines))


def _detail_line(key: str, one: str, other: str, column: int) -> str:
    sign = "≠"
    if one == other:
        sign = " "
    name = clip(key, 22)
    # What a server reports may hold anything, escape sequences too.
    left = clip(visible(one), column - 2)
    right = clip(visible(other), column - 2)
    return f"{sign} {name:<24}{pad(left, column)}{right}"


def _details(sample: Sample | None) -> dict[str, str]:
    """HTTP status, why it stopped, the usage, and how often it was tried."""
    if sample is None:
        return {"error": "was never sent"}
    details = {}
    for key, value in _reported(sample).items():
        if isinstance(value, str):
            details[key] = value
        elif value is not None:
            details[key] = json.dumps(value)
    return details


def _reported(sample: Sample) -> dict[str, Any]:
    """What stands beside an answer, by name; None for what the server does not report."""
    values: dict[str, Any] = {"status": sample.status, "error": sample.error}
    choice = choice_of(sample.output or {}, 0)
    for key in _STOPS:
        values[key] = choice.get(key)
    # A server reports its usage in any form. Only an object has names to show.
    usage = sample.meta.get("usage")
    if isinstance(usage, dict):
        values.update(usage)
    for key in _OF_META:
        values[key] = sample.meta.get(key)
    return values
