# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.system.relay.channel import STDERR, STDOUT
from ci_doctor.system.relay.command_log import CommandLog

MIB = 1 << 20


def test_only_this_user_may_read_it(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    log.close()

    assert log.path.stat().st_mode & 0o777 == 0o600


def test_its_disk_space_stays_bounded_while_it_grows(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    line = memoryview(b"x" * 1023 + b"\n")
    for _ in range(20 * 1024):
        log.add(line)

    assert log.path.stat().st_blocks * 512 <= 2 * MIB
    assert "--log-limit is 1 MiB" in log.finish()


def test_a_full_disk_ends_the_log_and_nothing_else(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._descriptor)
    os.close(full)

    log.add(memoryview(b"lost\n"))
    log.add(memoryview(b"lost, too\n"))

    assert log.problem == "No space left on device"
    assert log.finish() == ""


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "command.log").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError):
        CommandLog(tmp_path / "command.log", MIB)
    assert not (tmp_path / "elsewhere").exists()


def test_a_line_stays_whole_if_the_other_stream_writes_before_its_end(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    log.add(memoryview(b"before"), STDOUT)
    log.add(memoryview(b"Traceback\nValueError"), STDERR)
    log.add(memoryview(b"\n"), STDOUT)
    log.add(memoryview(b": no\n"), STDERR)

    assert log.path.read_bytes() == b"Traceback\nbefore\nValueError: no\n"
    log.finish()


def test_a_line_without_an_end_is_in_the_log_at_the_latest_when_it_is_finished(
    tmp_path: Path,
) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    log.add(memoryview(b"out"), STDOUT)
    log.add(memoryview(b"err"), STDERR)
    log.flush()
    assert log.path.read_bytes() == b"outerr"

    log.add(memoryview(b"!"), STDOUT)
    log.finish()
    assert log.path.read_bytes() == b"outerr!"


def test_a_line_that_never_ends_is_written_piece_by_piece(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    for _ in range(200):
        log.add(memoryview(b"." * 1024), STDOUT)

    assert log.path.stat().st_size >= 100 * 1024
    log.finish()
    assert log.path.stat().st_size == 200 * 1024


def test_an_unfinished_line_that_the_disk_does_not_take_is_a_problem(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._descriptor)
    os.close(full)

    log.add(memoryview(b"lost"))
    log.flush()

    assert log.problem == "No space left on device"
    log.finish()
