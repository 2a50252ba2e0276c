# SPDX-License-Identifier: Apache-2.0
"""Two answers to one request as lines: the texts, the numbers, and what may explain them. Pure."""

import json
from collections.abc import Iterator, Mapping
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


def alignment(pair: AnswerPair, at: Divergence, width: int) -> AnswerBlock:
    """Both texts below each other around their divergence, the difference in brackets."""
    names = names_of(pair)
    label = max(map(len, names))
    # The indent, the gap behind the label, the brackets and the sign of a cut take eight cells.
    room = max(10, (width - label - 8) // 2)
    left, right = sides(at, *names, before=room, after=room)
    where = place(at)
    how = manner(at)
    if how:
        where = f"{where}: {how}"
    lines = (
        (MarkedText(f"diverge at {where}"),),
        _side(left, Mark.LEFT, label, room),
        _side(right, Mark.RIGHT, label, room),
    )
    first, second = names
    title = f"{first} against {second}"
    if pair.first != pair.second:
        title += f", pass {pair.number}"
    return AnswerBlock(title, lines)


def _side(side: AnswerSide, mark: Mark, label: int, room: int) -> Line:
    own = clip(side.own, room)
    return (
        MarkedText(f"{side.name:>{label}}  ", Mark.STRONG),
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
    left = _column(row.left, column)
    right = _column(row.right, column)
    yield _token_line(row, left[0], right[0], column, here=here)
    if here:
        for one, other in zip_longest(left[1:], right[1:], fillvalue=""):
            line = f"         {pad(one, column)}{other}"
            yield (MarkedText(line, Mark.DIM),)


def _token_line(row: AlignedRow, left: str, right: str, column: int, *, here: bool) -> Line:
    sign = ">" if here else " "
    head = MarkedText(f"{sign} {row.at:>5}  ")
    one = pad(left, column)
    other = right.rstrip()
    ulp = ""
    if row.ulp is not None:
        other = pad(right, column)
        ulp = str(row.ulp)
    if here:
        tokens = (MarkedText(one, Mark.LEFT), MarkedText(other, Mark.RIGHT))
    else:
        tokens = (MarkedText(one), MarkedText(other))
    return (head, *tokens, MarkedText(ulp))


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
    # Six digits: enough to see a difference of one ULP of float32.
    number = "" if logprob is None else f"{logprob:.6f}"
    return pad(text, width) + number


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
        sign = " " if one == other else "≠"
        name = f"{clip(key, 22):<24}"
        # What a server reports may hold anything, escape sequences too.
        left_cell = pad(clip(visible(one), column - 2), column)
        right_cell = clip(visible(other), column - 2)
        lines.append((MarkedText(f"{sign} {name}{left_cell}{right_cell}"),))
    return AnswerBlock("Beside the answer", tuple(lines))


def _details(sample: Sample | None) -> dict[str, str]:
    """HTTP status, why it stopped, the usage, and how often it was tried."""
    if sample is None:
        return {"error": "was never sent"}
    choice = choice_of(sample.output or {}, 0)
    usage = sample.meta.get("usage")
    values: dict[str, Any] = {"status": sample.status, "error": sample.error}
    values |= _chosen(choice, _STOPS)
    if isinstance(usage, dict):
        values |= usage
    values |= _chosen(sample.meta, ("tries", "system_fingerprint"))
    details = {}
    for key, value in values.items():
        if value is not None:
            details[key] = value if isinstance(value, str) else json.dumps(value)
    return details


def _chosen(values: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: values.get(key) for key in keys}
