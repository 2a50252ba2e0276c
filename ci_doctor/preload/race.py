# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: proves that a rule's race is lost without the shim and won with it, in one interpreter."""

import itertools
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.preload.checks import Check, CheckOutcome
from ci_doctor.preload.immunity import self_replacement_race
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule
from ci_doctor.preload.race_run import RaceRun, drive
from ci_doctor.preload.target import Target
from ci_doctor.preload.trial import try_preloads


class Played(Struct, frozen=True, kw_only=True):
    """The runs of one race: `first` is what the background imports, `second` is what the trigger needs."""

    first: str
    second: str
    control: tuple[RaceRun, ...]
    with_shim: tuple[RaceRun, ...]

    @property
    def lost(self) -> int:
        """How many runs without the shim failed."""
        return sum(bool(run.error) for run in self.control)


def race_checks(
    target: Target, rule: PreloadRule, *, runs: int, tell: Callable[[str], None] = lambda _: None
) -> tuple[Check, ...]:
    """One check for each module of `rule`, each of `runs` runs with the shim and as many without; none is left out.

    A module that does not replace itself is played against each other module of the rule too, which is how an import
    cycle is lost. `tell` is called before each run. Raises UsageError and InfraError where `target` cannot be asked.
    """
    return tuple(_check(target, rule, index, runs, tell) for index in range(len(rule.preloads)))


def _check(
    target: Target, rule: PreloadRule, index: int, runs: int, tell: Callable[[str], None]
) -> Check:
    preload = rule.preloads[index]
    tell(f"{preload.module}: a trial import")
    trial = try_preloads(target, [PreloadRule(trigger=rule.trigger, preloads=(preload,))])
    if trial:
        return _not_importable(rule, preload, trial[0])
    played: list[Played] = []
    for first, second in _pairs(len(rule.preloads), index):
        played.append(_play(target, rule, first, second, runs, tell))
        if played[-1].lost:
            break
    exposed = (
        played[-1].lost > 0
        or not played[0].control[0].replaced
        or self_replacement_race(target.python)
    )
    return judge_race(rule, preload, played, exposed=exposed, python=target.python)


def _pairs(count: int, index: int) -> Iterator[tuple[int, int]]:
    """The module against itself, then against the others, in both orders."""
    yield index, index
    for other in range(count):
        if other != index:
            yield index, other
            yield other, index


def _play(
    target: Target,
    rule: PreloadRule,
    first: int,
    second: int,
    runs: int,
    tell: Callable[[str], None],
) -> Played:
    names = (rule.preloads[first].module, rule.preloads[second].module)
    text = format_rule(rule)
    results: dict[bool, list[RaceRun]] = {False: [], True: []}
    for number, shim in enumerate(itertools.chain.from_iterable([(False, True)] * runs), 1):
        tell(f"{' against '.join(dict.fromkeys(names))}: run {number} of {2 * runs}")
        results[shim].append(drive(target.python, "race", text, str(first), str(second), shim=shim))
    return Played(
        first=names[0],
        second=names[1],
        control=tuple(results[False]),
        with_shim=tuple(results[True]),
    )


def judge_race(
    rule: PreloadRule, preload: Preload, played: Sequence[Played], *, exposed: bool, python: Path
) -> Check:
    """What the races of one module say; the last of `played` is the one that was lost, if one was.

    `exposed`: whether this interpreter can lose the race of a module that replaces itself.
    """
    name = f"race {rule.trigger}={preload.module}"
    runs = [run for each in played for run in each.with_shim]
    bad = [run for run in runs if run.error or not has_preloaded(run, rule, preload)]
    passed_by = [
        run for each in played for run in (*each.control, *each.with_shim) if not run.executed
    ]
    if passed_by:
        return _out_of_reach(name, rule, passed_by, python)
    if bad:
        return _failed(name, rule, preload, bad, len(runs))
    last = played[-1]
    if not last.lost:
        return _not_needed(name, rule, preload, played, exposed=exposed, python=python)
    race = (
        f"{last.second} while a thread imports {last.first}"
        if last.first != last.second
        else last.second
    )
    how_often = f"{last.lost} of {len(last.control)}"
    chance = "" if last.lost == len(last.control) else "; without it the race is a matter of chance"
    return Check(
        name=name,
        outcome=CheckOutcome.PASSED,
        sentence=f"{race}: lost in {how_often} runs without the shim, in 0 of {len(last.with_shim)} with it{chance}",
        evidence=next(run.error for run in last.control if run.error),
    )


def has_preloaded(run: RaceRun, rule: PreloadRule, preload: Preload) -> bool:
    """Whether the shim says so in its trace."""
    said = f"{rule.trigger}: preloaded {preload.module} "  # what follows is its attributes, or how long it took
    return said in run.trace


def _out_of_reach(
    name: str, rule: PreloadRule, passed_by: Sequence[RaceRun], python: Path
) -> Check:
    """The stub in the trigger's place was not executed in the runs `passed_by`."""
    if all(run.loaded_before for run in passed_by):
        sentence = (
            f"{rule.trigger} is loaded at every start of {python} before a program can import it"
        )
        return Check(
            name=name, outcome=CheckOutcome.VOID, sentence=sentence, rule="preload/unproven"
        )
    wrong = next((run for run in passed_by if run.error), None)
    if wrong:
        sentence = f"{rule.trigger} cannot be imported: {wrong.error}"
        outcome, evidence = CheckOutcome.VOID, wrong.traceback.strip()
        return Check(
            name=name,
            outcome=outcome,
            sentence=sentence,
            rule="preload/unproven",
            evidence=evidence,
        )
    return Check(  # what stands right behind the shim was not asked for it
        name=name,
        outcome=CheckOutcome.FAILED,
        sentence=f"a finder in front of the shim loads {rule.trigger}, so that the shim never sees it",
        rule="preload/race-lost",
        remedy="see what else runs at its start: `ci-doctor preload status`",
    )


def _failed(
    name: str, rule: PreloadRule, preload: Preload, bad: Sequence[RaceRun], runs: int
) -> Check:
    worst = next((run for run in bad if run.error), bad[0])
    if worst.error:
        sentence = f"{preload.module}: with the shim {len(bad)} of {runs} runs fail: {worst.error}"
    else:
        sentence = f"{preload.module}: in {len(bad)} of {runs} runs the shim did not preload it before {rule.trigger}"
    return Check(
        name=name,
        outcome=CheckOutcome.FAILED,
        sentence=sentence,
        rule="preload/race-lost",
        evidence="\n".join(text for text in (worst.traceback.strip(), worst.trace.strip()) if text),
        remedy=f"see what else imports {preload.module}: `ci-doctor import-race -- CMD`",
    )


def _not_needed(
    name: str,
    rule: PreloadRule,
    preload: Preload,
    played: Sequence[Played],
    *,
    exposed: bool,
    python: Path,
) -> Check:
    runs = sum(len(each.control) for each in played)
    return Check(
        name=name,
        outcome=CheckOutcome.NOT_NEEDED,
        sentence=f"{preload.module}: the race is not lost without the shim either (0 of {runs} runs): "
        f"{_why_not(rule, preload, played[0].control, exposed=exposed)}",
        rule="preload/not-needed",
        remedy=f"take the shim out: ci-doctor preload remove --python {shlex.quote(str(python))}",
    )


def _why_not(
    rule: PreloadRule, preload: Preload, control: Sequence[RaceRun], *, exposed: bool
) -> str:
    module = preload.module
    if all(run.loaded_before for run in control):
        return f"it is loaded already when {rule.trigger} runs"
    if not any(run.replaced for run in control):
        lacking = (
            ""
            if preload.attributes
            else ", and the rule names no attributes whose own imports could race"
        )
        return f"{module} does not replace itself in sys.modules{lacking}"
    if not exposed:
        return "this interpreter looks again after waiting (gh-143650)"
    return "what it replaces itself with is not missed: the rule's attributes are found in what was there before"


def _not_importable(rule: PreloadRule, preload: Preload, finding: Finding) -> Check:
    """The module cannot be imported by itself, so no race with it proves anything."""
    return Check(
        name=f"race {rule.trigger}={preload.module}",
        # An error is a crash or a hang, which the armed shim now brings to every program that imports the trigger.
        outcome=CheckOutcome.FAILED if finding.severity is Severity.ERROR else CheckOutcome.VOID,
        sentence=finding.summary,
        rule=finding.rule,
        evidence="\n".join(each.excerpt for each in finding.evidence if each.excerpt),
        remedy=finding.remedy,
    )
