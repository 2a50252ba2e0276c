# SPDX-License-Identifier: Apache-2.0
"""How tests ended in the jobs of commits, in real SQLite files."""

from pathlib import Path

from ci_doctor.history.commit_jobs import CommitJobs
from tests.support.histories import F, I, P, S, history, run

X, Y, Z = (("tests.test_a", name) for name in "xyz")


def test_a_job_counts_once_and_one_red_attempt_makes_it_a_failure(tmp_path: Path) -> None:
    runs = [
        run([("x", P), ("y", P)], at=1, commit="base"),
        run([("x", F), ("x", P), ("y", I)], at=2, commit="base"),
        run([("x", P), ("y", S)], at=3, commit="before"),
        run([("x", F)], at=4, commit="change"),
    ]
    with history(tmp_path / "h.sqlite", runs) as connection:
        ended = CommitJobs(connection, ["base", "none", "before"]).of_tests([X, Y, Z])

    assert [(job.commit, job.build, job.passed) for job in ended[X]] == [
        ("base", 1, True),
        ("base", 2, False),
        ("before", 3, True),
    ]
    # Infrastructure alone and a skip say nothing.
    assert [(job.commit, job.build) for job in ended[Y]] == [("base", 1)]
    assert Z not in ended


def test_only_the_same_step_and_the_first_commits_with_jobs_count(tmp_path: Path) -> None:
    runs = [
        run([("x", P)], at=1, commit="a", step="cpu"),
        run([("x", F)], at=2, commit="a", step="gpu"),
        run([("x", P)], at=3, commit="c", step="cpu"),
        run([("x", P)], at=4, commit="d", step="cpu"),
    ]
    with history(tmp_path / "h.sqlite", runs) as connection:
        jobs = CommitJobs(connection, list("abcd"), pipeline="serving", step="cpu", most=2)
        other = CommitJobs(connection, list("abcd"), pipeline="other")

        assert (jobs.commits, other.commits) == (("a", "c"), ())
        assert [job.passed for job in jobs.of_tests([X])[X]] == [True, True]


def test_a_test_that_was_only_skipped_is_known(tmp_path: Path) -> None:
    runs = [
        run([("x", P), ("y", S)], at=1, commit="a"),
        run([("z", P)], at=2, commit="later"),
    ]
    with history(tmp_path / "h.sqlite", runs) as connection:
        assert CommitJobs(connection, ["a"]).known([X, Y, Z]) == {X, Y}
