# SPDX-License-Identifier: Apache-2.0
"""Pure. The first two lines of a step's annotation: its verdict; its name, time and links."""

from collections.abc import Iterator

from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.moment import parse_moment
from ci_doctor.render.attempts_line import job_address
from ci_doctor.render.formatting import duration
from ci_doctor.render.markup import code, fitted, is_plain_path
from ci_doctor.render.step_cause import leading_report
from ci_doctor.render.step_result import StepResult, is_judged
from ci_doctor.render.step_words import step_headline

_NAME_BYTES = 120


def step_heading(step: StepResult) -> str:
    """The verdict in words, and below it the step, its time and its links."""
    record = step.record
    headline = step_headline(record, is_judged=is_judged(step.reports))
    facts = list(_circumstances(step))
    line = f"**{headline.symbol} {headline.sentence}**"
    if not facts:
        return line
    return f"{line}\\\n{' · '.join(facts)}"


def _circumstances(step: StepResult) -> Iterator[str]:
    record = step.record
    yield from _names(record)
    seconds = _seconds(record)
    if seconds is not None:
        yield duration(seconds)
    if record.exit_status and record.exit_status != record.command_status:
        yield _statuses(record)
    yield from _links(step)


def _names(record: JobRecord) -> Iterator[str]:
    """The step, and which of its parallel jobs."""
    if record.label:
        # The emoji of a label are meant: the same label stands on the build's page with them.
        yield fitted(record.label, _NAME_BYTES).replace("<span>:</span>", ":")
    elif record.about.step:
        yield fitted(record.about.step, _NAME_BYTES, code)
    if record.about.parallel_index is not None and record.parallel_count:
        yield f"job {record.about.parallel_index + 1} of {record.parallel_count}"


def _links(step: StepResult) -> Iterator[str]:
    leading = leading_report(step.reports)
    if leading is not None and step.page is not None and is_plain_path(step.page):
        name = fitted(leading.command, _NAME_BYTES)
        yield f'<a href="artifact://{step.page}">report of {name}</a>'
    address = job_address(step.record.about, step.record.about.job)
    if address is not None:
        yield f'<a href="{address}">log</a>'


def _statuses(record: JobRecord) -> str:
    """The status of the job, beside that of its command if it was mapped."""
    if record.command_status:
        return f"the command ended with {record.command_status}, the job with {record.exit_status}"
    return f"the job ended with {record.exit_status}"


def _seconds(record: JobRecord) -> float | None:
    began = parse_moment(record.began_at)
    ended = parse_moment(record.ended_at)
    if began is None or ended is None:
        return None
    return max(0.0, ended - began)
