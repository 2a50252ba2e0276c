# SPDX-License-Identifier: Apache-2.0
"""Reads the places where things outlive their makers: folders, System V tables, sockets."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.services.leaks.left import LeftKind

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - read, not written
_LISTEN = "0A"  # TCP_LISTEN, include/net/tcp_states.h
_GETPID = 11  # semctl(2), linux/sem.h
_TABLES = {
    LeftKind.SYSV_SHARED_MEMORY: ("shm", "shmid", ("cpid", "lpid")),
    LeftKind.SYSV_SEMAPHORES: ("sem", "semid", ()),
    LeftKind.SYSV_QUEUE: ("msg", "msqid", ("lspid", "lrpid")),
}


class IpcObject(Struct, frozen=True, kw_only=True):
    """A System V object: its owner, and the processes that its table names (proc(5))."""

    kind: LeftKind
    id: int
    uid: int
    pids: tuple[int, ...]
    size: int | None


class PlacesSnapshot(Struct, frozen=True, kw_only=True):
    """What is there now: the inode of each entry of the folders by path, System V objects by id."""

    files: Mapping[str, int]
    objects: Mapping[tuple[LeftKind, int], IpcObject]


def snapshot(folders: Iterable[str]) -> PlacesSnapshot:
    """Look into `folders`, not below; one that cannot be read is empty."""
    files: dict[str, int] = {}
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            files.update((entry.path, entry.inode()) for entry in entries)
    objects = {}
    for kind in _TABLES:
        for found in _objects(kind):
            objects[kind, found.id] = found
    return PlacesSnapshot(files=files, objects=objects)


def _objects(kind: LeftKind) -> Iterator[IpcObject]:
    name, id_column, pid_columns = _TABLES[kind]
    try:
        head, *lines = Path(f"/proc/sysvipc/{name}").read_text().splitlines()
    except (OSError, ValueError):  # a kernel without System V IPC
        return
    columns = head.split()
    for line in lines:
        values = dict(zip(columns, line.split(), strict=False))
        size = int(values["size"]) if "size" in values else None
        yield IpcObject(
            kind=kind,
            id=int(values[id_column]),
            uid=int(values["uid"]),
            pids=tuple(int(values[column]) for column in pid_columns),
            size=size,
        )


def semaphore_pids(number: int) -> frozenset[int]:
    """The processes that used each semaphore of a set last: its table names none."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    pids: set[int] = set()
    index = 0
    while (pid := libc.semctl(number, index, _GETPID)) >= 0:
        pids.add(pid)
        index += 1
    return frozenset(pids)


def bound_sockets() -> dict[int, str]:
    """The path of each unix socket that is bound to one, by the socket's inode (proc_net(5))."""
    paths = {}
    for line in _lines("/proc/self/net/unix"):
        # Seven fields, and the path if there is one; `@` begins a name without a file.
        fields = line.split(None, 7)
        if len(fields) == 8 and not fields[7].startswith("@"):
            paths[int(fields[6])] = fields[7]
    return paths


def listening_ports() -> dict[int, int]:
    """The TCP port of each listening socket, by inode."""
    ports = {}
    for table in ("tcp", "tcp6"):
        for line in _lines(f"/proc/self/net/{table}"):
            fields = line.split(None, 10)
            if len(fields) > 9 and fields[3] == _LISTEN:
                ports[int(fields[9])] = int(fields[1].rpartition(":")[2], 16)
    return ports


def _lines(path: str) -> Iterator[str]:
    """Those of a table of the kernel, without its header."""
    try:
        text = Path(path).read_text(errors="surrogateescape")
    except OSError:
        return
    yield from text.splitlines()[1:]
