# SPDX-License-Identifier: Apache-2.0
"""Reads one request of a run again, and shows two of its answers: the library entry of `replay`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.differences import (
    AlignedRow,
    AnswerPair,
    AnswerSide,
    manner,
    place,
    ranked,
    rows_around,
    sides,
    visible,
)
from ci_doctor.correctness.report.divergence import Divergence, choice_of
from ci_doctor.correctness.report.figures import logprob_facts
from ci_doctor.correctness.report.recorded import (
    RecordedRequest,
    StartSamples,
    choose_pair,
    divergence_of,
    names_of,
    outputs_of,
    read_request,
    recorded_comparison,
    samples_of,
)
from ci_doctor.correctness.report.tokens import Step
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.load.answer_items import parts
from ci_doctor.load.canonical import text_of
from ci_doctor.model.facts.correctness import AnswerDivergence, ReplayFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, text_table
from ci_doctor.render.layout import clip, pad

# --- text whose pieces are marked by what they are, so that a terminal may colour them ---


class Mark(StrEnum):
    """What a piece of a line is."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    LEFT = "left"  # only in the first answer
    RIGHT = "right"  # only in the second


class MarkedText(NamedTuple):
    """A piece of a line."""

    text: str
    mark: Mark = Mark.PLAIN


Line = tuple[MarkedText, ...]


class AnswerBlock(NamedTuple):
    """A titled block of lines."""

    title: str
    lines: tuple[Line, ...]


def plain(line: Line) -> str:
    """A line without its marks."""
    return "".join(piece.text for piece in line).rstrip()


# --- the answers to one request as lines: each distinct answer with the starts that gave it ---

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WIDEST_NAMES = 30

_Passes = list[tuple[StartSamples, int]]


class _Given(Struct):
    """One distinct answer: its first sample, and every start and pass that gave it."""

    sample: Sample
    passes: _Passes = field(default_factory=list)


def answers(recorded: RecordedRequest, width: int) -> AnswerBlock:
    """Every distinct answer with the starts that gave it, then every error."""
    given: dict[str, _Given] = {}
    errors: dict[str, list[str]] = {}
    for start in recorded.starts:
        for number, sample in sorted(start.samples.items()):
            digest = sample.digest
            if digest is None or sample.output is None:
                name = _pass_name(start, number, recorded)
                error = sample.error or "no answer"
                errors.setdefault(error, []).append(name)
                continue
            answer = given.setdefault(digest, _Given(sample))
            answer.passes.append((start, number))
    lines = [
        *_answer_lines(list(given.values()), recorded, width),
        *_error_lines(errors, width),
    ]
    return AnswerBlock("Answers", tuple(lines))


def _error_lines(errors: Mapping[str, Sequence[str]], width: int) -> Iterator[Line]:
    """One line an error, with the starts and passes that it struck."""
    for error, names in errors.items():
        starts = " ".join(names)
        # An error may quote what the server answered: escape sequences and line ends, too.
        text = visible(error)
        line = clip(f"✗  {starts}  {text}", width - 2)
        yield (MarkedText(line, Mark.STRONG),)


def _answer_lines(given: list[_Given], recorded: RecordedRequest, width: int) -> Iterator[Line]:
    names = [_names(answer.passes, recorded) for answer in given]
    widest = max(map(len, names), default=0)
    # An answer of fifty starts must leave room for its text.
    column = min(_WIDEST_NAMES, widest)
    # The letter of the first answer with these words and tokens.
    letters: dict[str, str] = {}
    for index, answer in enumerate(given):
        letter = _LETTERS[index % len(_LETTERS)]
        name = clip(names[index], column)
        head = f"{letter}  {pad(name, column)}  "
        first = letters.setdefault(_words_and_tokens(answer.sample), letter)
        alike = first if first != letter else None
        yield _answer(head, answer.sample, width, alike)


def _words_and_tokens(sample: Sample) -> str:
    output = sample.output or {}
    divided = parts(output)
    # A vector has no words that could be the same.
    compared = output if divided.wordless else [divided.words, divided.tokens]
    return json.dumps(compared, sort_keys=True)


def _pass_name(start: StartSamples, number: int, recorded: RecordedRequest) -> str:
    if recorded.passes == 1:
        return start.name
    return f"{start.name}/{number}"


def _names(passes: _Passes, recorded: RecordedRequest) -> str:
    """`A1 A2/1`: the start, with the pass if not all of its passes gave this answer."""
    # A dict, and not a set: a start with several passes is named once, in its place.
    names: dict[str, None] = {}
    for start, number in passes:
        digests = start.digests
        complete = len(digests) == recorded.passes
        if complete and len(set(digests.values())) == 1:
            names.setdefault(start.name)
        else:
            names.setdefault(_pass_name(start, number, recorded))
    return " ".join(names)


def _answer(head: str, sample: Sample, width: int, alike: str | None) -> Line:
    """`alike` is the letter of an earlier answer that differs in numbers alone."""
    output = sample.output or {}
    middle = _about(output)
    if alike:
        text = f"the words of {alike}, other numbers"
    else:
        # Clipped before it is made visible: an answer of megabytes would cost seconds.
        beginning = text_of(output)[: 2 * width]
        text = visible(beginning) or "(no text)"
    room = width - 2 - len(head) - len(middle)
    return (
        MarkedText(head, Mark.STRONG),
        MarkedText(middle, Mark.DIM),
        MarkedText(clip(text, max(10, room))),
    )


def _about(output: Mapping[str, Any]) -> str:
    """How many tokens there are, and why the first choice stopped; with the gap that follows."""
    about = []
    tokens = output.get("completion_tokens")
    if tokens is not None:
        about.append(f"{tokens} tokens")
    reason = choice_of(output, 0).get("finish_reason")
    if reason:
        about.append(str(reason))
    words = ", ".join(about)
    return words and f"{words}  "


# --- two answers to one request as lines: the texts, the numbers, and what may explain them ---

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


# --- reads one request of a run again, and shows two of its answers: the library entry of `replay` ---

_EXCERPT = 80


class ReplayRequest(Struct, frozen=True, kw_only=True):
    """What to show: a request by its id, from the report directory of a run.

    `starts` names two starts, or one to compare its passes; empty chooses the pair that shows most.
    `width` is that of the lines in cells.
    """

    run: Path
    request: str
    starts: tuple[str, ...] = ()
    width: int = 80


class Replay(Struct, frozen=True, kw_only=True):
    """The outcome, and its tables as blocks whose pieces are marked for a terminal.

    `unreadable` counts lines of the samples that were left out.
    """

    outcome: Outcome
    blocks: tuple[AnswerBlock, ...]
    unreadable: int


def replay(request: ReplayRequest) -> Outcome:
    """What every start answered, and where two of the answers diverge. Nothing is judged.

    Raises UsageError if there is no such run, request or start.
    """
    return marked_replay(request).outcome


def marked_replay(request: ReplayRequest) -> Replay:
    """As `replay`, with the marks of each line."""
    recorded = read_request(request.run, request.request)
    recorded = replace(recorded, comparison=recorded_comparison(request.run))
    pair = choose_pair(recorded, request.starts)
    blocks = tuple(_blocks(recorded, pair, request.width))
    outcome = Outcome(
        verdict=None,
        summary=_summary(recorded, pair),
        tables=tuple(_tables(blocks)),
        facts=_facts(recorded, pair),
    )
    return Replay(outcome=outcome, blocks=blocks, unreadable=recorded.unreadable)


def _is_same(pair: AnswerPair) -> bool:
    # Two missing answers are no agreement.
    return pair.left is not None and pair.left == pair.right


def _summary(recorded: RecordedRequest, pair: AnswerPair | None) -> str:
    kind = recorded.kind
    # The id is what a person typed, or a file holds: it may act on a terminal.
    request = visible(recorded.request)
    words = f"request {request}: {kind}: {explain(kind)}"
    if not recorded.comparison.is_exact:
        words = f"{words} ({recorded.comparison.manner})"
    varying = [start.name for start in recorded.starts if len(set(start.digests.values())) > 1]
    if varying:
        # Else one of its passes seems to contradict the kind.
        words = (
            f"{words}; {_few(varying)} between its passes, and a start's answer is that of all "
            "its passes together"
        )
    if pair is not None and _is_same(pair):
        return f"{words}; these two are the same"
    return words


def _few(names: Sequence[str]) -> str:
    """`B1 differs`, or of several starts the first and how many more."""
    if len(names) == 1:
        return f"{names[0]} differs"
    return f"{names[0]} and {len(names) - 1} more starts each differ"


def _blocks(
    recorded: RecordedRequest, pair: AnswerPair | None, width: int
) -> Iterator[AnswerBlock]:
    yield answers(recorded, width)
    if pair is None:
        return
    if not _is_same(pair):
        at = divergence_of(recorded, pair, width)
        yield alignment(pair, at, width)
        log_probabilities = numbers(recorded, pair, at, width)
        if log_probabilities is not None:
            yield log_probabilities
    yield beside(recorded, pair, width)


def _tables(blocks: Sequence[AnswerBlock]) -> Iterator[Table]:
    for block in blocks:
        lines = tuple(map(plain, block.lines))
        yield text_table(block.title, lines)


def _facts(recorded: RecordedRequest, pair: AnswerPair | None) -> ReplayFacts:
    facts = ReplayFacts(
        request=recorded.request,
        kind=str(recorded.kind),
        answers=_digests(recorded),
        unreadable_lines=recorded.unreadable,
    )
    if pair is None or _is_same(pair):
        return facts
    at = divergence_of(recorded, pair, _EXCERPT)
    left, right = outputs_of(recorded, pair)
    rows: Sequence[AlignedRow] = ()
    if left is not None and right is not None:
        rows = rows_around(left, right, at)
    return replace(
        facts,
        starts=(pair.first, pair.second),
        passes=(pair.number, pair.other or pair.number),
        divergence=AnswerDivergence(**asdict(at)),
        logprobs=logprob_facts(rows),
    )


def _digests(recorded: RecordedRequest) -> dict[str, dict[str, str | None]]:
    """By start and pass the digest of each answer; None for an error."""
    digests: dict[str, dict[str, str | None]] = {}
    for start in recorded.starts:
        by_pass = digests.setdefault(start.name, {})
        for number, sample in start.samples.items():
            # A key of JSON is a string.
            by_pass[str(number)] = sample.digest
    return digests
