# SPDX-License-Identifier: Apache-2.0
"""Pure. Records and reports of jobs -> one build: its steps, whether their retries made sense, its causes, and what is missing."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.build.collect import JobFiles, Material, files_by_job
from ci_doctor.build.job_attempt import (
    FAILURES,
    NEVER_RAN,
    ApiJob,
    JobAttempt,
    duration_s,
    reported_attempt,
    silent_attempt,
)
from ci_doctor.model.cause import Cause, for_record, judged_by
from ci_doctor.model.facts.build import CauseFacts, RetryWorth
from ci_doctor.model.outcome import MISSING, NO_VERDICT, About, Verdict, is_green, worst
from ci_doctor.model.words import parse_moment, shortened
from ci_doctor.render.formatting import amount, duration, listed, one_line, printable, short_line

# --- what a reader calls a step ---

_EMOJI: Final = re.compile(r":[a-z0-9_+-]{1,40}:")  # `:pytest:`
_LONGEST_KEY: Final = 100


def plain_name(attempts: Sequence[JobAttempt]) -> str:
    """The label without emoji, else the key, the command, the place of the files.

    One line of at most 100 characters. A parallel job has its number, from 1, behind it.
    """
    name = short_name(_words(attempts))
    index = attempts[0].about.parallel_index
    if index is None:
        return name
    counts = [each.parallel_count for each in attempts if each.parallel_count]
    return f"{name} {index + 1}/{max(counts)}" if counts else f"{name} {index + 1}"


def _words(attempts: Sequence[JobAttempt]) -> str:
    for each in attempts:
        label = _EMOJI.sub("", each.label or "").strip()
        if label:
            return label
    first = attempts[0]
    own = first.about.step or first.command or first.place or f"job {first.facts.job}"
    return own if own.strip() else "step"


def short_name(text: str) -> str:
    """`text` in one harmless line of at most 100 characters; `step` if nothing of it can be seen."""
    # Before it is looked through: it may be a megabyte.
    beginning = printable(text[: _LONGEST_KEY * 10])
    return short_line(beginning, _LONGEST_KEY) or "step"


# --- the attempts of a build by step: one for each parallel job, and for each job of a matrix ---

Identity = tuple[str, ...]


class BuildStep(Struct, frozen=True, kw_only=True):
    """A step with its attempts, by their numbers.

    name: different for each. Two jobs that claim the same attempt both stand in `attempts`.
    """

    name: str
    attempts: tuple[JobAttempt, ...]

    @property
    def key(self) -> str | None:
        """The step's key."""
        return self.attempts[0].about.step

    @property
    def label(self) -> str | None:
        """The step's label, as the pipeline gives it."""
        labels = [each.label for each in self.attempts if each.label]
        return labels[0] if labels else None

    @property
    def parallel_index(self) -> int | None:
        """Of a step with `parallelism`, from 0."""
        return self.attempts[0].about.parallel_index

    @property
    def last(self) -> tuple[JobAttempt, ...]:
        """The job of the last attempt, or all jobs that claim to be it."""
        number = self.attempts[-1].facts.attempt
        return tuple(each for each in self.attempts if each.facts.attempt == number)

    @property
    def verdict(self) -> str:
        """That of the last attempt."""
        return worst(each.facts.verdict for each in self.last)

    def claimed_twice(self) -> list[int]:
        """The attempts that more than one job claims."""
        counts = Counter(each.facts.attempt for each in self.attempts)
        return sorted(number for number, count in counts.items() if count > 1)


def build_identity(about: About) -> Identity:
    """What tells two builds apart: pipeline and number, else the commit."""
    if about.build is not None:
        return (about.pipeline or "", str(about.build))
    return ("", about.commit or "")


def steps_of(attempts: Iterable[JobAttempt]) -> tuple[BuildStep, ...]:
    """Every attempt in exactly one step; the order of `attempts` means nothing."""
    groups: dict[Identity, list[JobAttempt]] = defaultdict(list)
    everything = sorted(attempts, key=_order)
    labelled = [each for each in everything if each.label]
    owners: dict[Identity, set[Identity]] = defaultdict(set)
    for each in labelled:
        identity = _identity(each)
        groups[identity].append(each)
        owners[_keyed(each)].add(identity)
    for each in everything:
        if each.label:
            continue
        # A report knows its step's key, but not its label.
        same_key = owners.get(_keyed(each), set()) if each.about.step else set()
        identity = next(iter(same_key)) if len(same_key) == 1 else _identity(each)
        groups[identity].append(each)
    split = [part for group in groups.values() for part in _by_command(group)]
    return _named(split)


def _order(attempt: JobAttempt) -> tuple[int, str, str, str]:
    facts = attempt.facts
    return (facts.attempt, facts.began_at or "", facts.job or "", attempt.place)


def _keyed(attempt: JobAttempt) -> Identity:
    about = attempt.about
    return (*build_identity(about), about.step or "", str(about.parallel_index))


def _identity(attempt: JobAttempt) -> Identity:
    """What the attempts of one step share."""
    if attempt.about.step or attempt.label:
        return (*_keyed(attempt), attempt.label or "")
    if attempt.command:
        return (*_keyed(attempt), "", attempt.command)
    return (*_keyed(attempt), "", "", attempt.facts.job or attempt.place)


def _by_command(group: Sequence[JobAttempt]) -> list[list[JobAttempt]]:
    """The jobs of a matrix, if their labels are the same: only their commands tell them apart.

    A retry runs the same command. A job that is no retry of another must not hide its failure.
    """
    parts: dict[str, list[JobAttempt]] = defaultdict(list)
    for each in group:
        parts[each.command or ""].append(each)
    nameless = parts.get("", [])
    if len(parts) == 2 and nameless:
        return _by_work(group)
    return [part for same in parts.values() for part in _by_work(same)]


def _by_work(group: Sequence[JobAttempt]) -> list[list[JobAttempt]]:
    """Jobs that claim the same attempt, by their variables, plugins and queues, if all are known."""
    numbers = [each.facts.attempt for each in group]
    if len(set(numbers)) == len(numbers) or any(each.work is None for each in group):
        return [list(group)]
    parts: dict[str | None, list[JobAttempt]] = defaultdict(list)
    for each in group:
        parts[each.work].append(each)
    return list(parts.values())


def _named(groups: Sequence[Sequence[JobAttempt]]) -> tuple[BuildStep, ...]:
    """Steps with names that are all different, in the order of their names."""
    names = [(plain_name(group), _order(group[0]), group) for group in groups]
    names.sort(key=lambda each: each[:2])
    used: set[str] = set()
    steps = []
    for name, _, group in names:
        number = 2
        free = name
        while free in used:
            free = f"{name} ({number})"
            number += 1
        own = free
        used.add(own)
        steps.append(BuildStep(name=own, attempts=tuple(sorted(group, key=_order))))
    return tuple(steps)


# --- whether a retry made sense ---

_UNJUDGED = frozenset({MISSING, NO_VERDICT})


def lies_outside(attempt: JobAttempt) -> bool:
    """Whether the attempt failed by a cause outside the change, and another run helps."""
    if attempt.cause is not None:
        return attempt.cause.may_be_retried
    return attempt.facts.verdict == Verdict.INFRA


def worth_of_retry(attempt: JobAttempt, following: Sequence[JobAttempt]) -> RetryWorth | None:
    """What the next attempt was good for; `following` are the jobs that claim to be it.

    None if there is none, or if `attempt` had passed.
    """
    if not following or not attempt.has_failed:
        return None
    result = worst(each.facts.verdict for each in following)
    if result in _UNJUDGED:
        return RetryWorth.UNKNOWN
    if not is_green(result):
        return RetryWorth.IN_VAIN
    if lies_outside(attempt):
        return RetryWorth.HELPED
    # Cancelled, or no report of it: nobody knows whether there was a failure to hide.
    if attempt.facts.verdict in _UNJUDGED and attempt.cause is None:
        return RetryWorth.UNKNOWN
    return RetryWorth.HID_A_FAILURE


def worths_of_retries(step: BuildStep) -> dict[str, RetryWorth]:
    """The worth of the retry after each attempt that failed, by the attempt's place and job."""
    numbers = sorted({each.facts.attempt for each in step.attempts})
    by_number = {
        number: [each for each in step.attempts if each.facts.attempt == number]
        for number in numbers
    }
    worths = {}
    for number, after in pairwise(numbers):
        for attempt in by_number[number]:
            worth = worth_of_retry(attempt, by_number[after])
            if worth is not None:
                worths[attempt_id(attempt)] = worth
    return worths


def attempt_id(attempt: JobAttempt) -> str:
    """A text that no other attempt has."""
    return f"{attempt.facts.job or ''} {attempt.place}"


# --- names, numbers and costs of a build in words ---

__all__ = ("amount", "clipped", "listed", "spent")

LONGEST_LINE: Final = 2_000  # of a log: enough to recognise it
LONGEST_FIELD: Final = 500  # a name, or a title


def spent(facts: CauseFacts) -> str:
    """`; 12 min 20 s, 24 min 40 s of GPU time`, as far as it is known."""
    parts = []
    if facts.seconds is not None:
        parts.append(duration(facts.seconds))
    if facts.gpu_seconds is not None:
        parts.append(f"{duration(facts.gpu_seconds)} of GPU time")
    return f"; {', '.join(parts)}" if parts else ""


def clipped(text: str, most: int = LONGEST_LINE) -> str:
    """`text`, cut after `most` characters: a line of a log may be a megabyte long."""
    return shortened(text, most)


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
        reported = [step for step in steps if any(each.is_reported for each in step.last)]
        if not any(_is_meant(step, word) for step in reported):
            reason = f"no step `{word}` has a report"
            missing.append(MissingReport(name=word, reason=reason, is_expected=True))
    return missing


def _is_meant(step: BuildStep, word: str) -> bool:
    names = {step.key, step.label, step.name} - {None}
    return any(fnmatchcase(name or "", word) or name == word for name in names)


def known_jobs(steps: Iterable[BuildStep]) -> list[MissingReport]:
    """Last attempts that Buildkite knows, that have failed or not ended, and without a report."""
    missing = []
    for step in steps:
        for attempt in step.last:
            if not attempt.is_reported and not attempt.is_excused:
                missing.append(MissingReport(name=step.name, reason=attempt.reason))
                break
    return missing


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
        count = max(each.parallel_count or 0 for step in siblings for each in step.attempts)
        # Numbers from 1, a few more than are named: `count` is a stranger's figure.
        numbers = (str(index + 1) for index in range(count) if index not in present)
        absent = list(islice(numbers, _MOST_NAMED + 1))
        if absent:
            shown = ", ".join([*absent[:_MOST_NAMED], *("…" for _ in absent[_MOST_NAMED:])])
            name = f"{short_name(key or label or '')} {shown} of {count}"
            reason = "other parallel jobs of the step have reports"
            missing.append(MissingReport(name=name, reason=reason))
    return missing


# --- the causes of a build's failures, each with all that it cost ---

_NAMELESS: Final = "a cause without a name"
_LONGEST_FINGERPRINT: Final = 500  # of a fingerprint: a real one has 16 characters


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
        return clipped(attempt.cause.fingerprint, _LONGEST_FINGERPRINT)
    return clipped(f"unknown: {attempt.reason}", _LONGEST_FINGERPRINT)


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
    return tuple(sorted(causes, key=_dearest_first))


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
    # Of what is known; None if nothing is.
    spans = [
        (seconds, each.facts.gpus)
        for each in attempts
        if (seconds := duration_s(each.facts)) is not None
    ]
    of_gpus = [seconds * gpus for seconds, gpus in spans if gpus is not None]
    facts = CauseFacts(
        **asdict(shown),
        steps=tuple(sorted({each.step.name for each in ordered})),
        jobs=len(attempts),
        seconds=round(sum(seconds for seconds, _ in spans), 3) if spans else None,
        gpu_seconds=round(sum(of_gpus), 3) if of_gpus else None,
        cancelled=all(each.facts.cancelled for each in attempts),
    )
    return BuildCause(facts=facts, failed=ordered)


def _by_begin(failed: FailedAttempt) -> tuple[float, str, str]:
    facts = failed.attempt.facts
    return (parse_moment(facts.began_at) or float("inf"), failed.step.name, facts.job or "")


class _Urgency(IntEnum):
    """What a reader sees first: what it costs comes after what the change has broken."""

    REGRESSION = 1
    FAILURE = 2
    UNDECIDED = 3
    OUTSIDE = 4
    OVERCOME = 5
    CANCELLED = 6


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


def _dearest_first(cause: BuildCause) -> tuple[_Urgency, float, float, int, str]:
    facts = cause.facts
    urgency = min(map(_urgency_of, cause.failed))
    return (
        urgency,
        -(facts.gpu_seconds or 0),
        -(facts.seconds or 0),
        -facts.jobs,
        facts.fingerprint,
    )


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
    # Jobs that ran, or still run, and have no file.
    attempts += [
        silent_attempt(each, about)
        for job, each in known.items()
        if job not in reported and each.state not in NEVER_RAN
    ]
    steps = steps_of(attempts)
    missing = expected_steps(steps, expect) if expect else []
    missing += known_jobs(steps)
    # Steps and parallel jobs that left no report because they never ran.
    never_ran = {_place(each) for each in known.values() if each.state in NEVER_RAN}
    missing += parallel_jobs(steps, never_ran)
    return MergedBuild(
        material=material,
        about=about,
        files=tuple(files),
        steps=steps,
        causes=causes_of(steps),
        missing=tuple(missing),
        builds=len({build_identity(each.about) for each in files} - {("", "")}),
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


def _place(job: ApiJob) -> Place:
    return job.step_key, job.label, job.parallel_index


def _common_about(abouts: Iterable[About]) -> About:
    """The build, commit, branch and repository that most jobs name."""
    places = Counter(
        About(
            pipeline=about.pipeline or None,
            build=about.build,
            build_url=about.build_url or None,
            commit=about.commit or None,
            branch=about.branch or None,
            repository=about.repository or None,
        )
        for about in abouts
    )
    if not places:
        return About()
    return max(places, key=lambda each: (places[each], msgspec.json.encode(each)))
