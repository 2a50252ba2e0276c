# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.diagnosis.reading.expand import expand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.log",
        "a.log.1",
        "run/console.txt.gz",
        "run/notes.md",
        ".hidden.log",
        ".git/x.log",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    return tmp_path


def test_a_folder_means_all_logs_in_it_and_below(folder: Path) -> None:
    (folder / "run" / "loop").symlink_to(folder)

    names = expand([str(folder)]).names

    assert names == tuple(str(folder / each) for each in ("a.log.1", "b.log", "run/console.txt.gz"))


def test_a_pattern_means_the_files_that_match_it(folder: Path) -> None:
    assert expand([f"{folder}/*.log"]).names == (str(folder / "b.log"),)
    assert expand([f"{folder}/**/*.gz"]).names == (str(folder / "run/console.txt.gz"),)


def test_a_file_counts_once_whatever_it_is_called(folder: Path) -> None:
    log = folder / "b.log"
    (folder / "same.log").hardlink_to(log)
    (folder / "link.log").symlink_to(log)

    names = expand([str(log), str(folder / "link.log"), f"{folder}/*.log", "-", "-"]).names

    assert names == (str(log), "-")


def test_a_name_with_signs_of_a_pattern_is_a_file_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "log[1].log"
    path.write_text("text\n")

    assert expand([str(path)]).names == (str(path),)


def test_what_cannot_be_read_has_a_reason(folder: Path) -> None:
    empty = folder / "empty"
    empty.mkdir()
    missing, pattern = str(folder / "missing.log"), f"{folder}/*.nothing"

    unreadable = expand([missing, pattern, str(empty)]).unreadable

    assert unreadable == {
        missing: "No such file or directory",
        pattern: "no file matches",
        str(empty): "holds no logs",
    }


def test_of_a_huge_folder_the_first_logs_are_read_and_the_limit_is_said(tmp_path: Path) -> None:
    for number in range(1001):
        os.close(os.open(tmp_path / f"{number:04}.log", os.O_CREAT | os.O_WRONLY))

    names = expand([str(tmp_path)])

    assert len(names.names) == 1000
    assert names.limited == {str(tmp_path): "only its first 1000 logs are read"}
