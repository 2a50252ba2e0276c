"""Eight ranks, and one transfer for all of them."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "cache_rank.py"
RANKS = 8


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@contextmanager
def ranks(
    directory: Path, server: socket.socket, timeout: str
) -> Iterator[list[subprocess.Popen[str]]]:
    port = str(server.getsockname()[1])
    words = [sys.executable, str(PROGRAM), str(directory), port, timeout]
    with ExitStack() as stack:
        started = []
        for _ in range(RANKS):
            process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process)
        yield started


def leader_of(server: socket.socket) -> tuple[socket.socket, int]:
    """The connection of the rank that makes the transfer, and its process id."""
    connection, _ = server.accept()
    with connection.makefile() as lines:
        return connection, int(lines.readline())


def printed(processes: list[subprocess.Popen[str]]) -> Counter[str]:
    return Counter(process.communicate(timeout=60)[0].strip() for process in processes)


def assert_nobody_else_asked(server: socket.socket) -> None:
    # All ranks have ended, so a further connection would stand in the queue by now.
    server.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.accept()


def test_eight_ranks_make_one_transfer(tmp_path: Path) -> None:
    with listening() as server, ranks(tmp_path, server, "60") as started:
        connection, _ = leader_of(server)
        connection.sendall(b"restored")
        connection.close()

        assert printed(started) == {"restored own": 1, "restored shared": RANKS - 1}
        assert_nobody_else_asked(server)


@pytest.mark.nightly
def test_eight_ranks_wait_for_one_time_out_of_a_store_that_hangs(tmp_path: Path) -> None:
    with listening() as server, ranks(tmp_path, server, "0.2") as started:
        connection, _ = leader_of(server)

        assert printed(started) == {"failed own": 1, "failed shared": RANKS - 1}
        connection.close()
        assert_nobody_else_asked(server)


def test_a_leader_that_is_killed_is_taken_over(tmp_path: Path) -> None:
    with listening() as server, ranks(tmp_path, server, "60") as started:
        first, killed = leader_of(server)
        os.kill(killed, signal.SIGKILL)
        second, successor = leader_of(server)
        second.sendall(b"restored")
        second.close()

        assert successor != killed
        assert printed(started) == {"": 1, "restored own": 1, "restored shared": RANKS - 2}
        first.close()
        assert_nobody_else_asked(server)
