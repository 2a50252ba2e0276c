# SPDX-License-Identifier: Apache-2.0
"""Pure. Texts of strangers in a report, cut so that none of them fills a terminal by itself."""

from msgspec.structs import replace

from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Attachment, Attempt, Failure
from ci_doctor.model.report import Report
from ci_doctor.model.shortened import shortened
from ci_doctor.model.table import Cell, Row, Table

_SENTENCE = 2_000
_NAME = 500  # a label, a branch, a path


def bounded(report: Report) -> Report:
    """`report` with sentences of at most 2,000 characters, and names of at most 500.

    Commands and details stay whole: half a command is one that nobody may run.
    """
    return replace(
        report,
        command=shortened(report.command, _NAME),
        summary=shortened(report.summary, _SENTENCE),
        error=None if report.error is None else _error(report.error),
        findings=tuple(map(_finding, report.findings)),
        tables=tuple(map(_table, report.tables)),
        attempts=tuple(map(_attempt, report.attempts)),
        attachments=tuple(map(_attachment, report.attachments)),
    )


def _error(error: Failure) -> Failure:
    hint = None if error.hint is None else shortened(error.hint, _SENTENCE)
    return replace(error, message=shortened(error.message, _SENTENCE), hint=hint)


def _finding(finding: Finding) -> Finding:
    evidence = tuple(
        each if each.file is None else replace(each, file=shortened(each.file, _NAME))
        for each in finding.evidence
    )
    return replace(finding, summary=shortened(finding.summary, _SENTENCE), evidence=evidence)


def _table(table: Table) -> Table:
    columns = tuple(shortened(name, _NAME) for name in table.columns)
    title = shortened(table.title, _NAME)
    return replace(table, title=title, columns=columns, rows=tuple(map(_row, table.rows)))


def _row(row: Row) -> Row:
    # One without cells is a paragraph.
    most = _NAME if row.cells else _SENTENCE
    return replace(row, label=shortened(row.label, most), cells=tuple(map(_cell, row.cells)))


def _cell(cell: Cell) -> Cell:
    if not isinstance(cell.value, str):
        return cell
    return replace(cell, value=shortened(cell.value, _SENTENCE))


def _attempt(attempt: Attempt) -> Attempt:
    log = None if attempt.log is None else shortened(attempt.log, _NAME)
    name, outcome = shortened(attempt.name, _NAME), shortened(attempt.outcome, _SENTENCE)
    return replace(attempt, name=name, outcome=outcome, log=log)


def _attachment(attachment: Attachment) -> Attachment:
    path, title = shortened(attachment.path, _NAME), shortened(attachment.title, _NAME)
    return replace(attachment, path=path, title=title)
