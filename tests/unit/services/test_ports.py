# SPDX-License-Identifier: Apache-2.0
import os
import socket
from pathlib import Path

import pytest

from ci_doctor.services.ports import PortOwner, is_local, listens, owner_of, reserve_port
from ci_doctor.system.processes.listeners import _listed, listening_inodes


def test_a_reserved_port_can_be_listened_on_and_is_not_given_twice() -> None:
    ports = [reserve_port() for _ in range(50)]
    try:
        assert len({port.number for port in ports}) == 50
        with socket.create_server(("127.0.0.1", ports[0].number)):
            pass
    finally:
        for port in ports:
            port.release()


def test_a_reserved_port_is_out_of_the_way_of_outgoing_connections() -> None:
    port = reserve_port()
    port.release()
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert port.number < lowest or lowest < 11_000


def test_the_owner_of_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        owner = owner_of(port)
        assert owner is not None
        assert owner.pid == os.getpid()
        assert owner.describe().startswith(
            f"port {port} is owned by {owner.name} (pid {os.getpid()}, since 20"
        )
        assert listens([os.getpid()], port)
        assert not listens([os.getppid()], port)
    assert owner_of(port) is None
    assert not listens([os.getpid()], port)


def test_a_connection_is_no_listener() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert owner_of(client.getsockname()[1]) is None


def test_a_listener_is_found_among_the_listed_as_it_is_by_diagnosis() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        for one in (server, six):
            port = one.getsockname()[1]
            assert (
                listening_inodes(port)
                == frozenset(_listed(port))
                == {os.fstat(one.fileno()).st_ino}
            )


def test_an_owner_that_the_system_does_not_name_is_told_as_such() -> None:
    assert PortOwner(port=80).describe() == "port 80 is owned by a process of another user"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("::1", True),
        ("10.0.0.1", False),
    ],
)
def test_only_this_machine_s_listeners_can_be_seen(host: str, local: bool) -> None:
    assert is_local(host) is local
