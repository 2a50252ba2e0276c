# SPDX-License-Identifier: Apache-2.0
"""Pure. Runs of test runners that passed: what looks like a failure within them was expected.

A suite of tests prints the errors that it provokes. A run that says at its end that all tests
passed takes them back. A run is a session, a file or one test, as the runner marks them.
"""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit


class PassedRun(Struct, frozen=True, kw_only=True):
    """The lines from `first` to `last`, 1-based and inclusive.

    family: whose hits it takes back; None for all. A run whose begin is not marked vouches for its
    own runner's hits alone: other steps may stand before it.
    """

    first: int
    last: int
    family: str | None

    def takes_back(self, line: int, family: str) -> bool:
        """Whether a hit of `family` in this line was expected."""
        return self.first <= line <= self.last and self.family in {None, family}


class _Runs:
    """The runs of one family: those that have begun, and where the last one ended."""

    def __init__(self, family: str) -> None:
        self.family = family
        self._begun: list[Hit] = []
        self._ended = 0

    def begin(self, hit: Hit) -> None:
        self._begun.append(hit)

    def fail(self, hit: Hit) -> None:
        if self._begun:
            self._begun.pop()
        self._ended = hit.line.number

    def passed(self, hit: Hit) -> PassedRun | None:
        """The run that `hit` ends; None if it names a test whose begin is not known."""
        last = hit.line.number
        begin = self._begin_of(hit)
        if begin is not None:
            self._ended = last
            return PassedRun(first=begin.line.number, last=last, family=None)
        if hit.fields:
            return None
        run = PassedRun(first=self._ended + 1, last=last, family=self.family)
        self._ended = last
        return run

    def _begin_of(self, end: Hit) -> Hit | None:
        """The last begin of the same name; an end without a name ends what has none either."""
        for index in range(len(self._begun) - 1, -1, -1):
            begin = self._begun[index]
            if begin.fields == end.fields:
                del self._begun[index:]
                return begin
        return None


def passed_runs(hits: Sequence[Hit], rules: RuleSet) -> list[PassedRun]:
    """The runs that passed, from their marks in the order of the log."""
    families: dict[str, _Runs] = {}
    passed = []
    for hit in hits:
        rule = rules.rules[hit.rule]
        runs = families.setdefault(rule.family, _Runs(rule.family))
        if rule.role is Role.RUN_BEGIN:
            runs.begin(hit)
        elif rule.role is Role.RUN_FAILED:
            runs.fail(hit)
        elif rule.role is Role.RUN_PASSED:
            run = runs.passed(hit)
            if run is not None:
                passed.append(run)
    return passed


def in_passed_run(runs: Sequence[PassedRun], line: int, family: str) -> bool:
    """Whether a run that passed takes back a hit of `family` in this line."""
    return any(run.takes_back(line, family) for run in runs)


def outside_of_runs(hits: Sequence[Hit], runs: Sequence[PassedRun]) -> list[Hit]:
    """`hits` without those inside a run that passed and whose begin is marked.

    A test may print what the end of a failed step looks like. The marks of the run itself stay.
    """
    whole = [run for run in runs if run.family is None]
    return [hit for hit in hits if not _is_inside(hit.line.number, whole)]


def _is_inside(line: int, runs: Sequence[PassedRun]) -> bool:
    return any(run.first < line < run.last for run in runs)
