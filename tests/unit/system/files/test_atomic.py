# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.errors import UsageError
from ci_doctor.system.files.atomic import write_atomically


def test_folders_are_made_and_nothing_else_lies_there(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "file", b"1")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file"]
    assert (tmp_path / "a" / "b" / "file").stat().st_mode & 0o777 == 0o644


def test_a_reader_of_the_old_file_goes_on_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new", mode=0o600)
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


@given(st.binary(max_size=10_000))
def test_the_content_is_whole(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "whole"
    write_atomically(path, content)
    assert path.read_bytes() == content


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("x" * 255), b"1")
    assert (tmp_path / ("x" * 255)).exists()


def test_what_is_no_file_is_left_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "fifo", tmp_path / "folder", Path("/dev/null")):
        before = path.stat().st_mode
        with pytest.raises(UsageError, match="not a regular file"):
            write_atomically(path, b"1")
        assert path.stat().st_mode == before


def test_where_it_cannot_be_written_the_error_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot write") as caught:
        write_atomically(tmp_path / "file" / "below", b"1")
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
