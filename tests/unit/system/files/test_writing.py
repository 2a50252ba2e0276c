# SPDX-License-Identifier: Apache-2.0
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.errors import UsageError
from ci_doctor.system.files.access import in_directory, make_directory, write_atomically

PACKAGE = Path(__file__).parents[4] / "ci_doctor"


def test_a_directory_is_made_with_its_parents_and_left_if_it_is_there(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    make_directory(place)
    (place / "file").touch()
    make_directory(place)
    assert (place / "file").exists()


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_what_is_no_directory_stays_and_is_an_error(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("theirs")
    else:
        place.symlink_to(tmp_path / "absent")
    with pytest.raises(FileExistsError):
        make_directory(place)
    assert place.is_symlink() or place.read_text() == "theirs"


def test_a_directory_that_vanishes_before_the_act_is_made_again(tmp_path: Path) -> None:
    place = tmp_path / "place"
    tries = []

    def act() -> str:
        tries.append(place.is_dir())
        if len(tries) < 5:
            place.rmdir()
        (place / "file").touch()
        return "done"

    assert in_directory(place, act) == "done"
    assert tries == [True] * 5
    assert (place / "file").exists()


def test_what_is_missing_for_another_reason_is_an_error_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        in_directory(tmp_path / "place", (tmp_path / "absent").read_bytes)


def test_a_write_whose_directory_vanishes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "place" / "file"
    replace = Path.replace
    removals = iter([True, True, False])

    def interleaved(self: Path, other: Path) -> Path:
        if next(removals):
            self.unlink()
            target.parent.rmdir()
        return replace(self, other)

    monkeypatch.setattr(Path, "replace", interleaved)
    write_atomically(target, b"whole")
    assert target.read_bytes() == b"whole"
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_no_other_module_trusts_in_a_directory_that_is_there_already() -> None:
    trusting = []
    for module in PACKAGE.rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        if re.search(r"mkdir\(.*exist_ok=True|makedirs\(", text):
            trusting.append(module.name)
    assert trusting == ["access.py"]


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


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
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
