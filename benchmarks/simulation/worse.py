# SPDX-License-Identifier: Apache-2.0
"""Worlds in which the candidate is worse; a row each."""

from functools import partial

from simulation.faults import (
    Bug,
    Crashing,
    FirstStart,
    FreshBug,
    MovingBug,
    NoisyBug,
    OwnModes,
    Shifted,
    Shown,
    ShownBefore,
    Silent,
    Swap,
    Wandering,
)
from simulation.machines import Agents, Archived, Crashes, Drift, Growing, Sticky, Turns
from simulation.quiet import flips, groups
from simulation.scenario import (
    EVEN,
    EVERY,
    FIVE,
    HALF,
    INSIDE,
    MEASURED,
    MOST,
    ONE,
    RARE,
    RARER,
    THIRTY,
    Kind,
    worse,
)
from simulation.worlds import Correlated, Fresh, Modes, Noise, Unanswered

shown, missed = partial(worse, kind=Kind.SHOWN), partial(worse, kind=Kind.MISSED)
intermittent = partial(worse, kind=Kind.INTERMITTENT)
permanent = partial(worse, kind=Kind.PERMANENT)

PERSISTENT = (
    worse("S2", "30 prompts", Bug(THIRTY)),
    worse("S4", "1 prompt", Bug(ONE)),
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
    worse("W4b", "1 prompt outside four modes", Modes(MOST, (1,) * 4), Bug(ONE)),
    worse("W5", "5 prompts, half the others noisy at 30 %", Noise(HALF, 0.3), Bug(FIVE)),
    worse(
        "W6",
        "1 prompt inside noise of 30 %, one other answer",
        Noise(HALF, 0.3, others=1),
        Bug(range(1)),
    ),
    worse("W7", "1 prompt, 2 % of requests fail", Bug(ONE), Unanswered(EVERY, 0.02)),
    worse("W8", "1 prompt is never answered", Silent(ONE, 1.0)),
    worse("W10", "all prompts", Bug(EVERY)),
    # Only that the wrong answer repeats itself tells; where it does not, this is S1d, and nothing can.
    worse("W11", "5 prompts inside 55 that differ in every start", Fresh(MOST), Bug(INSIDE)),
    worse("W18", "5 prompts, wrong in another way each time", FreshBug(FIVE)),
    worse("W19", "5 prompts beside five groups of .5/.5", *flips(5, 10), Bug(FIVE)),
    worse("W20", "1 prompt, 55 others flip alone at .5", Noise(MOST, 0.5, others=1), Bug(ONE)),
    worse("W21", "1 prompt, two modes that stick with .8", Sticky(HALF, 0.8), Bug(ONE)),
    worse("W22", "1 prompt, every second start is different", Turns(HALF, 2), Bug(ONE)),
    worse("W23", "1 prompt, the machine changes for good", Drift(HALF, 0.1), Bug(ONE)),
    worse("W24", "1 prompt, a mode grows by 5 % a start", Growing(HALF, 0.05), Bug(ONE)),
    worse(
        "W25",
        "5 prompts in ten groups that flip together",
        Correlated(groups(10, 8), 0.1, 0.8),
        Bug(INSIDE),
    ),
    worse("W26", "1 prompt, modes on one agent of two", Agents(HALF, EVEN), Bug(ONE)),
    worse(
        "W27", "5 prompts, archive .5/.5 of another agent", Archived(Modes(HALF, EVEN)), Bug(INSIDE)
    ),
    worse("W28", "1 prompt, one archived start shows it too", ShownBefore(ONE), Bug(ONE)),
    worse("W29", "another of 8 prompts in each start", Wandering(range(90, 98))),
    worse(
        "W30",
        "another of 8 prompts in each start, two modes .5/.5",
        Modes(HALF, EVEN),
        Wandering(range(90, 98)),
        kind=Kind.SHOWN,
    ),
    worse("K3", "5 prompts inside three modes, even", Modes(MOST, (1,) * 3), Bug(INSIDE)),
    worse("K4", "5 prompts inside four modes, even", Modes(MOST, (1,) * 4), Bug(INSIDE)),
    worse("K5", "5 prompts inside five modes, even", Modes(MOST, (1,) * 5), Bug(INSIDE)),
)

PERMANENT = tuple(
    permanent(
        f"M{100 * rate:02.0f}", f"a mode of {rate:g} is made permanent", Shifted(HALF, rate, 1.0)
    )._replace(rate=rate)
    for rate in (0.05, 0.1, 0.2, 0.3, 0.5)
)

HIDING = (
    shown("W9", "2 % of the candidate's requests fail", Silent(EVERY, 0.02)),
    shown("S3a", "in .1 of starts", Bug(THIRTY, 0.1)),
    shown("S3b", "in .3 of starts", Bug(THIRTY, 0.3)),
    intermittent("S3c", "in .5 of starts", Bug(THIRTY, 0.5)),
    shown("S3d", "in .8 of starts", Bug(THIRTY, 0.8)),
    shown("S3e", "in .1 of starts, two modes .5/.5", Modes(HALF, EVEN), Bug(THIRTY, 0.1)),
    intermittent("W12", "in .5 of starts, two modes .5/.5", Modes(HALF, EVEN), Bug(THIRTY, 0.5)),
    # Any of 3 is red in 95 % of all runs under noise, whatever the candidate does: to miss less than that says nothing.
    *(
        shown(
            f"N{100 * rate:02.0f}",
            f"1 prompt in {rate:g} of starts, under 2 % noise",
            Noise(EVERY, 0.02),
            Bug(ONE, rate),
        )
        for rate in (0.3, 0.5, 0.7, 0.85, 0.95)
    ),
    missed("C1", "all wrong in its first start", FirstStart(EVERY)),
    missed("C2", "1 prompt wrong in its first start", FirstStart(ONE)),
    missed("C3", "dies in its first start", FirstStart(EVERY, dies=True)),
    missed(
        "C4", "all wrong in its first start, two modes .5/.5", Modes(HALF, EVEN), FirstStart(EVERY)
    ),
    missed("C5", "all wrong in its first start, 2 % noise", Noise(EVERY, 0.02), FirstStart(EVERY)),
    shown("C6", "dies in .3 of its starts", Crashing(0.3)),
    missed("C7", "dies in every start, a tenth of both crash", Crashes(0.1), Crashing(1.0)),
    missed("W14", "30 prompts, each in .5 of starts", NoisyBug(THIRTY, 0.5)),
    intermittent(
        "S5d", "in mode 1 of .5/.5 only", Modes(HALF, EVEN), Bug(FIVE, mode=1, of_mode=0.5)
    ),
    shown("W15", "in mode 1 of .9/.1 only", Modes(HALF, RARE), Bug(FIVE, mode=1, of_mode=0.1)),
    intermittent("S6", "the candidate alone has two modes .5/.5", OwnModes(HALF, EVEN)),
    shown("S6b", "the candidate alone has modes .95/.05", OwnModes(HALF, RARER)),
    shown("W16", "the candidate alone has noise, 2 %", NoisyBug(EVERY, 0.02)),
    shown("W17", "modes .9/.1 become .1/.9", Shifted(HALF, 0.1, 0.9)),
    shown("W29", "a fault whose rate rises from .1 to .9", MovingBug(ONE, 0.1, 0.9)),
    shown("W30", "a fault whose rate falls from .9 to .1", MovingBug(ONE, 0.9, 0.1)),
    shown(
        "W31",
        "a fault that rises from .1 to .9, under 2 % noise",
        Noise(EVERY, 0.02),
        MovingBug(ONE, 0.1, 0.9),
    ),
    # What the verdict cannot know: docs/correctness.md quotes it. The baseline gave the wrong answer too.
    shown("K2", "1 prompt, and the first baseline start shows it", Shown(ONE), Bug(ONE))._replace(
        shows=0.0
    ),
)

WORSE = (*PERSISTENT, *PERMANENT, *HIDING)
