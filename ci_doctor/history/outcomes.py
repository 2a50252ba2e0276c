# SPDX-License-Identifier: Apache-2.0
"""Pure. What a question to the history answers -> an outcome."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ci_doctor.history.address import NEWEST
from ci_doctor.history.evidence import UnreadableEvidence, test_label
from ci_doctor.history.statistics import NAMED_FROM
from ci_doctor.model.facts.history import (
    BeganFacts,
    ColumnFacts,
    FlakyFacts,
    HistoryReportFacts,
    IngestFacts,
    OneTestFacts,
    QuarantineFacts,
    RateFacts,
    StoredFacts,
)
from ci_doctor.model.outcome import (
    Evidence,
    Outcome,
    Row,
    Rule,
    Severity,
    Table,
    Verdict,
    row,
    seconds,
    text_table,
)
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
MOVED_TIMES = Rule(
    id="history/moved-times",
    severity=Severity.WARNING,
    meaning=(
        "Attempts of a file have times that cannot be true: the clock of the machine was fast, or never set. "
        "They count at the nearest possible time: the end of the job, the ingest, or the time of the file."
    ),
    remedy="Set the clock of the agent that wrote the file (NTP).",
)
RULES = (UNREADABLE, MOVED_TIMES, PROVEN_FLAKY)


# --- the flaky tests -> an outcome ---

_MOST_ROWS = 30
_MOST_FINDINGS = 3  # the table has the others


def flaky_outcome(facts: FlakyFacts) -> Outcome:
    """It judges nothing: the verdict is None whatever is flaky."""
    tables = []
    if facts.flaky:
        rows = [
            row(
                test_label(test.suite, test.name),
                interval(test.failure_rate),
                f"{test.failed:,} of {test.passed + test.failed:,}",
                test.mixed_commits,
                test.transitions,
                test.infra,
            )
            for test in facts.flaky[:_MOST_ROWS]
        ]
        rows += _more(len(facts.flaky))
        columns = ("fails (95 %)", "failed", "commits", "changes", "infra")
        tables.append(Table(title="Flaky tests", columns=columns, rows=tuple(rows)))
    if facts.columns:
        tables.append(_columns(facts.columns))
    return Outcome(
        verdict=None,
        summary=_flaky_summary(facts),
        findings=tuple(
            PROVEN_FLAKY.finding(
                f"{test_label(test.suite, test.name)} passed and failed on "
                f"{amount(test.mixed_commits, 'commit')}; it fails in {interval(test.failure_rate)}"
            )
            for test in facts.flaky[:_MOST_FINDINGS]
            if test.is_proven
        ),
        tables=tuple(tables),
        facts=facts,
    )


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


def _more(count: int) -> list[Row]:
    more = count - _MOST_ROWS
    return [row(f"… and {more:,} more in report.json")] if more > 0 else []


def _columns(columns: tuple[ColumnFacts, ...]) -> Table:
    rows = [
        row(
            f"{column.agent}, {column.hour[:16].replace('T', ' ')}",
            f"{column.failed:,} of {column.passed + column.failed:,}",
            "infrastructure" if column.is_infra else "the machine or the change",
        )
        for column in columns[:_MOST_ROWS]
    ]
    rows += _more(len(columns))
    return Table(
        title="Hours of an agent in which far more failed than usual",
        columns=("failed", "counts as"),
        rows=tuple(rows),
    )


# --- the history of one test, and its beginning -> outcomes ---

_MOST_ROWS_OF_A_TEST = 15
# Below it a change is no more than a guess.


def unanswered_outcome(suite: str, name: str, why: str) -> Outcome:
    """A question about a test that its attempts cannot answer; `why` goes on after its name."""
    summary = f"{test_label(suite, name)} {why}; --days looks further back"
    return Outcome(verdict=Verdict.VOID, summary=summary)


def one_test_outcome(facts: OneTestFacts) -> Outcome:
    """What is known of a test; it judges nothing."""
    ran = facts.passed + facts.failed
    label = test_label(facts.suite, facts.name)
    failed = (
        f"failed in {facts.failed:,} of {amount(ran, 'attempt')}, {interval(facts.failure_rate)}"
    )
    if not ran:
        failed = "neither passed nor failed by itself"
    summary = f"{label} {failed}, from {facts.first_at[:10]} to {facts.last_at[:10]}"
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
    newest = [
        row(
            each.at[:16].replace("T", " "),
            each.outcome,
            (each.commit or "")[:10],
            each.build,
            each.agent,
        )
        for each in facts.last[:_MOST_ROWS_OF_A_TEST]
    ]
    columns = ("outcome", "commit", "build", "agent")
    yield Table(title="Newest attempts", columns=columns, rows=tuple(newest))


def began_outcome(facts: BeganFacts) -> Outcome:
    """When it began, or that nothing did; it judges nothing."""
    tables = (_commits(facts),) if facts.probability >= NAMED_FROM else ()
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
    likeliest = sorted(facts.commits, key=lambda each: -each.probability)[:_MOST_ROWS_OF_A_TEST]
    rows = [
        row(
            _short(each.commit),
            percent(each.probability),
            f"{each.failed:,} of {each.passed + each.failed:,}",
            each.first_at[:16].replace("T", " "),
        )
        for each in facts.commits
        if each in likeliest
    ]
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


def ingest_outcome(facts: IngestFacts, unreadable: Sequence[UnreadableEvidence]) -> Outcome:
    """What came in. It is `void` if no file held evidence."""
    findings = [
        UNREADABLE.finding(f"{each.place}: {each.problem}", evidence=(Evidence(file=each.place),))
        for each in unreadable
    ]
    findings += [
        MOVED_TIMES.finding(
            f"{place}: {amount(attempts, 'attempt')} began before 2000, after the end of its job, "
            "or after now",
            evidence=(Evidence(file=place),),
            remedy=MOVED_TIMES.remedy,
        )
        for place, attempts in facts.moved.items()
    ]
    rows = [
        row("new files", facts.files),
        row("attempts", facts.attempts),
        row("files that were there", facts.known_files),
        row("files that say what another one says", len(facts.left_out)),
        row("files that could not be read", len(facts.unreadable)),
        row("XML files of something else", _names(facts.other_xml)),
        row("jobs known better than before", len(facts.late_jobs)),
    ]
    is_empty = not facts.files and not facts.known_files
    summary = f"wrote {amount(facts.attempts, 'attempt')} of {amount(facts.files, 'new file')} to {facts.database}"
    if facts.known_files:
        summary += f"; already known: {amount(facts.known_files, 'file')}"
    if is_empty:
        summary = (
            "no file holds evidence of an attempt or a job: reports of ci-doctor and JUnit XML do "
            "(`pytest --junit-xml FILE`)"
        )
    return Outcome(
        verdict=Verdict.VOID if is_empty else None,
        summary=summary,
        findings=tuple(findings),
        tables=(Table(title="Evidence", rows=tuple(rows)),),
        facts=facts,
    )


def _names(places: Mapping[str, str]) -> str:
    """How many there are, with the first three."""
    if not places:
        return "0"
    more = ", …" if len(places) > _NAMED else ""
    return f"{len(places)}: {', '.join(list(places)[:_NAMED])}{more}"


def upgrade_outcome(before: str | None, database: str) -> Outcome:
    """What became of the schema. before: its version, None if there was none."""
    summary = f"{database}: the schema is {NEWEST} now; it was {before or 'not made'}"
    if before == NEWEST:
        summary = f"{database}: the schema is {NEWEST}, the newest"
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
