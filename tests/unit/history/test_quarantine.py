import datetime as dt
import tomllib
from pathlib import Path

import click
import pytest

from ci_doctor.commands.history import suggest
from ci_doctor.errors import ConfigError
from ci_doctor.history.database import HistoryWindow, Question
from ci_doctor.history.evidence import AttemptOutcome, EvidenceFile
from ci_doctor.history.flaky import flaky_facts
from ci_doctor.history.one_test import quarantine_facts, suggested
from ci_doctor.history.statistics import wilson
from ci_doctor.model.facts.history import FlakyTestFacts, QuarantineFacts
from ci_doctor.pytest_runs.quarantine import (
    MOST_DAYS,
    QuarantineEntry,
    quarantine,
    read_quarantine,
)
from tests.support.histories import BEGIN_MS, HOUR_MS, F, P, history, run


def flaky(name: str, commits: int) -> FlakyTestFacts:
    return FlakyTestFacts(
        suite="tests.test_a",
        name=name,
        passed=9,
        failed=1,
        infra=0,
        failure_rate=wilson(1, 10),
        mixed_commits=commits,
        transitions=2,
        is_proven=True,
        last_failed_at=None,
    )


def test_no_longer_time_is_suggested_than_a_run_of_pytest_accepts_without_a_word() -> None:
    facts = quarantine_facts([flaky("x", 2)], {}, now_ms=0, days=MOST_DAYS)
    entry = QuarantineEntry(
        test="x", reason="r", owner="o", until=dt.date.fromisoformat(facts.entries[0].until)
    )

    assert quarantine([entry], ["x"], dt.date(1970, 1, 1)).long == ()
    for days in (MOST_DAYS + 1, 10**12):
        with pytest.raises(click.BadParameter, match="90"):
            suggest.make_context("suggest", ["--for-days", str(days)])


def test_tests_proven_by_two_commits_get_an_entry_that_ends() -> None:
    facts = quarantine_facts([flaky('x["\\é\x7f]', 2), flaky("y", 1)], {}, now_ms=0, days=14)

    (entry,) = tomllib.loads(facts.toml)["quarantine"]
    assert entry["test"] == 'tests.test_a::x["\\é\x7f]'
    assert entry["reason"] == "passed and failed on 2 commits; fails in 10 %"
    assert str(entry["until"]) == "1970-01-15"


def test_what_is_suggested_holds_once_somebody_owns_it(tmp_path: Path) -> None:
    facts = quarantine_facts([flaky("test_x[1]", 2)], {}, now_ms=0, days=14)
    file = tmp_path / "ci-doctor-quarantine.toml"
    file.write_text(facts.toml)

    with pytest.raises(ConfigError, match="owner"):
        read_quarantine(file)
    file.write_text(facts.toml.replace('owner = ""', 'owner = "serving"'))
    entries = read_quarantine(file)

    test = "tests/test_a.py::test_x[1]"
    assert list(quarantine(entries, [test], dt.date(1970, 1, 15)).held) == [test]


def suggestions(tmp_path: Path, jobs: list[EvidenceFile], at: int) -> QuarantineFacts:
    window = HistoryWindow(since_ms=BEGIN_MS, until_ms=BEGIN_MS + at * HOUR_MS)
    with history(tmp_path / "history", jobs) as connection:
        flaky = flaky_facts(Question(connection, window)).flaky
        return suggested(Question(connection, window), flaky, days=14)


def flake(commits: int, *, every: int = 5, at: int = 0) -> list[EvidenceFile]:
    """A test that fails once on every `every`-th commit and then passes there, beside a good one."""
    jobs = []
    for n in range(commits):
        outcomes = [("good", P), ("flake", F if n % every == 0 else P), ("flake", P)]
        jobs.append(run(outcomes, at=at + n, commit=f"c{at + n}", step="unit"))
    return jobs


@pytest.mark.parametrize(
    ("later", "why"),
    [
        pytest.param([("good", P)], "it does not run any more: 4 later commits", id="deleted"),
        pytest.param(
            [("good", P), *[("flake", P)] * 12], "it looks mended: 57 passed", id="mended"
        ),
    ],
)
def test_a_flake_that_is_over_is_not_suggested_and_the_reason_is_told(
    tmp_path: Path, later: list[tuple[str, AttemptOutcome]], why: str
) -> None:
    jobs = flake(20)
    jobs += [run(later, at=30 + n, commit=f"d{n}", step="unit") for n in range(4)]

    facts = suggestions(tmp_path, jobs, at=40)

    assert facts.entries == ()
    (left,) = facts.unsuggested
    assert left.test == "tests.test_a::flake"
    assert left.why.startswith(why)


def test_a_flake_that_goes_on_is_suggested_and_a_shard_without_it_is_not_its_end(
    tmp_path: Path,
) -> None:
    jobs = flake(20)
    jobs += [run([("other", P)], at=30 + n, commit=f"d{n}", step="unit") for n in range(5)]

    facts = suggestions(tmp_path, jobs, at=40)

    assert [entry.test for entry in facts.entries] == ["tests.test_a::flake"]
    assert facts.unsuggested == ()


def test_what_a_commit_broke_is_no_flake_to_live_with(tmp_path: Path) -> None:
    jobs = [run([("broken", P)] * 2, at=n, commit=f"a{n}") for n in range(20)]
    # A pass on the same commit, as of another machine.
    jobs += [
        run(
            [("broken", F), ("broken", F), ("broken", P if n < 2 else F)], at=30 + n, commit=f"b{n}"
        )
        for n in range(8)
    ]

    facts = suggestions(tmp_path, jobs, at=40)

    assert facts.entries == ()
    assert facts.unsuggested[0].why.startswith("it began with a commit, between b0 and b")


@pytest.mark.parametrize(
    ("test", "tests", "is_wide"),
    [
        ("*", ["t.py::a"], True),
        ("**", ["t.py::a", "t.py::b"], True),
        ("t.py*", ["t.py::a", "t.py::b", "u.py::c"], True),
        ("t.py::a[*", ["t.py::a[1]", "t.py::a[2]"], False),
        ("t.py::a", ["t.py::a"], False),
        ("t.py*", ["t.py::a", "t.py::b", "u.py::c", "u.py::d", "u.py::e"], False),
    ],
)
def test_an_entry_that_holds_most_tests_is_told(test: str, tests: list[str], is_wide: bool) -> None:
    today = dt.date(2026, 11, 1)
    entry = QuarantineEntry(test=test, reason="r", owner="me", until=today)

    assert bool(quarantine([entry], tests, today).wide) is is_wide
