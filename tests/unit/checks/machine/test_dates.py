# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import time
from pathlib import Path

import pytest

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.machine.dates import (
    git_directory,
    interpreter_date,
    parse_build,
    read_commit_date,
    read_file_dates,
)
from tests.support.checks import check_context

COMMITTED = 1_700_000_000


def repository(root: Path) -> Path:
    """A repository with one commit of a known date."""
    person = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@x",
        "GIT_COMMITTER_NAME": "committer 5 +0000",
        "GIT_COMMITTER_EMAIL": "c@x",
        "GIT_COMMITTER_DATE": f"{COMMITTED} +0200",
    }
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "committer x 1 +0000"]):
        subprocess.run(["git", *words], cwd=root, env={**os.environ, **person}, check=True)
    return root


def test_the_date_of_the_commit_is_the_committers(tmp_path: Path) -> None:
    dated = read_commit_date(check_context(repository(tmp_path)))

    assert dated is not None
    assert dated.at == COMMITTED


@pytest.mark.skipif(os.getuid() != 0, reason="gives a checkout to another user")
def test_a_checkout_of_another_user_has_a_date_too(tmp_path: Path) -> None:
    repository(tmp_path)
    os.chown(tmp_path / ".git", 65534, 65534)
    os.chown(tmp_path, 65534, 65534)

    dated = read_commit_date(check_context(tmp_path))

    assert dated is not None


def test_outside_a_checkout_there_is_no_commit(tmp_path: Path) -> None:
    assert read_commit_date(check_context(tmp_path)) is None


def test_a_repository_without_a_commit_has_no_date(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    assert read_commit_date(check_context(tmp_path)) is None


def test_a_commit_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    repository(tmp_path)
    for file in (tmp_path / ".git" / "objects").glob("??/*"):
        file.unlink()

    with pytest.raises(UndeterminedError, match="does not say"):
        read_commit_date(check_context(tmp_path))


def test_without_git_the_commit_is_unknown(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()

    with pytest.raises(UndeterminedError, match="git cannot be started"):
        read_commit_date(check_context(tmp_path, environ={"PATH": str(tmp_path)}))


def test_a_worktree_names_its_git_directory(tmp_path: Path) -> None:
    (tmp_path / "worktree" / "deep").mkdir(parents=True)
    (tmp_path / "worktree" / ".git").write_text("gitdir: ../main/.git/worktrees/w\n")

    git = git_directory(tmp_path / "worktree" / "deep")

    assert git == tmp_path / "worktree" / "../main/.git/worktrees/w"


def test_what_git_writes_is_sure_and_other_files_are_not(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "archive.zip").write_text("")
    os.utime(tmp_path / "archive.zip", (5, 5))

    by_name = {Path(each.name.split()[-1]).name: each for each in read_file_dates(tmp_path)}

    assert by_name["HEAD"].is_sure
    assert not by_name["archive.zip"].is_sure
    assert by_name["archive.zip"].at == 5


def test_a_directory_that_cannot_be_listed_has_no_dates(tmp_path: Path) -> None:
    assert list(read_file_dates(tmp_path / "missing")) == []


def test_this_interpreter_was_built_in_the_past() -> None:
    dated = interpreter_date()

    assert dated is None or dated.at < time.time()


@pytest.mark.parametrize(
    ("version", "at"),
    [
        ("3.11.7 (main, Dec 19 2023, 20:33:49) [GCC 12.2.0]", 1702857600),
        ("3.12.3 (tags/v3.12.3:1a2b, Apr  9 2024, 08:09:14) [Clang 18]", 1712534400),
        ("3.13.0 | packaged by somebody | (main, unknown) [GCC]", None),
        ("3.13.0 (main, Xxx 19 2023, 20:33:49)", None),
    ],
)
def test_the_build_date_stands_in_the_version(version: str, at: int | None) -> None:
    dated = parse_build(version)

    assert (dated and dated.at) == at
