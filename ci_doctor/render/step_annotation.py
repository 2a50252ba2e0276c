# SPDX-License-Identifier: Apache-2.0
"""Pure. One job of a step -> Markdown for its annotation: at most a screen, details folded.

What Buildkite's annotations take: https://buildkite.com/docs/agent/cli/reference/annotate and
https://buildkite.com/docs/pipelines/configure/annotations
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.attempts_line import attempts_line
from ci_doctor.render.formatting import amount
from ci_doctor.render.markup import code, fenced, fitted
from ci_doctor.render.safe_text import cleaned
from ci_doctor.render.step_caches import caches_section, is_about_caches
from ci_doctor.render.step_cause import StepCause, leading_report, step_cause
from ci_doctor.render.step_details import report_line, step_details
from ci_doctor.render.step_heading import step_heading
from ci_doctor.render.step_result import StepResult, has_passed, is_judged
from ci_doctor.render.step_words import next_step, step_headline

_SENTENCE_BYTES = 400
_PLACE_BYTES = 200
_COMMAND_CHARACTERS = 1000
_COMMAND_LINES = 6
_REPORTS = 6  # lines of reports that are not folded


def step_style(step: StepResult) -> str:
    """`success`, `info`, `warning` or `error`, for `buildkite-agent annotate --style`."""
    return step_headline(step.record, is_judged=is_judged(step.reports)).tone.value


def is_worth_showing(step: StepResult) -> bool:
    """Whether there is anything to say on the build's page.

    A job without a report that passed, or that somebody stopped, says nothing new, unless an
    earlier attempt of it has said otherwise.
    """
    if step.reports or step.earlier:
        return True
    record = step.record
    if record.is_timed_out:
        return True
    return not record.is_cancelled and not has_passed(step)


def render(step: StepResult) -> str:
    """`step` as Markdown of less than 64 KiB, ending with a newline.

    At most three links, one of them to an artifact; no terminal blocks. Whatever stands in the
    record and the reports is shown as text.
    """
    step = replace(step, record=cleaned(step.record), reports=_cleaned(step.reports))
    blocks = _passed(step) if has_passed(step) else _ended(step)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _cleaned(reports: Sequence[Report]) -> tuple[Report, ...]:
    # Cleaning takes time, and most of a large report is not shown.
    shown = ("root_cause", "excerpt", "diagnosis")
    lean = []
    for report in reports:
        facts = {name: report.facts[name] for name in shown if name in report.facts}
        tables = report.tables if is_about_caches(report) else ()
        small = replace(report, facts=facts, tables=tables, cases=(), attempts=(), attachments=())
        lean.append(cleaned(small))
    return tuple(lean)


def _passed(step: StepResult) -> Iterator[str]:
    """One line for the verdict, one for the attempts before, and all reports folded."""
    reports = _beside_caches(step.reports)
    leading = leading_report(reports)
    line = step_heading(step)
    if leading is not None:
        line += f"\\\n{report_line(leading)}"
    yield line
    yield attempts_line(step.record, step.earlier, has_passed=True)
    yield caches_section(step.reports)
    if len(reports) > 1 or any(report.findings for report in reports):
        yield step_details(reports, None, with_reports=True)


def _ended(step: StepResult) -> Iterator[str]:
    """The verdict, the cause, the evidence, what to do, and what each report says."""
    reports = _beside_caches(step.reports)
    leading = leading_report(reports)
    ordered = [leading] if leading is not None else []
    ordered += [report for report in reports if report is not leading]
    cause = step_cause(step.record.cause, ordered)
    yield step_heading(step)
    yield attempts_line(step.record, step.earlier)
    yield from _cause(cause) if cause else _without_cause(step, leading)
    yield from _next(step, cause)
    yield _reproduce(step.record, leading)
    yield from _reports(reports)
    folded = len(reports) > _REPORTS
    yield step_details(tuple(ordered), cause, with_reports=folded)
    yield caches_section(step.reports)


def _beside_caches(reports: Sequence[Report]) -> tuple[Report, ...]:
    """Those that stand in no section of their own."""
    return tuple(report for report in reports if not is_about_caches(report))


def _cause(cause: StepCause) -> Iterator[str]:
    """The line, its place, and the lines around it."""
    named = cause.named
    line = f"**{cause.kind.value}:** {fitted(named.title, _SENTENCE_BYTES)}"
    if named.where:
        line += f", {fitted(named.where, _PLACE_BYTES, code)}"
    yield line
    if cause.excerpt:
        yield fenced(cause.excerpt)
    elif named.text and named.text != named.title:
        yield fenced(named.text[:_SENTENCE_BYTES])


def _without_cause(step: StepResult, leading: Report | None) -> Iterator[str]:
    """What the record or the leading report says."""
    if leading is not None and leading.error is not None:
        yield fitted(leading.error.message, _SENTENCE_BYTES)
        if leading.error.hint:
            yield f"**Try:** {fitted(leading.error.hint, _SENTENCE_BYTES)}"
        return
    if step.record.is_cancelled or step.record.is_timed_out:
        # The headline has said so.
        return
    if step.record.command_status and not is_judged(step.reports):
        # The headline has said how the command ended.
        yield "no report names a cause"
        return
    yield fitted(step.record.summary, _SENTENCE_BYTES)


def _next(step: StepResult, cause: StepCause | None) -> Iterator[str]:
    """What to do: the remedies of the cause, or else what the verdict asks for."""
    command = cause.named.next_command if cause else None
    sentences = [cause.named.remedy, cause.named.about_retry] if cause else []
    sentences = [each for each in sentences if each]
    if sentences:
        shown = " ".join(fitted(each, _SENTENCE_BYTES) for each in sentences)
        yield f"**Next:** {shown}"
    elif command is None:
        usual = None if step.record.is_cancelled else next_step(step.record.verdict)
        if usual is not None:
            yield f"**Next:** {fitted(usual, _SENTENCE_BYTES)}"
    if command and _is_short(command):
        yield f"**Try:**\n\n{fenced(command.strip(), 'sh')}"


def _reproduce(record: JobRecord, leading: Report | None) -> str:
    """The command that failed: of the report, or of the step if that report only reads its logs."""
    command = record.command
    judges = leading is not None and leading.verdict not in {None, Verdict.PASS}
    if leading is not None and judges and leading.reproduce:
        command = leading.reproduce
    # Never shortened: half a command is one that nobody may run.
    if command is None or not command.strip() or not _is_short(command):
        return ""
    return f"**Reproduce:**\n\n{fenced(command.strip(), 'sh')}"


def _is_short(command: str) -> bool:
    return len(command) <= _COMMAND_CHARACTERS and command.strip().count("\n") < _COMMAND_LINES


def _reports(reports: Sequence[Report]) -> Iterator[str]:
    shown = reports[:_REPORTS]
    if not shown:
        return
    lines = [f"- {report_line(report)}" for report in shown]
    missing = len(reports) - len(shown)
    if missing:
        lines.append(f"- {amount(missing, 'more report')}: see below")
    yield "\n".join(lines)
