# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor correctness archive`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class ArchivedBuildFacts(Struct, frozen=True, kw_only=True):
    """A build and its archived starts, as files relative to the archive.

    `build` is its id, None for the starts of unknown builds together. `name` names the newest of
    them in words. `revoked` says why the starts are not used; None if they are.
    """

    build: str | None
    name: str
    number: int | None
    commit: str | None
    baseline_commit: str | None
    newest: str
    starts: tuple[str, ...]
    revoked: str | None


class ArchiveListFacts(Facts, frozen=True, kw_only=True):
    """What an archive holds, the newest build first; `skipped` are sentences on unusable files."""

    directory: str
    builds: tuple[ArchivedBuildFacts, ...]
    skipped: tuple[str, ...]


class ArchiveRevokeFacts(Facts, frozen=True, kw_only=True):
    """What was revoked: a `commit`, or a `build` by its id.

    `starts` are the files that are no longer used, `marker` the file that says so. `was_revoked`:
    it was there already, and was left as it is.
    """

    directory: str
    commit: str | None
    build: str | None
    reason: str | None
    starts: tuple[str, ...]
    marker: str
    was_revoked: bool


class ArchiveDriftFacts(Struct, frozen=True, kw_only=True):
    """Today's baseline answers `request` otherwise than the archive, in `today` starts.

    `p` is the p-value of the exact test; None if they share no answer at all.
    """

    request: str
    today: int
    p: float | None


class ArchiveUseFacts(Struct, frozen=True, kw_only=True):
    """The archived `starts` beside those of a run, and how many independent `builds` made them.

    `unknown_builds` of the starts name no build; these count as one build together. With a `drift`
    the archive is off.
    """

    starts: int
    builds: int
    unknown_builds: int
    drift: ArchiveDriftFacts | None
