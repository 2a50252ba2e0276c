# SPDX-License-Identifier: Apache-2.0
"""An archive as a person sees it: which build made which start. Pure."""

from msgspec import Struct

from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.archive.revocation import Revocation, Revocations


class SurveyedStart(Struct, frozen=True, kw_only=True):
    """One archived start: its `file` relative to the archive, and the build that made it.

    `build` names that build in words; `origin` is None in files of earlier versions.
    """

    file: str
    recorded_at: str
    build: str
    origin: BuildOrigin | None

    @property
    def identity(self) -> str:
        """The directory of its identity."""
        return self.file.partition("/")[0]


class ArchiveSurvey(Struct, frozen=True, kw_only=True):
    """All starts of an archive, newest first. `skipped` holds a sentence for each unusable file."""

    location: str
    starts: tuple[SurveyedStart, ...]
    skipped: tuple[str, ...]
    revocations: Revocations

    def revocation_of(self, start: SurveyedStart) -> Revocation | None:
        """What revokes a start; None if nothing does."""
        return self.revocations.of(start.origin)
