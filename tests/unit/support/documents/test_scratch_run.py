# SPDX-License-Identifier: Apache-2.0
"""Blocks that are run: their statuses, and what they print beside what a page shows."""

from pathlib import Path

from tests.support.documents.marker import Run
from tests.support.documents.scratch_run import expected_codes, run_statements, shows
from tests.support.documents.shell_commands import statements


def test_statements_run_one_after_another_in_one_shell(tmp_path: Path) -> None:
    chosen = statements("sh", "a=1\necho $a >&2\nfalse   # exit 1\nexit 3\necho never\n")
    marker = Run()

    runs = run_statements(marker, chosen, tmp_path)

    assert [(run.code, run.printed) for run in runs] == [
        (0, ""),
        (0, "1\n"),
        (1, ""),
        (None, ""),
        (None, ""),
    ]
    assert expected_codes(marker, chosen) == [0, 0, 1, 0, 0]


def test_a_page_shows_an_output_if_all_but_times_and_temporary_paths_is_equal() -> None:
    printed = "a  0.2 s\nb /tmp/x-1/y\nc\nd\n"

    assert shows("a 31.5 s\nb /tmp/z\nc\nd\n", printed)
    assert shows("a 31.5 s\n…\nd\n", printed)
    assert shows("a 31.5 s\n…\n", printed)
    assert not shows("a 31.5 s\nb /tmp/z\nc\n", printed)
    assert not shows("a 31.5 s\n…\nc\n", printed)
