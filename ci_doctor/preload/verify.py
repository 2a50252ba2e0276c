# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: proves that the shim of an interpreter is armed, cheap, and wins its race."""

from collections.abc import Callable

from msgspec.structs import replace

from ci_doctor.preload import rules
from ci_doctor.preload.armed import check_cost, judge_armed, judge_files, observe_start
from ci_doctor.preload.checks import Check, CheckOutcome
from ci_doctor.preload.preload_rule import PreloadRule, format_rule
from ci_doctor.preload.race import race_checks
from ci_doctor.preload.race_judgement import RaceRun, has_preloaded
from ci_doctor.preload.race_run import drive
from ci_doctor.preload.site import read_site
from ci_doctor.preload.target import Target

RUNS = 5
_KINDS = ("RuntimeError", "SystemExit")


def verify(
    target: Target, *, runs: int = RUNS, tell: Callable[[str], None] = lambda _: None
) -> tuple[Check, ...]:
    """Every check of the shim in `target`; a single void one if none is installed.

    The race of each rule is played `runs` times without the shim and as often with it. `tell` gets
    the name of each step before it begins. Raises UsageError and InfraError if `target` does not
    answer.
    """
    state = read_site(target.site_dir)
    if not state.rules:
        return (_not_installed(target),)
    tell("starts of the interpreter")
    ordinary = observe_start(target)
    isolated = observe_start(target, "-I")
    without_site = observe_start(target, "-S")
    checks = [
        judge_files(target, state, ordinary),
        judge_armed(target, ordinary, isolated, without_site),
        check_cost(target),
    ]
    for rule in state.rules:
        races = race_checks(target, rule, runs=runs, tell=tell)
        checks += [*races, *_in_child(target, rule, races, tell), *_failing(target, rule, tell)]
    return tuple(checks)


def _not_installed(target: Target) -> Check:
    return Check(
        name="files",
        outcome=CheckOutcome.VOID,
        sentence=f"no shim is installed in {target.site_dir}, so there is nothing to verify",
        rule=rules.UNPROVEN,
        remedy="install one: ci-doctor preload install --rule TRIGGER=MODULE",
    )


def _in_child(
    target: Target, rule: PreloadRule, races: tuple[Check, ...], tell: Callable[[str], None]
) -> list[Check]:
    """A spawned child, for the first module that can be imported at all."""
    for index, race in enumerate(races):
        if race.outcome in {CheckOutcome.PASSED, CheckOutcome.NOT_NEEDED}:
            tell(f"{rule.trigger}: a spawned child")
            words = ("spawn", format_rule(rule), str(index), str(index))
            run = drive(target.python, *words, shim=True)
            preloaded = has_preloaded(run, rule, rule.preloads[index])
            return [judge_child(rule, run, preloaded=preloaded)]
    return []


def judge_child(rule: PreloadRule, run: RaceRun, *, preloaded: bool) -> Check:
    """Whether a child of multiprocessing's spawn was armed, preloaded, and won the race."""
    name = f"spawned child {rule.trigger}"
    if not run.error and preloaded:
        sentence = f"{rule.trigger}: a spawned child preloads too"
        return Check(name=name, outcome=CheckOutcome.PASSED, sentence=sentence)
    reason = run.error or "it did not preload"
    return Check(
        name=name,
        outcome=CheckOutcome.FAILED,
        sentence=f"{rule.trigger}: a spawned child is not covered: {reason}",
        rule=rules.SPAWNED_CHILD,
        evidence=run.excerpt,
        remedy=rules.SPAWNED_CHILD.remedy,
    )


def _failing(target: Target, rule: PreloadRule, tell: Callable[[str], None]) -> list[Check]:
    """Preloads that fail; none if all modules of the rule are loaded before the trigger anyway."""
    # The trigger's own packages are imported before it.
    preloads = tuple(
        preload for preload in rule.preloads if not rule.trigger.startswith(f"{preload.module}.")
    )
    if not preloads:
        return []
    tell(f"{rule.trigger}: preloads that fail")
    text = format_rule(replace(rule, preloads=preloads))
    runs = {kind: drive(target.python, "failing", text, kind, shim=True) for kind in _KINDS}
    # Every start of this interpreter loads the modules.
    if any(run.loaded_before for run in runs.values()):
        return []
    return [judge_failing(rule, runs)]


def judge_failing(rule: PreloadRule, runs: dict[str, RaceRun]) -> Check:
    """Whether the trigger runs after a failed preload, and the real import raises its error again.

    `runs` are by the exception that each preload raised.
    """
    name = f"failing preload {rule.trigger}"
    for kind, run in runs.items():
        fault = _fault(kind, run)
        if fault is None:
            continue
        return Check(
            name=name,
            outcome=CheckOutcome.FAILED,
            sentence=f"{rule.trigger}: {fault}",
            rule=rules.FAILING_PRELOAD,
            evidence=run.excerpt,
            remedy=rules.FAILING_PRELOAD.remedy,
        )
    kinds = " or ".join(runs)
    sentence = (
        f"{rule.trigger} runs although a preload raises {kinds}, "
        "and the real import raises it again"
    )
    return Check(name=name, outcome=CheckOutcome.PASSED, sentence=sentence)


def _fault(kind: str, run: RaceRun) -> str | None:
    if not run.executed:
        return f"a preload that raises {kind} stops it: {run.error}"
    if "failed to preload" not in run.trace:
        return "the shim did not preload"
    if run.error != f"{kind}: first":
        other = run.error or "nothing"
        return f"a preload raised {kind}, and the real import raised something else: {other}"
    return None
