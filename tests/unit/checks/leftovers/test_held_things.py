"""What a process holds."""

import os
import socket
from pathlib import Path

from ci_doctor.checks.leftovers.held_things import held_things
from tests.support.checks import check_context


def test_our_own_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        things = held_things(check_context(tmp_path), os.getpid())
        port = server.getsockname()[1]

    assert f"port {port}" in things


def test_of_a_process_that_has_ended_nothing_is_known(tmp_path: Path) -> None:
    assert held_things(check_context(tmp_path), 2**22 + 1) == ()
