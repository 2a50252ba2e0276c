# SPDX-License-Identifier: Apache-2.0
"""Pure. Whole jobs around the output of one command, with what their other commands print."""

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from .frames import Failure, Frame, Line, Step, framed, framed_failure
from .noise import Noise, filled

_START_S: Final = 1_700_000_000.0
_COMMAND: Final = "./run.sh"


class Style(StrEnum):
    """How a job shows its commands: each in a step of its own, by `set -x`, or by nothing."""

    STEPS = "steps"
    TRACE = "trace"
    SILENT = "silent"


def failed_job(frame: Frame, text: str, seed: str, noise: Noise) -> Failure:
    """A job in whose log `text` is the output of the command that failed."""
    chance = random.Random(f"{seed} {frame}")
    style = chance.choice(list(Style))
    before = [filled(block, chance) for block in chance.sample(noise.before, chance.randint(2, 5))]
    after = [filled(block, chance) for block in chance.sample(noise.after, chance.randint(0, 2))]
    # The clean-up of a shell's trap stands before the end of the step.
    trap = [after.pop()] if after and chance.random() < 0.5 else []
    *others, last = _steps(style, [*before, (_COMMAND, _lines(text))])
    head = len(last.lines) - len(_lines(text))
    tail = [line for each in trap for line in _shown(style, *each)]
    failed = _step(last.command, [*(line.text for line in last.lines), *tail], last.started_s)
    cleaned = [_step(command, lines, failed.ended_s) for command, lines in after]
    failure = framed_failure(frame, [*others, failed._replace(status=1)], cleaned)
    return failure._replace(first=failure.first + head)


def passed_job(frame: Frame, text: str, seed: str, noise: Noise) -> str:
    """A job that passed, with `text` among what its commands printed."""
    chance = random.Random(f"{seed} {frame}")
    style = chance.choice(list(Style))
    before = [filled(block, chance) for block in chance.sample(noise.before, chance.randint(2, 5))]
    after = [filled(block, chance) for block in chance.sample(noise.after, chance.randint(0, 2))]
    return framed(frame, _steps(style, [*before, (_COMMAND, _lines(text)), *after]))


def _steps(style: Style, commands: Sequence[tuple[str, Sequence[str]]]) -> list[Step]:
    """The steps of a job that runs `commands`: one, unless each is shown as a step."""
    if style is Style.STEPS:
        return [
            _step(command, lines, _START_S + 60 * number)
            for number, (command, lines) in enumerate(commands)
        ]
    lines = [line for each in commands for line in _shown(style, *each)]
    return [_step(_COMMAND, lines, _START_S)]


def _shown(style: Style, command: str, lines: Sequence[str]) -> list[str]:
    if style is Style.TRACE:
        return [*(f"+ {part}" for part in command.split("; ")), *lines]
    return list(lines)


def _step(command: str, printed: Sequence[str], at_s: float) -> Step:
    lines = [Line(at_s + index / 1000, text) for index, text in enumerate(printed)]
    return Step(command, at_s, at_s + len(lines) / 1000, lines)


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")
