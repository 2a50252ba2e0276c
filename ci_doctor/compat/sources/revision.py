# SPDX-License-Identifier: Apache-2.0
"""Reads a commit of a local repository from its objects: no checkout, no hook, no filter."""

from pathlib import Path

from ci_doctor.compat.sources.code_tree import LARGEST_SOURCE, CodeTree, GitPlace
from ci_doctor.compat.sources.metadata import MetadataFields, metadata_fields
from ci_doctor.errors import UsageError
from ci_doctor.git import GitObjects, ask_git, run_git

_REGULAR = {"100644", "100755"}


def revision_tree(directory: Path, revision: str, label: str) -> CodeTree:
    """The files of `revision` below `directory`. Raises UsageError if git does not know it."""
    commit = ask_git(
        directory, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"
    )
    if commit is None:
        raise UsageError(
            f"{directory} has no revision {revision}",
            hint="fetch it, or see `git rev-parse`",
        )
    root = Path(ask_git(directory, "rev-parse", "--show-toplevel") or directory).resolve()
    below = directory.resolve().relative_to(root).as_posix()
    place = GitPlace(repository=root, revision=commit, below="" if below == "." else below)
    return commit_tree(place, label)


def commit_tree(place: GitPlace, label: str) -> CodeTree:
    """The files of a commit that exists."""
    objects = _objects(place)
    contents = GitObjects(place.repository)

    def read(name: str) -> bytes:
        if name not in objects:
            raise OSError(f"{name} is not in {label}")
        return contents.blob(objects[name], LARGEST_SOURCE)

    fields = MetadataFields()
    if "PKG-INFO" in objects:
        fields = metadata_fields(read("PKG-INFO"))
    return CodeTree(
        label=label,
        names=frozenset(objects),
        read=read,
        distribution=fields.name,
        version=fields.version or _described(place),
        is_built=False,
        digest=place.revision,
        place=place,
    )


def _objects(place: GitPlace) -> dict[str, str]:
    """The regular files of the commit by name below the place, with their object ids."""
    spec = f"{place.revision}:{place.below}" if place.below else place.revision
    listed = run_git(place.repository, ("ls-tree", "-r", "-z", "--end-of-options", spec))
    if listed.returncode:
        raise UsageError(f"git cannot list {spec}: {listed.stderr.strip()}")
    objects = {}
    for entry in listed.stdout.split("\0"):
        head, tab, name = entry.partition("\t")
        fields = head.split()
        if tab and fields[0] in _REGULAR:
            objects[name] = fields[2]
    is_package = "__init__.py" in objects
    prefix = f"{Path(place.below).name}/" if is_package and place.below else ""
    return {f"{prefix}{name}": each for name, each in objects.items()}


def _described(place: GitPlace) -> str | None:
    tag = ask_git(
        place.repository, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", place.revision
    )
    return None if tag is None else tag.removeprefix("v")
