# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: puts shims into interpreters, all or none, and takes them out again."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import CiDoctorError, PreparationError
from ci_doctor.model.action import WriteFile
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.preload.apply import Before, apply, changes, put_back, remember
from ci_doctor.preload.plan import plan_drop, plan_install, plan_remove
from ci_doctor.preload.preload_rule import PreloadRule, merge
from ci_doctor.preload.shim_files import shim_files
from ci_doctor.preload.site import FileCondition, read_site
from ci_doctor.preload.start import loads
from ci_doctor.preload.target import Target, former_targets, inspect_interpreter
from ci_doctor.preload.trial import TRIAL_TIMEOUT_S, try_preloads


class InstallResult(Struct, frozen=True, kw_only=True):
    """What was done to one target, or would be: `actions` in their order, the rules that are armed in the end."""

    target: Target
    actions: tuple[WriteFile, ...]
    rules: tuple[PreloadRule, ...] = ()
    findings: tuple[Finding, ...] = ()


class Refused(Struct, frozen=True, kw_only=True):
    """An interpreter that nothing can be done to, and why."""

    python: Path
    error: CiDoctorError
    target: Target | None = None


class ShimStatus(Struct, frozen=True, kw_only=True):
    """What lies in a target's site directory; `installed` where all files are there and as we wrote them.

    `outdated`: an older ci-doctor wrote them. `cut_off` is what killed processes left.
    """

    target: Target
    installed: bool
    rules: tuple[PreloadRule, ...]
    files: dict[str, FileCondition]
    outdated: bool = False
    cut_off: tuple[Path, ...] = ()


Result = InstallResult | Refused
TargetPlan = Callable[[Target], InstallResult]


def install_each(
    pythons: Sequence[Path | Refused],
    rules: Sequence[PreloadRule],
    *,
    dry_run: bool,
    replace: bool = False,
    trial_timeout_s: float = TRIAL_TIMEOUT_S,
) -> tuple[Result, ...]:
    """Arm `rules` in each of `pythons` (what is refused already is handed on), besides those armed before or, with `replace`, instead of them.

    Interpreters that share a site directory count once. All are examined before the first is changed: where one is
    refused, none is changed. Where something changes, the modules to preload are first imported in a child, which a dry
    run does too.
    """
    return _each(
        pythons,
        lambda target: _plan_install(target, rules, replace, trial_timeout_s),
        dry_run=dry_run,
    )


def remove_each(
    pythons: Sequence[Path | Refused], *, dry_run: bool, trigger: str | None = None
) -> tuple[Result, ...]:
    """Remove the shim, or the rule of `trigger`, from each of `pythons`: as `install_each`.

    A virtual environment that was upgraded to another minor version has site directories that its interpreter no longer
    reads; a shim in one of them is a result of its own.
    """
    return _each(
        pythons,
        lambda target: _plan_remove(target, trigger),
        dry_run=dry_run,
        formerly=trigger is None,
    )


def install_shims(
    pythons: Sequence[Path],
    rules: Sequence[PreloadRule],
    *,
    dry_run: bool,
    trial_timeout_s: float = TRIAL_TIMEOUT_S,
) -> tuple[InstallResult, ...]:
    """As `install_each`, for those who need all: raises the first refusal, a UsageError, PreparationError or InfraError."""
    return _all(install_each(pythons, rules, dry_run=dry_run, trial_timeout_s=trial_timeout_s))


def remove_shims(pythons: Sequence[Path], *, dry_run: bool) -> tuple[InstallResult, ...]:
    """As `remove_each`; raises as `install_shims` does."""
    return _all(remove_each(pythons, dry_run=dry_run))


def status(python: Path) -> ShimStatus:
    """What is installed in `python`. Raises UsageError and InfraError where it cannot be asked."""
    return _status(inspect_interpreter(python))


def status_each(python: Path) -> tuple[ShimStatus, ...]:
    """As `status`, and what is left in site directories that the environment had under another minor version."""
    target = inspect_interpreter(python)
    return (_status(target), *(_status(former) for former in _formerly(target)))


def _status(target: Target) -> ShimStatus:
    state = read_site(target.site_dir)
    installed = all(condition is FileCondition.OURS for condition in state.conditions.values())
    now = shim_files(state.rules)
    return ShimStatus(
        target=target,
        installed=installed,
        rules=state.rules,
        files=state.conditions,
        outdated=installed
        and any(state.contents[name] != content for name, content in now.items()),
        cut_off=state.cut_off,
    )


def _plan_install(
    target: Target, rules: Sequence[PreloadRule], replace: bool, trial_timeout_s: float
) -> InstallResult:
    actions = plan_install(target, rules, replace=replace)
    armed = merge(() if replace else read_site(target.site_dir).rules, rules)
    if not changes(actions) and not loads(target):
        actions = plan_install(target, rules, replace=replace, compile_anew=True)
    findings = try_preloads(target, rules, timeout_s=trial_timeout_s) if changes(actions) else ()
    errors = tuple(finding for finding in findings if finding.severity is Severity.ERROR)
    if errors:
        raise PreparationError(
            f"{errors[0].summary}; no shim was changed", hint=errors[0].remedy, findings=findings
        )
    return InstallResult(target=target, actions=actions, rules=armed, findings=findings)


def _plan_remove(target: Target, trigger: str | None) -> InstallResult:
    armed = read_site(target.site_dir).rules
    rest = tuple(rule for rule in armed if trigger is not None and rule.trigger != trigger)
    actions = plan_remove(target) if trigger is None else plan_drop(target, trigger)
    return InstallResult(target=target, actions=actions, rules=rest)


def _each(
    pythons: Sequence[Path | Refused], plan: TargetPlan, *, dry_run: bool, formerly: bool = False
) -> tuple[Result, ...]:
    found = _targets(pythons, formerly=formerly)
    targets = [each for each in found if isinstance(each, Target)]
    with _alone_in(() if dry_run else targets):
        results = [_planned(each, plan) if isinstance(each, Target) else each for each in found]
        planned = [result for result in results if isinstance(result, InstallResult)]
        if not dry_run and len(planned) == len(results):
            failed = _apply_all(planned)
            results = [
                failed if failed and result.target == failed.target else result
                for result in results
            ]
    return tuple(results)


def _planned(target: Target, plan: TargetPlan) -> Result:
    try:
        return plan(target)
    except CiDoctorError as error:
        return Refused(python=target.python, error=error, target=target)


def _apply_all(results: Sequence[InstallResult]) -> Refused | None:
    """Carry out all; where one fails, put everything back and return that one."""
    done: list[Before] = []
    result = results[0] if results else None
    try:
        for result in results:
            done.append(remember(result.actions, result.target))
            apply(result.actions, result.target)
    except CiDoctorError as error:
        _put_back(done)
        assert result is not None  # noqa: S101
        return Refused(python=result.target.python, error=error, target=result.target)
    except BaseException:
        _put_back(done)
        raise
    return None


def _put_back(done: Sequence[Before]) -> None:
    for before in reversed(done):
        put_back(before)


def _targets(pythons: Sequence[Path | Refused], *, formerly: bool) -> list[Target | Refused]:
    """In the order of `pythons`, each site directory once."""
    found: dict[str, Target | Refused] = {}
    for python in pythons:
        if isinstance(python, Refused):
            found.setdefault(str(python.python), python)
            continue
        try:
            target = inspect_interpreter(python)
        except CiDoctorError as error:
            found.setdefault(str(python), Refused(python=python, error=error))
            continue
        for each in (target, *(_formerly(target) if formerly else ())):
            found.setdefault(os.path.realpath(each.site_dir), each)
    return list(found.values())


def _formerly(target: Target) -> Iterator[Target]:
    return (former for former in former_targets(target) if not read_site(former.site_dir).is_empty)


def _all(results: Sequence[Result]) -> tuple[InstallResult, ...]:
    for result in results:
        if isinstance(result, Refused):
            raise result.error
    return tuple(result for result in results if isinstance(result, InstallResult))


@contextlib.contextmanager
def _alone_in(targets: Sequence[Target]) -> Iterator[None]:
    """Wait until no other ci-doctor changes these targets: what one adds to the rules, another must not write over.

    The lock is on the directory itself, so it leaves no file, and it ends with this process. In one order, so that two
    processes never wait for each other.
    """
    with contextlib.ExitStack() as locks:
        for site_dir in sorted(os.path.realpath(target.site_dir) for target in targets):
            with contextlib.suppress(OSError):  # a file system without locks
                descriptor = os.open(site_dir, os.O_RDONLY | os.O_DIRECTORY)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
