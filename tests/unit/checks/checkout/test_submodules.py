"""Submodules."""

import os
from pathlib import Path

from ci_doctor.checks.checkout.submodules import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import commit, git, make_repository


def test_submodules_must_be_there_and_at_their_commit(tmp_path: Path) -> None:
    part = make_repository(tmp_path / "part")
    whole = make_repository(tmp_path / "whole")
    local = ("-c", "protocol.file.allow=always")
    git(whole, *local, "submodule", "--quiet", "add", str(part), "third party")
    git(whole, "commit", "--quiet", "--message=x")
    assert CHECK.run(check_context(whole)).summary == "submodules at their commits: 1"

    commit(whole / "third party", {"more": "x\n"})
    (moved,) = CHECK.run(check_context(whole)).problems
    git(tmp_path, "clone", "--quiet", str(whole), "clone")
    (missing,) = CHECK.run(check_context(tmp_path / "clone")).problems

    assert moved.finding.summary == "the submodule third party is at another commit"
    assert missing.finding.summary == "the submodule third party is not checked out"
    assert missing.finding.remedy == "git submodule update --init --recursive"


def test_a_checkout_without_any_is_ok(tmp_path: Path) -> None:
    make_repository(tmp_path)

    assert CHECK.run(check_context(tmp_path)).summary == "no submodules"


def test_submodules_that_the_agent_was_told_to_leave_out_are_a_note(tmp_path: Path) -> None:
    part = make_repository(tmp_path / "part")
    whole = make_repository(tmp_path / "whole")
    local = ("-c", "protocol.file.allow=always")
    git(whole, *local, "submodule", "--quiet", "add", str(part), "part")
    git(whole, "commit", "--quiet", "--message=x")
    git(tmp_path, "clone", "--quiet", str(whole), "clone")
    told = {**os.environ, "BUILDKITE_GIT_SUBMODULES": "false"}

    (found,) = CHECK.run(check_context(tmp_path / "clone", environ=told)).problems

    assert found.finding.severity == "note"
