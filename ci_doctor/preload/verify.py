# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: proves that the shim of an interpreter is armed, cheap, and wins the race that it is there for."""

from collections.abc import Callable

from msgspec.structs import replace

from ci_doctor.preload.armed import check_cost, judge_armed, judge_files, see_start
from ci_doctor.preload.checks import Check, CheckOutcome
from ci_doctor.preload.preload_rule import PreloadRule, format_rule
from ci_doctor.preload.race import has_preloaded, race_checks
from ci_doctor.preload.race_run import RaceRun, drive
from ci_doctor.preload.site import read_site
from ci_doctor.preload.target import Target

RUNS = 5
_KINDS = ("RuntimeError", "SystemExit")


def verify(
    target: Target, *, runs: int = RUNS, tell: Callable[[str], None] = lambda _: None
) -> tuple[Check, ...]:
    """Every check of the shim in `target`; a single void one where none is installed.

    The race of each rule is played `runs` times without the shim and as often with it. `tell` hears what is done next.
    Raises UsageError and InfraError where `target` cannot be asked.
    """
    state = read_site(target.site_dir)
    if not state.rules:
        sentence = f"no shim is installed in {target.site_dir}, so there is nothing to verify"
        return (
            Check(
                name="files",
                outcome=CheckOutcome.VOID,
                sentence=sentence,
                rule="preload/unproven",
                remedy="install one: ci-doctor preload install --rule TRIGGER=MODULE",
            ),
        )
    tell("starts of the interpreter")
    ordinary = see_start(target)
    checks = [
        judge_files(target, state, ordinary),
        judge_armed(target, ordinary, see_start(target, "-I"), see_start(target, "-S")),
        check_cost(target),
    ]
    for rule in state.rules:
        races = race_checks(target, rule, runs=runs, tell=tell)
        checks += [*races, *_in_child(target, rule, races, tell), *_failing(target, rule, tell)]
    return tuple(checks)


def _in_child(
    target: Target, rule: PreloadRule, races: tuple[Check, ...], tell: Callable[[str], None]
) -> list[Check]:
    """A spawned child, for the first module that can be imported at all."""
    proven = [
        index
        for index, race in enumerate(races)
        if race.outcome in {CheckOutcome.PASSED, CheckOutcome.NOT_NEEDED}
    ]
    if not proven:
        return []
    tell(f"{rule.trigger}: a spawned child")
    index = proven[0]
    run = drive(target.python, "spawn", format_rule(rule), str(index), str(index), shim=True)
    return [judge_child(rule, run, preloaded=has_preloaded(run, rule, rule.preloads[index]))]


def judge_child(rule: PreloadRule, run: RaceRun, *, preloaded: bool) -> Check:
    """Whether a child of multiprocessing's spawn was armed, preloaded, and won the race."""
    name = f"spawned child {rule.trigger}"
    if not run.error and preloaded:
        return Check(
            name=name,
            outcome=CheckOutcome.PASSED,
            sentence=f"{rule.trigger}: a spawned child preloads too",
        )
    said = run.error or "it did not preload"
    return Check(
        name=name,
        outcome=CheckOutcome.FAILED,
        sentence=f"{rule.trigger}: a spawned child is not covered: {said}",
        rule="preload/spawned-child",
        evidence=run.traceback.strip() or run.trace.strip(),
    )


def _failing(target: Target, rule: PreloadRule, tell: Callable[[str], None]) -> list[Check]:
    """What the trigger's own package is cannot fail in the preload: it is imported before the trigger anyway.

    Nor can what every start loads.
    """
    preloads = tuple(
        each for each in rule.preloads if not rule.trigger.startswith(f"{each.module}.")
    )
    if not preloads:
        return []
    tell(f"{rule.trigger}: preloads that fail")
    text = format_rule(replace(rule, preloads=preloads))
    runs = {kind: drive(target.python, "failing", text, kind, shim=True) for kind in _KINDS}
    if any(run.loaded_before for run in runs.values()):
        return []
    return [judge_failing(rule, runs)]


def judge_failing(rule: PreloadRule, runs: dict[str, RaceRun]) -> Check:
    """`runs` by the exception that each preload raised: the trigger must run, and the real import must raise it again."""
    name = f"failing preload {rule.trigger}"
    for kind, run in runs.items():
        if not run.executed:
            wrong = f"a preload that raises {kind} stops it: {run.error}"
        elif "failed to preload" not in run.trace:
            wrong = "the shim did not preload"
        elif run.error != f"{kind}: first":
            wrong = f"a preload raised {kind}, and the real import told something else: {run.error or 'nothing'}"
        else:
            continue
        return Check(
            name=name,
            outcome=CheckOutcome.FAILED,
            sentence=f"{rule.trigger}: {wrong}",
            rule="preload/failing-preload",
            evidence=run.traceback.strip() or run.trace.strip(),
        )
    sentence = f"{rule.trigger} runs although a preload raises {' or '.join(runs)}, and the real import raises it again"
    return Check(name=name, outcome=CheckOutcome.PASSED, sentence=sentence)
