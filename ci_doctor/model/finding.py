# SPDX-License-Identifier: Apache-2.0
"""Pure. A finding: its rule, one sentence, the evidence, and a remedy that can be pasted."""

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """`error` ends the command with exit code 1; `warning` and `note` never change it."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class RemedyKind(StrEnum):
    """How a remedy is to be read: an `advice` is a sentence, a `command` is pasted into a shell."""

    ADVICE = "advice"
    COMMAND = "command"


class ShellCommand(Struct, frozen=True):
    """A remedy to paste into a shell, in one line or several."""

    words: str


NextStep = str | ShellCommand


class Evidence(Struct, frozen=True, kw_only=True):
    """One thing a reader can check.

    `line` and `end_line` are 1-based and inclusive; `excerpt` is text as it stands there, or a
    figure.
    """

    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    excerpt: str | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """What a rule found in one case.

    `rule` is `family/what-happened` and an anchor in docs/findings.md. `summary` is one sentence
    without a full stop. `remedy_kind` is None without a remedy.
    """

    rule: str
    severity: Severity
    summary: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str | None = None
    remedy_kind: RemedyKind | None = None

    @property
    def is_advice(self) -> bool:
        """Whether the remedy is a sentence to read; else it is pasted whole and never broken."""
        return self.remedy_kind is not RemedyKind.COMMAND


class Rule(Struct, frozen=True, kw_only=True):
    """`id` is `family/what-happened` and an anchor in docs/findings.md.

    `severity` is the usual one. `meaning` and `remedy` are sentences for a reader who sees the id
    for the first time; `remedy` is None if there is nothing to do.
    """

    id: str
    severity: Severity
    meaning: str
    remedy: str | None = None

    def finding(
        self,
        summary: str,
        *,
        evidence: tuple[Evidence, ...] = (),
        remedy: NextStep | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding by this rule.

        `summary` is one sentence without a full stop. `remedy` is what to do in this very case,
        either advice or a ShellCommand to paste; None leaves it out, and `ci-doctor explain` prints
        the rule's own. `severity` replaces the usual one.
        """
        if isinstance(remedy, ShellCommand):
            text: str | None = remedy.words
            kind: RemedyKind | None = RemedyKind.COMMAND
        else:
            text = remedy
            kind = RemedyKind.ADVICE if remedy else None
        return Finding(
            rule=self.id,
            severity=self.severity if severity is None else severity,
            summary=summary,
            evidence=evidence,
            remedy=text,
            remedy_kind=kind,
        )
