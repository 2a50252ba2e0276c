# SPDX-License-Identifier: Apache-2.0
"""Reads a directory: the files of a repository, and the texts of those that may name a server.

Bounded in every direction: how many files are listed, how large one may be, how much is read in all.
No symbolic link is followed, so nothing outside of the repository is read.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ci_doctor.errors import UsageError
from ci_doctor.git import ask_git, listed_files
from ci_doctor.scaffold.sources import LEFT_OUT, ListedFiles
from ci_doctor.scaffold.words import without_marks
from ci_doctor.system.files.opening import open_at_once

MOST_FILES: Final = 100_000
LARGEST_FILE: Final = 512 << 10
MOST_BYTES: Final = 64 << 20


def read_files(directory: Path) -> ListedFiles:
    """The files of the repository that holds `directory`. Raises UsageError for a bare repository."""
    directory = directory.resolve()
    if ask_git(directory, "rev-parse", "--is-inside-work-tree") == "false":
        raise UsageError(
            f"{directory} lies in a repository without files: it is bare, or the inside of .git",
            hint="run it in a checkout: `git clone` or `git worktree add`",
        )
    top = ask_git(directory, "rev-parse", "--show-toplevel")
    root = Path(top) if top else directory
    listed = _listed_by_git(root) if top else _walked(root)
    # A name may become a word of a command, and there a mark is a live `$`.
    names = sorted(
        {
            name
            for name in listed
            if not (without_marks(name) != name or not LEFT_OUT.isdisjoint(name.split("/")[:-1]))
        }
    )
    inside = directory.relative_to(root).as_posix() if directory.is_relative_to(root) else "."
    files = names
    if inside != ".":
        files = [name[len(inside) + 1 :] for name in names if name.startswith(f"{inside}/")]
    return ListedFiles(
        root=root,
        directory=directory,
        is_repository=top is not None,
        files=tuple(files[:MOST_FILES]),
        root_files=tuple(names[:MOST_FILES]),
        is_whole=len(names) <= MOST_FILES,
    )


class TextReader:
    """Reads the texts of one directory, up to all that may be read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._left = MOST_BYTES
        self.skipped: list[str] = []

    def text(self, name: str) -> str | None:
        """The text of a file; None for a link, for what is no file, and beyond the limits.

        Bytes that are not UTF-8 become U+FFFD: a command is read all the same. So do the characters
        that mark a `$` of the shell here.
        """
        try:
            content = _content(self._directory, name)
        except OSError:
            return None
        if content is None or len(content) > self._left:
            self.skipped.append(name)
            return None
        self._left -= len(content)
        text = without_marks(content.decode("utf-8-sig", "replace"))
        return text.replace("\r\n", "\n").replace("\r", "\n")


def _content(directory: Path, name: str) -> bytes | None:
    """The bytes of a regular file without a link anywhere in its path; None if it is too large."""
    parts = name.split("/")
    at = directory
    for part in parts[:-1]:
        at /= part
        if stat.S_ISLNK(at.lstat().st_mode):
            raise OSError(0, "a link")
    descriptor = open_at_once(directory / name, follow=False)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        if status.st_size > LARGEST_FILE:
            return None
        return file.read(LARGEST_FILE)


def _listed_by_git(root: Path) -> list[str]:
    listed = listed_files(root)
    if listed is None:
        raise UsageError(f"git cannot list the files of {root}", hint="run `git ls-files` there")
    return listed


def _walked(root: Path) -> Iterator[str]:
    """All files below `root`, links to directories not followed."""
    count = 0
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = sorted(name for name in subdirectories if name not in LEFT_OUT)
        for name in sorted(names):
            yield (Path(directory) / name).relative_to(root).as_posix()
            count += 1
            if count > MOST_FILES:
                return
