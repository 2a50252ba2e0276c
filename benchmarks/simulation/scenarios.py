# SPDX-License-Identifier: Apache-2.0
"""The worlds that verdicts are held against; a row each. Prompts 0 to 49 (or 54) are where the environment flakes."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ci_doctor.correctness.settings import Arm
from simulation.worlds import (
    Bug,
    ColdFirst,
    Drift,
    Fresh,
    Modes,
    Noise,
    NoisyBug,
    Part,
    Shifted,
    Shown,
    Sticky,
    Swap,
    Turns,
    Unanswered,
)

CANDIDATE = (Arm.CANDIDATE,)
EVERY, HALF, MOST = range(100), range(50), range(55)
ONE, FIVE, THIRTY = range(90, 91), range(90, 95), range(60, 90)  # outside of what flakes
INSIDE = range(5)
EVEN, RARE, RARER = (0.5, 0.5), (0.9, 0.1), (0.95, 0.05)
MEASURED = (0.70, 0.15, 0.10, 0.05)  # a published H100 campaign's four digests


class Target(StrEnum):
    """What a scenario is held against."""

    RED = "red <= 2 %"
    MISSED = "missed 0"
    BEATS = "missed less than any of 3"
    SHOWN = "-"


class Scenario(NamedTuple):
    """A world's name, what it is, its parts, whether the candidate is worse in it, and what is wanted of the verdicts."""

    name: str
    title: str
    parts: Sequence[Part]
    regression: bool
    target: Target


def quiet(name: str, title: str, *parts: Part, target: Target = Target.RED) -> Scenario:
    """Both arms behave alike."""
    return Scenario(name, title, parts, regression=False, target=target)


def worse(name: str, title: str, *parts: Part, target: Target = Target.MISSED) -> Scenario:
    """The candidate has a bug."""
    return Scenario(name, title, parts, regression=True, target=target)


QUIET = (
    quiet("S0", "no flake"),
    quiet("S1", "two modes .5/.5, 50 prompts", Modes(HALF, EVEN)),
    quiet("S1b", "two modes .9/.1", Modes(HALF, RARE)),
    quiet("S1c", "four modes, even", Modes(MOST, (1, 1, 1, 1))),
    quiet("S1d", "55 prompts differ in every start", Fresh(MOST)),
    quiet("S1e", "noise, 2 % of answers", Noise(EVERY, 0.02)),
    quiet("S1f", "modes .70/.15/.10/.05 (measured)", Modes(MOST, MEASURED)),
    quiet(
        "Q1",
        "two independent groups, each .5/.5",
        Modes(range(25), EVEN),
        Modes(range(25, 50), EVEN),
    ),
    quiet("Q2", "two modes .5/.5 and 2 % noise", Modes(HALF, EVEN), Noise(EVERY, 0.02)),
    quiet("Q3", "two modes .95/.05", Modes(HALF, RARER)),
    quiet("Q4", "ten modes, even", Modes(MOST, (1,) * 10)),
    quiet("Q5", "half the prompts noisy at 30 %, new answers", Noise(HALF, 0.3)),
    quiet("Q6", "half the prompts noisy at 30 %, one other answer", Noise(HALF, 0.3, others=1)),
    quiet("Q7", "all prompts noisy at 10 %, one other answer", Noise(EVERY, 0.1, others=1)),
    quiet("Q8", "2 % of requests fail, both arms", Unanswered(EVERY, 0.02)),
    quiet("Q9", "one prompt differs in every start", Fresh(range(1))),
    quiet(
        "Q10",
        "ten prompts, each with its own .5/.5",
        *(Modes(range(n, n + 1), EVEN) for n in range(10)),
    ),
    quiet("Q18", "five modes, even", Modes(MOST, (1,) * 5)),
    quiet(
        "Q19",
        "three independent groups, each .5/.5",
        *(Modes(range(n, n + 20), EVEN) for n in (0, 20, 40)),
    ),
    quiet(
        "Q20",
        "two independent groups of three modes",
        *(Modes(range(n, n + 25), (1, 1, 1)) for n in (0, 25)),
    ),
    # Not exchangeable: here the order of the starts has to protect.
    quiet("Q11", "two modes that stick with .8", Sticky(HALF, 0.8)),
    quiet("Q12", "two modes that alternate with .8", Sticky(HALF, 0.2)),
    quiet("Q13", "every second start is different", Turns(HALF, 2)),
    quiet("Q14", "every third start is different", Turns(HALF, 3)),
    quiet("Q15", "the first start of all is different", ColdFirst(HALF)),
    # An archive is of the past, and what changed for good since then is what its identity is there to notice.
    quiet("Q16", "the machine changes for good, .1 a start", Drift(HALF, 0.1), target=Target.SHOWN),
    quiet(
        "Q17",
        "the candidate is in the first mode always",
        Shifted(HALF, 0.5, 0.0),
        target=Target.SHOWN,
    ),
)

WORSE = (
    worse("S2", "persistent, 30 prompts", Bug(THIRTY)),
    worse("S4", "persistent, 1 prompt", Bug(ONE)),
    worse("S4b", "1 prompt, two modes .5/.5", Modes(HALF, EVEN), Bug(ONE)),
    worse("S5a", "5 prompts outside two modes .5/.5", Modes(HALF, EVEN), Bug(FIVE)),
    worse("S5b", "5 prompts inside two modes .5/.5", Modes(HALF, EVEN), Bug(INSIDE)),
    worse("S5b2", "the same, wrong in two ways", Modes(HALF, EVEN), Bug(INSIDE, follows=True)),
    worse("S5c", "5 prompts, 55 others differ in every start", Fresh(MOST), Bug(FIVE)),
    worse("S5e", "1 prompt under 2 % noise", Noise(EVERY, 0.02), Bug(ONE)),
    worse("S5f", "5 prompts inside modes .70/.15/.10/.05", Modes(MOST, MEASURED), Bug(INSIDE)),
    worse("W1", "1 prompt, one other differs in every start", Fresh(range(1)), Bug(ONE)),
    worse("W2", "two prompts swapped", Swap(90, 91)),
    worse("W3", "two prompts swapped, two modes .5/.5", Modes(HALF, EVEN), Swap(90, 91)),
    worse("W4", "1 prompt, ten modes", Modes(MOST, (1,) * 10), Bug(ONE)),
    worse("W5", "5 prompts, half the others noisy at 30 %", Noise(HALF, 0.3), Bug(FIVE)),
    worse(
        "W6",
        "1 prompt inside noise of 30 %, one other answer",
        Noise(HALF, 0.3, others=1),
        Bug(range(1)),
    ),
    worse("W7", "1 prompt, 2 % of requests fail", Bug(ONE), Unanswered(EVERY, 0.02)),
    worse("W8", "1 prompt is never answered", Unanswered(ONE, 1.0, CANDIDATE)),
    worse(
        "W9",
        "2 % of the candidate's requests fail",
        Unanswered(EVERY, 0.02, CANDIDATE),
        target=Target.SHOWN,
    ),
    worse("W10", "all prompts", Bug(EVERY)),
    # Only that the wrong answer repeats itself tells; where it does not, this is S1d, and nothing can.
    worse("W11", "5 prompts inside 55 that differ in every start", Fresh(MOST), Bug(INSIDE)),
    worse("S3a", "in .1 of starts", Bug(THIRTY, 0.1), target=Target.SHOWN),
    worse("S3b", "in .3 of starts", Bug(THIRTY, 0.3), target=Target.SHOWN),
    worse("S3c", "in .5 of starts", Bug(THIRTY, 0.5), target=Target.BEATS),
    worse("S3d", "in .8 of starts", Bug(THIRTY, 0.8), target=Target.SHOWN),
    worse(
        "S3e",
        "in .1 of starts, two modes .5/.5",
        Modes(HALF, EVEN),
        Bug(THIRTY, 0.1),
        target=Target.SHOWN,
    ),
    worse(
        "W12",
        "in .5 of starts, two modes .5/.5",
        Modes(HALF, EVEN),
        Bug(THIRTY, 0.5),
        target=Target.BEATS,
    ),
    # Any of 3 is red in 95 % of all runs under noise, whatever the candidate does: to miss less than that says nothing.
    worse(
        "W13",
        "in .5 of starts, under 2 % noise",
        Noise(EVERY, 0.02),
        Bug(ONE, 0.5),
        target=Target.SHOWN,
    ),
    worse("W14", "30 prompts, each in .5 of starts", NoisyBug(THIRTY, 0.5)),
    worse(
        "S5d", "in mode 1 of .5/.5 only", Modes(HALF, EVEN), Bug(FIVE, mode=1), target=Target.BEATS
    ),
    worse(
        "W15", "in mode 1 of .9/.1 only", Modes(HALF, RARE), Bug(FIVE, mode=1), target=Target.SHOWN
    ),
    worse(
        "S6",
        "the candidate alone has two modes .5/.5",
        Modes(HALF, EVEN, CANDIDATE),
        target=Target.BEATS,
    ),
    worse("W16", "the candidate alone has noise, 2 %", NoisyBug(EVERY, 0.02), target=Target.SHOWN),
    worse("W17", "modes .9/.1 become .1/.9", Shifted(HALF, 0.1, 0.9), target=Target.SHOWN),
    # What the verdict cannot know: docs/correctness.md quotes these.
    worse(
        "K1", "a rare mode of .1 becomes permanent", Shifted(HALF, 0.1, 1.0), target=Target.SHOWN
    ),
    worse(
        "K2",
        "1 prompt, and the first baseline start shows it",
        Shown(ONE),
        Bug(ONE),
        target=Target.SHOWN,
    ),
    worse("K3", "5 prompts inside three modes, even", Modes(MOST, (1,) * 3), Bug(INSIDE)),
    worse("K4", "5 prompts inside four modes, even", Modes(MOST, (1,) * 4), Bug(INSIDE)),
    worse("K5", "5 prompts inside five modes, even", Modes(MOST, (1,) * 5), Bug(INSIDE)),
)

SCENARIOS = (*QUIET, *WORSE)
