# SPDX-License-Identifier: Apache-2.0
"""The base of a change and what stands before it, in real repositories."""

from pathlib import Path

import pytest

from ci_doctor.pytest_runs.ancestors import base_and_ancestors
from tests.support.git_repository import commit, git, make_repository


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """main has a, b, c; the branch `change` has left it at b."""
    make_repository(tmp_path, {"a": ""})
    commit(tmp_path, {"b": ""})
    git(tmp_path, "branch", "change")
    commit(tmp_path, {"c": ""})
    return tmp_path


def shas(repository: Path, *names: str) -> tuple[str, ...]:
    return tuple(git(repository, "rev-parse", name) for name in names)


@pytest.mark.parametrize(
    ("reference", "environ"),
    [
        ("main", {}),
        (None, {"BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"}),
        (None, {"BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main"}),
    ],
)
def test_a_change_is_compared_with_the_commit_at_which_it_left_its_base(
    repository: Path, reference: str | None, environ: dict[str, str]
) -> None:
    git(repository, "checkout", "--quiet", "change")
    commit(repository, {"d": ""})
    commit(repository, {"e": ""})

    assert base_and_ancestors(repository, reference, environ) == shas(
        repository, "main~1", "main~2"
    )


def test_the_base_branch_itself_is_compared_with_its_parent_and_no_merged_branch(
    repository: Path,
) -> None:
    git(repository, "checkout", "--quiet", "change")
    commit(repository, {"d": ""})
    git(repository, "checkout", "--quiet", "main")
    git(repository, "merge", "--quiet", "--no-ff", "change", "--message=x")
    commit(repository, {"e": ""})

    names = ("HEAD^", "HEAD~2", "HEAD~3", "HEAD~4")
    assert base_and_ancestors(repository, "main", {}) == shas(repository, *names)
    assert base_and_ancestors(repository, None, {}) == shas(repository, *names)


def test_without_an_earlier_commit_there_is_no_base(tmp_path: Path) -> None:
    assert base_and_ancestors(tmp_path, None, {}) == ()
    make_repository(tmp_path / "one")
    assert base_and_ancestors(tmp_path / "one", None, {}) == ()
