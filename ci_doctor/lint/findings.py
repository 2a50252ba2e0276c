# SPDX-License-Identifier: Apache-2.0
"""Pure. Violations as findings of a report."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ci_doctor.lint.baseline import BaselineEntry
from ci_doctor.lint.excerpt import excerpt_of
from ci_doctor.lint.rules import STALE_BASELINE
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Evidence, Finding, NextStep, Severity, ShellCommand

# A report of them has some megabytes, and nobody reads to its end.
MOST_FINDINGS: Final = 3000
# A word of a script in it may have a megabyte.
LONGEST_SUMMARY: Final = 500
_LONGEST_REMEDY: Final = 2000
_STALE_SHOWN: Final = 20


def severity_of(violation: Violation) -> Severity:
    """The severity that counts for `violation`."""
    return violation.severity or violation.rule.rule.severity


def count_of(violations: Iterable[Violation], severity: Severity) -> int:
    """How many of `violations` have this severity."""
    return sum(severity_of(violation) is severity for violation in violations)


def findings_of(violations: Sequence[Violation]) -> tuple[Finding, ...]:
    """A finding for each violation, in their order; above the limit the worst ones."""
    chosen = list(violations)
    if len(chosen) > MOST_FINDINGS:
        order = list(Severity)
        worst = sorted(chosen, key=lambda each: order.index(severity_of(each)))[:MOST_FINDINGS]
        # Back into the order of files and lines.
        kept = {id(violation) for violation in worst}
        chosen = [violation for violation in violations if id(violation) in kept]
    return tuple(map(_finding, chosen))


def stale_finding(file: str, stale: Sequence[BaselineEntry]) -> Finding:
    """What is reported of entries of the baseline `file` that match nothing."""
    shown = stale[:_STALE_SHOWN]
    evidence = [
        Evidence(file=each.file, excerpt=f"{each.rule}, {each.count} times") for each in shown
    ]
    return STALE_BASELINE.finding(
        f"{len(stale)} entries of {file} match nothing any more",
        evidence=tuple(evidence),
        remedy=ShellCommand(f"ci-doctor lint --write-baseline {file}"),
    )


def _finding(violation: Violation) -> Finding:
    related = [_evidence(place, None) for place in violation.related]
    return violation.rule.rule.finding(
        excerpt_of(violation.summary, LONGEST_SUMMARY),
        evidence=(_evidence(violation.place, violation.excerpt), *related),
        remedy=_remedy(violation.remedy),
        severity=violation.severity,
    )


def _remedy(text: str | None) -> NextStep | None:
    """A line of code is to be copied as it is; a sentence may be wrapped."""
    # Code that is cut would do something else. `explain` prints the rule's own remedy.
    if text is None or len(text) > _LONGEST_REMEDY:
        return None
    # Prose quotes its code in backticks, or ends with a full stop. `ruff check .` ends with one, too, but not with a word.
    is_prose = "`" in text or re.search(r"\w\.$", text) is not None
    return text if is_prose else ShellCommand(text)


def _evidence(place: Place, excerpt: str | None) -> Evidence:
    shown = None
    if excerpt is not None and excerpt.strip():
        shown = excerpt_of(excerpt)
    return Evidence(file=place.file, line=place.line, end_line=place.end_line, excerpt=shown)
