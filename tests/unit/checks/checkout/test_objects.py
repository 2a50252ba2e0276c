"""Objects of the commit, and mirrors."""

import shutil
from pathlib import Path

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.checkout.objects import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import git, make_repository


def test_a_clone_whose_mirror_is_gone_is_an_error(tmp_path: Path) -> None:
    mirror = make_repository(tmp_path / "mirror")
    git(tmp_path, "clone", "--quiet", "--shared", str(mirror), "clone")
    clone = tmp_path / "clone"
    assert CHECK.run(check_context(clone)).status is CheckStatus.OK
    shutil.rmtree(mirror)

    result = CHECK.run(check_context(clone))

    assert result.status is CheckStatus.ERROR
    assert f"the mirror {mirror}/.git/objects is not here" in result.summary


def test_a_commit_whose_objects_are_gone_is_an_error(tmp_path: Path) -> None:
    top = make_repository(tmp_path)
    for path in (top / ".git" / "objects").glob("??"):
        shutil.rmtree(path)

    assert CHECK.run(check_context(top)).status is CheckStatus.ERROR


def test_a_repository_without_a_commit_is_ok(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")

    result = CHECK.run(check_context(tmp_path))

    assert (result.status, result.summary) == (CheckStatus.OK, "the checkout has no commit yet")


def test_a_branch_that_names_no_commit_is_damaged_and_not_unborn(tmp_path: Path) -> None:
    top = make_repository(tmp_path)
    branch = git(top, "symbolic-ref", "HEAD").strip()
    (top / ".git" / branch).write_text("")

    assert CHECK.run(check_context(top)).status is CheckStatus.ERROR
