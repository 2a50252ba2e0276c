# SPDX-License-Identifier: Apache-2.0
"""How the output of a command is passed on: at once, or after a pause in which more may come."""

import os
import queue
import select
from collections.abc import Iterator

import pytest

from ci_doctor.system.relay.channel import Channel
from ci_doctor.system.relay.pump import Pump

_LIMIT_S = 20.0
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
