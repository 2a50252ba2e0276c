# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.config import InitFile
from ci_doctor.scaffold.write import write_files


def file(path: str, text: str = "x\n") -> InitFile:
    return InitFile(path=path, text=text, why="")


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_files_are_written_whole_with_their_directories(tmp_path: Path) -> None:
    write_files(tmp_path, [file("a/b/c.toml", "c = 1\n"), file("d", "\ud800")])
    assert (tmp_path / "a" / "b" / "c.toml").read_text() == "c = 1\n"
    assert everything(tmp_path) == ["a", "a/b", "a/b/c.toml", "d"]
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o644


def test_one_that_exists_by_now_takes_back_all_that_was_written(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(UsageError, match="File exists; nothing was written"):
        write_files(tmp_path, [file("new/a"), file("b"), file("c")])
    assert everything(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "mine"


def test_a_link_to_nothing_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="File exists"):
        write_files(tmp_path, [file("a")])
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_that_cannot_be_made_is_an_error_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(UsageError, match="nothing was written"):
        write_files(tmp_path, [file("x"), file("a/b")])
    assert everything(tmp_path) == ["a"]


def test_a_signal_in_the_middle_takes_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def interrupted(temporary: str, path: Path) -> None:
        if path.name == "second":
            raise KeyboardInterrupt
        link(temporary, path)

    monkeypatch.setattr(os, "link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, [file("d/first"), file("second")])
    assert everything(tmp_path) == []


def test_without_hard_links_a_name_that_is_taken_is_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As link(2) on a file system without them (vfat, some containers).
    def unsupported(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    write_files(tmp_path, [file("a", "1")])
    assert (tmp_path / "a").read_text() == "1"
    with pytest.raises(UsageError, match="File exists"):
        write_files(tmp_path, [file("a", "2")])
    assert everything(tmp_path) == ["a"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(UsageError, match="nothing was written"):
            write_files(tmp_path, [file("a")])
    finally:
        tmp_path.chmod(0o755)
