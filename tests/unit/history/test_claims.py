"""Each claim of `flaky`, `began` and `quarantine suggest` is recomputed from the attempts that are stored."""

import datetime as dt
import re
import tempfile
from collections import defaultdict
from pathlib import Path

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.errors import UsageError
from ci_doctor.history.began import began_facts
from ci_doctor.history.evidence import EvidenceFile
from ci_doctor.history.flaky import flaky_facts
from ci_doctor.history.kept_attempts import attempts_of
from ci_doctor.history.named_test import named_test
from ci_doctor.history.outcomes.flaky import flaky_outcome
from ci_doctor.history.quarantine import suggested
from ci_doctor.history.schema import ALL_BRANCHES, ATTEMPT, COMMITS, JOB, TEST
from ci_doctor.history.window import HistoryWindow
from ci_doctor.render.formatting import percent
from tests.support.histories import BEGIN_MS, HOUR_MS, E, F, I, P, S, history, run

WINDOW = HistoryWindow(since_ms=BEGIN_MS, until_ms=BEGIN_MS + 500 * HOUR_MS)
# name, outcome, step, commit, hour, host of the suite
Row = tuple[str, int, str, str | None, int, int]
_OUTCOMES = st.sampled_from([P, P, P, F, F, E, S, I])
_RUNS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), _OUTCOMES), min_size=1, max_size=4),
        st.integers(0, 5),
        st.sampled_from(["unit", "gpu", None]),
    ),
    min_size=1,
    max_size=25,
)


def jobs_of(drawn: list[tuple[list[tuple[str, object]], int, str | None]]) -> list[EvidenceFile]:
    """The commits come back in any order; no two jobs have one time."""
    return [
        run(outcomes, at=at, commit=f"c{commit}", step=step, agent=None)  # type: ignore[arg-type]
        for at, (outcomes, commit, step) in enumerate(drawn)
    ]


def stored(connection: sa.Connection) -> dict[str, list[sa.Row[tuple[int, int, str | None, str]]]]:
    """Of each test its attempts in the order of time: time, outcome, step, commit."""
    query = (
        sa.select(TEST.c.name, ATTEMPT.c.started_ms, ATTEMPT.c.outcome, JOB.c.step, COMMITS.c.sha)
        .join(TEST, TEST.c.id == ATTEMPT.c.test_id)
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .join(COMMITS, COMMITS.c.id == JOB.c.commit_id)
        .order_by(ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number)
    )
    rows = defaultdict(list)
    for name, *rest in connection.execute(query):
        rows[name].append(tuple(rest))
    return rows  # type: ignore[return-value]


@given(drawn=_RUNS)
def test_no_claim_contradicts_the_attempts(
    drawn: list[tuple[list[tuple[str, object]], int, str | None]],
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        history(Path(folder, "history"), jobs_of(drawn)) as connection,
    ):
        rows = stored(connection)
        facts = flaky_facts(connection, WINDOW)
        claimed = {each.name: each for each in facts.flaky}
        proven: dict[str, int] = {}
        for name, attempts in rows.items():
            reds = [outcome in (F, E) for _, outcome, _, _ in attempts if outcome in (P, F, E)]
            mixed = set()
            changes = 0
            by_place = defaultdict(list)
            by_step = defaultdict(list)
            for _, outcome, step, commit in attempts:
                if outcome in (P, F, E):
                    by_place[step, commit].append(outcome != P)
                    by_step[step].append(outcome != P)
            for (_, commit), found in by_place.items():
                if len(set(found)) == 2:
                    mixed.add(commit)
            for found in by_step.values():
                changes += sum(one != other for one, other in zip(found, found[1:], strict=False))
            proven[name] = len(mixed)
            assert (name in claimed) is (bool(mixed) or changes >= 3)
            if name not in claimed:
                continue
            claim = claimed[name]
            assert (claim.passed, claim.failed) == (reds.count(False), reds.count(True))
            assert claim.infra == sum(outcome == I for _, outcome, _, _ in attempts)
            assert (claim.mixed_commits, claim.transitions) == (len(mixed), changes)
            assert claim.is_proven is bool(mixed)
            assert claim.failure_rate.rate == round(reds.count(True) / len(reds), 6)
            last = max(moment for moment, outcome, _, _ in attempts if outcome in (F, E))
            assert claim.last_failed_at is not None
            assert dt.datetime.fromisoformat(claim.last_failed_at).timestamp() * 1000 == last
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


def check_began(connection: sa.Connection, rows: dict) -> None:  # type: ignore[type-arg]
    for name, attempts in rows.items():
        test = named_test(connection, name)
        try:
            began = began_facts(test, attempts_of(connection, test.number, WINDOW, ALL_BRANCHES))
        except UsageError:
            continue
        counted = [each for each in attempts if each[1] in (P, F, E)]
        order = list(dict.fromkeys(commit for *_, commit in counted))
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


def check_suggested(connection: sa.Connection, rows: dict, flaky: object) -> None:  # type: ignore[type-arg]
    facts = suggested(connection, flaky, WINDOW, days=14)  # type: ignore[arg-type]
    names = [each.test for each in facts.entries] + [each.test for each in facts.unsuggested]
    proven = [f"tests.test_a::{each.name}" for each in flaky if each.mixed_commits >= 2]  # type: ignore[attr-defined]
    assert sorted(names) == sorted(proven), "each is suggested or has its reason"
    by_name = {f"tests.test_a::{each.name}": each for each in flaky}  # type: ignore[attr-defined]
    for entry in facts.entries:
        claim = by_name[entry.test]
        assert entry.reason == (
            f"passed and failed on {claim.mixed_commits} commits; fails in "
            f"{percent(claim.failure_rate.rate)}"
        )
    for left in facts.unsuggested:
        attempts = [each for each in rows[left.test[-1]] if each[1] in (P, F, E)]
        reds = [outcome != P for _, outcome, _, _ in attempts]
        mended = re.match(
            r"it looks mended: (\d+) passed since its last failure, after (\d+) failures? in (\d+) ",
            left.why,
        )
        gone = re.match(r"it does not run any more: (\d+) later commits", left.why)
        began = re.match(
            r"it began with a commit, between (\w+) and (\w+): it fails in (.*) since, and in",
            left.why,
        )
        if mended:
            passed, failures, runs = map(int, mended.groups())
            assert reds[-passed:] == [False] * passed
            assert reds[-passed - 1]
            assert (failures, runs) == (sum(reds), len(reds) - passed)
        elif gone:
            last = max(moment for moment, *_ in rows[left.test[-1]] if _[0] != S)
            own = {commit for *_, commit in rows[left.test[-1]] if _[1] != S}
            later = {
                commit
                for others in rows.values()
                for moment, _, _, commit in others
                if moment > last and commit not in own
            }
            assert 3 <= int(gone[1]) <= len(later)
        else:
            assert began, left.why
            assert {began[1], began[2]} <= {commit for *_, commit in attempts}
