# SPDX-License-Identifier: Apache-2.0
"""Pure. The findings of a build's page: what is missing, and the rest, without what other parts of the page say."""

from msgspec import Struct

from ci_doctor.model.facts.build import CAUSE_RULE
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.report import Report
from ci_doctor.render.headline import worst_first


class PageFindings(Struct, frozen=True, kw_only=True):
    """`gaps` stand above everything else: beside them nothing is certain."""

    gaps: tuple[Finding, ...]
    others: tuple[Finding, ...]


def page_findings(report: Report) -> PageFindings:
    """The findings of `report`, without those of causes: each cause is a row of the page."""
    rest = [each for each in worst_first(report) if each.rule != CAUSE_RULE]
    gaps = [each for each in rest if each.severity is Severity.ERROR]
    others = [each for each in rest if each.severity is not Severity.ERROR]
    return PageFindings(gaps=tuple(gaps), others=tuple(others))
