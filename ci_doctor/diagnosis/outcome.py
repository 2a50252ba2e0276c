# SPDX-License-Identifier: Apache-2.0
"""Pure. From a diagnosis to an outcome: a finding about the cause, tables and facts.

It judges nothing: its verdict is None whatever it names, and `void` if no log could be read.
"""

from collections.abc import Iterator

from msgspec import structs

from ci_doctor.diagnosis.diagnosis import Diagnosis
from ci_doctor.diagnosis.rules import NO_CAUSE, UNREADABLE_LOG, rule_of
from ci_doctor.model.cause import LogLine, Owner
from ci_doctor.model.facts.diagnose import DiagnoseFacts, LogLines
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, share
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import percent
from ci_doctor.system.processes.process import describe_status
from ci_doctor.system.secrets.private_keys import shortened_words

_SUMMARY_CHARACTERS = 300


def outcome_of(diagnosis: Diagnosis) -> Outcome:
    """The outcome of `diagnosis`.

    The first evidence of its first finding is the root line, or else the best place to begin; the
    second one is the excerpt around it, in which `> ` marks the line.
    """
    cause = diagnosis.cause
    # What a rule of a repository captures may be half of a secret, which nobody would know as one.
    shown = None if cause is None else structs.replace(cause, fields={})
    facts = DiagnoseFacts(
        root_cause=shown,
        excerpt=diagnosis.excerpt,
        others=diagnosis.others,
        logs=diagnosis.logs,
        unreadable={**diagnosis.unreadable, **diagnosis.in_part},
        exit_status=diagnosis.status,
    )
    return Outcome(
        verdict=None if diagnosis.logs else Verdict.VOID,
        summary=_summary(diagnosis),
        findings=tuple(_findings(diagnosis)),
        tables=tuple(_tables(facts)),
        facts=facts,
    )


def _summary(diagnosis: Diagnosis) -> str:
    cause = diagnosis.cause
    if not diagnosis.logs:
        return "no log could be read"
    if cause is not None:
        text = shortened_words(cause.place.message, _SUMMARY_CHARACTERS)
        sure = f"{percent(round(cause.confidence or 0.0, 2))} sure"
        return f"{cause.title}, {sure}: {cause.where}: {text}"
    return f"no cause is named: {_why_none(diagnosis)}"


def _why_none(diagnosis: Diagnosis) -> str:
    """What is known of logs without a cause, and of the exit status of their command."""
    if diagnosis.status is not None:
        ended = f"the command ended with {describe_status(diagnosis.status)}"
        return ended if diagnosis.status == 0 else f"no line tells why {ended}"
    if diagnosis.ended_well:
        error = "" if diagnosis.n_candidates else ", and no line is an error"
        return f"the last outcome in the logs is a success{error}"
    return (
        "the logs are empty" if diagnosis.best is None else "no line of the logs has enough weight"
    )


def _findings(diagnosis: Diagnosis) -> Iterator[Finding]:
    cause, best = diagnosis.cause, diagnosis.best
    holds_nothing = diagnosis.status == 0
    if diagnosis.status is None:
        holds_nothing = diagnosis.ended_well and diagnosis.n_candidates == 0
    if cause is not None:
        sentences = [cause.explanation, cause.remedy, cause.about_retry]
        if cause.next_command is not None:
            sentences.append(f"`{cause.next_command}` goes on from here.")
        others = tuple(place.evidence for place in cause.consequences)
        yield rule_of(cause.class_).finding(
            f"{cause.title}: {shortened_words(cause.place.message, _SUMMARY_CHARACTERS)}",
            evidence=(*_places(cause.place, diagnosis.excerpt), *others),
            remedy=" ".join(filter(None, sentences)),
        )
    elif best is not None and not holds_nothing:
        summary = "no line names a cause; this is the best place to begin"
        evidence = _places(best, diagnosis.excerpt)
        yield NO_CAUSE.finding(summary, evidence=evidence, remedy=NO_CAUSE.remedy)
    for words, reasons in (
        ("cannot be read", diagnosis.unreadable),
        ("is read in part", diagnosis.in_part),
    ):
        for name, reason in reasons.items():
            evidence = (Evidence(file=name),)
            yield UNREADABLE_LOG.finding(f"{name} {words}: {reason}", evidence=evidence)


def _places(place: LogLine, excerpt: LogLines | None) -> tuple[Evidence, ...]:
    """The line itself, then the lines around it."""
    if excerpt is None:
        return (place.evidence,)
    marked = [
        (("> " if index == excerpt.marked else "  ") + text).rstrip()
        for index, text in enumerate(excerpt.lines)
    ]
    first = excerpt.first_line
    last = first + len(marked) - 1
    around = Evidence(file=place.file, line=first, end_line=last, excerpt="\n".join(marked))
    return place.evidence, around


def _tables(facts: DiagnoseFacts) -> Iterator[Table]:
    cause = facts.root_cause
    if cause is not None:
        rows = [
            row("class", cause.title),
            row("confidence", share(round(cause.confidence or 0.0, 2))),
            row("another run", cause.about_retry),
            row("rests on", ", ".join(cause.reasons)),
            row("fingerprint", cause.fingerprint),
        ]
        if cause.against:
            rows.insert(-1, row("against it", "; ".join(cause.against)))
        if cause.owner is not Owner.UNKNOWN:
            rows.insert(1, row("who acts", cause.owner.words))
        if facts.exit_status is not None:
            rows.append(row("the command", describe_status(facts.exit_status)))
        yield Table(title="The cause", rows=tuple(rows))
    if facts.others:
        others = tuple(row(each.where, each.message) for each in facts.others)
        name = "Where else to look" if cause is None else "What else it may be"
        yield Table(title=name, rows=others)
