# SPDX-License-Identifier: Apache-2.0
"""Pure. The packages of two interpreters, compared: versions, origins, and files of one version."""

from collections.abc import Iterator, Mapping

from ci_doctor.drift import suspicion
from ci_doctor.drift.change import (
    ChangeArea,
    ChangeKind,
    EnvironmentChange,
    FileChange,
    OneSided,
)
from ci_doctor.drift.record import by_folder
from ci_doctor.drift.snapshot import PackageSnapshot

Packages = Mapping[str, PackageSnapshot]


def package_changes(
    before: Packages, after: Packages, place: str | None
) -> Iterator[EnvironmentChange]:
    """Every package that differs, by name; `place` names the interpreter if there are several."""
    for name in sorted({*before, *after}):
        change = _change(name, before.get(name), after.get(name), place)
        if change is not None:
            yield change


def one_sided_packages(before: Packages, after: Packages) -> Iterator[OneSided]:
    """What only one side knows of a package that both have in one version."""
    for name in sorted({*before} & {*after}):
        old = before[name]
        new = after[name]
        if described(old) != described(new):
            continue
        for what in sorted({*old.unknown} ^ {*new.unknown}):
            side = "after"
            reasons = new.unknown
            if what in old.unknown:
                side = "before"
                reasons = old.unknown
            yield OneSided(
                area=ChangeArea.PACKAGES,
                subject=f"{what} of {name}",
                suspicion=suspicion.of_package(name).suspicion,
                unknown_in=side,
                reason=reasons[what],
            )


def described(package: PackageSnapshot) -> str:
    """The version with what makes it another one: a commit, an editable installation, a second."""
    parts = [package.version or "of unknown version"]
    if package.is_editable:
        parts.append("editable")
    if package.commit is not None:
        parts.append(f"commit {package.commit[:12]}")
    if package.further_versions:
        parts.append(f"and also {', '.join(package.further_versions)}")
    return ", ".join(parts)


def _change(
    name: str, before: PackageSnapshot | None, after: PackageSnapshot | None, place: str | None
) -> EnvironmentChange | None:
    files: tuple[FileChange, ...] = ()
    went_back = False
    old = None if before is None else described(before)
    new = None if after is None else described(after)
    if before is None or after is None:
        kind = ChangeKind.ADDED if before is None else ChangeKind.REMOVED
    elif old != new:
        kind = ChangeKind.CHANGED
        went_back = _went_back(before.version, after.version)
    else:
        kind = ChangeKind.BYTES
        files = _file_changes(before, after)
        if not files:
            return None
    standing = suspicion.of_package(name)
    address = after.address if after is not None else None
    return EnvironmentChange(
        area=ChangeArea.PACKAGES,
        subject=name,
        kind=kind,
        suspicion=standing.suspicion,
        row=standing.row,
        before=old,
        after=new,
        address=address,
        place=place,
        went_back=went_back,
        files=files,
    )


def _file_changes(before: PackageSnapshot, after: PackageSnapshot) -> tuple[FileChange, ...]:
    before_files: Mapping[str, str] = before.files
    after_files: Mapping[str, str] = after.files
    if before.folders or after.folders:
        before_files, after_files = _folders(before), _folders(after)
    # One side that knows no files is a lack of knowledge, and no difference.
    if before_files == after_files or not before_files or not after_files:
        return ()
    changes = []
    for path in sorted({*before_files, *after_files}):
        old = before_files.get(path)
        new = after_files.get(path)
        if old != new:
            changes.append(FileChange(path=path, before=old, after=new))
    return tuple(changes)


def _folders(package: PackageSnapshot) -> Mapping[str, str]:
    return package.folders or by_folder(package.files)


def _went_back(before: str | None, after: str | None) -> bool:
    """Whether the second version is lower (PEP 440); False if one of them is no version."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(after or "") < Version(before or "")
    except InvalidVersion:
        return False
