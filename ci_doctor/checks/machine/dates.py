# SPDX-License-Identifier: Apache-2.0
"""Reads dates that lie in the past if the clock is right: of the commit, files, the interpreter."""

import calendar
import os
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext

# `(main, Dec 19 2023, 20:33:49)` in sys.version; it is the C compiler's __DATE__.
_BUILT = re.compile(r"\(.*?, (\w{3}) +(\d+) (\d{4}), [\d:]+\)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COMMITTER = re.compile(r"^committer .* (\d+) [+-]\d{4}$", re.MULTILINE)
# git writes them by the clock of this machine.
_WRITTEN_BY_GIT = ("HEAD", "index", "FETCH_HEAD", "ORIG_HEAD")
_MOST_FILES = 500


class Dated(Struct, frozen=True, kw_only=True):
    """Something with a date: seconds since the epoch. `name` completes "the clock is behind …".

    `is_sure` is false if anybody may have chosen the date, as an archive does for its files.
    """

    name: str
    at: float
    is_sure: bool = True


def interpreter_date() -> Dated | None:
    """When this Python was built, to the day; None if it does not say.

    The clock can be a day behind by the time zone of the build alone, so a day is taken off.
    """
    return parse_build(sys.version)


def parse_build(version: str) -> Dated | None:
    """The date in a `sys.version`, less one day; None if there is none."""
    match = _BUILT.search(version)
    if match is None or match[1] not in _MONTHS:
        return None
    month = _MONTHS.index(match[1]) + 1
    at = calendar.timegm((int(match[3]), month, int(match[2]) - 1, 0, 0, 0))
    return Dated(name=f"the build of this Python ({match[1]} {match[2]} {match[3]})", at=float(at))


def read_commit_date(context: CheckContext) -> Dated | None:
    """The committer's date of HEAD; None outside a git checkout.

    Raises UndeterminedError if git does not say it.
    """
    if git_directory(context.cwd) is None:
        return None
    # Reading one object starts no hook and no program, so another owner's checkout is safe to read.
    words = ["git", "-c", "safe.directory=*", "cat-file", "commit", "HEAD"]
    try:
        ended = context.run(words)
    except OSError as error:
        raise UndeterminedError(f"git cannot be started: {error.strerror}") from error
    match = _COMMITTER.search(ended.stdout)
    if match is None and _has_no_commit(context):
        return None
    if match is None:
        raise UndeterminedError("git does not say the date of the commit")
    return Dated(name="the commit that is checked out", at=float(match[1]))


def _has_no_commit(context: CheckContext) -> bool:
    """Whether the branch is one that nobody has committed to, as after `git init`."""
    git = ["git", "-c", "safe.directory=*"]
    branch = context.run([*git, "symbolic-ref", "--quiet", "HEAD"])
    if branch.exit_code != 0:
        return False
    name = branch.stdout.strip()
    return context.run([*git, "show-ref", "--verify", "--quiet", name]).exit_code == 1


def read_file_dates(directory: Path) -> Iterator[Dated]:
    """The times of the files in `directory`, and of those that git writes there; at most 500."""
    git = git_directory(directory)
    if git is not None:
        for name in _WRITTEN_BY_GIT:
            yield from _dated(git / name, is_sure=True)
    try:
        # Lazily: a directory may have a million files.
        with os.scandir(directory) as entries:
            paths = [Path(entry.path) for entry in islice(entries, _MOST_FILES)]
    except OSError:
        return
    for path in paths:
        yield from _dated(path, is_sure=False)


def _dated(path: Path, *, is_sure: bool) -> Iterator[Dated]:
    try:
        at = path.lstat().st_mtime
    except OSError:
        return
    yield Dated(name=f"the time of {path}", at=at, is_sure=is_sure)


def git_directory(directory: Path) -> Path | None:
    """The `.git` directory of the checkout around `directory`; None if there is none.

    In a worktree `.git` is a file that names it (gitrepository-layout(5)).
    """
    for place in (directory, *directory.parents):
        git = place / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            text = git.read_text(errors="replace")
            return place / text.removeprefix("gitdir:").strip()
    return None
