# SPDX-License-Identifier: Apache-2.0
"""Reads files: from paths with the records and reports of jobs to the outcome of a merge."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.collect import collect
from ci_doctor.build.merge import merge
from ci_doctor.build.outcome import outcome_of
from ci_doctor.model.about import About
from ci_doctor.model.outcome import Outcome


class BuildOutcome(Struct, frozen=True, kw_only=True):
    """What came of a merge, and which build it is about; None if no report says so."""

    outcome: Outcome
    about: About | None


class MergeRequest(Struct, frozen=True, kw_only=True):
    """What to merge.

    paths: folders and files. expect: keys, labels or patterns of steps that must have a report.
    api_jobs: Buildkite's jobs by id; None if nobody asked. own_job: the id of the job that merges.
    api_problem: why they could not be asked for. problems: what kept artifacts from being read, as
    sentences.
    """

    paths: tuple[Path, ...]
    expect: tuple[str, ...] = ()
    api_jobs: Mapping[str, ApiJob] | None = None
    own_job: str | None = None
    api_problem: str | None = None
    problems: tuple[str, ...] = ()


def merge_build(request: MergeRequest) -> BuildOutcome:
    """One outcome of the whole build, with BuildFacts.

    Raises UsageError for a path that does not exist.
    """
    merged = merge(
        collect(request.paths),
        api_jobs=request.api_jobs,
        expect=request.expect,
        own_job=request.own_job,
    )
    outcome = outcome_of(merged, request.problems, api_problem=request.api_problem)
    return BuildOutcome(outcome=outcome, about=None if merged.about == About() else merged.about)
