# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether a clone holds the history and the tags that decide a version."""

from pathlib import Path

from msgspec.structs import replace

from ci_doctor.environment.git_command import ask_git
from ci_doctor.environment.release_names import is_release
from ci_doctor.environment.tags import Described

_REMOTE_TIMEOUT_S = 20


def with_clone_limits(
    directory: Path, described: Described, *, asks_remote: bool = True
) -> Described:
    """`described` with what the clone of `directory` hides.

    `shallow` holds then only if the cut of the history is between HEAD and the tag, or if there is
    no tag. `missing` is a clause about tags that the remote has, or may have, and the clone lacks.
    `unreleased` names a remote without any release.
    The remote is asked only if the clone has no usable tag, or was made with --no-tags, and never
    without `asks_remote`.
    """
    if described.repository is None:
        return described
    shallow = described.shallow and not _reaches(directory, described.tag)
    described = replace(described, shallow=shallow)
    if (
        shallow
        or not asks_remote
        or (described.tag is not None and not _leaves_tags_out(directory))
    ):
        return described
    return _with_remote(directory, described)


def _reaches(directory: Path, tag: str | None) -> bool:
    """Whether all commits since `tag` are there: none of them is one whose parents were cut off.

    What is hidden behind the other cuts are ancestors of the tag, so no tag there is nearer.
    """
    if tag is None:
        return False
    place = ask_git(directory, "rev-parse", "--git-path", "shallow")
    since = ask_git(directory, "rev-list", "HEAD", "--not", f"refs/tags/{tag}")
    if place is None or since is None:
        return False
    try:
        cut = (directory / place).read_text().split()
    except OSError:
        return False
    return set(cut).isdisjoint(since.split())


def _leaves_tags_out(directory: Path) -> bool:
    """Whether `git clone --no-tags` made the clone (git-clone(1): it sets tagOpt)."""
    options = ask_git(directory, "config", "--get-regexp", r"^remote\..*\.tagopt$") or ""
    return "--no-tags" in options


def _with_remote(directory: Path, described: Described) -> Described:
    remotes = (ask_git(directory, "remote") or "").split()
    if not remotes:
        return described
    remote = "origin" if "origin" in remotes else remotes[0]
    listed = ask_git(directory, "ls-remote", "--tags", remote, timeout_s=_REMOTE_TIMEOUT_S)
    if listed is None:
        silent = f"its remote {remote} does not answer, so it may have tags that this clone lacks"
        return replace(described, missing=silent)
    history = set((ask_git(directory, "rev-list", "HEAD") or "").split())
    here = set((ask_git(directory, "tag", "--list") or "").splitlines())
    released = any(is_release(name) for name in here)
    for line in listed.splitlines():
        commit, _, reference = line.partition("\t")
        # The commit of an annotated tag is on a line of its own, `refs/tags/v1.0^{}`.
        name = reference.removeprefix("refs/tags/").removesuffix("^{}")
        if not is_release(name):
            continue
        released = True
        if commit in history and name not in here:
            lacking = f"its remote {remote} has the tag {name!r} on a commit of this history"
            return replace(described, missing=lacking)
    return replace(described, unreleased=None if released else remote)
