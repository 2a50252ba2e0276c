# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: baseline starts of earlier builds, kept by identity (docs/archive.md).

Many agents may read, write and evict at once, also over NFS. Every object appears whole; none is
ever changed; a reader goes on without one that disappears. No lock is taken.
"""

import contextlib
import secrets
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ci_doctor.correctness.archive.archive_store import archive_store, archived_objects
from ci_doctor.correctness.archive.archived_start import (
    ArchivedStart,
    NotAnArchiveError,
    header_of,
)
from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.archive.evict import ArchivedFile, archived_files, evict, stamp
from ci_doctor.correctness.archive.identity_file import describe, place_of
from ci_doctor.correctness.archive.matches import ArchiveMatches, newest_usable
from ci_doctor.correctness.archive.nearest import nearest
from ci_doctor.correctness.archive.read_start import read_start
from ci_doctor.correctness.archive.remains import remove_remains
from ci_doctor.correctness.archive.revocations import revocations_in
from ci_doctor.correctness.archive.write_start import archived_bytes
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.store.errors import StoreError
from ci_doctor.store.objects import ObjectStore, StoredObject
from ci_doctor.system import clock
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.files.writing import make_directory

NEWEST = 20
# Files are read beyond the number of wanted starts, because some are revoked or of one build.
_READ_FACTOR = 3
# Of one start: it is held in memory to be written, and to be read from an object store.
_MOST_BYTES = 1 << 30


class Archive:
    """The archive at `place`: a directory, or the address of an object store.

    Starts older than `days` are not used, and `evict` keeps the archive below `limit` bytes.
    """

    def __init__(self, place: Path | str, *, days: float, limit: int) -> None:
        self.place = place
        self.days = days
        self.limit = limit
        # Of an object store, whose starts are read back from here. Removed with this object.
        self._copies: Path | None = None

    @property
    def directory(self) -> Path:
        """What its files are relative to: nothing but their names for an object store."""
        return self.place if isinstance(self.place, Path) else Path()

    def find(
        self, identity: Identity, requests: Sequence[str], passes: int, newest: int = NEWEST
    ) -> ArchiveMatches:
        """The archived starts of `identity`, for these request ids and this number of passes.

        A place that is absent or unreadable holds no starts; `skipped` says so. Raises UsageError
        for an address that is not allowed.
        """
        skipped: list[str] = []
        try:
            store = archive_store(self.place)
            revocations = revocations_in(store)
        except StoreError as error:
            # What is revoked is unknown, so nothing may be used.
            return ArchiveMatches(skipped=(error.message,))
        matching = self._matching(store, identity, requests, passes, newest, skipped)
        starts, revoked = newest_usable(matching, revocations, newest)
        if starts:
            return ArchiveMatches(
                starts=tuple(starts),
                unknown=tuple(identity.unknown),
                skipped=tuple(skipped),
                revoked=revoked,
            )
        near = nearest(store, identity, self._all(store, skipped), skipped)
        return ArchiveMatches(near=near, skipped=tuple(skipped), revoked=revoked)

    def keep(
        self,
        identity: Identity,
        result: StartResult,
        lines: Iterable[bytes],
        *,
        build: str,
        origin: BuildOrigin | None = None,
        recorded_at: str | None = None,
    ) -> Path:
        """Archive one baseline start. Returns its file, relative to an object store.

        `lines` are those of the run's samples file, without secrets. `build` names the build in
        words, and `origin` identifies it; `recorded_at` is RFC 3339, now by default. Raises ValueError for an `unfit` start or
        one with missing samples, and UsageError if the archive cannot be written.
        """
        if reason := unfit(result):
            raise ValueError(reason)
        when = recorded_at or clock.timestamp()
        place = place_of(identity)
        # Two agents may keep a start in the same millisecond.
        name = f"{place}/start-{stamp(when)}-{secrets.token_hex(8)}.jsonl.gz"
        try:
            if isinstance(self.place, Path):
                make_directory(self.place)
            store = archive_store(self.place)
            header = header_of(identity, result, when, build, origin)
            content = archived_bytes(header, lines, result)
            if len(content) > _MOST_BYTES:
                raise ValueError(f"{result.start.name} has {len(content)} bytes, too many to keep")
            store.create(name, content)
        except (StoreError, OSError) as error:
            what = f"cannot write {self.place}/{name}: "
            why = error.message if isinstance(error, StoreError) else error.strerror or error
            # A store in a directory names the same file itself.
            raise UsageError(
                what + str(why).removeprefix(what),
                hint="name a place that this user can write",
            ) from error
        # After the start, because a description alone would look like an identity without starts.
        describe(store, place, identity)
        return self.directory / name

    def evict(self) -> tuple[Path, ...]:
        """Remove expired starts, then the oldest until the archive is below its limit.

        Returns the removed files, as keep() does. Only files of the archive itself are removed, by
        their names and places. Raises StoreError if it cannot be listed.
        """
        removed = evict(archive_store(self.place), self.place, days=self.days, limit=self.limit)
        if isinstance(self.place, Path):
            remove_remains(self.place)
        return tuple(self.directory / name for name in removed)

    def _all(self, store: ObjectStore, skipped: list[str]) -> list[ArchivedFile]:
        """The files of all identities that have not expired, newest first."""
        try:
            objects = archived_objects(store, self.place, skipped)
        except StoreError as error:
            skipped.append(error.message)
            return []
        return self._recent(objects)

    def _of(self, store: ObjectStore, identity: Identity, skipped: list[str]) -> list[ArchivedFile]:
        """The files of one identity that have not expired, newest first."""
        try:
            objects = list(store.names(f"{place_of(identity)}/"))
        except StoreError as error:
            skipped.append(error.message)
            return []
        return self._recent(objects)

    def _recent(self, objects: Iterable[StoredObject]) -> list[ArchivedFile]:
        files = reversed(archived_files(objects))
        return [file for file in files if file.age_days() <= self.days]

    def _matching(
        self,
        store: ObjectStore,
        identity: Identity,
        requests: Collection[str],
        passes: int,
        newest: int,
        skipped: list[str],
    ) -> Iterator[ArchivedStart]:
        """The matching starts in the newest files, newest first, with the number 0."""
        files = self._of(store, identity, skipped)
        for file in files[: newest * _READ_FACTOR]:
            start = self._read(store, file.name, identity, skipped)
            if start is None:
                continue
            if _answers(start, requests, passes):
                yield start
            else:
                where = f"{store.location}/{file.name}"
                skipped.append(f"{where}: it answers other requests, or in other passes")

    def _read(
        self, store: ObjectStore, name: str, identity: Identity, skipped: list[str]
    ) -> ArchivedStart | None:
        """The start of this name, if it was made under `identity`."""
        where = f"{store.location}/{name}"
        try:
            path = self._local(store, name)
            own, start = read_start(path, 0)
        except FileNotFoundError:  # evicted meanwhile
            return None
        except NotAnArchiveError as error:
            skipped.append(f"{where}: {error}")
            return None
        except OSError as error:
            skipped.append(f"{where}: {error.strerror}")
            return None
        except StoreError as error:
            skipped.append(error.message)
            return None
        if own.digest() != identity.digest():
            skipped.append(
                f"{where}: it was made under another identity than that of its directory"
            )
            return None
        return start

    def _local(self, store: ObjectStore, name: str) -> Path:
        """A file with this object: its own in a directory, else a copy. FileNotFoundError without one."""
        if isinstance(self.place, Path):
            return self.place / name
        content = store.read(name, _MOST_BYTES)
        if content is None:
            raise FileNotFoundError(name)
        if self._copies is None:
            copies = contextlib.ExitStack()
            self._copies = Path(copies.enter_context(own_directory("archive")))
            weakref.finalize(self, copies.close)
        copy = self._copies / name.rpartition("/")[2]
        copy.write_bytes(content)
        return copy


def unfit(result: StartResult) -> str | None:
    """Why a start is no baseline for others; None if it is one. Pure."""
    start = result.start
    requests = len(start.answers)
    if start.arm is not Arm.BASELINE or start.archived:
        return f"{start.name} is no baseline start of this run"
    if not _ended_by_itself(result):
        return f"{start.name} did not come to its end"
    # Of no requests at all a start answers all, and proves nothing.
    is_incomplete = start.answered < max(1, requests)
    if start.proof_missing or result.errors or is_incomplete:
        return f"{start.name} did not answer everything"
    if start.empty == requests:
        return f"{start.name} gave empty answers only"
    return None


def _ended_by_itself(result: StartResult) -> bool:
    """Whether nothing failed in a start, and neither budget nor signal cut it short."""
    start = result.start
    if start.failed or start.outside:
        return False
    return result.counts and result.failure is None


def _answers(start: ArchivedStart, requests: Collection[str], passes: int) -> bool:
    """Whether the start answered exactly these requests, in this number of passes."""
    if start.answers.keys() != set(requests):
        return False
    return all(len(by_pass) == passes for by_pass in start.digests.values())
