# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of a build: what to do, what caused it, what it cost, and every attempt on a time axis."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.about import About
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.finding import Severity
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import ordered
from ci_doctor.render.build_annotation import (
    another_run,
    counted,
    ending,
    first_action,
    is_fine,
    remedies,
)
from ci_doctor.render.formatting import amount, duration
from ci_doctor.render.headline import Headline, job_headline, links, safe_address, worst_first
from ci_doctor.render.html.axis import (
    AttemptBar,
    Axis,
    attempt_bar,
    build_axis,
    known,
    percent,
    queue_time,
    span_of,
    wall_time,
)
from ci_doctor.render.html.templating import page, part, sheet
from ci_doctor.render.safe_text import cleaned

_Texts = tuple[str, ...]


def build_facts(facts: Mapping[str, Any]) -> BuildFacts | None:
    """`facts` as those of a build; None if no step can be read.

    Any other part of an unknown form is left out, so that it does not take the page away.
    """
    steps = part(facts, "build_steps", tuple[StepFacts, ...])
    if not steps:
        return None
    return BuildFacts(
        pipeline=part(facts, "pipeline", str),
        build=part(facts, "build", int),
        build_url=part(facts, "build_url", str),
        commit=part(facts, "commit", str),
        branch=part(facts, "branch", str),
        began_at=part(facts, "began_at", str),
        ended_at=part(facts, "ended_at", str),
        build_steps=steps,
        causes=part(facts, "causes", tuple[CauseFacts, ...]) or (),
        cause_rule=part(facts, "cause_rule", str) or "",
        missing=part(facts, "missing", _Texts) or (),
        duplicates=part(facts, "duplicates", _Texts) or (),
        knows_queue=part(facts, "knows_queue", bool) or False,
    )


_UNKNOWN = "unknown"
_MOST_CAUSES = 100
_MOST_NAMES = 200  # names of steps of one cause
_FEW_STEPS = 4  # shown unfolded
_MOST_AGENTS = 3
_HOUR = 3600


class PageCause(Struct, frozen=True, kw_only=True):
    """One row. `share` is its wall clock beside that of the dearest cause."""

    number: int
    about: CauseFacts
    first_steps: tuple[str, ...]
    more_steps: tuple[str, ...]
    steps_left_out: int
    agents: tuple[tuple[str, int], ...]
    agents_left_out: int
    took: str
    gpu_hours: str
    share: str
    another_run: str


class PageCauses(Struct, frozen=True, kw_only=True):
    """All rows, and the row's number for each fingerprint that has one."""

    rows: tuple[PageCause, ...]
    left_out: int
    numbers: Mapping[str, int]


def page_causes(facts: BuildFacts) -> PageCauses:
    """The causes of `facts`, in their order."""
    shown = facts.causes[:_MOST_CAUSES]
    agents = _agents(facts)
    most = max((known(cause.seconds) or 0.0 for cause in shown), default=0.0)
    rows = []
    for number, cause in enumerate(shown, start=1):
        share = (known(cause.seconds) or 0.0) / most if most > 0 else 0.0
        struck = agents.get(cause.fingerprint, Counter())
        rows.append(_cause_row(cause, number, share, struck))
    numbers = {row.about.fingerprint: row.number for row in rows}
    return PageCauses(rows=tuple(rows), left_out=len(facts.causes) - len(rows), numbers=numbers)


def _cause_row(cause: CauseFacts, number: int, share: float, agents: Counter[str]) -> PageCause:
    names = cause.steps[:_MOST_NAMES]
    return PageCause(
        number=number,
        about=cause,
        first_steps=names[:_FEW_STEPS],
        more_steps=names[_FEW_STEPS:],
        steps_left_out=len(cause.steps) - len(names),
        agents=tuple(agents.most_common(_MOST_AGENTS)),
        agents_left_out=max(len(agents) - _MOST_AGENTS, 0),
        took=_time_of_cause(cause.seconds),
        gpu_hours=hours(cause.gpu_seconds),
        share=percent(100 * share),
        another_run=another_run(cause),
    )


def _agents(facts: BuildFacts) -> dict[str, Counter[str]]:
    """For each cause the agents on which it ended an attempt, and how often."""
    agents: dict[str, Counter[str]] = {}
    for step in facts.build_steps:
        for attempt in step.attempts:
            if attempt.cause is not None and attempt.agent is not None:
                agents.setdefault(attempt.cause, Counter())[attempt.agent] += 1
    return agents


def _time_of_cause(seconds: float | None) -> str:
    length = known(seconds)
    return _UNKNOWN if length is None else duration(length)


def hours(gpu_seconds: float | None) -> str:
    """GPU seconds as hours with one digit: `12.4 h`."""
    length = known(gpu_seconds)
    if length is None:
        return _UNKNOWN
    if 0 < length < _HOUR / 20:
        return "< 0.1 h"
    return f"{length / _HOUR:,.1f} h"


_MOST_NAMES = 200
_MEANINGS = {
    RetryWorth.HID_A_FAILURE: "The next attempt passed, and nothing says that the cause lay outside the change: the step is flaky, or the change is.",
    RetryWorth.IN_VAIN: "The next attempt failed too.",
    RetryWorth.UNKNOWN: "The next attempt has no verdict.",
    RetryWorth.HELPED: "The cause lay outside the change, and the next attempt passed.",
}


class PageRetry(Struct, frozen=True, kw_only=True):
    """The retries of one worth; `took` is the wall clock of the attempts that were retried."""

    worth: str
    meaning: str
    count: int
    took: str
    steps: tuple[str, ...]
    steps_left_out: int


def page_retries(facts: BuildFacts) -> tuple[PageRetry, ...]:
    """The retries of `facts`, those that need a look first; no row for a worth that none had."""
    rows = []
    for worth in _MEANINGS:
        row = _retry_row(facts, worth)
        if row is not None:
            rows.append(row)
    return tuple(rows)


def _retry_row(facts: BuildFacts, worth: RetryWorth) -> PageRetry | None:
    names: dict[str, None] = {}
    times = []
    for step in facts.build_steps:
        for attempt in step.attempts:
            if attempt.retry is worth:
                names[step.name] = None
                times.append(wall_time(attempt))
    if not times:
        return None
    known = [seconds for seconds in times if seconds is not None]
    return PageRetry(
        worth=worth.value,
        meaning=_MEANINGS[worth],
        count=len(times),
        took=_took(known, len(times)),
        steps=tuple(names)[:_MOST_NAMES],
        steps_left_out=max(len(names) - _MOST_NAMES, 0),
    )


def _took(known: list[float], count: int) -> str:
    if not known:
        return "unknown"
    at_least = "at least " if len(known) < count else ""
    return at_least + duration(sum(known))


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


class VerdictShare(Struct, frozen=True, kw_only=True):
    """How many steps have one verdict, and their part of a strip, in percent."""

    head: Headline
    count: int
    x: str
    width: str
    end: str


def shares(facts: BuildFacts) -> tuple[VerdictShare, ...]:
    """The verdicts of `facts`, the worst first."""
    total = len(facts.build_steps)
    rows = []
    before = 0
    for verdict, count in counted(facts.build_steps):
        row = VerdictShare(
            head=job_headline(verdict),
            count=count,
            x=percent(100 * before / total),
            width=percent(100 * count / total),
            end=percent(100 * (before + count) / total),
        )
        rows.append(row)
        before += count
    return tuple(rows)


def figures(facts: BuildFacts, axis: Axis | None) -> tuple[tuple[str, str], ...]:
    """A name and a figure for each."""
    return tuple(_figures(facts, axis))


def _figures(facts: BuildFacts, axis: Axis | None) -> Iterator[tuple[str, str]]:
    attempts = sum(len(step.attempts) for step in facts.build_steps)
    yield _counted(len(facts.build_steps), "step")
    yield _counted(attempts, "attempt")
    if facts.missing:
        yield _counted(len(facts.missing), "missing report")
    yield "first start to last end", "unknown" if axis is None else duration(axis.took)
    failures = [cause for cause in facts.causes if not cause.cancelled]
    if failures:
        yield "lost to failures", _total([cause.seconds for cause in failures], duration)
        yield "GPU hours lost", _total([cause.gpu_seconds for cause in failures], hours)


def _counted(count: int, noun: str) -> tuple[str, str]:
    name = noun if count == 1 else f"{noun}s"
    return name, f"{count:,}"


def _total(parts: Sequence[float | None], form: Callable[[float], str]) -> str:
    """The sum of what is known; unknown if nothing is."""
    lengths = [length for part in parts if (length := known(part)) is not None]
    if not lengths:
        return "unknown"
    at_least = "≥ " if len(lengths) < len(parts) else ""
    return at_least + form(sum(lengths))


STEPS_FACT = "build_steps"
_MOST_REMEDIES = 6


def render(report: Report) -> str | None:
    """`report` as the page of its build; None if its facts are those of no build."""
    if STEPS_FACT not in report.facts:
        return None
    shown = cleaned(report)
    facts = build_facts(shown.facts)
    if facts is None:
        return None
    axis = build_axis(facts)
    causes = page_causes(facts)
    # Each cause is a row of the page.
    findings = [each for each in worst_first(shown) if each.rule != facts.cause_rule]
    values = {
        "subject": _subject(facts, shown),
        # Above everything else: beside them nothing is certain.
        "gaps": [each for each in findings if each.severity is Severity.ERROR],
        "findings": [each for each in findings if each.severity is not Severity.ERROR],
        "links": links(_about(facts, shown.about)),
        "first": first_action(facts),
        "remedies": remedies(facts, _MOST_REMEDIES),
        "facts": facts,
        "figures": figures(facts, axis),
        "shares": shares(facts),
        "causes": causes,
        "retries": page_retries(facts),
        "steps": page_steps(facts, axis, causes.numbers),
        "axis": axis,
    }
    grid = axis.grid if axis is not None else "100%"
    style = sheet("style.css.j2") + sheet("build.css.j2", grid=grid)
    script = sheet("build.js.j2")
    return page("build.html.j2", shown, style=style, script=script, values=values)


def _subject(facts: BuildFacts, report: Report) -> str:
    """`serving #812`; the command if no build is known."""
    if facts.build is None:
        return report.command
    pipeline = facts.pipeline or "build"
    return f"{pipeline} #{facts.build}"


def _about(facts: BuildFacts, about: About) -> About:
    """What the page is about: the build that was merged, which need not be the one that merged."""
    repository = about.repository
    if facts.commit is not None and facts.commit != about.commit:
        repository = None
    return replace(
        about,
        pipeline=facts.pipeline,
        build=facts.build,
        build_url=facts.build_url,
        commit=facts.commit,
        branch=facts.branch,
        repository=repository,
    )
