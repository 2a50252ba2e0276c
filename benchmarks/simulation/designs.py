# SPDX-License-Identifier: Apache-2.0
"""Who decides over a run: the project's own rules under several settings, or pairs that are retried until one is equal."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.model.verdict import Verdict
from simulation.worlds import REQUESTS, Answers


class Colour(StrEnum):
    """What a person sees: green goes on, red blames the change, amber says that it is not known."""

    GREEN = "green"
    RED = "red"
    AMBER = "amber"


COLOURS = {Verdict.PASS: Colour.GREEN, Verdict.FLAKY: Colour.GREEN, Verdict.REGRESSION: Colour.RED}
MOST_STARTS = 64  # a schedule that asks for more never ends
MOST_PAIRS = 10

Ask = Callable[[Arm], Answers]


class Outcome(NamedTuple):
    """How a run ended, after how many server starts."""

    colour: Colour
    verdict: Verdict
    starts: int


def pairs_needed(ask: Ask) -> int:
    """How many pairs of an A and a B, each started anew, it takes until both answer alike; `MOST_PAIRS + 1`: more."""
    for attempt in range(1, MOST_PAIRS + 1):
        baseline, candidate = ask(Arm.BASELINE), ask(Arm.CANDIDATE)
        if baseline == candidate and None not in baseline:
            return attempt
    return MOST_PAIRS + 1


def any_of(attempts: int, needed: int) -> Outcome:
    """Green where one of the first `attempts` pairs was equal, or else red."""
    if needed <= attempts:
        return Outcome(Colour.GREEN, Verdict.PASS, 2 * needed)
    return Outcome(Colour.RED, Verdict.REGRESSION, 2 * attempts)


class Simulated(ArmStart, frozen=True, kw_only=True):
    """A start whose answers are counted once, not at every look."""

    number_answered: int

    @property
    def answered(self) -> int:
        return self.number_answered


class Ours(NamedTuple):
    """The project's rules; `archived` baseline starts were made before the run, and cost nothing."""

    name: str
    rules: Rules
    archived: int = 0

    def run(self, ask: Ask, known: "Known") -> Outcome:
        place = known.root
        # An archive is a set: in one order, the same one is decided once.
        archive = sorted((ask(Arm.BASELINE) for _ in range(self.archived)), key=str)
        for answers in archive:
            place = place.after(Arm.BASELINE, answers, archived=True)
        for made in range(MOST_STARTS):
            arm = place.next_arm(self.rules)
            if arm is None:
                verdict = place.verdict(self.rules)
                return Outcome(COLOURS.get(verdict, Colour.AMBER), verdict, made)
            place = place.after(arm, ask(arm), archived=False)
        raise RuntimeError(f"{self.name} asks for more than {MOST_STARTS} starts")


class Place:
    """The starts so far, and what the rules say of them; the same starts are decided once, since the rules are pure."""

    def __init__(self, starts: tuple[ArmStart, ...], known: "Known") -> None:
        self.starts, self.known = starts, known
        self.children: dict[tuple[Arm, Answers], Place] = {}
        self.asked = False
        self.arm: Arm | None = None
        self.decided: Verdict | None = None

    def after(self, arm: Arm, answers: Answers, *, archived: bool) -> "Place":
        child = self.children.get((arm, answers))
        if child is None:
            number = 1 + sum(
                start.arm is arm and start.archived == archived for start in self.starts
            )
            start = Simulated(
                arm=arm,
                number=number,
                answers=dict(zip(REQUESTS, answers, strict=True)),
                archived=archived,
                number_answered=len(answers) - answers.count(None),
            )
            child = Place((*self.starts, start), self.known)
            if self.known.room > 0:
                self.known.room -= 1
                self.children[arm, answers] = child
        return child

    def next_arm(self, rules: Rules) -> Arm | None:
        if not self.asked:
            self.asked, self.arm = True, next_arm(self.starts, REQUESTS, rules)
        return self.arm

    def verdict(self, rules: Rules) -> Verdict:
        if self.decided is None:
            self.decided = decide(self.starts, REQUESTS, rules, complete=True).verdict
        return self.decided


class Known:
    """Every place that a cell has come by, up to `room` of them."""

    def __init__(self, room: int = 6000) -> None:
        self.room = room
        self.root = Place((), self)


DEFAULT = Ours("default", Rules())
OURS: Sequence[Ours] = (
    DEFAULT,
    Ours("nightly", Rules(retries=4, least_candidates=4)),
    Ours("archive 6", Rules(), archived=6),
    Ours("archive 20", Rules(), archived=20),
)
