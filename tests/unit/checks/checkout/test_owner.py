"""Whether git reads the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.checkout import changes, objects, owner
from tests.support.checks import check_context
from tests.support.git_repository import make_repository


def test_our_own_checkout_is_read(tmp_path: Path) -> None:
    make_repository(tmp_path)

    result = owner.CHECK.run(check_context(tmp_path))

    assert (result.status, result.summary) == (CheckStatus.OK, f"git reads {tmp_path}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_owner_is_an_error_and_its_remedy_cures_it(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "a b")
    subprocess.run(["chown", "-R", "65534", top], check=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    context = check_context(top, environ=environ)

    result = owner.CHECK.run(context)

    (found,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert found.finding.rule == "doctor/other-owner"
    assert "and we are root" in found.finding.summary
    # The other checks do not know what git does not tell.
    with pytest.raises(UndeterminedError, match="see checkout/owner"):
        changes.CHECK.run(context)
    subprocess.run(["sh", "-c", found.finding.remedy or "false"], env=environ, check=True)
    after = check_context(top, environ=environ)
    assert owner.CHECK.run(after).status is CheckStatus.OK
    assert changes.CHECK.run(after).status is CheckStatus.OK


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_without_a_home_the_remedy_is_a_variable(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "a b")
    subprocess.run(["chown", "-R", "65534", top], check=True)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.abbrev",
        "GIT_CONFIG_VALUE_0": "12",
    }

    (found,) = owner.CHECK.run(check_context(top, environ=environ)).problems

    remedy = f"{found.finding.remedy}; git rev-parse HEAD"
    subprocess.run(["sh", "-c", remedy], env=environ, cwd=top, check=True)


def test_a_work_tree_without_its_repository_is_an_error(tmp_path: Path) -> None:
    """As in a container that mounts a work tree alone."""
    (tmp_path / ".git").write_text("gitdir: /nowhere/repository/.git/worktrees/a\n")

    (found,) = owner.CHECK.run(check_context(tmp_path)).problems

    assert found.finding.rule == "doctor/checkout-broken"
    assert "/nowhere/repository" in found.finding.summary


def test_a_whole_commit_is_ok(tmp_path: Path) -> None:
    make_repository(tmp_path)

    assert objects.CHECK.run(check_context(tmp_path)).summary.endswith(" is here")


def test_without_git_nothing_is_known(tmp_path: Path) -> None:
    make_repository(tmp_path)
    environ = {"PATH": str(Path(sys.prefix) / "nowhere")}

    with pytest.raises(UndeterminedError, match="no git on PATH"):
        owner.CHECK.run(check_context(tmp_path, environ=environ))
