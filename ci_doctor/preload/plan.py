# SPDX-License-Identifier: Apache-2.0
"""What installing or removing a shim would do to a site directory: reads it, decides, changes nothing."""

import contextlib
import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.model.finding import Evidence, Finding, Severity
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
from ci_doctor.preload.site import FileCondition, SiteState, read_site
from ci_doctor.preload.target import Target

__all__ = ["FileCondition", "SiteState", "plan_drop", "plan_install", "plan_remove", "read_site"]

_WHY = {
    MANIFEST: "names the rules and the files, so that they can be recognised and removed",
    RUNTIME: "does the preloading; loaded only when a trigger is imported",
    FINDER: "holds the rules and watches for their triggers",
    PATH_FILE: "arms the shim at every start of this interpreter",
}

_REFUSED = {
    FileCondition.EDITED: ("preload/edited-file", "is not as ci-doctor wrote it"),
    FileCondition.FOREIGN: ("preload/foreign-file", "was not written by this version of ci-doctor"),
    FileCondition.NOT_A_FILE: ("preload/not-a-file", "is not a regular file"),
}


def plan_install(
    target: Target,
    rules: Sequence[PreloadRule],
    *,
    replace: bool = False,
    compile_anew: bool = False,
) -> tuple[WriteFile, ...]:
    """The files that arm `rules`, in the order in which it is safe to write them; with `replace` no other stays armed.

    Bytecode has no content yet: only the interpreter itself can make it, once its source is there. `compile_anew`: what
    there is of it is not to be trusted.
    Raises UsageError where the target must not or cannot be written, PreparationError for files that are not ours.
    """
    state = read_site(target.site_dir)
    armed = merge(() if replace else state.rules, rules)
    files = shim_files(armed)
    # What is already as it should be needs no owner: so a lost manifest is made again.
    right = {name for name, content in files.items() if state.contents.get(name) == content}
    _refuse_what_is_not_ours(
        target, {name: there for name, there in state.conditions.items() if name not in right}
    )
    made_cache = state.manifest.made_cache if state.manifest else not state.shared_cache
    manifest = make_manifest(armed, files, state.contents, state.manifest, made_cache=made_cache)
    wanted = {MANIFEST: encode_manifest(manifest), **files}
    actions = [
        _write(target.site_dir / name, wanted[name], state.contents.get(name)) for name in FILES
    ]
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
    compiled = _compile(target, stale)
    return (*_clear(state.cut_off), *sources, *compiled, path_file)


def plan_drop(target: Target, trigger: str) -> tuple[WriteFile, ...]:
    """What takes one rule away and leaves the others; nothing where it is not armed. Raises as `plan_install` does."""
    armed = read_site(target.site_dir).rules
    rest = [rule for rule in armed if rule.trigger != trigger]
    if len(rest) == len(armed):
        return ()
    return plan_install(target, rest, replace=True) if rest else plan_remove(target)


def plan_remove(target: Target) -> tuple[WriteFile, ...]:
    """The removal of all that is ours there, in the order in which it is safe. Raises as `plan_install` does.

    The manifest goes last: while anything else is left, it says that it is ours.
    """
    state = read_site(target.site_dir)
    _refuse_what_is_not_ours(target, state.conditions)
    if state.is_empty:
        return ()
    _refuse_unwritable(target)
    there = [
        target.site_dir / name
        for name in reversed(FILES)
        if name in state.contents and name != MANIFEST
    ]
    made_cache = state.manifest.made_cache if state.manifest else True
    cache = (
        [target.site_dir / CACHE]
        if state.has_cache and made_cache and not state.shared_cache
        else []
    )
    manifest = [target.site_dir / MANIFEST] if MANIFEST in state.contents else []
    return (
        *(_remove(path, "a file of the shim") for path in there),
        *(_remove(path, "its bytecode") for path in state.compiled),
        *_clear(state.cut_off),
        *(_remove(path, "was made for its bytecode") for path in cache),
        *(_remove(path, "a file of the shim") for path in manifest),
    )


def _write(path: Path, content: bytes, there: bytes | None) -> WriteFile:
    replaced = FileState.UNCHANGED if there == content else FileState.REPLACE
    return WriteFile(
        path=path,
        content=content,
        state=FileState.CREATE if there is None else replaced,
        why=_WHY[path.name],
    )


def _remove(path: Path, why: str) -> WriteFile:
    return WriteFile(path=path, content=b"", state=FileState.REMOVE, why=why)


def _clear(cut_off: Sequence[Path]) -> Iterator[WriteFile]:
    return (_remove(path, "was left by a write that was cut off") for path in cut_off)


def _compile(target: Target, stale: set[str]) -> Iterator[WriteFile]:
    """The bytecode of the modules, where the target can have it; that of `stale` ones is no longer right."""
    cache = target.site_dir / CACHE
    if cache.is_symlink() or (
        cache.exists() and not (cache.is_dir() and os.access(cache, os.W_OK | os.X_OK))
    ):
        return
    for name in MODULES:
        path = compiled_path(target, name)
        if path is None or path.is_symlink() or path.is_dir():
            continue
        state = FileState.REPLACE if path.exists() else FileState.CREATE
        if name not in stale and is_fresh(path, target.site_dir / name, target.magic):
            state = FileState.UNCHANGED
        yield WriteFile(
            path=path, content=b"", state=state, why="saves every start the time to compile it"
        )


def _refuse_unwritable(target: Target) -> None:
    if target.externally_managed:
        raise UsageError(
            f"{target.python} is managed by the operating system (EXTERNALLY-MANAGED, PEP 668)",
            hint=f"make a virtual environment with `{target.python} -m venv .venv` and name that",
        )
    if not target.writable:
        raise UsageError(
            f"cannot write in {target.site_dir}, the site directory of {target.python}: {_why_not(target.site_dir)}",
            hint="run as the user who owns it, or make a virtual environment and name that",
        )


def _why_not(site_dir: Path) -> str:
    with contextlib.suppress(OSError):
        if os.statvfs(site_dir).f_flag & os.ST_RDONLY:
            return "its file system is read-only"
        if not site_dir.stat().st_mode & 0o222:
            return f"it is marked read-only (mode {stat.S_IMODE(site_dir.stat().st_mode):04o})"
    return "this user may not"


def _refuse_what_is_not_ours(target: Target, conditions: Mapping[str, FileCondition]) -> None:
    findings = tuple(
        _refusal(target.site_dir / name, *_REFUSED[condition])
        for name, condition in conditions.items()
        if condition in _REFUSED
    )
    if findings:
        raise PreparationError(
            f"{findings[0].summary}; nothing in that directory was changed",
            hint=findings[0].remedy,
            findings=findings,
        )


def _refusal(path: Path, rule: str, said: str) -> Finding:
    return Finding(
        rule=rule,
        severity=Severity.ERROR,
        summary=f"{path} {said}",
        evidence=(Evidence(file=str(path)),),
        remedy=move_away(path),
    )


def move_away(path: Path) -> str:
    """What to do about a file that is not as we wrote it: we do not touch it."""
    return f"look at it, move it away (mv {shlex.quote(str(path))} /tmp/) and run this again"
