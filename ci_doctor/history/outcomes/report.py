# SPDX-License-Identifier: Apache-2.0
"""Pure. What the page of the history shows -> an outcome."""

from pathlib import Path

from ci_doctor.model.facts.history import HistoryReportFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import text_table
from ci_doctor.render.formatting import amount


def report_outcome(facts: HistoryReportFacts, directory: Path) -> Outcome:
    """Where the page is, or that there is nothing to draw; it judges nothing."""
    since = facts.since[:10]
    if not facts.history_strip:
        tests = amount(facts.tests, "test")
        summary = f"nothing failed since {since} in {tests}: there is no page to draw"
        return Outcome(verdict=None, summary=summary, facts=facts)
    failed = facts.failing_tests - facts.outside_tests
    summary = f"{failed:,} of {amount(facts.tests, 'test')} failed since {since}"
    if facts.outside_tests:
        summary += f", and {facts.outside_tests:,} only for a reason outside the change"
    shown = len(facts.history_strip)
    if shown < facts.failing_tests:
        summary += f"; the page shows the {shown:,} likeliest flaky ones"
    page = text_table("Page", (str(directory / "report.html"),))
    return Outcome(verdict=None, summary=summary, tables=(page,), facts=facts)
