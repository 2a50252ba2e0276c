# SPDX-License-Identifier: Apache-2.0
"""What installing or removing a shim would do to a site directory: reads it, decides, changes nothing."""

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.preload.rules import Rule, merge, parse_rule
from ci_doctor.preload.shim_files import (
    FILES,
    FINDER,
    MANIFEST,
    OWNER_LINE,
    PATH_FILE,
    RUNTIME,
    Manifest,
    decode_manifest,
    digest,
    encode_manifest,
    make_manifest,
    shim_files,
)
from ci_doctor.preload.target import Target

_WHY = {
    MANIFEST: "names the rules and the files, so that they can be recognised and removed",
    RUNTIME: "does the preloading; loaded only when a trigger is imported",
    FINDER: "holds the rules and watches for their triggers",
    PATH_FILE: "arms the shim at every start of this interpreter",
}


class FileCondition(StrEnum):
    """What lies where a file of the shim belongs."""

    ABSENT = "absent"
    OURS = "ours"
    EDITED = "edited"  # it says it is ours, but is not what the manifest says
    FOREIGN = "foreign"
    NOT_A_FILE = "not-a-file"  # a symbolic link, a directory


_REFUSED = {
    FileCondition.EDITED: ("preload/edited-file", "is not as ci-doctor wrote it"),
    FileCondition.FOREIGN: ("preload/foreign-file", "was not written by this version of ci-doctor"),
    FileCondition.NOT_A_FILE: ("preload/not-a-file", "is not a regular file"),
}


class SiteState(Struct, frozen=True, kw_only=True):
    """The shim's part of a site directory, by file name; `contents` has the regular files only."""

    manifest: Manifest | None
    contents: dict[str, bytes]
    conditions: dict[str, FileCondition]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that the manifest names; none where there is no manifest."""
        return tuple(parse_rule(text) for text in self.manifest.rules) if self.manifest else ()


def read_site(site_dir: Path) -> SiteState:
    """Read what lies where the files of a shim belong. Raises UsageError where a file cannot be read."""
    paths = {name: site_dir / name for name in FILES}
    contents = {name: _read(path) for name, path in paths.items() if path.is_file() and not path.is_symlink()}
    manifest = decode_manifest(contents.get(MANIFEST, b""))
    conditions = {}
    for name, path in paths.items():
        if name in contents:
            conditions[name] = _condition(name, contents[name], manifest)
        else:
            there = path.is_symlink() or path.exists()
            conditions[name] = FileCondition.NOT_A_FILE if there else FileCondition.ABSENT
    return SiteState(manifest=manifest, contents=contents, conditions=conditions)


def plan_install(target: Target, rules: Sequence[Rule]) -> tuple[WriteFile, ...]:
    """The files that arm `rules` besides those armed before, in the order in which it is safe to write them.

    Raises UsageError where the target must not or cannot be written, PreparationError for files that are not ours.
    """
    state = read_site(target.site_dir)
    merged = merge(state.rules, rules)
    files = shim_files(merged)
    # What is already as it should be needs no owner: so a lost manifest is made again.
    right = {name for name, content in files.items() if state.contents.get(name) == content}
    _refuse_what_is_not_ours(target, {name: there for name, there in state.conditions.items() if name not in right})
    manifest = make_manifest(merged, files, state.contents, state.manifest)
    wanted = {MANIFEST: encode_manifest(manifest), **files}
    actions = tuple(_write(target.site_dir / name, wanted[name], state.contents.get(name)) for name in FILES)
    if any(action.state is not FileState.UNCHANGED for action in actions):
        _refuse_unwritable(target)
    return actions


def plan_remove(target: Target) -> tuple[WriteFile, ...]:
    """The removal of the shim's files that are there, in the order in which it is safe. Raises as `plan_install` does."""
    state = read_site(target.site_dir)
    _refuse_what_is_not_ours(target, state.conditions)
    there = [target.site_dir / name for name in reversed(FILES) if name in state.contents]
    if there:
        _refuse_unwritable(target)
    return tuple(WriteFile(path=path, content=b"", state=FileState.REMOVE, why="a file of the shim") for path in there)


def _condition(name: str, content: bytes, manifest: Manifest | None) -> FileCondition:
    if name == MANIFEST:
        return FileCondition.OURS if manifest else FileCondition.FOREIGN
    if OWNER_LINE.encode() not in content.splitlines()[:2]:
        return FileCondition.FOREIGN
    known = manifest.sha256.get(name, ()) if manifest else ()
    return FileCondition.OURS if digest(content) in known else FileCondition.EDITED


def _write(path: Path, content: bytes, there: bytes | None) -> WriteFile:
    replaced = FileState.UNCHANGED if there == content else FileState.REPLACE
    return WriteFile(
        path=path, content=content, state=FileState.CREATE if there is None else replaced, why=_WHY[path.name]
    )


def _refuse_unwritable(target: Target) -> None:
    if target.externally_managed:
        raise UsageError(
            f"{target.python} is managed by the operating system (EXTERNALLY-MANAGED, PEP 668)",
            hint=f"make a virtual environment with `{target.python} -m venv .venv` and name that",
        )
    if not target.writable:
        raise UsageError(
            f"cannot write in {target.site_dir}, the site directory of {target.python}",
            hint="run as the user who owns it, or make a virtual environment and name that",
        )


def _refuse_what_is_not_ours(target: Target, conditions: Mapping[str, FileCondition]) -> None:
    findings = tuple(
        _refusal(target.site_dir / name, *_REFUSED[condition])
        for name, condition in conditions.items()
        if condition in _REFUSED
    )
    if findings:
        raise PreparationError(
            f"{findings[0].summary}; nothing in that directory was changed", hint=findings[0].remedy, findings=findings
        )


def _refusal(path: Path, rule: str, said: str) -> Finding:
    return Finding(
        rule=rule,
        severity=Severity.ERROR,
        summary=f"{path} {said}",
        evidence=(Evidence(file=str(path)),),
        remedy=f"look at it, move it away (mv {shlex.quote(str(path))} /tmp/) and run this again",
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}", hint="run as the user who owns it"
        ) from error
