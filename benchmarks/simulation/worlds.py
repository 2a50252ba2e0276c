# SPDX-License-Identifier: Apache-2.0
"""What one start of a simulated server answers: a world is a row of parts, each of which writes over some answers."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

from ci_doctor.correctness.settings import Arm

PROMPTS = 100
REQUESTS = tuple(f"r{number}" for number in range(PROMPTS))
USUAL = tuple(f"{number}" for number in range(PROMPTS))  # every prompt has its own answer
BOTH = (Arm.BASELINE, Arm.CANDIDATE)
CANDIDATE = (Arm.CANDIDATE,)

Answers = tuple[str | None, ...]


class Draw:
    """One start in the making.

    `index` counts every start of a run, archived ones first; `memory` lasts a run; `mode` is the last one drawn. A fault
    says the `share` of such starts that show it, and whether this start does, or answers as if (`faulty`).
    """

    def __init__(
        self, rng: Random, arm: Arm, index: int, memory: dict[int, int], *, archived: bool = False
    ) -> None:
        self.rng, self.arm, self.index, self.memory = rng, arm, index, memory
        self.archived = archived
        self.mode = 0
        self.share = 0.0
        self.faulty = False
        self.answers: list[str | None] = list(USUAL)

    def write(self, prompts: range, text: str) -> None:
        self.answers[prompts.start : prompts.stop] = [text] * len(prompts)

    def some(self, prompts: range, rate: float) -> list[int]:
        """Each of them with probability `rate`, on its own."""
        chance = self.rng.random
        return [prompt for prompt in prompts if chance() < rate]

    def happens(self, rate: float) -> bool:
        return self.rng.random() < rate


class Part(Protocol):
    """One thing that happens in a start."""

    def __call__(self, draw: Draw) -> None: ...


class Modes(NamedTuple):
    """A start is in one mode, drawn by `weights`; in all but the first, `prompts` have that mode's answer."""

    prompts: range
    weights: Sequence[float]

    def __call__(self, draw: Draw) -> None:
        draw.mode = draw.rng.choices(range(len(self.weights)), self.weights)[0]
        if draw.mode:
            draw.write(self.prompts, f"mode {draw.mode}")


class Noise(NamedTuple):
    """Each of `prompts` differs with probability `rate`, on its own; into one of `others` answers, or a new one each time."""

    prompts: range
    rate: float
    others: int | None = None

    def __call__(self, draw: Draw) -> None:
        for prompt in draw.some(self.prompts, self.rate):
            which = draw.index if self.others is None else draw.rng.randrange(self.others)
            draw.answers[prompt] = f"noise {which}"


class UnevenNoise(NamedTuple):
    """Each of `prompts` differs at a rate of its own, evenly spread over the powers of ten from `least` to `most`."""

    prompts: range
    least: float
    most: float
    others: int | None = None

    def __call__(self, draw: Draw) -> None:
        steps = len(self.prompts) - 1
        for number, prompt in enumerate(self.prompts):
            if draw.happens(self.least * (self.most / self.least) ** (number / steps)):
                which = draw.index if self.others is None else draw.rng.randrange(self.others)
                draw.answers[prompt] = f"noise {which}"


class Fresh(NamedTuple):
    """`prompts` are different in every start."""

    prompts: range

    def __call__(self, draw: Draw) -> None:
        draw.write(self.prompts, f"start {draw.index}")


class Correlated(NamedTuple):
    """Groups of prompts that flip together, and more of them in a busy start (half of all) than in a calm one."""

    groups: Sequence[range]
    calm: float
    busy: float

    def __call__(self, draw: Draw) -> None:
        rate = self.busy if draw.happens(0.5) else self.calm
        for group in self.groups:
            if draw.happens(rate):
                draw.write(group, "flipped")


class Unanswered(NamedTuple):
    """Each of `prompts` stays without an answer with probability `rate`, on its own, in both arms."""

    prompts: range
    rate: float

    def __call__(self, draw: Draw) -> None:
        for prompt in draw.some(self.prompts, self.rate):
            draw.answers[prompt] = None


def answer(parts: Sequence[Part], draw: Draw) -> Answers:
    """What the start answers, once every part has had its turn."""
    for part in parts:
        part(draw)
    return tuple(draw.answers)
