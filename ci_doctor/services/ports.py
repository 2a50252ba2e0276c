# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: reserves free ports, tells who owns a taken one, awaits that ports and GPUs are free again."""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.errors import CiDoctorError, InfraError
from ci_doctor.machine.gpus import GpuMemory, read_gpu_memory
from ci_doctor.model.words import moment_text
from ci_doctor.services.busy_timeout import aside
from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import (
    holders,
    is_listened_on,
    listening_inodes,
    socket_inodes,
)
from ci_doctor.system.processes.process_table import read_table

if TYPE_CHECKING:
    import psutil

# Ray's workers take 10002 to 19999 (docs.ray.io, "Ports configurations"): they start after us, and
# beside us.
_LOWEST = 20_000
_WORKERS_OF_RAY = 10_002
# Below are the ports of well-known servers, which may start at any time.
_KNOWN = 5_000
_HIGHEST = 65_535
_ENOUGH = 1_000
# Each attempt is at random: so many fail in a row only if nearly every port is taken.
_ATTEMPTS = 200
# Of one job, unlike that of a step or a build ("Environment variables", buildkite.com/docs).
_JOB = "BUILDKITE_JOB_ID"
_OUR_HOSTS = {"localhost", "0.0.0.0", "::", "::1"}  # noqa: S104 - compared, not bound


class ReservedPort:
    """A free TCP port that no other ci-doctor here will pick until `release`."""

    def __init__(self, number: int, mark: socket.socket) -> None:
        self.number = number
        self._mark = mark

    def release(self) -> None:
        """Let others pick it; may be called again."""
        self._mark.close()


class PortOwner(Struct, frozen=True, kw_only=True):
    """Who listens on a port or a unix socket.

    `pid` is None if the system does not tell (another user's process). `since` is RFC 3339 in UTC, to the second.
    `is_of_job`: it is known to be a process of the job of this process.
    """

    port: int | Path
    pid: int | None = None
    name: str | None = None
    since: str | None = None
    is_of_job: bool = False

    def describe(self) -> str:
        """`port 8000 is owned by nginx (pid 42, since 2026-11-21T02:03:04Z)`."""
        what = f"socket {self.port}" if isinstance(self.port, Path) else f"port {self.port}"
        if self.pid is None:
            return f"{what} is owned by a process of another user"
        whose = " of this job" if self.is_of_job else ""
        return f"{what} is owned by {self.name}{whose} (pid {self.pid}, since {self.since})"


def reserve_port() -> ReservedPort:
    """A port that is free on every address, and that no outgoing connection gets.

    The reservation is an abstract unix socket (unix(7)). It has the same scope as the port, the
    network namespace; it ends with the process, and leaves the port itself free for the server.
    Raises InfraError if none is free.
    """
    pool = port_pool(*_ephemeral_range())
    for _ in range(_ATTEMPTS):
        number = secrets.choice(pool)
        mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # Fails if another ci-doctor has reserved this port.
            mark.bind(f"\0ci-doctor/port/{number}")
            _bind_everywhere(number)
        except OSError:
            mark.close()
        else:
            return ReservedPort(number, mark)
    raise InfraError(
        f"no free port between {pool[0]} and {pool[-1]}", hint="see what listens there: ss -ltnp"
    )


def port_pool(lowest: int, highest: int) -> range:
    """From which ports to draw, if outgoing connections get `lowest` to `highest`. Never Ray's.

    A pool with too few ports would be used up. If all are too small, ours may meet a connection.
    """
    pools = (
        range(_LOWEST, lowest),
        range(max(_LOWEST, highest + 1), _HIGHEST + 1),
        range(_KNOWN, min(lowest, _WORKERS_OF_RAY)),
    )
    for pool in pools:
        if len(pool) >= _ENOUGH:
            return pool
    return range(_LOWEST, 60_001)


def _ephemeral_range() -> tuple[int, int]:
    """ip_local_port_range (ip(7)); that of Linux if it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        lowest, highest = map(int, text.split())
        return lowest, highest
    return 32_768, 60_999


def _bind_everywhere(number: int) -> None:
    """Raises OSError if `number` is taken on some address."""
    with socket.socket(socket.AF_INET) as plain:
        # A port whose connections are only in TIME_WAIT is free (tcp(7)).
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        plain.bind(("", number))
    if socket.has_dualstack_ipv6():
        with socket.socket(socket.AF_INET6) as six:
            six.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            six.bind(("", number))


def is_local(host: str) -> bool:
    """Whether `host` plainly means this machine, so that its listeners are in our /proc."""
    return host in _OUR_HOSTS or host.startswith("127.")


def _inodes(port: int | Path) -> frozenset[int]:
    return socket_inodes(port) if isinstance(port, Path) else listening_inodes(port)


def listens(pids: Iterable[int], port: int | Path) -> bool:
    """Whether one of `pids` listens on TCP `port`, or on the unix socket of that path."""
    inodes = _inodes(port)
    if not inodes:
        return False
    return next(holders(pids, inodes), None) is not None


def owner_of(port: int | Path) -> PortOwner | None:
    """Who listens on TCP `port` of this machine, or on that unix socket; None if nobody does."""
    inodes = _inodes(port)
    if not inodes:
        return None
    pids = (kin.pid for kin in read_table())
    pid = next(holders(pids, inodes), None)
    # A socket of another user's process shows its inode, and not who holds it.
    if pid is None:
        return PortOwner(port=port)
    return _described(port, pid)


def _described(port: int | Path, pid: int) -> PortOwner:
    # Late: a port is taken seldom, and the import takes tens of milliseconds.
    import psutil

    try:
        process = psutil.Process(pid)
        since = moment_text(process.create_time(), "seconds")
        is_of_job = _is_of_job(process)
        return PortOwner(port=port, pid=pid, name=process.name(), since=since, is_of_job=is_of_job)
    except psutil.Error:  # it has ended meanwhile
        return PortOwner(port=port)


def _is_of_job(process: "psutil.Process") -> bool:
    """Whether the job of this process has started `process`, as far as that can be known.

    On Buildkite by the job of its environment: jobs of one agent may share a session. Elsewhere by the session,
    which a script shares with all that it starts in the background (setsid(2)). Raises psutil.Error.
    """
    import psutil

    job = os.environ.get(_JOB)
    if job:
        try:
            return process.environ().get(_JOB) == job
        except psutil.AccessDenied:
            return False
    with contextlib.suppress(OSError):
        return os.getsid(process.pid) == os.getsid(0)
    return False


# --- what a service held is awaited until it is free again ---


_PORT_PAUSE_S = 0.02
# A look through the GPU driver costs far more than one at a port.
_GPU_PAUSE_S = 0.2
# What other programs of the machine may take meanwhile.
_GPU_MARGIN = 256 * 2**20


async def port_held(port: int, limit_s: float) -> tuple[str, ...]:
    """Wait for `limit_s` seconds until nobody listens on TCP `port` of this machine.

    Returns a sentence on who does, if somebody still does.
    """
    deadline = clock.now() + limit_s
    while is_listened_on(port):
        left_s = deadline - clock.now()
        if left_s <= 0:
            owner = owner_of(port)
            # Released between the two looks.
            if owner is None:
                return ()
            return (f"{owner.describe()}, still {limit_s:g} s after the stop",)
        await asyncio.sleep(min(_PORT_PAUSE_S, left_s))
    return ()


async def gpu_memory_held(before: Iterable[GpuMemory], limit_s: float) -> tuple[str, ...]:
    """Wait for `limit_s` seconds until no GPU has notably more in use than `before` the start.

    Returns a sentence for each that has, or on why that is not known.
    """
    used_before = {gpu.index: gpu.used for gpu in before}
    deadline = clock.now() + limit_s
    limit = f"{limit_s:g} s of the stop"
    silent = f"the driver did not report within {limit} how much memory of the GPUs is in use"
    held: tuple[str, ...] = (silent,)
    while True:
        try:
            # At least once, however short the limit is.
            now = await asyncio.wait_for(aside(read_gpu_memory), max(1.0, deadline - clock.now()))
        except TimeoutError:
            return held
        except CiDoctorError as error:
            return (str(error),)
        held = tuple(_grown(used_before, now, limit_s))
        left_s = deadline - clock.now()
        if not held or left_s <= 0:
            return held
        await asyncio.sleep(min(_GPU_PAUSE_S, left_s))


def _grown(
    used_before: Mapping[int, int | None], now: Iterable[GpuMemory], limit_s: float
) -> Iterator[str]:
    """A sentence for each GPU that has more in use than before."""
    for gpu in now:
        # A GPU that did not tell before is taken to have had nothing in use.
        before = used_before.get(gpu.index) or 0
        if gpu.used is None or gpu.used <= before + _GPU_MARGIN:
            continue
        mebibytes = before // 2**20
        yield (
            f"{gpu.describe()}, {limit_s:g} s after the stop; it was {mebibytes:,} MiB before the "
            "start"
        )
