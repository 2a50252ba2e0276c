# SPDX-License-Identifier: Apache-2.0
"""One simulated experiment: servers with noise and an intermittent fault, and what the project prints about them.

Only what is measured comes from the project: which start is next, the verdict, the printed sentence. The servers, the
reading of the sentence and the statistics are written anew here.
"""

import re
from enum import StrEnum
from itertools import count
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.verdict import Verdict

# What a person reads in the report.
_BOUND = re.compile(r"less than ([\d.]+)% of starts can hide")
_GREEN = (Verdict.PASS, Verdict.FLAKY)
_MOST_STARTS = 64
_MOST_KNOWN = 20_000
# The order of the arms is drawn: an experiment takes one of so many orders.
_SEEDS = 31


class Noise(StrEnum):
    """What differs at random, in both arms alike."""

    REQUEST_NEW = "a request, new answer"
    REQUEST_OTHER = "a request, one other answer"
    START_NEW = "a start, new answers"
    START_MODE = "a start, one other mode"


class Fault(StrEnum):
    """What the candidate's faulty start answers to one request."""

    SAME = "always the same wrong answer"
    NEW = "another wrong answer each time"


class World(NamedTuple):
    """`noise` at `rate` in both arms; the candidate's `fault` shows in a share `shows` of its starts."""

    prompts: int
    noise: Noise
    rate: float
    fault: Fault
    shows: float


class Design(NamedTuple):
    """The rules of an experiment, and how many archived baseline starts stand beside it."""

    name: str
    rules: Rules
    archived: int = 0


class Printed(NamedTuple):
    """What an experiment ended with; `bound` is the share that a green verdict prints, None without one."""

    green: bool
    bound: float | None


def answers(world: World, arm: Arm, rng: Random, fresh: "count[int]") -> tuple[str, ...]:
    """What a start answers, a text for each prompt."""
    given = [f"usual {prompt}" for prompt in range(world.prompts)]
    noisy_start = rng.random() < world.rate
    for prompt in range(world.prompts):
        if world.noise is Noise.START_NEW and noisy_start:
            given[prompt] = f"new {next(fresh)}"
        elif world.noise is Noise.START_MODE and noisy_start:
            given[prompt] = f"mode {prompt}"
        elif world.noise in _BY_REQUEST and rng.random() < world.rate:
            given[prompt] = _of_a_request(world.noise, fresh)
    if arm is Arm.CANDIDATE and rng.random() < world.shows:
        given[0] = "wrong" if world.fault is Fault.SAME else f"wrong {next(fresh)}"
    return tuple(given)


_BY_REQUEST = (Noise.REQUEST_NEW, Noise.REQUEST_OTHER)


def _of_a_request(noise: Noise, fresh: "count[int]") -> str:
    if noise is Noise.REQUEST_OTHER:
        return "other"
    return f"new {next(fresh)}"


class Experiments:
    """Experiments of one design in one world. The same starts are decided once: the rules are pure."""

    def __init__(self, world: World, design: Design, rng: Random) -> None:
        self.world, self.design, self.rng = world, design, rng
        self.requests = tuple(f"r{prompt}" for prompt in range(world.prompts))
        self.known: dict[tuple[object, ...], Arm | Printed] = {}
        self.made = 0

    def run(self) -> Printed:
        fresh = count()
        self.made += 1
        archived = range(self.design.archived)
        made = [(Arm.BASELINE, True, self._answers(Arm.BASELINE, fresh)) for _ in archived]
        for _ in range(_MOST_STARTS):
            found = self._after(tuple(made))
            if isinstance(found, Printed):
                return found
            made.append((found, False, self._answers(found, fresh)))
        raise RuntimeError(f"{self.design.name} asks for more than {_MOST_STARTS} starts")

    def _answers(self, arm: Arm, fresh: "count[int]") -> tuple[str, ...]:
        return answers(self.world, arm, self.rng, fresh)

    def _after(self, made: tuple[tuple[Arm, bool, tuple[str, ...]], ...]) -> "Arm | Printed":
        """The arm to start next, or what is printed once no start is left."""
        seed = self.made % _SEEDS
        found = self.known.get((seed, *made))
        if found is None:
            found = self._decided(made, replace(self.design.rules, seed=seed))
            if len(self.known) < _MOST_KNOWN:
                self.known[seed, *made] = found
        return found

    def _decided(
        self, made: tuple[tuple[Arm, bool, tuple[str, ...]], ...], rules: Rules
    ) -> "Arm | Printed":
        numbers: dict[tuple[Arm, bool], int] = {}
        starts = []
        for arm, archived, given in made:
            number = numbers[arm, archived] = numbers.get((arm, archived), 0) + 1
            by_request = dict(zip(self.requests, given, strict=True))
            # Every archived start comes from a build of its own.
            build = f"build {number}" if archived else None
            starts.append(
                ArmStart(arm=arm, number=number, answers=by_request, archived=archived, build=build)
            )
        arm_next = next_arm(starts, self.requests, rules)
        if arm_next is not None:
            return arm_next
        decision = decide(starts, self.requests, rules, complete=True)
        match = _BOUND.search(decision.risk or "")
        bound = float(match[1]) / 100 if match else None
        return Printed(decision.verdict in _GREEN, bound)
