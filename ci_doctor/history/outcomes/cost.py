# SPDX-License-Identifier: Apache-2.0
"""Pure. What causes cost -> an outcome."""

from collections.abc import Sequence
from typing import Final

from ci_doctor.model.facts.history import CauseCostFacts, CostFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, seconds
from ci_doctor.render.formatting import amount, duration

_MOST_ROWS: Final = 15
_HOUR_S: Final = 3600


def cost_outcome(facts: CostFacts) -> Outcome:
    """The dearest causes first; it judges nothing."""
    tables = []
    if facts.jobs:
        tables.append(_table("Jobs by their cause (their whole time)", "jobs", facts.jobs))
    if facts.attempts:
        tables.append(
            _table("Failed attempts by their cause (their own time)", "attempts", facts.attempts)
        )
    return Outcome(verdict=None, summary=_summary(facts), tables=tuple(tables), facts=facts)


def _summary(facts: CostFacts) -> str:
    since = f"since {facts.since[:10]}"
    if not facts.jobs and not facts.attempts:
        return f"nothing failed with a cause {since}"
    lost = sum(cause.seconds for cause in facts.jobs)
    in_attempts = sum(cause.seconds for cause in facts.attempts)
    jobs = amount(sum(cause.count for cause in facts.jobs), "job")
    attempts = amount(sum(cause.count for cause in facts.attempts), "failed attempt")
    return f"{jobs} with a cause took {duration(lost)}, {attempts} {duration(in_attempts)}, {since}"


def _table(title: str, unit: str, causes: Sequence[CauseCostFacts]) -> Table:
    rows = []
    for cause in causes[:_MOST_ROWS]:
        hours = "unknown" if cause.gpu_s is None else f"{cause.gpu_s / _HOUR_S:,.1f}"
        cells = (cause.count, seconds(cause.seconds), hours, cause.last_at[:10])
        rows.append(row(cause.title, *cells))
    if len(causes) > _MOST_ROWS:
        rows.append(row(f"… {len(causes) - _MOST_ROWS:,} more are in report.json"))
    return Table(title=title, columns=(unit, "time", "GPU hours", "last"), rows=tuple(rows))
