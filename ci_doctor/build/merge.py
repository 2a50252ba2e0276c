# SPDX-License-Identifier: Apache-2.0
"""Pure. Records and reports of jobs -> one build: its steps, its causes, and what is missing."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from ci_doctor.build import expected, states
from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.causes import BuildCause, causes_of
from ci_doctor.build.expected import MissingReport
from ci_doctor.build.job_attempt import JobAttempt, reported_attempt, silent_attempt
from ci_doctor.build.job_files import JobFiles, files_by_job
from ci_doctor.build.material import Material
from ci_doctor.build.steps import BuildStep, Identity, build_identity, steps_of
from ci_doctor.model.about import About


class MergedBuild(Struct, frozen=True, kw_only=True):
    """A build.

    about: what most of its jobs are about. files: of each job. steps: by name. causes: the most
    urgent first. builds: how many different ones the files belong to. knows_queue: the API gave times in
    the queue.
    """

    material: Material
    about: About
    files: tuple[JobFiles, ...]
    steps: tuple[BuildStep, ...]
    causes: tuple[BuildCause, ...]
    missing: tuple[MissingReport, ...]
    builds: int
    knows_queue: bool


def merge(
    material: Material,
    *,
    api_jobs: Mapping[str, ApiJob] | None = None,
    expect: Sequence[str] = (),
    own_job: str | None = None,
) -> MergedBuild:
    """The build of `material`. The order of its files means nothing.

    api_jobs: Buildkite's jobs by id; None if nobody asked. expect: steps that must have a report.
    own_job: the id of the job that merges, which has not ended.
    """
    known = _other_jobs(api_jobs or {}, own_job)
    files = [each for each in files_by_job(material) if each.job is None or each.job != own_job]
    about = _common_about(each.about for each in files)
    attempts = [reported_attempt(each, known.get(each.job or "")) for each in files]
    reported = {each.job for each in files}
    attempts += _silent(known, reported, about)
    steps = steps_of(attempts)
    return MergedBuild(
        material=material,
        about=about,
        files=tuple(files),
        steps=steps,
        causes=causes_of(steps),
        missing=_missing(steps, known, expect),
        builds=len(_builds(files)),
        knows_queue=any(each.queued_s is not None for each in known.values()),
    )


def _missing(
    steps: tuple[BuildStep, ...], known: Mapping[str, ApiJob], expect: Sequence[str]
) -> tuple[MissingReport, ...]:
    missing = expected.expected_steps(steps, expect) if expect else []
    missing += expected.known_jobs(steps)
    missing += expected.parallel_jobs(steps, expected.places_that_never_ran(known.values()))
    return tuple(missing)


def _other_jobs(jobs: Mapping[str, ApiJob], own_job: str | None) -> dict[str, ApiJob]:
    """Without the jobs of the step that merges: its earlier attempts failed at merging."""
    own = jobs.get(own_job or "")
    others = {job: each for job, each in jobs.items() if job != own_job}
    if own is None:
        return others
    place = _place(own)
    return {job: each for job, each in others.items() if _place(each) != place}


def _place(job: ApiJob) -> tuple[str | None, str | None, int | None]:
    return job.step_key, job.label, job.parallel_index


def _silent(
    known: Mapping[str, ApiJob], reported: set[str | None], about: About
) -> Iterable[JobAttempt]:
    """Jobs that ran, or still run, and have no file."""
    for job, each in known.items():
        if job not in reported and not states.never_ran(each.state):
            yield silent_attempt(each, about)


def _builds(files: Iterable[JobFiles]) -> set[Identity]:
    return {build_identity(each.about) for each in files} - {("", "")}


def _common_about(abouts: Iterable[About]) -> About:
    """The build, commit, branch and repository that most jobs name."""
    places = Counter(map(_place_of_build, abouts))
    if not places:
        return About()
    return max(places, key=lambda each: (places[each], msgspec.json.encode(each)))


def _place_of_build(about: About) -> About:
    return About(
        pipeline=about.pipeline or None,
        build=about.build,
        build_url=about.build_url or None,
        commit=about.commit or None,
        branch=about.branch or None,
        repository=about.repository or None,
    )
