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

Answers = tuple[str | None, ...]


class Draw:
    """One start in the making: `index` counts every start of a run, `memory` lasts a run, `mode` is the last one drawn."""

    def __init__(self, rng: Random, arm: Arm, index: int, memory: dict[int, int]) -> None:
        self.rng, self.arm, self.index, self.memory = rng, arm, index, memory
        self.mode = 0
        self.answers: list[str | None] = list(USUAL)

    def write(self, prompts: range, text: str) -> None:
        self.answers[prompts.start : prompts.stop] = [text] * len(prompts)

    def some(self, prompts: range, rate: float) -> list[int]:
        """Each of them with probability `rate`, on its own."""
        chance = self.rng.random
        return [prompt for prompt in prompts if chance() < rate]


class Part(Protocol):
    """One thing that happens in a start."""

    def __call__(self, draw: Draw) -> None: ...


class Modes(NamedTuple):
    """A start is in one mode, drawn by `weights`; in all but the first, `prompts` have that mode's answer."""

    prompts: range
    weights: Sequence[float]
    arms: Sequence[Arm] = BOTH

    def __call__(self, draw: Draw) -> None:
        if draw.arm in self.arms:
            draw.mode = draw.rng.choices(range(len(self.weights)), self.weights)[0]
            if draw.mode:
                draw.write(self.prompts, f"mode {draw.mode}")


class Shifted(NamedTuple):
    """Two modes that both arms have, the second with a probability of `baseline` and of `candidate`."""

    prompts: range
    baseline: float
    candidate: float

    def __call__(self, draw: Draw) -> None:
        if draw.rng.random() < (self.baseline if draw.arm is Arm.BASELINE else self.candidate):
            draw.mode = 1
            draw.write(self.prompts, "mode 1")


class Sticky(NamedTuple):
    """Two modes; a start stays in that of the start before with probability `stay` (1/2 is independent)."""

    prompts: range
    stay: float

    def __call__(self, draw: Draw) -> None:
        before = draw.memory.get(0, draw.rng.randrange(2))
        draw.mode = draw.memory[0] = before if draw.rng.random() < self.stay else 1 - before
        if draw.mode:
            draw.write(self.prompts, "mode 1")


class Drift(NamedTuple):
    """The machine changes for good before a start, with probability `rate`: what came before never comes back."""

    prompts: range
    rate: float

    def __call__(self, draw: Draw) -> None:
        draw.memory[0] = draw.memory.get(0, 0) + (draw.rng.random() < self.rate)
        draw.write(self.prompts, f"age {draw.memory[0]}")


class Turns(NamedTuple):
    """Every `period`-th start is different: two devices in turn, say."""

    prompts: range
    period: int

    def __call__(self, draw: Draw) -> None:
        if draw.index % self.period == 0:
            draw.write(self.prompts, "turn")


class ColdFirst(NamedTuple):
    """The first start of all is different: it fills a cache."""

    prompts: range

    def __call__(self, draw: Draw) -> None:
        if draw.index == 0:
            draw.write(self.prompts, "cold")


class Noise(NamedTuple):
    """Each of `prompts` differs with probability `rate`, on its own; into one of `others` answers, or a new one each time."""

    prompts: range
    rate: float
    others: int | None = None

    def __call__(self, draw: Draw) -> None:
        for prompt in draw.some(self.prompts, self.rate):
            which = draw.index if self.others is None else draw.rng.randrange(self.others)
            draw.answers[prompt] = f"noise {which}"


class Fresh(NamedTuple):
    """`prompts` are different in every start."""

    prompts: range

    def __call__(self, draw: Draw) -> None:
        draw.write(self.prompts, f"start {draw.index}")


class Bug(NamedTuple):
    """The candidate's `prompts` are wrong in a share `rate` of its starts.

    `mode` limits it to starts of that mode; `follows` says that the wrong answer differs from mode to mode as well.
    """

    prompts: range
    rate: float = 1.0
    mode: int | None = None
    follows: bool = False

    def __call__(self, draw: Draw) -> None:
        if (
            draw.arm is Arm.CANDIDATE
            and self.mode in {None, draw.mode}
            and draw.rng.random() < self.rate
        ):
            draw.write(self.prompts, f"bug {draw.mode}" if self.follows else "bug")


class Shown(NamedTuple):
    """The first start of all, a baseline's or an archived one, shows the bug on `prompts` too."""

    prompts: range

    def __call__(self, draw: Draw) -> None:
        if draw.index == 0:
            draw.write(self.prompts, "bug")


class NoisyBug(NamedTuple):
    """The candidate gets each of `prompts` wrong with probability `rate`, on its own, to the same wrong answer."""

    prompts: range
    rate: float

    def __call__(self, draw: Draw) -> None:
        if draw.arm is Arm.CANDIDATE:
            for prompt in draw.some(self.prompts, self.rate):
                draw.answers[prompt] = "bug"


class Swap(NamedTuple):
    """The candidate gives two prompts each other's answers."""

    first: int
    second: int

    def __call__(self, draw: Draw) -> None:
        if draw.arm is Arm.CANDIDATE:
            one, other = draw.answers[self.first], draw.answers[self.second]
            draw.answers[self.first], draw.answers[self.second] = other, one


class Unanswered(NamedTuple):
    """Each of `prompts` stays without an answer with probability `rate`, on its own."""

    prompts: range
    rate: float
    arms: Sequence[Arm] = BOTH

    def __call__(self, draw: Draw) -> None:
        if draw.arm in self.arms:
            for prompt in draw.some(self.prompts, self.rate):
                draw.answers[prompt] = None


def answer(parts: Sequence[Part], draw: Draw) -> Answers:
    """What the start answers, once every part has had its turn."""
    for part in parts:
        part(draw)
    return tuple(draw.answers)
