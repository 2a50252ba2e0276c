# SPDX-License-Identifier: Apache-2.0
"""Files of responses for tests, and what they collect to."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.survey import Source
from ci_doctor.correctness.settings import Arm


def response(identity: str, text: str, *numbers: float) -> dict[str, Any]:
    """A completion as a server writes it."""
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": "length"}
    if numbers:
        choice["logprobs"] = {"token_logprobs": list(numbers)}
    return {"id": identity, "object": "text_completion", "created": 1, "choices": [choice]}


def error(identity: str) -> dict[str, Any]:
    """A line that holds no answer."""
    return {"id": identity, "error": {"message": "no"}}


def responses(words: str) -> list[dict[str, Any]]:
    """Answers to c-0, c-1 …, a word each; `-` is an error."""
    lines = []
    for number, word in enumerate(words.split()):
        identity = f"c-{number}"
        lines.append(error(identity) if word == "-" else response(identity, f"the {word}"))
    return lines


def write(path: Path, lines: Sequence[object]) -> Path:
    """One line of JSON each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def source(arm: Arm, path: Path, form: SampleFormat = SampleFormat.RESPONSES) -> Source:
    """A file of one side."""
    return Source(arm=arm, path=path, form=form)


def files(directory: Path, baseline: Sequence[str], candidate: Sequence[str]) -> list[list[Source]]:
    """The files of both sides: starts with these answers, a file each."""
    sides = []
    for arm, starts in zip(Arm, (baseline, candidate), strict=True):
        of_arm = []
        for number, words in enumerate(starts, start=1):
            path = write(directory / f"{arm.letter}{number}.jsonl", responses(words))
            of_arm.append(source(arm, path))
        sides.append(of_arm)
    return sides
