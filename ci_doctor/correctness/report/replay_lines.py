# SPDX-License-Identifier: Apache-2.0
"""Two answers to one request as lines: the texts, the numbers, and what may explain them. Pure."""

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.alignment import (
    AlignedRow,
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
    room = max(10, (width - label - 8) // 2)
    where = [place(at)]
    if how := manner(at):
        where.append(how)
    lines: list[Line] = [(MarkedText(f"diverge at {': '.join(where)}"),)]
    marks = (Mark.LEFT, Mark.RIGHT)
    for side, mark in zip(sides(at, *names, before=room, after=room), marks, strict=True):
        line = (
            MarkedText(f"{side.name:>{label}}  ", Mark.STRONG),
            MarkedText(side.before, Mark.DIM),
            MarkedText(f"[{clip(side.own, room)}]", mark),
        )
        lines.append(line)
    number = "" if pair.first == pair.second else f", pass {pair.number}"
    return AnswerBlock(f"{names[0]} against {names[1]}{number}", tuple(lines))


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
    names = names_of(pair)
    column = max(20, (width - 18) // 2)
    header = f"     at  {names[0]:<{column}}{names[1]:<{column}}ULP"
    lines: list[Line] = [(MarkedText(header, Mark.DIM),)]
    for row in rows:
        lines.extend(_number_lines(row, column, here=row.at == at.position))
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
    one = MarkedText(pad(left, column), Mark.LEFT if here else Mark.PLAIN)
    mark = Mark.RIGHT if here else Mark.PLAIN
    if row.ulp is None:
        # Nothing follows, so nothing is padded.
        return head, one, MarkedText(right.rstrip(), mark)
    return head, one, MarkedText(pad(right, column), mark), MarkedText(str(row.ulp))


def _column(token: Step | None, column: int) -> list[str]:
    """One side of a row: the token and its alternatives, at least one line."""
    if token is None:
        return [""]
    ranking = ranked(token, _ALTERNATIVES)
    cells = [_token(each.token, each.logprob, column) for each in ranking]
    return cells or [_token(token.token, None, column)]


def _token(token: str, logprob: float | None, column: int) -> str:
    text = clip(visible(token, spaces=True), column - _NUMBER_CELLS - 1)
    number = "" if logprob is None else f"{logprob:.6f}"
    return pad(text, column - _NUMBER_CELLS) + number


def beside(recorded: RecordedRequest, pair: AnswerPair, width: int) -> AnswerBlock:
    """What was not compared and may explain a difference; `≠` marks what differs."""
    names = names_of(pair)
    column = max(12, (width - 30) // 2)
    left, right = samples_of(recorded, pair)
    ours = _details(left)
    theirs = _details(right)
    lines: list[Line] = [(MarkedText(f"{'':<26}{names[0]:<{column}}{names[1]}", Mark.DIM),)]
    for key in ours | theirs:
        sign = " " if ours.get(key) == theirs.get(key) else "≠"
        one = clip(visible(ours.get(key, "-")), column - 2)
        other = clip(visible(theirs.get(key, "-")), column - 2)
        line = f"{sign} {clip(key, 22):<24}{pad(one, column)}{other}"
        lines.append((MarkedText(line),))
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
