# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which logs tell of this job's failed command."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.diagnosis.open_log import STANDARD_INPUT, expand
from ci_doctor.model.moment import parse_moment
from ci_doctor.model.report import Report

REPORT_NAME = "diagnose"
# A file system keeps times more coarsely than the clock tells them.
_TOLERANCE_S = 2.0


class LogsOfJob(Struct, frozen=True, kw_only=True):
    """The logs to read.

    names: paths to open. missing: from names and patterns behind which there is nothing to a
    reason: nobody wrote there. unusable: from logs that may hold the cause and are not read to a
    reason. in_part: from patterns of which not all is read to a reason. older: logs that an earlier
    job has left. undated: those of `names` of which nobody knows whether they are older.
    """

    names: tuple[str, ...] = ()
    missing: dict[str, str] = {}
    unusable: dict[str, str] = {}
    in_part: dict[str, str] = {}
    older: tuple[str, ...] = ()
    undated: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all that may hold the cause is to be read, and is this job's."""
        return not self.unusable and not self.in_part and not self.undated


def logs_of_job(
    named: Sequence[str], root: Path, reports: Sequence[tuple[Path, Report]], began_at: str | None
) -> LogsOfJob:
    """The logs that `named` means, and those that commands of ci-doctor left below `root`.

    named: paths and patterns, relative to the working directory. began_at: RFC 3339; None, or text
    that is no time, if nobody knows when the job began; then no log can be told from an earlier job's.
    """
    own = list(_own_logs(root, reports))
    # A log called `-` is a file, and not standard input, at which a hook would wait.
    asked = [f"./{name}" if name == STANDARD_INPUT else name for name in named]
    expanded = expand([*asked, *own])
    sorted_out = _Sorted(began_at, root)
    for name in expanded.names:
        sorted_out.add(name)
    return LogsOfJob(
        names=tuple(sorted_out.names),
        missing={**expanded.unreadable, **sorted_out.empty},
        unusable=sorted_out.unusable,
        in_part=expanded.limited,
        older=tuple(sorted_out.older),
        undated=tuple(sorted_out.undated),
    )


def _own_logs(root: Path, reports: Sequence[tuple[Path, Report]]) -> Iterator[str]:
    """The logs of the commands of ci-doctor that did not end with 0, or not with a report."""
    ended_well = {folder for folder, report in reports if report.exit_code == 0}
    try:
        folders = sorted(root.iterdir())
    except OSError:
        return
    for folder in folders:
        if folder.name.startswith((".", REPORT_NAME)) or folder in ended_well:
            continue
        if folder.is_dir() and not folder.is_symlink():
            yield from expand([str(folder)]).names


class _Sorted:
    """Log files by what can be said of them before they are read."""

    def __init__(self, began_at: str | None, root: Path) -> None:
        self.names: list[str] = []
        self.empty: dict[str, str] = {}
        self.unusable: dict[str, str] = {}
        self.undated: list[str] = []
        self.older: list[str] = []
        self._began = parse_moment(began_at)
        self._root = root.absolute()

    def add(self, name: str) -> None:
        path = Path(name).absolute()
        # What an earlier hook of this job quotes is no new evidence.
        if any(part.startswith(REPORT_NAME) for part in self._below_root(path)):
            return
        try:
            status = os.stat(name)  # noqa: PTH116 an odd name stays as it is
        except OSError as error:
            self.unusable[name] = error.strerror or str(error)
            return
        if not stat.S_ISREG(status.st_mode):
            self.unusable[name] = "not a regular file"
        elif status.st_size == 0:
            self.empty[name] = "empty"
        elif self._is_older(status.st_mtime):
            self.older.append(name)
        else:
            self._keep(name, path)

    def _keep(self, name: str, path: Path) -> None:
        self.names.append(name)
        # Below the root lies nothing but this job's.
        if self._began is None and not self._below_root(path):
            self.undated.append(name)

    def _is_older(self, changed: float) -> bool:
        return self._began is not None and changed < self._began - _TOLERANCE_S

    def _below_root(self, path: Path) -> tuple[str, ...]:
        if not path.is_relative_to(self._root):
            return ()
        return path.relative_to(self._root).parts
