# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.scaffold import look as tree
from ci_doctor.scaffold.look import TextReader, read_files
from tests.support.git_repository import git, make_repository


def make(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")


def test_without_git_all_files_are_listed_but_those_of_others(tmp_path: Path) -> None:
    make(tmp_path, "a.sh", "b/c.sh", "node_modules/d.sh", "b/.venv/e.sh", "third_party/f.sh")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = read_files(tmp_path)
    assert [name for name in found.files if name != "loop"] == ["a.sh", "b/c.sh"]
    assert not found.is_repository


def test_git_decides_what_belongs_to_a_repository(tmp_path: Path) -> None:
    make_repository(tmp_path, {".gitignore": "out/\n", "vendor/x.sh": "x"})
    make(tmp_path, "new.sh", "out/a.sh")
    found = read_files(tmp_path)
    assert found.files == (".gitignore", "new.sh")
    assert (found.is_repository, found.root) == (True, tmp_path)


def test_in_a_subdirectory_its_own_files_are_looked_at(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a b/c.sh": "x", "other/d.sh": "x"})
    found = read_files(tmp_path / "a b")
    assert found.files == ("c.sh",)
    assert found.root_files == ("a b/c.sh", "other/d.sh")


def test_a_work_tree_beside_its_repository_is_read_like_any_other(tmp_path: Path) -> None:
    make_repository(tmp_path / "main", {"a.sh": "x"})
    git(tmp_path / "main", "worktree", "add", "--quiet", str(tmp_path / "second"))
    assert read_files(tmp_path / "second").files == ("a.sh",)


def test_more_files_than_the_limit_are_left_out_and_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MOST_FILES", 2)
    make(tmp_path, "a", "b", "c", "d")
    found = read_files(tmp_path)
    assert (found.files, found.is_whole) == (("a", "b"), False)


def test_a_text_is_read_whatever_its_bytes_and_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_bytes(b"\xef\xbb\xbfcaf\xe9\r\nb\rc")
    assert TextReader(tmp_path).text("a.sh") == "caf\ufffd\nb\nc"


def test_what_lies_behind_a_link_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make(outside, "a.sh")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.sh").symlink_to(outside / "a.sh")
    (inside / "directory").symlink_to(outside)
    reader = TextReader(inside)
    for name in ("link.sh", "directory/a.sh", "gone.sh", "directory"):
        assert reader.text(name) is None
    assert reader.skipped == []


def test_large_files_and_those_beyond_the_sum_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "LARGEST_FILE", 4)
    monkeypatch.setattr(tree, "MOST_BYTES", 6)
    for name, size in {"a": 4, "b": 5, "c": 3, "d": 2}.items():
        (tmp_path / name).write_text("x" * size)
    reader = TextReader(tmp_path)
    read = [name for name in "abcd" if reader.text(name) is not None]
    assert (read, reader.skipped) == (["a", "d"], ["b", "c"])
