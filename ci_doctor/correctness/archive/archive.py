# SPDX-License-Identifier: Apache-2.0
"""Acts on a directory: baseline starts of earlier builds, kept by identity (docs/archive.md).

Many agents may read, write and evict at once, also over NFS: every file is written under another name and renamed, none
is ever changed, and whoever finds one gone goes on without it. No lock is taken.
"""

import contextlib
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.correctness.archive.evict import IDENTITY, ArchivedFile, evict, kept_files, stamp
from ci_doctor.correctness.archive.near_misses import NearMiss
from ci_doctor.correctness.archive.start_file import (
    FORMAT,
    ArchivedStart,
    ArchiveHeader,
    NotAnArchiveError,
    read_start,
    write_start,
)
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity, differences
from ci_doctor.system import clock
from ci_doctor.system.files.atomic import write_atomically

NEWEST = 20
NEAREST = 3
# More are not looked through for a near miss: each costs a read, which over NFS takes milliseconds.
_SEARCHED = 500
_ATTEMPTS = 3


class ArchiveMatches(Struct, frozen=True, kw_only=True):
    """`starts` match, newest first; without any, `near` holds the nearest misses.

    `unknown` names the facts that neither side knows, so that their agreement is assumed. `skipped` says which files were
    of no use, and why.
    """

    starts: tuple[ArchivedStart, ...] = ()
    near: tuple[NearMiss, ...] = ()
    unknown: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class Archive:
    """The archive in `directory`: what is older than `days` is not used, and `evict` keeps it below `limit` bytes."""

    def __init__(self, directory: Path, *, days: float, limit: int) -> None:
        self.directory = directory
        self.days = days
        self.limit = limit

    def find(
        self, identity: Identity, requests: Sequence[str], passes: int, newest: int = NEWEST
    ) -> ArchiveMatches:
        """The archived starts that were made under `identity`, for these request ids and so many passes.

        Raises nothing: a directory that is not there or cannot be read holds no starts, and `skipped` says so.
        """
        skipped: list[str] = []
        starts: list[ArchivedStart] = []
        place = self._place(identity)
        for kept in self._listed(place, skipped):
            if len(starts) == newest:
                break
            try:
                starts.append(_checked(kept.path, len(starts) + 1, identity, requests, passes))
            except NotAnArchiveError as error:
                skipped.append(f"{kept.path}: {error}")
            except FileNotFoundError:  # evicted meanwhile
                continue
            except OSError as error:
                skipped.append(f"{kept.path}: {error.strerror}")
        near = () if starts else self._near(identity, place.name, skipped)
        return ArchiveMatches(
            starts=tuple(starts),
            near=near,
            unknown=tuple(identity.unknown) if starts else (),
            skipped=tuple(skipped),
        )

    def keep(
        self,
        identity: Identity,
        result: StartResult,
        lines: Iterable[bytes],
        *,
        build: str,
        recorded_at: str | None = None,
    ) -> Path:
        """Put one baseline start into the archive; `lines` are those of the run's samples file, secrets already taken out.

        `build` says in words who made it, and `recorded_at` when (RFC 3339; now). Raises ValueError for a start that is
        not `worth_keeping`, or whose samples are not all there, and UsageError where the directory cannot be written.
        """
        if reason := unfit(result):
            raise ValueError(reason)
        when = recorded_at or clock.timestamp()
        path = self._place(identity) / f"start-{stamp(when)}-{secrets.token_hex(8)}.jsonl.gz"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            temporary = write_start(
                self.directory, _head(identity, result, when, build), lines, result
            )
            _put(temporary, path)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror or error}",
                hint="name a directory that this user can write",
            ) from error
        _describe(path.parent, identity)
        return path

    def evict(self) -> tuple[Path, ...]:
        """Take away what has expired, then the oldest until the archive is below its limit, and give back what went.

        Only files that the archive itself wrote, by their names and places. Raises nothing.
        """
        return evict(self.directory, days=self.days, limit=self.limit)

    def _place(self, identity: Identity) -> Path:
        return self.directory / f"identity-{identity.digest()}"

    def _listed(self, place: Path, skipped: list[str]) -> list[ArchivedFile]:
        """What lies there and has not expired, newest first."""
        try:
            kept = kept_files(place)
        except FileNotFoundError:
            return []
        except OSError as error:
            skipped.append(f"{place}: {error.strerror}")
            return []
        return [each for each in reversed(kept) if each.age_days() <= self.days]

    def _near(self, identity: Identity, own: str, skipped: list[str]) -> tuple[NearMiss, ...]:
        misses = []
        for place in sorted(self.directory.glob("identity-*"))[:_SEARCHED]:
            if place.name == own or not (kept := self._listed(place, skipped)):
                continue
            other = _described(place)
            if other is None or f"identity-{other.digest()}" != place.name:
                skipped.append(f"{place}: its identity.json is not that of its name")
                continue
            misses.append(
                NearMiss(
                    differences=differences(other, identity),
                    starts=len(kept),
                    recorded_at=kept[0].recorded_at,
                    age_s=kept[0].age_days() * 86400,
                )
            )
        misses.sort(key=lambda miss: (len(miss.differences), miss.age_s))
        return tuple(misses[:NEAREST])


def unfit(result: StartResult) -> str | None:
    """Why a start is no baseline to hold others against; None where it is one. Pure."""
    start = result.start
    if start.arm is not Arm.BASELINE or start.archived:
        return f"{start.name} is no baseline start of this run"
    if not result.counts or result.failure or start.failed or start.outside:
        return f"{start.name} did not come to its end"
    if (
        start.proof_missing
        or result.errors
        or not start.answers
        or start.answered < len(start.answers)
    ):
        return f"{start.name} did not answer everything"
    if start.empty == len(start.answers):
        return f"{start.name} gave empty answers only"
    return None


def _checked(
    path: Path, number: int, identity: Identity, requests: Sequence[str], passes: int
) -> ArchivedStart:
    own, start = read_start(path, number)
    if own.digest() != identity.digest():
        raise NotAnArchiveError("it was made under another identity than that of its directory")
    if set(start.answers) != set(requests) or {len(each) for each in start.digests.values()} != {
        passes
    }:
        raise NotAnArchiveError("it answers other requests, or in other passes")
    return start


def _put(temporary: Path, path: Path) -> None:
    """Into its place; somebody who evicts may take the directory away at the same moment, so it may be made again."""
    try:
        for _ in range(_ATTEMPTS - 1):
            path.parent.mkdir(exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                temporary.replace(path)
                return
        path.parent.mkdir(exist_ok=True)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _describe(place: Path, identity: Identity) -> None:
    """Write identity.json where it is not there, for near misses and for people; a start holds its identity itself."""
    if not (place / IDENTITY).exists():
        with contextlib.suppress(UsageError):  # the start is kept, and that is what counts
            write_atomically(
                place / IDENTITY, msgspec.json.format(msgspec.json.encode(identity)) + b"\n"
            )


def _described(place: Path) -> Identity | None:
    try:
        told = msgspec.json.decode((place / IDENTITY).read_bytes(), type=Identity)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
    return Identity.of(told.facts, told.unknown, told.noted)


def _head(identity: Identity, result: StartResult, when: str, build: str) -> ArchiveHeader:
    return ArchiveHeader(
        format=FORMAT,
        identity=identity,
        recorded_at=when,
        build=build,
        passes=max(len(each) for each in result.digests.values()),
        digests={request: dict(each) for request, each in result.digests.items()},
        prompts={request: dict(each) for request, each in result.start.prompts.items()},
        empty=result.start.empty,
        duration_s=result.duration_s,
        facts=dict(result.facts),
        places={},
        bytes=0,
        crc=0,
        words=dict(result.start.words),
    )
