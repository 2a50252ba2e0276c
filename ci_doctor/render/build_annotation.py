# SPDX-License-Identifier: Apache-2.0
"""Pure. The report of a whole build -> Markdown for its annotation: at most a screen, then the page.

Its subset of CommonMark, GFM tables and HTML: https://buildkite.com/docs/agent/v3/cli-annotate
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.outcome import (
    CANCELLED,
    MISSING,
    SOFT_FAILED,
    Report,
    Severity,
    Verdict,
    is_green,
    ordered,
    rank,
)
from ci_doctor.render.formatting import (
    amount,
    cleaned,
    duration,
    headline,
    job_headline,
    links,
    listed,
    short_line,
)
from ci_doctor.render.markdown import bullets, fitted, is_plain_path, table_line

_MOST_OF_A_NAME = 100


def ending(job: JobFacts, verdict: str | None = None) -> str:
    """How `job` ended: its verdict, or that of its step; `cancelled` or `soft-failed` before one."""
    word = verdict or job.verdict
    if is_green(word):
        return word
    if job.cancelled:
        return CANCELLED
    return SOFT_FAILED if job.soft_failed else word


def step_ending(step: StepFacts) -> str:
    """How the last attempt of `step` ended."""
    return ending(step.attempts[-1], step.verdict) if step.attempts else step.verdict


def is_fine(step: StepFacts) -> bool:
    """True for a step that lets the build pass."""
    word = step_ending(step)
    return is_green(word) or word == SOFT_FAILED


def counted(steps: Iterable[StepFacts]) -> tuple[tuple[str, int], ...]:
    """Each ending of `steps`, the worst first, and how many steps have it."""
    counts = Counter(map(step_ending, steps))
    return tuple((word, counts[word]) for word in ordered(counts))


def another_run(cause: CauseFacts) -> str:
    """Whether another run helps against `cause`: `may help`, `does not help` or `unknown`."""
    if cause.may_be_retried:
        return "may help"
    if cause.class_ is None and cause.text is None:
        # A group of failures of which no cause is known says nothing about the next run.
        return "unknown"
    return "does not help"


def first_action(facts: BuildFacts) -> str:
    """What a reader of the build does first, in one or two sentences.

    A failure that another run does not help comes before a missing report, and that before failures
    that another run helps. In a build without any of them, a retry that hid a failure comes first,
    and then jobs that somebody cancelled: they are no cause of anything.
    """
    failed = [step for step in facts.build_steps if not is_fine(step)]
    judged = [step for step in failed if step_ending(step) not in {MISSING, CANCELLED}]
    lasting = _first(facts.causes, judged, may_be_retried=False)
    if lasting is not None:
        is_unknown = another_run(lasting) == "unknown"
        advice = "Read the log of one of them." if is_unknown else "Another run does not help."
        return f"Start with {_cost(lasting)}. {advice}"
    for step in judged:
        if not step.attempts or step.attempts[-1].cause is None:
            name = _name(step.name)
            return (
                f"Start with the log of {name}: it ended as {step.verdict}, and no cause is known."
            )
    cancelled = [step.name for step in failed if step_ending(step) == CANCELLED]
    missing = [name for name in facts.missing if name not in cancelled]
    if missing:
        reports = amount(len(missing), "report")
        return f"Find out why {reports} did not arrive, of {_listed(missing)}: nothing is known about them."
    passing = _first(facts.causes, judged, may_be_retried=True)
    if passing is not None:
        steps = amount(len(judged), "failed step")
        return f"Run the {steps} again: {_cost(passing)}, outside the change."
    return _among_passes(facts, cancelled)


def _among_passes(facts: BuildFacts, cancelled: Sequence[str]) -> str:
    hidden = [
        step.name
        for step in facts.build_steps
        if any(attempt.retry is RetryWorth.HID_A_FAILURE for attempt in step.attempts)
    ]
    if hidden:
        return f"Look at {_listed(hidden)}: the retry passed, and nothing says that the failure lay outside the change."
    if facts.duplicates:
        return f"Look at {_listed(facts.duplicates)}: two reports claim the same attempt."
    if cancelled:
        return f"Only cancelled jobs are left, of {_listed(cancelled)}. Run them again if their results count."
    soft = [step.name for step in facts.build_steps if step_ending(step) == SOFT_FAILED]
    if soft:
        return f"Nothing stops the build. Look at {_listed(soft)}, which may fail (`soft_fail`)."
    if all(map(is_fine, facts.build_steps)) and facts.build_steps:
        return "Nothing is left to do."
    return "Look at the steps below: they did not pass."


def _first(
    causes: Iterable[CauseFacts], steps: Sequence[StepFacts], *, may_be_retried: bool
) -> CauseFacts | None:
    """The cause of that kind which ended the last attempt of the worst of `steps`.

    A regression is proven, whatever its cause says of another run.
    """
    worst: dict[str, int] = {}
    for step in steps:
        cause = step.attempts[-1].cause if step.attempts else None
        if cause is not None:
            worst[cause] = min(worst.get(cause, rank(step.verdict)), rank(step.verdict))
    regression = rank(Verdict.REGRESSION)
    of_the_kind = [
        each
        for each in causes
        if each.fingerprint in worst
        and not each.cancelled
        and (each.may_be_retried and worst[each.fingerprint] != regression) is may_be_retried
    ]
    return min(of_the_kind, key=lambda each: worst[each.fingerprint], default=None)


def _cost(cause: CauseFacts) -> str:
    attempts = amount(cause.jobs, "attempt")
    steps = amount(len(cause.steps), "step")
    title = _name(cause.title)
    return f"“{title}”, which ended {attempts} of {steps}"


def remedies(facts: BuildFacts, most: int) -> list[tuple[str, str]]:
    """Titles of the first causes and what to do about each; not of jobs that were cancelled."""
    known = [(each.title, each.advice) for each in facts.causes if not each.cancelled]
    return [(title, remedy) for title, remedy in known if remedy][:most]


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    shown = [_name(name) for name in names]
    if len(shown) == 2:
        return " and ".join(shown)
    return listed(shown, most=2)


def _name(text: str) -> str:
    return short_line(text, _MOST_OF_A_NAME)


_CAUSES = 6
_STEPS = 8
_GAPS = 5
_CELL_BYTES = 300
_NAME_BYTES = 80  # a longer one leaves no room for the other columns
_LINE_BYTES = 1000
_JOB = re.compile(r"[0-9A-Za-z-]{1,64}")
_CAUSE_HEADER = ("cause", "jobs", "time lost", "GPU time", "another run", "who acts", "in")
_STEP_HEADER = ("", "step", "attempts", "why")


def render(report: Report, *, page: str | None = None) -> str:
    """The annotation of the build that `report` is about; `page` is the artifact with its page.

    Findings about causes are left out: the tables say the same. Raises ValueError if the report is of another command.
    """
    report = cleaned(report)
    facts = _facts(report)
    blocks = [
        _head(report),
        _places(report, facts, page),
        _gaps(report, facts),
        *_to_do(facts),
        *_causes(facts),
        *_red_steps(facts),
        *_retries(facts),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _facts(report: Report) -> BuildFacts:
    try:
        return msgspec.convert(report.facts, decodable(BuildFacts))
    except msgspec.ValidationError as error:
        raise ValueError(f"not the report of a build: {error}") from error


def _head(report: Report) -> str:
    shown = headline(report)
    sentence = report.error.message if report.error is not None else report.summary
    text = fitted(sentence, _LINE_BYTES)
    return text if shown is None else f"**{shown.symbol} {shown.word}** · {text}"


def _places(report: Report, facts: BuildFacts, page: str | None) -> str:
    """A link to the page, what was counted, and the commit."""
    parts = []
    if page is not None and is_plain_path(page):
        parts.append(f'<a href="artifact://{page}">All steps on one page</a>')
    jobs = sum(len(step.attempts) for step in facts.build_steps)
    parts += [amount(len(facts.build_steps), "step"), amount(jobs, "job")]
    for each in links(report.about):
        if each.name == "commit":
            text = fitted(each.text, _CELL_BYTES)
            parts.append(f'<a href="{each.address}">{text}</a>' if each.address else text)
    return " · ".join(parts)


def _gaps(report: Report, facts: BuildFacts) -> str:
    """What is missing or contradictory: a reader must not take the rest for the whole."""
    errors = [each for each in report.findings if each.severity is Severity.ERROR]
    lines = [
        f"✗ {fitted(each.summary, _CELL_BYTES)}" for each in errors if each.rule != facts.cause_rule
    ]
    return "\n".join(bullets(lines, _GAPS, "more finding", "on the page"))


def _to_do(facts: BuildFacts) -> Iterator[str]:
    """Where to begin, and what to do about each of the first causes."""
    if not facts.build_steps:
        return
    yield f"**First:** {fitted(first_action(facts), _LINE_BYTES)}"
    lines = [
        f"{fitted(title, _CELL_BYTES)}: {fitted(remedy, _CELL_BYTES)}"
        for title, remedy in remedies(facts, _CAUSES)
    ]
    if lines:
        yield "\n".join(["**What to do**", "", *bullets(lines)])


def _causes(facts: BuildFacts) -> Iterator[str]:
    rows = [
        [
            fitted(cause.title, _CELL_BYTES),
            str(cause.jobs),
            _time(cause.seconds),
            _time(cause.gpu_seconds),
            another_run(cause),
            cause.owner.words,
            _jobs_of(cause, facts),
        ]
        for cause in facts.causes[:_CAUSES]
    ]
    if rows:
        yield _table(_CAUSE_HEADER, rows)
    if len(facts.causes) > _CAUSES:
        yield f"And {amount(len(facts.causes) - _CAUSES, 'more cause')} on the page."


def _time(seconds: float | None) -> str:
    return "unknown" if seconds is None else duration(seconds)


def _jobs_of(cause: CauseFacts, facts: BuildFacts) -> str:
    """The steps in which the cause ended an attempt, each a link to the last such job: `e2e (3 attempts)`."""
    shown = []
    for step in facts.build_steps:
        jobs = [each for each in step.attempts if each.cause == cause.fingerprint]
        if jobs:
            times = f" ({len(jobs)} attempts)" if len(jobs) > 1 else ""
            shown.append(_job_link(step.name, jobs[-1]) + times)
    return listed(shown)


def _job_link(text: str, job: JobFacts) -> str:
    """A link on the build's page itself, as the junit-annotate plugin makes them."""
    escaped = fitted(text, _NAME_BYTES)
    if job.job is None or _JOB.fullmatch(job.job) is None:
        return escaped
    return f'<a href="#{job.job}">{escaped}</a>'


def _red_steps(facts: BuildFacts) -> Iterator[str]:
    """The steps that did not pass, which stand first in the facts."""
    red = [step for step in facts.build_steps if not is_fine(step)]
    soft = [step.name for step in facts.build_steps if step_ending(step) == SOFT_FAILED]
    if soft:
        yield f"{amount(len(soft), 'step')} failed softly (`soft_fail`): {_names(soft)}."
    rows = []
    for step in red[:_STEPS]:
        shown = job_headline(step_ending(step))
        last = step.attempts[-1]
        rows.append(
            [
                f"{shown.symbol} {fitted(shown.word, _CELL_BYTES)}",
                _job_link(step.name, last),
                str(len(step.attempts)),
                fitted(last.summary, _CELL_BYTES),
            ]
        )
    if rows:
        yield _table(_STEP_HEADER, rows)
    if len(red) > _STEPS:
        yield f"And {amount(len(red) - _STEPS, 'more step')} that did not pass."


def _names(names: Sequence[str]) -> str:
    return listed([fitted(name, _NAME_BYTES) for name in names])


def _retries(facts: BuildFacts) -> Iterator[str]:
    """`3 retries: 1 helped, 2 in vain.`, and the steps in which one hid a failure."""
    retried = [
        (step.name, each.retry)
        for step in facts.build_steps
        for each in step.attempts
        if each.retry is not None
    ]
    if not retried:
        return
    worths = Counter(worth for _, worth in retried)
    counts = ", ".join(f"{worths[each]} {each}" for each in RetryWorth if worths[each])
    yield f"{len(retried)} {'retry' if len(retried) == 1 else 'retries'}: {counts}."
    hidden = dict.fromkeys(name for name, worth in retried if worth is RetryWorth.HID_A_FAILURE)
    if hidden:
        yield f"A retry hid a failure of {_names(list(hidden))}."


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(table_line(list(row)) for row in (header, rule, *rows))
