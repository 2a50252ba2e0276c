# SPDX-License-Identifier: Apache-2.0
"""The answers to one request as lines: each distinct answer with the starts that gave it. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.alignment import visible
from ci_doctor.correctness.report.divergence import choice_of
from ci_doctor.correctness.report.marked_text import AnswerBlock, Line, Mark, MarkedText
from ci_doctor.correctness.report.recorded import RecordedRequest, StartSamples
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
            if sample.digest is None or sample.output is None:
                error = sample.error or "no answer"
                name = _pass_name(start, number, recorded)
                errors.setdefault(error, []).append(name)
            else:
                answer = given.setdefault(sample.digest, _Given(sample))
                answer.passes.append((start, number))
    lines = _answer_lines(list(given.values()), recorded, width)
    for error, names in errors.items():
        line = f"✗  {' '.join(names)}  {visible(error)}"
        lines.append((MarkedText(clip(line, width - 2), Mark.STRONG),))
    return AnswerBlock("Answers", tuple(lines))


def _answer_lines(given: list[_Given], recorded: RecordedRequest, width: int) -> list[Line]:
    names = [_names(answer.passes, recorded) for answer in given]
    widest = max(map(len, names), default=0)
    column = min(_WIDEST_NAMES, widest)
    lines = []
    for index, answer in enumerate(given):
        letter = _LETTERS[index % len(_LETTERS)]
        name = pad(clip(names[index], column), column)
        lines.append(_answer(f"{letter}  {name}  ", answer.sample, width))
    return lines


def _pass_name(start: StartSamples, number: int, recorded: RecordedRequest) -> str:
    return f"{start.name}/{number}" if recorded.passes > 1 else start.name


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


def _answer(head: str, sample: Sample, width: int) -> Line:
    output = sample.output or {}
    about = _about(output)
    middle = f"{', '.join(about)}  " if about else ""
    # Clipped before it is made visible: an answer of megabytes would cost seconds.
    beginning = text_of(output)[: 2 * width]
    text = visible(beginning) or "(no text)"
    room = width - 2 - len(head) - len(middle)
    return (
        MarkedText(head, Mark.STRONG),
        MarkedText(middle, Mark.DIM),
        MarkedText(clip(text, max(10, room))),
    )


def _about(output: Mapping[str, Any]) -> list[str]:
    """How many tokens there are, and why the first choice stopped."""
    about = []
    tokens = output.get("completion_tokens")
    if tokens is not None:
        about.append(f"{tokens} tokens")
    reason = choice_of(output, 0).get("finish_reason")
    if reason:
        about.append(str(reason))
    return about
