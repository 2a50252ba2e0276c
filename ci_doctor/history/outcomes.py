# SPDX-License-Identifier: Apache-2.0
"""Pure. What a question to the history answers -> an outcome."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ci_doctor.history.evidence import Ingested, SchemaChange
from ci_doctor.history.one_test import NAMED_FROM
from ci_doctor.model.facts.history import (
    BeganFacts,
    ColumnFacts,
    FlakyFacts,
    FlakyTestFacts,
    HistoryReportFacts,
    IngestFacts,
    OneTestFacts,
    QuarantineFacts,
    RateFacts,
    StoredFacts,
)
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, seconds, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount, percent

# --- the rules of findings about the history ---

UNREADABLE = Rule(
    id="history/unreadable-evidence",
    severity=Severity.WARNING,
    meaning=(
        "A file that may hold evidence could not be read, so its attempts are missing from the "
        "history. If no file can be read, the result is `void`."
    ),
    remedy="See what is wrong with the file, and ingest it again; what came in stays.",
)
PROVEN_FLAKY = Rule(
    id="history/proven-flaky",
    severity=Severity.WARNING,
    meaning=(
        "A test passed and failed in the same step of a commit, and its failures do not lie in a column of "
        "infrastructure. The change did not decide its result."
    ),
    remedy=(
        "`ci-doctor history test NAME` shows its attempts and causes, `ci-doctor history began "
        "NAME` when it began, and `ci-doctor history quarantine suggest` an entry that keeps it "
        "from deciding."
    ),
)
INFRA_COLUMN = Rule(
    id="history/infra-column",
    severity=Severity.NOTE,
    meaning=(
        "On one agent in one hour far more attempts failed than usual, and the same commits did "
        "well elsewhere. These failures count as infrastructure, not against the tests."
    ),
    remedy="`ci-doctor doctor` on that agent says whether it is fit.",
)
OPEN_COLUMN = Rule(
    id="history/open-column",
    severity=Severity.NOTE,
    meaning=(
        "On one agent in one hour far more attempts failed than usual, and nothing shows the same "
        "commits doing well elsewhere. The change may be the cause, so these failures count."
    ),
    remedy="Run the commit once more on another agent, and ingest the result.",
)
MOVED_TIMES = Rule(
    id="history/moved-times",
    severity=Severity.WARNING,
    meaning=(
        "Attempts of a file have times that cannot be true: the clock of the machine was fast, or never set. "
        "They count at the nearest possible time: the end of the job, the ingest, or the time of the file."
    ),
    remedy="Set the clock of the agent that wrote the file (NTP).",
)
RULES = (UNREADABLE, MOVED_TIMES, PROVEN_FLAKY, INFRA_COLUMN, OPEN_COLUMN)


# --- the flaky tests -> an outcome ---

_MOST_ROWS = 30
_MOST_FINDINGS = 3  # the table has the others


def flaky_outcome(facts: FlakyFacts) -> Outcome:
    """It judges nothing: the verdict is None whatever is flaky."""
    tables = []
    if facts.flaky:
        rows = [_row(test) for test in facts.flaky[:_MOST_ROWS]]
        if len(facts.flaky) > _MOST_ROWS:
            rows.append(row(f"… {len(facts.flaky) - _MOST_ROWS:,} more are in report.json"))
        columns = ("fails (95 %)", "failed", "commits", "changes", "infra")
        tables.append(Table(title="Flaky tests", columns=columns, rows=tuple(rows)))
    if facts.columns:
        tables.append(_columns(facts.columns))
    return Outcome(
        verdict=None,
        summary=_flaky_summary(facts),
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


def _flaky_summary(facts: FlakyFacts) -> str:
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


# --- the history of one test, and its beginning -> outcomes ---

_MOST_ROWS_OF_A_TEST = 15
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
        causes = [
            row(title, count) for title, count in list(facts.causes.items())[:_MOST_ROWS_OF_A_TEST]
        ]
        yield Table(title="Causes", columns=("attempts",), rows=tuple(causes))
    agents = [
        row(
            each.agent, interval(each.failure_rate), f"{each.failed} of {each.passed + each.failed}"
        )
        for each in facts.agents[:_MOST_ROWS_OF_A_TEST]
    ]
    yield Table(title="Agents", columns=("fails (95 %)", "failed"), rows=tuple(agents))
    yield Table(
        title="Newest attempts",
        columns=("outcome", "commit", "build", "agent"),
        rows=tuple(_newest(facts)),
    )


def _newest(facts: OneTestFacts) -> Iterator[Row]:
    for each in facts.last[:_MOST_ROWS_OF_A_TEST]:
        at = each.at[:16].replace("T", " ")
        yield row(at, each.outcome, (each.commit or "")[:10], each.build, each.agent)


def began_outcome(facts: BeganFacts) -> Outcome:
    """When it began, or that nothing did; it judges nothing."""
    tables: tuple[Table, ...] = ()
    if facts.probability >= NAMED_FROM:
        tables = (_commits(facts),)
    return Outcome(verdict=None, summary=_test_summary(facts), tables=tables, facts=facts)


def _test_summary(facts: BeganFacts) -> str:
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
    likeliest = sorted(facts.commits, key=lambda each: -each.probability)[:_MOST_ROWS_OF_A_TEST]
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


# --- what the page of the history shows -> an outcome ---


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


# --- what was written to the history -> outcomes ---

_NAMED: Final = 3


def ingest_outcome(ingested: Ingested, database: str) -> Outcome:
    """What came in. It is `void` if no file held evidence."""
    unreadable = [each for each in ingested.unreadable if not each.is_other]
    facts = IngestFacts(
        database=database,
        files=ingested.files,
        attempts=ingested.attempts,
        known_files=ingested.known_files,
        left_out=ingested.left_out,
        unreadable={each.place: each.problem for each in unreadable},
        other_xml={each.place: each.problem for each in ingested.unreadable if each.is_other},
        moved={each.place: each.attempts for each in ingested.moved},
        late_jobs=ingested.late_jobs,
    )
    findings = [
        UNREADABLE.finding(f"{each.place}: {each.problem}", evidence=(Evidence(file=each.place),))
        for each in unreadable
    ]
    findings += [
        MOVED_TIMES.finding(
            f"{each.place}: {amount(each.attempts, 'attempt')} began before 2000, after the end of its job, "
            "or after now",
            evidence=(Evidence(file=each.place),),
            remedy=MOVED_TIMES.remedy,
        )
        for each in ingested.moved
    ]
    is_empty = not ingested.files and not ingested.known_files
    rows = [
        row("new files", facts.files),
        row("attempts", facts.attempts),
        row("files that were there", facts.known_files),
        row("files that say what another one says", len(facts.left_out)),
        row("files that could not be read", len(facts.unreadable)),
        row("XML files of something else", _names(facts.other_xml)),
        row("jobs known better than before", len(facts.late_jobs)),
    ]
    return Outcome(
        verdict=Verdict.VOID if is_empty else None,
        summary=_stored_summary(ingested, database, is_empty=is_empty),
        findings=tuple(findings),
        tables=(Table(title="Evidence", rows=tuple(rows)),),
        facts=facts,
    )


def _stored_summary(ingested: Ingested, database: str, *, is_empty: bool) -> str:
    if is_empty:
        return (
            "no file holds evidence of an attempt or a job: reports of ci-doctor and JUnit XML do "
            "(`pytest --junit-xml FILE`)"
        )
    came = f"{amount(ingested.attempts, 'attempt')} of {amount(ingested.files, 'new file')}"
    known = ""
    if ingested.known_files:
        known = f"; already known: {amount(ingested.known_files, 'file')}"
    return f"wrote {came} to {database}{known}"


def _names(places: Mapping[str, str]) -> str:
    """How many there are, with the first three."""
    if not places:
        return "0"
    more = ", …" if len(places) > _NAMED else ""
    return f"{len(places)}: {', '.join(list(places)[:_NAMED])}{more}"


def upgrade_outcome(change: SchemaChange, database: str) -> Outcome:
    """What became of the schema."""
    if change.before == change.after:
        summary = f"{database}: the schema is {change.after}, the newest"
    else:
        summary = (
            f"{database}: the schema is {change.after} now; it was {change.before or 'not made'}"
        )
    return Outcome(verdict=None, summary=summary, facts=StoredFacts(database=database))


def prune_outcome(removed: int, first_day: str, database: str) -> Outcome:
    """What was removed."""
    return Outcome(
        verdict=None,
        summary=f"removed {amount(removed, 'attempt')} before {first_day} from {database}",
        facts=StoredFacts(database=database, attempts=removed),
    )


def quarantine_outcome(facts: QuarantineFacts) -> Outcome:
    """The entries to paste; it changes no file."""
    left: tuple[Table, ...] = ()
    if facts.unsuggested:
        rows = tuple(row(each.test, each.why) for each in facts.unsuggested)
        left = (Table(title="Flaky, and not suggested", rows=rows),)
    if not facts.entries:
        summary = "no test passed and failed on two commits: nothing is to be put into quarantine"
        if facts.unsuggested:
            tests = amount(len(facts.unsuggested), "flaky test")
            summary = f"nothing is to be put into quarantine: {tests} need another answer"
        return Outcome(verdict=None, summary=summary, tables=left, facts=facts)
    tests = amount(len(facts.entries), "test")
    return Outcome(
        verdict=None,
        summary=f"entries of {tests} for ci-doctor-quarantine.toml; name an owner for each",
        tables=(text_table("Entries", tuple(facts.toml.splitlines())), *left),
        facts=facts,
    )
