# SPDX-License-Identifier: Apache-2.0
"""Pure. What the runs of a race prove."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.preload import rules
from ci_doctor.preload.checks import Check, CheckOutcome
from ci_doctor.preload.preload_rule import Preload, PreloadRule


class RaceRun(Struct, frozen=True, kw_only=True):
    """How one run ended.

    `error` is one line, empty if all went well. `executed`: the trigger's code was reached.
    `loaded_before`: the module existed before the thread imported it (mode `failing`: all modules,
    or the trigger, existed at the start). `replaced`: it put another object in its place in
    sys.modules. `trace` is what the shim wrote.
    """

    executed: bool = False
    error: str = ""
    traceback: str = ""
    loaded_before: bool = False
    replaced: bool = False
    trace: str = ""

    @property
    def excerpt(self) -> str:
        """The traceback, else the trace: evidence for a fault."""
        return self.traceback.strip() or self.trace.strip()


class Played(Struct, frozen=True, kw_only=True):
    """The runs of one race: the background imports `first`, the trigger needs `second`."""

    first: str
    second: str
    control: tuple[RaceRun, ...]
    with_shim: tuple[RaceRun, ...]

    @property
    def lost(self) -> int:
        """How many runs without the shim failed."""
        return len([run for run in self.control if run.error])

    @property
    def title(self) -> str:
        """The modules, as a reader names the race."""
        if self.first == self.second:
            return self.second
        return f"{self.second} while a thread imports {self.first}"


def judge_race(
    rule: PreloadRule, preload: Preload, played: Sequence[Played], *, exposed: bool, python: Path
) -> Check:
    """What the races of one module prove; the last of `played` is the lost one, if one was.

    `exposed`: whether this interpreter can lose the race of a module that replaces itself.
    """
    every: list[RaceRun] = []
    with_shim: list[RaceRun] = []
    for each in played:
        every += (*each.control, *each.with_shim)
        with_shim += each.with_shim
    unreached = [run for run in every if not run.executed]
    if unreached:
        return _out_of_reach(rule, preload, unreached, python)
    bad = [run for run in with_shim if run.error or not has_preloaded(run, rule, preload)]
    if bad:
        return _failed(rule, preload, bad, len(with_shim))
    if not played[-1].lost:
        return _not_needed(rule, preload, played, exposed=exposed, python=python)
    return _proven(rule, preload, played[-1])


def has_preloaded(run: RaceRun, rule: PreloadRule, preload: Preload) -> bool:
    """Whether the shim's trace shows it."""
    # The trailing space: the attributes follow, or the time.
    return f"{rule.trigger}: preloaded {preload.module} " in run.trace


def not_importable(rule: PreloadRule, preload: Preload, finding: Finding) -> Check:
    """The check of a module that cannot be imported alone: no race with it proves anything."""
    # An error is a crash or a hang. The armed shim brings it to every program that imports the
    # trigger.
    is_fatal = finding.severity is Severity.ERROR
    (reason,) = (each for each in rules.RULES if each.id == finding.rule)
    return Check(
        name=_name(rule, preload),
        outcome=CheckOutcome.FAILED if is_fatal else CheckOutcome.VOID,
        sentence=finding.summary,
        rule=reason,
        evidence="\n".join(each.excerpt for each in finding.evidence if each.excerpt),
        remedy=finding.remedy,
    )


def _name(rule: PreloadRule, preload: Preload) -> str:
    return f"race {rule.trigger}={preload.module}"


def _proven(rule: PreloadRule, preload: Preload, race: Played) -> Check:
    count = len(race.control)
    sentence = (
        f"{race.title}: lost in {race.lost} of {count} runs without the shim, "
        f"in 0 of {len(race.with_shim)} with it"
    )
    if race.lost < count:
        sentence += "; without it the race is a matter of chance"
    errors = [run.error for run in race.control if run.error]
    return Check(
        name=_name(rule, preload),
        outcome=CheckOutcome.PASSED,
        sentence=sentence,
        evidence=errors[0],
    )


def _out_of_reach(
    rule: PreloadRule, preload: Preload, unreached: Sequence[RaceRun], python: Path
) -> Check:
    """In the runs `unreached`, the stub in the trigger's place was not executed."""
    name = _name(rule, preload)
    trigger = rule.trigger
    if all(run.loaded_before for run in unreached):
        sentence = f"{trigger} is loaded at every start of {python} before a program can import it"
        return Check(name=name, outcome=CheckOutcome.VOID, sentence=sentence, rule=rules.UNPROVEN)
    for run in unreached:
        if run.error:
            return Check(
                name=name,
                outcome=CheckOutcome.VOID,
                sentence=f"{trigger} cannot be imported: {run.error}",
                rule=rules.UNPROVEN,
                evidence=run.traceback.strip(),
            )
    # The stub's finder is right behind the shim, and nothing called it.
    sentence = f"a finder in front of the shim loads {trigger}, so that the shim never sees it"
    return Check(
        name=name,
        outcome=CheckOutcome.FAILED,
        sentence=sentence,
        rule=rules.RACE_LOST,
        remedy="see what else runs at its start: `ci-doctor preload status`",
    )


def _failed(rule: PreloadRule, preload: Preload, bad: Sequence[RaceRun], runs: int) -> Check:
    module = preload.module
    worst = bad[0]
    for run in bad:
        if run.error:
            worst = run
            break
    if worst.error:
        sentence = f"{module}: with the shim {len(bad)} of {runs} runs fail: {worst.error}"
    else:
        sentence = (
            f"{module}: in {len(bad)} of {runs} runs the shim did not preload it "
            f"before {rule.trigger}"
        )
    texts = [worst.traceback.strip(), worst.trace.strip()]
    return Check(
        name=_name(rule, preload),
        outcome=CheckOutcome.FAILED,
        sentence=sentence,
        rule=rules.RACE_LOST,
        evidence="\n".join(text for text in texts if text),
        remedy=f"see what else imports {module}: `ci-doctor import-race -- CMD`",
    )


def _not_needed(
    rule: PreloadRule, preload: Preload, played: Sequence[Played], *, exposed: bool, python: Path
) -> Check:
    runs = sum(len(each.control) for each in played)
    reason = _why_not_lost(rule, preload, played[0].control, exposed=exposed)
    return Check(
        name=_name(rule, preload),
        outcome=CheckOutcome.NOT_NEEDED,
        sentence=(
            f"{preload.module}: the race is not lost without the shim either "
            f"(0 of {runs} runs): {reason}"
        ),
        rule=rules.NOT_NEEDED,
        remedy=f"remove the shim: ci-doctor preload remove --python {shlex.quote(str(python))}",
    )


def _why_not_lost(
    rule: PreloadRule, preload: Preload, control: Sequence[RaceRun], *, exposed: bool
) -> str:
    module = preload.module
    if all(run.loaded_before for run in control):
        return f"it is loaded already when {rule.trigger} runs"
    if not any(run.replaced for run in control):
        reason = f"{module} does not replace itself in sys.modules"
        if preload.attributes:
            return reason
        return f"{reason}, and the rule names no attributes whose own imports could race"
    if not exposed:
        return "this interpreter looks again after waiting (gh-143650)"
    return "the replacement is not missed: the rule's attributes are found in what was there before"
