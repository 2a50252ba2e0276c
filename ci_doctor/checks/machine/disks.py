# SPDX-License-Identifier: Apache-2.0
"""Reads the disks below the directories of a job: their room, their kind, and whether we may write."""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.answers import answers_within
from ci_doctor.checks.machine.directories import DirectoryRole, JobDirectory, job_directories
from ci_doctor.checks.machine.mounts import Mount, mount_holding, read_mounts

# Well below the deadline of a check, so that one dead disk leaves the others known.
_LIMIT_S = 1.0


class PlacedDirectory(Struct, frozen=True, kw_only=True):
    """A directory, and the disk that it lies on, or will lie on once it is made.

    `existing` is the nearest directory above (or itself) that exists. Sizes are bytes; `free` is
    what a user other than root may take, `reserved` what root may take beyond. `inodes` is 0 if the
    file system has no fixed number of them. `is_refused`: this user may not even ask whether the
    directory exists.
    """

    directory: JobDirectory
    existing: Path
    device: int
    mount: Mount | None
    total: int
    free: int
    reserved: int
    inodes: int
    inodes_free: int
    is_read_only: bool
    is_refused: bool
    is_writable: bool

    @property
    def exists(self) -> bool:
        """Whether the directory itself is there."""
        return self.existing == self.directory.path

    @property
    def disk_name(self) -> str:
        """`/ (ext4)`: where the disk is mounted, and its kind."""
        if self.mount is None:
            return str(self.existing)
        return f"{self.mount.point} ({self.mount.kind})"


class UnansweredDirectory(Struct, frozen=True, kw_only=True):
    """A directory that could not be looked at, why, and what is mounted there."""

    directory: JobDirectory
    reason: str
    mount: Mount | None

    def describe(self) -> str:
        """One clause. A server that does not answer is the usual cause, so it is named."""
        text = f"{self.directory.path}: {self.reason}"
        if self.mount is None or not self.mount.is_network:
            return text
        return f"{text} ({self.mount.kind} of {self.mount.source})"


class Disks(Struct, frozen=True, kw_only=True):
    """All directories that could be looked at, and those that could not."""

    directories: tuple[PlacedDirectory, ...]
    unanswered: tuple[UnansweredDirectory, ...]

    def unknown(self) -> str | None:
        """Why some directories are unknown, as one clause; None if all are known."""
        return "; ".join(each.describe() for each in self.unanswered) or None

    def by_device(self) -> list[list[PlacedDirectory]]:
        """The directories of each file system, those with the least room first.

        The disk of a directory that refuses us is unknown.
        """
        groups: dict[int, list[PlacedDirectory]] = {}
        for each in self.directories:
            if not each.is_refused:
                groups.setdefault(each.device, []).append(each)
        return sorted(groups.values(), key=lambda group: group[0].free)


def read_disks(context: CheckContext) -> Disks:
    """Look at each directory of the job and of its services; nothing is written."""
    directories = _directories(context)
    mounts = read_mounts(context)
    questions = {each: partial(_placed, each, mounts) for each in directories}
    answers = answers_within(_LIMIT_S, questions)
    answered = [answers.values[each] for each in directories if each in answers.values]
    unanswered = []
    for each, reason in answers.missing.items():
        mount = mount_holding(mounts, each.path)
        unanswered.append(UnansweredDirectory(directory=each, reason=reason, mount=mount))
    return Disks(directories=tuple(filter(_counts, answered)), unanswered=tuple(unanswered))


def _counts(placed: PlacedDirectory) -> bool:
    """Nobody is going to make these directories for the job: they are there, or they do not matter."""
    made_by_others = {DirectoryRole.SYSTEM, DirectoryRole.OTHER_TEMPORARY}
    return placed.exists or placed.directory.role not in made_by_others


def _directories(context: CheckContext) -> tuple[JobDirectory, ...]:
    """Each directory once. A service may name others in its own environment."""
    by_path = {}
    for each in job_directories(context.environ, context.cwd, context.settings.caches):
        by_path[each.path] = each
    for spec in context.services.values():
        # A placeholder is filled at the start of the service.
        own = {name: value for name, value in spec.env.items() if "{" not in value}
        environ = {**context.environ, **own}
        for each in job_directories(environ, context.cwd / (spec.cwd or ""), ()):
            by_path.setdefault(each.path, each)
    return tuple(by_path.values())


def _placed(directory: JobDirectory, mounts: Sequence[Mount]) -> PlacedDirectory:
    existing, is_refused = _nearest(directory.path)
    usage = os.statvfs(existing)
    return PlacedDirectory(
        directory=directory,
        existing=existing,
        device=existing.stat().st_dev,
        mount=mount_holding(mounts, Path(os.path.realpath(existing))),
        total=usage.f_blocks * usage.f_frsize,
        free=usage.f_bavail * usage.f_frsize,
        reserved=(usage.f_bfree - usage.f_bavail) * usage.f_frsize,
        inodes=usage.f_files,
        inodes_free=usage.f_favail,
        is_read_only=bool(usage.f_flag & os.ST_RDONLY),
        is_refused=is_refused,
        is_writable=not is_refused and os.access(existing, os.W_OK | os.X_OK, effective_ids=True),
    )


def _nearest(path: Path) -> tuple[Path, bool]:
    """`path` or the nearest directory above it that we can reach, and whether we are refused below.

    FUSE refuses all users but the one who mounted it, root too.
    """
    is_refused = False
    for place in (path, *path.parents):
        try:
            place.stat()
        except PermissionError:
            is_refused = True
        except (FileNotFoundError, NotADirectoryError):
            continue
        else:
            return place, is_refused
    return Path("/"), is_refused


def names_of(directories: Iterable[PlacedDirectory]) -> str:
    """`TMPDIR, ~/.cache/uv`: the names of the directories."""
    return ", ".join(each.directory.name for each in directories)
