# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: proves that a rule's race is lost without the shim and won with it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from ci_doctor.preload.checks import Check
from ci_doctor.preload.immunity import self_replacement_race
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule
from ci_doctor.preload.race_judgement import Played, RaceRun, judge_race, not_importable
from ci_doctor.preload.race_run import drive
from ci_doctor.preload.target import Target
from ci_doctor.preload.trial import try_preloads


def race_checks(
    target: Target, rule: PreloadRule, *, runs: int, tell: Callable[[str], None] = lambda _: None
) -> tuple[Check, ...]:
    """One check for each module of `rule`, each of `runs` runs with the shim and as many without.

    A module that does not replace itself is played against each other module of the rule too, which
    is how an import cycle is lost. `tell` is called before each run. Raises UsageError and
    InfraError if `target` does not answer.
    """
    race = _Race(target, rule, runs, tell)
    return tuple(race.check(index) for index in range(len(rule.preloads)))


class _Race:
    """The races of one rule in one interpreter."""

    def __init__(
        self, target: Target, rule: PreloadRule, runs: int, tell: Callable[[str], None]
    ) -> None:
        self._target = target
        self._rule = rule
        self._runs = runs
        self._tell = tell

    def check(self, index: int) -> Check:
        """Play the module number `index`, and judge."""
        preload = self._rule.preloads[index]
        fault = self._trial(preload)
        if fault is not None:
            return fault
        played: list[Played] = []
        for first, second in self._pairs(index):
            played.append(self._play(first, second))
            if played[-1].lost:
                break
        python = self._target.python
        exposed = self._is_exposed(played, python)
        return judge_race(self._rule, preload, played, exposed=exposed, python=python)

    def _trial(self, preload: Preload) -> Check | None:
        self._tell(f"{preload.module}: a trial import")
        alone = PreloadRule(trigger=self._rule.trigger, preloads=(preload,))
        findings = try_preloads(self._target, [alone])
        return not_importable(self._rule, preload, findings[0]) if findings else None

    def _is_exposed(self, played: list[Played], python: Path) -> bool:
        """Whether this interpreter can lose the race of a module that replaces itself."""
        if played[-1].lost or not played[0].control[0].replaced:
            return True  # proven, or of no importance
        return self_replacement_race(python)

    def _pairs(self, index: int) -> Iterator[tuple[int, int]]:
        """The module against itself, then against the others, in both orders."""
        yield index, index
        for other in range(len(self._rule.preloads)):
            if other != index:
                yield index, other
                yield other, index

    def _play(self, first: int, second: int) -> Played:
        """As many runs without the shim as with it, in turn: a busy machine slows both alike."""
        modules = [preload.module for preload in self._rule.preloads]
        opponents = " against ".join(dict.fromkeys((modules[first], modules[second])))
        control: list[RaceRun] = []
        with_shim: list[RaceRun] = []
        for number in range(1, 2 * self._runs + 1):
            self._tell(f"{opponents}: run {number} of {2 * self._runs}")
            is_control = number % 2 == 1
            words = ("race", format_rule(self._rule), str(first), str(second))
            run = drive(self._target.python, *words, shim=not is_control)
            (control if is_control else with_shim).append(run)
        return Played(
            first=modules[first],
            second=modules[second],
            control=tuple(control),
            with_shim=tuple(with_shim),
        )
