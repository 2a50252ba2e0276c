# SPDX-License-Identifier: Apache-2.0
"""Pure. The trend -> an outcome."""

from ci_doctor.history.outcomes.flaky import interval
from ci_doctor.model.facts.history import TrendFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, seconds


def trend_outcome(facts: TrendFacts) -> Outcome:
    """The periods as a table; it judges nothing."""
    if not facts.periods:
        return Outcome(verdict=None, summary="nothing ran in this time", facts=facts)
    rows = []
    for each in facts.periods:
        cells = (
            interval(each.failure_rate),
            f"{each.failed:,} of {each.passed + each.failed:,}",
            f"{each.failing_tests:,} of {each.tests:,}",
            each.infra,
            seconds(each.duration_s),
        )
        rows.append(row(each.begins, *cells))
    columns = ("fails (95 %)", "failed", "failing tests", "infra", "time")
    return Outcome(
        verdict=None,
        summary=_summary(facts),
        tables=(Table(title="Attempts by time", columns=columns, rows=tuple(rows)),),
        facts=facts,
    )


def _summary(facts: TrendFacts) -> str:
    first = facts.periods[0].failure_rate
    last = facts.periods[-1].failure_rate
    change = "no clear change: the intervals overlap"
    if last.low > first.high:
        change = "more than at first"
    elif last.high < first.low:
        change = "less than at first"
    return f"{interval(last)} of the attempts failed at last, {interval(first)} at first; {change}"
