# SPDX-License-Identifier: Apache-2.0
"""Pure. From a diagnosis to an outcome: a finding about the cause, tables and facts.

It judges nothing: its verdict is None whatever it names, and `void` if no log could be read.
"""

from collections.abc import Iterator

from ci_doctor.diagnosis.cause import Cause, Diagnosis, LogExcerpt, LogPlace
from ci_doctor.diagnosis.exit_status import may_be_retried, policy_of
from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.next_command import next_command
from ci_doctor.diagnosis.rules import NO_CAUSE, UNREADABLE_LOG, rule_of
from ci_doctor.diagnosis.wording import about_retry, likelihood, title
from ci_doctor.model.facts.diagnose import (
    DiagnoseFacts,
    LogLine,
    LogLines,
    RootCause,
)
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, share
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import percent
from ci_doctor.system.processes.process import describe_status
from ci_doctor.system.secrets.cutting import first_words

_SUMMARY_CHARACTERS = 300


def outcome_of(diagnosis: Diagnosis) -> Outcome:
    """The outcome of `diagnosis`.

    The first evidence of its first finding is the root line, or else the best place to begin; the
    second one is the excerpt around it, in which `> ` marks the line.
    """
    excerpt = _lines(diagnosis)
    facts = DiagnoseFacts(
        root_cause=_root_cause(diagnosis.cause),
        excerpt=excerpt,
        others=tuple(_line(place) for place in diagnosis.others),
        logs=diagnosis.logs,
        unreadable={**diagnosis.unreadable, **diagnosis.in_part},
        exit_status=diagnosis.status,
    )
    return Outcome(
        verdict=None if diagnosis.logs else Verdict.VOID,
        summary=_summary(diagnosis, facts.root_cause),
        findings=tuple(_findings(diagnosis, facts.root_cause)),
        tables=tuple(_tables(facts)),
        facts=facts,
    )


def _root_cause(cause: Cause | None) -> RootCause | None:
    if cause is None:
        return None
    return RootCause(
        place=_line(cause.place),
        rule=cause.rule,
        class_=None if cause.class_ is None else cause.class_.value,
        title=title(cause.class_),
        retry=policy_of(cause).value,
        about_retry=about_retry(policy_of(cause), is_proven=may_be_retried(cause)),
        is_outside=cause.is_outside,
        may_be_retried=may_be_retried(cause),
        confidence=cause.confidence,
        likelihood=likelihood(cause.confidence),
        reasons=cause.reasons,
        fingerprint=cause.fingerprint,
        explanation=cause.explanation,
        remedy=cause.remedy or rule_of(cause.class_).remedy or "",
        next_command=next_command(cause.next_command, cause.fields),
        consequences=tuple(_line(place) for place in cause.consequences),
    )


def message_of(text: str) -> str:
    """A cleaned line without the names of its process and its logger."""
    return _cleaned(text).message or text


def _line(place: LogPlace) -> LogLine:
    return LogLine(file=place.log, line=place.line, text=place.text, message=message_of(place.text))


def _lines(diagnosis: Diagnosis) -> LogLines | None:
    excerpt = diagnosis.excerpt
    if excerpt is None or diagnosis.best is None:
        return None
    return LogLines(
        file=diagnosis.best.log,
        first_line=excerpt.first_line,
        lines=excerpt.lines,
        marked=excerpt.marked,
        messages=tuple(_messages(excerpt)),
    )


def _messages(excerpt: LogExcerpt) -> Iterator[str]:
    # What each line of a process begins with would take the room of what it says.
    writer = _cleaned(excerpt.lines[excerpt.marked]).writer
    for text in excerpt.lines:
        line = _cleaned(text)
        yield line.message if line.writer == writer else text


def _cleaned(text: str) -> CleanLine:
    return clean_line(text.encode(errors="replace"))


def _summary(diagnosis: Diagnosis, cause: RootCause | None) -> str:
    if not diagnosis.logs:
        return "no log could be read"
    if cause is not None:
        place = cause.place
        text = _shortened(place.message)
        sure = f"{percent(round(cause.confidence, 2))} sure"
        return f"{cause.title}, {sure}: {place.file}:{place.line}: {text}"
    return f"no cause is named: {_why_none(diagnosis)}"


def _why_none(diagnosis: Diagnosis) -> str:
    """What is known of logs without a cause, and of the exit status of their command."""
    if diagnosis.status is not None:
        ended = describe_status(diagnosis.status)
        if diagnosis.status == 0:
            return f"the command ended with {ended}"
        return f"no line tells why the command ended with {ended}"
    if diagnosis.ended_well:
        return f"the logs end well{'' if diagnosis.n_candidates else ' and hold no error'}"
    if diagnosis.best is None:
        return "the logs are empty"
    return "no line of the logs has enough weight"


def _holds_nothing(diagnosis: Diagnosis) -> bool:
    if diagnosis.status is not None:
        return diagnosis.status == 0
    return diagnosis.ended_well and diagnosis.n_candidates == 0


def _shortened(text: str) -> str:
    if len(text) <= _SUMMARY_CHARACTERS:
        return text
    return first_words(text, _SUMMARY_CHARACTERS - 1) + "…"


def _findings(diagnosis: Diagnosis, root_cause: RootCause | None) -> Iterator[Finding]:
    if diagnosis.cause is not None and root_cause is not None:
        yield _about_cause(diagnosis.cause, root_cause, diagnosis.excerpt)
    elif diagnosis.best is not None and not _holds_nothing(diagnosis):
        summary = "no line names a cause; this is the best place to begin"
        evidence = tuple(_places(diagnosis.best, diagnosis.excerpt))
        yield NO_CAUSE.finding(summary, evidence=evidence, remedy=NO_CAUSE.remedy)
    for name, reason in diagnosis.unreadable.items():
        evidence = (Evidence(file=name),)
        yield UNREADABLE_LOG.finding(f"{name} cannot be read: {reason}", evidence=evidence)
    for name, reason in diagnosis.in_part.items():
        evidence = (Evidence(file=name),)
        yield UNREADABLE_LOG.finding(f"{name} is read in part: {reason}", evidence=evidence)


def _about_cause(cause: Cause, root_cause: RootCause, excerpt: LogExcerpt | None) -> Finding:
    evidence = list(_places(cause.place, excerpt))
    evidence.extend(_evidence(place) for place in cause.consequences)
    sentences = [root_cause.explanation, root_cause.remedy, root_cause.about_retry]
    if root_cause.next_command is not None:
        sentences.append(f"`{root_cause.next_command}` goes on from here.")
    return rule_of(cause.class_).finding(
        f"{root_cause.title}: {_shortened(root_cause.place.message)}",
        evidence=tuple(evidence),
        remedy=" ".join(filter(None, sentences)),
    )


def _places(place: LogPlace, excerpt: LogExcerpt | None) -> Iterator[Evidence]:
    """The line itself, then the lines around it."""
    yield _evidence(place)
    if excerpt is None:
        return
    marked = []
    for index, text in enumerate(excerpt.lines):
        mark = "> " if index == excerpt.marked else "  "
        marked.append((mark + text).rstrip())
    last = excerpt.first_line + len(excerpt.lines) - 1
    yield Evidence(
        file=place.log, line=excerpt.first_line, end_line=last, excerpt="\n".join(marked)
    )


def _evidence(place: LogPlace) -> Evidence:
    return Evidence(file=place.log, line=place.line, end_line=place.line, excerpt=place.text)


def _tables(facts: DiagnoseFacts) -> Iterator[Table]:
    cause = facts.root_cause
    if cause is not None:
        rows = [
            row("class", cause.title),
            row("confidence", share(round(cause.confidence, 2))),
            row("another run", cause.about_retry),
            row("rests on", ", ".join(cause.reasons)),
            row("fingerprint", cause.fingerprint),
        ]
        if facts.exit_status is not None:
            rows.append(row("the command", describe_status(facts.exit_status)))
        yield Table(title="The cause", rows=tuple(rows))
    if facts.others:
        others = tuple(row(f"{each.file}:{each.line}", each.message) for each in facts.others)
        name = "Where else to look" if cause is None else "What else it may be"
        yield Table(title=name, rows=others)
