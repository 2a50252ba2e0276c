# SPDX-License-Identifier: Apache-2.0
"""Pure. Reports that should be there and are not: of expected steps, parallel jobs, and known jobs."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from ci_doctor.build import states
from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.job_attempt import JobAttempt
from ci_doctor.build.step_names import short_name
from ci_doctor.build.steps import BuildStep, Identity, build_identity

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
