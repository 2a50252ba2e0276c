# SPDX-License-Identifier: Apache-2.0
"""Pure. What stands around the text of a report in the log of a CI: its group, its annotations."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ci_doctor.model.outcome import Evidence, Finding, Report, Severity
from ci_doctor.model.words import shortened
from ci_doctor.render.ci_log import (
    Dialect,
    LogSection,
    annotation,
    commands_resumed,
    commands_stopped,
    end_of,
    start_of,
)
from ci_doctor.render.formatting import (
    Tone,
    cleaned,
    errors,
    headline,
    one_line,
    printable,
    tone,
    worst_first,
)
from ci_doctor.render.lint_report import is_lint

# GitHub shows ten errors of a step:
# https://github.com/actions/toolkit/blob/main/docs/problem-matchers.md#limitations
_ANNOTATIONS = 10
_MESSAGE_CHARACTERS = 2000
_TITLE_CHARACTERS = 250
# They become the command, or hand its output on: what follows is not ours to put into a group.
_TRANSPARENT = frozenset({"run"})


class Frame(NamedTuple):
    """Lines before and after the text, and `notes`, which make sense at any place of the log."""

    before: str = ""
    after: str = ""
    notes: str = ""


def is_failing(report: Report) -> bool:
    """Whether a reader of the log must see `report`: its command fails, or it explains a failure."""
    if report.exit_code:
        return True
    return report.verdict is None and bool(errors(report))


def is_of_interest(report: Report) -> bool:
    """Whether `report` judges something, and its command is not one that becomes another."""
    if is_failing(report):
        return True
    return report.verdict is not None and report.command not in _TRANSPARENT


def frame(report: Report, dialect: Dialect, *, key: str, token: str, epoch_s: float) -> Frame:
    """What stands around `report`; nothing if it is of no interest.

    An open group if it fails, else a closed one. `key` is the group's, `token` one that nobody can
    guess, `epoch_s` the time in seconds since 1970.
    """
    if not is_of_interest(report):
        return Frame()
    group = LogSection(_title(report), key, is_open=is_failing(report))
    before = start_of(group, dialect, epoch_s)
    after = end_of(group, dialect, epoch_s)
    if dialect is not Dialect.GITHUB:
        return Frame(before, after)
    notes = "".join(_shown(report))
    return Frame(before + commands_stopped(token), commands_resumed(token) + after, notes)


def _shown(report: Report) -> Iterator[str]:
    """As many annotations as GitHub shows: of lint ten of each kind."""
    if is_lint(report) and report.findings:
        return first_annotations(report, _ANNOTATIONS)
    return islice(_annotations(report), _ANNOTATIONS)


def _title(report: Report) -> str:
    command = f"ci-doctor {report.command}"
    head = headline(report)
    if head is not None:
        return f"{head.symbol} {head.word}  {command}"
    # Nothing was judged, and what was found is a failure all the same: a diagnosis.
    return f"✗ {command}"


def _annotations(report: Report) -> Iterator[str]:
    """A line for each error of a failing report; for one that warns and passes a single line."""
    title = shortened(printable(_title(report)[: _TITLE_CHARACTERS + 1]), _TITLE_CHARACTERS)
    sentence = report.summary if report.error is None else report.error.message
    if not is_failing(report):
        if tone(report) is not Tone.SUCCESS:
            yield annotation("warning", _message(report.summary), title=title)
        return
    named = errors(report)
    if report.error is not None or not named:
        yield annotation("error", _message(sentence), title=title)
    for finding in named:
        yield _annotation(finding, title)


def _message(text: str) -> str:
    return shortened(printable(text[: _MESSAGE_CHARACTERS + 1]), _MESSAGE_CHARACTERS)


_KINDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotations(report: Report) -> str:
    """A line for each finding of `report`, the worst ones first, and the summary as the last line."""
    report = cleaned(report)
    lines = [_annotation(finding, finding.rule) for finding in worst_first(report)]
    sentence = report.summary if report.error is None else report.error.message
    if report.error is not None or (report.exit_code and not lines):
        lines.append(annotation("error", sentence, title="ci-doctor lint"))
    return "".join((*lines, f"{one_line(sentence)}\n"))


def first_annotations(report: Report, most: int) -> Iterator[str]:
    """The lines of the worst findings, at most `most` of a kind: GitHub shows ten of each."""
    counts: Counter[Severity] = Counter()
    for finding in worst_first(report):
        counts[finding.severity] += 1
        if counts[finding.severity] <= most:
            yield _annotation(finding, finding.rule)


def _annotation(finding: Finding, title: str) -> str:
    """At the first file of the evidence; GitHub shows it only if it is one of the repository."""
    first = next((each for each in finding.evidence if each.file), Evidence())
    message = finding.summary
    if finding.remedy:
        message = f"{message}\ntry: {finding.remedy}"
    return annotation(
        _KINDS[finding.severity],
        _message(message),
        title=title,
        file=one_line(first.file[:_TITLE_CHARACTERS]) if first.file else None,
        line=first.line,
        endLine=first.end_line,
    )
