# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of the commands of `ci-doctor history`. Times are RFC 3339 in UTC."""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.model.facts import Facts

# The table that other commands' reports have if a history is kept.
HISTORY_TITLE = "History"


class IngestFacts(Facts, frozen=True, kw_only=True):
    """What came into the database.

    files: new ones, with `attempts` in all. known_files: that were there already. left_out: files
    that say what another file says. unreadable: from a path to what is wrong with it. late_jobs: ids
    of jobs whose earlier attempts got a branch, a commit or a step. other_xml: from a path of XML to what it
    is instead of JUnit. moved: from a path to its attempts whose times could not be true.
    """

    database: str
    files: int
    attempts: int
    known_files: int
    left_out: tuple[str, ...]
    unreadable: dict[str, str]
    late_jobs: tuple[str, ...] = ()
    other_xml: Mapping[str, str] = {}
    moved: Mapping[str, int] = {}


class RateFacts(Struct, frozen=True, kw_only=True):
    """A rate (0 to 1) with the ends of its 95 % interval (Wilson)."""

    rate: float
    low: float
    high: float


class FlakyTestFacts(Struct, frozen=True, kw_only=True):
    """A test that passed and failed.

    passed, failed: attempts, without those in columns of infrastructure. infra: failures whose
    cause lies outside, and those in such columns. mixed_commits: commits on which it passed and
    failed in one step. transitions: how often a pass followed a failure, or a failure a pass, in the order of
    time. is_proven: it passed and failed in one step of a commit.
    """

    suite: str
    name: str
    passed: int
    failed: int
    infra: int
    failure_rate: RateFacts
    mixed_commits: int
    transitions: int
    is_proven: bool
    last_failed_at: str | None


class ColumnFacts(Struct, frozen=True, kw_only=True):
    """An agent in an hour in which far more failed than usual.

    is_infra: the same commits did well elsewhere; otherwise the change may be the cause, and its
    failures count.
    """

    agent: str
    hour: str
    passed: int
    failed: int
    is_infra: bool


class FlakyFacts(Facts, frozen=True, kw_only=True):
    """The flaky tests since `since`, the surest first; `tests` is how many tests ran."""

    since: str
    branch: str | None
    tests: int
    attempts: int
    flaky: tuple[FlakyTestFacts, ...]
    columns: tuple[ColumnFacts, ...]


class HistoryAttemptFacts(Struct, frozen=True, kw_only=True):
    """One attempt of a test. outcome: `passed`, `failed`, `error`, `skipped` or `infra`. job: its id."""

    at: str
    outcome: str
    duration_s: float | None
    branch: str | None
    commit: str | None
    job: str
    build: int | None
    agent: str | None
    cause: str | None


class AgentRateFacts(Struct, frozen=True, kw_only=True):
    """How a test did on one agent."""

    agent: str
    passed: int
    failed: int
    failure_rate: RateFacts


class OneTestFacts(Facts, frozen=True, kw_only=True):
    """The history of one test. last: its newest attempts, the newest first."""

    suite: str
    name: str
    passed: int
    failed: int
    infra: int
    skipped: int
    failure_rate: RateFacts
    first_at: str
    last_at: str
    median_s: float | None
    causes: dict[str, int]
    agents: tuple[AgentRateFacts, ...]
    last: tuple[HistoryAttemptFacts, ...]


class CommitRunFacts(Struct, frozen=True, kw_only=True):
    """What a test did on a commit, and the probability that the change began with it."""

    commit: str
    first_at: str
    passed: int
    failed: int
    probability: float


class BeganFacts(Facts, frozen=True, kw_only=True):
    """When a test began to fail more often.

    probability: that its rate changed at all. first, last: the interval that holds the first bad
    commit with a probability of 95 %. last_good: the commit before it. commits: those of the
    interval. rate_before, rate_after: of failures. is_better: it fails less since then.
    """

    suite: str
    name: str
    probability: float
    last_good: str | None
    first: str | None
    last: str | None
    rate_before: RateFacts
    rate_after: RateFacts
    is_better: bool
    runs: int
    commits: tuple[CommitRunFacts, ...]


class QuarantineEntryFacts(Struct, frozen=True, kw_only=True):
    """An entry to paste. until: the day on which it is to be looked at again."""

    test: str
    reason: str
    until: str


class UnsuggestedFacts(Struct, frozen=True, kw_only=True):
    """A flaky test that gets no entry, and why."""

    test: str
    why: str


class QuarantineFacts(Facts, frozen=True, kw_only=True):
    """The tests to put into quarantine; `toml` is the text for ci-doctor-quarantine.toml."""

    entries: tuple[QuarantineEntryFacts, ...]
    toml: str
    unsuggested: tuple[UnsuggestedFacts, ...] = ()


class StoredFacts(Facts, frozen=True, kw_only=True):
    """What a command did to the database.

    attempts: written or removed.
    """

    database: str
    attempts: int = 0


class StripRow(Struct, frozen=True, kw_only=True):
    """A test of the heat strip.

    cells: a character a column: `.` it did not run, `0` it passed, `1` to `9` the share of failures
    in tenths (rounded up), `i` it failed for a reason outside.
    """

    suite: str
    name: str
    passed: int
    failed: int
    failure_rate: RateFacts
    mixed_commits: int
    cells: str


class HistoryReportFacts(Facts, frozen=True, kw_only=True):
    """The page of the history. begins: of each column of the strip; infra: those of a column.

    failing_tests: that failed at all; outside_tests: those of them that failed only for a reason
    outside the change. The strip has the likeliest flaky ones, 200 at most.
    """

    since: str
    until: str
    branch: str | None
    column_s: float
    history_strip: tuple[StripRow, ...]
    begins: tuple[str, ...]
    infra: tuple[int, ...]
    columns: tuple[ColumnFacts, ...]
    failing_tests: int
    outside_tests: int
    tests: int
    attempts: int
