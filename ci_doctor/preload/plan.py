# SPDX-License-Identifier: Apache-2.0
"""Reads a site directory: what installing or removing a shim would do there. Changes nothing."""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.rule import Rule
from ci_doctor.preload import rules as finding_rules
from ci_doctor.preload.bytecode import CACHE, compiled_path, is_fresh
from ci_doctor.preload.preload_rule import PreloadRule, merge
from ci_doctor.preload.shim_files import (
    FILES,
    FINDER,
    MANIFEST,
    MODULES,
    PATH_FILE,
    RUNTIME,
    encode_manifest,
    make_manifest,
    shim_files,
)
from ci_doctor.preload.site import FileCondition, SiteState, move_away, read_site
from ci_doctor.preload.target import Target

_WHY: Final = {
    MANIFEST: "names the rules and the files, so that they can be recognised and removed",
    RUNTIME: "does the preloading; loaded only when a trigger is imported",
    FINDER: "holds the rules and watches for their triggers",
    PATH_FILE: "arms the shim at every start of this interpreter",
}

_REFUSED: Final[Mapping[FileCondition, tuple[Rule, str]]] = {
    FileCondition.EDITED: (finding_rules.EDITED_FILE, "differs from what ci-doctor wrote"),
    FileCondition.FOREIGN: (
        finding_rules.FOREIGN_FILE,
        "was not written by this version of ci-doctor",
    ),
    FileCondition.NOT_A_FILE: (finding_rules.NOT_A_FILE, "is not a regular file"),
}


def plan_install(
    target: Target,
    rules: Sequence[PreloadRule],
    *,
    replace: bool = False,
    compile_anew: bool = False,
) -> tuple[WriteFile, ...]:
    """The files that arm `rules`, in the order in which it is safe to write them.

    With `replace` no other rule stays armed. Bytecode has no content yet: only the interpreter
    itself can make it, once its source exists. `compile_anew`: existing bytecode is not to be
    trusted. Raises UsageError if the target must not or cannot be written, PreparationError for
    files that are not ours.
    """
    state = read_site(target.site_dir)
    armed = merge(() if replace else state.rules, rules)
    files = shim_files(armed)
    _refuse_what_is_not_ours(target, _not_yet_right(state, files))
    actions = list(_writes(target, state, armed, files))
    if any(action.state is not FileState.UNCHANGED for action in actions):
        _refuse_unwritable(target)
    elif target.externally_managed or not target.writable:
        return tuple(actions)
    *sources, path_file = actions
    stale = {
        action.path.name
        for action in sources
        if compile_anew or action.state is not FileState.UNCHANGED
    }
    return (*_clear(state.cut_off), *sources, *_compile(target, stale), path_file)


def plan_drop(target: Target, trigger: str) -> tuple[WriteFile, ...]:
    """The actions that remove one rule and keep the others; none if it is not armed.

    Raises as `plan_install` does.
    """
    armed = read_site(target.site_dir).rules
    rest = [rule for rule in armed if rule.trigger != trigger]
    if len(rest) == len(armed):
        return ()
    if not rest:
        return plan_remove(target)
    return plan_install(target, rest, replace=True)


def plan_remove(target: Target) -> tuple[WriteFile, ...]:
    """The removal of all that is ours there, in a safe order. Raises as `plan_install` does.

    The manifest goes last: while another file is left, the manifest proves that it is ours.
    """
    state = read_site(target.site_dir)
    _refuse_what_is_not_ours(target, state.conditions)
    if state.is_empty:
        return ()
    _refuse_unwritable(target)
    *before, _manifest = reversed(FILES)
    actions = [*_remove_files(target, state, before)]
    actions += [_remove(path, "its bytecode") for path in state.compiled]
    actions += _clear(state.cut_off)
    made_cache = state.manifest.made_cache if state.manifest else True
    if state.has_cache and made_cache and not state.shared_cache:
        actions.append(_remove(target.site_dir / CACHE, "was made for its bytecode"))
    actions += _remove_files(target, state, (MANIFEST,))
    return tuple(actions)


def _remove_files(target: Target, state: SiteState, names: Sequence[str]) -> Iterator[WriteFile]:
    for name in names:
        if name in state.contents:
            yield _remove(target.site_dir / name, "a file of the shim")


def _not_yet_right(state: SiteState, files: Mapping[str, bytes]) -> Mapping[str, FileCondition]:
    """The conditions of the files that would change.

    A file with the right content needs no owner, so a lost manifest is made again.
    """
    right = {name for name, content in files.items() if state.contents.get(name) == content}
    return {name: state.conditions[name] for name in state.conditions if name not in right}


def _writes(
    target: Target, state: SiteState, armed: Sequence[PreloadRule], files: Mapping[str, bytes]
) -> Iterator[WriteFile]:
    made_cache = state.manifest.made_cache if state.manifest else not state.shared_cache
    manifest = make_manifest(armed, files, state.contents, state.manifest, made_cache=made_cache)
    wanted = {MANIFEST: encode_manifest(manifest), **files}
    for name in FILES:
        before = state.contents.get(name)
        change = FileState.REPLACE
        if before is None:
            change = FileState.CREATE
        elif before == wanted[name]:
            change = FileState.UNCHANGED
        path = target.site_dir / name
        yield WriteFile(path=path, content=wanted[name], state=change, why=_WHY[name])


def _remove(path: Path, why: str) -> WriteFile:
    return WriteFile(path=path, content=b"", state=FileState.REMOVE, why=why)


def _clear(cut_off: Sequence[Path]) -> list[WriteFile]:
    return [_remove(path, "is the remainder of a write that was cut off") for path in cut_off]


def _compile(target: Target, stale: set[str]) -> Iterator[WriteFile]:
    """The bytecode of the modules, if the target can have it; for `stale` ones it is made again."""
    if not _can_hold_bytecode(target.site_dir / CACHE):
        return
    why = "saves every start the time to compile it"
    for name in MODULES:
        path = compiled_path(target, name)
        if path is None or path.is_symlink() or path.is_dir():
            continue
        state = FileState.REPLACE if path.exists() else FileState.CREATE
        if name not in stale and is_fresh(path, target.site_dir / name, target.magic):
            state = FileState.UNCHANGED
        yield WriteFile(path=path, content=b"", state=state, why=why)


def _can_hold_bytecode(cache: Path) -> bool:
    if cache.is_symlink():
        return False
    if not cache.exists():
        return True
    return cache.is_dir() and os.access(cache, os.W_OK | os.X_OK)


def _refuse_unwritable(target: Target) -> None:
    if target.externally_managed:
        raise UsageError(
            f"{target.python} is managed by the operating system (EXTERNALLY-MANAGED, PEP 668)",
            hint=f"make a virtual environment with `{target.python} -m venv .venv` and name that",
        )
    if not target.writable:
        reason = _why_not_writable(target.site_dir)
        raise UsageError(
            f"cannot write in {target.site_dir}, the site directory of {target.python}: {reason}",
            hint="run as the user who owns it, or make a virtual environment and name that",
        )


def _why_not_writable(site_dir: Path) -> str:
    with contextlib.suppress(OSError):
        if os.statvfs(site_dir).f_flag & os.ST_RDONLY:
            return "its file system is read-only"
        mode = stat.S_IMODE(site_dir.stat().st_mode)
        if not mode & 0o222:
            return f"it is marked read-only (mode {mode:04o})"
    return "this user may not"


def _refuse_what_is_not_ours(target: Target, conditions: Mapping[str, FileCondition]) -> None:
    findings = tuple(
        _refusal(target.site_dir / name, condition)
        for name, condition in conditions.items()
        if condition in _REFUSED
    )
    if findings:
        raise PreparationError(
            f"{findings[0].summary}; nothing in that directory was changed",
            hint=findings[0].remedy,
            findings=findings,
        )


def _refusal(path: Path, condition: FileCondition) -> Finding:
    rule, text = _REFUSED[condition]
    evidence = (Evidence(file=str(path)),)
    return rule.finding(f"{path} {text}", evidence=evidence, remedy=move_away(path))
