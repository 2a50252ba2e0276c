# SPDX-License-Identifier: Apache-2.0
import os
import socket

from ci_doctor.system.processes import listeners
from ci_doctor.system.processes.listeners import holders, is_listened_on, listening_inodes


def test_a_listener_is_found_and_held_by_its_process_until_it_closes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        inodes = listening_inodes(port)
        assert inodes == {os.fstat(server.fileno()).st_ino}
        assert list(holders([os.getpid(), os.getppid(), 2**22 + 1], inodes)) == [os.getpid()]
    assert not is_listened_on(port)


def test_a_bound_socket_that_does_not_listen_is_none() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert not is_listened_on(bound.getsockname()[1])


def test_both_sources_of_the_kernel_agree() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert set(listeners._listed(port)) == set(listeners._diagnosed(port))
