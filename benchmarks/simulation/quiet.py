# SPDX-License-Identifier: Apache-2.0
"""Worlds in which the candidate is innocent; a row each."""

from simulation.faults import Shifted
from simulation.machines import (
    Ageing,
    Agents,
    Archived,
    CarryOver,
    ColdArm,
    ColdFirst,
    Crashes,
    CutAnswers,
    Drift,
    Growing,
    Sticky,
    StickyEach,
    Today,
    Turns,
    Walking,
    Warming,
)
from simulation.scenario import EVEN, EVERY, HALF, MEASURED, MOST, RARE, RARER, Kind, quiet
from simulation.worlds import Correlated, Fresh, Modes, Noise, Unanswered, UnevenNoise


def groups(number: int, size: int) -> tuple[range, ...]:
    """So many groups of so many prompts."""
    return tuple(range(size * n, size * (n + 1)) for n in range(number))


def flips(number: int, size: int, weights: tuple[float, ...] = EVEN) -> tuple[Modes, ...]:
    """Groups of prompts, each with modes of its own."""
    return tuple(Modes(group, weights) for group in groups(number, size))


EXCHANGEABLE = (
    quiet("S0", "no flake", most_starts=2.0),
    quiet("S1", "two modes .5/.5, 50 prompts", Modes(HALF, EVEN), most_starts=5.0),
    quiet("S1b", "two modes .9/.1", Modes(HALF, RARE)),
    quiet("S1c", "four modes, even", Modes(MOST, (1, 1, 1, 1))),
    quiet("S1d", "55 prompts differ in every start", Fresh(MOST)),
    quiet("S1e", "noise, 2 % of answers", Noise(EVERY, 0.02)),
    quiet("S1f", "modes .70/.15/.10/.05 (measured)", Modes(MOST, MEASURED)),
    quiet("Q1", "two independent groups, each .5/.5", *flips(2, 25)),
    quiet("Q2", "two modes .5/.5 and 2 % noise", Modes(HALF, EVEN), Noise(EVERY, 0.02)),
    quiet("Q3", "two modes .95/.05", Modes(HALF, RARER)),
    quiet("Q4", "ten modes, even", Modes(MOST, (1,) * 10)),
    quiet("Q5", "half the prompts noisy at 30 %, new answers", Noise(HALF, 0.3)),
    quiet("Q6", "half the prompts noisy at 30 %, one other answer", Noise(HALF, 0.3, others=1)),
    quiet("Q7", "all prompts noisy at 10 %, one other answer", Noise(EVERY, 0.1, others=1)),
    quiet("Q8", "2 % of requests fail, both arms", Unanswered(EVERY, 0.02)),
    quiet("Q8b", "1 % of requests fail, both arms", Unanswered(EVERY, 0.01)),
    quiet("Q9", "one prompt differs in every start", Fresh(range(1))),
    quiet("Q10", "ten prompts, each with its own .5/.5", *flips(10, 1)),
    quiet("Q10b", "55 prompts flip alone at .5", Noise(MOST, 0.5, others=1)),
    quiet("Q18", "five modes, even", Modes(MOST, (1,) * 5)),
    quiet("Q19", "three independent groups, each .5/.5", *flips(3, 20)),
    quiet("Q20", "two independent groups of three modes", *flips(2, 25, (1, 1, 1))),
    quiet("Q21", "twenty groups, each .95/.05", *flips(20, 5, RARER)),
    quiet("Q22", "ten groups flip together: .1 each, or .8", Correlated(groups(10, 8), 0.1, 0.8)),
    quiet(
        "Q23",
        "two modes .9/.1, 1 % noise, 1 % of requests fail",
        Modes(HALF, RARE),
        Noise(EVERY, 0.01),
        Unanswered(EVERY, 0.01),
    ),
)

# Here the order of the starts, which is drawn, has to protect.
IN_TIME = (
    quiet("Q11", "two modes that stick with .8", Sticky(HALF, 0.8)),
    quiet("Q11b", "two modes that stick with .95", Sticky(HALF, 0.95)),
    quiet("Q12", "two modes that alternate with .8", Sticky(HALF, 0.2)),
    quiet("Q12b", "two modes that alternate with .95", Sticky(HALF, 0.05)),
    quiet("Q13", "every second start is different", Turns(HALF, 2)),
    quiet("Q14", "every third start is different", Turns(HALF, 3)),
    quiet("Q15", "the first start of all is different", ColdFirst(HALF)),
    quiet("Q16", "the machine changes for good, .1 a start", Drift(HALF, 0.1)),
    quiet("Q24", "a second mode becomes 5 % more frequent a start", Growing(HALF, 0.05)),
    quiet("T1", "each start flips one more prompt", Ageing(HALF)),
    quiet("T2", "each start flips five more prompts", Ageing(HALF, 5)),
    quiet("T3", "from the fifth start on, each flips one more", Ageing(HALF, 1, 4)),
    quiet("T4", "the number of flipped prompts walks", Walking(HALF)),
    quiet("T5", "sticky modes for each prompt, .8", StickyEach(HALF, 0.8)),
    quiet("T6", "sticky modes for each prompt, .95", StickyEach(EVERY, 0.95)),
    quiet("T7", "two modes that stick with .95", Sticky(HALF, 0.95)),
    quiet("T8", "warming, by half a start", Warming(HALF, 0.5)),
    quiet("T9", "warming, by a fifth a start", Warming(HALF, 0.8)),
    quiet(
        "T10", "a start after one of its arm differs, noise", CarryOver(HALF), Noise(EVERY, 0.02)
    ),
    quiet("T11", "the first start of each arm is cold, noise", ColdArm(HALF), Noise(EVERY, 0.02)),
    quiet("T12", "the first two of each arm are cold, noise", ColdArm(HALF, 2), Noise(EVERY, 0.02)),
    quiet("T13", "one start of ten crashes", Crashes(0.1)),
    quiet("T14", "three starts of ten crash", Crashes(0.3)),
    quiet("T15", "crashes that come in a row", Crashes(0.1, 0.7)),
    quiet("T16", "crashes in a row, on a machine that ages", Crashes(0.1, 0.7), Ageing(HALF)),
    quiet("T17", "a slow start of three cuts answers", CutAnswers(EVERY, 0.3, 0.2)),
    quiet("T18", "noise at rates of .0001 to 1", UnevenNoise(EVERY, 1e-4, 1.0)),
    quiet("T19", "the same, one other answer", UnevenNoise(EVERY, 1e-4, 1.0, others=1)),
    quiet(
        "T20",
        "noise at rates of .0001 to 1 that ages",
        UnevenNoise(HALF, 1e-4, 1.0),
        Ageing(range(50, 100)),
    ),
)

# Here the archive is of another machine, or of another hour.
ELSEWHERE = (
    quiet("Q25", "archive in one mode, today .4/.6", Today(Modes(HALF, (0.4, 0.6)))),
    quiet("Q26", "modes .5/.5 on one agent of two", Agents(HALF, EVEN)),
    quiet("Q27", "archive .5/.5, today one mode", Archived(Modes(HALF, EVEN))),
    quiet("Q28", "archive in another mode always", Archived(Modes(HALF, (0, 1)))),
    quiet("Q29", "archive quiet, today 2 % noise", Today(Noise(EVERY, 0.02))),
    quiet(
        "Q17", "the candidate is in the first mode always", Shifted(HALF, 0.5, 0.0), kind=Kind.SHOWN
    ),
)

QUIET = (*EXCHANGEABLE, *IN_TIME, *ELSEWHERE)
