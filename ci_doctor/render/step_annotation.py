# SPDX-License-Identifier: Apache-2.0
"""Pure. One job of a step -> Markdown for its annotation: at most a screen, details folded.

What Buildkite's annotations take: https://buildkite.com/docs/agent/cli/reference/annotate and
https://buildkite.com/docs/pipelines/configure/annotations
"""

import html
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.model.cause import Cause, LogLine, cause_of_finding, diagnosed_cause
from ci_doctor.model.facts.build import EarlierAttempt, JobRecord
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.model.outcome import (
    CANCELLED,
    NO_VERDICT,
    VERDICTS,
    WORST_FIRST,
    About,
    Finding,
    Report,
    Severity,
    Table,
    Verdict,
    rank,
)
from ci_doctor.model.words import parse_moment, shortened
from ci_doctor.render.formatting import (
    TIMED_OUT,
    Headline,
    amount,
    cleaned,
    duration,
    headline,
    job_headline,
    numbered,
    one_line,
    safe_address,
    worst_first,
)
from ci_doctor.render.markdown import (
    bullets,
    code,
    details,
    fenced,
    finding_line,
    fitted,
    is_plain_path,
    table_texts,
)

# Of the logs that the plugin was given, which a reader of the verdict's own meaning does not know.
_NEXT_OF_FAILED = (
    "Read the log of the job. If the option `diagnose` of the plugin names the logs of the command, "
    "their cause stands here."
)
_JOB = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_LINE_BYTES = 240
_NAME_BYTES = 120
_SHORT_NAME_BYTES = 100
_SENTENCE_BYTES = 400
_PLACE_BYTES = 200
_CAUSE_BYTES = 300
_COMMAND_CHARACTERS = 1000
_COMMAND_LINES = 6


class StepResult(Struct, frozen=True, kw_only=True):
    """One job of a step, and what is known of its earlier attempts.

    reports: of this job, the oldest first. page: the path of the leading report's page on the
    Artifacts tab; None if there is none.
    """

    record: JobRecord
    reports: tuple[Report, ...] = ()
    earlier: tuple[EarlierAttempt, ...] = ()
    page: str | None = None

    @property
    def is_judged(self) -> bool:
        """Whether a report judges the job, or an error ended one; one on caches does neither."""
        return any(each.verdict is not None or each.error is not None for each in self.reports)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody stopped the job, or its time was over."""
        return self.record.is_cancelled or self.record.is_timed_out

    @property
    def has_passed(self) -> bool:
        """Whether the job passed: by its verdict, or because nothing was judged and its command ended with 0."""
        if self.is_stopped or self.record.verdict == Verdict.PASS:
            return not self.is_stopped
        return not self.is_judged and self.record.command_status == 0

    @property
    def headline(self) -> Headline:
        """The first words about the job."""
        record = self.record
        if record.is_timed_out:
            return job_headline(TIMED_OUT)
        if record.is_cancelled:
            return job_headline(CANCELLED)
        if self.has_passed:
            return job_headline(Verdict.PASS)
        head = job_headline(record.verdict if record.verdict in WORST_FIRST else NO_VERDICT)
        if record.verdict == Verdict.FAILED and record.command_status:
            return head._replace(meaning=_ending(record.command_status))
        return head


def _ending(status: int) -> str:
    if status == -1:
        return "a signal ended the command"
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return f"the command ended with status {status}"
    # A shell's way to say it: 137 is 128 + SIGKILL.
    return f"the command ended with status {status}, as after {name}"


# --- the cause ---

_AFTER = 2  # lines of an excerpt below the cause
_EXCERPT_LINES = 8
_LINE_CHARACTERS = 180


class CauseKind(StrEnum):
    """What a reader is shown: a cause, an observation, or where to begin without either."""

    CAUSE = "Cause"
    FINDING = "Finding"
    BEGINNING = "No cause is named"


class StepCause(NamedTuple):
    """Why a step ended as it did: what is named, of what kind that is, and the lines around it."""

    named: Cause
    excerpt: str | None = None
    kind: CauseKind = CauseKind.CAUSE


def leading_report(reports: Sequence[Report]) -> Report | None:
    """The one that a reader opens first: of the worst verdict, the last one among equals.

    A report that judges nothing and names a cause stands before one without an error.
    """
    return min(reversed(reports), key=_rank, default=None)


def leading_first(reports: Sequence[Report]) -> list[Report]:
    """All of them, the leading one first."""
    leading = leading_report(reports)
    return sorted(reports, key=lambda report: report is not leading)


def _rank(report: Report) -> int:
    if report.verdict is not None:
        return rank(report.verdict)
    if report.error is not None:
        return rank(NO_VERDICT)
    # Below all verdicts: it says nothing of the job.
    return rank(Verdict.FAILED) if any(_diagnosed(report)) else rank(Verdict.PASS) + 1


def step_cause(cause: Cause | None, reports: Sequence[Report]) -> StepCause | None:
    """The cause to show: the record's, else the first that a report names; None without any.

    `reports` are cleaned (`safe_text.cleaned`), the leading one first.
    """
    diagnosed = [_diagnosed(report) for report in reports]
    for named, excerpt in diagnosed:
        if named is not None and (cause is None or named.fingerprint == cause.fingerprint):
            return StepCause(named, _lines(excerpt) if excerpt else None)
    if cause is not None:
        return _of_record(cause, reports)
    observed = _observed(reports)
    if observed is not None:
        return _of_finding(observed)
    for _, excerpt in diagnosed:
        if excerpt is not None:
            place = LogLine(file=excerpt.file, line=excerpt.first_line + excerpt.marked)
            title = "no line of the logs explains it by itself"
            named = Cause(fingerprint="", title=title, place=place)
            return StepCause(named, _lines(excerpt), CauseKind.BEGINNING)
    return None


def _observed(reports: Sequence[Report]) -> Finding | None:
    """The worst finding of the first report that has one and did not pass."""
    for report in reports:
        # The finding of a diagnosis says less than what it read.
        if report.verdict is Verdict.PASS or any(_diagnosed(report)):
            continue
        for finding in worst_first(report)[:1]:
            if finding.severity is not Severity.NOTE:
                return finding
    return None


def _diagnosed(report: Report) -> tuple[Cause | None, LogLines | None]:
    """What `diagnose`, or `run --diagnose`, has read in logs; nothing for another command."""
    facts = report.facts.get("diagnosis")
    if not isinstance(facts, Mapping):
        facts = report.facts
    try:
        excerpt = msgspec.convert(facts.get("excerpt"), decodable(LogLines | None))
    # Another version wrote it, or somebody else.
    except msgspec.ValidationError:
        excerpt = None
    return diagnosed_cause(report), excerpt


def _of_record(cause: Cause, reports: Sequence[Report]) -> StepCause:
    """The record's cause, with the evidence of the finding that it was made of."""
    for report in reports:
        for finding in report.findings:
            if finding.summary in {cause.title, cause.text}:
                shown = _of_finding(finding)
                return shown._replace(named=replace(shown.named, fingerprint=cause.fingerprint))
    return StepCause(cause)


def _of_finding(finding: Finding) -> StepCause:
    # An observation is no cause that another job could share.
    named = replace(cause_of_finding(finding), fingerprint="")
    evidence = finding.evidence[0].excerpt if finding.evidence else None
    excerpt = None
    if evidence:
        lines = evidence.strip("\n")[: 4 * _EXCERPT_LINES * _LINE_CHARACTERS].split("\n")
        shown = [shortened(line, _LINE_CHARACTERS) for line in lines[:_EXCERPT_LINES]]
        excerpt = "\n".join([*shown, *(["…"] if len(lines) > _EXCERPT_LINES else [])])
    return StepCause(named, excerpt, CauseKind.FINDING)


def _lines(excerpt: LogLines) -> str:
    """Numbered lines; `> ` stands before the cause."""
    rows = (
        f"{mark} {number} | {text}".rstrip() for mark, number, text in numbered(excerpt, _AFTER)
    )
    return "\n".join(shortened(row, _LINE_CHARACTERS) for row in rows)


def short_cause(cause: StepCause) -> str:
    """The cause as a phrase for the attempts after this one."""
    return one_line(cause.named.phrase)


# --- the attempts before ---

_SHOWN = 4  # attempts with a text of their own, the last ones


def _attempts_line(step: StepResult) -> str:
    """What this attempt is, and what those before it were; empty for a first one."""
    number = step.record.about.attempt or 0
    if number == 0 and not step.earlier:
        return ""
    known = {each.attempt: cleaned(each) for each in step.earlier}
    first = max(0, number - _SHOWN)
    line = f"Passed on attempt {number + 1}." if step.has_passed else f"Attempt {number + 1}."
    if first:
        line += f" {first} earlier ones are not shown."
    about = step.record.about
    sentences = [_attempt(index, known.get(index), about) for index in range(first, number)]
    return " ".join([f"**{line}**", *sentences])


def _attempt(index: int, attempt: EarlierAttempt | None, about: About) -> str:
    if attempt is None or attempt.verdict is None:
        return f"Attempt {index + 1}: nothing is known of it."
    phrases = [fitted(job_headline(attempt.verdict).name, _CAUSE_BYTES)]
    if attempt.cause:
        phrases.append(fitted(attempt.cause, _CAUSE_BYTES))
    if attempt.exit_status:
        phrases.append(f"exit status {attempt.exit_status}")
    phrases += _job_link(about, attempt.job)
    return f"Attempt {index + 1}: {', '.join(phrases)}."


def _job_link(about: About, job: str | None) -> Iterator[str]:
    """A link to a job on its build's page; none if it is not safe."""
    if job is not None and _JOB.fullmatch(job):
        # The page that shows the annotation is the build's: there the id alone is enough.
        address = html.escape(f"{safe_address(about.build_url) or ''}#{job}")
        yield f'<a href="{address}">log</a>'


# --- the section of all caches that were moved or judged ---

_SECTION_BYTES = 8000
_MOST_CACHE_REPORTS = 6
_MOST_CAUSES = 3


def is_about_caches(report: Report) -> bool:
    """Whether `report` belongs to the section: one of `ci-doctor cache` that judges nothing."""
    return report.command == "cache" and report.verdict is None and report.error is None


def caches_section(reports: Sequence[Report]) -> str:
    """The section; empty without a report about caches."""
    about = [report for report in reports if is_about_caches(report)]
    if not about:
        return ""
    said = [fitted(report.summary, _SENTENCE_BYTES) for report in about[:_MOST_CACHE_REPORTS]]
    line = f"**Caches:** {'; '.join(said)}"
    inside = ""
    for text in _of_caches(about):
        if len((inside + text).encode()) > _SECTION_BYTES:
            inside += "\n- more: see the report\n"
            break
        inside += text
    inside = inside.strip("\n")
    return f"{line}\n\n{details('Details', inside)}" if inside else line


def _of_caches(reports: Sequence[Report]) -> Iterator[str]:
    """Tables first, then the findings of all."""
    for report in reports:
        for table in report.tables:
            for text, _ in table_texts(table):
                yield f"{text}\n"
    yield "\n"
    for report in reports:
        for finding in worst_first(report):
            yield f"- {finding_line(finding, _SENTENCE_BYTES)}\n"
            for evidence in finding.evidence[:_MOST_CAUSES]:
                yield f"  - {fitted(evidence.excerpt or '', _SENTENCE_BYTES)}\n"


# --- the whole ---

_REPORTS = 6  # lines of reports that are not folded
_MOST_FINDINGS = 12
_MOST_FOLLOWED = 6
_MOST_REPORTS = 20


def step_style(step: StepResult) -> str:
    """`success`, `info`, `warning` or `error`, for `buildkite-agent annotate --style`."""
    return step.headline.tone.value


def is_worth_showing(step: StepResult) -> bool:
    """Whether there is anything to say on the build's page.

    A job without a report that passed, or that somebody stopped, says nothing new, unless an
    earlier attempt of it has said otherwise.
    """
    if step.reports or step.earlier or step.record.is_timed_out:
        return True
    return not step.record.is_cancelled and not step.has_passed


def render(step: StepResult) -> str:
    """`step` as Markdown of less than 64 KiB, ending with a newline.

    At most three links, one of them to an artifact; no terminal blocks. Whatever stands in the
    record and the reports is shown as text.
    """
    step = replace(step, record=cleaned(step.record), reports=tuple(map(_lean, step.reports)))
    reports = [report for report in step.reports if not is_about_caches(report)]
    blocks = _passed(step, reports) if step.has_passed else _ended(step, reports)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _lean(report: Report) -> Report:
    # Cleaning takes time, and most of a large report is not shown.
    shown = ("root_cause", "excerpt", "diagnosis")
    facts = {name: report.facts[name] for name in shown if name in report.facts}
    tables = report.tables if is_about_caches(report) else _timelines(report)
    small = replace(report, facts=facts, tables=tables, cases=(), attempts=(), attachments=())
    return cleaned(small)


def _timelines(report: Report) -> tuple[Table, ...]:
    """Where the time of a watched script went."""
    is_watched = report.facts.get("watch") is not None
    return tuple(table for table in report.tables if is_watched and table.is_aside)


def _passed(step: StepResult, reports: Sequence[Report]) -> Iterator[str]:
    """One line for the verdict, one for the attempts before, and all reports folded."""
    leading = leading_report(reports)
    line = _heading(step)
    yield line if leading is None else f"{line}\\\n{_report_line(leading)}"
    yield _attempts_line(step)
    yield caches_section(step.reports)
    if len(reports) > 1 or any(report.findings for report in reports):
        yield _details(reports, None, with_reports=True)


def _ended(step: StepResult, reports: Sequence[Report]) -> Iterator[str]:
    """The verdict, the cause, the evidence, what to do, and what each report says."""
    ordered = leading_first(reports)
    leading = ordered[0] if ordered else None
    cause = step_cause(step.record.cause, ordered)
    yield _heading(step)
    yield _attempts_line(step)
    yield from _cause(cause) if cause else _without_cause(step, leading)
    yield from _next(step, cause)
    yield _reproduce(step.record, leading)
    lines = map(_report_line, reports)
    yield "\n".join(bullets(lines, _REPORTS, "more report", "see below"))
    yield _details(ordered, cause, with_reports=len(reports) > _REPORTS)
    yield caches_section(step.reports)


def _heading(step: StepResult) -> str:
    """The verdict in words, and below it the step, its time and its links."""
    head = step.headline
    line = f"**{head.symbol} {head.sentence}**"
    facts = list(_circumstances(step))
    return f"{line}\\\n{' · '.join(facts)}" if facts else line


def _circumstances(step: StepResult) -> Iterator[str]:
    """The step, which of its parallel jobs, its time, its statuses if they were mapped, and links."""
    record = step.record
    about = record.about
    if record.label:
        # The emoji of a label are meant: the same label stands on the build's page with them.
        yield fitted(record.label, _NAME_BYTES).replace("<span>:</span>", ":")
    elif about.step:
        yield fitted(about.step, _NAME_BYTES, code)
    if about.parallel_index is not None and record.parallel_count:
        yield f"job {about.parallel_index + 1} of {record.parallel_count}"
    began, ended = parse_moment(record.began_at), parse_moment(record.ended_at)
    if began is not None and ended is not None:
        yield duration(max(0.0, ended - began))
    if record.exit_status and record.exit_status != record.command_status:
        first = f"command ended with {record.command_status}, the " if record.command_status else ""
        verb = "with" if first else "ended with"
        yield f"the {first}job {verb} {record.exit_status}"
    leading = leading_report(step.reports)
    if leading is not None and step.page is not None and is_plain_path(step.page):
        name = fitted(leading.command, _NAME_BYTES)
        yield f'<a href="artifact://{step.page}">report of {name}</a>'
    yield from _job_link(about, about.job)


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
    elif not step.is_stopped:  # else the headline has said so
        # The headline has said how the command ended.
        is_said = step.record.command_status and not step.is_judged
        sentence = fitted(step.record.summary, _SENTENCE_BYTES)
        yield "no report names a cause" if is_said else sentence


def _next(step: StepResult, cause: StepCause | None) -> Iterator[str]:
    """What to do: the remedies of the cause, or else what the verdict asks for."""
    command = cause.named.next_command if cause else None
    sentences = [cause.named.remedy, cause.named.about_retry] if cause else []
    verdict = step.record.verdict
    if not any(sentences) and command is None and not step.record.is_cancelled:
        if verdict == Verdict.FAILED:
            sentences = [_NEXT_OF_FAILED]
        elif verdict in set(Verdict) - {Verdict.PASS}:
            sentences = [VERDICTS[Verdict(verdict)].remedy]
    shown = " ".join(fitted(each, _SENTENCE_BYTES) for each in sentences if each)
    if shown:
        yield f"**Next:** {shown}"
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


def _report_line(report: Report) -> str:
    """A report in a line: its mark, its command, what it says, how long it took."""
    head = headline(report)
    mark = head.symbol if head else "·"
    name = fitted(report.command, _SHORT_NAME_BYTES, code)
    return f"{mark} {name} {fitted(report.summary, _LINE_BYTES)} ({duration(report.duration_s)})"


def _details(reports: Sequence[Report], cause: StepCause | None, *, with_reports: bool) -> str:
    """A folded block: what followed from the cause, all findings, and all reports; or empty.

    `cause` is shown above it already, so a finding that says the same is left out: that of a diagnosis holds
    both of its texts.
    """
    blocks: list[str] = []
    counts: list[str] = []
    named = cause.named if cause is not None else None
    if named is not None and named.consequences:
        followed = named.consequences[:_MOST_FOLLOWED]
        counts.append(amount(len(followed), "consequence"))
        lines = [
            f"{fitted(line.where, 2 * _SHORT_NAME_BYTES, code)} {fitted(line.message, _LINE_BYTES, code)}"
            for line in followed
        ]
        blocks += ["What followed from the cause:", "\n".join(bullets(lines))]
    said = {named.title, named.phrase} if named is not None else set()
    findings = [
        each for report in reports for each in worst_first(report) if each.summary not in said
    ]
    if findings:
        counts.append(amount(len(findings), "finding"))
        lines = [finding_line(each, _LINE_BYTES) for each in findings]
        blocks.append(
            "\n".join(bullets(lines, _MOST_FINDINGS, "more finding", "see the full report"))
        )
    tables = [table for report in reports for table in report.tables]
    blocks += [text for table in tables for text, _ in table_texts(table)]
    if with_reports:
        counts.append(amount(len(reports), "report"))
        lines = [_report_line(report) for report in reports]
        blocks.append("\n".join(bullets(lines, _MOST_REPORTS, "more report", "see the artifacts")))
    if named is not None and named.fingerprint:
        blocks.append(
            f"Fingerprint of the cause: {fitted(named.fingerprint, _SHORT_NAME_BYTES, code)}"
        )
    return details(", ".join(counts) or "Details", "\n\n".join(blocks)) if blocks else ""
