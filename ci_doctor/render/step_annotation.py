# SPDX-License-Identifier: Apache-2.0
"""Pure. One job of a step -> Markdown for its annotation: at most a screen, details folded.

What Buildkite's annotations take: https://buildkite.com/docs/agent/cli/reference/annotate and
https://buildkite.com/docs/pipelines/configure/annotations
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ci_doctor.model.finding import Finding
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.outcome import Report
from ci_doctor.model.quantities import parse_moment
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount, duration
from ci_doctor.render.headline import headline, symbol, worst_first
from ci_doctor.render.markup import code, fenced, fitted, is_plain_path, table_texts
from ci_doctor.render.safe_text import cleaned
from ci_doctor.render.step_words import (
    StepCause,
    StepResult,
    attempts_line,
    has_passed,
    is_judged,
    job_address,
    leading_report,
    next_step,
    step_cause,
    step_headline,
)

COMMAND = "cache"
_CACHE_LINE_BYTES = 400
_REPORT_NAME_BYTES = 100
_SECTION_BYTES = 8000
_MOST_CACHE_REPORTS = 6
_MOST_CAUSES = 3


def is_about_caches(report: Report) -> bool:
    """Whether `report` belongs to the section: one of `ci-doctor cache` that judges nothing."""
    return report.command == COMMAND and report.verdict is None and report.error is None


def caches_section(reports: Sequence[Report]) -> str:
    """The section of all that were moved or judged; empty without a report about caches."""
    about = [report for report in reports if is_about_caches(report)]
    if not about:
        return ""
    said = "; ".join(
        fitted(report.summary, _CACHE_LINE_BYTES) for report in about[:_MOST_CACHE_REPORTS]
    )
    line = f"**Caches:** {said}"
    inside = "".join(_fitting(_lines(about))).strip("\n")
    if not inside:
        return line
    # Without an empty line before it, Markdown inside HTML is not read as Markdown.
    return f"{line}\n\n<details>\n<summary>Details</summary>\n\n{inside}\n\n</details>"


def _lines(reports: Sequence[Report]) -> Iterator[str]:
    """Tables first, then the findings of all."""
    for report in reports:
        for table in report.tables:
            for text, _ in table_texts(table):
                yield f"{text}\n"
    yield "\n"
    for report in reports:
        for finding in worst_first(report):
            rule = fitted(finding.rule, _REPORT_NAME_BYTES, code)
            yield f"- {symbol(finding.severity)} {fitted(finding.summary, _CACHE_LINE_BYTES)} {rule}\n"
            for evidence in finding.evidence[:_MOST_CAUSES]:
                yield f"  - {fitted(evidence.excerpt or '', _CACHE_LINE_BYTES)}\n"


def _fitting(lines: Iterator[str]) -> Iterator[str]:
    """As many as there is room for."""
    room = _SECTION_BYTES
    for line in lines:
        room -= len(line.encode())
        if room < 0:
            yield "\n- more: see the report\n"
            return
        yield line


_LINE_BYTES = 240
_REPORT_NAME_BYTES = 100
_MOST_FINDINGS = 12
_MOST_FOLLOWED = 6
_MOST_REPORTS = 20


def report_line(report: Report) -> str:
    """A report in a line: its mark, its command, what it says, how long it took."""
    head = headline(report)
    mark = head.symbol if head else "·"
    name = fitted(report.command, _REPORT_NAME_BYTES, code)
    summary = fitted(report.summary, _LINE_BYTES)
    return f"{mark} {name} {summary} ({duration(report.duration_s)})"


def step_details(reports: Sequence[Report], cause: StepCause | None, *, with_reports: bool) -> str:
    """A folded block: what followed from the cause, all findings, and all reports; or empty.

    `cause` is shown above it already, so a finding that says the same is left out.
    """
    lines: list[str] = []
    counts: list[str] = []
    followed = list(_followed(cause))
    if followed:
        counts.append(amount(len(followed), "consequence"))
        lines += ["What followed from the cause:", "", *followed, ""]
    findings = [each for each in _findings(reports) if not _says(cause, each)]
    if findings:
        counts.append(amount(len(findings), "finding"))
        lines += [*_finding_lines(findings), ""]
    if with_reports:
        counts.append(amount(len(reports), "report"))
        lines += [*_report_lines(reports), ""]
    if cause is not None and cause.named.fingerprint:
        lines += [
            f"Fingerprint of the cause: {fitted(cause.named.fingerprint, _REPORT_NAME_BYTES, code)}",
            "",
        ]
    if not lines:
        return ""
    # Without an empty line before it, Markdown inside HTML is not read as Markdown.
    title = ", ".join(counts) or "Details"
    inside = "\n".join(lines)
    return f"<details>\n<summary>{title}</summary>\n\n{inside}\n</details>"


def _followed(cause: StepCause | None) -> Iterator[str]:
    if cause is None:
        return
    for line in cause.named.consequences[:_MOST_FOLLOWED]:
        where = fitted(line.where, _REPORT_NAME_BYTES * 2, code)
        yield f"- {where} {fitted(line.message, _LINE_BYTES, code)}"


def _says(cause: StepCause | None, finding: Finding) -> bool:
    """Whether the cause above is what `finding` says."""
    if cause is None:
        return False
    # The finding of a diagnosis holds both.
    return finding.summary in {cause.named.title, cause.named.phrase}


def _findings(reports: Sequence[Report]) -> Iterator[Finding]:
    for report in reports:
        yield from worst_first(report)


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings[:_MOST_FINDINGS]:
        rule = fitted(finding.rule, _REPORT_NAME_BYTES, code)
        yield f"- {symbol(finding.severity)} {fitted(finding.summary, _LINE_BYTES)} {rule}"
    missing = len(findings) - _MOST_FINDINGS
    if missing > 0:
        yield f"- {amount(missing, 'more finding')}: see the full report"


def _report_lines(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports[:_MOST_REPORTS]:
        yield f"- {report_line(report)}"
    missing = len(reports) - _MOST_REPORTS
    if missing > 0:
        yield f"- {amount(missing, 'more report')}: see the artifacts"


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
