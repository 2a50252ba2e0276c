# SPDX-License-Identifier: Apache-2.0
"""Pure. The causes of a build's failures, each with all that it cost."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.build.job_attempt import JobAttempt
from ci_doctor.build.retries import lies_outside
from ci_doctor.build.steps import BuildStep
from ci_doctor.build.times import duration_s
from ci_doctor.build.verdicts import FAILURES
from ci_doctor.build.wording import LONGEST_FIELD, LONGEST_LINE, clipped
from ci_doctor.model.cause import Cause, for_record, judged_by
from ci_doctor.model.facts.build import CauseFacts
from ci_doctor.model.quantities import parse_moment
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.safe_text import one_line, printable

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
    shown = replace(shown, fingerprint=fingerprint, title=_title(shown), is_final=is_final)
    facts = CauseFacts(
        **asdict(shown),
        steps=tuple(sorted({each.step.name for each in ordered})),
        jobs=len(attempts),
        seconds=_sum(attempts, _seconds),
        gpu_seconds=_sum(attempts, _gpu_seconds),
        cancelled=all(each.facts.cancelled for each in attempts),
    )
    return BuildCause(facts=facts, failed=ordered)


def _title(cause: Cause) -> str:
    """A reader goes by the title: one of blanks and terminal escapes shows nothing."""
    is_visible = one_line(printable(cause.title)) != ""
    return clipped(cause.title, LONGEST_FIELD) if is_visible else _NAMELESS


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
