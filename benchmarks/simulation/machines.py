# SPDX-License-Identifier: Apache-2.0
"""Environments in which starts are not exchangeable: they depend on their place in time, or on where they ran."""

from collections.abc import Sequence
from typing import NamedTuple

from ci_doctor.correctness.settings import Arm
from simulation.worlds import Draw, Part

# Keys of a run's memory; those of the prompts and of the arms follow.
_MODE, _AGE, _AGENT, _LEVEL, _BEFORE, _CRASHED = range(6)
_OF_PROMPTS, _OF_ARMS = 100, 1000


class Sticky(NamedTuple):
    """Two modes; a start stays in that of the start before with probability `stay` (1/2 is independent)."""

    prompts: range
    stay: float

    def __call__(self, draw: Draw) -> None:
        before = draw.memory.get(_MODE, draw.rng.randrange(2))
        draw.mode = draw.memory[_MODE] = before if draw.happens(self.stay) else 1 - before
        if draw.mode:
            draw.write(self.prompts, "mode 1")


class Drift(NamedTuple):
    """The machine changes for good before a start, with probability `rate`: what came before never comes back."""

    prompts: range
    rate: float

    def __call__(self, draw: Draw) -> None:
        draw.memory[_AGE] = draw.memory.get(_AGE, 0) + draw.happens(self.rate)
        draw.write(self.prompts, f"age {draw.memory[_AGE]}")


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


class Growing(NamedTuple):
    """A second mode that the first start never has, and each further one more often, by `step`."""

    prompts: range
    step: float

    def __call__(self, draw: Draw) -> None:
        if draw.happens(self.step * draw.index):
            draw.mode = 1
            draw.write(self.prompts, "mode 1")


class Agents(NamedTuple):
    """Two agents, of which one alone has modes: archived starts come from either, today's from one."""

    prompts: range
    weights: Sequence[float]

    def __call__(self, draw: Draw) -> None:
        today = draw.memory.setdefault(_AGENT, draw.rng.randrange(2))
        agent = draw.rng.randrange(2) if draw.archived else today
        draw.mode = draw.rng.choices(range(len(self.weights)), self.weights)[0] if agent else 0
        if draw.mode:
            draw.write(self.prompts, f"mode {draw.mode}")


class Today(NamedTuple):
    """What happens today alone."""

    part: Part

    def __call__(self, draw: Draw) -> None:
        if not draw.archived:
            self.part(draw)


class Archived(NamedTuple):
    """What happened to archived starts alone: another agent, or another hour."""

    part: Part

    def __call__(self, draw: Draw) -> None:
        if draw.archived:
            self.part(draw)


class Ageing(NamedTuple):
    """Each start flips `step` more of `prompts` for good, once `after` starts were made."""

    prompts: range
    step: int = 1
    after: int = 0

    def __call__(self, draw: Draw) -> None:
        old = self.step * max(0, draw.index - self.after)
        draw.write(self.prompts[:old], "aged")


class Walking(NamedTuple):
    """How many of `prompts` are flipped walks at random, up or down by up to `step` a start."""

    prompts: range
    step: int = 3

    def __call__(self, draw: Draw) -> None:
        level = draw.memory.get(_LEVEL, len(self.prompts) // 2)
        level += draw.rng.randint(-self.step, self.step)
        draw.memory[_LEVEL] = min(max(level, 0), len(self.prompts))
        draw.write(self.prompts[: draw.memory[_LEVEL]], "walked")


class StickyEach(NamedTuple):
    """Two modes for each prompt on its own, each of which stays with probability `stay`."""

    prompts: range
    stay: float

    def __call__(self, draw: Draw) -> None:
        for prompt in self.prompts:
            key = _OF_PROMPTS + prompt
            before = draw.memory.get(key, draw.rng.randrange(2))
            draw.memory[key] = before if draw.happens(self.stay) else 1 - before
            if draw.memory[key]:
                draw.answers[prompt] = "mode 1"


class Warming(NamedTuple):
    """The first start flips all of `prompts`, each further one a share `keeps` of what was left."""

    prompts: range
    keeps: float

    def __call__(self, draw: Draw) -> None:
        cold = round(len(self.prompts) * self.keeps**draw.index)
        draw.write(self.prompts[:cold], "cold")


class CarryOver(NamedTuple):
    """A start after one of the same arm finds what that one has left, and answers otherwise."""

    prompts: range

    def __call__(self, draw: Draw) -> None:
        arm = list(Arm).index(draw.arm)
        if draw.memory.get(_BEFORE) == arm:
            draw.write(self.prompts, "warm")
        draw.memory[_BEFORE] = arm


class ColdArm(NamedTuple):
    """The first `starts` starts of each arm are different: each arm fills a cache of its own."""

    prompts: range
    starts: int = 1

    def __call__(self, draw: Draw) -> None:
        key = _OF_ARMS + list(Arm).index(draw.arm)
        made = draw.memory[key] = draw.memory.get(key, 0) + 1
        if made <= self.starts:
            draw.write(self.prompts, "cold")


class Crashes(NamedTuple):
    """A start dies with probability `rate`; after one that died, with probability `again`."""

    rate: float
    again: float | None = None

    def __call__(self, draw: Draw) -> None:
        is_after = draw.memory.get(_CRASHED, 0) and self.again is not None
        rate = self.again if is_after and self.again is not None else self.rate
        draw.memory[_CRASHED] = int(draw.happens(rate))
        if draw.memory[_CRASHED]:
            draw.answers[:] = [None] * len(draw.answers)


class CutAnswers(NamedTuple):
    """In a slow start, one of `slow`, the limit of time cuts each of `prompts` with probability `rate`."""

    prompts: range
    slow: float
    rate: float

    def __call__(self, draw: Draw) -> None:
        if draw.happens(self.slow):
            for prompt in draw.some(self.prompts, self.rate):
                draw.answers[prompt] = f"cut at {draw.rng.randrange(4)}"
