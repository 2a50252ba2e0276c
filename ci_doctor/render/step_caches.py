# SPDX-License-Identifier: Apache-2.0
"""Pure. What a step's annotation says of the job's caches: a line, and folded below it the table."""

from collections.abc import Iterator, Sequence

from ci_doctor.model.report import Report
from ci_doctor.render.headline import symbol, worst_first
from ci_doctor.render.markdown_tables import table_texts
from ci_doctor.render.markup import code, fitted

COMMAND = "cache"
_LINE_BYTES = 400
_NAME_BYTES = 100
_SECTION_BYTES = 8000
_MOST_REPORTS = 6
_MOST_CAUSES = 3


def is_about_caches(report: Report) -> bool:
    """Whether `report` belongs to the section: one of `ci-doctor cache` that judges nothing."""
    return report.command == COMMAND and report.verdict is None and report.error is None


def caches_section(reports: Sequence[Report]) -> str:
    """The section of all that were moved or judged; empty without a report about caches."""
    about = [report for report in reports if is_about_caches(report)]
    if not about:
        return ""
    said = "; ".join(fitted(report.summary, _LINE_BYTES) for report in about[:_MOST_REPORTS])
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
            rule = fitted(finding.rule, _NAME_BYTES, code)
            yield f"- {symbol(finding.severity)} {fitted(finding.summary, _LINE_BYTES)} {rule}\n"
            for evidence in finding.evidence[:_MOST_CAUSES]:
                yield f"  - {fitted(evidence.excerpt or '', _LINE_BYTES)}\n"


def _fitting(lines: Iterator[str]) -> Iterator[str]:
    """As many as there is room for."""
    room = _SECTION_BYTES
    for line in lines:
        room -= len(line.encode())
        if room < 0:
            yield "\n- more: see the report\n"
            return
        yield line
