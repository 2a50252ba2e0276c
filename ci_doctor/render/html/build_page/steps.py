# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of a build as rows: each attempt in words, and its bar on the time axis."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from ci_doctor.model.facts.build import BuildFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.verdict import ordered
from ci_doctor.render.build_words import ending, is_fine
from ci_doctor.render.formatting import amount, duration
from ci_doctor.render.headline import Headline, job_headline
from ci_doctor.render.html.build_page.axis import Axis, queue_time, span_of, wall_time
from ci_doctor.render.html.build_page.bars import AttemptBar, attempt_bar
from ci_doctor.render.links import safe_address

UNKNOWN: Final = "unknown"
_MOST_WORDS = 14  # of endings, of which we have twelve
_MOST_STEPS = 2000  # a browser is quick with these; all are in report.json
_JOB_ID = re.compile(r"[A-Za-z0-9-]+")
_RETRIES = {
    RetryWorth.HELPED: "retry helped",
    RetryWorth.IN_VAIN: "retry in vain",
    RetryWorth.HID_A_FAILURE: "retry hid a failure",
    RetryWorth.UNKNOWN: "retry without a verdict",
}


class PageAttempt(Struct, frozen=True, kw_only=True):
    """One attempt in words. `cause` is the number of its row in the table of causes."""

    head: Headline
    began: str
    began_at: str | None
    took: str
    queued: str
    exit_status: int | None
    why: str
    where: str
    cause: int | None
    retry: str | None
    retry_hid: bool
    url: str | None
    reports: tuple[str, ...]
    bar: AttemptBar | None


class PageStep(Struct, frozen=True, kw_only=True):
    """A step and its attempts. `rank` is its place by the time of its begin."""

    name: str
    rank: int
    is_fine: bool
    is_retried: bool
    attempts: tuple[PageAttempt, ...]


class PageSteps(Struct, frozen=True, kw_only=True):
    """All rows, in the order of the facts, and how many steps have none.

    `key` is the fill and the word of each ending that an attempt has, the worst first.
    """

    rows: tuple[PageStep, ...]
    left_out: int
    failures: int
    retried: int
    key: tuple[tuple[str, str], ...]
    knows_queue: bool


def page_steps(facts: BuildFacts, axis: Axis | None, causes: Mapping[str, int]) -> PageSteps:
    """The steps of `facts` on `axis`; `causes` gives the number of a fingerprint's row."""
    shown = facts.build_steps[:_MOST_STEPS]
    ranks = _ranks(shown)
    drawer = _Drawer(facts, axis, causes)
    rows = [drawer.step(step, rank) for step, rank in zip(shown, ranks, strict=True)]
    return PageSteps(
        rows=tuple(rows),
        left_out=len(facts.build_steps) - len(rows),
        failures=sum(not row.is_fine for row in rows),
        retried=sum(row.is_retried for row in rows),
        key=_key(shown),
        knows_queue=facts.knows_queue,
    )


def _key(steps: Iterable[StepFacts]) -> tuple[tuple[str, str], ...]:
    words = (ending(attempt) for step in steps for attempt in step.attempts)
    heads = map(job_headline, ordered(words)[:_MOST_WORDS])
    return tuple((head.fill, head.word) for head in heads)


def _ranks(steps: Collection[StepFacts]) -> list[int]:
    """The place of each step by its begin; steps without a time come last."""
    begins = []
    for place, step in enumerate(steps):
        span = span_of(step.attempts[0]) if step.attempts else None
        begin = float("inf") if span is None else span.begin
        begins.append((begin, place))
    ranks = [0] * len(begins)
    for rank, (_, place) in enumerate(sorted(begins)):
        ranks[place] = rank
    return ranks


class _Drawer:
    """Draws steps with what is the same for all of them."""

    def __init__(self, facts: BuildFacts, axis: Axis | None, causes: Mapping[str, int]) -> None:
        self._axis = axis
        self._causes = causes
        self._titles = {cause.fingerprint: cause.title for cause in facts.causes}
        self._build_url = safe_address(facts.build_url)

    def step(self, step: StepFacts, rank: int) -> PageStep:
        attempts = tuple(self._attempts(step))
        return PageStep(
            name=step.name,
            rank=rank,
            is_fine=is_fine(step),
            is_retried=len(attempts) > 1,
            attempts=attempts,
        )

    def _attempts(self, step: StepFacts) -> Iterator[PageAttempt]:
        before: JobFacts | None = None
        for place, attempt in enumerate(step.attempts):
            is_last = place + 1 == len(step.attempts)
            bar = None
            if self._axis is not None:
                bar = attempt_bar(attempt, before, self._axis, is_last=is_last)
            yield self._attempt(attempt, bar)
            before = attempt

    def _attempt(self, attempt: JobFacts, bar: AttemptBar | None) -> PageAttempt:
        retry = None
        if attempt.retry is not None:
            retry = _RETRIES[attempt.retry]
        return PageAttempt(
            head=job_headline(ending(attempt)),
            began=self._began(attempt),
            began_at=attempt.began_at,
            took=_shown(wall_time(attempt)),
            queued=_shown(queue_time(attempt)),
            exit_status=attempt.exit_status,
            why=self._why(attempt),
            where=_where(attempt),
            cause=self._causes.get(attempt.cause or ""),
            retry=retry,
            retry_hid=attempt.retry is RetryWorth.HID_A_FAILURE,
            url=self._url(attempt),
            reports=attempt.reports,
            bar=bar,
        )

    def _began(self, attempt: JobFacts) -> str:
        span = span_of(attempt)
        if span is None or self._axis is None:
            return UNKNOWN
        if not self._axis.has(span):
            # Hours and years after the begin are no time of a job.
            return "another day"
        return f"+{duration(span.begin - self._axis.begin)}"

    def _why(self, attempt: JobFacts) -> str:
        """The cause in words; without one what the job said of itself. A pass needs neither."""
        if attempt.verdict == "pass":
            return ""
        return self._titles.get(attempt.cause or "") or attempt.summary

    def _url(self, attempt: JobFacts) -> str | None:
        address = safe_address(attempt.url)
        if address is not None:
            return address
        # The form of Buildkite's own links to a job of a build.
        if self._build_url and attempt.job and _JOB_ID.fullmatch(attempt.job):
            return f"{self._build_url}#{attempt.job}"
        return None


def _shown(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    return duration(seconds)


def _where(attempt: JobFacts) -> str:
    """`gpu-3 · h200 · 8 GPUs`, as far as it is known."""
    parts = []
    if attempt.agent:
        parts.append(attempt.agent)
    if attempt.queue:
        parts.append(f"queue {attempt.queue}")
    if attempt.gpus:
        parts.append(amount(attempt.gpus, "GPU"))
    return " · ".join(parts)
