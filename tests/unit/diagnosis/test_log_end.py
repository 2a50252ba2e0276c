# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from ci_doctor.diagnosis.log_end import read_log_end
from ci_doctor.diagnosis.root_lines import Excerpt
from ci_doctor.system.files.bounded_log import LogBound


def test_line_numbers_are_those_of_the_whole_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(1, 20_001)))
    excerpt = read_log_end(log).excerpt
    assert (excerpt.line, excerpt.end_line) == (19_986, 20_000)
    assert excerpt.lines[0].startswith("line 19986 ")


def test_the_start_of_a_huge_log_is_never_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(8 * 2**30)  # sparse: no disk is used
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    excerpt = read_log_end(log).excerpt
    assert (excerpt.line, excerpt.end_line) == (None, None)
    assert excerpt.lines[-1] == "the end"


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"good\n\xff\xfe bad")
    assert read_log_end(log).excerpt.lines == ("good", "\ufffd\ufffd bad")


def test_a_log_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    assert read_log_end(tmp_path / "none").excerpt == Excerpt()


def test_the_end_of_a_log_that_is_being_bounded_shows_no_zeros(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"%-63d\n" % number for number in range(3000)))
    LogBound(log, 64 * 1024).check()  # what it frees is within the part that is read
    with log.open("ab") as file:
        file.write(b"a \0 b\xff\n")
    excerpt = read_log_end(log).excerpt
    assert excerpt.lines[-1] == "a  b\ufffd"
    assert excerpt.line is None, "lines are missing"
    assert all("\0" not in line for line in excerpt.lines)
    LogBound(log, 64 * 1024).finish()
