# SPDX-License-Identifier: Apache-2.0
"""Reads git: the version that a project's tool computes without its unparsable tags, and whether it is final.

A clone that is kept gets no tags by `git fetch origin BRANCH` (git-fetch(1): tags are followed only
where a refspec stores what it fetches). So the tags of the remote are compared with those here.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.environment import rules
from ci_doctor.environment.pins import ComputedVersion, judged
from ci_doctor.environment.project import NotComputable, Project
from ci_doctor.environment.tags import Described, TagGap, TagGapKind, is_release
from ci_doctor.errors import UsageError
from ci_doctor.git import ask_git, remote_tags
from ci_doctor.model.outcome import ShellCommand

_REMOTE_TIMEOUT_S = 20.0
# If HEAD has the tag, the remote can only say that it was moved.
_TAGGED_TIMEOUT_S = 5.0
_PEELED = "^{}"

# Those of some names of tags that a tool could read a version from.
ReadNames = Callable[[Sequence[str]], Sequence[str]]


def compute_version(project: Project, *, allow_fallback: bool) -> ComputedVersion:
    """Compute the version of `project`; `allow_fallback` accepts an untagged shallow clone.

    Raises UsageError if git is needed and missing. Every other obstacle is a finding.
    """
    if project.is_fixed:
        return ComputedVersion(project=project, version=project.version)
    if project.source is None:
        return ComputedVersion(
            project=project,
            version=None,
            findings=(
                rules.UNSUPPORTED_BACKEND.finding(
                    f"{project.label} takes its version from {project.tool}, "
                    "which is not pinned here",
                    remedy=project.advice,
                ),
            ),
        )
    if shutil.which("git") is None:
        raise UsageError(
            f"no git on PATH, and {project.label} takes its version from git ({project.tool})",
            hint="install git in this job's image",
        )
    try:
        described = _describe(project, asks_remote=True)
    except NotComputable as reason:
        return ComputedVersion(project=project, version=None, findings=(reason.finding,))
    return judged(project, described, allow_fallback=allow_fallback)


def describe_locally(project: Project) -> Described:
    """The checkout of `project` as its tool describes it, as far as the clone itself shows.

    No remote is asked. Raises NotComputable.
    """
    return _describe(project, asks_remote=False)


def _describe(project: Project, *, asks_remote: bool) -> Described:
    if project.unreadable:
        options = ", ".join(project.unreadable)
        raise NotComputable(
            rules.SETUP_SCRIPT,
            f"setup.py of {project.label} computes options of setuptools-scm: {options}",
        )
    directory = project.directory
    if project.source is None or not project.source.is_library:
        is_in_checkout = any((each / ".git").exists() for each in (directory, *directory.parents))
        # safe.directory, git-config(1): a build would behave as if there were no repository.
        if is_in_checkout and ask_git(directory, "rev-parse", "--git-dir") is None:
            raise NotComputable(
                rules.OTHER_OWNER,
                f"git refuses to read {directory}, which belongs to another user",
                remedy=ShellCommand(f"git config --global --add safe.directory {directory}"),
            )
        raise NotComputable(
            rules.UNSUPPORTED_BACKEND,
            f"{project.label} takes its version from {project.tool}, which only a build can ask",
            remedy=project.advice,
        )
    # Late: the library of setuptools-scm costs a third of a start.
    from ci_doctor.environment import scm_library

    return with_clone_limits(
        directory,
        scm_library.describe(project),
        asks_remote=asks_remote,
        read_names=partial(scm_library.read_names, project),
    )


def with_clone_limits(
    directory: Path,
    described: Described,
    *,
    asks_remote: bool = True,
    read_names: ReadNames | None = None,
    rests_on_tag: bool = True,
) -> Described:
    """`described` with what the clone of `directory` hides.

    `shallow` holds then only if the cut of the history is between HEAD and the tag, or if there is
    no tag. `gap` is a difference to the tags of the remote that decides the version.
    `unreleased` names a remote without any release, if the clone has none either.
    `read_names` chooses the tags of the remote that count: by default the names of releases.
    A remote that does not answer is no gap if HEAD itself has the tag. No remote is asked without
    `asks_remote`. Without `rests_on_tag` the whole history decides, because the version may rest on
    another tag than that of `described`.
    """
    if described.repository is None:
        return described
    tag = described.tag if rests_on_tag else None
    shallow = described.shallow and not _reaches(directory, tag)
    described = replace(described, shallow=shallow)
    if shallow or not asks_remote:
        return described
    return _with_remote(directory, described, tag, read_names or _releases)


def _releases(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if is_release(name)]


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


def _with_remote(
    directory: Path, described: Described, tag: str | None, read_names: ReadNames
) -> Described:
    """`described` beside its remotes; `tag` ends the history that decides, None if all of it does."""
    is_tagged = tag is not None and described.is_tagged
    listed = ask_git(directory, "remote")
    if listed is None:
        # git refuses the repository of another user, and asking its remote could run its commands.
        unreadable = TagGap(kind=TagGapKind.UNREADABLE)
        return described if is_tagged else replace(described, gap=unreadable)
    remotes = listed.split()
    asked = ["origin"] if "origin" in remotes else remotes
    if not asked:
        return described
    here = read_tags(ask_git(directory, "show-ref", "--tags", "--dereference") or "", " ")
    there: dict[str, str] = {}
    limit_s = _TAGGED_TIMEOUT_S if is_tagged else _REMOTE_TIMEOUT_S
    for remote in asked:
        tags = _remote_tags(directory, remote, limit_s)
        if tags is None:
            silent = TagGap(kind=TagGapKind.SILENT, remote=remote)
            return described if is_tagged else replace(described, gap=silent)
        there |= tags
    names = read_names(sorted(there))
    # The commits of HEAD's history, without those before the commit of the tag. An ancestor of HEAD is
    # in every clone that is not cut, also in a partial one.
    before = ("--not", f"refs/tags/{tag}^@") if tag is not None else ()
    history = frozenset((ask_git(directory, "rev-list", "HEAD", *before) or "").split())
    gap = tag_gap(described, here, {name: there[name] for name in names}, history, asked[0])
    if gap is not None and gap.kind is TagGapKind.LOCAL:
        others = [remote for remote in remotes if remote not in asked]
        if any(gap.tag in (_remote_tags(directory, remote) or {}) for remote in others):
            gap = None
    is_unreleased = not names and not _releases(list(here))
    return replace(described, gap=gap, unreleased=asked[0] if is_unreleased else None)


def tag_gap(
    described: Described,
    here: Mapping[str, str],
    there: Mapping[str, str],
    history: frozenset[str],
    remote: str,
) -> TagGap | None:
    """The first difference between the tags `here` and `there` that decides the version.

    Both map names to commits. `history` holds the commits on which a tag would be picked: a tag
    elsewhere, or further away than the tag of `described`, changes nothing.
    """
    for name, commit in there.items():
        mine = here.get(name)
        if mine == commit:
            continue
        if mine is None and commit in history:
            return TagGap(kind=TagGapKind.ABSENT, remote=remote, tag=name)
        if mine is not None and not history.isdisjoint((mine, commit)):
            return TagGap(kind=TagGapKind.MOVED, remote=remote, tag=name)
    tag = described.tag
    # A release is tagged in a job before its tag is pushed.
    if tag is None or tag in there or described.is_tagged:
        return None
    return TagGap(kind=TagGapKind.LOCAL, remote=remote, tag=tag)


def read_tags(text: str, separator: str = "\t") -> dict[str, str]:
    """The commit of each tag by `git ls-remote --tags` or `git show-ref --tags --dereference`.

    The commit of an annotated tag is on a line of its own, `refs/tags/v1.0^{}`.
    """
    commits: dict[str, str] = {}
    for line in text.splitlines():
        commit, _, reference = line.partition(separator)
        if not reference.startswith("refs/tags/"):
            continue
        name = reference.removeprefix("refs/tags/")
        if name.endswith(_PEELED):
            commits[name.removesuffix(_PEELED)] = commit
        else:
            commits.setdefault(name, commit)
    return commits


def _remote_tags(
    directory: Path, remote: str, limit_s: float = _REMOTE_TIMEOUT_S
) -> dict[str, str] | None:
    """The commits of the tags of `remote`; None if it does not answer within `limit_s`."""
    printed = remote_tags(directory, remote, limit_s)
    return None if printed is None else read_tags(printed)
