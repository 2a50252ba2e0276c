# SPDX-License-Identifier: Apache-2.0
"""The project's rules, for starts of its own and for those that another program made, behind the same three questions."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules, StartOrder
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.outcome import Verdict
from simulation.worlds import REQUESTS, Answers


class Said(NamedTuple):
    """A verdict, and the share of starts from which on it excludes a fault; None where it prints none."""

    verdict: Verdict
    bound: float | None


class Judge(Protocol):
    """Who says which arm is next, and what the starts mean. A start is whatever `start` makes of one."""

    def start(self, arm: Arm, number: int, answers: Answers, *, archived: bool) -> Any: ...

    def next_arm(self, starts: Sequence[Any], seed: int) -> Arm | None: ...

    def said(self, starts: Sequence[Any], seed: int) -> Said: ...


class CountedStart(ArmStart, frozen=True, kw_only=True):
    """A start whose answers are counted once, not at every look."""

    number_answered: int

    @property
    def answered(self) -> int:
        return self.number_answered


class Ours(NamedTuple):
    """The rules of `correctness`. Every archived start comes from a build of its own."""

    rules: Rules

    def start(self, arm: Arm, number: int, answers: Answers, *, archived: bool) -> CountedStart:
        return CountedStart(
            arm=arm,
            number=number,
            answers=dict(zip(REQUESTS, answers, strict=True)),
            archived=archived,
            number_answered=len(answers) - answers.count(None),
            # A start that answered nothing has died.
            failed=answers.count(None) == len(answers),
            build=f"build {number}" if archived else None,
        )

    def next_arm(self, starts: Sequence[CountedStart], seed: int) -> Arm | None:
        return next_arm(starts, REQUESTS, self._seeded(seed))

    def said(self, starts: Sequence[CountedStart], seed: int) -> Said:
        decision = decide(starts, REQUESTS, self._seeded(seed), complete=True)
        return Said(decision.verdict, decision.bound)

    def _seeded(self, seed: int) -> Rules:
        return replace(self.rules, seed=seed)


class Collected(NamedTuple):
    """The rules of `correctness compare` over starts that another program made in a fixed order of time.

    `order` has a letter for each start. All of them are made.
    """

    order: str
    rules: Rules = Rules(order=StartOrder.RECORDED)

    def start(self, arm: Arm, number: int, answers: Answers, *, archived: bool) -> CountedStart:
        return Ours(self.rules).start(arm, number, answers, archived=archived)

    def next_arm(self, starts: Sequence[CountedStart], seed: int) -> Arm | None:  # noqa: ARG002
        made = len(starts)
        if made == len(self.order):
            return None
        return Arm.BASELINE if self.order[made] == "A" else Arm.CANDIDATE

    def said(self, starts: Sequence[CountedStart], seed: int) -> Said:  # noqa: ARG002
        decision = decide(starts, REQUESTS, self.rules, complete=True)
        return Said(decision.verdict, decision.bound)
