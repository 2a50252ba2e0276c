# SPDX-License-Identifier: Apache-2.0
"""Pure. Records and reports of jobs -> one build: its steps, its causes, and what is missing."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.build import job_attempt as states
from ci_doctor.build.api_jobs import ApiJob, duration_s
from ci_doctor.build.collect import JobFiles, Material, files_by_job
from ci_doctor.build.job_attempt import FAILURES, JobAttempt, reported_attempt, silent_attempt
from ci_doctor.build.steps import (
    LONGEST_FIELD,
    LONGEST_LINE,
    BuildStep,
    Identity,
    build_identity,
    clipped,
    lies_outside,
    short_name,
    steps_of,
)
from ci_doctor.model.about import About
from ci_doctor.model.cause import Cause, for_record, judged_by
from ci_doctor.model.facts.build import CauseFacts
from ci_doctor.model.quantities import parse_moment
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.safe_text import one_line, printable

# --- reports that should be there and are not: of expected steps, parallel jobs, and known jobs ---

# A step has at most 500 parallel jobs, unless an organisation asks for more
# (https://buildkite.com/docs/platform/limits).
_MOST_NAMED: Final = 20

_Group = tuple[Identity, str | None, str | None]  # build, key, label
Place = tuple[str | None, str | None, int | None]  # key, label, parallel index


class MissingReport(Struct, frozen=True, kw_only=True):
    """Whose report is missing, as a name, and why one is expected. `is_expected`: by the user."""

    name: str
    reason: str
    is_expected: bool = False


def expected_steps(steps: Sequence[BuildStep], expected: Iterable[str]) -> list[MissingReport]:
    """The words of `expected` for which no step has a report of its last attempt.

    A word is a key, a label, a name, or a pattern of one, such as `e2e-*`.
    """
    missing = []
    for word in sorted(set(expected)):
        matching = [step for step in steps if _is_meant(step, word)]
        if not any(_has_report(step) for step in matching):
            reason = f"no step `{word}` has a report"
            missing.append(MissingReport(name=word, reason=reason, is_expected=True))
    return missing


def known_jobs(steps: Iterable[BuildStep]) -> list[MissingReport]:
    """Last attempts that Buildkite knows, that have failed or not ended, and without a report."""
    missing = []
    for step in steps:
        for attempt in step.last:
            if not attempt.is_reported and _is_owed(attempt):
                missing.append(MissingReport(name=step.name, reason=attempt.reason))
                break
    return missing


def _is_owed(attempt: JobAttempt) -> bool:
    if attempt.is_soft_failed:
        return False
    return not states.has_passed(attempt.state)


def parallel_jobs(steps: Sequence[BuildStep], never_ran: Collection[Place]) -> list[MissingReport]:
    """Parallel jobs whose neighbours have reports; `never_ran` are those that need none."""
    groups: dict[_Group, list[BuildStep]] = defaultdict(list)
    for step in steps:
        if step.parallel_index is not None:
            identity = build_identity(step.attempts[0].about)
            groups[identity, step.key, step.label].append(step)
    missing = []
    for (_, key, label), siblings in groups.items():
        present = {step.parallel_index for step in siblings}
        # Those of `never_ran` without an index are no parallel jobs.
        present |= {index for *step, index in never_ran if step == [key, label]}
        count = max(map(_parallel_count, siblings))
        absent = _first_absent(present, count)
        if absent:
            name = f"{short_name(key or label or '')} {_numbers(absent)} of {count}"
            reason = "other parallel jobs of the step have reports"
            missing.append(MissingReport(name=name, reason=reason))
    return missing


def _parallel_count(step: BuildStep) -> int:
    return max(attempt.parallel_count or 0 for attempt in step.attempts)


def places_that_never_ran(jobs: Iterable[ApiJob]) -> set[Place]:
    """Steps and parallel jobs that left no report because they never ran."""
    return {
        (job.step_key, job.label, job.parallel_index) for job in jobs if states.never_ran(job.state)
    }


def _is_meant(step: BuildStep, word: str) -> bool:
    own = {step.key, step.label, step.name} - {None}
    return word in own or any(fnmatchcase(name, word) for name in own if name)


def _has_report(step: BuildStep) -> bool:
    return any(attempt.is_reported for attempt in step.last)


def _first_absent(present: Collection[int | None], count: int) -> list[int]:
    """Numbers from 1 of absent jobs, a few more than are named: `count` is a stranger's figure."""
    absent = []
    for index in range(count):
        if index not in present:
            absent.append(index + 1)
        if len(absent) > _MOST_NAMED:
            break
    return absent


def _numbers(absent: Sequence[int]) -> str:
    shown = ", ".join(map(str, absent[:_MOST_NAMED]))
    return f"{shown}, …" if len(absent) > _MOST_NAMED else shown


# --- the causes of a build's failures, each with all that it cost ---

_NAMELESS: Final = "a cause without a name"
_LONGEST: Final = 500  # of a fingerprint: a real one has 16 characters


class FailedAttempt(Struct, frozen=True):
    """An attempt that failed, with its step."""

    step: BuildStep
    attempt: JobAttempt

    @property
    def is_last(self) -> bool:
        """Whether no retry followed."""
        return self.attempt.facts.attempt == self.step.attempts[-1].facts.attempt


class BuildCause(Struct, frozen=True, kw_only=True):
    """A cause with the attempts that it ended, by their begin."""

    facts: CauseFacts
    failed: tuple[FailedAttempt, ...]


def cause_id(attempt: JobAttempt) -> str:
    """The fingerprint of the cause; of a failure without a known one, of what is known of it."""
    if attempt.cause is not None and attempt.cause.fingerprint:
        return clipped(attempt.cause.fingerprint, _LONGEST)
    return clipped(f"unknown: {attempt.reason}", _LONGEST)


def causes_of(steps: Iterable[BuildStep]) -> tuple[BuildCause, ...]:
    """Every failed attempt in exactly one cause, the most urgent cause first.

    Among equals, the dearest comes first: by GPU time, then wall clock, then the number of attempts.
    """
    groups: dict[str, list[FailedAttempt]] = defaultdict(list)
    for step in steps:
        for attempt in step.attempts:
            if attempt.has_failed:
                groups[cause_id(attempt)].append(FailedAttempt(step, attempt))
    causes = [_cause(fingerprint, group) for fingerprint, group in groups.items()]
    return tuple(sorted(causes, key=lambda cause: (_urgency(cause), _dearest_first(cause))))


def _cause(fingerprint: str, group: Sequence[FailedAttempt]) -> BuildCause:
    ordered = tuple(sorted(group, key=_by_begin))
    attempts = [each.attempt for each in ordered]
    first = attempts[0]
    shown = first.cause or judged_by(Cause(fingerprint="", title=first.reason), first.facts.verdict)
    # One of them that may be the change's fault is enough.
    is_final = shown.is_final and all(lies_outside(each) for each in attempts)
    shown = for_record(shown, LONGEST_LINE)
    # A reader goes by the title: one of blanks and terminal escapes shows nothing.
    is_visible = one_line(printable(shown.title)) != ""
    shown = replace(
        shown,
        fingerprint=fingerprint,
        title=clipped(shown.title, LONGEST_FIELD) if is_visible else _NAMELESS,
        is_final=is_final,
    )
    facts = CauseFacts(
        **asdict(shown),
        steps=tuple(sorted({each.step.name for each in ordered})),
        jobs=len(attempts),
        seconds=_sum(attempts, _seconds),
        gpu_seconds=_sum(attempts, _gpu_seconds),
        cancelled=all(each.facts.cancelled for each in attempts),
    )
    return BuildCause(facts=facts, failed=ordered)


def _by_begin(failed: FailedAttempt) -> tuple[float, str, str]:
    facts = failed.attempt.facts
    return (parse_moment(facts.began_at) or float("inf"), failed.step.name, facts.job or "")


def _sum(
    attempts: Sequence[JobAttempt], measure: Callable[[JobAttempt], float | None]
) -> float | None:
    """The sum of what is known; None if nothing is."""
    values = [measure(each) for each in attempts]
    numbers = [value for value in values if value is not None]
    return round(sum(numbers), 3) if numbers else None


def _seconds(attempt: JobAttempt) -> float | None:
    return duration_s(attempt.facts)


def _gpu_seconds(attempt: JobAttempt) -> float | None:
    seconds = duration_s(attempt.facts)
    if seconds is None or attempt.facts.gpus is None:
        return None
    return seconds * attempt.facts.gpus


class _Urgency(IntEnum):
    """What a reader sees first: what it costs comes after what the change has broken."""

    REGRESSION = 1
    FAILURE = 2
    UNDECIDED = 3
    OUTSIDE = 4
    OVERCOME = 5
    CANCELLED = 6


def _urgency(cause: BuildCause) -> _Urgency:
    return min(map(_urgency_of, cause.failed))


def _urgency_of(failed: FailedAttempt) -> _Urgency:
    attempt = failed.attempt
    if attempt.facts.cancelled:
        return _Urgency.CANCELLED
    if not failed.is_last or attempt.is_excused:
        return _Urgency.OVERCOME
    if attempt.facts.verdict == Verdict.REGRESSION:
        return _Urgency.REGRESSION
    if lies_outside(attempt):
        return _Urgency.OUTSIDE
    is_failure = attempt.facts.verdict in FAILURES
    return _Urgency.FAILURE if is_failure else _Urgency.UNDECIDED


def _dearest_first(cause: BuildCause) -> tuple[float, float, int, str]:
    facts = cause.facts
    return (-(facts.gpu_seconds or 0), -(facts.seconds or 0), -facts.jobs, facts.fingerprint)


# --- records and reports of jobs -> one build: its steps, its causes, and what is missing ---


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
    missing = expected_steps(steps, expect) if expect else []
    missing += known_jobs(steps)
    missing += parallel_jobs(steps, places_that_never_ran(known.values()))
    return MergedBuild(
        material=material,
        about=about,
        files=tuple(files),
        steps=steps,
        causes=causes_of(steps),
        missing=tuple(missing),
        builds=len(_builds(files)),
        knows_queue=any(each.queued_s is not None for each in known.values()),
    )


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
