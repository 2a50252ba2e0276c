# SPDX-License-Identifier: Apache-2.0
"""Pure. A merged build -> its facts."""

from msgspec.structs import replace

from ci_doctor.build.causes import cause_id
from ci_doctor.build.critical_path import critical_path
from ci_doctor.build.merge import MergedBuild
from ci_doctor.build.retries import attempt_id, worths_of_retries
from ci_doctor.build.rules import CAUSE
from ci_doctor.build.steps import BuildStep
from ci_doctor.build.wording import LONGEST_FIELD, clipped
from ci_doctor.model.facts.build import BuildFacts, JobFacts, StepFacts
from ci_doctor.model.quantities import parse_moment
from ci_doctor.model.verdict import rank
from ci_doctor.render.build_annotation import step_ending


def facts_of(merged: MergedBuild) -> BuildFacts:
    """Steps worst first, causes most urgent first, and texts of a length that can be shown."""
    about = merged.about
    unordered = [_step(step) for step in merged.steps]
    steps = tuple(sorted(unordered, key=lambda step: (rank(step_ending(step)), step.name)))
    jobs = [job for step in steps for job in step.attempts]
    twice = [step.name for step in merged.steps if step.claimed_twice()]
    return BuildFacts(
        pipeline=_field(about.pipeline),
        build=about.build,
        build_url=_field(about.build_url),
        commit=_field(about.commit),
        branch=_field(about.branch),
        began_at=min((job.began_at for job in jobs if job.began_at), key=_second, default=None),
        ended_at=max((job.ended_at for job in jobs if job.ended_at), key=_second, default=None),
        build_steps=steps,
        causes=tuple(cause.facts for cause in merged.causes),
        cause_rule=CAUSE.id,
        missing=tuple(dict.fromkeys(each.name for each in merged.missing)),
        duplicates=tuple(twice),
        critical_path=critical_path(merged.steps),
        knows_queue=merged.knows_queue,
    )


def _second(text: str) -> float:
    return parse_moment(text) or 0.0


def _step(step: BuildStep) -> StepFacts:
    worths = worths_of_retries(step)
    jobs: list[JobFacts] = []
    for attempt in step.attempts:
        job = replace(
            attempt.facts,
            summary=clipped(attempt.facts.summary),
            agent=_field(attempt.facts.agent),
            queue=_field(attempt.facts.queue),
            cause=cause_id(attempt) if attempt.has_failed else None,
            retry=worths.get(attempt_id(attempt)),
        )
        jobs.append(job)
    return StepFacts(
        name=step.name,
        key=_field(step.key),
        label=_field(step.label),
        parallel_index=step.parallel_index,
        verdict=step.verdict,
        attempts=tuple(jobs),
    )


def _field(text: str | None) -> str | None:
    """A text that has one line, and no more than can be shown."""
    return None if text is None else clipped(text, LONGEST_FIELD)
