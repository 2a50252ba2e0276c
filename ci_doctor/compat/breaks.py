# SPDX-License-Identifier: Apache-2.0
"""Pure. From breaks to findings and facts: the caller's line, the callee's definition, the right call."""

import ast
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal

from msgspec import Struct, field

from ci_doctor.compat.scopes import ReadModule
from ci_doctor.model.facts import Facts
from ci_doctor.model.outcome import Evidence, Finding, Rule, Severity
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount


class CodeTreeFact(Struct, frozen=True, kw_only=True):
    """A package as it was named, and what its metadata say."""

    label: str
    distribution: str | None
    version: str | None


class DefinitionFact(Struct, frozen=True, kw_only=True):
    """A definition: its file, its line and its signature."""

    file: str
    line: int
    text: str


class BreakFact(Struct, frozen=True, kw_only=True):
    """One break.

    rule: its id. excerpt: the place in the caller. symbol: the dotted name of the callee's
    definition, or of the name that is gone. sentence: what Python does there. caught: `broadly` if an
    `except Exception` around it hides the error. is_certain: it happens whenever the place runs. now:
    the callee's definition. call: the right call, if there is only one.
    """

    rule: str
    file: str
    line: int
    excerpt: str
    symbol: str
    sentence: str
    caught: Literal["not", "broadly"] = "not"
    is_certain: bool = True
    now: DefinitionFact | None = None
    call: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether it is certain, and no handler hides it."""
        return self.is_certain and self.caught == "not"


class CompatFacts(Facts, frozen=True, kw_only=True):
    """What one package calls of others.

    resolved: places whose definition is known, by kind (`calls`, `imports`, `attributes`,
    `overrides`). unknown: places that nobody can judge. guarded: places that a handler
    or an undecided condition about versions protects. files: files of the caller that name a callee.
    share: of the places that concern the callee, 0 to 1, how many were judged. open_imports: imports
    that run with their module, that nothing handles, and that nobody can judge; a pass has none.
    """

    caller: CodeTreeFact
    callees: tuple[CodeTreeFact, ...]
    files: int
    resolved: dict[str, int]
    unknown: int
    guarded: int
    share: float
    open_imports: tuple[DefinitionFact, ...]
    unread: dict[str, str]
    breaks: tuple[BreakFact, ...]


class DirectionFact(Struct, frozen=True, kw_only=True):
    """What one version calls of the other.

    open_imports: how many imports at the top of modules nobody can judge. unread: how many files of
    the caller that name the callee could not be parsed. A pair with one of both does not pass.
    """

    caller: str
    callee: str
    resolved: dict[str, int]
    open_imports: int
    unread: int
    breaks: tuple[BreakFact, ...]


class PairFact(Struct, frozen=True, kw_only=True):
    """Two versions, judged in both directions."""

    first: str
    second: str
    directions: tuple[DirectionFact, ...]


class MatrixFacts(Facts, frozen=True, kw_only=True):
    """All pairs of versions, in the order in which they were judged."""

    pairs: tuple[PairFact, ...]


# --- the rules of findings about one package calling another ---


MODULE_GONE: Final = Rule(
    id="compat/module-gone",
    severity=Severity.ERROR,
    meaning=(
        "The caller imports a module that the callee does not have. A warning if `except Exception` "
        "around it hides the ImportError."
    ),
    remedy="Import it from its new place, or pin a version of the callee that has it.",
)
NAME_GONE: Final = Rule(
    id="compat/name-gone",
    severity=Severity.ERROR,
    meaning=(
        "The caller imports a name that the callee's module does not bind: neither by a definition "
        "or an import, nor by `__getattr__` or a star import."
    ),
    remedy="Import it from its new place, or pin a version of the callee that has it.",
)
ATTRIBUTE_GONE: Final = Rule(
    id="compat/attribute-gone",
    severity=Severity.ERROR,
    meaning=(
        "The caller reads an attribute that the callee's module or class does not have. The class "
        "and all classes above it are known, none of them makes names at run time, and no line of "
        "either package assigns the name from elsewhere."
    ),
    remedy="Use what replaced the attribute, or pin a version of the callee that has it.",
)
CALL: Final = Rule(
    id="compat/call",
    severity=Severity.ERROR,
    meaning=(
        "A call of the caller raises TypeError, because its arguments do not fit the parameters of "
        "the callee's definition. There are too many positional arguments, one comes by keyword "
        "too, a keyword is unknown, or an argument is missing."
    ),
    remedy="Change the call as the definition asks, or pin a version of the callee that takes it.",
)
OVERRIDE: Final = Rule(
    id="compat/override",
    severity=Severity.ERROR,
    meaning=(
        "The caller overrides a method of the callee, and the callee calls that method with "
        "arguments that the override does not take."
    ),
    remedy="Give the override the parameters of the method that it overrides.",
)
ABSTRACT: Final = Rule(
    id="compat/abstract",
    severity=Severity.ERROR,
    meaning=(
        "The caller makes an instance of its own class, and a class of the callee above it has an "
        "abstract method that nothing implements: Python raises TypeError. A warning if no line of the "
        "caller makes such an instance: the callee may."
    ),
    remedy="Implement the method in the caller's class.",
)
NOTHING_RESOLVED: Final = Rule(
    id="compat/nothing-resolved",
    severity=Severity.WARNING,
    meaning="No place of the caller could be resolved to a definition in the callee, so nothing proves that it works.",
    remedy=(
        "Check that both are the right packages, and that the callee's directory holds the package "
        "that the caller imports. This never counts as a pass."
    ),
)
OPEN_IMPORT: Final = Rule(
    id="compat/open-import",
    severity=Severity.WARNING,
    meaning=(
        "A module of the caller begins with an import that nobody can judge: the name may come from a "
        "compiled module, or be made at run time. A caller with such an import does not pass."
    ),
    remedy="Run the import once with both packages installed: `python -c 'import PACKAGE'`.",
)
UNREAD: Final = Rule(
    id="compat/unread",
    severity=Severity.WARNING,
    meaning="A file that concerns the callee could not be read or parsed. Its places were not judged. A caller with "
    "such a file does not pass.",
    remedy="Repair the file, or check by hand what it calls.",
)

RULES: Final[tuple[Rule, ...]] = (
    MODULE_GONE,
    NAME_GONE,
    ATTRIBUTE_GONE,
    CALL,
    OVERRIDE,
    ABSTRACT,
    NOTHING_RESOLVED,
    OPEN_IMPORT,
    UNREAD,
)


# --- from breaks to findings: the caller's line, the callee's definition, the right call ---


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


_RULES: Final = {each.id: each for each in RULES}


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
        findings.append(OPEN_IMPORT.finding(summary, evidence=evidence, remedy=OPEN_IMPORT.remedy))
    if not judged.total:
        summary = "no place of the caller could be resolved to a definition in the callee"
        findings.append(NOTHING_RESOLVED.finding(summary, remedy=NOTHING_RESOLVED.remedy))
    for file, reason in sorted(judged.unread.items()):
        evidence = (Evidence(file=file, excerpt=reason),)
        findings.append(UNREAD.finding(f"{file} could not be read", evidence=evidence))
    return findings
