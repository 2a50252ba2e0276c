# SPDX-License-Identifier: Apache-2.0
"""The answers to one request as lines: each distinct answer with the starts that gave it. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.alignment import visible
from ci_doctor.correctness.report.divergence import choice_of
from ci_doctor.correctness.report.marked_text import AnswerBlock, Line, Mark, MarkedText
from ci_doctor.correctness.report.recorded import RecordedRequest, StartSamples
from ci_doctor.load.answer_items import parts
from ci_doctor.load.canonical import text_of
from ci_doctor.render.layout import clip, pad

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
