# SPDX-License-Identifier: Apache-2.0
"""Manual pages in a directory."""

from pathlib import Path

import pytest

from ci_doctor.commands.manual.man_page import MARK
from ci_doctor.commands.manual.page_files import plan_pages, write_pages
from ci_doctor.errors import UsageError
from ci_doctor.model.action import FileState

PAGE = f"{MARK}\n.TH X 1\n"


def states(directory: Path, text: str) -> list[FileState]:
    return [action.state for action in plan_pages(directory, {"x": text})]


def test_a_page_is_made_replaced_or_left(tmp_path: Path) -> None:
    directory = tmp_path / "share" / "man1"
    assert states(directory, PAGE) == [FileState.CREATE]

    write_pages(plan_pages(directory, {"x": PAGE}))

    assert (directory / "x.1").read_text() == PAGE
    assert states(directory, PAGE) == [FileState.UNCHANGED]
    assert states(directory, f"{PAGE}more\n") == [FileState.REPLACE]


def test_a_file_without_our_mark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.1").write_text(".TH X 1\n")

    with pytest.raises(UsageError, match="is not a page that"):
        plan_pages(tmp_path, {"x": PAGE})


def test_a_page_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x.1").mkdir()

    with pytest.raises(UsageError, match="cannot read"):
        plan_pages(tmp_path, {"x": PAGE})
