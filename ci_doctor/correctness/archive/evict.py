# SPDX-License-Identifier: Apache-2.0
"""Acts on an archive's directory: lists its files by name, and removes what is too old or too much.

Files of others are never touched.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.archive.identity_file import IDENTITY
from ci_doctor.correctness.archive.revocations import read_revocations
from ci_doctor.system import clock

_PLACE = re.compile(r"identity-[0-9a-f]{64}")
_START = re.compile(r"start-(\d{8}T\d{9}Z)-[0-9a-f]{16}\.jsonl\.gz")
# What a killed writer leaves behind. A writer that lives is done long before an hour.
_TORN = re.compile(
    r"\.(?:start-|identity\.json\.|revoked-[0-9a-f]{40,64}\.json\.)[A-Za-z0-9_]{8}(?:\.tmp)?"
)
_TORN_S = 3600.0


class ArchivedFile(Struct, frozen=True, kw_only=True, order=True):
    """The file of one archived start. Ordered by age, oldest first."""

    recorded_at: str
    path: Path
    size: int

    def age_days(self) -> float:
        """Days since it was made; 0 if another machine's clock is ahead of ours."""
        made = datetime.fromisoformat(self.recorded_at).timestamp()
        age_s = _now() - made
        return max(0.0, age_s / 86400)


def stamp(recorded_at: str) -> str:
    """An RFC 3339 time as part of a file's name, to the millisecond. Raises ValueError."""
    # In UTC, so that the names of files from all machines sort by time.
    when = datetime.fromisoformat(recorded_at).astimezone(UTC)
    milliseconds = when.microsecond // 1000
    return f"{when:%Y%m%dT%H%M%S}{milliseconds:03}Z"


def archived_files(place: Path) -> list[ArchivedFile]:
    """The starts in one identity's directory, oldest first. Raises OSError if it is unreadable."""
    files = []
    for path in place.iterdir():
        match = _START.fullmatch(path.name)
        if match is None:
            continue
        recorded_at = _time(match[1])
        if recorded_at is None:
            continue
        with contextlib.suppress(OSError):  # evicted meanwhile
            # A link may lead to a file of somebody else.
            if path.is_file() and not path.is_symlink():
                size = path.stat().st_size
                files.append(ArchivedFile(recorded_at=recorded_at, path=path, size=size))
    return sorted(files)


def evict(directory: Path, *, days: float, limit: int) -> tuple[Path, ...]:
    """Remove starts older than `days`, then revoked ones, then the oldest.

    It ends as soon as at most `limit` bytes are left. Returns the removed files. What revokes is
    never removed: a build of that commit may run again.
    """
    files: list[ArchivedFile] = []
    total = 0
    revoked = _revoked(directory)
    for place in identity_places(directory):
        with contextlib.suppress(OSError):
            files += archived_files(place)
            total += _size(place / IDENTITY)
        _remove_torn(place)
    _remove_torn(directory)
    # Oldest first, but revoked ones before all others: nobody uses them.
    files.sort()
    files.sort(key=lambda file: file.path not in revoked)
    removed = _remove_starts(files, total, days=days, limit=limit)
    used = {file.path.parent for file in files}
    for place in identity_places(directory):
        if place not in used:
            _close(place)
    return tuple(removed)


def _revoked(directory: Path) -> set[Path]:
    """The files that were revoked."""
    try:
        revocations = read_revocations(directory)
    except OSError:
        return set()
    return {directory / name for name in revocations.files}


def _remove_starts(
    files: list[ArchivedFile], other_bytes: int, *, days: float, limit: int
) -> list[Path]:
    """Remove files in this order; a directory goes with its last start."""
    total = other_bytes
    left: Counter[Path] = Counter()
    for file in files:
        total += file.size
        left[file.path.parent] += 1
    removed = []
    for file in files:
        if total <= limit and file.age_days() <= days:
            continue
        # A file that cannot be removed is left, and its bytes still count.
        with contextlib.suppress(OSError):
            file.path.unlink(missing_ok=True)
            removed.append(file.path)
            total -= file.size
            place = file.path.parent
            left[place] -= 1
            if left[place] == 0:
                total -= _close(place)
    return removed


def identity_places(directory: Path) -> Iterator[Path]:
    """The directories of an archive's identities, by name; none if it cannot be listed."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for path in entries:
        with contextlib.suppress(OSError):
            if _PLACE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def _close(place: Path) -> int:
    """Remove an identity's directory without starts. Returns the bytes that this freed.

    Another agent may be writing a start into it at this moment. Then the directory stays, and its
    description with it.
    """
    description = place / IDENTITY
    try:
        # A start, or a temporary file that becomes one.
        if any(path.name != IDENTITY for path in place.iterdir()):
            return 0
        content = description.read_bytes()
        description.unlink()
    except FileNotFoundError:
        content = b""
    except OSError:
        return 0
    try:
        # It fails if a start has arrived since: that is the lock.
        place.rmdir()
    except OSError:
        _restore(description, content)
        return 0
    return len(content)


def _restore(description: Path, content: bytes) -> None:
    """Write the description of an identity again, unless somebody else did."""
    place = description.parent
    with contextlib.suppress(OSError):
        if content and place.is_dir() and not description.exists():
            description.write_bytes(content)


def _remove_torn(directory: Path) -> None:
    """Remove temporary files of writers that were killed long ago."""
    latest = _now() - _TORN_S
    with contextlib.suppress(OSError):
        for path in list(directory.iterdir()):
            # `lstat`: the age of a link itself, and not that of the file it leads to.
            if _TORN.fullmatch(path.name) and path.lstat().st_mtime < latest:
                path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _time(text: str) -> str | None:
    """`20261121T075012345Z` as RFC 3339; None if it is no time."""
    date = f"{text[:4]}-{text[4:6]}-{text[6:8]}"
    clock_time = f"{text[9:11]}:{text[11:13]}:{text[13:15]}"
    milliseconds = text[15:18]
    moment = f"{date}T{clock_time}.{milliseconds}Z"
    try:
        # Digits in the right places may still be the 31st of February.
        datetime.fromisoformat(moment)
    except ValueError:
        return None
    return moment


def _now() -> float:
    return datetime.fromisoformat(clock.timestamp()).timestamp()
