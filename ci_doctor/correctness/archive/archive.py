# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: baseline starts of earlier builds, kept by identity, age and build (docs/archive.md).

The store is a directory, or an object store by its address. Many agents may read, write and evict at
once, also over NFS. Every object appears whole; none is ever changed; a reader goes on without one
that disappears. No lock is taken, and files of others are never touched.
"""

import contextlib
import os
import re
import secrets
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.archive.archived_start import (
    ArchivedFile,
    ArchivedStart,
    NotAnArchiveError,
    archived_bytes,
    for_others,
    read_start,
    unfit,
)
from ci_doctor.correctness.evidence.resume import recordable
from ci_doctor.correctness.results import StartResult
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.store.directory_store import DirectoryStore, directory_of, is_remote, open_store
from ci_doctor.store.objects import TEMPORARY, ObjectStore, StoredObject, StoreError
from ci_doctor.system import clock
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.files.writing import make_directory
from ci_doctor.system.secrets.redaction import Redactor

NEWEST = 20
# Files are read beyond the number of wanted starts, because some are of one build.
_READ_FACTOR = 3
# Of one build: more of its starts would leave less room for those of independent builds.
_MOST_OF_A_BUILD = 5
# Of one start: it is held in memory to be written, and to be read from an object store.
_MOST_BYTES = 1 << 30
# For all requests of one look, or of the starts that one run archives. It bounds no directory.
TIMEOUT_S = 120.0
# What the names of all identities' directories begin with.
_IDENTITIES = "identity-"
_PLACE = re.compile(rf"{_IDENTITIES}[0-9a-f]{{64}}")
_START = re.compile(rf"{_PLACE.pattern}/start-(\d{{8}}T\d{{9}}Z)-[0-9a-f]{{16}}\.jsonl\.gz")
# The time in a name; `%f` takes the milliseconds as a part of a second.
_STAMP = "%Y%m%dT%H%M%S%fZ"
# What a killed writer leaves behind. A writer that lives is done long before an hour.
_TORN = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}")
_TORN_S = 3600.0


class ArchiveMatches(Struct, frozen=True, kw_only=True):
    """`starts` match, newest first.

    `unknown` names the facts that neither side knows, so that they are assumed to be equal.
    `skipped` holds one sentence for each unusable file.
    """

    starts: tuple[ArchivedFile, ...] = ()
    unknown: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def builds(self) -> int:
        """How many independent builds made the starts; unknown ones count as one together."""
        return len({file.start.build_id for file in self.starts})

    @property
    def unknown_builds(self) -> int:
        """How many of the starts name no build."""
        return sum(file.start.build_id is None for file in self.starts)


class Archive:
    """The archive at `place`: a directory, or the address of an object store.

    Starts older than `days` are not used, and `evict` keeps the archive below `limit` bytes.
    `redactor` removes the secrets of a start that is kept.
    """

    def __init__(
        self, place: Path | str, *, days: float, limit: int, redactor: Redactor | None = None
    ) -> None:
        self.place = place
        self.days = days
        self.limit = limit
        self._redactor = redactor or Redactor(())
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

        A place that is absent or unreadable holds no starts; `skipped` says so. Their number makes
        their name: a1 is the newest. Raises UsageError for an address that is not allowed.
        """
        skipped: list[str] = []
        starts: list[ArchivedFile] = []
        by_build: Counter[str | None] = Counter()
        try:
            store = archive_store(self.place)
            objects = list(store.names(f"{place_of(identity)}/"))
        except StoreError as error:
            return ArchiveMatches(skipped=(error.message,))
        recent = [each for each in reversed(_dated(objects)) if each.age_days() <= self.days]
        for each in recent[: newest * _READ_FACTOR]:
            try:
                file = self._start(store, each.name, identity, requests, passes)
            except FileNotFoundError:  # evicted meanwhile
                continue
            except (StoreError, NotAnArchiveError, OSError) as error:
                skipped.append(_why_skipped(error, f"{store.location}/{each.name}"))
                continue
            by_build[file.start.build_id] += 1
            if by_build[file.start.build_id] <= _MOST_OF_A_BUILD:
                start = file.start.numbered(len(starts) + 1)
                starts.append(ArchivedFile(start, file.path, file.places))
            if len(starts) == newest:
                break
        unknown = tuple(identity.unknown) if starts else ()
        return ArchiveMatches(starts=tuple(starts), unknown=unknown, skipped=tuple(skipped))

    def keep(
        self,
        identity: Identity,
        result: StartResult,
        lines: Iterable[bytes],
        *,
        build: str,
        origin: tuple[str | None, str | None] = (None, None),
        recorded_at: str | None = None,
    ) -> Path:
        """Archive one baseline start. Returns its file, relative to an object store.

        `lines` are those of the run's samples file, without secrets. `build` names the build in
        words, `origin` are its identity and its commit; `recorded_at` is RFC 3339, now by default. Raises
        ValueError for an `unfit` start or one with missing samples, and UsageError if the archive
        cannot be written.
        """
        if reason := unfit(result):
            raise ValueError(reason)
        when = recorded_at or clock.timestamp()
        start = ArchivedStart(
            identity=identity,
            recorded_at=when,
            build=build,
            build_id=origin[0],
            commit=origin[1],
            passes=max(map(len, result.digests.values())),
            result=for_others(recordable(result, self._redactor), result),
        )
        # Two agents may keep a start in the same millisecond.
        name = f"{place_of(identity)}/start-{stamp(when)}-{secrets.token_hex(8)}.jsonl.gz"
        try:
            if isinstance(self.place, Path):
                make_directory(self.place)
            store = archive_store(self.place)
            content = archived_bytes(start, lines)
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
        return self.directory / name

    def evict(self) -> tuple[Path, ...]:
        """Remove expired starts, then the oldest until the archive is below its limit.

        Returns the removed files, as keep() does. Only files of the archive itself are removed, by
        their names and places. Raises StoreError if it cannot be listed.
        """
        store = archive_store(self.place)
        files = _dated(self._objects(store))
        total = sum(file.bytes for file in files)
        removed = []
        # Oldest first.
        for file in files:
            if total <= self.limit and file.age_days() <= self.days:
                continue
            # A file that cannot be removed is left, and its bytes still count.
            with contextlib.suppress(StoreError):
                store.remove(file.name)
                removed.append(self.directory / file.name)
                total -= file.bytes
        if isinstance(self.place, Path):
            remove_remains(self.place)
        return tuple(removed)

    def _objects(self, store: ObjectStore) -> list[StoredObject]:
        """The objects of all identities. Raises StoreError if an object store cannot be listed."""
        if not isinstance(self.place, Path):
            return list(store.names(_IDENTITIES))
        objects: list[StoredObject] = []
        for each in _identity_places(self.place):
            # A subdirectory that cannot be listed may be another user's, and hides no other.
            with contextlib.suppress(StoreError):
                objects += store.names(f"{each.name}/")
        return objects

    def _start(
        self,
        store: ObjectStore,
        name: str,
        identity: Identity,
        requests: Sequence[str],
        passes: int,
    ) -> ArchivedFile:
        """The start of this name, if it is of this identity and answers this. Raises NotAnArchiveError."""
        file = read_start(self._local(store, name))
        if file.start.identity.digest() != identity.digest():
            raise NotAnArchiveError("it was made under another identity than that of its directory")
        if file.start.passes != passes or file.start.result.digests.keys() != set(requests):
            raise NotAnArchiveError("it answers other requests, or in other passes")
        return file

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


def _why_skipped(error: StoreError | NotAnArchiveError | OSError, where: str) -> str:
    if isinstance(error, StoreError):
        return error.message
    return f"{where}: {error.strerror if isinstance(error, OSError) else error}"


def archive_place(address: str) -> Path | str:
    """A directory as a path, and an object store by its address. Raises UsageError for other URLs."""
    if is_remote(address):
        return address.rstrip("/")
    return directory_of(address)


def archive_store(place: Path | str) -> ObjectStore:
    """The store at `place`; nothing is sent yet.

    Credentials are those of this process's environment. Raises UsageError for an address that is
    not allowed, and StoreError if the library for object stores is not installed.
    """
    if isinstance(place, Path):
        return DirectoryStore(place)
    return open_store(place, os.environ, timeout_s=TIMEOUT_S)


def place_of(identity: Identity) -> str:
    """The directory of an identity's starts."""
    return f"{_IDENTITIES}{identity.digest()}"


class _DatedFile(Struct, frozen=True, order=True):
    """The file of one archived start, by its name in the store. Ordered by age, oldest first."""

    made_at: datetime
    name: str
    bytes: int

    def age_days(self) -> float:
        """Days since it was made; 0 if another machine's clock is ahead of ours."""
        return max(0.0, (_now() - self.made_at).total_seconds() / 86400)


def _now() -> datetime:
    return datetime.fromisoformat(clock.timestamp())


def _dated(objects: Iterable[StoredObject]) -> list[_DatedFile]:
    """The starts among `objects`, oldest first."""
    files = []
    for each in objects:
        if match := _START.fullmatch(each.name):
            # Digits in the right places may still be the 31st of February.
            with contextlib.suppress(ValueError):
                made_at = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                files.append(_DatedFile(made_at, each.name, each.bytes))
    return sorted(files)


def stamp(recorded_at: str) -> str:
    """An RFC 3339 time as part of a file's name, to the millisecond. Raises ValueError."""
    # In UTC, so that the names of files from all machines sort by time.
    when = datetime.fromisoformat(recorded_at).astimezone(UTC)
    return f"{when:%Y%m%dT%H%M%S}{when.microsecond // 1000:03}Z"


def _identity_places(directory: Path) -> Iterator[Path]:
    """The subdirectories of an archive's identities, by name; none if it cannot be listed."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for path in entries:
        with contextlib.suppress(OSError):
            # A link may lead to a directory of somebody else.
            if _PLACE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def remove_remains(directory: Path) -> None:
    """Remove temporary files that are an hour old, and identities' directories that are empty.

    An object store has neither. Raises nothing.
    """
    places = list(_identity_places(directory))
    oldest = _now().timestamp() - _TORN_S
    for folder in (directory, *places):
        with contextlib.suppress(OSError):
            for path in list(folder.iterdir()):
                # `lstat`: the age of a link itself, and not that of the file it leads to.
                if _TORN.fullmatch(path.name) and path.lstat().st_mtime < oldest:
                    path.unlink(missing_ok=True)
    for place in places:
        # It fails if anything is in it, also a file that a writer has just begun.
        with contextlib.suppress(OSError):
            place.rmdir()
