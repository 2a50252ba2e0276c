# SPDX-License-Identifier: Apache-2.0
"""What the candidate does worse, and what answers as it does.

A fault says in what share of the candidate's starts one request has an answer that the environment never gives
(`Draw.share`), and whether a start answers as the fault does (`Draw.faulty`): the limit that knows the truth sees that.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ci_doctor.correctness.settings import Arm
from simulation.worlds import Draw

# A key of a run's memory, beside those of the machines.
_STARTED = -1


def begins(draw: Draw, share: float) -> bool:
    """Whether the start is the candidate's; then the fault shows on a request in this share of starts."""
    if draw.arm is not Arm.CANDIDATE:
        return False
    draw.share = max(draw.share, share)
    return True


class Bug(NamedTuple):
    """The candidate's `prompts` are wrong in a share `rate` of its starts.

    `mode` limits it to starts of that mode, which is drawn with probability `of_mode`; `follows` says that the wrong
    answer differs from mode to mode as well.
    """

    prompts: range
    rate: float = 1.0
    mode: int | None = None
    of_mode: float = 1.0
    follows: bool = False

    def __call__(self, draw: Draw) -> None:
        if not begins(draw, self.rate * self.of_mode):
            return
        if self.mode in {None, draw.mode} and draw.happens(self.rate):
            draw.faulty = True
            draw.write(self.prompts, f"bug {draw.mode}" if self.follows else "bug")


class MovingBug(NamedTuple):
    """A bug whose rate moves from `first` to `last` over the run's first `over` starts, and stays there."""

    prompts: range
    first: float
    last: float
    over: int = 12

    def __call__(self, draw: Draw) -> None:
        rate = self.first + (self.last - self.first) * min(1.0, draw.index / self.over)
        if begins(draw, rate) and draw.happens(rate):
            draw.faulty = True
            draw.write(self.prompts, "bug")


class NoisyBug(NamedTuple):
    """The candidate gets each of `prompts` wrong with probability `rate`, on its own, to the same wrong answer."""

    prompts: range
    rate: float

    def __call__(self, draw: Draw) -> None:
        if begins(draw, self.rate):
            for prompt in draw.some(self.prompts, self.rate):
                draw.faulty = True
                draw.answers[prompt] = "bug"


class FreshBug(NamedTuple):
    """The candidate's `prompts` are wrong in a share `rate` of its starts, each time in another way."""

    prompts: range
    rate: float = 1.0

    def __call__(self, draw: Draw) -> None:
        if begins(draw, self.rate) and draw.happens(self.rate):
            draw.faulty = True
            draw.write(self.prompts, f"bug {draw.index}")


class Wandering(NamedTuple):
    """In each of the candidate's starts another of `prompts` is wrong, always to the same wrong answer."""

    prompts: range

    def __call__(self, draw: Draw) -> None:
        if begins(draw, 1 / len(self.prompts)):
            draw.faulty = True
            draw.answers[draw.rng.choice(self.prompts)] = "bug"


class Swap(NamedTuple):
    """The candidate gives two prompts each other's answers."""

    first: int
    second: int

    def __call__(self, draw: Draw) -> None:
        if begins(draw, 1.0):
            draw.faulty = True
            one, other = draw.answers[self.first], draw.answers[self.second]
            draw.answers[self.first], draw.answers[self.second] = other, one


class Silent(NamedTuple):
    """The candidate leaves each of `prompts` without an answer with probability `rate`, on its own."""

    prompts: range
    rate: float

    def __call__(self, draw: Draw) -> None:
        if begins(draw, self.rate):
            for prompt in draw.some(self.prompts, self.rate):
                draw.faulty = True
                draw.answers[prompt] = None


class FirstStart(NamedTuple):
    """The candidate's first start alone is wrong on `prompts`, or dies."""

    prompts: range
    dies: bool = False

    def __call__(self, draw: Draw) -> None:
        if draw.arm is not Arm.CANDIDATE or draw.memory.get(_STARTED, 0):
            return
        draw.memory[_STARTED] = 1
        draw.faulty = True
        if self.dies:
            draw.answers[:] = [None] * len(draw.answers)
        else:
            draw.write(self.prompts, "bug")


class Crashing(NamedTuple):
    """The candidate dies in a share `rate` of its starts."""

    rate: float

    def __call__(self, draw: Draw) -> None:
        if begins(draw, self.rate) and draw.happens(self.rate):
            draw.faulty = True
            draw.answers[:] = [None] * len(draw.answers)


class OwnModes(NamedTuple):
    """The candidate alone is in one mode of several, drawn by `weights`; all but the first are wrong."""

    prompts: range
    weights: Sequence[float]

    def __call__(self, draw: Draw) -> None:
        if not begins(draw, 1 - self.weights[0] / sum(self.weights)):
            return
        mode = draw.rng.choices(range(len(self.weights)), self.weights)[0]
        if mode:
            draw.faulty = True
            draw.write(self.prompts, f"mode {mode}")


class Shifted(NamedTuple):
    """Two modes that both arms have, the second with a probability of `baseline` and of `candidate`: no new answer."""

    prompts: range
    baseline: float
    candidate: float

    def __call__(self, draw: Draw) -> None:
        rate = self.baseline if draw.arm is Arm.BASELINE else self.candidate
        if draw.happens(rate):
            draw.mode = 1
            draw.write(self.prompts, "mode 1")
        # The mode that the candidate has more often.
        draw.faulty = bool(draw.mode) is (self.candidate > self.baseline)


class Shown(NamedTuple):
    """The first start of all, a baseline's or an archived one, answers as the bug does on `prompts`."""

    prompts: range

    def __call__(self, draw: Draw) -> None:
        if draw.index == 0:
            draw.faulty = True
            draw.write(self.prompts, "bug")


class ShownBefore(NamedTuple):
    """The first `starts` archived starts answer as the bug does on `prompts`: nothing that today's baseline gives."""

    prompts: range
    starts: int = 1

    def __call__(self, draw: Draw) -> None:
        if draw.archived and draw.index < self.starts:
            draw.write(self.prompts, "bug")
