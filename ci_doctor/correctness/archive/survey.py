# SPDX-License-Identifier: Apache-2.0
"""Reads all of an archive: which build made which start, under whatever identity."""

from pathlib import Path

from ci_doctor.correctness.archive.archived_start import NotAnArchiveError
from ci_doctor.correctness.archive.evict import archived_files, identity_places
from ci_doctor.correctness.archive.read_start import read_build
from ci_doctor.correctness.archive.revocations import read_revocations
from ci_doctor.correctness.archive.surveyed_start import ArchiveSurvey, SurveyedStart
from ci_doctor.errors import UsageError


def survey(directory: Path) -> ArchiveSurvey:
    """Everything in `directory`. Raises UsageError if it cannot be read, or is absent."""
    try:
        if not directory.is_dir():
            raise NotADirectoryError(0, "there is no such directory")
        revocations = read_revocations(directory)
    except OSError as error:
        raise UsageError(
            f"no archive in {directory}: {error.strerror}",
            hint="name the directory that --archive had in the runs",
        ) from error
    starts: list[SurveyedStart] = []
    skipped: list[str] = []
    for place in identity_places(directory):
        starts += _starts(directory, place, skipped)
    starts.sort(key=lambda start: start.recorded_at, reverse=True)
    return ArchiveSurvey(
        directory=directory,
        starts=tuple(starts),
        skipped=tuple(skipped),
        revocations=revocations,
    )


def _starts(directory: Path, place: Path, skipped: list[str]) -> list[SurveyedStart]:
    """The starts of one identity."""
    starts: list[SurveyedStart] = []
    try:
        files = archived_files(place)
    except OSError as error:
        skipped.append(f"{place}: {error.strerror}")
        return starts
    for file in files:
        try:
            made = read_build(file.path)
        except FileNotFoundError:  # evicted meanwhile
            continue
        except OSError as error:
            skipped.append(f"{file.path}: {error.strerror}")
            continue
        except NotAnArchiveError as error:
            skipped.append(f"{file.path}: {error}")
            continue
        start = SurveyedStart(
            file=str(file.path.relative_to(directory)),
            recorded_at=file.recorded_at,
            build=made.build,
            origin=made.origin,
        )
        starts.append(start)
    return starts
