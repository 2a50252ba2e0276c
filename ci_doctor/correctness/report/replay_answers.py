# SPDX-License-Identifier: Apache-2.0
"""The answers to one request as lines: each distinct answer with the starts that gave it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

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


def answers(recorded: RecordedRequest, width: int) -> AnswerBlock:
    """Every distinct answer with the starts that gave it, then every error."""
    passes: dict[str, _Passes] = {}
    first: dict[str, Sample] = {}
    errors: dict[str, list[str]] = {}
    for start in recorded.starts:
        for number, sample in sorted(start.samples.items()):
            if sample.digest is None or sample.output is None:
                error = sample.error or "no answer"
                errors.setdefault(error, []).append(_pass_name(start, number, recorded))
            else:
                passes.setdefault(sample.digest, []).append((start, number))
                first.setdefault(sample.digest, sample)
    lines = _answer_lines(passes, first, recorded, width)
    for text, names in errors.items():
        line = clip(f"✗  {' '.join(names)}  {visible(text)}", width - 2)
        lines.append((MarkedText(line, Mark.STRONG),))
    return AnswerBlock("Answers", tuple(lines))


def _answer_lines(
    passes: dict[str, _Passes], first: dict[str, Sample], recorded: RecordedRequest, width: int
) -> list[Line]:
    names = {digest: _names(given, recorded) for digest, given in passes.items()}
    column = min(_WIDEST_NAMES, max(map(len, names.values()), default=0))
    lines = []
    for index, digest in enumerate(passes):
        letter = _LETTERS[index % len(_LETTERS)]
        head = f"{letter}  {pad(clip(names[digest], column), column)}  "
        lines.append(_answer(head, first[digest], width))
    return lines


def _pass_name(start: StartSamples, number: int, recorded: RecordedRequest) -> str:
    return f"{start.name}/{number}" if recorded.passes > 1 else start.name


def _names(given: Sequence[tuple[StartSamples, int]], recorded: RecordedRequest) -> str:
    """`A1 A2/1`: the start, with the pass if not all of its passes gave this answer."""
    names: dict[str, None] = {}
    for start, number in given:
        digests = start.digests
        always = len(digests) == recorded.passes and len(set(digests.values())) == 1
        name = start.name if always else _pass_name(start, number, recorded)
        names.setdefault(name)
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
