# SPDX-License-Identifier: Apache-2.0
"""Acts on files and git: copies a project's checkout to a place where a build may write.

The copy shares the objects of the repository (gitrepository-layout(5), objects/info/alternates),
and has its index, its branch and the wanted tags. Nothing is written to the original.
"""

import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path

from ci_doctor.environment.tags import Described, exclusions, is_release, list_tags, may_rest_on
from ci_doctor.environment.versions import with_clone_limits
from ci_doctor.git import ask_git, run_git
from ci_doctor.system.files.writing import make_directory

# A repository with models or data in it would take minutes and fill the disk.
_MOST_BYTES = 1 << 30
_NEVER_COPIED = shutil.ignore_patterns(".git", ".venv", "venv", "node_modules", "__pycache__")


class Unbuildable(Exception):  # noqa: N818 - not an error of ci-doctor: it ends as a finding
    """Raised where the build itself cannot be tried; `reason` is a clause for a report."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def copy_checkout(project: Path, to: Path, *, without_tags: Collection[str] = ()) -> Path:
    """Copy the checkout around `project` to the new directory `to`; return the project there.

    Tags in `without_tags` are left out. Raises Unbuildable.
    """
    top = ask_git(project, "rev-parse", "--show-toplevel")
    try:
        if top is None:
            shutil.copytree(project, to, symlinks=True, ignore=_NEVER_COPIED)
            return to
        _copy_files(Path(top), to)
        _copy_repository(Path(top), to, without_tags)
    except (OSError, shutil.Error) as error:
        raise Unbuildable(f"the checkout cannot be copied: {error}") from error
    return to / project.resolve().relative_to(Path(top).resolve())


def nearest_tag(project: Path) -> str | None:
    """The tag that a plain `git describe` picks; None if there is none."""
    return ask_git(project, "describe", "--tags", "--abbrev=0")


def disturbing_tags(project: Path) -> tuple[str, ...]:
    """The tags reachable from HEAD that are no releases, newest first."""
    reachable = list_tags(partial(ask_git, project), reachable=True)
    return tuple(tag for tag in reachable if not is_release(tag))


def describe(project: Path, version: str) -> Described:
    """The checkout of a project whose build computes `version` without the disturbing tags.

    The tool may read tags of some names alone, so `tag` is the nearest one that `version` may rest
    on. If it rests on none, that is the nearest release, which then says nothing about the history
    that the tool has read.
    """
    reachable = list_tags(partial(ask_git, project), reachable=True)
    disturbing = tuple(tag for tag in reachable if not is_release(tag))
    good = [tag for tag in reachable if is_release(tag)]
    resting = [tag for tag in good if may_rest_on(version, tag)]
    # Names need no escaping: git forbids glob characters in them (git-check-ref-format(1)).
    options = [f"--match={name}" for name in resting]
    if not resting:
        options = [f"--exclude={pattern}" for pattern in exclusions(disturbing, good)]
    answer = ask_git(project, "describe", "--tags", "--long", *options)
    tag, distance, _ = answer.rsplit("-", 2) if answer else (None, None, None)
    nearest = nearest_tag(project)
    head = ask_git(project, "rev-parse", "--verify", "--quiet", "HEAD")
    described = Described(
        version=version,
        repository=ask_git(project, "rev-parse", "--show-toplevel"),
        tag=tag,
        distance=int(distance) if distance else None,
        node=f"g{head}" if head else None,
        shallow=ask_git(project, "rev-parse", "--is-shallow-repository") == "true",
        unparsable=disturbing,
        breaks_on=nearest if nearest in disturbing else None,
    )
    return with_clone_limits(project, described, rests_on_tag=bool(resting))


def _copy_files(root: Path, to: Path) -> None:
    listed = ask_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard") or ""
    to.mkdir(parents=True)
    left = _MOST_BYTES
    for name in filter(None, dict.fromkeys(listed.split("\0"))):
        source = root / name
        target = to / name
        if not source.is_symlink() and not source.exists():
            continue  # deleted, and not yet committed
        left -= source.lstat().st_size
        if left < 0:
            raise Unbuildable(f"the checkout is too large to copy (over {_MOST_BYTES >> 20} MiB)")
        make_directory(target.parent)
        if source.is_dir() and not source.is_symlink():  # a submodule
            shutil.copytree(source, target, symlinks=True, ignore=_NEVER_COPIED)
        else:
            shutil.copy2(source, target, follow_symlinks=False)


def _copy_repository(root: Path, to: Path, without_tags: Collection[str]) -> None:
    _demand(to, "init", "--quiet", "--template=")
    place = to / ".git"
    objects = _path_in_repository(root, "objects")
    make_directory(place / "objects" / "info")
    (place / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    for name in ("shallow", "index"):
        source = _path_in_repository(root, name)
        if source.is_file():
            shutil.copy2(source, place / name)
    head = ask_git(root, "rev-parse", "--verify", "HEAD")
    if head is None:  # nothing is committed yet
        return
    branch = ask_git(root, "symbolic-ref", "--quiet", "HEAD")
    if branch is not None:
        _demand(to, "symbolic-ref", "HEAD", branch)
    _demand(to, "update-ref", *([] if branch else ["--no-deref"]), "HEAD", head)
    tags = ask_git(root, "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags") or ""
    dropped = {f"refs/tags/{name}" for name in without_tags}
    parts = (line.partition(" ") for line in tags.splitlines())
    created = [
        f"create {reference} {object_name}\n"
        for object_name, _, reference in parts
        if reference not in dropped
    ]
    _demand(to, "update-ref", "--stdin", text="".join(created))
    # The copied index has the stat data of the original files.
    ask_git(to, "update-index", "-q", "--refresh")


def _path_in_repository(root: Path, name: str) -> Path:
    return (root / (ask_git(root, "rev-parse", "--git-path", name) or name)).resolve()


def _demand(directory: Path, *arguments: str, text: str = "") -> None:
    completed = run_git(directory, arguments, text=text)
    if completed.returncode:
        raise Unbuildable(f"git {arguments[0]}: {completed.stderr.strip()}")
