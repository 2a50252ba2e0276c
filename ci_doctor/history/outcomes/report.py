# SPDX-License-Identifier: Apache-2.0
"""Pure. What the page of the history shows -> an outcome."""

from pathlib import Path

from ci_doctor.model.facts.history import HistoryReportFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.render.formatting import amount


def report_outcome(facts: HistoryReportFacts, directory: Path) -> Outcome:
    """Where the page is, or that there is nothing to draw; it judges nothing."""
    tests = amount(facts.tests, "test")
    if not facts.history_strip:
        summary = f"nothing failed since {facts.since[:10]} in {tests}: there is no page to draw"
    else:
        shown = amount(len(facts.history_strip), "test")
        page = directory / "report.html"
        summary = f"{shown} of {facts.tests:,} failed since {facts.since[:10]}; the page is {page}"
    return Outcome(verdict=None, summary=summary, facts=facts)
