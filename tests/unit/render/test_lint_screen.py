# SPDX-License-Identifier: Apache-2.0
"""What GitHub shows of lint beside the changed lines."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from ci_doctor.render import text
from ci_doctor.render.ci_frame import annotations, frame
from ci_doctor.render.ci_log import Dialect
from tests.support.ci_log_readers import github_commands
from tests.support.git_repository import make_repository
from tests.support.lint_runs import lint_report

LONG = "x" * 300


def test_findings_stand_below_their_file_in_the_order_of_lines(tmp_path: Path) -> None:
    files = {"b.sh": "echo evil\n", "a.sh": "true\nsource b.sh\necho evil 2\n"}
    make_repository(tmp_path, files)

    lines = text.render(lint_report(tmp_path)).splitlines()

    assert lines == [
        "✗ FAILED  lint  0.4 s",
        "  3 errors in 2 files; read 2 scripts",
        "",
        "a.sh",
        "  ✗ 2 it sources an evil word",
        "      │ source b.sh",
        "      see b.sh:1",
        "      error · shell/bad-word",
        "  ✗ 3 an evil word",
        "      │ echo evil 2",
        "      try: good",
        "      error · shell/bad-word",
        "",
        "b.sh",
        "  ✗ 1 an evil word",
        "      │ echo evil",
        "      try: good",
        "      error · shell/bad-word",
        "",
        "ci-doctor explain shell/bad-word  # why, and what to write",
        "",
        "exit code 1",
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int, tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": f"echo evil {LONG} 漢字漢字\n" * 3})

    shown = text.render(lint_report(tmp_path), width=width)

    # A command to paste stays whole.
    text_lines = [line for line in shown.splitlines() if not line.startswith("ci-doctor ")]
    assert max(map(cell_len, text_lines)) <= max(width, 44)


def test_nothing_of_a_script_acts_on_the_terminal(tmp_path: Path) -> None:
    make_repository(
        tmp_path, {"a.sh": "echo evil \x1b]0;title\x07 \x1b[2J\n", "\x1b[31m.sh": "evil\n"}
    )

    shown = text.render(lint_report(tmp_path))

    assert "\x1b" not in shown


def test_a_long_list_ends_with_the_number_of_the_rest(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": "echo evil\n" * 205})
    report = lint_report(tmp_path)

    assert "… and 5 more: --json, or --report-dir DIR" in text.render(report)
    more = replace(report, facts={**report.facts, "unreported": 10})
    assert "… and 15 more" in text.render(more)


def test_each_finding_is_an_annotation_with_its_level_the_worst_first(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.yml": "steps: late\n", "b,1.sh": "echo evil ::100%\n"})

    lines = annotations(lint_report(tmp_path)).splitlines()

    assert lines == [
        "::error title=shell/bad-word,file=b%2C1.sh,line=1,endLine=1::an evil word%0Atry: good",
        "::warning title=pipeline/late-step,file=a.yml,line=1,endLine=1::a late step",
        "1 error, 1 warning in 2 files; read 1 script, 1 pipeline",
    ]


def test_the_log_of_a_job_has_as_many_of_each_level_as_github_shows(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.yml": "steps:\n" + "- late\n" * 30, "b.sh": "evil\n" * 30})

    around = frame(lint_report(tmp_path), Dialect.GITHUB, key="1", token="t", epoch_s=1.0)

    levels = [command.name for command in github_commands(around.notes)]
    assert (levels.count("error"), levels.count("warning")) == (10, 10)


def test_a_tree_without_files_to_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    make_repository(tmp_path, {"notes.md": ""})

    first, _ = annotations(lint_report(tmp_path)).splitlines()

    assert first.startswith("::error title=ci-doctor lint::nothing was read")
