# SPDX-License-Identifier: Apache-2.0
"""Acts on an archive's store: tells its starts by their names, and removes the old and the many.

Files of others are never touched.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.archive.archive_store import archived_objects
from ci_doctor.correctness.archive.identity_file import IDENTITY, MOST_BYTES
from ci_doctor.correctness.archive.revocations import revocations_in
from ci_doctor.store.errors import StoreError
from ci_doctor.store.objects import ObjectStore, StoredObject
from ci_doctor.system import clock

_START = re.compile(r"(identity-[0-9a-f]{64})/start-(\d{8}T\d{9}Z)-[0-9a-f]{16}\.jsonl\.gz")


class ArchivedFile(Struct, frozen=True, kw_only=True, order=True):
    """The file of one archived start, by its name in the store. Ordered by age, oldest first."""

    recorded_at: str
    name: str
    size: int

    @property
    def place(self) -> str:
        """The directory of its identity."""
        return self.name.partition("/")[0]

    def age_days(self) -> float:
        """Days since it was made; 0 if another machine's clock is ahead of ours."""
        made = datetime.fromisoformat(self.recorded_at).timestamp()
        now = datetime.fromisoformat(clock.timestamp()).timestamp()
        return max(0.0, (now - made) / 86400)


def archived_files(objects: Iterable[StoredObject]) -> list[ArchivedFile]:
    """The starts among `objects`, oldest first."""
    files = []
    for each in objects:
        match = _START.fullmatch(each.name)
        if match is None:
            continue
        recorded_at = _time(match[2])
        if recorded_at is not None:
            files.append(ArchivedFile(recorded_at=recorded_at, name=each.name, size=each.bytes))
    return sorted(files)


def stamp(recorded_at: str) -> str:
    """An RFC 3339 time as part of a file's name, to the millisecond. Raises ValueError."""
    # In UTC, so that the names of files from all machines sort by time.
    when = datetime.fromisoformat(recorded_at).astimezone(UTC)
    milliseconds = when.microsecond // 1000
    return f"{when:%Y%m%dT%H%M%S}{milliseconds:03}Z"


def evict(store: ObjectStore, place: Path | str, *, days: float, limit: int) -> tuple[str, ...]:
    """Remove starts at `place` older than `days`, then revoked ones, then the oldest.

    It ends as soon as at most `limit` bytes are left. Returns the names of the removed ones. What
    revokes is never removed: a build of that commit may run again. Raises StoreError if the archive
    cannot be listed.
    """
    revoked = revocations_in(store).files
    # What cannot be listed cannot be removed either.
    objects = archived_objects(store, place, [])
    files = archived_files(objects)
    # Oldest first, but revoked ones before all others: nobody uses them.
    files.sort(key=lambda file: file.name not in revoked)
    described = {}
    for each in objects:
        folder, _, name = each.name.partition("/")
        if name == IDENTITY:
            described[folder] = each.bytes
    removed = _remove_starts(store, files, sum(described.values()), days=days, limit=limit)
    for folder in described.keys() - {file.place for file in files}:
        _close(store, folder)
    return tuple(removed)


def _remove_starts(
    store: ObjectStore, files: Sequence[ArchivedFile], other_bytes: int, *, days: float, limit: int
) -> list[str]:
    """Remove files in this order; a description goes with its last start."""
    total = other_bytes + sum(file.size for file in files)
    left = Counter(file.place for file in files)
    removed = []
    for file in files:
        if total <= limit and file.age_days() <= days:
            continue
        # A file that cannot be removed is left, and its bytes still count.
        with contextlib.suppress(StoreError):
            store.remove(file.name)
            removed.append(file.name)
            total -= file.size
            left[file.place] -= 1
            if left[file.place] == 0:
                total -= _close(store, file.place)
    return removed


def _close(store: ObjectStore, place: str) -> int:
    """Remove the description of an identity without starts. Returns the bytes that this freed.

    Another agent may be writing a start at this moment. It describes the identity after that, so a
    second look at what is there decides whether this description has to come back.
    """
    name = f"{place}/{IDENTITY}"
    try:
        content = store.read(name, MOST_BYTES)
        if content is None or not _is_alone(store, place):
            return 0
        store.remove(name)
        if not _is_alone(store, place):
            store.create(name, content)
            return 0
    except StoreError:
        return 0
    return len(content)


def _is_alone(store: ObjectStore, place: str) -> bool:
    """Whether a place holds nothing but its description: no start, and none that is being written."""
    return all(each.name == f"{place}/{IDENTITY}" for each in store.names(f"{place}/"))


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
