# SPDX-License-Identifier: Apache-2.0
import os
import socket
from collections.abc import Iterator

import pytest

from ci_doctor.system.guardian_main import Wire


@pytest.fixture
def wires() -> Iterator[tuple[Wire, Wire]]:
    one, other = (Wire(end) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def test_messages_arrive_whole_and_in_order(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    messages = [("spawn", 1, b"\xff", None, {"a": (1, 2)}), ("kill", 2)]
    for message in messages:
        ours.put(message)
    assert theirs.receive() == []
    ours.send()
    assert theirs.receive() == [(message, []) for message in messages]


def test_a_message_larger_than_the_socket_is_sent_in_parts(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    content = os.urandom(1 << 20)
    ours.put(("large", content))
    received: list[tuple[tuple[object, ...], list[int]]] = []
    while not received:
        ours.send()
        received = theirs.receive() or []
    assert received == [(("large", content), [])]
    assert not ours.unsent


def test_a_file_descriptor_comes_with_its_message_and_is_not_inheritable(
    wires: tuple[Wire, Wire],
) -> None:
    ours, theirs = wires
    reading, writing = os.pipe()
    ours.put(("started", 1), [writing], giving=True)
    ours.send()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writing)
    ((message, (descriptor,)),) = theirs.receive() or []
    assert message == ("started", 1)
    assert not os.get_inheritable(descriptor)
    os.write(descriptor, b"hi")
    assert os.read(reading, 2) == b"hi"
    os.close(descriptor)
    os.close(reading)


def test_the_end_of_the_other_side_is_seen_after_its_last_message(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    ours.put(("exited", 1))
    ours.send()
    ours.close()
    assert theirs.receive() == [(("exited", 1), [])]
    assert theirs.receive() is None
