# SPDX-License-Identifier: Apache-2.0
"""The outcomes of `ci-doctor correctness archive`: tables and facts. Pure."""

from collections.abc import Sequence

from ci_doctor.correctness.archive.revocation import Revocation
from ci_doctor.correctness.archive.revocation_target import RevocationTarget
from ci_doctor.correctness.archive.surveyed_start import ArchiveSurvey, SurveyedStart
from ci_doctor.model.facts.archive import (
    ArchivedBuildFacts,
    ArchiveListFacts,
    ArchiveRevokeFacts,
)
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, text_table
from ci_doctor.render.formatting import amount

# Characters of an RFC 3339 time.
_DAY = 10
_SECOND = 19


def list_outcome(survey: ArchiveSurvey) -> Outcome:
    """The builds of an archive, newest first."""
    builds = _builds(survey)
    rows = []
    for build in builds:
        commit = build.commit or build.baseline_commit or ""
        state = build.revoked or ""
        rows.append(row(build.name, commit[:12], len(build.starts), build.newest[:_DAY], state))
    columns = ("commit", "starts", "newest", "revoked")
    tables = [Table(title="Builds", columns=columns, rows=tuple(rows))] if rows else []
    if survey.skipped:
        tables.append(text_table(title="Not readable", lines=survey.skipped))
    starts = amount(len(survey.starts), "archived start")
    summary = f"{starts} of {amount(len(builds), 'independent build')} in {survey.location}"
    return Outcome(
        verdict=None,
        summary=summary,
        tables=tuple(tables),
        facts=ArchiveListFacts(
            directory=survey.location, builds=tuple(builds), skipped=survey.skipped
        ),
    )


def _builds(survey: ArchiveSurvey) -> list[ArchivedBuildFacts]:
    by_build: dict[str | None, list[SurveyedStart]] = {}
    for start in survey.starts:
        build = start.origin.id if start.origin else None
        by_build.setdefault(build, []).append(start)
    return [_build(survey, build, starts) for build, starts in by_build.items()]


def _build(
    survey: ArchiveSurvey, build: str | None, starts: Sequence[SurveyedStart]
) -> ArchivedBuildFacts:
    newest = starts[0]
    origin = newest.origin
    revocation = survey.revocation_of(newest)
    name = newest.build
    if origin is None:
        name = "builds that are not named"
    return ArchivedBuildFacts(
        build=build,
        name=name,
        number=origin.number if origin else None,
        commit=origin.commit if origin else None,
        baseline_commit=origin.baseline_commit if origin else None,
        newest=newest.recorded_at,
        starts=tuple(start.file for start in starts),
        revoked=revocation.explain() if revocation else None,
    )


def revoke_outcome(
    location: str, target: RevocationTarget, marker: str, made: Revocation, *, was_revoked: bool
) -> Outcome:
    """What is no longer used. `was_revoked`: `made` was there before."""
    starts = amount(len(target.starts), "archived start")
    verb = "was revoked before" if was_revoked else "is revoked"
    rows = [row(start.recorded_at[:_SECOND], start.build) for start in target.starts]
    return Outcome(
        verdict=None,
        summary=f"{target.name} {verb}: no run uses its {starts} any more",
        tables=(
            Table(title="Starts", rows=tuple(rows)),
            text_table(title="Revocation", lines=_lines(marker, made)),
        ),
        facts=ArchiveRevokeFacts(
            directory=location,
            commit=target.commit,
            build=target.build,
            reason=made.reason,
            starts=tuple(start.file for start in target.starts),
            marker=marker,
            was_revoked=was_revoked,
        ),
    )


def _lines(marker: str, made: Revocation) -> tuple[str, ...]:
    by = f" by {made.revoked_by}" if made.revoked_by else ""
    return (f"{made.explain()}{by}", f"to undo it, remove {marker}")
