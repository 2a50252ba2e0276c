# SPDX-License-Identifier: Apache-2.0
import os
import resource
from pathlib import Path

import pytest

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.services.logs import open_log, read_root_lines


def test_each_start_has_a_log_of_its_own(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        path, descriptor = open_log(tmp_path / "logs", "vllm")
        os.close(descriptor)
        names.append(path.name)
    assert names == ["vllm-1.log", "vllm-2.log", "vllm-3.log"]


def test_a_log_directory_that_is_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(UsageError, match="cannot write logs"):
        open_log(tmp_path / "logs", "vllm")


def test_a_machine_without_room_for_a_log_is_no_mistake_of_the_user(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(InfraError, match="cannot write logs"):
            open_log(tmp_path, "vllm")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_line_numbers_are_those_of_the_whole_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(1, 20_001)))
    excerpt, counted = read_root_lines(log)
    assert counted
    assert (excerpt.line, excerpt.end_line) == (19_986, 20_000)
    assert excerpt.lines[0].startswith("line 19986 ")


def test_the_start_of_a_huge_log_is_never_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(8 * 2**30)  # a hole: no disk is used
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    excerpt, counted = read_root_lines(log)
    assert not counted
    assert excerpt.lines[-1] == "the end"


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"good\n\xff\xfe bad")
    assert read_root_lines(log)[0].lines == ("good", "\ufffd\ufffd bad")


def test_a_log_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    excerpt, counted = read_root_lines(tmp_path / "none")
    assert excerpt.lines == ()
    assert not counted
