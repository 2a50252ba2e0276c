# SPDX-License-Identifier: Apache-2.0
"""Acts on an archive's directory: what lies in it by name, and what is to go. Files of others are never touched."""

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ci_doctor.system import clock

IDENTITY = "identity.json"
_PLACE = re.compile(r"identity-[0-9a-f]{64}")
_START = re.compile(r"start-(\d{8}T\d{9}Z)-[0-9a-f]{16}\.jsonl\.gz")
# What a killed writer leaves behind; one that lives is done long before.
_TORN = re.compile(r"\.(?:start-|identity\.json\.)[A-Za-z0-9_]{8}(?:\.tmp)?")
_TORN_S = 3600.0


class ArchivedFile(Struct, frozen=True, kw_only=True, order=True):
    """One archived start by its file; in the order of age, oldest first."""

    recorded_at: str
    path: Path
    size: int

    def age_days(self) -> float:
        """Days since it was made; 0 where another machine's clock is ahead of ours."""
        return max(0.0, (_now() - datetime.fromisoformat(self.recorded_at).timestamp()) / 86400)


def stamp(recorded_at: str) -> str:
    """An RFC 3339 time as it stands in a file's name, to the millisecond. Raises ValueError where it is none."""
    when = datetime.fromisoformat(recorded_at).astimezone(UTC)
    return f"{when:%Y%m%dT%H%M%S}{when.microsecond // 1000:03}Z"


def kept_files(place: Path) -> list[ArchivedFile]:
    """The archived starts in one identity's directory, oldest first. Raises OSError where it cannot be listed."""
    found = []
    for path in place.iterdir():
        match = _START.fullmatch(path.name)
        recorded_at = _time(match[1]) if match else None
        if recorded_at is None:
            continue
        with contextlib.suppress(OSError):  # gone meanwhile
            if path.is_file() and not path.is_symlink():
                found.append(
                    ArchivedFile(recorded_at=recorded_at, path=path, size=path.stat().st_size)
                )
    return sorted(found)


def evict(directory: Path, *, days: float, limit: int) -> tuple[Path, ...]:
    """What is older than `days` goes, then the oldest until at most `limit` bytes are left; gives back what went."""
    kept: list[ArchivedFile] = []
    gone: list[Path] = []
    total = 0
    for place in _places(directory):
        with contextlib.suppress(OSError):
            kept += kept_files(place)
            total += _size(place / IDENTITY)
        _sweep(place)
    _sweep(directory)
    kept.sort()
    total += sum(each.size for each in kept)
    left = {
        place: sum(each.path.parent == place for each in kept)
        for place in {each.path.parent for each in kept}
    }
    for each in kept:
        if total <= limit and each.age_days() <= days:
            continue
        with contextlib.suppress(OSError):
            each.path.unlink(missing_ok=True)
            gone.append(each.path)
            total -= each.size
            place = each.path.parent
            left[place] -= 1
            total -= 0 if left[place] else _close(place)
    for place in _places(directory):
        if place not in left:
            _close(place)
    return tuple(gone)


def _places(directory: Path) -> Iterator[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for path in entries:
        with contextlib.suppress(OSError):
            if _PLACE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def _close(place: Path) -> int:
    """Take away an identity's directory that holds no start any more, and give back the bytes that it held.

    Somebody may be putting one there right now: then the directory stays, and so does the description of it.
    """
    description = place / IDENTITY
    try:
        if any(path.name != IDENTITY for path in place.iterdir()):
            return 0
        content = description.read_bytes()
        description.unlink()
    except FileNotFoundError:
        content = b""
    except OSError:
        return 0
    try:
        place.rmdir()
    except OSError:
        with contextlib.suppress(OSError):
            if content and place.is_dir() and not description.exists():
                description.write_bytes(content)
        return 0
    return len(content)


def _sweep(directory: Path) -> None:
    """Take away what writers have left that were killed long ago."""
    with contextlib.suppress(OSError):
        for path in list(directory.iterdir()):
            if _TORN.fullmatch(path.name) and _now() - path.lstat().st_mtime > _TORN_S:
                path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _time(text: str) -> str | None:
    """`20261121T075012345Z` as RFC 3339; None where it is no time."""
    told = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[9:11]}:{text[11:13]}:{text[13:15]}.{text[15:18]}Z"
    try:
        datetime.fromisoformat(told)
    except ValueError:
        return None
    return told


def _now() -> float:
    return datetime.fromisoformat(clock.timestamp()).timestamp()
