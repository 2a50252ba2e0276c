# SPDX-License-Identifier: Apache-2.0
"""Pure. The report of a whole build -> Markdown for its annotation: at most a screen, then the page.

Its subset of CommonMark, GFM tables and HTML: https://buildkite.com/docs/agent/v3/cli-annotate
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.model.facts.build import (
    BuildFacts,
    CauseFacts,
    JobFacts,
    RetryWorth,
    StepFacts,
)
from ci_doctor.model.finding import Severity
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import SOFT_FAILED
from ci_doctor.render.build_words import (
    another_run,
    first_action,
    is_fine,
    remedies,
    step_ending,
)
from ci_doctor.render.formatting import amount, duration, listed
from ci_doctor.render.headline import headline, job_headline
from ci_doctor.render.links import links
from ci_doctor.render.markdown_tables import table_line
from ci_doctor.render.markup import fitted, is_plain_path
from ci_doctor.render.safe_text import cleaned

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
        *_gaps(report, facts),
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


def _gaps(report: Report, facts: BuildFacts) -> Iterator[str]:
    """What is missing or contradictory: a reader must not take the rest for the whole."""
    errors = [
        each
        for each in report.findings
        if each.severity is Severity.ERROR and each.rule != facts.cause_rule
    ]
    lines = [f"- ✗ {fitted(each.summary, _CELL_BYTES)}" for each in errors[:_GAPS]]
    if len(errors) > _GAPS:
        lines.append(f"- and {len(errors) - _GAPS} more on the page")
    if lines:
        yield "\n".join(lines)


def _to_do(facts: BuildFacts) -> Iterator[str]:
    """Where to begin, and what to do about each of the first causes."""
    if not facts.build_steps:
        return
    yield f"**First:** {fitted(first_action(facts), _LINE_BYTES)}"
    lines = [
        f"- {fitted(title, _CELL_BYTES)}: {fitted(remedy, _CELL_BYTES)}"
        for title, remedy in remedies(facts, _CAUSES)
    ]
    if lines:
        yield "\n".join(["**What to do**", "", *lines])


def _causes(facts: BuildFacts) -> Iterator[str]:
    if not facts.causes:
        return
    rows = [_cause(each, facts) for each in facts.causes[:_CAUSES]]
    yield _table(_CAUSE_HEADER, rows)
    if len(facts.causes) > _CAUSES:
        yield f"And {amount(len(facts.causes) - _CAUSES, 'more cause')} on the page."


def _cause(cause: CauseFacts, facts: BuildFacts) -> list[str]:
    return [
        fitted(cause.title, _CELL_BYTES),
        str(cause.jobs),
        _time(cause.seconds),
        _time(cause.gpu_seconds),
        another_run(cause),
        cause.owner.words,
        _jobs_of(cause, facts),
    ]


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
        names = [fitted(name, _NAME_BYTES) for name in soft]
        yield f"{amount(len(soft), 'step')} failed softly (`soft_fail`): {listed(names)}."
    if not red:
        return
    yield _table(_STEP_HEADER, [_step(each) for each in red[:_STEPS]])
    if len(red) > _STEPS:
        yield f"And {amount(len(red) - _STEPS, 'more step')} that did not pass."


def _step(step: StepFacts) -> list[str]:
    shown = job_headline(step_ending(step))
    last = step.attempts[-1]
    return [
        f"{shown.symbol} {fitted(shown.word, _CELL_BYTES)}",
        _job_link(step.name, last),
        str(len(step.attempts)),
        fitted(last.summary, _CELL_BYTES),
    ]


def _retries(facts: BuildFacts) -> Iterator[str]:
    """`3 retries: 1 helped, 2 in vain.`, and the steps in which one hid a failure."""
    worths: Counter[RetryWorth] = Counter()
    hidden = []
    for step in facts.build_steps:
        judged = [each.retry for each in step.attempts if each.retry is not None]
        worths.update(judged)
        if RetryWorth.HID_A_FAILURE in judged:
            hidden.append(step.name)
    if not worths:
        return
    counts = ", ".join(f"{worths[each]} {each}" for each in RetryWorth if worths[each])
    yield f"{_retry_count(worths.total())}: {counts}."
    if hidden:
        names = [fitted(name, _NAME_BYTES) for name in hidden]
        yield f"A retry hid a failure of {listed(names)}."


def _retry_count(count: int) -> str:
    return "1 retry" if count == 1 else f"{count} retries"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(table_line(list(row)) for row in (header, rule, *rows))
