# SPDX-License-Identifier: Apache-2.0
"""Who decides over a run: rules under several settings, or pairs that are retried until one is equal."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.model.outcome import Verdict
from simulation.judges import Collected, Judge, Ours, Said
from simulation.servers import Servers
from simulation.worlds import Answers


class Colour(StrEnum):
    """What a person sees: green goes on, red blames the change, amber says that it is not known."""

    GREEN = "green"
    RED = "red"
    AMBER = "amber"


COLOURS = {Verdict.PASS: Colour.GREEN, Verdict.FLAKY: Colour.GREEN, Verdict.REGRESSION: Colour.RED}
MOST_STARTS = 64  # a schedule that asks for more never ends
MOST_PAIRS = 10
# The order of the arms is drawn: a run takes one of so many orders.
SEEDS = 101


class Outcome(NamedTuple):
    """How a run ended, after how many server starts.

    `bound` is what it printed, `shows` the share of its candidate starts that show the fault on one request.
    """

    colour: Colour
    verdict: Verdict
    starts: int
    bound: float | None = None
    shows: float = 0.0

    @property
    def untrue(self) -> bool:
        """Whether a green verdict excludes a fault that is there."""
        return self.colour is Colour.GREEN and self.bound is not None and self.bound <= self.shows


def pairs_needed(servers: Servers) -> int:
    """How many pairs of an A and a B, each started anew, it takes until both answer alike; `MOST_PAIRS + 1`: more."""
    for attempt in range(1, MOST_PAIRS + 1):
        baseline, candidate = servers.ask(Arm.BASELINE), servers.ask(Arm.CANDIDATE)
        if baseline == candidate and None not in baseline:
            return attempt
    return MOST_PAIRS + 1


def any_of(attempts: int, needed: int) -> Outcome:
    """Green where one of the first `attempts` pairs was equal, or else red."""
    if needed <= attempts:
        return Outcome(Colour.GREEN, Verdict.PASS, 2 * needed)
    return Outcome(Colour.RED, Verdict.REGRESSION, 2 * attempts)


class Design(NamedTuple):
    """Rules; `archived` baseline starts were made before the run, and cost nothing."""

    name: str
    judge: Judge
    archived: int = 0

    def run(self, servers: Servers, known: "Known", seed: int) -> Outcome:
        place = known.root
        # An archive is a set: in one order, the same one is decided once.
        archive = sorted(
            (servers.ask(Arm.BASELINE, archived=True) for _ in range(self.archived)), key=str
        )
        for answers in archive:
            place = place.after(Arm.BASELINE, answers, archived=True)
        for made in range(MOST_STARTS):
            arm = place.next_arm(seed)
            if arm is None:
                said = place.said(seed)
                colour = COLOURS.get(said.verdict, Colour.AMBER)
                return Outcome(colour, said.verdict, made, said.bound, servers.shows)
            place = place.after(arm, servers.ask(arm), archived=False)
        raise RuntimeError(f"{self.name} asks for more than {MOST_STARTS} starts")


class Place:
    """The starts so far, and what the rules say of them; the same starts are decided once, since the rules are pure."""

    def __init__(self, starts: tuple[Any, ...], known: "Known") -> None:
        self.starts, self.known = starts, known
        self.children: dict[tuple[Arm, Answers], Place] = {}
        self.arms: dict[int, Arm | None] = {}
        self.decided: dict[int, Said] = {}

    def after(self, arm: Arm, answers: Answers, *, archived: bool) -> "Place":
        child = self.children.get((arm, answers))
        if child is None:
            same = [each for each in self.starts if each.arm is arm and each.archived == archived]
            start = self.known.judge.start(arm, len(same) + 1, answers, archived=archived)
            child = Place((*self.starts, start), self.known)
            if self.known.room > 0:
                self.known.room -= 1
                self.children[arm, answers] = child
        return child

    def next_arm(self, seed: int) -> Arm | None:
        if seed not in self.arms:
            self.arms[seed] = self.known.judge.next_arm(self.starts, seed)
        return self.arms[seed]

    def said(self, seed: int) -> Said:
        if seed not in self.decided:
            self.decided[seed] = self.known.judge.said(self.starts, seed)
        return self.decided[seed]


class Known:
    """Every place that a cell has come by, up to `room` of them."""

    def __init__(self, judge: Judge, room: int = 6000) -> None:
        self.judge = judge
        self.room = room
        self.root = Place((), self)


DEFAULT = Design("default", Ours(Rules()))
OURS: Sequence[Design] = (
    DEFAULT,
    Design("3 baselines", Ours(Rules(least_baselines=3))),
    Design("archive 6", Ours(Rules()), archived=6),
    Design("archive 20", Ours(Rules()), archived=20),
)
# What `correctness compare` says of the same worlds, if the starts were made in these orders.
COLLECTED: Sequence[Design] = (
    Design("compare, A first", Collected("A" * 8 + "B" * 8)),
    Design("compare, in turn", Collected("ABBABAABABBA")),
)
