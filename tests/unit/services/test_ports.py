# SPDX-License-Identifier: Apache-2.0
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.services.ports import (
    PortOwner,
    is_local,
    listens,
    owner_of,
    port_pool,
    reserve_port,
)


def test_a_reserved_port_can_be_listened_on_and_is_not_given_twice() -> None:
    ports = [reserve_port() for _ in range(50)]
    try:
        assert len({port.number for port in ports}) == 50
        with socket.create_server(("127.0.0.1", ports[0].number)):
            pass
    finally:
        for port in ports:
            port.release()


def test_a_reserved_port_is_out_of_the_way_of_outgoing_connections_and_of_ray() -> None:
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [reserve_port() for _ in range(50)]
    for port in ports:
        port.release()
        assert not 10_002 <= port.number <= 19_999
        assert port.number in port_pool(lowest, highest)
        if lowest >= 21_000:
            assert 20_000 <= port.number < lowest


@pytest.mark.parametrize(
    ("lowest", "highest", "first", "last"),
    [
        pytest.param(32_768, 60_999, 20_000, 32_767, id="the range of Linux"),
        pytest.param(21_000, 65_535, 20_000, 20_999, id="a thousand below it"),
        pytest.param(20_999, 64_000, 64_001, 65_535, id="too few below it, enough above it"),
        pytest.param(20_999, 65_000, 5_000, 10_001, id="too few on both sides"),
        pytest.param(15_000, 65_535, 5_000, 10_001, id="it begins among the workers of Ray"),
        pytest.param(8_000, 65_535, 5_000, 7_999, id="it begins below them"),
        pytest.param(1_024, 65_535, 20_000, 60_000, id="it leaves nothing"),
    ],
)
def test_ports_are_drawn_from_above_the_workers_of_ray_where_enough_are_left(
    lowest: int, highest: int, first: int, last: int
) -> None:
    pool = port_pool(lowest, highest)

    assert (pool[0], pool[-1]) == (first, last)


def test_the_owner_of_a_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUILDKITE_JOB_ID", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        owner = owner_of(port)
        assert owner is not None
        assert owner.pid == os.getpid()
        assert owner.describe().startswith(
            f"port {port} is owned by {owner.name} of this job (pid {os.getpid()}, since 20"
        )
        assert listens([os.getpid()], port)
        assert not listens([os.getppid()], port)
    assert owner_of(port) is None
    assert not listens([os.getpid()], port)


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


@pytest.mark.parametrize(
    ("job", "own_session", "is_of_job"),
    [
        pytest.param("", False, True, id="same-session"),
        pytest.param("", True, False, id="own-session"),
        pytest.param("this", True, True, id="same-job-of-buildkite"),
        pytest.param("another", False, False, id="another-job-of-the-agent"),
    ],
)
def test_a_listener_is_of_this_job_by_the_job_of_its_environment_else_by_its_session(
    monkeypatch: pytest.MonkeyPatch, job: str, own_session: bool, is_of_job: bool
) -> None:
    program = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    monkeypatch.setenv("BUILDKITE_JOB_ID", job)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=own_session,
    ) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        monkeypatch.setenv("BUILDKITE_JOB_ID", "this" if job else "")
        owner = owner_of(port)
        process.communicate(b"\n")
    assert owner is not None
    assert owner.is_of_job == is_of_job
