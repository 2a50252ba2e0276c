# SPDX-License-Identifier: Apache-2.0
"""Acts on files and reads cache directories: what was compiled, by the files and by the log."""

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from ci_doctor.caches.family import CacheLineKind, Family
from ci_doctor.system.files.own_directory import own_directory

# --- what a job's log says about a family's cache: the directory chosen, loads, compiles ---


class LogWords(Struct, frozen=True, kw_only=True):
    """What the log says. `directories` in order; `seconds` of compiles that name theirs.

    total_s: what the library says that compiling took in all, the last time; None if it says nothing.
    """

    directories: tuple[str, ...] = ()
    loaded: int = 0
    compiled: int = 0
    seconds: tuple[float, ...] = ()
    total_s: float | None = None
    is_disabled: bool = False

    def chose_other_than(self, places: Iterable[str]) -> str | None:
        """The directory that was used in place of `places`; None if none was named, or one below them."""
        if not self.directories:
            return None
        named = [PurePosixPath(each) for each in self.directories]
        if any(each.is_relative_to(place) for place in places for each in named):
            return None
        return self.directories[0]

    def uses(self, places: Iterable[str]) -> bool:
        """Whether something was loaded, and from `places` if a directory is named."""
        return self.loaded > 0 and self.chose_other_than(places) is None


def read_lines(lines: Iterable[str], family: Family) -> LogWords:
    """What `lines` say about this family's cache."""
    patterns = [(line.kind, line.literal, re.compile(line.pattern)) for line in family.lines]
    directories: dict[str, None] = {}
    counts = dict.fromkeys(CacheLineKind, 0)
    seconds: list[float] = []
    total = None
    for line in lines:
        for kind, literal, pattern in patterns:
            match = pattern.search(line) if literal in line else None
            if match is None:
                continue
            groups = match.groupdict()
            counts[kind] += 1
            spent = _number(groups.get("seconds"))
            if groups.get("directory"):
                directories[groups["directory"]] = None
            if kind is CacheLineKind.TOTAL:
                total = spent if spent is not None else total
            elif kind is CacheLineKind.COMPILED and spent is not None:
                seconds.append(spent)
    return LogWords(
        directories=tuple(directories),
        loaded=counts[CacheLineKind.LOADED],
        compiled=counts[CacheLineKind.COMPILED],
        seconds=tuple(seconds),
        total_s=total,
        is_disabled=counts[CacheLineKind.DISABLED] > 0,
    )


def compile_seconds(words: LogWords | None) -> tuple[float, ...]:
    """The seconds that a log names: of each compile, else of all together."""
    if words is None:
        return ()
    return words.seconds or ((words.total_s,) if words.total_s is not None else ())


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


# --- the compiled files with their times, and whether files were read ---

_LONG_AGO_NS = 1_000_000_000


class ScannedFile(Struct, frozen=True, kw_only=True, gc=False):
    """A regular file: its path below the root, its size, and its times (ns since the epoch)."""

    path: str
    bytes: int
    mtime_ns: int
    atime_ns: int


def scan(root: Path, family: Family) -> tuple[ScannedFile, ...]:
    """The files of a cache, without those that are never saved; empty if there is no directory.

    Times of reading stay as they are.
    """
    return tuple(file for file in _files(root, "") if not family.excludes(file.path))


def forget_listings(root: Path) -> None:
    """Give all directories of a tree a time of listing of long ago (`was_walked`)."""
    for directory in _directories(root):
        with contextlib.suppress(OSError):
            status = directory.stat()
            os.utime(directory, ns=(_LONG_AGO_NS, status.st_mtime_ns))


def was_walked(root: Path) -> bool:
    """Whether every directory of the tree was listed since `forget_listings`.

    A library asks for files by their names. Who reads every file (`grep -r`, tar) lists the directories.
    """
    for directory in _directories(root):
        with contextlib.suppress(OSError):  # gone meanwhile
            if directory.stat().st_atime_ns == _LONG_AGO_NS:
                return False
    return True


def compiled_files(files: tuple[ScannedFile, ...], family: Family) -> list[ScannedFile]:
    """Those of which each stands for something compiled."""
    return [file for file in files if family.is_compiled(file.path)]


def keeps_read_times(root: Path) -> bool:
    """Whether the file system notes when a file was read and a directory listed: ours are, to see."""
    with (
        contextlib.suppress(OSError),
        own_directory("times", root.parent) as name,
        tempfile.NamedTemporaryFile(dir=name) as file,
    ):
        file.write(b"x")
        file.flush()
        for path in (file.name, name):
            os.utime(path, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
        Path(file.name).read_bytes()
        os.listdir(name)  # noqa: PTH208 - as os.utime
        times = [os.stat(path).st_atime_ns for path in (file.name, name)]  # noqa: PTH116
        return min(times) > _LONG_AGO_NS
    return False


@contextlib.contextmanager
def opened_quietly(path: Path, flags: int) -> Iterator[int]:
    """A descriptor whose use leaves the time of reading, where the file is ours (open(2), O_NOATIME)."""
    try:
        descriptor = os.open(path, flags | os.O_NOATIME | os.O_CLOEXEC)
    except PermissionError:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _directories(root: Path) -> Iterator[Path]:
    """The root and all directories below it."""
    yield root
    for name, status in _entries(root):
        if stat.S_ISDIR(status.st_mode):
            yield from _directories(root / name)


def _files(directory: Path, front: str) -> Iterator[ScannedFile]:
    for name, status in _entries(directory):
        if stat.S_ISDIR(status.st_mode):
            yield from _files(directory / name, f"{front}{name}/")
        elif stat.S_ISREG(status.st_mode):
            yield ScannedFile(
                path=front + name,
                bytes=status.st_size,
                mtime_ns=status.st_mtime_ns,
                atime_ns=status.st_atime_ns,
            )


def _entries(directory: Path) -> list[tuple[str, os.stat_result]]:
    """What is in a directory; empty if it is gone, or somebody else's."""
    entries = []
    with (
        contextlib.suppress(OSError),
        opened_quietly(directory, os.O_RDONLY | os.O_DIRECTORY) as fd,
        os.scandir(fd) as listed,
    ):
        for entry in listed:
            with contextlib.suppress(OSError):
                entries.append((entry.name, entry.stat(follow_symlinks=False)))
    return entries
