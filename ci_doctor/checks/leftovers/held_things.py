# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: what a process holds that a job may need: ports, shared memory, GPUs."""

import contextlib
import os
from collections.abc import Mapping

from ci_doctor.checks.context import CheckContext
from ci_doctor.system.processes.listeners import listening_ports

# Of each process.
_SHOWN = 6


def read_listening_ports(_context: CheckContext) -> Mapping[int, int]:
    """The listening ports by the inode of the socket; none if /proc does not tell.

    For CheckContext.shared.
    """
    try:
        return listening_ports()
    except OSError:
        return {}


def held_things(context: CheckContext, pid: int) -> tuple[str, ...]:
    """`port 8000`, `/dev/shm/x`, `/dev/nvidia0`; empty if we may not look into the process."""
    ports = context.shared(read_listening_ports)
    things: dict[str, None] = {}
    folder = f"{context.proc}/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - thousands of Path objects
            with contextlib.suppress(OSError, ValueError):
                thing = _thing(os.readlink(f"{folder}/{name}"), ports)  # noqa: PTH115
                if thing is not None:
                    things[thing] = None
    return tuple(sorted(things)[:_SHOWN])


def _thing(link: str, ports: Mapping[int, int]) -> str | None:
    if link.startswith("socket:["):
        port = ports.get(int(link[8:-1]))
        return None if port is None else f"port {port}"
    if link.startswith(("/dev/shm/", "/dev/nvidia")):
        return link.removesuffix(" (deleted)")
    return None
