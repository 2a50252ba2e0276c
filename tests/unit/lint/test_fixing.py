# SPDX-License-Identifier: Apache-2.0
"""What `--fix` writes: whole files with their mode and bytes, and none that has changed meanwhile."""

from pathlib import Path

import pytest

from ci_doctor.lint.fixing import mended, planned
from ci_doctor.model.facts.lint import LintFixFacts
from tests.support.git_repository import make_repository
from tests.support.lint_runs import lint, reported, request


def fix(directory: Path) -> tuple[LintFixFacts, str]:
    """The facts of `--fix`, and what was shown before anything was written."""
    shown: list[str] = []
    ran = lint(directory)
    facts = mended(ran, planned(ran, request(directory)), shown.append)
    return facts, "".join(shown)


def test_the_diff_is_shown_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": "echo evil\n"})
    (tmp_path / "run.sh").chmod(0o755)

    facts, shown = fix(tmp_path)

    assert (tmp_path / "run.sh").read_text() == "echo good\n"
    assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o755
    assert "-echo evil\n+echo good\n" in shown
    assert facts.files == {"run.sh": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", "run.sh"]
    assert reported(lint(tmp_path)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfecho evil\r\n", b"\xef\xbb\xbfecho good\r\n"),
        (b"# caf\xe9\necho evil", b"# caf\xe9\necho good"),
    ],
)
def test_all_other_bytes_stay(before: bytes, after: bytes, tmp_path: Path) -> None:
    make_repository(tmp_path)
    (tmp_path / "run.sh").write_bytes(before)

    fix(tmp_path)

    assert (tmp_path / "run.sh").read_bytes() == after


def test_a_file_that_has_changed_since_it_was_read_stays(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": "echo evil\n"})
    ran = lint(tmp_path)
    plan = planned(ran, request(tmp_path))
    (tmp_path / "run.sh").write_text("echo evil, and more\n")

    facts = mended(ran, plan, lambda _diff: None)

    assert (tmp_path / "run.sh").read_text() == "echo evil, and more\n"
    assert facts.refused == {"run.sh": "it has changed since it was read"}
    assert facts.files == {}


def test_a_script_in_a_pipeline_is_not_edited(tmp_path: Path) -> None:
    make_repository(tmp_path, {"p.yml": "steps:\n- command: echo evil\n"})

    facts, shown = fix(tmp_path)

    assert (facts.files, shown) == ({}, "")
