# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: puts shims into interpreters, all or none, and removes them."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import structs

from ci_doctor.errors import CiDoctorError, PreparationError
from ci_doctor.model.finding import Severity
from ci_doctor.preload.apply import SiteSnapshot, apply, changes, put_back, remember
from ci_doctor.preload.inspection import former_targets, inspect_interpreter
from ci_doctor.preload.plan import plan_drop, plan_install, plan_remove
from ci_doctor.preload.preload_rule import PreloadRule, merge
from ci_doctor.preload.preset_fit import PresetUse
from ci_doctor.preload.preset_versions import findings_about, preset_states, rules_for
from ci_doctor.preload.result import InstallResult, Refused, Result
from ci_doctor.preload.site import read_site
from ci_doctor.preload.start import loads
from ci_doctor.preload.target import Target
from ci_doctor.preload.trial import TRIAL_TIMEOUT_S, try_preloads
from ci_doctor.preload.unreachable import refuse_unreachable

NO_PRESETS = PresetUse()
TargetPlan = Callable[[Target], InstallResult]


def install_each(
    pythons: Sequence[Path | Refused],
    rules: Sequence[PreloadRule],
    *,
    dry_run: bool,
    replace: bool = False,
    presets: PresetUse = NO_PRESETS,
    trial_timeout_s: float = TRIAL_TIMEOUT_S,
) -> tuple[Result, ...]:
    """Arm `rules` in each of `pythons`, besides those armed before, or with `replace` alone.

    Rules of `presets` are armed too where they may hold.

    A refusal among `pythons` is handed on. Interpreters that share a site directory count once. All
    are examined before the first is changed: if one is refused, none is changed. If something
    changes, the modules to preload are first imported in a child, in a dry run too.
    """
    return _each(
        pythons,
        lambda target: _plan_wanted(target, rules, presets, replace, trial_timeout_s),
        dry_run=dry_run,
    )


def remove_each(
    pythons: Sequence[Path | Refused], *, dry_run: bool, trigger: str | None = None
) -> tuple[Result, ...]:
    """Remove the shim, or the rule of `trigger`, from each of `pythons`: as `install_each`.

    A virtual environment that was upgraded to another minor version has site directories that its
    interpreter no longer reads; a shim in one of them is a result of its own.
    """
    return _each(
        pythons,
        lambda target: _plan_remove(target, trigger),
        dry_run=dry_run,
        with_former=trigger is None,
    )


def install_shims(
    pythons: Sequence[Path],
    rules: Sequence[PreloadRule],
    *,
    dry_run: bool,
    presets: PresetUse = NO_PRESETS,
    trial_timeout_s: float = TRIAL_TIMEOUT_S,
) -> tuple[InstallResult, ...]:
    """As `install_each`, for callers that need all interpreters.

    Raises the first refusal, a UsageError, PreparationError or InfraError.
    """
    results = install_each(
        pythons, rules, dry_run=dry_run, presets=presets, trial_timeout_s=trial_timeout_s
    )
    return _all(results)


def remove_shims(pythons: Sequence[Path], *, dry_run: bool) -> tuple[InstallResult, ...]:
    """As `remove_each`; raises as `install_shims` does."""
    return _all(remove_each(pythons, dry_run=dry_run))


def former_shims(target: Target) -> Iterator[Target]:
    """The site directories of former minor versions that hold something of a shim, as targets."""
    for former in former_targets(target):
        if not read_site(former.site_dir).is_empty:
            yield former


def _plan_wanted(
    target: Target,
    rules: Sequence[PreloadRule],
    presets: PresetUse,
    replace: bool,
    trial_timeout_s: float,
) -> InstallResult:
    states = preset_states(target, presets.names)
    findings = findings_about(target, states, force=presets.force)
    wanted = rules_for(states, rules, force=presets.force)
    if wanted:
        result = _plan_install(target, wanted, replace, trial_timeout_s)
    else:
        result = InstallResult(target=target, actions=(), rules=read_site(target.site_dir).rules)
    return structs.replace(result, presets=states, findings=(*findings, *result.findings))


def _plan_install(
    target: Target, rules: Sequence[PreloadRule], replace: bool, trial_timeout_s: float
) -> InstallResult:
    refuse_unreachable(target, rules)
    actions = plan_install(target, rules, replace=replace)
    armed = merge(() if replace else read_site(target.site_dir).rules, rules)
    # All files are right, and still the modules cannot be imported: their bytecode is damaged.
    if not changes(actions) and not loads(target):
        actions = plan_install(target, rules, replace=replace, compile_anew=True)
    findings = try_preloads(target, rules, timeout_s=trial_timeout_s) if changes(actions) else ()
    for finding in findings:
        if finding.severity is Severity.ERROR:
            summary = f"{finding.summary}; no shim was changed"
            raise PreparationError(summary, hint=finding.remedy, findings=findings)
    return InstallResult(target=target, actions=actions, rules=armed, findings=findings)


def _plan_remove(target: Target, trigger: str | None) -> InstallResult:
    if trigger is None:
        return InstallResult(target=target, actions=plan_remove(target))
    armed = read_site(target.site_dir).rules
    rest = tuple(rule for rule in armed if rule.trigger != trigger)
    return InstallResult(target=target, actions=plan_drop(target, trigger), rules=rest)


def _each(
    pythons: Sequence[Path | Refused], plan: TargetPlan, *, dry_run: bool, with_former: bool = False
) -> tuple[Result, ...]:
    candidates = _targets(pythons, with_former=with_former)
    with contextlib.ExitStack() as locks:
        if not dry_run:
            locks.enter_context(_alone_in(candidates))
        results = [_planned(candidate, plan) for candidate in candidates]
        planned = [result for result in results if isinstance(result, InstallResult)]
        if dry_run or len(planned) < len(results):
            return tuple(results)
        return _applied(planned)


def _planned(candidate: Target | Refused, plan: TargetPlan) -> Result:
    if isinstance(candidate, Refused):
        return candidate
    try:
        return plan(candidate)
    except CiDoctorError as error:
        return Refused(python=candidate.python, error=error, target=candidate)


def _applied(results: Sequence[InstallResult]) -> tuple[Result, ...]:
    """Carry out all; if one fails, put everything back, and that one is refused."""
    snapshots: list[SiteSnapshot] = []
    for number, result in enumerate(results):
        target = result.target
        try:
            snapshots.append(remember(result.actions, target))
            apply(result.actions, target)
        except CiDoctorError as error:
            _put_back(snapshots)
            failed = Refused(python=target.python, error=error, target=target)
            return (*results[:number], failed, *results[number + 1 :])
        except BaseException:
            _put_back(snapshots)
            raise
    return tuple(results)


def _put_back(snapshots: Sequence[SiteSnapshot]) -> None:
    for snapshot in reversed(snapshots):
        put_back(snapshot)


def _targets(pythons: Sequence[Path | Refused], *, with_former: bool) -> list[Target | Refused]:
    """In the order of `pythons`, each site directory once."""
    candidates: dict[str, Target | Refused] = {}
    for python in pythons:
        if isinstance(python, Refused):
            candidates.setdefault(str(python.python), python)
            continue
        try:
            target = inspect_interpreter(python)
        except CiDoctorError as error:
            candidates.setdefault(str(python), Refused(python=python, error=error))
            continue
        former = former_shims(target) if with_former else ()
        for each in (target, *former):
            candidates.setdefault(os.path.realpath(each.site_dir), each)
    return list(candidates.values())


def _all(results: Sequence[Result]) -> tuple[InstallResult, ...]:
    complete = []
    for result in results:
        if isinstance(result, Refused):
            raise result.error
        complete.append(result)
    return tuple(complete)


@contextlib.contextmanager
def _alone_in(candidates: Sequence[Target | Refused]) -> Iterator[None]:
    """Wait until no other ci-doctor changes these targets: one must not overwrite another's rules.

    The lock is on the directory itself, so it leaves no file, and it ends with this process. The
    directories are locked in one order, so that two processes never wait for each other.
    """
    with contextlib.ExitStack() as locks:
        targets = [each for each in candidates if isinstance(each, Target)]
        for site_dir in sorted(os.path.realpath(target.site_dir) for target in targets):
            with contextlib.suppress(OSError):  # a file system without locks
                descriptor = os.open(site_dir, os.O_RDONLY | os.O_DIRECTORY)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
