# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: the versions of the libraries that decide bits, as they are installed.

Nothing is imported.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.identity.identity import Identity
from ci_doctor.identity.library_names import matters, normal
from ci_doctor.identity.origin import is_editable, read_origin, source_directory, table_of

# RECORD of torch has 1.5 MiB. What is larger is not read to its end.
_LIMIT = 8 << 20


class Installed(Struct, frozen=True, kw_only=True):
    """One distribution; `folder` is its dist-info."""

    name: str
    version: str
    folder: Path


def installed(
    directories: Iterable[Path], wanted: Callable[[str], bool] = matters
) -> Iterator[Installed]:
    """Every distribution whose normal name is `wanted`, in the order of Python's own search."""
    for directory in directories:
        try:
            names = sorted(path.name for path in directory.iterdir())
        except OSError:
            continue
        for name in names:
            stem, _, kind = name.rpartition(".")
            if kind in {"dist-info", "egg-info"} and wanted(normal(stem.partition("-")[0])):
                yield _read(directory / name, stem)


def _read(folder: Path, stem: str) -> Installed:
    """By its metadata, else by the name of its folder, which holds the version too."""
    headers: dict[str, str] = {}
    # The headers end at the first empty line; a description may follow (core metadata).
    text, _, _ = _text(_metadata_file(folder)).partition("\n\n")
    for line in text.splitlines():
        key, _, value = line.partition(":")
        headers.setdefault(key.lower(), value.strip())
    name, _, rest = stem.partition("-")
    version, _, _ = rest.partition("-")
    return Installed(
        name=normal(headers.get("name") or name),
        version=headers.get("version") or version,
        folder=folder,
    )


def _metadata_file(folder: Path) -> Path:
    if folder.is_file():  # an egg-info of distutils
        return folder
    return folder / ("METADATA" if folder.suffix == ".dist-info" else "PKG-INFO")


def libraries(directories: Iterable[Path]) -> Identity:
    """`torch` -> `2.9.0`; of two with one name both are listed, since either may be imported.

    Several builds may have one version (a local or development one, or one not from an index). Such
    a version has the digest of the installed files, or the commit, beside it.
    """
    versions: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for distribution in installed(directories):
        name = distribution.name
        if not distribution.version:
            unknown[name] = f"{distribution.folder} names no version"
        origin = read_origin(distribution.folder)
        versions.setdefault(name, []).append(_version(distribution, origin))
        if is_editable(origin):
            reason = "an editable installation is not searched for them"
            unknown[f"{name} (uncommitted changes)"] = reason
    facts = {name: " and ".join(dict.fromkeys(texts)) for name, texts in versions.items()}
    return Identity.of(facts, unknown)


def _version(distribution: Installed, origin: Mapping[str, Any]) -> str:
    version = distribution.version
    if is_editable(origin):
        source = source_directory(origin)
        commit = None if source is None else commit_of(source)
        state = f"commit {commit[:12]}" if commit else "no commit"
        return f"{version}, editable, {state}"
    commit = str(table_of(origin, "vcs_info").get("commit_id") or "")
    if commit:
        return f"{version}, commit {commit[:12]}"
    if _is_released(version) and not origin:
        return version
    digest = record_digest(distribution.folder / "RECORD")
    return f"{version}, files {digest}" if digest else version


def _is_released(version: str) -> bool:
    """Whether only one build has this version: neither a local one nor one of a nightly."""
    return "+" not in version and "dev" not in version


def record_digest(record: Path) -> str | None:
    """A digest over RECORD's lines that say the same wherever the wheel is; None if there are none."""
    lines = [line for line in _text(record, _LIMIT).splitlines() if _is_portable(line)]
    if not lines:
        return None
    # Sorted, because installers write RECORD in any order.
    content = "\n".join(sorted(lines))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _is_portable(line: str) -> bool:
    """Whether a line of RECORD is the same wherever the wheel is installed.

    Scripts lie outside and name their interpreter, dist-info names the installer, and bytecode has
    no hash.
    """
    is_outside = line.startswith(("..", "/", '"'))
    return "sha256=" in line and not is_outside and ".dist-info/" not in line


def commit_of(directory: Path) -> str | None:
    """The commit checked out around `directory`, from git's files; None without one."""
    for top in (directory, *directory.parents):
        git = top / ".git"
        if git.is_file():  # a worktree or a submodule
            git = top / _text(git).removeprefix("gitdir:").strip()
        if (git / "HEAD").is_file():
            return _head(git)
    return None


def _head(git: Path) -> str | None:
    head = _text(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.removeprefix("ref:").strip()
    # The refs of a worktree are those of the repository that it belongs to
    # (gitrepository-layout(5)).
    shared = git / (_text(git / "commondir").strip() or ".")
    for place in (git, shared):
        commit = _text(place / name).strip()
        if commit:
            return commit
    line = re.compile(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", re.MULTILINE)
    packed = line.search(_text(shared / "packed-refs", _LIMIT))
    return packed[1] if packed else None


def _text(path: Path, limit: int = 1 << 18) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""
