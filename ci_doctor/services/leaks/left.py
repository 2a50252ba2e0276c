# SPDX-License-Identifier: Apache-2.0
"""What a start has left behind, as values. Pure."""

import shlex
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class LeftKind(StrEnum):
    """What can outlive the process that made it."""

    SHARED_MEMORY = "shared memory"
    SEMAPHORE = "semaphore"
    SYSV_SHARED_MEMORY = "System V shared memory"
    SYSV_SEMAPHORES = "System V semaphores"
    SYSV_QUEUE = "System V message queue"
    TEMPORARY_FILE = "temporary file"
    TEMPORARY_DIRECTORY = "temporary directory"
    SOCKET = "unix socket"
    PORT = "port"


_IPCRM = {
    LeftKind.SYSV_SHARED_MEMORY: "-m",
    LeftKind.SYSV_SEMAPHORES: "-s",
    LeftKind.SYSV_QUEUE: "-q",
}


class LeftThing(Struct, frozen=True, kw_only=True):
    """One thing that `services` have left behind; `why` says how that is known.

    `name` is a path, the id of System V, or a port. `size` is bytes, None if it has none. `remedy`
    removes it. `strict` tells that one of the services may leave nothing.
    """

    kind: LeftKind
    name: str
    services: tuple[str, ...]
    why: str
    size: int | None = None
    remedy: str | None = None
    strict: bool = False


class LeftBehind(Struct, frozen=True, kw_only=True):
    """What was found after a stop.

    `unknown` counts by folder what came up meanwhile and belongs to nobody known. `unseen` names
    what could not be looked into and concerns strict services: processes, places, or the reason.
    """

    things: tuple[LeftThing, ...] = ()
    unknown: Mapping[str, int] = {}
    unseen: tuple[str, ...] = ()


def removal(kind: LeftKind, name: str) -> str | None:
    """The command that removes it; None if only its owner can."""
    if kind in _IPCRM:
        return f"ipcrm {_IPCRM[kind]} {name}"
    if kind is LeftKind.PORT:
        return f"ss -ltnp 'sport = :{name}'"
    if kind is LeftKind.TEMPORARY_DIRECTORY:
        return f"rm -r {shlex.quote(name)}"
    return f"rm {shlex.quote(name)}"
