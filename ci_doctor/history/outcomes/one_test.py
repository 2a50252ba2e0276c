# SPDX-License-Identifier: Apache-2.0
"""Pure. The history of one test, and its beginning -> outcomes."""

from collections.abc import Iterator

from ci_doctor.history.began import NAMED_FROM
from ci_doctor.history.outcomes.flaky import interval, test_label
from ci_doctor.model.facts.history import BeganFacts, OneTestFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, seconds
from ci_doctor.render.formatting import amount, percent

_MOST_ROWS = 15
# Below it a change is no more than a guess.


def one_test_outcome(facts: OneTestFacts) -> Outcome:
    """What is known of a test; it judges nothing."""
    ran = facts.passed + facts.failed
    label = test_label(facts.suite, facts.name)
    summary = (
        f"{label} failed in {facts.failed:,} of {amount(ran, 'attempt')}, "
        f"{interval(facts.failure_rate)}, from {facts.first_at[:10]} to {facts.last_at[:10]}"
    )
    return Outcome(verdict=None, summary=summary, tables=tuple(_tables(facts)), facts=facts)


def _tables(facts: OneTestFacts) -> Iterator[Table]:
    rows = [
        row("passed", facts.passed),
        row("failed", facts.failed),
        row("failed for a reason outside", facts.infra),
        row("skipped", facts.skipped),
        row("median duration", seconds(facts.median_s)),
    ]
    yield Table(title="Attempts", rows=tuple(rows))
    if facts.causes:
        causes = [row(title, count) for title, count in list(facts.causes.items())[:_MOST_ROWS]]
        yield Table(title="Causes", columns=("attempts",), rows=tuple(causes))
    agents = [
        row(
            each.agent, interval(each.failure_rate), f"{each.failed} of {each.passed + each.failed}"
        )
        for each in facts.agents[:_MOST_ROWS]
    ]
    yield Table(title="Agents", columns=("fails (95 %)", "failed"), rows=tuple(agents))
    yield Table(
        title="Newest attempts",
        columns=("outcome", "commit", "build", "agent"),
        rows=tuple(_newest(facts)),
    )


def _newest(facts: OneTestFacts) -> Iterator[Row]:
    for each in facts.last[:_MOST_ROWS]:
        at = each.at[:16].replace("T", " ")
        yield row(at, each.outcome, (each.commit or "")[:10], each.build, each.agent)


def began_outcome(facts: BeganFacts) -> Outcome:
    """When it began, or that nothing did; it judges nothing."""
    tables: tuple[Table, ...] = ()
    if facts.probability >= NAMED_FROM:
        tables = (_commits(facts),)
    return Outcome(verdict=None, summary=_summary(facts), tables=tables, facts=facts)


def _summary(facts: BeganFacts) -> str:
    label = test_label(facts.suite, facts.name)
    runs = amount(facts.runs, "run")
    if facts.probability < NAMED_FROM:
        return (
            f"{label}: {runs} do not show that its rate of failures changed "
            f"(probability {percent(facts.probability)}; {percent(NAMED_FROM)} is asked for)"
        )
    verb = "fails less" if facts.is_better else "fails more"
    since = f"since {_short(facts.first)}"
    if facts.first != facts.last:
        since = f"since a commit from {_short(facts.first)} to {_short(facts.last)}"
    return (
        f"{label} {verb} {since}: {interval(facts.rate_after)}, and before "
        f"{interval(facts.rate_before)}; the last commit before is {_short(facts.last_good)}"
    )


def _short(commit: str | None) -> str:
    return (commit or "an unknown one")[:12]


def _commits(facts: BeganFacts) -> Table:
    rows = []
    likeliest = sorted(facts.commits, key=lambda each: -each.probability)[:_MOST_ROWS]
    for each in facts.commits:
        if each in likeliest:
            ran = each.passed + each.failed
            at = each.first_at[:16].replace("T", " ")
            failed = f"{each.failed:,} of {ran:,}"
            rows.append(row(_short(each.commit), percent(each.probability), failed, at))
    return Table(
        title="It began with one of these (95 %)",
        columns=("probability", "failed", "first run"),
        rows=tuple(rows),
    )
