# SPDX-License-Identifier: Apache-2.0
"""Pure. From breaks to findings: the caller's line, the callee's definition, the right call."""

import ast
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, field

from ci_doctor.compat import rules
from ci_doctor.compat.scopes import ReadModule
from ci_doctor.model.facts.compat import BreakFact, DefinitionFact
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount


class Judged(Struct, kw_only=True):
    """All that was looked at.

    resolved: places whose definition in the callee is known, by kind. unknown: places that concern
    the callee and that nobody can judge. guarded: places that a handler or a condition
    about versions protects. open_imports: those of the unknown ones that run when a module of the
    caller is imported, and that nothing handles. unread: why files of both sides could not be read, by path;
    unread_callers: those of the caller that name a callee.
    """

    breaks: list[BreakFact] = field(default_factory=list)
    resolved: dict[str, int] = field(default_factory=dict)
    unknown: int = 0
    guarded: int = 0
    open_imports: list[DefinitionFact] = field(default_factory=list)
    files: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    unread_callers: AbstractSet[str] = frozenset()

    def count(self, kind: str) -> None:
        """One more place that is known."""
        self.resolved[kind] = self.resolved.get(kind, 0) + 1

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
        places = self.total + self.unknown
        return self.total / places if places else 0.0


_MOST: Final = 160


def line_of(module: ReadModule, node: ast.AST, line: int | None = None) -> DefinitionFact:
    """The source of `node` from its first line on, or from `line`, at most 160 characters."""
    first = getattr(node, "lineno", 1) if line is None else line
    end = getattr(node, "end_lineno", None) or first
    text = " ".join(each.strip() for each in module.lines[first - 1 : end])
    return DefinitionFact(file=module.path, line=first, text=shortened(text, _MOST))


_MOST_IMPORTS: Final = 20


def break_at(rule: Rule, at: DefinitionFact, **fields: Any) -> BreakFact:
    """The break at a place of the caller; `fields` are the others of `BreakFact`."""
    return BreakFact(rule=rule.id, file=at.file, line=at.line, excerpt=at.text, **fields)


_RULES: Final = {each.id: each for each in rules.RULES}


def finding(broken: BreakFact) -> Finding:
    """The finding of a break."""
    rule = _RULES[broken.rule]
    summary = f"{broken.file}:{broken.line}: {broken.sentence}"
    if broken.caught == "broadly":
        summary = f"{summary}; a broad `except` around it hides the error"
    evidence = [Evidence(file=broken.file, line=broken.line, excerpt=broken.excerpt)]
    if broken.now is not None:
        text = f"now: {broken.now.text}"
        evidence.append(Evidence(file=broken.now.file, line=broken.now.line, excerpt=text))
    remedy = rule.remedy if broken.call is None else f"call it like this: `{broken.call}`"
    severity = rule.severity if broken.is_error else Severity.WARNING
    return rule.finding(summary, evidence=tuple(evidence), remedy=remedy, severity=severity)


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
