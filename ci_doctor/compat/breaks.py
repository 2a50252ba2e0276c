# SPDX-License-Identifier: Apache-2.0
"""Pure. From breaks to findings: the caller's line, the callee's definition, the right call."""

import ast
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from ci_doctor.compat import rules
from ci_doctor.compat.calls import CallSignature, Mismatch
from ci_doctor.compat.scopes import ReadModule
from ci_doctor.compat.world import Caught
from ci_doctor.model.facts.compat import BreakFact, DefinitionFact
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount


class BreakKind(StrEnum):
    """What is broken; each is a rule."""

    MODULE_GONE = "module-gone"
    NAME_GONE = "name-gone"
    ATTRIBUTE_GONE = "attribute-gone"
    CALL = "call"
    OVERRIDE = "override"
    ABSTRACT = "abstract"


class SourceLine(Struct, frozen=True, kw_only=True):
    """A line of a file below its tree."""

    file: str
    line: int
    text: str = ""


class Breakage(Struct, frozen=True, kw_only=True):
    """A break.

    symbol: the dotted name of the callee's definition, or of the name that is gone. sentence: what
    Python does there. is_certain: it happens whenever the place runs. definition: where the callee's definition stands now. call: the right call,
    if there is only one. signature: what the definition takes now.
    """

    kind: BreakKind
    at: SourceLine
    symbol: str
    sentence: str
    caught: Caught = Caught.NOT
    is_certain: bool = True
    definition: SourceLine | None = None
    signature: CallSignature | None = None
    mismatches: tuple[Mismatch, ...] = ()
    call: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether it is certain, and no handler hides it."""
        return self.is_certain and self.caught is Caught.NOT


class Judged(Struct, kw_only=True):
    """All that was looked at.

    resolved: places whose definition in the callee is known, by kind. unknown: places that concern
    the callee and that nobody can judge, by reason. guarded: places that a handler or a condition
    about versions protects. open_imports: those of the unknown ones that run when a module of the
    caller is imported, and that nothing handles.
    """

    breaks: list[Breakage] = field(default_factory=list)
    resolved: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    guarded: int = 0
    open_imports: list[SourceLine] = field(default_factory=list)
    files: int = 0
    unread: dict[str, str] = field(default_factory=dict)

    def count(self, kind: str) -> None:
        """One more place that is known."""
        self.resolved[kind] = self.resolved.get(kind, 0) + 1

    def miss(self, why: str) -> None:
        """One more place that nobody can judge."""
        self.unknown[why] = self.unknown.get(why, 0) + 1

    @property
    def errors(self) -> int:
        """Breaks that end a program."""
        return sum(each.is_error for each in self.breaks)

    @property
    def total(self) -> int:
        """Places that were judged."""
        return sum(self.resolved.values())

    @property
    def share(self) -> float:
        """The share of the places that concern the callee that was judged, 0 to 1."""
        places = self.total + sum(self.unknown.values())
        return self.total / places if places else 0.0


_MOST: Final = 160


def excerpt(module: ReadModule, node: ast.AST, line: int) -> str:
    """The source of `node` from `line` on, at most 160 characters."""
    end = getattr(node, "end_lineno", line) or line
    text = " ".join(each.strip() for each in module.lines[line - 1 : end])
    return shortened(text, _MOST)


_RULES: Final[dict[BreakKind, Rule]] = {
    BreakKind.MODULE_GONE: rules.MODULE_GONE,
    BreakKind.NAME_GONE: rules.NAME_GONE,
    BreakKind.ATTRIBUTE_GONE: rules.ATTRIBUTE_GONE,
    BreakKind.CALL: rules.CALL,
    BreakKind.OVERRIDE: rules.OVERRIDE,
    BreakKind.ABSTRACT: rules.ABSTRACT,
}


_MOST_IMPORTS: Final = 20


def finding(broken: Breakage) -> Finding:
    """The finding of a break."""
    rule = _RULES[broken.kind]
    is_hidden = broken.caught is Caught.BROADLY
    summary = f"{broken.at.file}:{broken.at.line}: {broken.sentence}"
    if is_hidden:
        summary = f"{summary}; a broad `except` around it hides the error"
    evidence = [Evidence(file=broken.at.file, line=broken.at.line, excerpt=broken.at.text)]
    if broken.definition is not None:
        place = broken.definition
        evidence.append(Evidence(file=place.file, line=place.line, excerpt=f"now: {place.text}"))
    remedy = rule.remedy if broken.call is None else f"call it like this: `{broken.call}`"
    severity = rule.severity if broken.is_error else Severity.WARNING
    return rule.finding(summary, evidence=tuple(evidence), remedy=remedy, severity=severity)


def break_fact(broken: Breakage) -> BreakFact:
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
