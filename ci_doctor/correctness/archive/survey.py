# SPDX-License-Identifier: Apache-2.0
"""Reads all of an archive: which build made which start, under whatever identity."""

from collections.abc import Sequence
from pathlib import Path

from ci_doctor.correctness.archive.archive_store import archive_store, archived_objects
from ci_doctor.correctness.archive.archived_start import NotAnArchiveError
from ci_doctor.correctness.archive.evict import ArchivedFile, archived_files
from ci_doctor.correctness.archive.object_reader import ObjectReader
from ci_doctor.correctness.archive.read_start import read_build
from ci_doctor.correctness.archive.revocations import revocations_in
from ci_doctor.correctness.archive.surveyed_start import ArchiveSurvey, SurveyedStart
from ci_doctor.errors import UsageError
from ci_doctor.store.errors import StoreError, StoreFailure
from ci_doctor.store.objects import ObjectStore


def survey(place: Path | str) -> ArchiveSurvey:
    """Everything at `place`. Raises UsageError if it cannot be read, or is an absent directory."""
    if isinstance(place, Path) and not place.is_dir():
        raise _no_archive(place, "there is no such directory", None)
    skipped: list[str] = []
    try:
        store = archive_store(place)
        revocations = revocations_in(store)
        files = archived_files(archived_objects(store, place, skipped))
    except StoreError as error:
        raise _no_archive(place, error.message, error.hint) from error
    starts = _starts(store, files, skipped)
    starts.sort(key=lambda start: start.recorded_at, reverse=True)
    return ArchiveSurvey(
        location=str(place),
        starts=tuple(starts),
        skipped=tuple(skipped),
        revocations=revocations,
    )


def _no_archive(place: Path | str, why: str, hint: str | None) -> UsageError:
    return UsageError(
        f"no archive in {place}: {why}",
        hint=hint or "name the directory that --archive had in the runs",
    )


def _starts(
    store: ObjectStore, files: Sequence[ArchivedFile], skipped: list[str]
) -> list[SurveyedStart]:
    starts: list[SurveyedStart] = []
    for file in files:
        try:
            made = read_build(ObjectReader(store, file.name, file.size))
        except StoreError as error:
            # Else it was evicted meanwhile.
            if error.reason is not StoreFailure.MISSING:
                skipped.append(error.message)
            continue
        except NotAnArchiveError as error:
            skipped.append(f"{store.location}/{file.name}: {error}")
            continue
        start = SurveyedStart(
            file=file.name,
            recorded_at=file.recorded_at,
            build=made.build,
            origin=made.origin,
        )
        starts.append(start)
    return starts
