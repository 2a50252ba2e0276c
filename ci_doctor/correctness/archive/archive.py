# SPDX-License-Identifier: Apache-2.0
"""Acts on a directory: baseline starts of earlier builds, kept by identity (docs/archive.md).

Many agents may read, write and evict at once, also over NFS. Every file is written under another
name and renamed; none is ever changed; a reader goes on without a file that disappears. No lock is
taken.
"""

import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ci_doctor.correctness.archive.archived_start import (
    ArchivedStart,
    NotAnArchiveError,
    header_of,
)
from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.archive.evict import ArchivedFile, archived_files, evict, stamp
from ci_doctor.correctness.archive.identity_file import IDENTITY, describe, described
from ci_doctor.correctness.archive.matches import ArchiveMatches, newest_usable
from ci_doctor.correctness.archive.near_misses import NearMiss
from ci_doctor.correctness.archive.read_start import read_start
from ci_doctor.correctness.archive.revocations import read_revocations
from ci_doctor.correctness.archive.write_start import write_start
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity, differences
from ci_doctor.system import clock
from ci_doctor.system.files.directories import in_directory, make_directory

NEWEST = 20
NEAREST = 3
# Files are read beyond the number of wanted starts, because some are revoked or of one build.
_READ_FACTOR = 3
# Of directories, in the search for near misses: each costs a read, over NFS some milliseconds.
_MOST_DIRECTORIES = 500
_DAY_S = 86400


class Archive:
    """The archive in `directory`.

    Starts older than `days` are not used, and `evict` keeps the archive below `limit` bytes.
    """

    def __init__(self, directory: Path, *, days: float, limit: int) -> None:
        self.directory = directory
        self.days = days
        self.limit = limit

    def find(
        self, identity: Identity, requests: Sequence[str], passes: int, newest: int = NEWEST
    ) -> ArchiveMatches:
        """The archived starts of `identity`, for these request ids and this number of passes.

        Raises nothing. A directory that is absent or unreadable holds no starts; `skipped` says so.
        """
        skipped: list[str] = []
        try:
            revocations = read_revocations(self.directory)
        except OSError as error:
            # What is revoked is unknown, so nothing may be used.
            return ArchiveMatches(skipped=(f"{self.directory}: {error.strerror}",))
        matching = self._matching(identity, requests, passes, newest * _READ_FACTOR, skipped)
        starts, revoked = newest_usable(matching, revocations, newest)
        if starts:
            return ArchiveMatches(
                starts=tuple(starts),
                unknown=tuple(identity.unknown),
                skipped=tuple(skipped),
                revoked=revoked,
            )
        near = self._near(identity, skipped)
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
        """Archive one baseline start. Returns its file.

        `lines` are those of the run's samples file, without secrets. `build` names the build in
        words, and `origin` identifies it; `recorded_at` is RFC 3339, now by default. Raises ValueError for an `unfit` start or
        one with missing samples, and UsageError if the directory cannot be written.
        """
        if reason := unfit(result):
            raise ValueError(reason)
        when = recorded_at or clock.timestamp()
        # Two agents may keep a start in the same millisecond.
        path = self._place(identity) / f"start-{stamp(when)}-{secrets.token_hex(8)}.jsonl.gz"
        try:
            make_directory(self.directory)
            header = header_of(identity, result, when, build, origin)
            _move(write_start(self.directory, header, lines, result), path)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror or error}",
                hint="name a directory that this user can write",
            ) from error
        # After the start, because a description alone would look like an identity without starts.
        describe(path.parent, identity)
        return path

    def evict(self) -> tuple[Path, ...]:
        """Remove expired starts, then the oldest until the archive is below its limit.

        Returns the removed files. Only files of the archive itself are removed, by their names and
        places. Raises nothing.
        """
        return evict(self.directory, days=self.days, limit=self.limit)

    def _place(self, identity: Identity) -> Path:
        return self.directory / f"identity-{identity.digest()}"

    def _listed(self, place: Path, skipped: list[str]) -> list[ArchivedFile]:
        """The files in `place` that have not expired, newest first."""
        try:
            files = archived_files(place)
        except FileNotFoundError:
            return []
        except OSError as error:
            skipped.append(f"{place}: {error.strerror}")
            return []
        return [file for file in reversed(files) if file.age_days() <= self.days]

    def _matching(
        self,
        identity: Identity,
        requests: Collection[str],
        passes: int,
        most: int,
        skipped: list[str],
    ) -> Iterator[ArchivedStart]:
        """The matching starts in the `most` newest files, newest first, with the number 0."""
        for file in self._listed(self._place(identity), skipped)[:most]:
            start = _read(file.path, identity, skipped)
            if start is None:
                continue
            if _answers(start, requests, passes):
                yield start
            else:
                skipped.append(f"{file.path}: it answers other requests, or in other passes")

    def _near(self, identity: Identity, skipped: list[str]) -> tuple[NearMiss, ...]:
        """The nearest of the other identities, at most NEAREST."""
        misses = list(self._misses(identity, skipped))
        # Of two that are equally near the newer one: its machine is more likely to be around still.
        misses.sort(key=lambda miss: (len(miss.differences), miss.age_s))
        return tuple(misses[:NEAREST])

    def _misses(self, identity: Identity, skipped: list[str]) -> Iterator[NearMiss]:
        """Every other identity of the archive with usable starts."""
        own = self._place(identity)
        places = sorted(self.directory.glob("identity-*"))
        for place in places[:_MOST_DIRECTORIES]:
            if place.name == own.name:
                continue
            files = self._listed(place, skipped)
            if not files:
                continue
            other = described(place)
            # Another agent has not written it yet, or has evicted it meanwhile.
            if other is None and not (place / IDENTITY).exists():
                continue
            # A description under a wrong name was copied or edited: it describes other starts.
            if other is None or place != self._place(other):
                skipped.append(f"{place}: its identity.json is not that of its name")
                continue
            newest = files[0]
            yield NearMiss(
                differences=differences(other, identity),
                starts=len(files),
                recorded_at=newest.recorded_at,
                age_s=newest.age_days() * _DAY_S,
            )


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


def _read(path: Path, identity: Identity, skipped: list[str]) -> ArchivedStart | None:
    """The start in `path`, if it was made under `identity`."""
    try:
        own, start = read_start(path, 0)
    except NotAnArchiveError as error:
        skipped.append(f"{path}: {error}")
        return None
    except FileNotFoundError:  # evicted meanwhile
        return None
    except OSError as error:
        skipped.append(f"{path}: {error.strerror}")
        return None
    if own.digest() != identity.digest():
        skipped.append(f"{path}: it was made under another identity than that of its directory")
        return None
    return start


def _answers(start: ArchivedStart, requests: Collection[str], passes: int) -> bool:
    """Whether the start answered exactly these requests, in this number of passes."""
    if start.answers.keys() != set(requests):
        return False
    return all(len(by_pass) == passes for by_pass in start.digests.values())


def _move(temporary: Path, path: Path) -> None:
    """Move a file into its place.

    Another agent may evict the directory at the same moment, so it may have to be made again.
    """
    try:
        in_directory(path.parent, lambda: temporary.replace(path))
    finally:
        temporary.unlink(missing_ok=True)
