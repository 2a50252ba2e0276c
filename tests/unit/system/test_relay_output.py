# SPDX-License-Identifier: Apache-2.0
import os
import queue
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.system.relay_output import STDERR, STDOUT, Channel, CommandLog, Pump

_LIMIT_S = 180.0  # guards against hanging only
_FOREVER_MS = 3_600_000  # a pause that only a stop ends


class PumpedCommand:
    """The ends of a command that writes to a pump: its output, what the pump read, what it passed on."""

    def __init__(self, pause_ms: int) -> None:
        source, self._inlet = os.pipe()
        self._passed, target = os.pipe()
        stopper, self._stop = os.pipe()
        self._descriptors = [source, self._inlet, self._passed, target, stopper, self._stop]
        channel = Channel(
            source=source, inlet=self._inlet, target=target, numbers=(1,), is_terminal=False
        )
        self._pieces: queue.Queue[bytes] = queue.Queue()
        self._ended: queue.Queue[None] = queue.Queue()
        self._pump = Pump(
            channel,
            stopper,
            lambda piece, _: self._pieces.put(bytes(piece)),
            lambda: self._ended.put(None),
            pause_ms=pause_ms,
        )
        self._pump.start()

    def write(self, text: bytes) -> None:
        os.write(self._inlet, text)

    def piece(self) -> bytes:
        """The next piece that was read at once."""
        return self._pieces.get(timeout=_LIMIT_S)

    def stop(self) -> None:
        self._close(self._stop)
        self._ended.get(timeout=_LIMIT_S)

    def passed(self) -> bytes:
        """What has come out so far."""
        text = b""
        while select.select([self._passed], [], [], 0)[0]:
            text += os.read(self._passed, 1 << 20)
        return text

    def close(self) -> None:
        while self._descriptors:
            self._close(self._descriptors[0])

    def _close(self, descriptor: int) -> None:
        self._descriptors.remove(descriptor)
        os.close(descriptor)


@pytest.fixture
def pausing() -> Iterator[PumpedCommand]:
    command = PumpedCommand(pause_ms=_FOREVER_MS)
    yield command
    command.close()


def test_without_a_pause_each_piece_is_passed_on_when_it_comes() -> None:
    command = PumpedCommand(pause_ms=0)
    for text in (b".", b"F", b"."):
        command.write(text)
        assert command.piece() == text
    command.stop()
    assert command.passed() == b".F."
    command.close()


def test_what_comes_in_a_pause_is_passed_on_in_one_piece(pausing: PumpedCommand) -> None:
    pausing.write(b".")
    assert pausing.piece() == b"."
    for text in (b"F", b".", b"s"):
        pausing.write(text)
    pausing.stop()
    assert pausing.piece() == b"F.s"
    assert pausing.passed() == b".F.s"


def test_a_large_piece_is_followed_by_no_pause(pausing: PumpedCommand) -> None:
    line = b"x" * 1000
    for _ in range(3):
        pausing.write(line)
        assert pausing.piece() == line
    pausing.stop()
    assert pausing.passed() == 3 * line


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


def test_the_end_of_a_stream_is_nothing_that_the_command_wrote(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "command.log", MIB)
    log.add(memoryview(b"its last words\n"))
    last_at = log.last_at
    log.add(memoryview(b""))
    log.finish()

    assert log.last_at == last_at


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
