# SPDX-License-Identifier: Apache-2.0
"""One request's answers as lines of marked pieces: who said what, where two part, and the numbers around it. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.alignment import (
    Row,
    manner,
    place,
    ranked,
    rows_around,
    sides,
    visible,
)
from ci_doctor.correctness.report.differences import Pair
from ci_doctor.correctness.report.divergence import Divergence, first_divergence, no_answer
from ci_doctor.correctness.report.recorded import Recorded, StartSamples
from ci_doctor.load.canonical import text_of
from ci_doctor.render.layout import clip, pad

_ALTERNATIVES = 5
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Mark(StrEnum):
    """What a piece of a line is."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    LEFT = "left"  # what only the first start says
    RIGHT = "right"


class Piece(NamedTuple):
    """A piece of a line."""

    text: str
    mark: Mark = Mark.PLAIN


Line = tuple[Piece, ...]


class Block(NamedTuple):
    """A titled block of lines."""

    title: str
    lines: tuple[Line, ...]


def plain(line: Line) -> str:
    """A line without its marks."""
    return "".join(piece.text for piece in line).rstrip()


def divergence_of(recorded: Recorded, pair: Pair, width: int) -> Divergence:
    """Where the two answers of `pair` part, with `width` characters around it."""
    left, right = outputs_of(recorded, pair)
    return (
        no_answer(left, right, width)
        if left is None or right is None
        else first_divergence(left, right, width)
    )


def outputs_of(
    recorded: Recorded, pair: Pair
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The two answers of a pair; None is no answer."""
    one, other = samples_of(recorded, pair)
    return (one.output if one else None), (other.output if other else None)


def samples_of(recorded: Recorded, pair: Pair) -> tuple[Sample | None, Sample | None]:
    """The two samples of a pair; None where that pass never came to an end."""
    by_name = {start.name: start for start in recorded.starts}
    return (
        by_name[pair.first].samples.get(pair.number),
        by_name[pair.second].samples.get(pair.other or pair.number),
    )


def names_of(pair: Pair) -> tuple[str, str]:
    """What the two sides are called: by start, or by pass where it is one start."""
    if pair.first == pair.second:
        return f"{pair.first} pass {pair.number}", f"{pair.second} pass {pair.other or pair.number}"
    return pair.first, pair.second


def answers(recorded: Recorded, width: int) -> Block:
    """Every class of answer with the starts that gave it, and every error."""
    classes: dict[str, list[tuple[StartSamples, int]]] = {}
    shown: dict[str, Sample] = {}
    errors: dict[str, list[str]] = {}
    for start in recorded.starts:
        for number, sample in sorted(start.samples.items()):
            if sample.digest is None or sample.output is None:
                errors.setdefault(sample.error or "no answer", []).append(
                    _asked(start, number, recorded)
                )
            else:
                classes.setdefault(sample.digest, []).append((start, number))
                shown.setdefault(sample.digest, sample)
    who = {digest: _who(given, recorded) for digest, given in classes.items()}
    column = min(30, max(map(len, who.values()), default=0))
    lines = [
        _answer(
            _LETTERS[index % len(_LETTERS)],
            pad(clip(who[digest], column), column),
            shown[digest],
            width,
        )
        for index, digest in enumerate(classes)
    ]
    lines += [
        (Piece(clip(f"✗  {' '.join(given)}  {visible(text)}", width - 2), Mark.STRONG),)
        for text, given in errors.items()
    ]
    return Block("Answers", tuple(lines))


def _asked(start: StartSamples, number: int, recorded: Recorded) -> str:
    return f"{start.name}/{number}" if recorded.passes > 1 else start.name


def _who(given: Sequence[tuple[StartSamples, int]], recorded: Recorded) -> str:
    """`A1 A2/1`: the start, with the pass where not all of its passes gave this answer."""
    words = {
        start.name if len(set(start.digests.values())) == 1 and len(start.digests) == recorded.passes
        else _asked(start, number, recorded): None
        for start, number in given
    }  # fmt: skip
    return " ".join(words)


def _answer(letter: str, who: str, sample: Sample, width: int) -> Line:
    output = sample.output or {}
    choices = [choice for choice in output.get("choices", []) if isinstance(choice, dict)]
    tokens = output.get("completion_tokens")
    about = [f"{tokens} tokens"] if tokens is not None else []
    about += [str(choice["finish_reason"]) for choice in choices[:1] if choice.get("finish_reason")]
    head = f"{letter}  {who}  "
    middle = f"{', '.join(about)}  " if about else ""
    said = visible(text_of(output)[: 2 * width]) or "(no text)"
    return (
        Piece(head, Mark.STRONG),
        Piece(middle, Mark.DIM),
        Piece(clip(said, max(10, width - 2 - len(head + middle)))),
    )


def alignment(pair: Pair, at: Divergence, width: int) -> Block:
    """Both texts below each other from a little before where they part; what differs is marked and in brackets."""
    names = names_of(pair)
    label = max(map(len, names))
    room = max(10, (width - label - 8) // 2)
    one, other = sides(at, *names, before=room, after=room)
    lines: list[Line] = [(Piece("part at " + ": ".join(filter(None, (place(at), manner(at))))),)]
    for side, mark in ((one, Mark.LEFT), (other, Mark.RIGHT)):
        own = clip(side.own, room)
        lines.append(
            (
                Piece(f"{side.name:>{label}}  ", Mark.STRONG),
                Piece(side.before, Mark.DIM),
                Piece(f"[{own}]", mark),
            )
        )
    number = "" if pair.first == pair.second else f", pass {pair.number}"
    return Block(f"{names[0]} against {names[1]}{number}", tuple(lines))


def numbers(recorded: Recorded, pair: Pair, at: Divergence, width: int) -> Block | None:
    """The log-probabilities around the divergence; None where none are told."""
    left, right = outputs_of(recorded, pair)
    rows = rows_around(left, right, at) if left is not None and right is not None else ()
    if not rows:
        return None
    names, column = names_of(pair), max(20, (width - 18) // 2)
    lines: list[Line] = [
        (Piece(f"     at  {names[0]:<{column}}{names[1]:<{column}}ULP", Mark.DIM),)
    ]
    for row in rows:
        lines += _row(row, column, here=row.at == at.position)
    return Block("Log-probabilities", tuple(lines))


def _row(row: Row, column: int, *, here: bool) -> Iterator[Line]:
    """The token of each side; where they part also the best others."""
    left, right = ([_token(each.token, each.logprob, column) for each in ranked(side, _ALTERNATIVES)] for side in (row.left, row.right))  # fmt: skip
    left = left or ([_token(row.left.token, None, column)] if row.left else [""])
    right = right or ([_token(row.right.token, None, column)] if row.right else [""])
    marks = (Mark.LEFT, Mark.RIGHT) if here else (Mark.PLAIN, Mark.PLAIN)
    yield (
        Piece(f"{'>' if here else ' '} {row.at:>5}  "),
        Piece(pad(left[0], column), marks[0]),
        Piece(right[0].rstrip() if row.ulp is None else pad(right[0], column), marks[1]),
        Piece("" if row.ulp is None else str(row.ulp)),
    )
    for index in range(1, max(len(left), len(right)) if here else 0):
        one, other = (side[index] if index < len(side) else "" for side in (left, right))
        yield (Piece(f"         {pad(one, column)}{other}", Mark.DIM),)


def _token(token: str, logprob: float | None, column: int) -> str:
    said = clip(visible(token, spaces=True), column - 14)
    return pad(said, column - 13) + ("" if logprob is None else f"{logprob:.6f}")


def beside(recorded: Recorded, pair: Pair, width: int) -> Block:
    """What was not compared and may explain it: status, why it stopped, the usage, the tries; `≠` where two differ."""
    names, column = names_of(pair), max(12, (width - 30) // 2)
    told = [_facts(sample) for sample in samples_of(recorded, pair)]
    lines: list[Line] = [(Piece(f"{'':<26}{names[0]:<{column}}{names[1]}", Mark.DIM),)]
    for key in {**told[0], **told[1]}:
        one, other = (clip(visible(facts.get(key, "-")), column - 2) for facts in told)
        sign = " " if told[0].get(key) == told[1].get(key) else "≠"
        lines.append((Piece(f"{sign} {clip(key, 22):<24}{pad(one, column)}{other}"),))
    return Block("Beside the answer", tuple(lines))


def _facts(sample: Sample | None) -> dict[str, str]:
    if sample is None:
        return {"error": "was never asked"}
    facts: dict[str, Any] = {"status": sample.status, "error": sample.error}
    choices = (sample.output or {}).get("choices", [])
    for choice in choices[:1]:
        facts |= {key: choice.get(key) for key in ("finish_reason", "stop_reason", "matched_stop")}
    usage = sample.meta.get("usage")
    facts |= usage if isinstance(usage, dict) else {}
    facts |= {key: sample.meta.get(key) for key in ("tries", "system_fingerprint")}
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in facts.items()
        if value is not None
    }
