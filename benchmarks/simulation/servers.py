# SPDX-License-Identifier: Apache-2.0
"""The servers of one run in a world: each start is a new one, and what the run remembers begins anew."""

from random import Random

from ci_doctor.correctness.settings import Arm
from simulation.scenario import Scenario
from simulation.worlds import Answers, Draw, answer


class Servers:
    """`ask` starts one more. `shows` is the share of candidate starts that show the fault on one request, on average."""

    def __init__(self, scenario: Scenario, rng: Random) -> None:
        self.scenario, self.rng = scenario, rng
        self.memory: dict[int, int] = {}
        self.made = 0
        self.shares: list[float] = []
        self.faulty = False

    def ask(self, arm: Arm, *, archived: bool = False) -> Answers:
        draw = Draw(self.rng, arm, self.made, self.memory, archived=archived)
        self.made += 1
        answers = answer(self.scenario.parts, draw)
        if arm is Arm.CANDIDATE:
            self.shares.append(draw.share)
        self.faulty = draw.faulty
        return answers

    @property
    def shows(self) -> float:
        if self.scenario.shows is not None:
            return self.scenario.shows
        return sum(self.shares) / len(self.shares) if self.shares else 0.0
