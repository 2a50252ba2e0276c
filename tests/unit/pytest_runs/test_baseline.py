# SPDX-License-Identifier: Apache-2.0
"""A run at the base of a change."""

from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.pytest_runs.attempt import PytestSession, RunKind
from ci_doctor.pytest_runs.baseline import (
    BaseCheckout,
    BaseCommit,
    base_checkout,
    base_commit,
    base_problem,
)
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.records import StuckCollection
from tests.support.git_repository import commit, git, make_repository


def test_what_lies_in_the_checkout_is_taken_from_the_base() -> None:
    checkout = BaseCheckout(base=BaseCommit(commit="c", top=Path("/top")), root=Path("/base"))
    plan = PytestPlan(
        kind=RunKind.ALONE,
        python=Path("/top/.venv/bin/python"),
        args=("/top/tests", "--rootdir=/top", "--x=/topmost", "-k", "a"),
        environ={"PYTHONPATH": "/top/lib:/other", "HOME": "/h"},
        directory=Path("/top/sub"),
    )
    path = ("/top/src", "/top/.venv/lib/python3.11/site-packages", "/usr/lib")

    there = checkout.plan(plan, path)

    assert there.args == ("/base/tests", "--rootdir=/base", "--x=/topmost", "-k", "a")
    assert there.environ == {"PYTHONPATH": "/base/src:/base/lib:/other", "HOME": "/h"}
    # The environment stays.
    assert (there.directory, there.python) == (Path("/base/sub"), plan.python)


def test_the_base_is_where_the_change_left_the_other_branch(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    fork = git(top, "rev-parse", "HEAD")
    git(top, "checkout", "-qb", "change")
    commit(top, {"a": "2"})
    git(top, "checkout", "-q", "main")
    commit(top, {"b": "1"})
    git(top, "checkout", "-q", "change")

    base = base_commit(top, "main")
    with base_checkout(base, tmp_path) as checkout:
        assert (checkout.root / "a").read_text() == "1"

    assert base.commit == fork
    assert not checkout.root.exists()
    assert git(top, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize("is_repository", [True, False])
def test_a_base_that_is_none_is_a_usage_error(tmp_path: Path, is_repository: bool) -> None:
    if is_repository:
        make_repository(tmp_path)

    with pytest.raises(UsageError, match="--baseline nothing"):
        base_commit(tmp_path, "nothing")


@pytest.mark.parametrize(
    ("session", "word"),
    [
        (
            PytestSession(kind=RunKind.BASELINE, collected=("a",), loaded=("/top/x.py",)),
            "/top/x.py",
        ),
        (PytestSession(kind=RunKind.BASELINE, collect_errors={"a.py": "x"}), "a.py"),
        (PytestSession(kind=RunKind.BASELINE, exit_code=3), "exit code 3"),
        (
            PytestSession(
                kind=RunKind.BASELINE, stuck=StuckCollection(name="test_a.py", limit_s=60.0)
            ),
            "test_a.py was being collected",
        ),
    ],
)
def test_a_base_that_shows_nothing_says_why(session: PytestSession, word: str) -> None:
    assert word in (base_problem(session) or "")
