# SPDX-License-Identifier: Apache-2.0
import os
import socket
import tempfile
from pathlib import Path

import pytest

from ci_doctor.system.processes import listeners
from ci_doctor.system.processes.listeners import (
    holders,
    is_listened_on,
    listening_inodes,
    listening_ports,
    served_bytes,
    socket_inodes,
)


def test_a_listener_is_found_and_held_by_its_process_until_it_closes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        inodes = listening_inodes(port)
        assert inodes == {os.fstat(server.fileno()).st_ino}
        assert list(holders([os.getpid(), os.getppid(), 2**22 + 1], inodes)) == [os.getpid()]
    assert not is_listened_on(port)


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_socket_that_is_bound_or_connected_does_not_listen(
    family: socket.AddressFamily, address: str
) -> None:
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with (
        socket.socket(family) as bound,
        socket.create_server((address, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        bound.bind((address, 0))
        assert not is_listened_on(bound.getsockname()[1])
        assert not is_listened_on(client.getsockname()[1])
        assert is_listened_on(server.getsockname()[1])


def test_both_sources_of_the_kernel_agree() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        ours = {os.fstat(one.fileno()).st_ino: one.getsockname()[1] for one in (server, six)}
        assert ours.items() <= dict(listeners._listed()).items()
        assert ours.items() <= listening_ports().items()
        for port in ours.values():
            assert port in dict(listeners._diagnosed(port)).values()


def test_what_a_server_sends_is_counted_and_what_it_gets_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted = server.accept()[0]
            client.sendall(b"a request")
            assert accepted.recv(20) == b"a request"
            assert list(served_bytes(port).values()) == [0]
            accepted.sendall(b"answer")
            assert client.recv(20) == b"answer"
            assert list(served_bytes(port).values()) == [6]
            accepted.close()
        assert list(served_bytes(port).values()) == [1]


def test_the_listener_of_a_unix_socket_is_known_by_its_path_however_it_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        path = Path(folder, "x.sock")
        monkeypatch.chdir(folder)
        server.bind("x.sock")
        assert not socket_inodes(path)
        server.listen()
        assert list(holders([os.getpid()], socket_inodes(path))) == [os.getpid()]
        path.rename(Path(folder, "y.sock"))
        path.touch()
        assert not socket_inodes(path), "another file has its name"
        monkeypatch.undo()
