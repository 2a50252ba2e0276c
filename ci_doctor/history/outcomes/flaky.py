# SPDX-License-Identifier: Apache-2.0
"""Pure. The flaky tests -> an outcome."""

from collections.abc import Iterator

from ci_doctor.history.rules import INFRA_COLUMN, OPEN_COLUMN, PROVEN_FLAKY
from ci_doctor.model.facts.history import ColumnFacts, FlakyFacts, FlakyTestFacts, RateFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row
from ci_doctor.render.formatting import amount, percent

_MOST_ROWS = 30
_MOST_FINDINGS = 3  # the table has the others


def flaky_outcome(facts: FlakyFacts) -> Outcome:
    """It judges nothing: the verdict is None whatever is flaky."""
    tables = []
    if facts.flaky:
        tables.append(_table(facts))
    if facts.columns:
        tables.append(_columns(facts.columns))
    return Outcome(
        verdict=None,
        summary=_summary(facts),
        findings=tuple(_findings(facts)),
        tables=tuple(tables),
        facts=facts,
    )


def test_label(suite: str, name: str) -> str:
    """What a reader calls a test, and what `history test` takes."""
    return f"{suite}::{name}" if suite else name


def interval(rate: RateFacts) -> str:
    """A rate as `4 % (2 % to 7 %)`."""
    return f"{percent(rate.rate)} ({percent(rate.low)} to {percent(rate.high)})"


def _summary(facts: FlakyFacts) -> str:
    if not facts.tests:
        return f"nothing ran since {facts.since[:10]}"
    ran = f"{amount(facts.attempts, 'attempt')} of {amount(facts.tests, 'test')}"
    since = f"since {facts.since[:10]}"
    if not facts.flaky:
        return f"no test is flaky in {ran} {since}"
    proven = sum(test.is_proven for test in facts.flaky)
    return (
        f"{amount(len(facts.flaky), 'test')} of {facts.tests:,} flaky, {proven:,} of them proven, "
        f"in {amount(facts.attempts, 'attempt')} {since}"
    )


def _table(facts: FlakyFacts) -> Table:
    rows = [_row(test) for test in facts.flaky[:_MOST_ROWS]]
    if len(facts.flaky) > _MOST_ROWS:
        rows.append(row(f"… {len(facts.flaky) - _MOST_ROWS:,} more are in report.json"))
    columns = ("fails (95 %)", "failed", "commits", "changes", "infra")
    return Table(title="Flaky tests", columns=columns, rows=tuple(rows))


def _row(test: FlakyTestFacts) -> Row:
    return row(
        test_label(test.suite, test.name),
        interval(test.failure_rate),
        f"{test.failed:,} of {test.passed + test.failed:,}",
        test.mixed_commits,
        test.transitions,
        test.infra,
    )


def _columns(columns: tuple[ColumnFacts, ...]) -> Table:
    rows = []
    for column in columns[:_MOST_ROWS]:
        ran = column.passed + column.failed
        meaning = "infrastructure" if column.is_infra else "the machine or the change"
        rows.append(
            row(
                f"{column.agent}, {column.hour[:16].replace('T', ' ')}",
                f"{column.failed:,} of {ran:,}",
                meaning,
            )
        )
    if len(columns) > _MOST_ROWS:
        rows.append(row(f"… {len(columns) - _MOST_ROWS:,} more are in report.json"))
    return Table(
        title="Hours of an agent in which far more failed than usual",
        columns=("failed", "counts as"),
        rows=tuple(rows),
    )


def _findings(facts: FlakyFacts) -> Iterator[Finding]:
    for test in facts.flaky[:_MOST_FINDINGS]:
        if test.is_proven:
            yield _proven(test)
    for column in facts.columns[:_MOST_FINDINGS]:
        rule = INFRA_COLUMN if column.is_infra else OPEN_COLUMN
        ran = column.passed + column.failed
        yield rule.finding(
            f"{column.failed:,} of {ran:,} attempts failed on {column.agent} in the hour of "
            f"{column.hour[:16].replace('T', ' ')}"
        )


def _proven(test: FlakyTestFacts) -> Finding:
    label = test_label(test.suite, test.name)
    return PROVEN_FLAKY.finding(
        f"{label} passed and failed on {amount(test.mixed_commits, 'commit')}; it fails in "
        f"{interval(test.failure_rate)}"
    )
