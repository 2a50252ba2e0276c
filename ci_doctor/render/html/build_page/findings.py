# SPDX-License-Identifier: Apache-2.0
"""Pure. The findings of a build's page: what is missing, and the rest, without what other parts of the page say."""

from msgspec import Struct

from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.report import Report
from ci_doctor.render.build_words import beginning
from ci_doctor.render.headline import worst_first


class PageFindings(Struct, frozen=True, kw_only=True):
    """`gaps` stand above everything else: beside them nothing is certain."""

    gaps: tuple[Finding, ...]
    others: tuple[Finding, ...]


def page_findings(report: Report, facts: BuildFacts) -> PageFindings:
    """The findings of `report`, without those of causes: each cause of `facts` is a row of the page."""
    shown_in_rows = _rules_of_causes(report, facts)
    rest = [each for each in worst_first(report) if each.rule not in shown_in_rows]
    gaps = [each for each in rest if each.severity is Severity.ERROR]
    others = [each for each in rest if each.severity is not Severity.ERROR]
    return PageFindings(gaps=tuple(gaps), others=tuple(others))


def _rules_of_causes(report: Report, facts: BuildFacts) -> frozenset[str]:
    """The rules whose findings repeat causes, known by their sentences: `a disk is full: 2 jobs failed in …`."""
    beginnings = tuple(map(beginning, facts.causes))
    repeated = [each.rule for each in report.findings if each.summary.startswith(beginnings)]
    return frozenset(repeated)
