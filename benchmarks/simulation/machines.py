# SPDX-License-Identifier: Apache-2.0
"""Environments in which starts are not exchangeable: they depend on their place in time, or on where they ran."""

from collections.abc import Sequence
from typing import NamedTuple

from simulation.worlds import Draw, Part

# Keys of a run's memory.
_MODE, _AGE, _AGENT = range(3)


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
