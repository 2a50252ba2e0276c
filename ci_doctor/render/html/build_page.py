# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of a build: what to do, what caused it, what it cost, and every attempt on a time axis."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.outcome import About, Report, Severity, Verdict, ordered
from ci_doctor.model.words import parse_moment
from ci_doctor.render.build_annotation import (
    another_run,
    counted,
    ending,
    first_action,
    is_fine,
    remedies,
)
from ci_doctor.render.formatting import (
    amount,
    cleaned,
    duration,
    job_headline,
    links,
    safe_address,
    worst_first,
)
from ci_doctor.render.html.templating import Shown, page, part, sheet

_UNKNOWN = "unknown"
_MOST_SECONDS = 1e11
_MINUTE = 60
_HOUR = 3600
_DAY = 86400


def build_facts(facts: Mapping[str, Any]) -> BuildFacts | None:
    """`facts` as those of a build; None if no step can be read.

    Any other part of an unknown form is left out, so that it does not take the page away.
    """
    parts = {
        name: each
        for name, kind in BuildFacts.__annotations__.items()
        if name in facts and (each := part(facts, name, kind)) is not None
    }
    known = BuildFacts(**parts)
    return known if known.build_steps else None


def _length(seconds: float | None, most: float = _MOST_SECONDS) -> float | None:
    """`seconds` if they are a length of time; None for less than 0, infinity and no number."""
    return seconds if seconds is not None and 0 <= seconds <= most else None


def percent(share: float) -> str:
    """`12.5%`: two digits, which is a tenth of a pixel on a wide screen."""
    number = f"{share:.2f}".rstrip("0").rstrip(".")
    return f"{number}%"


def _time(seconds: float | None) -> str:
    length = _length(seconds)
    return _UNKNOWN if length is None else duration(length)


def hours(gpu_seconds: float | None) -> str:
    """GPU seconds as hours with one digit: `12.4 h`."""
    length = _length(gpu_seconds)
    if length is None:
        return _UNKNOWN
    if 0 < length < _HOUR / 20:
        return "< 0.1 h"
    return f"{length / _HOUR:,.1f} h"


# --- the time axis: from the first moment of a build to its last, in percent of the picture ---

_MOST_TICKS = 8
# Round distances between ticks, in seconds, and how the offsets beside them are written.
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY),
)
_UNITS = (
    (_DAY, "d", "%m-%d"),
    (_HOUR, "h", "%H:%M"),
    (_MINUTE, "min", "%H:%M"),
    (1, "s", "%H:%M:%S"),
)
_LAST_LABEL = 94  # percent: a label that begins later would leave the picture
_LONGEST_QUEUE = 30 * _DAY  # more is no time in a queue, and would leave no room for the jobs
_LAST_INSTANT = 2e11  # what is later is no time of a job, and may have no date
_LEAST_WIDTH = 0.25  # percent: a shorter bar could not be seen


class JobSpan(Struct, frozen=True):
    """When a job ran, in seconds since 1970; `queued` is when it became runnable.

    `end` is `begin` if no end is known.
    """

    queued: float
    begin: float
    end: float


class Axis(Struct, frozen=True):
    """The axis from `begin`, in seconds since 1970, for `seconds`.

    `grid` is the distance of the ticks, in percent. `took` is the build's own length, which may be 0.
    """

    begin: float
    seconds: float
    took: float
    ticks: tuple[Shown, ...]
    grid: str

    def place(self, instant: float) -> str:
        """Where `instant` stands, in percent."""
        return percent(100 * (instant - self.begin) / self.seconds)


def instant(text: str | None) -> float | None:
    """RFC 3339 -> seconds since 1970; None for anything else."""
    return _length(parse_moment(text), _LAST_INSTANT)


def span_of(attempt: JobFacts) -> JobSpan | None:
    """When `attempt` ran; None if its begin is unknown."""
    begin = instant(attempt.began_at)
    if begin is None:
        return None
    end = instant(attempt.ended_at)
    queued = _length(attempt.queued_s, _LONGEST_QUEUE) or 0.0
    # Clocks of two machines may differ, and a job has no negative length.
    return JobSpan(begin - queued, begin, begin if end is None else max(end, begin))


def wall_time(attempt: JobFacts) -> float | None:
    """Seconds from begin to end; None if one of them is unknown."""
    span = span_of(attempt)
    if span is None or instant(attempt.ended_at) is None:
        return None
    return span.end - span.begin


def build_axis(facts: BuildFacts) -> Axis | None:
    """The axis on which the known times of a build have their place; None if no time is known."""
    known = [span_of(attempt) for step in facts.build_steps for attempt in step.attempts]
    spans = [span for span in known if span is not None]
    if not spans:
        return None
    begin = min(span.queued for span in spans)
    took = max(span.end for span in spans) - begin
    # A build of no length would be a divisor of 0.
    seconds = max(took, 1.0)
    step = next((each for each in _STEPS if seconds / each <= _MOST_TICKS), None)
    if step is None:
        step = _DAY * math.ceil(seconds / _DAY / _MOST_TICKS)
    ticks = tuple(_ticks(begin, seconds, step))
    return Axis(begin, seconds, took, ticks, percent(100 * step / seconds))


def _ticks(begin: float, seconds: float, step: float) -> Iterator[Shown]:
    """A moment at a place in percent: the time of day in UTC (or the day), and the time since the begin."""
    size, unit, form = next(each for each in _UNITS if step >= each[0])
    for number in range(int(seconds / step) + 1):
        offset = number * step
        place = 100 * offset / seconds
        if place > _LAST_LABEL:
            return
        clock = datetime.fromtimestamp(begin + offset, UTC).strftime(form)
        yield {"at": percent(place), "clock": clock, "offset": f"+{offset / size:.0f} {unit}"}


def attempt_bar(
    attempt: JobFacts, before: JobFacts | None, axis: Axis, *, is_last: bool
) -> Shown | None:
    """`attempt`, which followed `before`, on `axis`, in percent; None if it has no place there.

    queue: where its time in the queue begins and ends. since: the end of the attempt before it; until: its
    own end if another attempt follows.
    """
    span = span_of(attempt)
    if span is None:
        return None
    begin = 100 * (span.begin - axis.begin) / axis.seconds
    width = max(100 * (span.end - span.begin) / axis.seconds, _LEAST_WIDTH)
    # What begins at the last moment of the build has a bar, too.
    x = min(begin, 100 - width)
    earlier = None if before is None else span_of(before)
    is_queued = span.queued < span.begin
    return {
        "x": percent(x),
        "width": percent(width),
        "end": percent(x + width),
        "queue": (axis.place(span.queued), axis.place(span.begin)) if is_queued else None,
        "since": None if earlier is None else axis.place(earlier.end),
        "until": None if is_last else axis.place(span.end),
    }


# --- causes and steps ---

_MOST_CAUSES = 100
_MOST_NAMES = 200  # names of steps of one cause
_FEW_STEPS = 4  # shown unfolded
_MOST_AGENTS = 3
_MOST_WORDS = 14  # of endings, of which we have twelve
_MOST_STEPS = 2000  # a browser is quick with these; all are in report.json
_JOB_ID = re.compile(r"[A-Za-z0-9-]+")
_RETRIES = {
    RetryWorth.HELPED: "retry helped",
    RetryWorth.IN_VAIN: "retry in vain",
    RetryWorth.HID_A_FAILURE: "retry hid a failure",
    RetryWorth.UNKNOWN: "retry without a verdict",
}


def page_causes(facts: BuildFacts) -> list[Shown]:
    """A row for each of the first causes; `share` is its wall clock beside that of the dearest one."""
    shown = facts.causes[:_MOST_CAUSES]
    most = max((_length(cause.seconds) or 0.0 for cause in shown), default=0.0)
    agents: dict[str, Counter[str]] = {}
    for step in facts.build_steps:
        for attempt in step.attempts:
            if attempt.cause is not None and attempt.agent is not None:
                agents.setdefault(attempt.cause, Counter())[attempt.agent] += 1
    return [
        _cause_row(cause, number, most, agents.get(cause.fingerprint, Counter()))
        for number, cause in enumerate(shown, start=1)
    ]


def _cause_row(cause: CauseFacts, number: int, most: float, agents: Counter[str]) -> Shown:
    names = cause.steps[:_MOST_NAMES]
    return {
        "number": number,
        "about": cause,
        "first_steps": names[:_FEW_STEPS],
        "more_steps": names[_FEW_STEPS:],
        "steps_left_out": len(cause.steps) - len(names),
        "agents": agents.most_common(_MOST_AGENTS),
        "agents_left_out": max(len(agents) - _MOST_AGENTS, 0),
        "took": _time(cause.seconds),
        "gpu_hours": hours(cause.gpu_seconds),
        "share": percent(100 * (_length(cause.seconds) or 0.0) / most if most > 0 else 0.0),
        "another_run": another_run(cause),
    }


def page_steps(facts: BuildFacts, axis: Axis | None, causes: Mapping[str, int]) -> Shown:
    """The steps of `facts` on `axis`, in their order; `causes` gives the number of a fingerprint's row.

    key: the fill and the word of each ending that an attempt has, the worst first.
    """
    shown = facts.build_steps[:_MOST_STEPS]
    words = (ending(attempt) for step in shown for attempt in step.attempts)
    heads = [job_headline(word) for word in ordered(words)[:_MOST_WORDS]]
    titles = {cause.fingerprint: cause.title for cause in facts.causes}
    build_url = safe_address(facts.build_url)
    rows = []
    for step, rank in zip(shown, _ranks(shown), strict=True):
        attempts = []
        for place, attempt in enumerate(step.attempts):
            about = {
                "cause": causes.get(attempt.cause or ""),
                "why": _why(attempt, titles),
                "url": _url(attempt, build_url),
            }
            attempts.append({**_attempt(step.attempts, place, axis), **about})
        row = {"name": step.name, "rank": rank, "is_fine": is_fine(step), "attempts": attempts}
        rows.append(row)
    return {
        "rows": rows,
        "left_out": len(facts.build_steps) - len(rows),
        "failures": sum(not is_fine(step) for step in shown),
        "retried": sum(len(step.attempts) > 1 for step in shown),
        "key": [(head.fill, head.word) for head in heads],
        "knows_queue": facts.knows_queue,
    }


def _ranks(steps: Sequence[StepFacts]) -> list[int]:
    """The place of each step by its begin; steps without a time come last."""
    spans = [span_of(step.attempts[0]) if step.attempts else None for step in steps]
    begins = [math.inf if span is None else span.begin for span in spans]
    order = sorted(range(len(begins)), key=begins.__getitem__)
    ranks = {place: rank for rank, place in enumerate(order)}
    return [ranks[place] for place in range(len(begins))]


def _attempt(attempts: Sequence[JobFacts], place: int, axis: Axis | None) -> Shown:
    """One attempt in words, and its bar."""
    attempt = attempts[place]
    span = span_of(attempt)
    began, bar = _UNKNOWN, None
    if axis is not None and span is not None:
        began = f"+{duration(span.begin - axis.begin)}"
        before = attempts[place - 1] if place else None
        bar = attempt_bar(attempt, before, axis, is_last=place + 1 == len(attempts))
    where = [
        attempt.agent,
        f"queue {attempt.queue}" if attempt.queue else None,
        amount(attempt.gpus, "GPU") if attempt.gpus else None,
    ]
    return {
        "head": job_headline(ending(attempt)),
        "began": began,
        "began_at": attempt.began_at,
        "took": _time(wall_time(attempt)),
        "queued": _time(_length(attempt.queued_s, _LONGEST_QUEUE)),
        "exit_status": attempt.exit_status,
        "where": " · ".join(filter(None, where)),
        "retry": None if attempt.retry is None else _RETRIES[attempt.retry],
        "retry_hid": attempt.retry is RetryWorth.HID_A_FAILURE,
        "reports": attempt.reports,
        "bar": bar,
    }


def _why(attempt: JobFacts, titles: Mapping[str, str]) -> str:
    """The cause in words; without one what the job said of itself. A pass needs neither."""
    if attempt.verdict == Verdict.PASS:
        return ""
    return titles.get(attempt.cause or "") or attempt.summary


def _url(attempt: JobFacts, build_url: str | None) -> str | None:
    address = safe_address(attempt.url)
    # The form of Buildkite's own links to a job of a build.
    if address is None and build_url and attempt.job and _JOB_ID.fullmatch(attempt.job):
        return f"{build_url}#{attempt.job}"
    return address


# --- the whole ---


def shares(facts: BuildFacts) -> list[Shown]:
    """How many steps have each verdict, the worst first, and their part of a strip, in percent."""
    total = len(facts.build_steps)
    rows: list[Shown] = []
    before = 0
    for verdict, count in counted(facts.build_steps):
        x, width, end = (percent(100 * each / total) for each in (before, count, before + count))
        head = job_headline(verdict)
        rows.append({"head": head, "number": count, "x": x, "width": width, "end": end})
        before += count
    return rows


def figures(facts: BuildFacts, axis: Axis | None) -> Iterator[tuple[str, str]]:
    """A name and a figure for each."""
    attempts = sum(len(step.attempts) for step in facts.build_steps)
    counts = {"step": len(facts.build_steps), "attempt": attempts}
    if facts.missing:
        counts["missing report"] = len(facts.missing)
    for noun, count in counts.items():
        yield noun if count == 1 else f"{noun}s", f"{count:,}"
    yield "first start to last end", _UNKNOWN if axis is None else duration(axis.took)
    failures = [cause for cause in facts.causes if not cause.cancelled]
    if failures:
        yield "lost to failures", _total([cause.seconds for cause in failures], duration)
        yield "GPU hours lost", _total([cause.gpu_seconds for cause in failures], hours)


def _total(parts: Sequence[float | None], form: Callable[[float], str]) -> str:
    """The sum of what is known; unknown if nothing is."""
    lengths = [length for part in parts if (length := _length(part)) is not None]
    if not lengths:
        return _UNKNOWN
    return ("≥ " if len(lengths) < len(parts) else "") + form(sum(lengths))


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
    numbers = {row["about"].fingerprint: row["number"] for row in causes}
    # Each cause is a row of the page.
    findings = [each for each in worst_first(shown) if each.rule != facts.cause_rule]
    subject = shown.command
    if facts.build is not None:
        subject = f"{facts.pipeline or 'build'} #{facts.build}"
    values = {
        "subject": subject,
        # Above everything else: beside them nothing is certain.
        "gaps": [each for each in findings if each.severity is Severity.ERROR],
        "findings": [each for each in findings if each.severity is not Severity.ERROR],
        "links": links(_about(facts, shown.about)),
        "first": first_action(facts),
        "remedies": remedies(facts, _MOST_REMEDIES),
        "facts": facts,
        "figures": list(figures(facts, axis)),
        "shares": shares(facts),
        "causes": causes,
        "causes_left_out": len(facts.causes) - len(causes),
        "steps": page_steps(facts, axis, numbers),
        "axis": axis,
    }
    grid = axis.grid if axis is not None else "100%"
    style = sheet("style.css.j2") + sheet("build.css.j2", grid=grid)
    return page("build.html.j2", shown, style=style, script=sheet("build.js.j2"), values=values)


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
