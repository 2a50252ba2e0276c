# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from ci_doctor.system.files.growing import GrowingFile


def read_all(file: GrowingFile) -> bytes:
    text = b""
    while piece := file.read(256 * 1024):
        if file.is_restarted:
            file.is_restarted = False
            text = b""
        text += piece
    return text


def test_a_file_is_read_on_and_never_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = GrowingFile(path)
    assert (read_all(file), file.problem) == (b"", "No such file or directory")
    path.write_bytes(b"x" * 600_000)
    assert len(read_all(file)) == 600_000
    with path.open("ab") as log:
        log.write(b"more")
    assert (read_all(file), file.problem) == (b"more", None)
    file.close()


def test_a_file_that_was_replaced_or_cut_short_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a long first text\n")
    file = GrowingFile(path)
    first = GrowingFile(path, by_name=False)
    assert read_all(file) == read_all(first) == b"a long first text\n"
    path.write_text("cut\n")
    assert (read_all(file), read_all(first)) == (b"cut\n", b"")
    with path.open("a") as log:
        log.write("rest")
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").rename(path)
    assert file.read(100) == b"rest"
    assert (read_all(file), read_all(first)) == (b"new", b"rest")
    file.close()
    first.close()


def test_what_is_no_file_holds_nothing_and_no_descriptor(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for path, problem in ((tmp_path, "Is a directory"), (tmp_path / "pipe", "Not a regular file")):
        file = GrowingFile(path)
        assert (read_all(file), file.problem) == (b"", problem)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
