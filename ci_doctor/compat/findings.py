# SPDX-License-Identifier: Apache-2.0
"""Pure. From breaks to findings: the caller's line, the callee's definition, the right call."""

from typing import Final

from msgspec import Struct

from ci_doctor.compat import rules
from ci_doctor.compat.judging.breakage import Breakage, BreakKind, Judged, SourceLine
from ci_doctor.compat.meaning.life import Caught
from ci_doctor.model.facts.compat import BreakFact, DefinitionFact
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.rule import Rule
from ci_doctor.render.formatting import amount

_RULES: Final[dict[BreakKind, Rule]] = {
    BreakKind.MODULE_GONE: rules.MODULE_GONE,
    BreakKind.NAME_GONE: rules.NAME_GONE,
    BreakKind.ATTRIBUTE_GONE: rules.ATTRIBUTE_GONE,
    BreakKind.CALL: rules.CALL,
    BreakKind.OVERRIDE: rules.OVERRIDE,
    BreakKind.ABSTRACT: rules.ABSTRACT,
}


_MOST_IMPORTS: Final = 20


class Change(Struct, frozen=True, kw_only=True):
    """How a definition stood before, and what changed it: a commit or a version."""

    before: DefinitionFact | None = None
    changed_by: str | None = None


def finding(broken: Breakage, change: Change) -> Finding:
    """The finding of a break."""
    rule = _RULES[broken.kind]
    is_hidden = broken.caught is Caught.BROADLY
    summary = f"{broken.at.file}:{broken.at.line}: {broken.sentence}"
    if is_hidden:
        summary = f"{summary}; a broad `except` around it hides the error"
    evidence = [Evidence(file=broken.at.file, line=broken.at.line, excerpt=broken.at.text)]
    if broken.definition is not None:
        evidence.append(_evidence("now: ", broken.definition))
    before = change.before
    if before is not None:
        text = f"before: {before.text}"
        evidence.append(Evidence(file=before.file, line=before.line, excerpt=text))
    if change.changed_by is not None:
        evidence.append(Evidence(excerpt=f"changed by: {change.changed_by}"))
    remedy = rule.remedy if broken.call is None else f"call it like this: `{broken.call}`"
    severity = rule.severity if broken.is_error else Severity.WARNING
    return rule.finding(summary, evidence=tuple(evidence), remedy=remedy, severity=severity)


def _evidence(prefix: str, line: SourceLine) -> Evidence:
    return Evidence(file=line.file, line=line.line, excerpt=f"{prefix}{line.text}")


def break_fact(broken: Breakage, change: Change) -> BreakFact:
    """The same for programs."""
    now = None
    if broken.definition is not None:
        place = broken.definition
        now = DefinitionFact(file=place.file, line=place.line, text=place.text)
    return BreakFact(
        rule=_RULES[broken.kind].id,
        file=broken.at.file,
        line=broken.at.line,
        excerpt=broken.at.text,
        symbol=broken.symbol,
        sentence=broken.sentence,
        caught="broadly" if broken.caught is Caught.BROADLY else "not",
        now=now,
        before=change.before,
        changed_by=change.changed_by,
        call=broken.call,
    )


def other_findings(judged: Judged) -> list[Finding]:
    """What nobody could judge at all."""
    findings = []
    if judged.open_imports:
        shown = judged.open_imports[:_MOST_IMPORTS]
        summary = (
            f"{amount(len(judged.open_imports), 'import')} at the top of modules cannot be judged"
        )
        evidence = tuple(
            Evidence(file=each.file, line=each.line, excerpt=each.text) for each in shown
        )
        findings.append(
            rules.OPEN_IMPORT.finding(summary, evidence=evidence, remedy=rules.OPEN_IMPORT.remedy)
        )
    if not judged.total:
        summary = "no place of the caller could be resolved to a definition in the callee"
        findings.append(
            rules.NOTHING_RESOLVED.finding(summary, remedy=rules.NOTHING_RESOLVED.remedy)
        )
    for file, reason in sorted(judged.unread.items()):
        evidence = (Evidence(file=file, excerpt=reason),)
        findings.append(rules.UNREAD.finding(f"{file} could not be read", evidence=evidence))
    return findings
