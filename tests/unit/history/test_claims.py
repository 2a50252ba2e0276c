"""Each claim of `flaky`, `began` and `quarantine suggest` is recomputed from the attempts that are stored."""

import datetime as dt
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.history.database import (
    ATTEMPT,
    COMMITS,
    JOB,
    TEST,
    HistoryWindow,
    Question,
)
from ci_doctor.history.evidence import AttemptOutcome, EvidenceFile
from ci_doctor.history.flaky import flaky_facts
from ci_doctor.history.one_test import attempts_of, began_facts, named_test, suggested
from ci_doctor.history.outcomes import flaky_outcome
from ci_doctor.model.facts.history import FlakyTestFacts
from ci_doctor.render.formatting import percent
from tests.support.histories import BEGIN_MS, HOUR_MS, E, F, I, P, S, history, run

WINDOW = HistoryWindow(since_ms=BEGIN_MS, until_ms=BEGIN_MS + 500 * HOUR_MS)
# When it began, its outcome, its step, its commit.
Stored = tuple[int, int, str | None, str]
Drawn = list[tuple[list[tuple[str, AttemptOutcome]], int, str | None]]
_OUTCOMES = st.sampled_from([P, P, P, F, F, E, S, I])
_RUNS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), _OUTCOMES), min_size=1, max_size=4),
        st.integers(0, 5),
        st.sampled_from(["unit", "gpu", None]),
    ),
    min_size=1,
    max_size=30,
)


def jobs_of(drawn: Drawn, deleted_at: int, broken_at: int) -> list[EvidenceFile]:
    """No two jobs have one time. `a` is deleted with a job, and `b` breaks with one, if they are reached.

    The commits of two jobs stand in any order.
    """
    jobs = []
    for at, (drawn_outcomes, commit, step) in enumerate(drawn):
        outcomes = []
        for name, outcome in drawn_outcomes:
            if name == "b" and broken_at <= at:
                outcomes += [(name, F), (name, F)]
            elif name == "b" and broken_at < len(drawn):
                outcomes.append((name, P))
            elif name != "a" or at < deleted_at:
                outcomes.append((name, outcome))
        outcomes.append(("c", P))
        number = (at + commit) // 2
        jobs.append(run(outcomes, at=at, commit=f"c{number}", step=step, agent=None))
    return jobs


def stored(connection: sa.Connection) -> dict[str, list[Stored]]:
    """Of each test its attempts in the order of time: time, outcome, step, commit."""
    query = (
        sa.select(TEST.c.name, ATTEMPT.c.started_ms, ATTEMPT.c.outcome, JOB.c.step, COMMITS.c.sha)
        .join(TEST, TEST.c.id == ATTEMPT.c.test_id)
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .join(COMMITS, COMMITS.c.id == JOB.c.commit_id)
        .order_by(ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number)
    )
    rows: dict[str, list[Stored]] = defaultdict(list)
    for name, moment, outcome, step, commit in connection.execute(query):
        rows[name].append((moment, outcome, step, commit))
    return rows


def check_flaky(attempts: list[Stored], claim: FlakyTestFacts | None) -> int:
    """On how many commits a test passed and failed in one step; `claim` says so, too."""
    decided = [each for each in attempts if each[1] in (P, F, E)]
    by_place = defaultdict(set)
    by_step = defaultdict(list)
    for _, outcome, step, commit in decided:
        by_place[step, commit].add(outcome != P)
        by_step[step].append(outcome != P)
    mixed = {commit for (_, commit), found in by_place.items() if len(found) == 2}
    changes = sum(one != other for found in by_step.values() for one, other in pairwise(found))
    assert (claim is not None) is (bool(mixed) or changes >= 3)
    if claim is None:
        return len(mixed)
    reds = [outcome != P for _, outcome, _, _ in decided]
    assert (claim.passed, claim.failed) == (reds.count(False), reds.count(True))
    assert claim.infra == sum(outcome == I for _, outcome, _, _ in attempts)
    assert (claim.mixed_commits, claim.transitions) == (len(mixed), changes)
    assert claim.is_proven is bool(mixed)
    assert claim.failure_rate.rate == round(reds.count(True) / len(reds), 6)
    last = max(moment for moment, outcome, _, _ in decided if outcome != P)
    assert claim.last_failed_at is not None
    assert dt.datetime.fromisoformat(claim.last_failed_at).timestamp() * 1000 == last
    return len(mixed)


@given(drawn=_RUNS, deleted_at=st.integers(3, 40), broken_at=st.integers(3, 40))
def test_no_claim_contradicts_the_attempts(drawn: Drawn, deleted_at: int, broken_at: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        history(Path(folder, "history"), jobs_of(drawn, deleted_at, broken_at)) as connection,
    ):
        rows = stored(connection)
        facts = flaky_facts(Question(connection, WINDOW))
        claimed = {each.name: each for each in facts.flaky}
        proven = {name: check_flaky(attempts, claimed.get(name)) for name, attempts in rows.items()}
        assert facts.attempts == sum(
            outcome != S for attempts in rows.values() for _, outcome, _, _ in attempts
        )
        for finding in flaky_outcome(facts).findings:
            name, commits = re.match(  # type: ignore[union-attr]
                r"tests\.test_a::(\w) passed and failed on (\d+) commits?; it fails in",
                finding.summary,
            ).groups()
            assert proven[name] == int(commits)
        check_began(connection, rows)
        check_suggested(connection, rows, facts.flaky)


def check_began(connection: sa.Connection, rows: dict[str, list[Stored]]) -> None:
    for name, attempts in rows.items():
        test = named_test(connection, name)
        began = began_facts(test, attempts_of(Question(connection, WINDOW), test.number))
        if began is None:
            continue
        counted = [each for each in attempts if each[1] in (P, F, E)]
        order: list[str | None] = list(dict.fromkeys(commit for *_, commit in counted))
        assert began.runs == len(counted)
        assert order.index(began.last_good) + 1 == order.index(began.first)
        assert order.index(began.first) <= order.index(began.last)
        assert began.is_better is (began.rate_after.rate < began.rate_before.rate)
        splits = set()
        for at in range(1, len(order)):
            shares = []
            for part in (order[:at], order[at:]):
                of_part = [each[1] != P for each in counted if each[3] in part]
                shares.append(round(sum(of_part) / len(of_part), 6))
            splits.add(tuple(shares))
        assert (began.rate_before.rate, began.rate_after.rate) in splits
        for commit in began.commits:
            of_commit = [each[1] != P for each in counted if each[3] == commit.commit]
            assert (commit.passed, commit.failed) == (of_commit.count(False), of_commit.count(True))


def check_suggested(
    connection: sa.Connection, rows: dict[str, list[Stored]], flaky: Sequence[FlakyTestFacts]
) -> None:
    facts = suggested(Question(connection, WINDOW), flaky, days=14)
    names = [each.test for each in facts.entries] + [each.test for each in facts.unsuggested]
    proven = [f"tests.test_a::{each.name}" for each in flaky if each.mixed_commits >= 2]
    assert sorted(names) == sorted(proven), "each is suggested or has its reason"
    by_name = {f"tests.test_a::{each.name}": each for each in flaky}
    for entry in facts.entries:
        claim = by_name[entry.test]
        assert entry.reason == (
            f"passed and failed on {claim.mixed_commits} commits; fails in "
            f"{percent(claim.failure_rate.rate)}"
        )
    for left in facts.unsuggested:
        check_reason(left.why, rows[left.test[-1]], rows)


def check_reason(why: str, own: list[Stored], rows: dict[str, list[Stored]]) -> None:
    """The numbers of a reason, in the words that a reader sees."""
    decided = [each for each in own if each[1] in (P, F, E)]
    reds = [outcome != P for _, outcome, _, _ in decided]
    mended = re.match(r"it looks mended: (\d+) passed .* after (\d+) failures? in (\d+) ", why)
    gone = re.match(r"it does not run any more: (\d+) later commits", why)
    began = re.match(r"it began with a commit, between (\w+) and (\w+): it fails in", why)
    if mended:
        passed, failures, runs = map(int, mended.groups())
        assert not any(reds[-passed:])
        assert reds[-passed - 1]
        assert (failures, runs) == (sum(reds), len(reds) - passed)
    elif gone:
        ran = [each for each in own if each[1] != S]
        last = max(moment for moment, *_ in ran)
        commits = {commit for *_, commit in ran}
        others = {each[3] for attempts in rows.values() for each in attempts if each[0] > last}
        assert 3 <= int(gone[1]) <= len(others - commits)
    else:
        assert began, why
        assert {began[1], began[2]} <= {commit for *_, commit in decided}
