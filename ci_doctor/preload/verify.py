# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: proves that a shim is armed and wins a race that is lost without it; `preload status`."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ci_doctor.machine.start_files import watch_start
from ci_doctor.model.facts.preparing import (
    CheckOutcome,
    FileCondition,
    RefusedInterpreter,
    Shim,
    ShimCheck,
    StartFile,
    StatusFacts,
    VerifyFacts,
)
from ci_doctor.model.outcome import (
    Case,
    CaseOutcome,
    Evidence,
    Finding,
    Outcome,
    Row,
    Rule,
    Severity,
    Table,
    Verdict,
    row,
    seconds,
)
from ci_doctor.preload.install import EDITED_FILE, move_away
from ci_doctor.preload.interpreter import (
    Interpreters,
    Target,
    each_interpreter,
    inspect_interpreter,
    worst,
)
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rules
from ci_doctor.preload.start_files import (
    FINDER,
    PATH_FILE,
    SiteState,
    read_site,
    rules_from,
    shim_files,
)
from ci_doctor.preload.trial import RULES as TRIAL_RULES
from ci_doctor.preload.trial import (
    ObservedStart,
    Played,
    RaceRun,
    observe_start,
    play,
    try_preloads,
)

NOT_ARMED: Final = Rule(
    id="preload/not-armed",
    severity=Severity.ERROR,
    meaning=(
        "A start of the interpreter does not arm the shim exactly once, "
        "or preloads before any trigger is imported."
    ),
    remedy=(
        "See what else runs at its start (`ci-doctor preload status`), and install the shim again."
    ),
)
RACE_LOST: Final = Rule(
    id="preload/race-lost",
    severity=Severity.ERROR,
    meaning=(
        "With the shim armed, a program that imports the trigger still fails, "
        "or the module was not preloaded."
    ),
    remedy=(
        "Read the traceback. If another module races, `ci-doctor import-race -- CMD` names it "
        "and prints the rule."
    ),
)
NOT_NEEDED: Final = Rule(
    id="preload/not-needed",
    severity=Severity.NOTE,
    meaning=(
        "The race is not lost without the shim either: the interpreter looks again after waiting, "
        "or the module does not replace itself. A stub cannot play every import cycle; "
        "`ci-doctor import-race` watches the real program."
    ),
    remedy="Remove the shim with `ci-doctor preload remove`.",
)
UNPROVEN: Final = Rule(
    id="preload/unproven",
    severity=Severity.WARNING,
    meaning=(
        "Nothing could be proven: no shim is installed, "
        "or what it guards is loaded before a program can import it."
    ),
    remedy="Supply what the message reports as missing. This never counts as a pass.",
)
RULES: Final = (NOT_ARMED, RACE_LOST, NOT_NEEDED, UNPROVEN)

RUNS = 5
_BY_ID: Final = {rule.id: rule for rule in (*RULES, EDITED_FILE, *TRIAL_RULES)}
_SEVERITY: Final = {
    CheckOutcome.FAILED: Severity.ERROR,
    CheckOutcome.VOID: Severity.WARNING,
    CheckOutcome.NOT_NEEDED: Severity.NOTE,
}
_CASES: Final = {
    CheckOutcome.PASSED: CaseOutcome.PASSED,
    CheckOutcome.NOT_NEEDED: CaseOutcome.PASSED,
    CheckOutcome.FAILED: CaseOutcome.FAILED,
    CheckOutcome.VOID: CaseOutcome.ERROR,
}


def verify(
    interpreters: Interpreters,
    *,
    runs: int = RUNS,
    tell: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Prove for each interpreter that its shim is armed, and wins the race of each rule.

    Each race is played `runs` times without the shim and as often with it; `tell` gets the name of
    each step before it begins. Raises UsageError if there is no interpreter.
    """

    def look(python: Path) -> tuple[ShimCheck, ...]:
        return verify_shim(inspect_interpreter(python), runs=runs, tell=tell)

    results, refused = each_interpreter(interpreters, environ, look)
    checks = [check for result in results for check in result]
    verdict: Verdict | None = verdict_of(checks)
    refused_verdict, error = worst(refused)
    # A shim that failed is the worse news.
    if refused and verdict is not Verdict.FAILED:
        verdict = refused_verdict
    return Outcome(
        verdict=verdict,
        error=error,
        summary=_summary(checks),
        findings=findings_of(checks),
        tables=(*map(_table, results), *(each.table for each in refused)),
        facts=VerifyFacts(
            checks=tuple(checks),
            refused=tuple(
                RefusedInterpreter(
                    python=str(each.python), site_dir=each.site_dir, refused=each.refusal
                )
                for each in refused
            ),
        ),
        cases=tuple(map(_case, checks)),
    )


def verify_shim(
    target: Target, *, runs: int = RUNS, tell: Callable[[str], None] = lambda _: None
) -> tuple[ShimCheck, ...]:
    """Every check of the shim in `target`; a single void one if none is installed.

    Raises UsageError and InfraError if `target` does not answer.
    """
    state = read_site(target.site_dir)
    if not {FileCondition.OURS, FileCondition.EDITED} & {*state.conditions.values()}:
        return (
            ShimCheck(
                python=str(target.python),
                name="files",
                outcome=CheckOutcome.VOID,
                sentence=f"no shim is installed in {target.site_dir}, so there is nothing to verify",
                rule=UNPROVEN.id,
                remedy="install one: ci-doctor preload install --rule TRIGGER=MODULE",
            ),
        )
    tell("starts of the interpreter")
    ordinary = observe_start(target)
    isolated = observe_start(target, "-I")
    without_site = observe_start(target, "-S")
    checks = [
        judge_files(target, state, ordinary),
        judge_armed(target, ordinary, isolated, without_site),
    ]
    for rule in state.rules:
        checks += [
            race_check(target, rule, index, runs=runs, tell=tell)
            for index in range(len(rule.preloads))
        ]
    return tuple(checks)


def verdict_of(checks: Sequence[ShimCheck]) -> Verdict:
    """`failed` if a check failed, else `void` if one is void or there is none, else `pass`."""
    outcomes = {check.outcome for check in checks}
    if CheckOutcome.FAILED in outcomes:
        return Verdict.FAILED
    if CheckOutcome.VOID in outcomes or not outcomes:
        return Verdict.VOID
    return Verdict.PASS


def findings_of(checks: Sequence[ShimCheck]) -> tuple[Finding, ...]:
    """One finding for each check that did not pass."""
    return tuple(
        _BY_ID[check.rule].finding(
            check.sentence,
            evidence=(Evidence(excerpt=check.evidence),) if check.evidence else (),
            remedy=check.remedy,
            severity=_SEVERITY[check.outcome],
        )
        for check in checks
        if check.rule is not None
    )


def judge_files(target: Target, state: SiteState, ordinary: ObservedStart) -> ShimCheck:
    """Whether the files are as they were written, and the armed rules those of the finder."""
    faults = []
    remedy = "install it again: `ci-doctor preload install` with its rules"
    for name, condition in state.conditions.items():
        if condition is not FileCondition.OURS:
            faults.append(f"{name} is {condition}")
        if condition not in {FileCondition.OURS, FileCondition.ABSENT}:
            remedy = move_away(target.site_dir / name)
    sentence = f"{len(state.conditions)} files as they were written, rules as in {FINDER}"
    if faults:
        what = ", ".join(faults)
        sentence = f"the shim in {target.site_dir} is not as it was written: {what}"
    elif ordinary.armed and set(rules_from(ordinary.rules or {})) != set(state.rules):
        faults.append("rules")
        sentence = f"the rules that {target.python} has armed are not those in {FINDER}"
    return ShimCheck(
        python=str(target.python),
        name="files",
        outcome=CheckOutcome.FAILED if faults else CheckOutcome.PASSED,
        sentence=sentence,
        rule=EDITED_FILE.id if faults else None,
        remedy=remedy if faults else None,
    )


def judge_armed(
    target: Target, ordinary: ObservedStart, isolated: ObservedStart, without_site: ObservedStart
) -> ShimCheck:
    """Whether each start has armed the shim once and left it idle.

    `-S` reads no `.pth`, so the check reports it and does not judge it.
    """
    python = str(target.python)
    for words, start in (("an ordinary start", ordinary), ("a start with -I", isolated)):
        if start.armed != 1:
            fault = f"{words} of {python} arms the shim {start.armed} times, not once"
        elif start.runtime or start.trace:
            fault = f"{words} of {python} already preloads"
        else:
            continue
        return ShimCheck(
            python=python,
            name="armed",
            outcome=CheckOutcome.FAILED,
            sentence=fault,
            rule=NOT_ARMED.id,
            evidence=start.trace,
            remedy=NOT_ARMED.remedy,
        )
    skipped = "-S is not covered" if not without_site.armed else "under -S something else arms it"
    sentence = f"armed once and idle, under -I too; {skipped}"
    return ShimCheck(python=python, name="armed", outcome=CheckOutcome.PASSED, sentence=sentence)


def race_check(
    target: Target,
    rule: PreloadRule,
    index: int,
    *,
    runs: int,
    tell: Callable[[str], None] = lambda _: None,
) -> ShimCheck:
    """The race of the module number `index` of `rule`, played and judged.

    A module that cannot be imported alone is not played: no race with it proves anything. Raises
    UsageError and InfraError if `target` does not answer.
    """
    preload = rule.preloads[index]
    tell(f"{preload.module}: a trial import")
    for finding in try_preloads(target, [PreloadRule(trigger=rule.trigger, preloads=(preload,))]):
        is_fatal = finding.severity is Severity.ERROR
        # An error is a crash or a hang. The armed shim brings it to every program that imports the
        # trigger.
        return ShimCheck(
            python=str(target.python),
            name=_name(rule, preload),
            outcome=CheckOutcome.FAILED if is_fatal else CheckOutcome.VOID,
            sentence=finding.summary,
            rule=finding.rule,
            evidence="\n".join(each.excerpt for each in finding.evidence if each.excerpt),
            remedy=finding.remedy,
        )
    played = play(target, rule, index, runs=runs, tell=tell)
    return judge_race(target.python, rule, preload, played)


def _name(rule: PreloadRule, preload: Preload) -> str:
    return f"race {rule.trigger}={preload.module}"


def judge_race(
    python: Path, rule: PreloadRule, preload: Preload, played: Sequence[Played]
) -> ShimCheck:
    """What the races of one module prove; the last of `played` is the lost one, if one was."""
    module, trigger = preload.module, rule.trigger
    with_shim = [run for each in played for run in each.with_shim]
    control = [run for each in played for run in each.control]
    unreached = [run for run in (*control, *with_shim) if not run.executed]
    # The trailing space: the attributes follow, or the time.
    preloaded = f"{trigger}: preloaded {module} "
    bad = [run for run in with_shim if run.error or preloaded not in run.trace]
    bad.sort(key=lambda run: not run.error)
    outcome = CheckOutcome.FAILED
    reason: Rule | None = RACE_LOST
    evidence = ""
    remedy: str | None = f"see what else imports {module}: `ci-doctor import-race -- CMD`"
    if unreached:
        broken = next((run for run in unreached if run.error), None)
        # The stub's finder is right behind the shim, and nothing called it.
        sentence = f"a finder in front of the shim loads {trigger}, so that the shim never sees it"
        remedy = "see what else runs at its start: `ci-doctor preload status`"
        if broken or all(run.loaded_before for run in unreached):
            outcome, reason, remedy = CheckOutcome.VOID, UNPROVEN, None
            sentence = (
                f"{trigger} is loaded at every start of {python} before a program can import it"
            )
        if broken:
            sentence = f"{trigger} cannot be imported: {broken.error}"
            evidence = broken.traceback.strip()
    elif bad:
        count = f"{len(bad)} of {len(with_shim)} runs"
        sentence = f"{module}: in {count} the shim did not preload it before {trigger}"
        if bad[0].error:
            sentence = f"{module}: with the shim {count} fail: {bad[0].error}"
        evidence = "\n".join(filter(None, (bad[0].traceback.strip(), bad[0].trace.strip())))
    elif not played[-1].lost:
        outcome, reason = CheckOutcome.NOT_NEEDED, NOT_NEEDED
        why = _why_not_lost(rule, preload, played[0].control)
        runs = f"0 of {len(control)} runs"
        sentence = f"{module}: the race is not lost without the shim either ({runs}): {why}"
        remedy = f"remove the shim: ci-doctor preload remove --python {shlex.quote(str(python))}"
    else:
        outcome, reason, remedy = CheckOutcome.PASSED, None, None
        sentence, evidence = _proven(played[-1])
    return ShimCheck(
        python=str(python),
        name=_name(rule, preload),
        outcome=outcome,
        sentence=sentence,
        evidence=evidence,
        rule=reason.id if reason else None,
        remedy=remedy,
    )


def _proven(race: Played) -> tuple[str, str]:
    """That the race was lost without the shim and won with it, and an error of a lost run."""
    title = race.second
    if race.first != race.second:
        title = f"{race.second} while a thread imports {race.first}"
    count = len(race.control)
    sentence = (
        f"{title}: lost in {race.lost} of {count} runs without the shim, "
        f"in 0 of {len(race.with_shim)} with it"
    )
    if race.lost < count:
        sentence += "; without it the race is a matter of chance"
    return sentence, next(run.error for run in race.control if run.error)


def _why_not_lost(rule: PreloadRule, preload: Preload, control: Sequence[RaceRun]) -> str:
    module = preload.module
    if all(run.loaded_before for run in control):
        return f"it is loaded already when {rule.trigger} runs"
    if not any(run.replaced for run in control):
        reason = f"{module} does not replace itself in sys.modules"
        if preload.attributes:
            return reason
        return f"{reason}, and the rule names no attributes whose own imports could race"
    return (
        "this interpreter looks again after waiting (gh-143650), or the rule's attributes are found "
        "in what was there before"
    )


def _summary(checks: Sequence[ShimCheck]) -> str:
    """What the checks prove together, the worst first."""
    if not checks:
        return "no interpreter could be examined"
    counts = Counter(check.outcome for check in checks)
    if counts[CheckOutcome.FAILED]:
        return f"{counts[CheckOutcome.FAILED]} of {len(checks)} checks of the shim failed"
    if counts[CheckOutcome.VOID]:
        return f"{counts[CheckOutcome.VOID]} of {len(checks)} checks of the shim prove nothing"
    if not counts[CheckOutcome.NOT_NEEDED]:
        return "the race is lost without the shim, and won with it"
    races = [check for check in checks if check.name.startswith("race ")]
    if any(check.outcome is CheckOutcome.PASSED for check in races):
        return "the shim works, and part of it is no longer needed"
    return "the shim works, and it is no longer needed"


def _table(checks: Sequence[ShimCheck]) -> Table:
    rows = []
    for check in checks:
        rows.append(row(str(check.outcome), check.sentence))
        if check.outcome is CheckOutcome.PASSED and check.evidence:
            rows.append(row("without it", check.evidence))
    return Table(title=checks[0].python, rows=tuple(rows))


def _case(check: ShimCheck) -> Case:
    passed = check.outcome is CheckOutcome.PASSED
    return Case(
        group=f"preload verify {check.python}",
        name=check.name,
        outcome=_CASES[check.outcome],
        message=None if passed else check.sentence,
        detail=None if passed else check.evidence or None,
    )


# Characters of a `.pth` line that are shown.
_WIDTH = 60


def status(interpreters: Interpreters, *, environ: Mapping[str, str] = os.environ) -> Outcome:
    """Which shim each interpreter has, its condition, and what else runs at every start.

    Nothing is judged. Raises UsageError if there is no interpreter.
    """
    tables: list[Table] = []
    shims: list[Shim] = []

    def look(python: Path) -> None:
        target = inspect_interpreter(python)
        shim = shim_of(target)
        files = watch_start(python).files
        shims.append(replace(shim, start_up=files))
        start_up = _start_up_table(python, files, target.site_dir)
        tables.extend([_shim_table(shim), start_up])

    _, refused = each_interpreter(interpreters, environ, look)
    for each in refused:
        tables.append(each.table)
        shims.append(
            Shim(
                python=str(each.python),
                site_dir=each.site_dir,
                state="refused",
                refused=each.refusal,
            )
        )
    installed = sum(shim.installed for shim in shims)
    verdict, error = worst(refused)
    return Outcome(
        verdict=verdict,
        error=error,
        summary=f"a shim is installed in {installed} of {len(shims)} interpreters",
        tables=tuple(tables),
        facts=StatusFacts(shims=tuple(shims)),
    )


def shim_of(target: Target) -> Shim:
    """The shim of `target`, as it lies in its site directory."""
    state = read_site(target.site_dir)
    return Shim(
        python=str(target.python),
        version=target.version_text,
        site_dir=str(target.site_dir),
        installed=state.is_whole,
        outdated=state.is_whole and state.contents != shim_files(state.rules),
        rules=format_rules(state.rules),
        files=state.conditions,
        cut_off=tuple(map(str, state.cut_off)),
    )


def _shim_table(shim: Shim) -> Table:
    rows = [row("site directory", shim.site_dir)]
    rows += [row("rule", text) for text in shim.rules]
    if not shim.rules:
        rows.append(row("no rule"))
    rows += [row(name, str(condition)) for name, condition in shim.files.items()]
    if shim.outdated:
        rows.append(
            row(
                "written by another version of ci-doctor",
                "`ci-doctor preload install` with the same rules updates it",
            )
        )
    clears = "remainder of a write; the next install or remove clears it"
    rows += [row(Path(path).name, clears) for path in shim.cut_off]
    return Table(title=shim.python, rows=tuple(rows))


def _start_up_table(python: Path, files: Sequence[StartFile], site_dir: Path) -> Table:
    """What runs at every start, and the time that it takes."""
    rows: list[Row] = []
    for file in files:
        path = Path(file.path)
        name = path.name if path.parent == site_dir else file.path
        note = "this shim" if path.name == PATH_FILE else ""
        rows.append(row(name, seconds(file.cost_us / 1e6), note))
        # A `.pth` line may hold a whole program.
        shown = (line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in file.lines)
        rows += [row("", "runs", line) for line in shown]
    return Table(
        title=f"Start-up files of {python}",
        rows=tuple(rows) or (row("nothing runs at every start"),),
    )
