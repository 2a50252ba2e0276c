# SPDX-License-Identifier: Apache-2.0
"""What git says of a checkout, and what earlier jobs have left in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, Fault, UndeterminedError
from ci_doctor.checks.checkout import (
    lfs,
    locks,
    objects,
    owner,
    read_place,
    submodules,
    version_tags,
)
from ci_doctor.model.words import EVALUATION
from tests.support.checks import check_context
from tests.support.git_repository import commit, git, make_repository


def test_the_place_is_that_of_the_working_directory_whatever_the_variables(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "top", {"a/b": "x\n"})
    other = make_repository(tmp_path / "other")
    context = check_context(top / "a")
    environ = {**context.environ, "GIT_DIR": str(other / ".git")}

    place = read_place(check_context(top / "a", environ=environ))

    assert (place.top, place.git_dir) == (top, top / ".git")
    assert place.common_dir.resolve() == top / ".git"


def test_a_linked_work_tree_shares_its_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "top")
    git(top, "worktree", "add", "--quiet", "../linked")

    place = read_place(check_context(tmp_path / "linked"))

    assert place.git_dir == top / ".git" / "worktrees" / "linked"
    assert place.common_dir == top / ".git"


def test_a_whole_checkout_is_ok_for_each_check_and_so_is_one_without_a_commit(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "--quiet")
    unborn = objects.run(check_context(tmp_path))
    make_repository(tmp_path)
    context = check_context(tmp_path)

    assert (unborn.status, unborn.summary) == (CheckStatus.OK, "the checkout has no commit yet")
    assert owner.run(context).summary == f"git reads {tmp_path}"
    assert objects.run(context).summary.endswith(" is here")
    assert version_tags.run(context).summary == "no Python project here"
    assert submodules.run(context).summary == "no submodules"
    assert lfs.run(context).summary == "no file of Git LFS"


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

    (found,) = owner.run(check_context(top, environ=environ)).problems

    remedy = f"{found.finding.remedy}; git rev-parse HEAD"
    subprocess.run(["sh", "-c", remedy], env=environ, cwd=top, check=True)


def test_a_work_tree_without_its_repository_is_an_error(tmp_path: Path) -> None:
    """As in a container that mounts a work tree alone."""
    (tmp_path / ".git").write_text("gitdir: /nowhere/repository/.git/worktrees/a\n")

    (found,) = owner.run(check_context(tmp_path)).problems

    assert found.finding.rule == "doctor/checkout-broken"
    assert "/nowhere/repository" in found.finding.summary


def test_without_git_it_is_missing_and_the_rest_unknown(tmp_path: Path) -> None:
    make_repository(tmp_path)
    environ = {"PATH": str(Path(sys.prefix) / "nowhere")}

    (found,) = owner.run(check_context(tmp_path, environ=environ)).problems

    assert found.finding.rule == "doctor/git-missing"
    with pytest.raises(UndeterminedError, match="no git on PATH"):
        locks.run(check_context(tmp_path, environ=environ))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_owner_is_an_error_and_its_remedy_cures_it(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "a b")
    subprocess.run(["chown", "-R", "65534", top], check=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    context = check_context(top, environ=environ)

    result = owner.run(context)

    (found,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert found.finding.rule == "doctor/other-owner"
    assert "and we are root" in found.finding.summary
    # The other checks do not know what git does not tell.
    with pytest.raises(UndeterminedError, match="see checkout/owner"):
        lfs.run(context)
    subprocess.run(["sh", "-c", found.finding.remedy or "false"], env=environ, check=True)
    after = check_context(top, environ=environ)
    assert owner.run(after).status is CheckStatus.OK
    assert lfs.run(after).status is CheckStatus.OK


def test_a_shallow_clone_is_a_warning_if_a_version_comes_from_its_tags(tmp_path: Path) -> None:
    top = shallow(tmp_path, {"pyproject.toml": PROJECT})

    (found,) = version_tags.run(check_context(top)).problems

    assert (found.finding.rule, found.finding.severity) == ("doctor/shallow-clone", "warning")
    assert "setuptools-scm computes 0.1." in found.finding.summary
    pinned = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_SERVING": "1.0.1"}
    assert version_tags.run(check_context(top, environ=pinned)).problems == ()


def test_a_clone_whose_mirror_is_gone_is_an_error(tmp_path: Path) -> None:
    mirror = make_repository(tmp_path / "mirror")
    git(tmp_path, "clone", "--quiet", "--shared", str(mirror), "clone")
    clone = tmp_path / "clone"
    assert objects.run(check_context(clone)).status is CheckStatus.OK
    shutil.rmtree(mirror)

    result = objects.run(check_context(clone))

    assert result.status is CheckStatus.ERROR
    assert f"the mirror {mirror}/.git/objects is not here" in result.summary


def test_a_commit_whose_objects_are_gone_and_a_branch_that_names_none_are_errors(
    tmp_path: Path,
) -> None:
    top = make_repository(tmp_path)
    branch = top / ".git" / git(top, "symbolic-ref", "HEAD").strip()
    named = branch.read_text()
    # Damaged, and not unborn.
    branch.write_text("")
    assert objects.run(check_context(top)).status is CheckStatus.ERROR
    branch.write_text(named)
    for path in (top / ".git" / "objects").glob("??"):
        shutil.rmtree(path)

    assert objects.run(check_context(top)).status is CheckStatus.ERROR


PROJECT = """[build-system]
requires = ["setuptools>=77", "setuptools-scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "serving"
dynamic = ["version"]
[tool.setuptools_scm]
"""


def shallow(tmp_path: Path, files: dict[str, str]) -> Path:
    origin = make_repository(tmp_path / "origin", files)
    git(origin, "tag", "v1.0.0")
    commit(origin, {"more": "x\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "clone")
    return tmp_path / "clone"


def tagged(top: Path, tag: str) -> Path:
    make_repository(top, {"pyproject.toml": PROJECT})
    git(top, "tag", "v0.4.3")
    commit(top, {"more": "x\n"})
    git(top, "tag", tag)
    return top


def test_a_nightly_tag_is_a_warning_that_no_other_agent_cures(tmp_path: Path) -> None:
    top = tagged(tmp_path, "nightly-cu13")
    pinned = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_SERVING": "0.4.4"}
    (top / "tests").mkdir()

    result = version_tags.run(check_context(top))

    (found,) = result.problems
    assert (result.status, found.fault) == (CheckStatus.WARNING, Fault.REPOSITORY)
    assert "nightly-cu13" in found.finding.summary
    assert found.finding.remedy == EVALUATION
    # A project in a folder above counts, and a pinned version is ok.
    assert version_tags.run(check_context(top / "tests")).status is CheckStatus.WARNING
    assert version_tags.run(check_context(top, environ=pinned)).problems == ()


def test_a_date_is_read_as_a_version_and_a_release_is_ok(tmp_path: Path) -> None:
    top = tagged(tmp_path, "nightly-2026-04-22")
    (found,) = version_tags.run(check_context(top)).problems
    git(top, "tag", "-d", "nightly-2026-04-22")
    git(top, "tag", "v0.4.4")
    release = version_tags.run(check_context(top))

    assert "would pick 'nightly-2026-04-22', and fail or be misled" in found.finding.summary
    assert (release.status, release.summary) == (
        CheckStatus.OK,
        "setuptools-scm computes 0.4.4 for serving",
    )


def test_submodules_must_be_there_and_at_their_commit_unless_the_agent_leaves_them_out(
    tmp_path: Path,
) -> None:
    part = make_repository(tmp_path / "part")
    whole = make_repository(tmp_path / "whole")
    local = ("-c", "protocol.file.allow=always")
    git(whole, *local, "submodule", "--quiet", "add", str(part), "third party")
    git(whole, "commit", "--quiet", "--message=x")
    assert submodules.run(check_context(whole)).summary == "submodules at their commits: 1"

    commit(whole / "third party", {"more": "x\n"})
    (moved,) = submodules.run(check_context(whole)).problems
    git(tmp_path, "clone", "--quiet", str(whole), "clone")
    (missing,) = submodules.run(check_context(tmp_path / "clone")).problems
    told = {**os.environ, "BUILDKITE_GIT_SUBMODULES": "false"}
    (left_out,) = submodules.run(check_context(tmp_path / "clone", environ=told)).problems

    assert moved.finding.summary == "the submodule third party is at another commit"
    assert missing.finding.summary == "the submodule third party is not checked out"
    assert missing.finding.remedy == "git submodule update --init --recursive"
    assert left_out.finding.severity == "note"


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00ff\nsize 5\n"


def test_pointers_are_a_warning_unless_the_job_asked_for_them(tmp_path: Path) -> None:
    files = {
        ".gitattributes": "*.bin filter=lfs\n",
        "weights/a.bin": POINTER,
        "b.bin": "content\n",
        "about-lfs.txt": POINTER,
    }
    make_repository(tmp_path, files)
    told = {**os.environ, "GIT_LFS_SKIP_SMUDGE": "1"}

    (found,) = lfs.run(check_context(tmp_path / "weights")).problems
    (asked,) = lfs.run(check_context(tmp_path, environ=told)).problems

    assert found.finding.summary == "1 of 2 files of Git LFS are pointers, such as weights/a.bin"
    assert asked.finding.severity == "note"


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    lock = make_repository(tmp_path) / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    return lock


def test_an_old_lock_that_nobody_holds_is_a_warning_with_a_line_to_paste(
    tmp_path: Path, locked: Path
) -> None:
    (found,) = locks.run(check_context(tmp_path)).problems
    with locked.open():
        held = locks.run(check_context(tmp_path))
    os.utime(locked)
    fresh = locks.run(check_context(tmp_path))

    assert (found.finding.rule, found.finding.severity) == ("doctor/stale-git-lock", "warning")
    assert found.finding.remedy == f"rm {locked}"
    assert found.fix is None
    assert held.problems == ()
    assert fresh.summary == "no lock of git"


def test_while_a_git_works_in_the_checkout_no_lock_is_stale(tmp_path: Path, locked: Path) -> None:
    git = shutil.which("git")
    assert git is not None
    # Below a shell: git's of our own are those of other checks.
    with subprocess.Popen(
        ["sh", "-c", f"{git} cat-file --batch; exit"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(b"HEAD\n")
        worker.stdin.flush()
        worker.stdout.readline()  # it runs
        result = locks.run(check_context(tmp_path))

    assert result.problems == ()
