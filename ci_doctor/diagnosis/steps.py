# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of a job in its log: where each begins and how it ends."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit


class FailedStep(Struct, frozen=True):
    """The lines from `first` to `last`, 1-based and inclusive; `last` reports the failure."""

    first: int
    last: int

    def holds(self, line: int) -> bool:
        """Whether the step has this line."""
        return self.first <= line <= self.last


def failed_steps(hits: Sequence[Hit], rules: RuleSet) -> list[FailedStep]:
    """The steps that end with a failure, in order; none if the log has no such marks.

    A step begins at the last begin mark before its end, or at the last one with the same command
    where the end names its command (programs print begin marks of their own). Without a begin mark
    it begins after the step before it.
    """
    steps = []
    begins: list[Hit] = []
    first = 1
    for hit in hits:
        role = rules.rules[hit.rule].role
        if role is Role.BEGIN:
            begins.append(hit)
        elif role is Role.END:
            steps.append(FailedStep(_begin_of(hit, begins) or first, hit.line.number))
        if role in (Role.END, Role.SUCCESS):
            first = hit.line.number + 1
            begins = []
    return steps


def _begin_of(end: Hit, begins: Sequence[Hit]) -> int | None:
    """The line at which the step that `end` ends begins; None if no mark tells."""
    command = end.fields.get("command")
    for begin in reversed(begins):
        if command is not None and begin.fields.get("command") == command:
            return begin.line.number
    return begins[-1].line.number if begins else None


def in_failed_step(steps: Sequence[FailedStep], line: int) -> bool | None:
    """Whether a failed step has this line; None if no step failed."""
    if not steps:
        return None
    return any(step.holds(line) for step in steps)
