"""Executable files."""

from pathlib import Path

from ci_doctor.checks.checkout.file_mode import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import git, make_repository


def test_a_git_that_does_not_look_at_modes_is_a_note(tmp_path: Path) -> None:
    make_repository(tmp_path)
    assert CHECK.run(check_context(tmp_path)).problems == ()
    git(tmp_path, "config", "core.fileMode", "false")

    (found,) = CHECK.run(check_context(tmp_path)).problems

    assert (found.finding.rule, found.finding.severity) == ("doctor/file-mode", "note")
