# SPDX-License-Identifier: Apache-2.0
"""Pure. A rule: what a finding may be about, with its meaning and what to do.

Each room keeps its rules in `<room>/rules.py` and makes its findings from them.
`ci_doctor/catalogue.py` lists them all for `explain` and the docs.
"""

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding, NextStep, RemedyKind, Severity, ShellCommand


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
