# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: puts shims into interpreters, and removes them.

Each write is complete or leaves the old content. A file that is not as ci-doctor wrote it is never
changed.
"""

import contextlib
import fcntl
import os
import shlex
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import CiDoctorError, PreparationError, UsageError
from ci_doctor.machine.interpreters import ask, clean_environment
from ci_doctor.model.facts.diagnose import FileState
from ci_doctor.model.facts.preparing import (
    ChangeFacts,
    FileCondition,
    ShimAction,
    ShimChange,
)
from ci_doctor.model.outcome import (
    Case,
    CaseOutcome,
    Evidence,
    Finding,
    Outcome,
    Rule,
    Severity,
    Table,
    Verdict,
    row,
)
from ci_doctor.preload.interpreter import (
    PROBE_TIMEOUT_S,
    Interpreters,
    Refused,
    Target,
    find_interpreters,
    find_sites,
    forget_sites,
    inspect_interpreter,
    remember_site,
    target_of_site,
    worst,
)
from ci_doctor.preload.preload_rule import (
    FORM,
    PRESETS,
    PreloadRule,
    format_rules,
    merge,
    rules_of,
)
from ci_doctor.preload.start_files import (
    CACHE,
    FILES,
    FINDER,
    MODULES,
    PATH_FILE,
    RUNTIME,
    SiteState,
    read_site,
    shim_files,
)
from ci_doctor.preload.trial import (
    observe_start,
    prove_start,
    refuse_unreachable,
    try_preloads,
)
from ci_doctor.render.formatting import amount
from ci_doctor.system.files.access import write_atomically

FOREIGN_FILE: Final = Rule(
    id="preload/foreign-file",
    severity=Severity.ERROR,
    meaning="A file that ci-doctor did not write occupies the place of a file of the shim.",
    remedy="Move it away; ci-doctor never overwrites it.",
)
EDITED_FILE: Final = Rule(
    id="preload/edited-file",
    severity=Severity.ERROR,
    meaning="A file of the shim is not as ci-doctor wrote it: it was edited, or cut off.",
    remedy="Move it away and install the shim again; ci-doctor does not overwrite it.",
)
NOT_A_FILE: Final = Rule(
    id="preload/not-a-file",
    severity=Severity.ERROR,
    meaning="A link or a directory occupies the place of a file of the shim.",
    remedy="Remove it; ci-doctor follows no links here.",
)
RULES: Final = (FOREIGN_FILE, EDITED_FILE, NOT_A_FILE)

_REFUSED: Final[Mapping[FileCondition, tuple[Rule, str]]] = {
    FileCondition.EDITED: (EDITED_FILE, "is not as ci-doctor wrote it"),
    FileCondition.FOREIGN: (FOREIGN_FILE, "was not written by ci-doctor"),
    FileCondition.NOT_A_FILE: (NOT_A_FILE, "is not a regular file"),
}
_WHY: Final = {
    RUNTIME: "does the preloading; loaded only when a trigger is imported",
    FINDER: "holds the rules and watches for their triggers",
    PATH_FILE: "arms the shim at every start of this interpreter",
}
_CUT_OFF: Final = "is the remainder of a write that was cut off"


class Installation(Struct, frozen=True, kw_only=True):
    """What was done to one target, or would be; `contents` are those of the files, by path."""

    target: Target
    change: ShimChange
    contents: dict[str, bytes] = {}
    findings: tuple[Finding, ...] = ()


Result = Installation | Refused


def install_each(
    pythons: Sequence[Path | Refused],
    rules: Sequence[PreloadRule],
    *,
    dry_run: bool,
    replace_rules: bool = False,
) -> tuple[Result, ...]:
    """Arm `rules` in each of `pythons`, besides those armed before, or with `replace_rules` alone.

    A refusal among `pythons` is handed on. Interpreters that share a site directory count once. All
    are examined before the first is changed: if one is refused, none is changed. If something
    changes, the modules to preload are first imported in a child, in a dry run too.
    """

    def plan(target: Target) -> Installation:
        refuse_unreachable(target, rules)
        planned = plan_install(target, rules, replace_rules=replace_rules)
        trials = try_preloads(target, rules) if planned.change.changing else ()
        for finding in trials:
            if finding.severity is Severity.ERROR:
                raise PreparationError(
                    f"{finding.summary}; no shim was changed", hint=finding.remedy, findings=trials
                )
        return replace(planned, findings=trials)

    return _each(pythons, plan, dry_run=dry_run)


def remove_each(
    pythons: Sequence[Path | Target | Refused], *, dry_run: bool, trigger: str | None = None
) -> tuple[Result, ...]:
    """Remove the shim, or the rule of `trigger`, from each of `pythons`: as `install_each`."""
    return _each(pythons, lambda target: plan_remove(target, trigger), dry_run=dry_run)


def install_shims(
    pythons: Sequence[Path],
    rules: Sequence[PreloadRule],
    *,
    dry_run: bool,
) -> tuple[Installation, ...]:
    """As `install_each`, for callers that need all interpreters.

    Raises the first refusal, a UsageError, PreparationError or InfraError.
    """
    installations = []
    for result in install_each(pythons, rules, dry_run=dry_run):
        if isinstance(result, Refused):
            raise result.error
        installations.append(result)
    return tuple(installations)


def plan_install(
    target: Target, rules: Sequence[PreloadRule], *, replace_rules: bool = False
) -> Installation:
    """The files that arm `rules`, in the order in which it is safe to write them.

    With `replace_rules` no other rule stays armed; without any rule nothing is done. Raises
    UsageError if the target must not or cannot be written, PreparationError for files that are not
    ours.
    """
    state = read_site(target.site_dir)
    if not rules:
        return _planned(target, state.rules, [])
    _refuse_what_is_not_ours(target, state)
    armed = merge(() if replace_rules else state.rules, rules)
    files = shim_files(armed)
    writes = []
    for name, content in files.items():
        change = FileState.REPLACE if name in state.contents else FileState.CREATE
        if state.contents.get(name) == content:
            change = FileState.UNCHANGED
        path = str(target.site_dir / name)
        writes.append(ShimAction(path=path, state=change, why=_WHY[name]))
    rest = [_remove_action(path, _CUT_OFF) for path in state.cut_off]
    actions = [*rest, *writes]
    if any(action.state is not FileState.UNCHANGED for action in writes):
        _refuse_unwritable(target)
    elif target.externally_managed or not target.writable:
        actions = writes
    contents = {str(target.site_dir / name): content for name, content in files.items()}
    return replace(_planned(target, armed, actions), contents=contents)


def plan_remove(target: Target, trigger: str | None = None) -> Installation:
    """The removal of all that is ours there, or of the rule of `trigger` alone, in a safe order.

    Raises as `plan_install` does.
    """
    state = read_site(target.site_dir)
    _refuse_what_is_not_ours(target, state)
    rest = [rule for rule in state.rules if rule.trigger != trigger]
    if trigger is not None and len(rest) == len(state.rules):  # there is no such rule
        return _planned(target, state.rules, [])
    if trigger is not None and rest:
        return plan_install(target, rest, replace_rules=True)
    there = [target.site_dir / name for name in reversed(FILES) if name in state.contents]
    actions = [_remove_action(path, "a file of the shim") for path in there]
    actions += [_remove_action(path, "its bytecode") for path in state.compiled]
    actions += [_remove_action(path, _CUT_OFF) for path in state.cut_off]
    cache = target.site_dir / CACHE
    ours = {*state.compiled, *state.cut_off}
    if any(path.parent == cache for path in ours) and ours >= set(cache.iterdir()):
        actions.append(_remove_action(cache, "held its bytecode alone"))
    if actions:
        _refuse_unwritable(target)
    return _planned(target, (), actions)


def _planned(
    target: Target, rules: Sequence[PreloadRule], actions: Sequence[ShimAction]
) -> Installation:
    change = ShimChange(
        python=str(target.python),
        version=target.version_text,
        site_dir=str(target.site_dir),
        state="unchanged",
        rules=format_rules(rules),
        actions=tuple(actions),
    )
    return Installation(target=target, change=change)


def _remove_action(path: Path, why: str) -> ShimAction:
    return ShimAction(path=str(path), state=FileState.REMOVE, why=why)


def _refuse_what_is_not_ours(target: Target, state: SiteState) -> None:
    refused = [
        (target.site_dir / name, *_REFUSED[condition])
        for name, condition in state.conditions.items()
        if condition in _REFUSED
    ]
    findings = tuple(
        rule.finding(f"{path} {text}", evidence=(Evidence(file=str(path)),), remedy=move_away(path))
        for path, rule, text in refused
    )
    if findings:
        raise PreparationError(
            f"{findings[0].summary}; nothing in that directory was changed",
            hint=findings[0].remedy,
            findings=findings,
        )


def move_away(path: Path) -> str:
    """The remedy for a file that is not as we wrote it: ci-doctor does not touch it."""
    return f"look at it, move it away (mv {shlex.quote(str(path))} /tmp/) and run this again"


def _refuse_unwritable(target: Target) -> None:
    if target.externally_managed:
        raise UsageError(
            f"{target.python} is managed by the operating system (EXTERNALLY-MANAGED, PEP 668)",
            hint=f"make a virtual environment with `{target.python} -m venv .venv` and name that",
        )
    if not target.writable:
        reason = "this user may not"
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(target.site_dir.stat().st_mode)
            if os.statvfs(target.site_dir).f_flag & os.ST_RDONLY:
                reason = "its file system is read-only"
            elif not mode & 0o222:
                reason = f"it is marked read-only (mode {mode:04o})"
        raise UsageError(
            f"cannot write in {target.site_dir}, the site directory of {target.python}: {reason}",
            hint="run as the user who owns it, or make a virtual environment and name that",
        )


def _each(
    pythons: Sequence[Path | Target | Refused],
    plan: Callable[[Target], Installation],
    *,
    dry_run: bool,
) -> tuple[Result, ...]:
    candidates = _targets(pythons)
    sites = [os.path.realpath(each.site_dir) for each in candidates if isinstance(each, Target)]
    with contextlib.ExitStack() as locks:
        # One ci-doctor must not overwrite another's rules. The lock is on the directory itself, so
        # it leaves no file, and it ends with this process. The directories are locked in one order,
        # so that two processes never wait for each other.
        for site_dir in () if dry_run else sorted(sites):
            with contextlib.suppress(OSError):  # a file system without locks
                descriptor = os.open(site_dir, os.O_RDONLY | os.O_DIRECTORY)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        results = [_refused_or(plan, each) for each in candidates]
        is_refused = any(isinstance(result, Refused) for result in results)
        state = "held back" if is_refused else "planned"
        results = [_in_state(result, state) for result in results]
        if dry_run or is_refused:
            return tuple(results)
        for number, result in enumerate(results):
            results[number] = _refused_or(_apply, result)
            # Those that come after it stay as they are.
            if isinstance(results[number], Refused):
                rest = [_in_state(each, "held back") for each in results[number + 1 :]]
                return (*results[: number + 1], *rest)
        return tuple(results)


def _targets(pythons: Sequence[Path | Target | Refused]) -> list[Target | Refused]:
    """In the order of `pythons`, each site directory once."""
    candidates: dict[str, Target | Refused] = {}
    for python in pythons:
        if isinstance(python, Refused):
            candidates.setdefault(str(python.python), python)
            continue
        if isinstance(python, Target):
            candidates.setdefault(os.path.realpath(python.site_dir), python)
            continue
        try:
            target = inspect_interpreter(python)
        except CiDoctorError as error:
            candidates.setdefault(str(python), Refused(python=python, error=error))
            continue
        candidates.setdefault(os.path.realpath(target.site_dir), target)
    return list(candidates.values())


def _apply(planned: Installation) -> Installation:
    """Carry out the actions in their order, and prove that the target still starts.

    If it does not start cleanly, its shim is removed and PreparationError raised. Raises UsageError
    if a file cannot be written: what was done until then stays, for the next installation.
    """
    target = planned.target
    arms = bool(planned.change.changing and planned.contents)
    clean = observe_start(target, "-I") if arms else None
    for action in planned.change.actions:
        _carry_out(action, planned.contents.get(action.path, b""), target)
    if planned.contents and target.writable and not target.externally_managed:
        _compile(target)
    if clean is not None:
        try:
            prove_start(target, clean)
        except PreparationError:
            for action in plan_remove(target).change.actions:
                _carry_out(action, b"", target)
            raise
    if planned.contents:
        remember_site(target.site_dir, os.environ)
    state = "changed" if planned.change.changing else planned.change.state
    return replace(planned, change=replace(planned.change, state=state))


def _carry_out(action: ShimAction, content: bytes, target: Target) -> None:
    path = Path(action.path)
    if action.state is FileState.REMOVE:
        _remove(path)
    elif action.state is not FileState.UNCHANGED:
        if path.name in MODULES:
            # An interpreter accepts bytecode if its source has the same second and size; the new
            # source may have both.
            for compiled in read_site(target.site_dir).compiled:
                if compiled.name.startswith(f"{path.stem}."):
                    _remove(compiled)
        write_atomically(path, content)


def _compile(target: Target) -> None:
    """Make the bytecode of the modules, where that is possible.

    Without it, each start by a user who may not write there takes 1.5 ms longer.
    """
    environment = clean_environment(os.environ)
    # Where nothing changes it stays, unless it is damaged.
    imports = "; ".join(f"import {Path(name).stem}" for name in MODULES)
    cache = target.site_dir / CACHE
    is_there = all(any(cache.glob(f"{Path(name).stem}.*")) for name in MODULES)
    ran = ask(
        target.python, "-I", "-B", "-c", imports, timeout_s=PROBE_TIMEOUT_S, environment=environment
    )
    # A link may lead to another environment's bytecode.
    if (ran.exit_code or not is_there) and not cache.is_symlink():
        files = (str(target.site_dir / name) for name in MODULES)
        words = ("-I", "-B", "-m", "py_compile", *files)
        ask(target.python, *words, timeout_s=PROBE_TIMEOUT_S, environment=environment)


def _remove(path: Path) -> None:
    if path.name == CACHE:
        # Other packages may keep their bytecode there by now.
        with contextlib.suppress(OSError):
            path.rmdir()
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot remove {path}: {error.strerror or error}", hint="run as the user who owns it"
        ) from error


def _refused_or(act: Callable[[Any], Installation], subject: Target | Result) -> Result:
    """What `act` makes of `subject`, or its refusal; a refusal is handed on."""
    if isinstance(subject, Refused):
        return subject
    target = subject.target if isinstance(subject, Installation) else subject
    try:
        return act(subject)
    except CiDoctorError as error:
        return Refused(python=target.python, error=error, site_dir=str(target.site_dir))


def _may_have_shim(site_dir: Path) -> bool:
    try:
        return not read_site(site_dir).is_empty
    except UsageError:  # whoever removes it says why
        return True


def _is_refused(result: Result) -> bool:
    return isinstance(result, Refused)


def _in_state(result: Result, state: str) -> Result:
    """`result` in that state, if it changes anything."""
    if isinstance(result, Refused) or not result.change.changing:
        return result
    return replace(result, change=replace(result.change, state=state))


# `preload install` and `remove`, from request to outcome.


def install(
    interpreters: Interpreters,
    rules: Sequence[str],
    *,
    replace: bool = False,
    dry_run: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Arm `rules` (texts, or names of presets) in each interpreter, or in none if one is refused.

    They are added to the rules armed before; `replace` arms these only. `dry_run` changes nothing.
    Raises UsageError for a bad rule or none, and if there is no interpreter.
    """
    if not rules:
        names = " or ".join(sorted(PRESETS))
        raise UsageError(
            "no rule to preload by",
            hint=(f"name a preset ({names}), write --rule {FORM}, or set `preload` in [setup-env]"),
        )
    wanted = rules_of(rules)
    pythons = find_interpreters(interpreters, environ)
    results = install_each(pythons, wanted, dry_run=dry_run, replace_rules=replace)
    return _outcome(results, verb="would write" if dry_run else "wrote", dry_run=dry_run)


def remove(
    interpreters: Interpreters,
    *,
    everywhere: bool = False,
    trigger: str | None = None,
    dry_run: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Remove the shim, or only the rule of `trigger`, from each interpreter.

    With `everywhere` instead from each site directory that `find_sites` finds. Raises UsageError if
    there is no interpreter.
    """
    sites = find_sites(interpreters, environ) if everywhere else []
    if everywhere:
        with_shim = filter(_may_have_shim, sites)
        # One that is refused does not keep the shim of another project.
        results = tuple(
            result
            for site in with_shim
            for result in remove_each([target_of_site(site)], dry_run=dry_run, trigger=trigger)
        )
    else:
        pythons = find_interpreters(interpreters, environ)
        results = remove_each(pythons, dry_run=dry_run, trigger=trigger)
    if everywhere and not results:
        return Outcome(
            verdict=None if dry_run else Verdict.PASS,
            summary=f"no shim was found; looked at {amount(len(sites), 'folder')} of packages",
            facts=ChangeFacts(targets=(), changed=(), dry_run=dry_run),
        )
    if everywhere and trigger is None and not dry_run and not any(map(_is_refused, results)):
        forget_sites(environ)
    verb = "would remove" if dry_run else "removed"
    # The shim stays if it has rules for other triggers.
    if trigger is not None:
        verb = "would change" if dry_run else "changed"
    return _outcome(results, verb=verb, dry_run=dry_run)


def _outcome(results: Sequence[Result], *, verb: str, dry_run: bool) -> Outcome:
    refused = [result for result in results if isinstance(result, Refused)]
    targets = tuple(map(_target, results))
    done = [each for each in targets if each.state == ("planned" if dry_run else "changed")]
    changed = tuple(action.path for each in done for action in each.changing)
    verdict, error = worst(refused) if refused else (None if dry_run else Verdict.PASS, None)
    interpreters = amount(len(results), "interpreter")
    summary = f"nothing to change in {interpreters}"
    if refused and not changed:
        summary = f"nothing was changed: {len(refused)} of {interpreters} refused"
    elif changed:
        summary = f"{verb} {amount(len(changed), 'file')} in {interpreters}"
        summary += f", {len(refused)} refused" if refused else ""
    return Outcome(
        verdict=verdict,
        error=error,
        summary=summary,
        findings=tuple(
            finding
            for result in results
            for finding in (result.error if isinstance(result, Refused) else result).findings
        ),
        tables=tuple(_table(result, dry_run=dry_run) for result in results),
        cases=tuple(map(_case, results)),
        facts=ChangeFacts(targets=targets, changed=changed, dry_run=dry_run),
    )


def _target(result: Result) -> ShimChange:
    if not isinstance(result, Refused):
        return result.change
    return ShimChange(
        python=str(result.python),
        site_dir=result.site_dir,
        state="refused",
        refused=result.refusal,
    )


def _table(result: Result, *, dry_run: bool) -> Table:
    if isinstance(result, Refused):
        return result.table
    change = result.change
    rows = [
        row(change.state, f"Python {change.version}"),
        row("site directory", change.site_dir),
        *(row("rule", text) for text in change.rules),
    ]
    for action in change.changing:
        name = os.path.relpath(action.path, change.site_dir)
        # The reasons are for those who decide; afterwards the names are enough.
        rows.append(row(str(action.state), f"{name} ({action.why})" if dry_run else name))
    return Table(title=change.python, rows=tuple(rows))


def _case(result: Result) -> Case:
    if isinstance(result, Refused):
        message = result.error.message
        return Case(
            group="preload",
            name=str(result.python),
            outcome=CaseOutcome.ERROR,
            message=message,
        )
    outcome = CaseOutcome.SKIPPED if result.change.state == "held back" else CaseOutcome.PASSED
    return Case(group="preload", name=result.change.python, outcome=outcome)
